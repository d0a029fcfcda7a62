//! What a subquery gave for tuples of values, as long as there is memory for it.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};

/// Most tuples that are remembered.
const MOST: usize = 100_000;

/// What a tuple takes beside its values.
const OVERHEAD: usize = 64;

/// The columns that a subquery gave.
pub type Values = Arc<[ScalarValue]>;

/// What a subquery gave.
#[derive(Clone, Debug)]
pub enum Given {
    /// One row.
    Row(Values),
    /// Any number of rows.
    Rows(RecordBatch),
}

impl Given {
    fn bytes(&self) -> usize {
        match self {
            Self::Row(values) => values.iter().map(ScalarValue::size).sum(),
            Self::Rows(rows) => rows.get_array_memory_size(),
        }
    }
}

/// The memory of one partition.
pub struct Cache {
    known: HashMap<Vec<ScalarValue>, Given>,
    reservation: MemoryReservation,
}

impl Cache {
    /// An empty one.
    pub fn new(context: &TaskContext) -> Self {
        let consumer = MemoryConsumer::new("subqueries");
        Self {
            known: HashMap::new(),
            reservation: consumer.register(context.memory_pool()),
        }
    }

    /// What the subquery gave for a tuple.
    pub fn get(&self, tuple: &[ScalarValue]) -> Option<Given> {
        self.known.get(tuple).cloned()
    }

    /// Remembers what it gave. Where there is no memory for that, everything is forgotten.
    pub fn put(&mut self, tuple: Vec<ScalarValue>, given: Given) {
        let values = tuple.iter().map(ScalarValue::size).sum::<usize>();
        let bytes = OVERHEAD + values + given.bytes();
        let is_full = self.known.len() >= MOST;
        if is_full || self.reservation.try_grow(bytes).is_err() {
            self.known.clear();
            self.reservation.free();
            if self.reservation.try_grow(bytes).is_err() {
                return;
            }
        }
        self.known.insert(tuple, given);
    }
}
