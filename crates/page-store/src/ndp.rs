//! Near-data processing: a bounded queue, threads of its own, and what they do with a request
//! (taurus-ndp section IV.D).
//!
//! A request is cut into *chunks* of neighbouring pages. Any number of threads work on a request at
//! a time; each runs one program over the chunks that it gets, so that aggregates are merged over
//! all of these, and sends a result when it has enough rows or there is nothing more to get.
//!
//! Best effort, page by page: what does not fit the queue is declined and read like any page; log
//! and ordinary reads run on other threads and never wait for these.
//!
//! Fair: a thread goes to the request of the database for which the fewest threads work, and leaves
//! a request after a while if others wait. A client that does not read its results does not hold a
//! thread: its request steps aside until there is room.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use perigee_page_api::{NdpDecline, NdpItem, NdpReply, NdpUsage, PageError, thread_cpu_nanos};
use perigee_types::{DbId, Lsn, PAGE_SIZE, PageId};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{OwnedPermit, Sender};

use crate::figures::NdpFigures;
use crate::plugin::{NdpProgram, NdpRun, PageOutcome};
use crate::pool::Use;
use crate::slice::Slice;

/// Pages in a chunk: enough to read them with few system calls, few enough to share a request of
/// a thousand pages among threads.
pub(crate) const CHUNK: usize = 32;

/// A result is sent when it has this many rows.
const ENOUGH_ROWS: usize = 8192;

/// How long a thread stays with a request when others wait.
const TURN: Duration = Duration::from_millis(10);

/// What goes to the client.
pub(crate) type Reply = Result<NdpReply, PageError>;

/// A request, or the part of it that was taken.
pub(crate) struct Job {
    pub slice: Arc<Slice>,
    pub lsn: Lsn,
    pub pages: Vec<PageId>,
    pub program: Arc<dyn NdpProgram>,
    pub sender: Sender<Reply>,
    /// Chunks of `pages` that this job has: the rest was declined.
    pub chunks: usize,
    /// The first chunk that nobody works on.
    pub next: AtomicUsize,
    /// To wait for room in `sender` without a thread.
    pub runtime: Handle,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Arc<Job>>,
    /// Chunks of all jobs that nobody works on, those of stalled jobs included.
    waiting: usize,
    /// Threads at work for each database.
    running: HashMap<DbId, usize>,
    ending: bool,
}

struct Inner {
    queue: Mutex<Queue>,
    work: Condvar,
    limit: usize,
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
    pub(crate) fn start(
        threads: usize,
        limit: usize,
        decline_every: Option<u32>,
    ) -> std::io::Result<Self> {
        let inner = Arc::new(Inner {
            queue: Mutex::default(),
            work: Condvar::new(),
            limit,
            decline_every,
        });
        let start = |i| {
            let inner = inner.clone();
            std::thread::Builder::new()
                .name(format!("ndp-{i}"))
                .spawn(move || inner.run())
        };
        let threads = (0..threads.max(1)).map(start).collect::<Result<_, _>>()?;
        Ok(Self { inner, threads })
    }

    /// Reserves room for up to `chunks` chunks; returns how many there is room for.
    pub(crate) fn reserve(&self, chunks: usize) -> usize {
        let mut queue = self.inner.queue.lock();
        let free = self.inner.limit.saturating_sub(queue.waiting);
        let taken = chunks.min(free);
        queue.waiting += taken;
        taken
    }

    /// Queues a job whose chunks were reserved.
    pub(crate) fn submit(&self, job: Job) {
        self.inner.queue.lock().jobs.push_back(Arc::new(job));
        self.inner.work.notify_all();
    }

    /// Adds what waits and who works to figures.
    pub(crate) fn add_to(&self, figures: &mut NdpFigures) {
        let queue = self.inner.queue.lock();
        figures.queued_chunks = queue.waiting;
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
        loop {
            let job = {
                let mut queue = self.queue.lock();
                loop {
                    if queue.ending {
                        return;
                    }
                    match queue.pick() {
                        Some(job) => break job,
                        None => self.work.wait(&mut queue),
                    }
                }
            };
            let worked = catch_unwind(AssertUnwindSafe(|| self.work_on(&job)));
            let left = worked.unwrap_or_else(|_| {
                let text = format!("NDP on {} panicked", job.slice.key);
                tracing::error!("{text}");
                // If there is no room the missing pages tell.
                drop(job.sender.try_send(Err(PageError::Unavailable(text))));
                Left::Over
            });
            self.leave(&job, left);
        }
    }

