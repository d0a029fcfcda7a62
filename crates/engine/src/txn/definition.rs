//! The lock of a table's definition: shared by transactions that lock or write in the table, exclusive
//! for DDL, for a load into an empty table and for LOCK TABLES … WRITE; and one that only others of its
//! kind share, for LOCK TABLES … READ.
//!
//! As with other locks nobody queues: who finds it taken waits for one who stands in the way and tries
//! again, so that a circle of waits is found whatever kinds of locks it goes through. Who wants the lock
//! exclusively says so, and others who come later wait for that one: it gets its turn.

use std::sync::Arc;

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::registry::{Party, Registry, Seeker};
use crate::EngineError;
use crate::scan::CancelToken;

/// How a table is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableUse {
    /// Others may do the same.
    Shared,
    /// Nobody locks or writes rows; others may keep them off, too.
    Still,
    /// Nobody else uses the table.
    Exclusive,
}

impl TableUse {
    fn admits(self, other: Self) -> bool {
        self == other && self != Self::Exclusive
    }
}

/// The lock of a definition, the same for all versions of a table.
#[derive(Debug, Default)]
pub(crate) struct DefinitionLock {
    state: Mutex<State>,
    /// Who keeps the table to himself for statements to come, so that others do not read it either: the number of a
    /// change of definitions and one; 0 if nobody.
    closed: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// One entry a hold; a party may have several.
    holds: Vec<(Party, TableUse)>,
    /// Who wants more than to share it, in the order of coming.
    wanted: Vec<Party>,
}

impl DefinitionLock {
    /// Takes the lock; fails with one who stands in the way.
    fn take(&self, seeker: Seeker, mode: TableUse) -> Result<(), Party> {
        let mut state = self.state.lock();
        let mut is_alone = false;
        for (party, held) in &state.holds {
            match seeker.is(*party) {
                true => is_alone |= *held == TableUse::Exclusive,
                false if !mode.admits(*held) => return Err(*party),
                false => {}
            }
        }
        // Who has it alone does not wait for those who want it.
        match state.wanted.first() {
            Some(earlier) if !is_alone && !seeker.is(*earlier) => Err(*earlier),
            _ => {
                state.holds.push((seeker.party, mode));
                Ok(())
            }
        }
    }

    /// Has others wait who come to read the table.
    pub fn close(&self, change: u64) {
        self.closed.store(change + 1, Ordering::SeqCst);
    }

    /// Lets others read the table again.
    pub fn open(&self) {
        self.closed.store(0, Ordering::SeqCst);
    }

    /// Who has others wait who come to read the table.
    pub fn closed_by(&self) -> Option<Party> {
        let closed = self.closed.load(Ordering::SeqCst);
        closed.checked_sub(1).map(Party::Change)
    }

    fn release(&self, party: Party, mode: TableUse) {
        let mut state = self.state.lock();
        let hold = state.holds.iter().position(|hold| *hold == (party, mode));
        state
            .holds
            .swap_remove(hold.expect("a hold is released once"));
    }

    fn share(&self, party: Party) {
        let mut state = self.state.lock();
        let own = (party, TableUse::Exclusive);
        let hold = state.holds.iter_mut().find(|hold| **hold == own);
        hold.expect("it is held exclusively").1 = TableUse::Shared;
    }
}

/// Says that a party wants more than to share a lock, as long as it lives.
struct Wanting<'l> {
    lock: &'l DefinitionLock,
    party: Party,
}

impl<'l> Wanting<'l> {
    fn new(lock: &'l DefinitionLock, party: Party) -> Self {
        lock.state.lock().wanted.push(party);
        Self { lock, party }
    }
}

impl Drop for Wanting<'_> {
    fn drop(&mut self) {
        let mut state = self.lock.state.lock();
        let own = state.wanted.iter().position(|party| *party == self.party);
        state.wanted.remove(own.expect("noted when it was made"));
    }
}

/// A table's definition, kept as it is as long as this lives. Those who wait for it are told when the
/// party ends.
#[derive(Debug)]
pub(crate) struct DefinitionHold {
    lock: Arc<DefinitionLock>,
    party: Party,
    mode: TableUse,
}

