//! [`JoinKeys`]: the keys of a join's build side become filters when it has ended.

use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use parking_lot::Mutex;
use perigee_engine::ndp::KeySet;
use perigee_engine::scan::FilterRun;

use super::target::Target;
use super::watch::{Partition, Watch, Watcher};

/// The scans that the keys of a build side filter.
#[derive(Debug)]
pub(super) struct JoinKeys {
    targets: Arc<[Target]>,
}

impl JoinKeys {
    /// Storage compares the columns of each target.
    pub fn new(targets: Vec<Target>) -> Self {
        Self {
            targets: targets.into(),
        }
    }
}

impl Watcher for JoinKeys {
    fn exprs(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.targets.iter().flat_map(Target::keys).collect()
    }

    fn begin(&self, partitions: usize) -> Arc<dyn Watch> {
        let runs = self.targets.iter().map(|target| target.filter().begin());
        Arc::new(Run {
            runs: runs.collect(),
            targets: self.targets.clone(),
            partitions,
            collected: Mutex::default(),
        })
    }
}

/// A run of the build side.
#[derive(Debug)]
struct Run {
    targets: Arc<[Target]>,
    /// What each target's filter calls this run.
    runs: Vec<FilterRun>,
    partitions: usize,
    collected: Mutex<Collected>,
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

impl Watch for Run {
    fn partition(self: Arc<Self>, memory: MemoryReservation) -> Box<dyn Partition> {
        let empty = |target: &Target| KeySet::new(target.types()).expect("it was tried");
        Box::new(Collecting {
            sets: self.targets.iter().map(empty).collect(),
            run: self,
            memory,
        })
    }
}

/// What one partition collects.
struct Collecting {
    run: Arc<Run>,
    sets: Vec<KeySet>,
    memory: MemoryReservation,
}

impl Partition for Collecting {
    /// A key that cannot be computed is left to the join, which computes it too.
    fn rows(&mut self, batch: &RecordBatch) {
        for (target, set) in self.run.targets.iter().zip(&mut self.sets) {
            if target.each_key(batch, |key| set.insert(key)).is_err() {
                set.give_up();
            }
        }
        let bytes = |sets: &[KeySet]| sets.iter().map(KeySet::bytes).sum();
        if self.memory.try_resize(bytes(&self.sets)).is_err() {
            self.sets.iter_mut().for_each(KeySet::keep_bounds_only);
            self.memory.resize(bytes(&self.sets));
        }
    }

    /// The last partition sets the filters.
    fn end(self: Box<Self>) {
        let Self { run, sets, memory } = *self;
        let mut collected = run.collected.lock();
        collected.ended += 1;
        match collected.sets.is_empty() {
            true => collected.sets = sets,
            false => {
                let sets = collected.sets.iter_mut().zip(sets);
                sets.for_each(|(all, set)| all.merge(set));
            }
        }
        collected.reservations.push(memory);
        if collected.ended == run.partitions {
            let sets = std::mem::take(&mut collected.sets);
            for ((target, number), set) in run.targets.iter().zip(&run.runs).zip(sets) {
                if let Some(filter) = set.filter(target.places()) {
                    target.filter().set(*number, filter);
                }
            }
            collected.reservations.clear();
        }
    }
}
