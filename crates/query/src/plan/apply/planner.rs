//! Plans of [`ApplyNode`]s.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result as DfResult;
use datafusion::execution::SessionState;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

use super::exec::{ApplyExec, Subquery};
use super::node::ApplyNode;
use crate::plan::common::Commons;
use crate::plan::in_turn::InTurn;
use crate::plan::json_table::JsonTables;

/// DataFusion's planner, which knows these nodes, too.
#[derive(Debug)]
pub struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![
            Arc::new(Applies),
            Arc::new(Commons),
            Arc::new(InTurn),
            Arc::new(JsonTables),
        ]);
        planner.create_physical_plan(plan, session).await
    }
}

struct Applies;

#[async_trait]
impl ExtensionPlanner for Applies {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
        let node = node.as_any().downcast_ref::<ApplyNode>();
        let state = session.as_any().downcast_ref::<SessionState>();
        let (Some(node), Some(state)) = (node, state) else {
            return Ok(None);
        };
        let (input, schema) = (Arc::clone(&physical_inputs[0]), inputs[0].schema());
        let arguments = node.expressions().into_iter();
        let arguments = arguments
            .map(|argument| planner.create_physical_expr(&argument, schema, session, context));
        let subquery = Subquery {
            plan: Arc::clone(node.subquery()),
            answer: node.answer(),
            state: state.clone(),
        };
        let fields = input.schema().fields().iter().cloned().collect::<Vec<_>>();
        let own = inputs[0].schema().fields().len();
        let added = node.schema().fields().iter().skip(own).cloned();
        let fields: Vec<_> = fields.into_iter().chain(added).collect();
        let schema = Arc::new(datafusion::arrow::datatypes::Schema::new(fields));
        Ok(Some(Arc::new(ApplyExec::new(
            input,
            arguments.collect::<DfResult<_>>()?,
            Arc::new(subquery),
            schema,
        ))))
    }
}
