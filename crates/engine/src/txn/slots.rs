//! Which transaction slots of the system page are free.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use super::system::SLOTS;
use crate::EngineError;

/// The free slots. A slot that is taken belongs to one transaction, and so does its undo log.
#[derive(Debug)]
pub(crate) struct Slots {
    free: Mutex<BTreeSet<usize>>,
}

impl Slots {
    /// All slots but `taken`.
    pub(crate) fn new(taken: impl Iterator<Item = usize>) -> Self {
        let mut free: BTreeSet<_> = (0..SLOTS).collect();
        for slot in taken {
            free.remove(&slot);
        }
        Self {
            free: Mutex::new(free),
        }
    }

    /// Takes the first free slot: low slots are used most, so that few undo pages are.
    pub(crate) fn take(&self) -> Result<usize, EngineError> {
        self.free
            .lock()
            .pop_first()
            .ok_or(EngineError::TooManyTransactions(SLOTS))
    }

    /// Gives a slot back.
    pub(crate) fn give_back(&self, slot: usize) {
        assert!(
            self.free.lock().insert(slot),
            "transaction slot {slot} is given back twice"
        );
    }
}
