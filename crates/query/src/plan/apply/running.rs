//! A partition of an apply while it runs.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array, new_empty_array, new_null_array,
};
use datafusion::arrow::compute::{cast, concat_batches, take_record_batch};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use futures::StreamExt;

use super::cache::{Cache, Given};
use super::exec::Subquery;
use super::node::Answer;
use crate::interrupt;

/// Rows from which on a batch is given out.
const ROWS: usize = 8192;

/// The partition.
pub(super) struct Running {
    input: SendableRecordBatchStream,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    subquery: Arc<Subquery>,
    schema: SchemaRef,
    /// The columns behind the input's.
    added: SchemaRef,
    cache: Cache,
    /// Rows of a subquery that are held until a batch is given out.
    held: MemoryReservation,
    context: Arc<TaskContext>,
    current: Option<Current>,
}

/// A batch of the input.
struct Current {
    batch: RecordBatch,
    arguments: Vec<ArrayRef>,
    /// The row that comes next.
    next: usize,
}

impl Running {
    pub fn new(
        input: SendableRecordBatchStream,
        arguments: Vec<Arc<dyn PhysicalExpr>>,
        subquery: Arc<Subquery>,
        schema: SchemaRef,
        context: Arc<TaskContext>,
    ) -> Self {
        let own = input.schema().fields().len();
        let added = schema.fields().iter().skip(own).cloned();
        let added = Schema::new(added.collect::<Vec<_>>());
        let consumer = MemoryConsumer::new("rows of a subquery");
        Self {
            input,
            arguments,
            subquery,
            schema,
            added: Arc::new(added),
            cache: Cache::new(&context),
            held: consumer.register(context.memory_pool()),
            context,
            current: None,
        }
    }

    /// The next rows with what the subquery gives for each.
    pub async fn next(&mut self) -> DfResult<Option<RecordBatch>> {
        loop {
            let mut current = match self.current.take() {
                Some(current) if current.next < current.batch.num_rows() => current,
                _ => match self.input.next().await.transpose()? {
                    Some(batch) => self.begun(batch)?,
                    None => return Ok(None),
                },
            };
            let batch = self.rows(&mut current).await?;
            self.held.free();
            self.current = Some(current);
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
    }

    fn begun(&self, batch: RecordBatch) -> DfResult<Current> {
        let rows = batch.num_rows();
        let arguments = self.arguments.iter();
        let arguments = arguments.map(|argument| argument.evaluate(&batch)?.into_array(rows));
        let arguments = arguments.collect::<DfResult<_>>()?;
        Ok(Current {
            batch,
            arguments,
            next: 0,
        })
    }

    /// Some of a batch's rows.
    async fn rows(&mut self, current: &mut Current) -> DfResult<RecordBatch> {
        let (first, all) = (current.next, current.batch.num_rows());
        let mut values = vec![Vec::new(); self.added.fields().len()];
        let (mut places, mut pieces) = (Vec::new(), Vec::new());
        while current.next < all && places.len() < ROWS {
            interrupt::check_df()?;
            let row = current.next;
            current.next += 1;
            let tuple = current.arguments.iter();
            let tuple = tuple.map(|array| ScalarValue::try_from_array(array, row));
            match self.given(tuple.collect::<DfResult<_>>()?).await? {
                Given::Row(row) => {
                    for (column, value) in values.iter_mut().zip(row.iter()) {
                        column.push(value.clone());
                    }
                }
                Given::Rows(rows) => {
                    places.extend(std::iter::repeat_n(row as u64, rows.num_rows()));
                    pieces.push(rows);
                }
            }
        }
        if let Answer::Rows { .. } = self.subquery.answer {
            let own = take_record_batch(&current.batch, &UInt64Array::from(places))?;
            let added = concat_batches(&self.added, &pieces)?;
            return self.joined(&own, added.columns().to_vec());
        }
        let own = current.batch.slice(first, current.next - first);
        let fields = self.added.fields().iter();
        let added = values.into_iter().zip(fields).map(|(values, field)| {
            let ty = field.data_type();
            Ok(match values.is_empty() {
                true => new_empty_array(ty),
                false => cast(&ScalarValue::iter_to_array(values)?, ty)?,
            })
        });
        let added = added.collect::<DfResult<_>>()?;
        self.joined(&own, added)
    }

    fn joined(&self, own: &RecordBatch, added: Vec<ArrayRef>) -> DfResult<RecordBatch> {
        let columns = [own.columns().to_vec(), added].concat();
        let options = RecordBatchOptions::new().with_row_count(Some(own.num_rows()));
        let schema = Arc::clone(&self.schema);
        Ok(RecordBatch::try_new_with_options(
            schema, columns, &options,
        )?)
    }

    /// What the subquery gives for a tuple.
    async fn given(&mut self, tuple: Vec<ScalarValue>) -> DfResult<Given> {
        if let Some(given) = self.cache.get(&tuple) {
            return Ok(given);
        }
        let given = match self.subquery.answer {
            Answer::Rows { outer } => Given::Rows(self.several(&tuple, outer).await?),
            _ => {
                let width = self.added.fields().len();
                let values = self.subquery.values(&tuple, width, &self.context);
                Given::Row(values.await?)
            }
        };
        self.cache.put(tuple, given.clone());
        Ok(given)
    }

    /// All rows of the subquery, or one of NULLs instead of none.
    async fn several(&mut self, tuple: &[ScalarValue], outer: bool) -> DfResult<RecordBatch> {
        let mut batches = self.subquery.rows(tuple, &self.context).await?;
        let mut all = Vec::new();
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            interrupt::check_df()?;
            if batch.num_rows() == 0 {
                continue;
            }
            self.held.try_grow(batch.get_array_memory_size())?;
            let fields = self.added.fields().iter();
            let columns = batch.columns().iter().zip(fields);
            let columns = columns.map(|(column, field)| cast(column, field.data_type()));
            let columns = columns.collect::<Result<_, _>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let added = Arc::clone(&self.added);
            all.push(RecordBatch::try_new_with_options(added, columns, &options)?);
        }
        if all.is_empty() && outer {
            let fields = self.added.fields().iter();
            let nulls = fields.map(|field| new_null_array(field.data_type(), 1));
            let added = Arc::clone(&self.added);
            return Ok(RecordBatch::try_new(added, nulls.collect())?);
        }
        Ok(concat_batches(&self.added, &all)?)
    }
}
