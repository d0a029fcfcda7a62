//! What is counted of transactions, for operators.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Counters, each added to once in a transaction or a wait.
#[derive(Debug, Default)]
pub(super) struct Counters {
    committed: AtomicU64,
    rolled_back: AtomicU64,
    lock_waits: AtomicU64,
    deadlocks: AtomicU64,
    lock_timeouts: AtomicU64,
    late: AtomicUsize,
}

/// Counts a transaction that ends in the background as long as it lives.
pub(super) struct Late<'a>(&'a AtomicUsize);

impl Drop for Late<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counters {
    pub(super) fn late(&self) -> Late<'_> {
        self.late.fetch_add(1, Ordering::Relaxed);
        Late(&self.late)
    }

    pub(super) fn ended(&self, committed: bool) {
        add_one(match committed {
            true => &self.committed,
            false => &self.rolled_back,
        });
    }

    pub(super) fn waits(&self) {
        add_one(&self.lock_waits);
    }

    pub(super) fn deadlock(&self) {
        add_one(&self.deadlocks);
    }

    pub(super) fn timeout(&self) {
        add_one(&self.lock_timeouts);
    }

    /// The counters; the rest of the figures is the registry's.
    pub(super) fn figures(&self) -> TransactionFigures {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TransactionFigures {
            committed: get(&self.committed),
            rolled_back: get(&self.rolled_back),
            lock_waits: get(&self.lock_waits),
            deadlocks: get(&self.deadlocks),
            lock_timeouts: get(&self.lock_timeouts),
            late: self.late.load(Ordering::Relaxed),
            ..TransactionFigures::default()
        }
    }
}

fn add_one(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// What became of transactions since the engine was opened, and which there are. Only those count that
/// locked or wrote something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionFigures {
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that were rolled back.
    pub rolled_back: u64,
    /// Waits for locks of others, on rows or definitions.
    pub lock_waits: u64,
    /// Waits that would have closed a circle and were refused.
    pub deadlocks: u64,
    /// Waits that took too long.
    pub lock_timeouts: u64,
    /// Transactions that end in the background, because nobody waits for their end any more or
    /// storage does not let it come about yet.
    pub late: usize,
    /// Running transactions.
    pub active: usize,
    /// Open read views.
    pub views: usize,
    /// How long the oldest view has been open.
    pub oldest_view: Duration,
    /// Ended transactions whose undo is not purged.
    pub history: usize,
}
