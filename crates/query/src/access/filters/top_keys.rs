//! [`SortKeys`]: the worst of the rows that a sort keeps becomes a filter, which gets tighter as better rows come.

use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use parking_lot::Mutex;
use perigee_engine::ndp::{Best, TopKeys};
use perigee_engine::scan::FilterRun;

use super::target::Target;
use super::watch::{Partition, Watch, Watcher};

/// The scans that rows of a sort come from.
#[derive(Debug)]
pub(super) struct SortKeys {
    best: Best,
    targets: Arc<[SortTarget]>,
}

/// A scan that rows of a sort come from.
#[derive(Debug)]
pub(super) struct SortTarget {
    pub target: Target,
    /// Each row of the scan is a row of the sort.
    pub direct: bool,
}

impl SortKeys {
    /// Storage compares the columns of each target.
    pub fn new(best: Best, targets: Vec<SortTarget>) -> Self {
        Self {
            best,
            targets: targets.into(),
        }
    }
}

impl Watcher for SortKeys {
    fn exprs(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.targets.iter().flat_map(|t| t.target.keys()).collect()
    }

    fn begin(&self, _: usize) -> Arc<dyn Watch> {
        let kept = self.targets.iter().map(|SortTarget { target, direct }| {
            let run = target.filter().begin();
            let keys = TopKeys::new(target.types(), self.best).expect("it was tried");
            if let Some(filter) = keys.filter(target.places(), *direct) {
                target.filter().set(run, filter);
            }
            Some((run, keys))
        });
        Arc::new(Run {
            kept: Mutex::new(kept.collect()),
            targets: self.targets.clone(),
        })
    }
}

/// A run of the sort's input.
#[derive(Debug)]
struct Run {
    targets: Arc<[SortTarget]>,
    /// What is kept for each target, of all partitions: none if there was no memory for it.
    kept: Mutex<Vec<Option<(FilterRun, TopKeys)>>>,
}

impl Watch for Run {
    fn partition(self: Arc<Self>, memory: MemoryReservation) -> Box<dyn Partition> {
        Box::new(Keeping { run: self, memory })
    }
}

/// A partition.
struct Keeping {
    run: Arc<Run>,
    /// What is kept is charged to each partition, for one may go on when the others have ended.
    memory: MemoryReservation,
}

impl Partition for Keeping {
    fn rows(&mut self, batch: &RecordBatch) {
        let mut kept = self.run.kept.lock();
        for (SortTarget { target, direct }, place) in self.run.targets.iter().zip(&mut *kept) {
            let Some((run, keys)) = place else { continue };
            let mut changed = false;
            let computed = target.each_key(batch, |key| changed |= keys.insert(key));
            match computed {
                // The filter that there is stays right.
                Err(_) => *place = None,
                Ok(()) if changed => {
                    if let Some(filter) = keys.filter(target.places(), *direct) {
                        target.filter().set(*run, filter);
                    }
                }
                Ok(()) => {}
            }
        }
        let bytes = kept.iter().flatten().map(|(_, keys)| keys.bytes()).sum();
        if self.memory.try_resize(bytes).is_err() {
            kept.iter_mut().for_each(|place| *place = None);
            self.memory.free();
        }
    }

    fn end(self: Box<Self>) {}
}
