//! The lock of a table's definition: shared by transactions that lock or write in the table, exclusive
//! for DDL and for a load into an empty table.
//!
//! As with other locks nobody queues: who finds it taken waits for one who stands in the way and tries
//! again, so that a circle of waits is found whatever kinds of locks it goes through. Who wants the lock
//! exclusively says so, and others who come later wait for that one: it gets its turn.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::LockMode;
use super::registry::{Party, Registry};
use crate::EngineError;
use crate::scan::CancelToken;

/// The lock of a definition, the same for all versions of a table.
#[derive(Debug, Default)]
pub(crate) struct DefinitionLock(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// One entry a hold; a party may have several.
    holds: Vec<(Party, LockMode)>,
    /// Who wants it exclusively, in the order of coming.
    wanted: Vec<Party>,
}

impl DefinitionLock {
    /// Takes the lock; fails with one who stands in the way.
    fn take(&self, party: Party, mode: LockMode) -> Result<(), Party> {
        let mut state = self.0.lock();
        let others = state.holds.iter().filter(|(other, _)| *other != party);
        let exclusive = |held: LockMode| LockMode::Exclusive == held;
        let mut blocking = others.filter(|(_, held)| exclusive(mode) || exclusive(*held));
        if let Some((holder, _)) = blocking.next() {
            return Err(*holder);
        }
        match state.wanted.first() {
            Some(earlier) if *earlier != party => Err(*earlier),
            _ => {
                state.holds.push((party, mode));
                Ok(())
            }
        }
    }

    fn release(&self, party: Party, mode: LockMode) {
        let mut state = self.0.lock();
        let hold = state.holds.iter().position(|hold| *hold == (party, mode));
        state
            .holds
            .swap_remove(hold.expect("a hold is released once"));
    }

    fn share(&self, party: Party) {
        let mut state = self.0.lock();
        let own = (party, LockMode::Exclusive);
        let hold = state.holds.iter_mut().find(|hold| **hold == own);
        hold.expect("it is held exclusively").1 = LockMode::Shared;
    }
}

/// Says that a party wants a lock exclusively, as long as it lives.
struct Wanting<'l> {
    lock: &'l DefinitionLock,
    party: Party,
}

impl<'l> Wanting<'l> {
    fn new(lock: &'l DefinitionLock, party: Party) -> Self {
        lock.0.lock().wanted.push(party);
        Self { lock, party }
    }
}

impl Drop for Wanting<'_> {
    fn drop(&mut self) {
        let mut state = self.lock.0.lock();
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
    mode: LockMode,
}

impl DefinitionHold {
    /// Takes a lock, after those who stand in the way.
    ///
    /// # Errors
    /// As [`Registry::wait_for`].
    pub async fn take(
        registry: &Registry,
        lock: &Arc<DefinitionLock>,
        (party, mode): (Party, LockMode),
        deadline: Instant,
        cancel: &CancelToken,
    ) -> Result<Self, EngineError> {
        let _wanting = (mode == LockMode::Exclusive).then(|| Wanting::new(lock, party));
        while let Err(holder) = lock.take(party, mode) {
            registry.wait_for(party, holder, deadline, cancel).await?;
        }
        let lock = lock.clone();
        Ok(Self { lock, party, mode })
    }

    /// Lets others share a lock that was held exclusively.
    pub fn share(&mut self, registry: &Registry) {
        if self.mode == LockMode::Exclusive {
            self.lock.share(self.party);
            self.mode = LockMode::Shared;
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
        use LockMode::{Exclusive, Shared};
        let lock = DefinitionLock::default();
        assert_eq!(lock.take(A, Shared), Ok(()));
        assert_eq!(lock.take(B, Shared), Ok(()));
        assert_eq!(lock.take(A, Shared), Ok(()), "again");
        let wanting = Wanting::new(&lock, C);
        assert_eq!(lock.take(C, Exclusive), Err(A));
        lock.release(A, Shared);
        lock.release(A, Shared);
        assert_eq!(lock.take(A, Shared), Err(C), "who comes later waits");
        assert_eq!(lock.take(C, Exclusive), Err(B));
        lock.release(B, Shared);
        assert_eq!(lock.take(C, Exclusive), Ok(()));
        drop(wanting);
        assert_eq!(lock.take(A, Shared), Err(C));
        lock.share(C);
        assert_eq!(lock.take(A, Shared), Ok(()));
        lock.release(C, Shared);
        let earlier = Wanting::new(&lock, B);
        let _later = Wanting::new(&lock, C);
        lock.release(A, Shared);
        assert_eq!(lock.take(C, Exclusive), Err(B));
        drop(earlier);
        assert_eq!(lock.take(C, Exclusive), Ok(()));
    }
}
