//! Near-data processing: a bounded queue and threads of its own (taurus-ndp section IV.D).
//!
//! A request is cut into *chunks* of neighbouring pages. Any number of threads work on a request at
//! a time; each runs one program over the chunks that it gets, so that aggregates are merged over
//! all of these, and sends a result when it has enough rows or there is nothing more to get.
//! Descriptors are prepared by the same threads.
//!
//! Best effort, page by page: what does not fit the queue is declined and read like any page. Log
//! and ordinary reads run on other threads, never wait for these, and come first where cores are
//! scarce: NDP threads, and those that send what they make and what is declined, have a lower
//! priority ([`priority`](crate::priority)).
//!
//! Fair: a thread goes to the work of the database for which the fewest threads work, and leaves
//! a request after a while if others wait; a database that has much in the queue leaves room for
//! others. A client that does not read its results does not hold a thread: its request steps aside
//! until there is room, and is given up after a while. A client that is gone stops its work within
//! a page.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use perigee_ndp::GroupMemory;
use perigee_page_api::{NdpReply, PageError, thread_cpu_nanos};
use perigee_types::{DbId, Lsn, PageId};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{OwnedPermit, Sender};

use crate::config::Config;
use crate::figures::NdpFigures;
use crate::ndp_run::{Chunk, Partial};
use crate::plugin::{NdpProgram, PreparedFilter};
use crate::priority::step_back;
use crate::slice::Slice;

/// Pages in a chunk: enough to read them with few system calls, few enough to share a request of
/// a thousand pages among threads.
pub(crate) const CHUNK: usize = 32;

/// How long a thread stays with a request when others wait.
const TURN: Duration = Duration::from_millis(10);

/// Descriptors that may wait for being prepared: as many as there are programs worth keeping.
const PREPARATIONS: usize = 256;

/// What goes to the client.
pub(crate) type Reply = Result<NdpReply, PageError>;

/// A request, or the part of it that was taken.
pub(crate) struct Job {
    pub slice: Arc<Slice>,
    pub lsn: Lsn,
    pub pages: Vec<PageId>,
    pub program: Arc<dyn NdpProgram>,
    /// Those of the request's filters that the store has.
    pub filters: Vec<PreparedFilter>,
    /// Their numbers in the request, of so many.
    pub filter_numbers: (Vec<usize>, usize),
    /// Memory for the groups of the threads that work on it,
    pub group_bytes: usize,
    /// of which there are so many at most,
    pub workers: usize,
    /// and whom they are charged to.
    pub memory: Arc<dyn GroupMemory>,
    /// So many rows are enough of each of them.
    pub enough: Option<u64>,
    pub sender: Sender<Reply>,
    /// Chunks of `pages` that this job has: the rest was declined.
    pub chunks: usize,
    /// The first chunk that nobody works on.
    pub next: AtomicUsize,
    /// To wait for room in `sender` without a thread.
    pub runtime: Handle,
}

/// The preparation of a descriptor of a database.
struct Preparation {
    db: DbId,
    run: Box<dyn FnOnce() + Send>,
}

/// What a thread does next.
enum Task {
    Prepare(Preparation),
    Work(Arc<Job>),
}

impl Task {
    fn db(&self) -> DbId {
        match self {
            Self::Prepare(preparation) => preparation.db,
            Self::Work(job) => job.slice.key.db,
        }
    }
}

#[derive(Default)]
struct Queue {
    preparations: VecDeque<Preparation>,
    jobs: VecDeque<Arc<Job>>,
    /// Chunks of each database's jobs that nobody works on, those of stalled jobs included.
    waiting: HashMap<DbId, usize>,
    /// Threads at work for each database.
    running: HashMap<DbId, usize>,
    /// When each database with work got a thread last, in picks.
    served: HashMap<DbId, u64>,
    picks: u64,
    ending: bool,
}

struct Inner {
    queue: Mutex<Queue>,
    work: Condvar,
    limit: usize,
    patience: Duration,
    decline_every: Option<u32>,
}

/// The threads and their queue; the threads end when this is dropped.
pub(crate) struct NdpPool {
    inner: Arc<Inner>,
    threads: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for NdpPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NdpPool of {} threads", self.threads.len())
    }
}

impl NdpPool {
    pub(crate) fn start(config: &Config) -> std::io::Result<Self> {
        let inner = Arc::new(Inner {
            queue: Mutex::default(),
            work: Condvar::new(),
            limit: config.ndp_queue,
            patience: config.ndp_patience,
            decline_every: config.decline_every,
        });
        let start = |i| {
            let inner = inner.clone();
            std::thread::Builder::new()
                .name(format!("ndp-{i}"))
                .spawn(move || inner.run())
        };
        let threads = (0..config.ndp_threads.max(1)).map(start);
        let threads = threads.collect::<Result<_, _>>()?;
        Ok(Self { inner, threads })
    }

