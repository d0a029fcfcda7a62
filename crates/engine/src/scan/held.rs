//! How many bytes of a table a scan holds at a time: what shows that its memory is bounded by its
//! look-ahead, whatever the table's size. The memory of near-data scans is the buffer pool's (SPEC's N5).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;

use crate::buffer::BufferPool;

/// Bytes held now, and the most so far.
#[derive(Default)]
pub(super) struct Held {
    now: AtomicU64,
    peak: AtomicU64,
    /// Who lends what does not come through it.
    lender: Option<Arc<BufferPool>>,
}

/// Bytes that are held until this is dropped.
pub(super) struct Holding {
    held: Arc<Held>,
    bytes: usize,
    lent: usize,
}

impl Held {
    /// Nothing yet; near-data scans have a lender.
    pub fn new(lender: Option<Arc<BufferPool>>) -> Arc<Self> {
        let held = Self {
            lender,
            ..Self::default()
        };
        Arc::new(held)
    }

    /// Counts bytes as held that only the scan has.
    pub fn hold(self: &Arc<Self>, bytes: usize) -> Holding {
        match &self.lender {
            Some(pool) => {
                pool.lend(bytes);
                self.holding(bytes, bytes)
            }
            None => self.holding(bytes, 0),
        }
    }

    /// Counts bytes as held that are pages of the pool.
    pub fn hold_pooled(self: &Arc<Self>, bytes: usize) -> Holding {
        self.holding(bytes, 0)
    }

    fn holding(self: &Arc<Self>, bytes: usize, lent: usize) -> Holding {
        let now = self.now.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        self.peak.fetch_max(now, Ordering::Relaxed);
        Holding {
            held: self.clone(),
            bytes,
            lent,
        }
    }

    /// No more is to be had before some is given back.
    pub fn is_scarce(&self) -> bool {
        self.lender.as_ref().is_some_and(|pool| pool.is_lent_out())
    }

    /// The most bytes that were held at a time.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }
}

/// Bytes of the buffers of some rows. Columns, and batches that were cut from one, share buffers; each
/// counts once.
pub(super) fn bytes_of<'a>(batches: impl IntoIterator<Item = &'a RecordBatch>) -> usize {
    let mut buffers = HashMap::new();
    let mut add = |buffer: &Buffer| buffers.insert(buffer.data_ptr(), buffer.capacity());
    for column in batches.into_iter().flat_map(RecordBatch::columns) {
        let data = column.to_data();
        data.buffers().iter().for_each(|buffer| {
            add(buffer);
        });
        if let Some(nulls) = data.nulls() {
            add(nulls.buffer());
        }
    }
    buffers.values().sum()
}

impl Drop for Holding {
    fn drop(&mut self) {
        let bytes = self.bytes as u64;
        self.held.now.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(pool) = &self.held.lender {
            pool.take_back(self.lent);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use arrow_array::{ArrayRef, StringViewArray};

    use super::*;

    #[test]
    fn shared_buffers_count_once() {
        let texts = (0..1000).map(|i| Some(format!("{i:0>100}")));
        let strings: ArrayRef = Arc::new(texts.collect::<StringViewArray>());
        let columns = (0..10).map(|i| (i.to_string(), strings.clone()));
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let parts: Vec<_> = (0..10).map(|i| batch.slice(100 * i, 100)).collect();
        let bytes = strings.get_array_memory_size();
        assert!(bytes > 100_000);
        let held = bytes_of(&parts);
        assert!(held > 100_000 && held <= bytes, "{held} of {bytes}");
    }
}
