//! [`ApplyExec`]: the operator.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as DfResult, ScalarValue, internal_err};
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    execute_stream,
};
use futures::{StreamExt, stream};

use super::cache::{Cache, Values};
use super::node::Answer;
use super::with_values;
use crate::error::SqlError;
use crate::interrupt;

/// A subquery that is planned for each tuple of values.
pub(super) struct Subquery {
    pub plan: Arc<LogicalPlan>,
    pub answer: Answer,
    pub state: SessionState,
}

/// The operator.
pub struct ApplyExec {
    input: Arc<dyn ExecutionPlan>,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    subquery: Arc<Subquery>,
    properties: Arc<PlanProperties>,
}

impl ApplyExec {
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        arguments: Vec<Arc<dyn PhysicalExpr>>,
        subquery: Arc<Subquery>,
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
            arguments,
            subquery,
            properties: Arc::new(properties),
        }
    }
}

impl fmt::Debug for ApplyExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApplyExec")
            .field("input", &self.input)
            .field("arguments", &self.arguments)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for ApplyExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arguments: Vec<_> = self.arguments.iter().map(ToString::to_string).collect();
        let arguments = arguments.join(", ");
        write!(f, "ApplyExec: {:?}, by=[{arguments}]", self.subquery.answer)
    }
}

#[allow(
    deprecated,
    reason = "with_new_children is deprecated and still required"
)]
impl ExecutionPlan for ApplyExec {
    fn name(&self) -> &str {
        "ApplyExec"
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
        for argument in &self.arguments {
            if visit(argument)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop() else {
            return internal_err!("Q1: an apply has an input");
        };
        let (arguments, subquery) = (self.arguments.clone(), Arc::clone(&self.subquery));
        let schema = self.schema();
        Ok(Arc::new(Self::new(input, arguments, subquery, schema)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, Arc::clone(&context))?;
        let applied = Applied {
            arguments: self.arguments.clone(),
            subquery: Arc::clone(&self.subquery),
            schema: self.schema(),
            cache: Cache::new(&context),
            context,
        };
        let batches = stream::unfold((rows, applied), |(mut rows, mut applied)| async move {
            let batch = match rows.next().await? {
                Ok(batch) => applied.batch(batch).await,
                Err(error) => Err(error),
            };
            Some((batch, (rows, applied)))
        });
        let batches = RecordBatchStreamAdapter::new(self.schema(), Box::pin(batches));
        Ok(Box::pin(batches))
    }
}

/// A partition while it runs.
struct Applied {
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    subquery: Arc<Subquery>,
    schema: SchemaRef,
    cache: Cache,
    context: Arc<TaskContext>,
}

impl Applied {
    /// The rows of a batch with what the subquery gives for each.
    async fn batch(&mut self, batch: RecordBatch) -> DfResult<RecordBatch> {
        let rows = batch.num_rows();
        let arguments = self.arguments.iter();
        let arguments = arguments.map(|argument| argument.evaluate(&batch)?.into_array(rows));
        let arguments: Vec<ArrayRef> = arguments.collect::<DfResult<_>>()?;
        let own = batch.num_columns();
        let width = self.schema.fields().len() - own;
        let mut added: Vec<Vec<ScalarValue>> = vec![Vec::with_capacity(rows); width];
        for row in 0..rows {
            interrupt::check_df()?;
            let tuple = arguments.iter();
            let tuple = tuple.map(|array| ScalarValue::try_from_array(array, row));
            let tuple = tuple.collect::<DfResult<Vec<_>>>()?;
            let values = match self.cache.get(&tuple) {
                Some(values) => values,
                None => {
                    let values = self.subquery.values(&tuple, width, &self.context).await?;
                    self.cache.put(tuple, Arc::clone(&values))?;
                    values
                }
            };
            for (column, value) in added.iter_mut().zip(values.iter()) {
                column.push(value.clone());
            }
        }
        let mut columns = batch.columns().to_vec();
        for (number, values) in added.into_iter().enumerate() {
            let ty = self.schema.field(own + number).data_type();
            columns.push(match values.is_empty() {
                true => datafusion::arrow::array::new_empty_array(ty),
                false => {
                    let array = ScalarValue::iter_to_array(values)?;
                    datafusion::arrow::compute::cast(&array, ty)?
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        Ok(RecordBatch::try_new_with_options(
            schema, columns, &options,
        )?)
    }
}

impl Subquery {
    /// What it gives for a tuple of values.
    async fn values(
        &self,
        tuple: &[ScalarValue],
        width: usize,
        context: &Arc<TaskContext>,
    ) -> DfResult<Values> {
        let plan = with_values(&self.plan, tuple)?;
        let plan = self.state.optimize(&plan)?;
        let plan = self.state.create_physical_plan(&plan).await?;
        let schema = plan.schema();
        let mut batches = execute_stream(plan, Arc::clone(context))?;
        let mut found: Option<Values> = None;
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            interrupt::check_df()?;
            let rows = batch.num_rows();
            match self.answer {
                _ if rows == 0 => {}
                Answer::Exists => return Ok(Arc::new([ScalarValue::from(true)])),
                Answer::Row if rows > 1 || found.is_some() => {
                    return Err(SqlError::subquery_rows().into_df());
                }
                Answer::Row => {
                    let columns = batch.columns().iter();
                    let row = columns.map(|column| ScalarValue::try_from_array(column, 0));
                    found = Some(row.collect::<DfResult<Vec<_>>>()?.into());
                }
            }
        }
        match (found, self.answer) {
            (Some(found), _) => Ok(found),
            (None, Answer::Exists) => Ok(Arc::new([ScalarValue::from(false)])),
            (None, Answer::Row) => {
                let fields = schema.fields().iter().take(width);
                let nulls = fields.map(|field| ScalarValue::try_from(field.data_type()));
                Ok(nulls.collect::<DfResult<Vec<_>>>()?.into())
            }
        }
    }
}
