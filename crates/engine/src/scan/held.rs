//! How many bytes of a table a scan holds at a time: what shows that its memory is bounded by its
//! look-ahead, whatever the table's size.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes held now, and the most so far.
#[derive(Debug, Default)]
pub(super) struct Held {
    now: AtomicU64,
    peak: AtomicU64,
}

/// Bytes that are held until this is dropped.
#[derive(Debug)]
pub(super) struct Holding {
    held: Arc<Held>,
    bytes: u64,
}

impl Held {
    /// Counts bytes as held.
    pub fn hold(self: &Arc<Self>, bytes: usize) -> Holding {
        let bytes = bytes as u64;
        let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(now, Ordering::Relaxed);
        Holding {
            held: self.clone(),
            bytes,
        }
    }

    /// The most bytes that were held at a time.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.held.now.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
