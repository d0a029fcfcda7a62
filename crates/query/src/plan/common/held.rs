//! [`Held`]: rows that are kept and charged.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::{cast, concat_batches};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatchOptions;
use datafusion::common::Result as DfResult;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};

/// Rows from which on a batch is kept as it is.
const ROWS: usize = 1024;

/// Bytes of a batch beside its columns.
const OVERHEAD: usize = 512;

/// The rows.
#[derive(Debug)]
pub(super) struct Held {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// Small batches that become one.
    small: Vec<RecordBatch>,
    small_rows: usize,
    /// For all batches, and for small ones, which are given back when they have become one.
    charged: MemoryReservation,
    passing: MemoryReservation,
}

impl Held {
    pub fn new(schema: SchemaRef, context: &TaskContext) -> Self {
        let charged = |name: &str| MemoryConsumer::new(name).register(context.memory_pool());
        Self {
            schema,
            batches: Vec::new(),
            small: Vec::new(),
            small_rows: 0,
            charged: charged("rows of a common table expression"),
            passing: charged("new rows of a common table expression"),
        }
    }

    /// The rows.
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// A batch with the columns of these rows, of which it may have more, and of their types.
    pub fn converted(&self, batch: &RecordBatch) -> DfResult<RecordBatch> {
        let fields = self.schema.fields().iter();
        let columns = batch.columns().iter().zip(fields);
        let columns = columns.map(|(column, field)| match column.data_type() {
            own if own == field.data_type() => Ok(column.clone()),
            _ => cast(column, field.data_type()),
        });
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = columns.collect::<Result<_, _>>()?;
        let schema = self.schema.clone();
        Ok(RecordBatch::try_new_with_options(
            schema, columns, &options,
        )?)
    }

    /// Adds rows.
    ///
    /// # Errors
    /// If there is too little memory.
    pub fn push(&mut self, batch: RecordBatch) -> DfResult<()> {
        let bytes = OVERHEAD + get_record_batch_memory_size(&batch);
        if batch.num_rows() >= ROWS {
            self.finish()?;
            self.charged.try_grow(bytes)?;
            self.batches.push(batch);
            return Ok(());
        }
        self.passing.try_grow(bytes)?;
        self.small_rows += batch.num_rows();
        self.small.push(batch);
        match self.small_rows >= ROWS {
            true => self.finish(),
            false => Ok(()),
        }
    }

    /// Puts small batches together.
    ///
    /// # Errors
    /// If there is too little memory.
    pub fn finish(&mut self) -> DfResult<()> {
        if self.small.is_empty() {
            return Ok(());
        }
        let batch = concat_batches(&self.schema, &self.small)?;
        let bytes = OVERHEAD + get_record_batch_memory_size(&batch);
        self.charged.try_grow(bytes)?;
        self.batches.push(batch);
        self.small.clear();
        self.small_rows = 0;
        self.passing.free();
        Ok(())
    }
}
