//! [`ApplyExec`]: the operator.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
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

use super::cache::Values;
use super::node::Answer;
use super::running::Running;
use super::with_values;
use crate::error::SqlError;
use crate::interrupt;
use crate::plan::stoppable::stoppable;

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

    /// What is asked of the subquery.
    #[must_use]
    pub fn asks(&self) -> &'static str {
        match self.subquery.answer {
            Answer::Row => "Value",
            Answer::Exists => "Existence of rows",
            Answer::Rows { .. } => "Rows",
        }
    }

    /// Names of the tables that the subquery reads, as far as it reads them itself.
    #[must_use]
    pub fn tables(&self) -> Vec<String> {
        let mut tables = Vec::new();
        let found = self.subquery.plan.apply(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                tables.push(scan.table_name.table().to_owned());
            }
            Ok(TreeNodeRecursion::Continue)
        });
        // Nothing in it fails.
        found.map(|_| tables).unwrap_or_default()
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
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let (arguments, subquery) = (self.arguments.clone(), Arc::clone(&self.subquery));
        let running = Running::new(input, arguments, subquery, self.schema(), context);
        let batches = stream::try_unfold(running, |mut running| async move {
            let batch = running.next().await?;
            Ok(batch.map(|batch| (batch, running)))
        });
        let batches = RecordBatchStreamAdapter::new(self.schema(), Box::pin(batches));
        Ok(Box::pin(batches))
    }
}

impl Subquery {
    /// Its rows for a tuple of values.
    pub(super) async fn rows(
        &self,
        tuple: &[ScalarValue],
        context: &Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let plan = with_values(&self.plan, tuple)?;
        let plan = self.state.optimize(&plan)?;
        let plan = self.state.create_physical_plan(&plan).await?;
        let plan = match interrupt::token() {
            Some(token) => stoppable(plan, &token)?,
            None => plan,
        };
        execute_stream(plan, Arc::clone(context))
    }

    /// What it gives for a tuple of values, if that is one row.
    pub(super) async fn values(
        &self,
        tuple: &[ScalarValue],
        width: usize,
        context: &Arc<TaskContext>,
    ) -> DfResult<Values> {
        let mut batches = self.rows(tuple, context).await?;
        let schema = batches.schema();
        let mut found: Option<Values> = None;
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            interrupt::check_df()?;
            let rows = batch.num_rows();
            match self.answer {
                _ if rows == 0 => {}
                Answer::Exists => return Ok(Arc::new([ScalarValue::from(true)])),
                _ if rows > 1 || found.is_some() => {
                    return Err(SqlError::subquery_rows().into_df());
                }
                _ => {
                    let columns = batch.columns().iter();
                    let row = columns.map(|column| ScalarValue::try_from_array(column, 0));
                    found = Some(row.collect::<DfResult<Vec<_>>>()?.into());
                }
            }
        }
        match (found, self.answer) {
            (Some(found), _) => Ok(found),
            (None, Answer::Exists) => Ok(Arc::new([ScalarValue::from(false)])),
            (None, _) => {
                let fields = schema.fields().iter().take(width);
                let nulls = fields.map(|field| ScalarValue::try_from(field.data_type()));
                Ok(nulls.collect::<DfResult<Vec<_>>>()?.into())
            }
        }
    }
}
