//! [`KeyCollectExec`]: passes the rows of a build side on and collects their keys for filters.

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
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use perigee_engine::ndp::KeySet;
use perigee_engine::scan::{FilterRun, ScanFilter};
use perigee_value::ColumnType;

use super::trace::partitions;
use crate::access::join_key::encode_value;

/// A scan's filter and the keys that it is made of.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The key over the rows of the build side.
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// Types of the scan's columns.
    types: Vec<ColumnType>,
    /// Places of the scan's columns in its records.
    places: Vec<u16>,
    filter: Arc<ScanFilter>,
}

impl Target {
    /// A target; `None` if storage cannot compare columns of these types.
    pub fn new(
        keys: Vec<Arc<dyn PhysicalExpr>>,
        types: Vec<ColumnType>,
        places: Vec<u16>,
        filter: Arc<ScanFilter>,
    ) -> Option<Self> {
        KeySet::new(&types)?;
        Some(Self {
            keys,
            types,
            places,
            filter,
        })
    }

    fn empty(&self) -> KeySet {
        KeySet::new(&self.types).expect("it was tried")
    }
}

/// Collects keys.
#[derive(Debug)]
pub(in crate::access) struct KeyCollectExec {
    input: Arc<dyn ExecutionPlan>,
    targets: Arc<[Target]>,
    collected: Arc<Mutex<Collected>>,
    /// What each target's filter calls this run.
    runs: OnceLock<Arc<[FilterRun]>>,
}

/// The keys of the partitions that have ended.
#[derive(Debug, Default)]
struct Collected {
    ended: usize,
    /// One for each target.
    sets: Vec<KeySet>,
    /// Memory that they take.
    reservations: Vec<MemoryReservation>,
}

impl KeyCollectExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, targets: Vec<Target>) -> Self {
        Self::over(input, targets.into())
    }

    fn over(input: Arc<dyn ExecutionPlan>, targets: Arc<[Target]>) -> Self {
        Self {
            input,
            targets,
            collected: Arc::default(),
            runs: OnceLock::new(),
        }
    }
}

/// What one partition collects.
struct Collecting {
    targets: Arc<[Target]>,
    runs: Arc<[FilterRun]>,
    /// None of a target whose keys cannot be encoded.
    sets: Vec<KeySet>,
    reservation: MemoryReservation,
    shared: Arc<Mutex<Collected>>,
    partitions: usize,
}

impl Collecting {
    /// Adds the keys of some rows. A key that cannot be computed is left to the join, which computes it too.
    fn add(&mut self, batch: &RecordBatch) {
        for (target, set) in self.targets.iter().zip(&mut self.sets) {
            if add_keys(target, batch, set).is_err() {
                set.give_up();
            }
        }
        let bytes = |sets: &[KeySet]| sets.iter().map(KeySet::bytes).sum();
        if self.reservation.try_resize(bytes(&self.sets)).is_err() {
            self.sets.iter_mut().for_each(KeySet::keep_bounds_only);
            self.reservation.resize(bytes(&self.sets));
        }
    }

    /// The partition has ended: the last one sets the filters.
    fn end(self) {
        let mut shared = self.shared.lock();
        shared.ended += 1;
        match shared.sets.is_empty() {
            true => shared.sets = self.sets,
            false => {
                let sets = shared.sets.iter_mut().zip(self.sets);
                sets.for_each(|(all, set)| all.merge(set));
            }
        }
        shared.reservations.push(self.reservation);
        if shared.ended == self.partitions {
            let sets = std::mem::take(&mut shared.sets);
            for ((target, run), set) in self.targets.iter().zip(&*self.runs).zip(sets) {
                if let Some(filter) = set.filter(&target.places) {
                    target.filter.set(*run, filter);
                }
            }
            shared.reservations.clear();
        }
    }
}

fn add_keys(target: &Target, batch: &RecordBatch, set: &mut KeySet) -> DfResult<()> {
    let rows = batch.num_rows();
    let values = target
        .keys
        .iter()
        .map(|key| key.evaluate(batch)?.into_array(rows))
        .collect::<DfResult<Vec<_>>>()?;
    let mut key = Vec::new();
    for row in 0..rows {
        key.clear();
        let mut parts = values.iter().zip(&target.types);
        let complete = parts.try_fold(true, |complete, (values, ty)| {
            Ok::<_, datafusion::error::DataFusionError>(
                complete && encode_value((*ty, false), values, row, &mut key)?,
            )
        })?;
        if complete {
            set.insert(&key);
        }
    }
    Ok(())
}

impl DisplayAs for KeyCollectExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = |target: &Target| {
            let keys: Vec<_> = target.keys.iter().map(ToString::to_string).collect();
            format!("({})", keys.join(", "))
        };
        let targets: Vec<_> = self.targets.iter().map(keys).collect();
        write!(f, "KeyCollectExec: filters=[{}]", targets.join(", "))
    }
}

#[allow(
    deprecated,
    reason = "with_new_children is deprecated and still required"
)]
impl ExecutionPlan for KeyCollectExec {
    fn name(&self) -> &str {
        "KeyCollectExec"
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
        for key in self.targets.iter().flat_map(|target| &target.keys) {
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
        let input = children.swap_remove(0);
        Ok(Arc::new(Self::over(input, self.targets.clone())))
    }

    fn reset_state(self: Arc<Self>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::over(
            self.input.clone(),
            self.targets.clone(),
        )))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let consumer = MemoryConsumer::new(format!("JoinFilter[{partition}]"));
        // Before any row of the probe side is asked for: its scans may have filters of an earlier run.
        let runs = || self.targets.iter().map(|target| target.filter.begin());
        let collecting = Collecting {
            targets: self.targets.clone(),
            runs: self.runs.get_or_init(|| runs().collect()).clone(),
            sets: self.targets.iter().map(Target::empty).collect(),
            reservation: consumer.register(context.memory_pool()),
            shared: self.collected.clone(),
            partitions: partitions(&self.input),
        };
        let input = self.input.execute(partition, context)?;
        let rows = stream::unfold(
            (input, Some(collecting)),
            |(mut input, mut collecting)| async move {
                let next = input.next().await;
                match &next {
                    Some(Ok(batch)) => collecting.iter_mut().for_each(|keys| keys.add(batch)),
                    // What is not complete is no filter.
                    Some(Err(_)) => collecting = None,
                    None => {
                        if let Some(keys) = collecting.take() {
                            keys.end();
                        }
                    }
                }
                next.map(|batch| (batch, (input, collecting)))
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
