//! Memory for the groups of aggregations: charged to tenants, each of which has so much at most.
//!
//! A run asks for more as its groups get more. One that gets no more gives out what it has as partial states and
//! goes on: this is never an error.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use perigee_ndp::GroupMemory;
use perigee_types::DbId;

/// What the tenants' groups take.
#[derive(Debug)]
pub(crate) struct GroupLedger {
    /// Most bytes of one tenant.
    most: usize,
    held: Mutex<HashMap<DbId, usize>>,
}

impl GroupLedger {
    /// A ledger in which each tenant may have so many bytes.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            held: Mutex::default(),
        })
    }

    /// The account of a tenant.
    pub(crate) fn account(self: &Arc<Self>, db: DbId) -> Arc<dyn GroupMemory> {
        Arc::new(Account {
            ledger: self.clone(),
            db,
        })
    }

    /// Bytes that are charged to all tenants.
    pub(crate) fn bytes(&self) -> usize {
        self.held.lock().values().sum()
    }
}

struct Account {
    ledger: Arc<GroupLedger>,
    db: DbId,
}

impl GroupMemory for Account {
    fn take(&self, bytes: usize) -> bool {
        let mut held = self.ledger.held.lock();
        let own = held.get(&self.db).copied().unwrap_or(0);
        let fits = own.saturating_add(bytes) <= self.ledger.most;
        if fits {
            held.insert(self.db, own + bytes);
        }
        fits
    }

    fn give_back(&self, bytes: usize) {
        let mut held = self.ledger.held.lock();
        let own = held.get_mut(&self.db).expect("it was charged before");
        *own -= bytes;
        if *own == 0 {
            held.remove(&self.db);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tenant_has_its_own_memory() {
        let ledger = GroupLedger::new(100);
        let (one, two) = (ledger.account(DbId(1)), ledger.account(DbId(2)));
        assert!(one.take(60) && one.take(40) && !one.take(1));
        assert!(two.take(100), "another tenant's are not its own");
        assert!(!ledger.account(DbId(1)).take(1), "all its runs share them");
        assert_eq!(ledger.bytes(), 200);
        one.give_back(100);
        two.give_back(100);
        assert!(one.take(100) && !one.take(usize::MAX));
        assert_eq!(ledger.bytes(), 100);
    }
}
