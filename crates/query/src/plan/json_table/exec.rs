//! [`JsonTableExec`]: the operator.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use datafusion::arrow::compute::{cast, take_record_batch};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result as DfResult, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::{StreamExt, stream};
use perigee_expr::functions::{FunctionError, JsonFault, Value};
use perigee_expr::json_table::{JsonTable, Row};
use perigee_value::json::{Json, JsonErrorKind};

use crate::error::SqlError;
use crate::functions::library::Column;
use crate::functions::results::Results;
use crate::functions::types::is_json;
use crate::interrupt;

/// Rows from which on a batch is given out.
const ROWS: usize = 8192;

/// What a value takes beside its text.
const VALUE: usize = size_of::<Value<'static>>();

/// Its name in errors.
const NAME: &str = "json_table";

/// The operator.
#[derive(Debug)]
pub(super) struct JsonTableExec {
    input: Arc<dyn ExecutionPlan>,
    document: Arc<dyn PhysicalExpr>,
    table: (Arc<JsonTable>, bool),
    properties: Arc<PlanProperties>,
}

impl JsonTableExec {
    pub fn new(
        input: Arc<dyn ExecutionPlan>,
        document: Arc<dyn PhysicalExpr>,
        table: (Arc<JsonTable>, bool),
        schema: SchemaRef,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self {
            input,
            document,
            table,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for JsonTableExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonTableExec: {}", self.document)
    }
}

#[allow(
    deprecated,
    reason = "with_new_children is deprecated and still required"
)]
impl ExecutionPlan for JsonTableExec {
    fn name(&self) -> &str {
        "JsonTableExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        visit(&self.document)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop() else {
            return internal_err!("Q1: a table of documents has documents");
        };
        let (document, table) = (Arc::clone(&self.document), self.table.clone());
        Ok(Arc::new(Self::new(input, document, table, self.schema())))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let consumer = MemoryConsumer::new("rows of a document");
        let running = Running {
            input: self.input.execute(partition, Arc::clone(&context))?,
            document: Arc::clone(&self.document),
            table: self.table.clone(),
            schema: self.schema(),
            held: consumer.register(context.memory_pool()),
            current: None,
        };
        let batches = stream::try_unfold(running, |mut running| async move {
            let batch = running.next().await?;
            Ok(batch.map(|batch| (batch, running)))
        });
        let batches = RecordBatchStreamAdapter::new(self.schema(), Box::pin(batches));
        Ok(Box::pin(batches))
    }
}

/// A partition while it runs.
struct Running {
    input: SendableRecordBatchStream,
    document: Arc<dyn PhysicalExpr>,
    table: (Arc<JsonTable>, bool),
    schema: SchemaRef,
    /// Rows that wait until a batch is given out.
    held: MemoryReservation,
    current: Option<Current>,
}

/// A batch of the input.
struct Current {
    batch: RecordBatch,
    documents: Column,
    /// Its texts are JSON values.
    are_json: bool,
    /// The row that comes next.
    next: usize,
}

/// A failure on the way of a row.
struct Failed(DataFusionError);

impl From<JsonFault> for Failed {
    fn from(fault: JsonFault) -> Self {
        Self(failure(fault))
    }
}

fn failure(fault: JsonFault) -> DataFusionError {
    SqlError::from(FunctionError::from(fault)).into_df()
}

impl Running {
    async fn next(&mut self) -> DfResult<Option<RecordBatch>> {
        loop {
            let mut current = match self.current.take() {
                Some(current) if current.next < current.batch.num_rows() => current,
                _ => match self.input.next().await.transpose()? {
                    Some(batch) => self.begun(batch)?,
                    None => return Ok(None),
                },
            };
            let batch = self.rows(&mut current)?;
            self.current = Some(current);
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
    }

    fn begun(&self, batch: RecordBatch) -> DfResult<Current> {
        let documents = self.document.evaluate(&batch)?;
        let documents = documents.into_array(batch.num_rows())?;
        Ok(Current {
            documents: Column::any(&documents)?,
            are_json: is_json(documents.data_type()),
            batch,
            next: 0,
        })
    }

    /// The rows of the next documents, until there are enough for a batch.
    fn rows(&mut self, current: &mut Current) -> DfResult<RecordBatch> {
        let (table, outer) = (&self.table.0, self.table.1);
        let mut rows: Vec<Row> = Vec::new();
        let mut of = Vec::new();
        while current.next < current.batch.num_rows() && rows.len() < ROWS {
            interrupt::check_df()?;
            let first = rows.len();
            if let Some(document) = document(current)? {
                let held = &self.held;
                let mut give = |row: Row| {
                    let texts = row.iter().map(|value| match value {
                        Value::Text(text) => text.len(),
                        Value::Bytes(bytes) => bytes.len(),
                        _ => 0,
                    });
                    let bytes = row.len() * VALUE + texts.sum::<usize>();
                    held.try_grow(bytes).map_err(Failed)?;
                    rows.push(row);
                    Ok::<_, Failed>(())
                };
                table
                    .rows(&document, &mut give)
                    .map_err(|failed| failed.0)?;
            }
            if rows.len() == first && outer {
                rows.push(vec![Value::Null; table.width()]);
            }
            of.resize(rows.len(), current.next as u64);
            current.next += 1;
        }
        let batch = self.batch(current, rows, of)?;
        self.held.free();
        Ok(batch)
    }

    fn batch(&self, current: &Current, rows: Vec<Row>, of: Vec<u64>) -> DfResult<RecordBatch> {
        let own = current.batch.num_columns();
        let added = self.schema.fields().iter().skip(own);
        let types = added.map(|field| computed(field.data_type()));
        let columns = types.clone().map(|ty| Results::new(&ty, rows.len(), false));
        let mut columns = columns.collect::<DfResult<Vec<_>>>()?;
        let count = rows.len();
        for row in rows {
            for (value, column) in row.into_iter().zip(&mut columns) {
                column.push(value)?;
            }
        }
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        if own > 0 {
            let taken = take_record_batch(&current.batch, &UInt64Array::from(of))?;
            arrays.extend(taken.columns().iter().cloned());
        }
        for (column, field) in columns
            .into_iter()
            .zip(self.schema.fields().iter().skip(own))
        {
            let array = column.finish()?;
            arrays.push(match array.data_type() == field.data_type() {
                true => array,
                false => cast(&array, field.data_type())?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let schema = Arc::clone(&self.schema);
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }
}

/// The document of the next row, if it is not NULL.
fn document(current: &Current) -> DfResult<Option<Json>> {
    let text = match current.documents.get(current.next) {
        Value::Null => return Ok(None),
        Value::Text(text) => text,
        Value::Bytes(_) => return Err(failure(JsonFault::Binary)),
        _ => {
            return Err(failure(JsonFault::InvalidType {
                argument: 1,
                function: NAME,
            }));
        }
    };
    let parsed = match current.are_json {
        true => Json::read(&text),
        false => Json::parse(&text),
    };
    parsed.map(Some).map_err(|error| {
        failure(match error.kind {
            JsonErrorKind::TooDeep => JsonFault::TooDeep,
            kind => JsonFault::InvalidText {
                argument: 1,
                function: NAME,
                kind,
                at: error.at,
            },
        })
    })
}

/// The type in which the values of a column are computed.
fn computed(ty: &DataType) -> DataType {
    match ty {
        ty if ty.is_unsigned_integer() => DataType::UInt64,
        ty if ty.is_signed_integer() => DataType::Int64,
        DataType::Float32 => DataType::Float64,
        ty => ty.clone(),
    }
}
