//! [`InTurnExec`]: the operator.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as DfResult, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, OrderingRequirements, Partitioning, PhysicalExpr,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties,
};
use futures::StreamExt;

use super::Work;

/// The operator. It keeps the order that its input has when the plan is made: no rule may give it up.
#[derive(Debug)]
pub struct InTurnExec {
    input: Arc<dyn ExecutionPlan>,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    work: Arc<Work>,
    order: Option<OrderingRequirements>,
    properties: Arc<PlanProperties>,
}

impl InTurnExec {
    /// An operator over rows that come in the order that they have.
    #[must_use]
    pub fn new(
        input: Arc<dyn ExecutionPlan>,
        arguments: Vec<Arc<dyn PhysicalExpr>>,
        work: Arc<Work>,
        schema: SchemaRef,
    ) -> Self {
        let order = input.output_ordering().cloned();
        let order = order.map(OrderingRequirements::from);
        Self::ordered(input, arguments, work, schema, order)
    }

    fn ordered(
        input: Arc<dyn ExecutionPlan>,
        arguments: Vec<Arc<dyn PhysicalExpr>>,
        work: Arc<Work>,
        schema: SchemaRef,
        order: Option<OrderingRequirements>,
    ) -> Self {
        let orders = input.output_ordering().cloned();
        let properties = PlanProperties::new(
            EquivalenceProperties::new_with_orderings(schema, orders),
            Partitioning::UnknownPartitioning(1),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self {
            input,
            arguments,
            work,
            order,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for InTurnExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InTurnExec: {}", self.work)
    }
}

#[allow(
    deprecated,
    reason = "with_new_children is deprecated and still required"
)]
impl ExecutionPlan for InTurnExec {
    fn name(&self) -> &str {
        "InTurnExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.order.clone()]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
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
            return internal_err!("Q1: what is computed in turn has an input");
        };
        let (arguments, work) = (self.arguments.clone(), Arc::clone(&self.work));
        let (schema, order) = (self.schema(), self.order.clone());
        Ok(Arc::new(Self::ordered(
            input, arguments, work, schema, order,
        )))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let (arguments, work) = (self.arguments.clone(), Arc::clone(&self.work));
        let schema = self.schema();
        let batches = input.map(move |batch| work.rows(&batch?, &arguments, &schema));
        let batches = RecordBatchStreamAdapter::new(self.schema(), batches);
        Ok(Box::pin(batches))
    }
}
