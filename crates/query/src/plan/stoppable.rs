//! Joins that can be stopped, and that let others run.
//!
//! Every other operator makes at most as many rows as it takes in, and our scans pause: what runs
//! above them ends, or lets others run, within milliseconds. A join may compare for hours between
//! two looks at its inputs, and give out nothing, or so much that what takes it never pauses. So its
//! output gets pauses ([`CooperativeExec`]), and its condition a look at the cancel token. The left input
//! of a nested-loop join becomes one that it may execute again ([`RepeatableExec`]). Window operators become ones
//! that are charged for what they hold ([`ChargedWindowExec`]).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};
use perigee_engine::scan::CancelToken;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::charged_window::ChargedWindowExec;
use super::repeatable::RepeatableExec;
use crate::access::IndexJoinExec;
use crate::error::SqlError;

/// Evaluations of a condition between two pauses: each is over some thousand pairs of rows, so that
/// is some milliseconds.
const EVALUATIONS: u32 = 64;

/// The plan with joins that stop soon after `cancel` is set. To be applied last: the planner's rules
/// know joins by their type.
pub fn stoppable(
    plan: Arc<dyn ExecutionPlan>,
    cancel: &CancelToken,
) -> DfResult<Arc<dyn ExecutionPlan>> {
    let changed = plan.transform_up(|node| {
        if let Some(window) = ChargedWindowExec::of(&node) {
            return Ok(Transformed::yes(window));
        }
        match join(&node, cancel)? {
            Some(join) => Ok(Transformed::yes(
                Arc::new(CooperativeExec::new(join)) as Arc<dyn ExecutionPlan>
            )),
            None => Ok(Transformed::no(node)),
        }
    })?;
    Ok(changed.data)
}

/// The node with a condition that can be stopped, if it is a join.
fn join(
    node: &Arc<dyn ExecutionPlan>,
    cancel: &CancelToken,
) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        let (left, right) = (RepeatableExec::left_of(join), join.right().clone());
        let filter = join.filter().map(|filter| watched(filter, cancel));
        let join = NestedLoopJoinExecBuilder::new(left, right, *join.join_type())
            .with_projection_ref(join.projection().clone())
            .with_filter(filter)
            .build()?;
        return Ok(Some(Arc::new(join)));
    }
    if let Some(join) = node.downcast_ref::<HashJoinExec>()
        && let Some(filter) = join.filter()
    {
        let filter = watched(filter, cancel);
        return join
            .builder()
            .with_filter(Some(filter))
            .build_exec()
            .map(Some);
    }
    let is_join = node.is::<HashJoinExec>()
        || node.is::<CrossJoinExec>()
        || node.is::<SortMergeJoinExec>()
        || node.is::<IndexJoinExec>();
    Ok(is_join.then(|| node.clone()))
}

fn watched(filter: &JoinFilter, cancel: &CancelToken) -> JoinFilter {
    let condition = Watched {
        condition: filter.expression().clone(),
        cancel: cancel.clone(),
        evaluations: AtomicU32::new(0),
    };
    JoinFilter::new(
        Arc::new(condition),
        filter.column_indices().to_vec(),
        filter.schema().clone(),
    )
}

/// A condition that fails once the statement was stopped.
struct Watched {
    condition: Arc<dyn PhysicalExpr>,
    cancel: CancelToken,
    evaluations: AtomicU32,
}

impl PhysicalExpr for Watched {
    fn evaluate(&self, batch: &RecordBatch) -> DfResult<ColumnarValue> {
        if self.cancel.is_cancelled() {
            return Err(SqlError::interrupted().into_df());
        }
        if self.evaluations.fetch_add(1, Ordering::Relaxed) % EVALUATIONS == EVALUATIONS - 1 {
            pause();
        }
        self.condition.evaluate(batch)
    }

    fn return_field(&self, schema: &Schema) -> DfResult<FieldRef> {
        self.condition.return_field(schema)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> DfResult<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self {
            condition: children[0].clone(),
            cancel: self.cancel.clone(),
            evaluations: AtomicU32::new(0),
        }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}

/// Lets other tasks of this thread go on: on another thread, if there are any.
fn pause() {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    if matches!(flavor, Ok(RuntimeFlavor::MultiThread)) {
        tokio::task::block_in_place(|| ());
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        self.condition.eq(&other.condition)
    }
}

impl Eq for Watched {}

impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}
