//! The memory that groups may take, and whom it is charged to.

use std::sync::Arc;

/// How much the groups of one execution may take before they go into the output as partial rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregateBudget {
    /// Greatest number of groups.
    pub groups: usize,
    /// Greatest number of bytes of keys and states; at least one group is kept whatever it takes.
    pub bytes: usize,
}

impl AggregateBudget {
    /// 8 MiB: about what the caches of a core can still serve. Page Stores have a setting for it.
    pub const DEFAULT: Self = Self::of(8 << 20);

    /// So many bytes for any number of groups.
    #[must_use]
    pub const fn of(bytes: usize) -> Self {
        Self {
            groups: usize::MAX,
            bytes,
        }
    }
}

/// Who has the memory that the groups of several executions take, such as those of one tenant.
pub trait GroupMemory: Send + Sync {
    /// Charges so many bytes more, if there are so many.
    fn take(&self, bytes: usize) -> bool;

    /// Gives back bytes that were charged.
    fn give_back(&self, bytes: usize);
}

/// An execution may always hold so much: with less it would give out nearly every row, and there are no more
/// executions at a time than threads.
const FREE: usize = 64 << 10;

/// Bytes are charged in such steps.
const STEP: usize = 256 << 10;

/// What one execution holds.
pub(crate) struct Held {
    limit: usize,
    memory: Option<Arc<dyn GroupMemory>>,
    /// Bytes that were charged.
    charged: usize,
}

impl Held {
    pub(crate) fn new(limit: usize, memory: Option<Arc<dyn GroupMemory>>) -> Self {
        Self {
            limit,
            memory,
            charged: 0,
        }
    }

    /// Bytes that may be held without charging more.
    pub(crate) fn granted(&self) -> usize {
        match self.memory {
            Some(_) => self.limit.min(FREE.max(self.charged)),
            None => self.limit,
        }
    }

    /// Most bytes that there ever are.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Makes sure that so many bytes may be held; false if that is too much.
    #[inline]
    pub(crate) fn may_hold(&mut self, bytes: usize) -> bool {
        bytes <= self.limit && (bytes <= FREE.max(self.charged) || self.charge(bytes))
    }

    #[cold]
    fn charge(&mut self, bytes: usize) -> bool {
        let Some(memory) = &self.memory else {
            return true;
        };
        let wanted = bytes.next_multiple_of(STEP).min(self.limit).max(bytes);
        let more = wanted - self.charged;
        let taken = memory.take(more);
        if taken {
            self.charged = wanted;
        }
        taken
    }

    /// Gives all of it back.
    pub(crate) fn release(&mut self) {
        let charged = std::mem::take(&mut self.charged);
        if let Some(memory) = self.memory.as_ref().filter(|_| charged > 0) {
            memory.give_back(charged);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// An account of so many bytes that are left.
    struct Left(AtomicUsize);

    impl GroupMemory for Left {
        fn take(&self, bytes: usize) -> bool {
            let less = |left: usize| left.checked_sub(bytes);
            let taken = self
                .0
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
            taken.is_ok()
        }

        fn give_back(&self, bytes: usize) {
            self.0.fetch_add(bytes, Ordering::SeqCst);
        }
    }

    #[test]
    fn what_is_held_is_charged_and_given_back() {
        let left = Arc::new(Left((1 << 20).into()));
        let mut held = Held::new(4 << 20, Some(left.clone()));
        assert!(held.may_hold(FREE));
        assert_eq!(left.0.load(Ordering::SeqCst), 1 << 20, "the first is free");
        assert!(held.may_hold(FREE + 1));
        assert_eq!(left.0.load(Ordering::SeqCst), (1 << 20) - STEP);
        assert!(held.may_hold(1 << 20));
        assert!(!held.may_hold((1 << 20) + 1), "there is no more");
        let mut other = Held::new(4 << 20, Some(left.clone()));
        assert!(other.may_hold(FREE) && !other.may_hold(FREE + 1));
        held.release();
        assert!(other.may_hold(1 << 20));
        drop(other);
        drop(held);
        assert_eq!(left.0.load(Ordering::SeqCst), 1 << 20);
        let mut alone = Held::new(1 << 20, None);
        assert!(alone.may_hold(1 << 20) && !alone.may_hold((1 << 20) + 1));
    }
}
