//! [`Lent`]: memory of the buffer pool that scans have for pages and results that only they see
//! (taurus-ndp section V.B).

use std::sync::atomic::{AtomicUsize, Ordering};

use perigee_types::PAGE_SIZE;

/// Bytes lent to scans. What is lent is taken from the frames of the pool, at most half of them.
pub(super) struct Lent {
    bytes: AtomicUsize,
    most_frames: usize,
}

impl Lent {
    /// Nothing yet, of a pool of so many frames.
    pub fn of(capacity: usize) -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            most_frames: capacity / 2,
        }
    }

    pub fn lend(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn give_back(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "more is given back than was lent");
    }

    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Frames that pages must do without.
    pub fn frames(&self) -> usize {
        self.bytes().div_ceil(PAGE_SIZE).min(self.most_frames)
    }

    /// All that may be lent is lent.
    pub fn is_exhausted(&self) -> bool {
        self.bytes() >= self.most_frames * PAGE_SIZE
    }
}