    /// Reserves room for up to `chunks` chunks of a database; returns how many there is room for.
    ///
    /// A database may have as much waiting as is free afterwards: one alone gets half of the queue,
    /// two get a third each, and there is always room for one more (the dynamic thresholds by which
    /// switches share their buffers).
    pub(crate) fn reserve(&self, db: DbId, chunks: usize) -> usize {
        let mut queue = self.inner.queue.lock();
        let free = (2 * self.inner.limit).saturating_sub(queue.waiting.values().sum());
        let has = queue.waiting.get(&db).copied().unwrap_or(0);
        let taken = chunks.min(free.saturating_sub(has) / 2);
        if taken > 0 {
            *queue.waiting.entry(db).or_default() += taken;
        }
        taken
    }

    /// Threads that may work on a request of so many chunks at a time.
    pub(crate) fn workers(&self, chunks: usize) -> usize {
        self.threads.len().min(chunks).max(1)
    }

    /// Lets an NDP thread prepare a descriptor of a database; false if too many wait.
    pub(crate) fn prepare(&self, db: DbId, run: impl FnOnce() + Send + 'static) -> bool {
        let mut queue = self.inner.queue.lock();
        if queue.preparations.len() >= PREPARATIONS {
            return false;
        }
        let run = Box::new(run);
        queue.preparations.push_back(Preparation { db, run });
        drop(queue);
        self.inner.work.notify_one();
        true
    }

    /// Queues a job whose chunks were reserved.
    pub(crate) fn submit(&self, job: Job) {
        self.inner.queue.lock().jobs.push_back(Arc::new(job));
        self.inner.work.notify_all();
    }

    /// Adds what waits and who works to figures.
    pub(crate) fn add_to(&self, figures: &mut NdpFigures) {
        let queue = self.inner.queue.lock();
        figures.queued_chunks = queue.waiting.values().sum();
        figures.queue_limit = self.inner.limit;
        figures.jobs = queue.jobs.len();
        figures.threads_at_work = queue.running.values().sum();
        figures.threads = self.threads.len();
    }
}

impl Drop for NdpPool {
    fn drop(&mut self) {
        self.inner.queue.lock().ending = true;
        self.inner.work.notify_all();
        for thread in self.threads.drain(..) {
            // Panics of programs are caught; one of the loop itself has been printed.
            drop(thread.join());
        }
    }
}

/// Why a thread leaves a job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Nothing more to get, or others wait.
    Done,
    /// The client does not take results at the moment.
    Stalled,
    /// The client is gone, or the job failed.
    Over,
}

impl Inner {
    fn run(self: Arc<Self>) {
        step_back();
        loop {
            let task = {
                let mut queue = self.queue.lock();
                loop {
                    if queue.ending {
                        return;
                    }
                    match queue.pick() {
                        Some(task) => break task,
                        None => self.work.wait(&mut queue),
                    }
                }
            };
            let db = task.db();
            match task {
                // Who waits for it sees that it ended without a result.
                Task::Prepare(preparation) => {
                    drop(catch_unwind(AssertUnwindSafe(preparation.run)));
                }
                Task::Work(job) => self.work_and_leave(&job),
            }
            count_down(&mut self.queue.lock().running, db, 1);
        }
    }

    fn work_and_leave(self: &Arc<Self>, job: &Arc<Job>) {
        let worked = catch_unwind(AssertUnwindSafe(|| self.work_on(job)));
        let left = worked.unwrap_or_else(|_| {
            let text = format!("NDP on {} panicked", job.slice.key);
            tracing::error!("{text}");
            // If there is no room the missing pages tell.
            drop(job.sender.try_send(Err(PageError::Unavailable(text))));
            Left::Over
        });
        match left {
            Left::Done => {}
            Left::Over => self.queue.lock().give_up(job),
            Left::Stalled => self.step_aside(job),
        }
    }

    /// Takes a job out of the queue until its client takes results, or for good.
    fn step_aside(self: &Arc<Self>, job: &Arc<Job>) {
        if !self.queue.lock().remove(job) {
            return;
        }
        let (inner, job) = (self.clone(), job.clone());
        job.runtime.clone().spawn(async move {
            // The room is not kept: whoever picks the job reserves it again. An error means that
            // the client is gone, which they find out too.
            let room = tokio::time::timeout(inner.patience, job.sender.reserve()).await;
            let mut queue = inner.queue.lock();
            if room.is_ok() {
                queue.jobs.push_back(job.clone());
                drop(queue);
                inner.work.notify_one();
            } else {
                // Its stream ends before all pages are answered, which tells the client.
                queue.give_up(&job);
            }
        });
    }