impl DefinitionHold {
    /// Takes a lock, after those who stand in the way.
    ///
    /// # Errors
    /// As [`Registry::wait_for`].
    pub async fn take(
        registry: &Registry,
        lock: &Arc<DefinitionLock>,
        (seeker, mode): (Seeker, TableUse),
        deadline: Instant,
        cancel: &CancelToken,
    ) -> Result<Self, EngineError> {
        let party = seeker.party;
        let wanting = (mode != TableUse::Shared).then(|| Wanting::new(lock, party));
        while let Err(holder) = lock.take(seeker, mode) {
            registry.wait_for(seeker, holder, deadline, cancel).await?;
        }
        drop(wanting);
        if mode == TableUse::Still {
            // Who waits for its turn may be of its kind.
            registry.wake(party);
        }
        let lock = lock.clone();
        Ok(Self { lock, party, mode })
    }

    /// Lets others share a lock that was held exclusively.
    pub fn share(&mut self, registry: &Registry) {
        if self.mode == TableUse::Exclusive {
            self.lock.share(self.party);
            self.mode = TableUse::Shared;
            registry.wake(self.party);
        }
    }
}

impl Drop for DefinitionHold {
    fn drop(&mut self) {
        self.lock.release(self.party, self.mode);
    }
}

#[cfg(test)]
mod tests {
    use perigee_types::TrxId;

    use super::*;

    const A: Party = Party::Transaction(TrxId(1));
    const B: Party = Party::Transaction(TrxId(2));
    const C: Party = Party::Change(1);

    #[test]
    fn an_exclusive_lock_gets_its_turn() {
        use TableUse::{Exclusive, Shared};
        let lock = DefinitionLock::default();
        assert_eq!(lock.take(A.into(), Shared), Ok(()));
        assert_eq!(lock.take(B.into(), Shared), Ok(()));
        assert_eq!(lock.take(A.into(), Shared), Ok(()), "again");
        let wanting = Wanting::new(&lock, C);
        assert_eq!(lock.take(C.into(), Exclusive), Err(A));
        lock.release(A, Shared);
        lock.release(A, Shared);
        assert_eq!(lock.take(A.into(), Shared), Err(C), "who comes later waits");
        assert_eq!(lock.take(C.into(), Exclusive), Err(B));
        lock.release(B, Shared);
        assert_eq!(lock.take(C.into(), Exclusive), Ok(()));
        drop(wanting);
        assert_eq!(lock.take(A.into(), Shared), Err(C));
        lock.share(C);
        assert_eq!(lock.take(A.into(), Shared), Ok(()));
        lock.release(C, Shared);
        let earlier = Wanting::new(&lock, B);
        let _later = Wanting::new(&lock, C);
        lock.release(A, Shared);
        assert_eq!(lock.take(C.into(), Exclusive), Err(B));
        drop(earlier);
        assert_eq!(lock.take(C.into(), Exclusive), Ok(()));
    }

    #[test]
    fn readers_keep_writers_off_and_each_other_not() {
        use TableUse::{Exclusive, Shared, Still};
        let lock = DefinitionLock::default();
        assert_eq!(lock.take(A.into(), Still), Ok(()));
        assert_eq!(lock.take(B.into(), Still), Ok(()));
        assert_eq!(lock.take(C.into(), Shared), Err(A));
        assert_eq!(lock.take(C.into(), Exclusive), Err(A));
        lock.release(A, Still);
        lock.release(B, Still);
        assert_eq!(lock.take(C.into(), Shared), Ok(()));
        assert_eq!(lock.take(A.into(), Still), Err(C));
    }

    #[test]
    fn what_a_session_locked_is_free_for_its_transactions() {
        use TableUse::{Exclusive, Shared};
        let lock = DefinitionLock::default();
        assert_eq!(lock.take(C.into(), Exclusive), Ok(()));
        let _waiting = Wanting::new(&lock, B);
        let own = Seeker {
            party: A,
            ally: Some(C),
        };
        assert_eq!(lock.take(own, Shared), Ok(()));
        lock.release(A, Shared);
        assert_eq!(lock.take(C.into(), Exclusive), Ok(()), "DDL of the session");
        assert_eq!(lock.take(B.into(), Shared), Err(C));
    }
}
