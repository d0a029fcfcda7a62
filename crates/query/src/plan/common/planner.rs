//! Plans of [`SharedNode`]s and [`StepNode`]s.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::Transformed;
use datafusion::execution::SessionState;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Extension, LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};

use super::exec::SharedExec;
use super::node::SharedNode;
use super::step::{StepNode, Work};
use super::{CommonTable, Planned};
use crate::explain::{Measuring, measured};
use crate::interrupt;
use crate::plan::stoppable::stoppable;

/// The planner of these nodes.
pub struct Commons;

#[async_trait]
impl ExtensionPlanner for Commons {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        _: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(step) = node.as_any().downcast_ref::<StepNode>() {
            return step.operator().map(Some);
        }
        let shared = node.as_any().downcast_ref::<SharedNode>();
        let state = session.as_any().downcast_ref::<SessionState>();
        let (Some(shared), Some(state)) = (shared, state) else {
            return Ok(None);
        };
        let table = shared.table();
        let planned = table.planned.get_or_try_init(|| table.plan(state));
        planned.await?;
        let schema = Arc::clone(node.schema().inner());
        Ok(Some(Arc::new(SharedExec::new(Arc::clone(table), schema))))
    }
}

impl CommonTable {
    /// Plans that can be run.
    async fn plan(&self, state: &SessionState) -> DfResult<Planned> {
        let base = physical(&self.base, state).await?;
        let work = Arc::new(Work::default());
        let step = match &self.step {
            Some(step) => {
                let plan = self.reading(&step.plan, &work)?;
                Some(physical(&plan, &of_steps(state)).await?)
            }
            None => None,
        };
        Ok(Planned {
            base,
            step,
            work,
            begun: AtomicBool::new(false),
        })
    }

    /// The plan of a step that reads these rows.
    fn reading(&self, plan: &LogicalPlan, work: &Arc<Work>) -> DfResult<LogicalPlan> {
        let reading = plan.clone().transform_up_with_subqueries(|node| {
            if let LogicalPlan::Extension(extension) = &node
                && let Some(step) = extension.node.as_any().downcast_ref::<StepNode>()
                && step.number() == self.number
            {
                let node = Arc::new(step.of(work));
                return Ok(Transformed::yes(LogicalPlan::Extension(Extension { node })));
            }
            Ok(Transformed::no(node))
        })?;
        Ok(reading.data)
    }
}

/// The state for a step: there may be many of few rows each, for which starting tasks takes longer than all else.
fn of_steps(state: &SessionState) -> SessionState {
    let mut state = state.clone();
    let options = state.config_mut().options_mut();
    options.optimizer.enable_round_robin_repartition = false;
    state
}

async fn physical(plan: &LogicalPlan, state: &SessionState) -> DfResult<Arc<dyn ExecutionPlan>> {
    interrupt::check_df()?;
    let plan = state.optimize(plan)?;
    let plan = state.create_physical_plan(&plan).await?;
    let plan = match interrupt::token() {
        Some(token) => stoppable(plan, &token)?,
        None => plan,
    };
    match state.config().get_extension::<Measuring>() {
        Some(_) => measured(plan),
        None => Ok(plan),
    }
}
