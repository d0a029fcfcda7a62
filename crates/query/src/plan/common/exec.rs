//! [`SharedExec`]: the operator that gives out the rows of a common table expression.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};

use super::CommonTable;
use super::step::StepExec;

/// The operator.
#[derive(Debug)]
pub(super) struct SharedExec {
    table: Arc<CommonTable>,
    properties: Arc<PlanProperties>,
}

impl SharedExec {
    pub fn new(table: Arc<CommonTable>, schema: SchemaRef) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            table,
            properties: Arc::new(properties),
        }
    }
}

/// A part of a common table expression that a plan reads.
pub struct Part {
    /// No other table of the statement has this number.
    pub number: usize,
    /// The table's name.
    pub name: String,
    /// What delivers its first rows, or, of a recursive one, those of the next step.
    pub plan: Arc<dyn ExecutionPlan>,
}

/// The plans of the common table expressions that a plan reads, each once: those that others read come first.
#[must_use]
pub fn definitions(plan: &Arc<dyn ExecutionPlan>) -> Vec<Part> {
    let (mut known, mut found) = (HashSet::new(), Vec::new());
    gather(plan, &mut known, &mut found);
    found
}

fn gather(plan: &Arc<dyn ExecutionPlan>, known: &mut HashSet<usize>, found: &mut Vec<Part>) {
    if let Some(shared) = plan.downcast_ref::<SharedExec>()
        && known.insert(shared.table.number)
        && let Some(planned) = shared.table.planned.get()
    {
        for part in std::iter::once(&planned.base).chain(&planned.step) {
            gather(part, known, found);
            found.push(Part {
                number: shared.table.number,
                name: shared.table.name.to_string(),
                plan: Arc::clone(part),
            });
        }
    }
    for child in plan.children() {
        gather(child, known, found);
    }
}

/// Number and name of the common table expression whose rows an operator gives out, if it does that.
#[must_use]
pub fn shared_table(plan: &Arc<dyn ExecutionPlan>) -> Option<(usize, &str)> {
    let shared = plan.downcast_ref::<SharedExec>()?;
    Some((shared.table.number, &shared.table.name))
}

/// True for the operator that gives out the rows of the last step of a recursive query.
#[must_use]
pub fn gives_step(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<StepExec>()
}

/// True if a plan reads the rows of the last step of a recursive query, which are others each time it is executed.
///
/// # Errors
/// None.
pub fn is_step(plan: &Arc<dyn ExecutionPlan>) -> DfResult<bool> {
    plan.exists(|node| Ok(node.is::<StepExec>()))
}

impl DisplayAs for SharedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedExec: {}", self.table.name)
    }
}

#[allow(
    deprecated,
    reason = "with_new_children is deprecated and still required"
)]
impl ExecutionPlan for SharedExec {
    fn name(&self) -> &str {
        "SharedExec"
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

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let table = Arc::clone(&self.table);
        let rows = stream::once(async move { table.rows(&context).await });
        let rows = rows.map_ok(|rows| {
            let numbers = 0..rows.batches().len();
            stream::iter(numbers).map(move |number| Ok(rows.batches()[number].clone()))
        });
        let rows = rows.try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
