//! Plans of [`InTurnNode`]s.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::Schema;
use datafusion::catalog::Session;
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};

use super::exec::InTurnExec;
use super::node::InTurnNode;

/// The planner of these nodes.
pub struct InTurn;

#[async_trait]
impl ExtensionPlanner for InTurn {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<InTurnNode>() else {
            return Ok(None);
        };
        let (input, schema) = (Arc::clone(&physical_inputs[0]), inputs[0].schema());
        let arguments = UserDefinedLogicalNodeCore::expressions(node).into_iter();
        let arguments = arguments
            .map(|argument| planner.create_physical_expr(&argument, schema, session, context));
        let arguments = arguments.collect::<DfResult<_>>()?;
        let own = schema.fields().len();
        let added = UserDefinedLogicalNodeCore::schema(node).fields();
        let fields = input.schema().fields().iter().cloned().collect::<Vec<_>>();
        let fields = fields.into_iter().chain(added.iter().skip(own).cloned());
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let work = Arc::clone(node.work());
        let operator = InTurnExec::new(input, arguments, work, schema);
        Ok(Some(Arc::new(operator)))
    }
}
