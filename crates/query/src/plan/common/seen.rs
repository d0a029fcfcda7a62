//! [`Seen`]: the rows that a recursive query has given, for one that gives each row once.

use std::collections::HashSet;

use datafusion::arrow::array::{BooleanBuilder, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::Result as DfResult;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};

/// Bytes that a row takes beside its values.
const OVERHEAD: usize = 48;

/// The rows, as bytes that are equal if the rows are.
pub(super) struct Seen {
    /// The columns by which rows are told apart.
    columns: Vec<usize>,
    converter: Option<RowConverter>,
    rows: HashSet<Box<[u8]>>,
    charged: MemoryReservation,
}

impl Seen {
    /// No rows yet.
    pub fn new(columns: &[usize], context: &TaskContext) -> Self {
        let consumer = MemoryConsumer::new("distinct rows of a common table expression");
        Self {
            columns: columns.to_vec(),
            converter: None,
            rows: HashSet::new(),
            charged: consumer.register(context.memory_pool()),
        }
    }

    /// The rows of a batch that are not there yet, which from now on are.
    ///
    /// # Errors
    /// If there is too little memory.
    pub fn new_of(&mut self, batch: &RecordBatch) -> DfResult<RecordBatch> {
        let columns = self
            .columns
            .iter()
            .map(|place| batch.column(*place).clone());
        let columns: Vec<_> = columns.collect();
        let converter = match self.converter.take() {
            Some(converter) => converter,
            None => {
                let types = columns.iter().map(|column| column.data_type().clone());
                RowConverter::new(types.map(SortField::new).collect())?
            }
        };
        let rows = converter.convert_columns(&columns);
        self.converter = Some(converter);
        let rows = rows?;
        let mut is_new = BooleanBuilder::with_capacity(batch.num_rows());
        let mut bytes = 0;
        for row in &rows {
            let row = row.as_ref();
            let known = self.rows.contains(row);
            if !known {
                bytes += OVERHEAD + row.len();
                self.rows.insert(row.into());
            }
            is_new.append_value(!known);
        }
        self.charged.try_grow(bytes)?;
        Ok(filter_record_batch(batch, &is_new.finish())?)
    }
}
