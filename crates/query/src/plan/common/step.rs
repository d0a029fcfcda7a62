//! [`StepNode`] and [`StepExec`]: the rows of the last step of a recursive query, which its next one reads.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{
    DFSchema, DFSchemaRef, Result as DfResult, Statistics, TableReference, internal_err,
};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::stream;
use parking_lot::Mutex;

/// Rows of a step, as far as plans know: few enough to be looked up in an index.
const ROWS: usize = 100;

/// The rows of a step.
#[derive(Debug, Default)]
pub(super) struct Work(Mutex<Vec<RecordBatch>>);

impl Work {
    /// The rows that the next step reads.
    pub fn put(&self, rows: Vec<RecordBatch>) {
        *self.0.lock() = rows;
    }
}

/// The node.
#[derive(Clone, Debug)]
pub struct StepNode {
    /// Of the recursive table in the statement.
    number: usize,
    /// There are rows when the query is planned to run.
    work: Option<Arc<Work>>,
    schema: DFSchemaRef,
}

impl StepNode {
    /// The rows of a table with a number, under a qualifier that no other relation has.
    ///
    /// # Errors
    /// If two columns have one name.
    pub fn new(number: usize, schema: &Schema, qualifier: TableReference) -> DfResult<Self> {
        let schema = DFSchema::try_from_qualified_schema(qualifier, schema)?;
        Ok(Self {
            number,
            work: None,
            schema: Arc::new(schema),
        })
    }

    /// The number of the table.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// The node that reads these rows.
    pub(super) fn of(&self, work: &Arc<Work>) -> Self {
        Self {
            work: Some(Arc::clone(work)),
            ..self.clone()
        }
    }

    /// Its operator.
    pub(super) fn operator(&self) -> DfResult<Arc<dyn ExecutionPlan>> {
        let Some(work) = &self.work else {
            return internal_err!("Q1: a step is planned with the rows that it reads");
        };
        let schema = Arc::clone(self.schema.inner());
        Ok(Arc::new(StepExec::new(Arc::clone(work), schema)))
    }
}

impl PartialEq for StepNode {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number && self.schema == other.schema
    }
}

impl Eq for StepNode {}

impl Hash for StepNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
        self.schema.hash(state);
    }
}

impl PartialOrd for StepNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self == other {
            true => Some(Ordering::Equal),
            false => None,
        }
    }
}

impl UserDefinedLogicalNodeCore for StepNode {
    fn name(&self) -> &str {
        "Step"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Step: {}", self.number)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, _: Vec<LogicalPlan>) -> DfResult<Self> {
        Ok(self.clone())
    }
}

/// The operator.
#[derive(Debug)]
pub(super) struct StepExec {
    work: Arc<Work>,
    properties: Arc<PlanProperties>,
}

impl StepExec {
    fn new(work: Arc<Work>, schema: SchemaRef) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            work,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for StepExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StepExec")
    }
}

#[allow(
    deprecated,
    reason = "with_new_children is deprecated and still required"
)]
impl ExecutionPlan for StepExec {
    fn name(&self) -> &str {
        "StepExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let rows = self.work.0.lock().clone();
        let rows = stream::iter(rows.into_iter().map(Ok));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> DfResult<Arc<Statistics>> {
        let unknown = Statistics::new_unknown(&self.schema());
        let rows = unknown.with_num_rows(Precision::Inexact(ROWS));
        Ok(Arc::new(rows))
    }
}
