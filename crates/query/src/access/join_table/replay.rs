//! [`ReplayExec`]: rows that were read for a table that did not come about, and those behind them.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as DfResult, Statistics, internal_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::stream::{self, StreamExt};
use parking_lot::Mutex;

/// Rows that were read.
pub(super) struct Read {
    pub batches: Vec<RecordBatch>,
    /// What they are charged to.
    pub memory: MemoryReservation,
    /// The rows that come behind them, unless all were read.
    pub rest: Option<SendableRecordBatchStream>,
}

/// Where rows that were read wait for being replayed.
#[derive(Default)]
pub(super) struct Slot(Mutex<Option<Read>>);

impl Slot {
    pub fn put(&self, read: Read) {
        *self.0.lock() = Some(read);
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slot")
    }
}

/// Gives out rows that somebody else began to read.
#[derive(Debug)]
pub(super) struct ReplayExec {
    /// The plan that they are of, which is executed elsewhere.
    of: Arc<dyn ExecutionPlan>,
    slot: Arc<Slot>,
    properties: Arc<PlanProperties>,
}

impl ReplayExec {
    pub fn new(of: Arc<dyn ExecutionPlan>, slot: Arc<Slot>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(of.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            of,
            slot,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for ReplayExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReplayExec")
    }
}

#[allow(
    deprecated,
    reason = "with_new_children is deprecated and still required"
)]
impl ExecutionPlan for ReplayExec {
    fn name(&self) -> &str {
        "ReplayExec"
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
        let read = self.slot.0.lock().take();
        let Read {
            batches,
            memory,
            rest,
        } = read.ok_or_else(|| internal_datafusion_err!("Q15: no rows to replay"))?;
        // The memory is given back behind the last row.
        let charged = stream::once(async move { drop(memory) }).filter_map(|()| async { None });
        let rows = stream::iter(batches.into_iter().map(Ok))
            .chain(charged)
            .chain(stream::iter(rest).flatten());
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> DfResult<Arc<Statistics>> {
        StatisticsContext::new().compute(self.of.as_ref(), &StatisticsArgs::new())
    }
}