    /// Claims the next chunk of a job.
    fn claim(&self, job: &Job) -> Option<usize> {
        let mut queue = self.queue.lock();
        let chunk = job.next.load(Ordering::Relaxed);
        if chunk >= job.chunks || queue.ending {
            return None;
        }
        job.next.store(chunk + 1, Ordering::Relaxed);
        count_down(&mut queue.waiting, job.slice.key.db, 1);
        Some(chunk)
    }

    /// Works on a job until it is done or somebody else's turn.
    fn work_on(&self, job: &Job) -> Left {
        let mut permit = match room(job) {
            Ok(permit) => permit,
            Err(left) => return left,
        };
        let begin = Instant::now();
        let mut result = Partial::new(job);
        while let Some(chunk) = self.claim(job) {
            let cpu = thread_cpu_nanos();
            match result.chunk(chunk, self.decline_every) {
                Ok(Chunk::Done) => {}
                Ok(Chunk::Unwanted) => return Left::Over,
                Err(error) => {
                    permit.send(Err(error));
                    return Left::Over;
                }
            }
            result.usage.cpu_nanos += thread_cpu_nanos().saturating_sub(cpu);
            let turn_over = begin.elapsed() > TURN && self.queue.lock().others_wait();
            if result.is_enough() || turn_over {
                permit.send(Ok(result.take()));
                if turn_over {
                    return Left::Done;
                }
                permit = match room(job) {
                    Ok(permit) => permit,
                    Err(left) => return left,
                };
            }
        }
        if !result.is_empty() {
            permit.send(Ok(result.take()));
        }
        Left::Done
    }
}

/// Room for one reply of the job.
fn room(job: &Job) -> Result<OwnedPermit<Reply>, Left> {
    match job.sender.clone().try_reserve_owned() {
        Ok(permit) => Ok(permit),
        Err(TrySendError::Full(_)) => Err(Left::Stalled),
        Err(TrySendError::Closed(_)) => Err(Left::Over),
    }
}

fn count_down(counts: &mut HashMap<DbId, usize>, db: DbId, by: usize) {
    let count = counts.get_mut(&db).expect("it was counted before");
    *count -= by;
    if *count == 0 {
        counts.remove(&db);
    }
}

impl Queue {
    /// What to do next: of the database with the fewest threads at work, and among those of the one
    /// that waits longest, a descriptor, or else the job that waits longest. A job goes to the end
    /// of the queue, where other threads find it too.
    fn pick(&mut self) -> Option<Task> {
        self.jobs
            .retain(|job| job.next.load(Ordering::Relaxed) < job.chunks);
        let (running, waiting) = (&self.running, &self.waiting);
        self.served
            .retain(|db, _| running.contains_key(db) || waiting.contains_key(db));
        let served = &self.served;
        let turn = |db: DbId| {
            let threads = running.get(&db).copied().unwrap_or(0);
            (threads, served.get(&db).copied().unwrap_or(0))
        };
        let preparations = self.preparations.iter().map(|p| turn(p.db)).enumerate();
        let preparation = preparations.min_by_key(|(_, turn)| *turn);
        let jobs = self.jobs.iter().map(|job| turn(job.slice.key.db));
        let job = jobs.enumerate().min_by_key(|(_, turn)| *turn);
        let task = match (preparation, job) {
            (Some((at, turn)), job) if job.is_none_or(|(_, of_job)| turn <= of_job) => {
                Task::Prepare(self.preparations.remove(at)?)
            }
            (_, job) => {
                let job = self.jobs.remove(job?.0)?;
                self.jobs.push_back(job.clone());
                Task::Work(job)
            }
        };
        *self.running.entry(task.db()).or_default() += 1;
        self.picks += 1;
        self.served.insert(task.db(), self.picks);
        Some(task)
    }

    /// True if there is more to do than the job at hand.
    fn others_wait(&self) -> bool {
        self.jobs.len() > 1 || !self.preparations.is_empty()
    }

    /// Takes a job out of the queue; false if somebody did before.
    fn remove(&mut self, job: &Arc<Job>) -> bool {
        let before = self.jobs.len();
        self.jobs.retain(|other| !Arc::ptr_eq(other, job));
        self.jobs.len() < before
    }

    /// Takes a job out of the queue for good, with the chunks that nobody works on.
    fn give_up(&mut self, job: &Arc<Job>) {
        let next = job.next.swap(job.chunks, Ordering::Relaxed);
        if next < job.chunks {
            count_down(&mut self.waiting, job.slice.key.db, job.chunks - next);
        }
        self.remove(job);
    }
}