    fn leave(self: &Arc<Self>, job: &Arc<Job>, left: Left) {
        let mut queue = self.queue.lock();
        let db = job.slice.key.db;
        let running = queue
            .running
            .get_mut(&db)
            .expect("it was counted when it was picked");
        *running -= 1;
        if *running == 0 {
            queue.running.remove(&db);
        }
        match left {
            Left::Done => {}
            Left::Over => {
                let taken = job.next.swap(job.chunks, Ordering::Relaxed);
                queue.waiting -= job.chunks - taken.min(job.chunks);
                queue.remove(job);
            }
            Left::Stalled if queue.remove(job) => {
                let (inner, job) = (self.clone(), job.clone());
                job.runtime.clone().spawn(async move {
                    // The room is not kept: whoever picks the job reserves it again. An error
                    // means that the client is gone, which they find out too.
                    drop(job.sender.reserve().await);
                    inner.queue.lock().jobs.push_back(job);
                    inner.work.notify_one();
                });
            }
            Left::Stalled => {}
        }
    }

    /// Claims the next chunk of a job.
    fn claim(&self, job: &Job) -> Option<usize> {
        let mut queue = self.queue.lock();
        let chunk = job.next.load(Ordering::Relaxed);
        if chunk >= job.chunks || queue.ending {
            return None;
        }
        job.next.store(chunk + 1, Ordering::Relaxed);
        queue.waiting -= 1;
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
            if job.sender.is_closed() {
                return Left::Over;
            }
            let cpu = thread_cpu_nanos();
            if let Err(error) = result.chunk(chunk, self.decline_every) {
                permit.send(Err(error));
                return Left::Over;
            }
            result.usage.cpu_nanos += thread_cpu_nanos().saturating_sub(cpu);
            let turn_over = begin.elapsed() > TURN && self.queue.lock().jobs.len() > 1;
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

impl Queue {
    /// The job to work on: of the database with the fewest threads at work, the one that waits
    /// longest. It goes to the end of the queue, where other threads find it too.
    fn pick(&mut self) -> Option<Arc<Job>> {
        self.jobs
            .retain(|job| job.next.load(Ordering::Relaxed) < job.chunks);
        let threads = |job: &Arc<Job>| self.running.get(&job.slice.key.db).copied().unwrap_or(0);
        let (at, _) = self
            .jobs
            .iter()
            .enumerate()
            .min_by_key(|(_, job)| threads(job))?;
        let job = self.jobs.remove(at)?;
        self.jobs.push_back(job.clone());
        *self.running.entry(job.slice.key.db).or_default() += 1;
        Some(job)
    }

    /// Takes a job out of the queue; false if somebody did before.
    fn remove(&mut self, job: &Arc<Job>) -> bool {
        let before = self.jobs.len();
        self.jobs.retain(|other| !Arc::ptr_eq(other, job));
        self.jobs.len() < before
    }
}

/// What one thread has of a job and has not sent.
struct Partial<'a> {
    job: &'a Job,
    run: Box<dyn NdpRun>,
    /// Pages in `run`.
    taken: usize,
    items: Vec<NdpItem>,
    usage: NdpUsage,
}

impl<'a> Partial<'a> {
    fn new(job: &'a Job) -> Self {
        Self {
            job,
            run: job.program.run(),
            taken: 0,
            items: Vec::new(),
            usage: NdpUsage::default(),
        }
    }

    /// Reads and processes a chunk.
    fn chunk(&mut self, chunk: usize, decline_every: Option<u32>) -> Result<(), PageError> {
        let first = chunk * CHUNK;
        let ids = &self.job.pages[first..self.job.pages.len().min(first + CHUNK)];
        let pages = self
            .job
            .slice
            .read_blocking(self.job.lsn, ids, Use::Scanned)?;
        self.usage.pages += pages.len() as u64;
        self.usage.bytes_read += (pages.len() * PAGE_SIZE) as u64;
        for (i, page) in pages.into_iter().enumerate() {
            let index = (first + i) as u32;
            if decline_every.is_some_and(|n| (index + 1).is_multiple_of(n.max(1))) {
                self.decline(index, NdpDecline::Forced, page);
                continue;
            }
            let mut outcome = self.run.page(index, &page);
            if outcome == PageOutcome::Full {
                self.take_run();
                outcome = self.run.page(index, &page);
            }
            match outcome {
                PageOutcome::Taken => self.taken += 1,
                // Full by itself: the page is too much for one result.
                PageOutcome::Declined | PageOutcome::Full => {
                    self.decline(index, NdpDecline::Page, page);
                }
            }
        }
        Ok(())
    }

    fn decline(&mut self, index: u32, reason: NdpDecline, page: Bytes) {
        self.items.push(NdpItem::Declined {
            index,
            reason,
            page,
        });
    }

    fn take_run(&mut self) {
        if self.taken > 0 {
            self.items.push(NdpItem::Reduced(self.run.take()));
            self.taken = 0;
        }
    }

    fn is_enough(&self) -> bool {
        self.run.rows() >= ENOUGH_ROWS || self.items.len() >= CHUNK
    }

    fn is_empty(&self) -> bool {
        self.taken == 0 && self.items.is_empty()
    }

    fn take(&mut self) -> NdpReply {
        self.take_run();
        self.usage.compiled = self.job.program.is_compiled();
        NdpReply {
            items: std::mem::take(&mut self.items),
            usage: std::mem::take(&mut self.usage),
        }
    }
}
