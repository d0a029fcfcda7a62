//! [`WatchExec`]: passes the rows of its input on, and shows them to who makes filters of them.

use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as DfResult, Statistics};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::{StreamExt, stream};

/// Makes filters of the rows that come by.
pub(super) trait Watcher: fmt::Debug + Send + Sync {
    /// What it computes over the rows.
    fn exprs(&self) -> Vec<&Arc<dyn PhysicalExpr>>;

    /// A run of the plan with so many partitions begins, before any row of it is asked for.
    fn begin(&self, partitions: usize) -> Arc<dyn Watch>;
}

/// A run that is watched.
pub(super) trait Watch: fmt::Debug + Send + Sync {
    /// Begins a partition, whose memory is charged to this.
    fn partition(self: Arc<Self>, memory: MemoryReservation) -> Box<dyn Partition>;
}

/// A partition of a run that is watched. One that is dropped before its end has failed, or its rows were not
/// all asked for.
pub(super) trait Partition: Send {
    /// Rows come by.
    fn rows(&mut self, batch: &RecordBatch);

    /// There are no more.
    fn end(self: Box<Self>);
}

/// Passes rows on.
#[derive(Debug)]
pub(in crate::access) struct WatchExec {
    input: Arc<dyn ExecutionPlan>,
    watcher: Arc<dyn Watcher>,
    run: OnceLock<Arc<dyn Watch>>,
}

impl WatchExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, watcher: Arc<dyn Watcher>) -> Self {
        Self {
            input,
            watcher,
            run: OnceLock::new(),
        }
    }
}

impl DisplayAs for WatchExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exprs = self.watcher.exprs();
        let exprs: Vec<_> = exprs.into_iter().map(ToString::to_string).collect();
        write!(f, "WatchExec: filters=[{}]", exprs.join(", "))
    }
}

#[allow(
    deprecated,
    reason = "with_new_children is deprecated and still required"
)]
impl ExecutionPlan for WatchExec {
    fn name(&self) -> &str {
        "WatchExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        for expr in self.watcher.exprs() {
            if visit(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let input = children.swap_remove(0);
        Ok(Arc::new(Self::new(input, self.watcher.clone())))
    }

    fn reset_state(self: Arc<Self>) -> DfResult<Arc<dyn ExecutionPlan>> {
        let (input, watcher) = (self.input.clone(), self.watcher.clone());
        Ok(Arc::new(Self::new(input, watcher)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let partitions = self.input.output_partitioning().partition_count();
        // Before any row is asked for: scans may have filters of an earlier run.
        let run = self.run.get_or_init(|| self.watcher.begin(partitions));
        let memory = MemoryConsumer::new(format!("RunTimeFilter[{partition}]"));
        let watched = run
            .clone()
            .partition(memory.register(context.memory_pool()));
        let input = self.input.execute(partition, context)?;
        let rows = stream::unfold(
            (input, Some(watched)),
            |(mut input, mut watched)| async move {
                let next = input.next().await;
                match &next {
                    Some(Ok(batch)) => watched.iter_mut().for_each(|watched| watched.rows(batch)),
                    Some(Err(_)) => watched = None,
                    None => {
                        if let Some(watched) = watched.take() {
                            watched.end();
                        }
                    }
                }
                next.map(|batch| (batch, (input, watched)))
            },
        );
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
