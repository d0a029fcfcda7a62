//! [`JoinTableExec`]: makes a table of a join's small side and runs the scan of the other side with it, or the ordinary plan.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as DfResult, Statistics, internal_datafusion_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use perigee_engine::ndp::TableRefused;
use tokio::sync::OnceCell;

use super::replay::{Read, Slot};
use super::table_side::TableSide;
use crate::access::exec::PageScanExec;

/// The rows that are read for a table may take so many times the table's budget, because they may have columns that no
/// table has, and share buffers with others.
const READ_TIMES: usize = 4;

/// Runs a scan that storage joins and aggregates, once the table for that is there.
#[derive(Clone, Debug)]
pub struct JoinTableExec {
    /// The small side.
    table: Arc<dyn ExecutionPlan>,
    /// What is run if no table comes about.
    otherwise: Arc<dyn ExecutionPlan>,
    /// What is run with the table.
    scan: PageScanExec,
    side: Arc<TableSide>,
    /// Where the ordinary plan gets the rows of the small side from.
    slot: Arc<Slot>,
    properties: Arc<PlanProperties>,
    run: Arc<Run>,
}

/// A run of the node, which all partitions share.
#[derive(Debug, Default)]
struct Run {
    source: OnceCell<Source>,
    /// Partitions that were executed.
    executed: Mutex<HashSet<usize>>,
}

/// Where the rows come from.
#[derive(Debug)]
enum Source {
    Joined {
        scan: Arc<PageScanExec>,
        /// What the table is charged to.
        _memory: MemoryReservation,
    },
    Otherwise(TableRefused),
}

impl JoinTableExec {
    pub(super) fn new(
        table: Arc<dyn ExecutionPlan>,
        otherwise: Arc<dyn ExecutionPlan>,
        scan: PageScanExec,
        side: Arc<TableSide>,
        slot: Arc<Slot>,
    ) -> Self {
        let partitions = otherwise.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(otherwise.schema()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            table,
            otherwise,
            scan: scan.with_partitions(partitions),
            side,
            slot,
            properties: Arc::new(properties),
            run: Arc::default(),
        }
    }

    /// The small side.
    #[must_use]
    pub fn table(&self) -> &Arc<dyn ExecutionPlan> {
        &self.table
    }

    /// The scan, as it ran if it did; `None` if it was not to be because no table came about.
    #[must_use]
    pub fn scan(&self) -> Option<&PageScanExec> {
        match self.run.source.get() {
            None => Some(&self.scan),
            Some(Source::Joined { scan, .. }) => Some(scan),
            Some(Source::Otherwise(_)) => None,
        }
    }

    /// The ordinary plan, and why it ran, if it did.
    #[must_use]
    pub fn otherwise(&self) -> Option<(&Arc<dyn ExecutionPlan>, &'static str)> {
        let Some(Source::Otherwise(refused)) = self.run.source.get() else {
            return None;
        };
        let why = match refused {
            TableRefused::Duplicate => "two rows have the same key",
            TableRefused::TooLarge => "its rows take more than ndp_join_table_memory",
            TableRefused::Value => "it has a value that is not valid for its column",
        };
        Some((&self.otherwise, why))
    }

    /// The node over other inputs, not yet run.
    fn over(&self, table: Arc<dyn ExecutionPlan>, otherwise: Arc<dyn ExecutionPlan>) -> Self {
        let (side, slot) = (self.side.clone(), self.slot.clone());
        Self::new(table, otherwise, self.scan.clone(), side, slot)
    }

    /// Reads the small side, unless that was done.
    async fn source(&self, context: Arc<TaskContext>) -> DfResult<&Source> {
        let begin = || async {
            let source = self.read(context).await?;
            if matches!(source, Source::Otherwise(_)) {
                self.scan.context.status.count_refused();
            }
            Ok(source)
        };
        self.run.source.get_or_try_init(begin).await
    }

    async fn read(&self, context: Arc<TaskContext>) -> DfResult<Source> {
        let consumer = MemoryConsumer::new("JoinTable");
        let mut read = Read {
            batches: Vec::new(),
            memory: consumer.register(context.memory_pool()),
            rest: None,
        };
        let builder = self.side.builder();
        let mut builder =
            builder.ok_or_else(|| internal_datafusion_err!("Q15: no such join table"))?;
        let mut rows = self.table.execute(0, context)?;
        let mut built = 0;
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            let added = self.side.add(&batch, &mut builder)?;
            let bytes = batch.get_array_memory_size() + builder.bytes() - built;
            built = builder.bytes();
            read.batches.push(batch);
            let fits = read.memory.size() + bytes <= READ_TIMES * self.side.budget
                && read.memory.try_grow(bytes).is_ok();
            let refused = match added {
                Err(refused) => refused,
                Ok(()) if !fits => TableRefused::TooLarge,
                Ok(()) => continue,
            };
            read.rest = Some(rows);
            self.slot.put(read);
            return Ok(Source::Otherwise(refused));
        }
        match builder.finish() {
            Ok((table, content)) => {
                let memory = read.memory;
                memory.resize(table.memory() + content.len());
                let scan = Arc::new(self.scan.joined_with(table, content));
                Ok(Source::Joined {
                    scan,
                    _memory: memory,
                })
            }
            Err(refused) => {
                self.slot.put(read);
                Ok(Source::Otherwise(refused))
            }
        }
    }

    /// The rows of a partition.
    async fn batches(
        self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        match self.source(context.clone()).await? {
            Source::Joined { scan, .. } => scan.execute(partition, context),
            Source::Otherwise(_) => self.otherwise.execute(partition, context),
        }
    }
}

impl DisplayAs for JoinTableExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinTableExec: ")?;
        self.scan.fmt_as(DisplayFormatType::Default, f)
    }
}

#[allow(
    deprecated,
    reason = "with_new_children is deprecated and still required"
)]
impl ExecutionPlan for JoinTableExec {
    fn name(&self) -> &str {
        "JoinTableExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![
            Distribution::SinglePartition,
            Distribution::UnspecifiedDistribution,
        ]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.table, &self.otherwise]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        for key in &self.side.keys {
            if visit(key)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let otherwise = children.swap_remove(1);
        let table = children.swap_remove(0);
        Ok(Arc::new(self.over(table, otherwise)))
    }

    fn reset_state(self: Arc<Self>) -> DfResult<Arc<dyn ExecutionPlan>> {
        let (table, otherwise) = (self.table.clone(), self.otherwise.clone());
        Ok(Arc::new(self.over(table, otherwise)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        if !self.run.executed.lock().insert(partition) {
            return Err(internal_datafusion_err!(
                "Q15: partition {partition} of a join with a table is executed twice"
            ));
        }
        let rows = stream::once(self.clone().batches(partition, context)).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> DfResult<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema())))
    }
}
