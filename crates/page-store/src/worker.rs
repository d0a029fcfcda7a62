//! The background threads: each looks for a slice with work, does one step of it, and looks again.
//!
//! Work of a slice is done by one thread at a time. A thread that panics stops the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use perigee_page_api::PageError;

use crate::consolidate::PAUSE;
use crate::slice::{Shared, Slice, Worker};

/// How often threads look for work that nobody announced: a fragment got old, a slice idle, the
/// recycle LSN moved.
const TICK: Duration = Duration::from_millis(20);

/// Where the threads find slices.
pub(crate) trait Slices: Send + Sync + 'static {
    /// All slices that can be worked on.
    fn all(&self) -> Vec<Arc<Slice>>;
}

/// The threads; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct Workers {
    shared: Arc<Shared>,
    ending: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub(crate) fn start(
        n: usize,
        shared: &Arc<Shared>,
        slices: &Arc<dyn Slices>,
    ) -> std::io::Result<Self> {
        let ending = Arc::new(AtomicBool::new(false));
        let cursor = Arc::new(AtomicUsize::new(0));
        let start = |i| {
            let (shared, slices) = (shared.clone(), slices.clone());
            let (ending, cursor) = (ending.clone(), cursor.clone());
            std::thread::Builder::new()
                .name(format!("consolidate-{i}"))
                .spawn(move || {
                    let guard = StopOnPanic(&shared);
                    run(&shared, &*slices, &ending, &cursor);
                    std::mem::forget(guard);
                })
        };
        let threads = (0..n.max(1)).map(start).collect::<Result<_, _>>()?;
        Ok(Self {
            shared: shared.clone(),
            ending,
            threads,
        })
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        {
            // Under the latch, so that no thread is between looking and waiting.
            let _latch = self.shared.work_latch.lock();
            self.shared.work.notify_all();
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has stopped the store and said so.
            drop(thread.join());
        }
    }
}

struct StopOnPanic<'a>(&'a Shared);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        self.0.stop.stop("a consolidation thread panicked".into());
    }
}

fn run(shared: &Shared, slices: &dyn Slices, ending: &AtomicBool, cursor: &AtomicUsize) {
    while !ending.load(Ordering::Relaxed) {
        let all = slices.all();
        let mut worked = false;
        for _ in 0..all.len() {
            if ending.load(Ordering::Relaxed) || shared.stop.check().is_err() {
                break;
            }
            // The cursor is shared, so that threads go to different slices.
            let slice = &all[cursor.fetch_add(1, Ordering::Relaxed) % all.len()];
            if let Some(mut worker) = slice.worker.try_lock()
                && !worker.deleted
            {
                worked |= step(shared, slice, &mut worker);
            }
        }
        if !worked {
            let mut latch = shared.work_latch.lock();
            if !ending.load(Ordering::Relaxed) {
                shared.work.wait_for(&mut latch, TICK);
            }
        }
    }
}

/// Does what is due in a slice; true if anything was.
fn step(shared: &Shared, slice: &Slice, worker: &mut Worker) -> bool {
    let now = Instant::now();
    if worker.pause.is_some_and(|until| now < until) {
        return false;
    }
    match try_step(shared, slice, worker, now) {
        Ok(worked) => worked,
        Err(error) => {
            tracing::error!("background work on {}: {error}", slice.key);
            if matches!(error, PageError::Full(_)) {
                // Whoever looks again now takes care.
                let _ = shared.reserve.has_room();
            }
            worker.pause = Some(now + PAUSE);
            false
        }
    }
}

fn try_step(
    shared: &Shared,
    slice: &Slice,
    worker: &mut Worker,
    now: Instant,
) -> Result<bool, PageError> {
    let mut worked = false;
    if slice.pruning_due(worker) {
        slice.prune(worker);
        worked = true;
    }
    worked |= slice.forget_buried(worker);
    // First what frees space: on a full disk the rest may need it.
    if shared.reserve.is_low() {
        worked |= slice.leave_dead_log()?;
    }
    worked |= slice.delete_dead(worker)?;
    let urgent = shared.backlog.load(Ordering::Relaxed) >= shared.config.consolidate_above;
    let due = slice.consolidation_due(now, urgent);
    let consolidated = match due {
        true => slice.consolidate(worker),
        false => Ok(()),
    };
    worked |= due && consolidated.is_ok();
    // Where there is no room for new versions there is some for moving what keeps files from going.
    if !matches!(consolidated, Ok(()) | Err(PageError::Full(_))) {
        return consolidated.map(|()| worked);
    }
    if let Some(segment) = slice.rewrite_due(worker) {
        slice.rewrite(worker, &segment)?;
        worked = true;
    }
    worked |= slice.leave_dead_log()?;
    match worked {
        true => Ok(true),
        false => consolidated.map(|()| false),
    }
}
