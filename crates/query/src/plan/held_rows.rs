//! [`HeldRows`] and [`HeldTexts`]: how much memory the rows take that a window operator holds, which DataFusion does
//! not count.
//!
//! A window operator holds its input until its results are known, and rows before them that a frame may still
//! reach. It copies them when it puts batches together, but not the texts that their views point to; it may keep
//! those to the end of its input. So rows are counted while they are needed, and texts as long as they are
//! there.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result as DfResult;
use datafusion::execution::memory_pool::MemoryReservation;

use crate::texts::{guarded, with_buffers, with_columns};

/// Bytes for a batch, besides its content.
const OVERHEAD: usize = 64;

/// Copies of a row that an operator holds: among its input, and in its partition.
const COPIES: usize = 2;

/// Rows before those without a result that an operator holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// At most so many.
    Rows(usize),
    /// All of its input.
    All,
}

/// The rows that are held, in the order in which they came.
#[derive(Debug)]
pub struct HeldRows {
    before: Before,
    parts: VecDeque<Part>,
    /// Rows of the parts, and how many of them have no result.
    rows: usize,
    pending: usize,
    bytes: usize,
}

/// A batch that came.
#[derive(Debug)]
struct Part {
    rows: usize,
    bytes: usize,
}

impl HeldRows {
    pub fn new(before: Before) -> Self {
        Self {
            before,
            parts: VecDeque::new(),
            rows: 0,
            pending: 0,
            bytes: 0,
        }
    }

    /// Bytes that the rows and their results take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds rows, whose results will take so many bytes.
    ///
    /// # Errors
    /// If a column is of a type whose size is not known.
    pub fn add(&mut self, batch: &RecordBatch, results: usize) -> DfResult<()> {
        let mut bytes = OVERHEAD + results;
        for column in batch.columns() {
            bytes += COPIES * column.to_data().get_slice_memory_size()?;
        }
        let rows = batch.num_rows();
        self.rows += rows;
        self.pending += rows;
        self.bytes += bytes;
        self.parts.push_back(Part { rows, bytes });
        Ok(())
    }

    /// So many rows, the first that had none, have got their results.
    pub fn finished(&mut self, rows: usize) {
        self.pending = self.pending.saturating_sub(rows);
        let Before::Rows(before) = self.before else {
            return;
        };
        while let Some(first) = self.parts.front()
            && self.rows - first.rows >= self.pending.saturating_add(before)
        {
            self.rows -= first.rows;
            self.bytes -= first.bytes;
            self.parts.pop_front();
        }
    }
}

/// The texts of rows, each buffer charged once as long as anybody has it.
#[derive(Debug)]
pub struct HeldTexts {
    /// Where charges are taken from; it holds nothing itself.
    reservation: MemoryReservation,
    /// By the address of what was allocated, which stays as long as the charge.
    charges: HashMap<usize, Weak<MemoryReservation>>,
}

impl HeldTexts {
    pub fn new(reservation: MemoryReservation) -> Self {
        Self {
            reservation,
            charges: HashMap::new(),
        }
    }

    /// The same rows, with their texts charged.
    ///
    /// # Errors
    /// If there is too little memory.
    pub fn charged(&mut self, batch: &RecordBatch) -> DfResult<RecordBatch> {
        self.charges.retain(|_, charge| charge.strong_count() > 0);
        with_columns(batch, |column| self.column(column))
    }

    fn column(&mut self, column: &ArrayRef) -> DfResult<ArrayRef> {
        match column.data_type() {
            DataType::Utf8View | DataType::BinaryView => {
                with_buffers(column, |buffer| self.buffer(buffer))
            }
            _ => Ok(column.clone()),
        }
    }

    fn buffer(&mut self, buffer: &Buffer) -> DfResult<Buffer> {
        let address = buffer.data_ptr().addr().get();
        if let Some(charge) = self.charges.get(&address).and_then(Weak::upgrade) {
            return Ok(guarded(buffer, charge));
        }
        let charge = self.reservation.new_empty();
        charge.try_grow(buffer.capacity())?;
        let charge = Arc::new(charge);
        self.charges.insert(address, Arc::downgrade(&charge));
        Ok(guarded(buffer, charge))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use datafusion::arrow::array::{Int64Array, StringViewArray};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};

    use super::*;

    fn batch(column: impl Into<ArrayRef>) -> RecordBatch {
        RecordBatch::try_from_iter([("c", column.into())]).unwrap()
    }

    fn numbers() -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        batch(numbers)
    }

    #[test]
    fn rows_are_held_until_they_have_results() {
        let mut held = HeldRows::new(Before::Rows(0));
        held.add(&numbers(), 500).unwrap();
        let one = held.bytes();
        assert!((16_500..17_000).contains(&one), "{one}");
        held.add(&numbers(), 500).unwrap();
        assert_eq!(held.bytes(), 2 * one);
        held.finished(999);
        assert_eq!(
            held.bytes(),
            2 * one,
            "the first batch has a row without one"
        );
        held.finished(1);
        assert_eq!(held.bytes(), one);
        held.finished(1000);
        assert_eq!(held.bytes(), 0);
    }

    #[test]
    fn rows_that_a_frame_reaches_are_held() {
        let mut held = HeldRows::new(Before::Rows(1001));
        (0..4).for_each(|_| held.add(&numbers(), 0).unwrap());
        let all = held.bytes();
        held.finished(4000);
        assert_eq!(
            held.bytes(),
            all / 2,
            "of 1,001 rows one is in the third batch"
        );
        let mut held = HeldRows::new(Before::All);
        held.add(&numbers(), 0).unwrap();
        held.finished(1000);
        assert_eq!(held.bytes(), all / 4);
    }

    #[test]
    fn a_part_of_a_large_batch_counts_for_its_rows() {
        let mut held = HeldRows::new(Before::All);
        held.add(&numbers(), 0).unwrap();
        let all = held.bytes();
        let mut held = HeldRows::new(Before::All);
        held.add(&numbers().slice(300, 100), 0).unwrap();
        assert!(held.bytes() < all / 5, "{}", held.bytes());
    }

    fn texts() -> RecordBatch {
        let text = "x".repeat(1000);
        let texts = StringViewArray::from_iter_values((0..100).map(|_| &text));
        batch(Arc::new(texts) as ArrayRef)
    }

    #[test]
    fn shared_texts_are_charged_once_and_as_long_as_they_are_there() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(300_000));
        let mut held = HeldTexts::new(MemoryConsumer::new("window").register(&pool));
        let texts = texts();
        let first = held.charged(&texts.slice(0, 50)).unwrap();
        assert_eq!(first, texts.slice(0, 50));
        let one = pool.reserved();
        assert!((100_000..200_000).contains(&one), "{one}");
        let second = held.charged(&texts.slice(50, 50)).unwrap();
        assert_eq!(pool.reserved(), one);
        drop(first);
        assert_eq!(pool.reserved(), one, "the second half needs them");
        drop(second);
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn texts_at_a_place_where_others_were_are_charged() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(300_000));
        let mut held = HeldTexts::new(MemoryConsumer::new("window").register(&pool));
        for _ in 0..10 {
            let charged = held.charged(&texts()).unwrap();
            assert!(pool.reserved() >= 100_000);
            drop(charged);
            assert_eq!(pool.reserved(), 0);
        }
        let some: Vec<_> = (0..4).map(|_| held.charged(&texts())).collect();
        assert!(some.iter().any(Result::is_err), "they do not all fit");
    }
}
