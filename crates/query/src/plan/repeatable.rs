//! [`RepeatableExec`]: the left input of a nested-loop join, which DataFusion executes again if its rows do not
//! fit into memory.
//!
//! The join then reads the left side from a file, a part at a time. To write the file it executes its input a
//! second time, but operators have run-time state: a repartition gives out its partitions once, a join
//! keeps what it loaded. So a second execution runs a copy of the input in its initial state. It reads through
//! the same view, so its rows are the same.
//!
//! Two cases end with 1038 instead:
//! - The join decides at its end which left rows have matches, and its right side has several partitions.
//!   DataFusion then decides once for each partition.
//! - The input itself runs out of memory. It would do so again, and with nested joins the number of
//!   executions would double with each level.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{
    DataFusionError, JoinType, Result as DfResult, Statistics, internal_datafusion_err,
    resources_datafusion_err,
};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::TryStreamExt;

use crate::error::SqlError;

/// An input of one partition that can be executed several times.
#[derive(Debug)]
pub struct RepeatableExec {
    input: Arc<dyn ExecutionPlan>,
    /// The join can go on with a second execution.
    allowed: bool,
    executed: AtomicBool,
}

impl RepeatableExec {
    /// The left input of a join.
    pub fn left_of(join: &NestedLoopJoinExec) -> Arc<dyn ExecutionPlan> {
        let decides_at_end = matches!(
            join.join_type(),
            JoinType::Left
                | JoinType::LeftSemi
                | JoinType::LeftAnti
                | JoinType::LeftMark
                | JoinType::Full
        );
        let right = join.right().output_partitioning().partition_count();
        Arc::new(Self::new(
            join.left().clone(),
            !decides_at_end || right == 1,
        ))
    }

    fn new(input: Arc<dyn ExecutionPlan>, allowed: bool) -> Self {
        Self {
            input,
            allowed,
            executed: AtomicBool::new(false),
        }
    }
}

/// An error of the input, which a join must not take for its own lack of memory.
fn of_input(error: DataFusionError) -> DataFusionError {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => SqlError::from(error).into_df(),
        _ => error,
    }
}

impl DisplayAs for RepeatableExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RepeatableExec")
    }
}

#[allow(
    deprecated,
    reason = "with_new_children is deprecated and still required"
)]
impl ExecutionPlan for RepeatableExec {
    fn name(&self) -> &str {
        "RepeatableExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return Err(internal_datafusion_err!(
                "Q14: a repeatable input has one child"
            ));
        };
        Ok(Arc::new(Self::new(input, self.allowed)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let input = match self.executed.swap(true, Ordering::Relaxed) {
            false => self.input.clone(),
            true if self.allowed => reset_plan_states(self.input.clone())?,
            true => {
                return Err(resources_datafusion_err!(
                    "the left rows of a nested-loop join do not fit"
                ));
            }
        };
        let rows = input.execute(partition, context).map_err(of_input)?;
        let rows = rows.map_err(of_input);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> DfResult<Arc<Statistics>> {
        Ok(inputs[0].clone())
    }
}
