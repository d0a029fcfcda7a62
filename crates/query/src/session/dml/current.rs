//! [`CurrentRows`]: rows at hand that a plan reads in place of a table. So expressions over a row
//! that is locked, or that an INSERT met, mean what they mean in any SELECT.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use parking_lot::Mutex;
use perigee_value::Datum;

use crate::error::{Result, SqlError};
use crate::values;

/// The rows; they may be exchanged between two runs of the plan.
#[derive(Debug)]
pub(in crate::session) struct CurrentRows {
    schema: SchemaRef,
    batch: Mutex<RecordBatch>,
}

impl CurrentRows {
    /// No rows, with these columns.
    pub(super) fn new(schema: SchemaRef) -> Arc<Self> {
        let batch = Mutex::new(RecordBatch::new_empty(schema.clone()));
        Arc::new(Self { schema, batch })
    }

    /// Makes it one row.
    pub(super) fn set(&self, row: &[Datum]) -> Result<()> {
        let columns: Vec<ArrayRef> = row
            .iter()
            .zip(self.schema.fields())
            .map(|(value, field)| values::array(field.data_type(), std::slice::from_ref(value)))
            .collect::<Result<_>>()?;
        let batch = RecordBatch::try_new(self.schema.clone(), columns);
        *self.batch.lock() = batch.map_err(SqlError::unknown)?;
        Ok(())
    }

    /// The table that plans read.
    pub(in crate::session) fn provider(self: &Arc<Self>) -> DfResult<Arc<dyn TableProvider>> {
        let rows = Arc::new(Rows(self.clone()));
        let table = StreamingTable::try_new(self.schema.clone(), vec![rows])?;
        Ok(Arc::new(table))
    }
}

#[derive(Debug)]
struct Rows(Arc<CurrentRows>);

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.0.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batch = self.0.batch.lock().clone();
        let stream = futures::stream::iter([Ok(batch)]);
        Box::pin(RecordBatchStreamAdapter::new(self.0.schema.clone(), stream))
    }
}
