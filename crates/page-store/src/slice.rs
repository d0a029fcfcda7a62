//! A slice: its files, its log directory, and where its log stands.
//!
//! Who may do what:
//! - *writers* (`append`) extend the log, one at a time, the appender's flag says who;
//! - *the worker* (`consolidate`, `collect`), one at a time, holds the `worker` mutex: it writes
//!   page segments, drops versions and deletes files;
//! - *readers* (`read`) take what they need from the log directory and hold it by `Arc`.
//!
//! Order of latches: label, appender, queue, log cache, directory shard, fragment, segments. None is held
//! during I/O; the worker's mutex is an exclusive right, not a latch, and nobody waits for it but who
//! deletes the slice; the label's is held while the label file is replaced, which is seldom.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use perigee_crash::{Point, reach};
use perigee_page_api::{PageError, SliceKey, SliceStatus};
use perigee_reserve::Reserve;
use perigee_types::{Lsn, PAGE_SIZE, PageId};

use crate::append::Appender;
use crate::config::Config;
use crate::directory::{Directory, PAGE_FRAME, Pruned};
use crate::failstop::FailStop;
use crate::figures::{LogCounters, SliceFigures};
use crate::files::OpenFiles;
use crate::fragment::{LogCache, LogFragment};
use crate::frame::SegmentKind;
use crate::identity::{self, SliceLabel};
use crate::pool::Pool;
use crate::segment::{Segment, SegmentWriter};

/// What all slices of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub config: Config,
    pub stop: FailStop,
    pub reserve: Reserve,
    /// Open files of segments that are only read.
    pub files: Arc<OpenFiles>,
    pub pool: Pool,
    pub cache: LogCache,
    /// Bytes of log of all slices that wait for consolidation.
    pub backlog: AtomicU64,
    pub counters: LogCounters,
    /// Wakes the workers early.
    pub work: Condvar,
    pub work_latch: Mutex<()>,
}

/// What the slices of a database share.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub dir: PathBuf,
    /// The recycle LSN; durable before it is here.
    recycle: AtomicU64,
    /// Writers of an older epoch make no slices; durable before it is here.
    epoch: AtomicU64,
    /// Held while the recycle LSN is made durable, so that it only grows on disk too.
    pub advancing: Mutex<()>,
}

impl Tenant {
    pub(crate) fn new(dir: PathBuf, recycle: Lsn, epoch: u64) -> Self {
        Self {
            dir,
            recycle: AtomicU64::new(recycle.0),
            epoch: AtomicU64::new(epoch),
            advancing: Mutex::new(()),
        }
    }

    pub(crate) fn recycle_lsn(&self) -> Lsn {
        Lsn(self.recycle.load(Ordering::Acquire))
    }

    pub(crate) fn set_recycle_lsn(&self, lsn: Lsn) {
        self.recycle.fetch_max(lsn.0, Ordering::AcqRel);
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn set_epoch(&self, epoch: u64) {
        self.epoch.fetch_max(epoch, Ordering::AcqRel);
    }
}

/// Fragments that wait for consolidation, in arrival order.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub fragments: VecDeque<(Arc<LogFragment>, Instant)>,
    pub backlog: u64,
    pub last_arrival: Option<Instant>,
}

/// What only the worker touches.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    /// Where page versions are appended.
    pub pages: Option<SegmentWriter>,
    /// Number of the next page segment.
    pub next_number: u64,
    /// Pages with versions or records that can be dropped once the recycle LSN is there.
    pub unpruned: BinaryHeap<Reverse<(Lsn, PageId)>>,
    /// The recycle LSN up to which `unpruned` was worked off.
    pub pruned: Lsn,
    /// Pages of which only a tombstone is left, with the number of the last page segment that may hold
    /// an older version of them.
    pub buried: VecDeque<(u64, PageId)>,
    /// Page segments that could not be rewritten because they are damaged.
    pub damaged: Vec<u64>,
    /// After an error the worker waits until then.
    pub pause: Option<Instant>,
    /// The slice is deleted: there is no work.
    pub deleted: bool,
}

impl Worker {
    /// Number of the page segment that is being written.
    pub(crate) fn current(&self) -> Option<u64> {
        self.pages.as_ref().map(|w| w.segment().id().number)
    }

    /// Remembers what is left to do about a page whose newest version has this LSN.
    pub(crate) fn note_pruned(&mut self, page: PageId, lsn: Lsn, pruned: Pruned) {
        if pruned.later {
            self.unpruned.push(Reverse((lsn, page)));
        } else if pruned.buried {
            self.buried.push_back((self.next_number - 1, page));
        }
    }
}

/// A slice.
#[derive(Debug)]
pub(crate) struct Slice {
    pub key: SliceKey,
    /// Names the slice in the pool.
    pub number: u32,
    pub dir: PathBuf,
    pub shared: Arc<Shared>,
    pub tenant: Arc<Tenant>,
    pub directory: Directory,
    /// What the label file says; held while it is replaced.
    pub label: Mutex<SliceLabel>,
    pub appender: Mutex<Appender>,
    /// Something changed in the appender.
    pub appended: Condvar,
    /// The slice persistent LSN; records up to it are in the directory.
    pub persistent: AtomicU64,
    pub queue: Mutex<Queue>,
    pub worker: Mutex<Worker>,
    /// Every segment file there is.
    pub segments: Mutex<BTreeMap<(SegmentKind, u64), Arc<Segment>>>,
}

impl Slice {
    /// A slice without log.
    pub(crate) fn empty(
        key: SliceKey,
        number: u32,
        dir: &Path,
        shared: Arc<Shared>,
        tenant: Arc<Tenant>,
        label: SliceLabel,
    ) -> Self {
        Self {
            key,
            number,
            dir: dir.to_owned(),
            shared,
            tenant,
            directory: Directory::new(),
            label: Mutex::new(label),
            appender: Mutex::new(Appender::new(label.epoch)),
            appended: Condvar::new(),
            persistent: AtomicU64::new(0),
            queue: Mutex::default(),
            worker: Mutex::new(Worker {
                next_number: 1,
                ..Worker::default()
            }),
            segments: Mutex::default(),
        }
    }

    pub(crate) fn persistent_lsn(&self) -> Lsn {
        Lsn(self.persistent.load(Ordering::Acquire))
    }

    /// Everything up to this LSN is in page versions.
    pub(crate) fn consolidated_lsn(&self) -> Lsn {
        // First the end, then the queue: what arrives in between only makes the answer older.
        let persistent = self.persistent_lsn();
        let queue = self.queue.lock();
        queue
            .fragments
            .front()
            .map_or(persistent, |(fragment, _)| fragment.prev_lsn)
    }

    pub(crate) fn status(&self) -> SliceStatus {
        let (sequence, persistent_lsn) = self.appender.lock().persistent();
        SliceStatus {
            sequence,
            persistent_lsn,
            consolidated_lsn: self.consolidated_lsn().min(persistent_lsn),
            backlog_bytes: self.queue.lock().backlog,
            pages: self.directory.pages(),
        }
    }

    /// Bytes of the files.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.segments.lock().values().map(|s| s.size()).sum()
    }

    /// What operators are told of it.
    pub(crate) fn figures(&self) -> SliceFigures {
        let (mut disk_bytes, mut needed) = (0, 0);
        for ((kind, _), segment) in self.segments.lock().iter() {
            disk_bytes += segment.size();
            if *kind == SegmentKind::Pages {
                needed += segment.live();
            }
        }
        // What is needed of page segments is versions and tombstones.
        let versions = needed.saturating_sub(self.directory.tombstone_bytes()) / PAGE_FRAME;
        let pages = self.directory.pages();
        SliceFigures {
            key: self.key,
            status: self.status(),
            recycle_lsn: self.tenant.recycle_lsn(),
            pages,
            versions,
            live_bytes: pages * PAGE_SIZE as u64,
            disk_bytes,
            damaged: false,
        }
    }

    /// A new epoch fences the writers before it, durably.
    pub(crate) fn raise_epoch(&self, epoch: u64) -> Result<(), PageError> {
        let mut label = self.label.lock();
        self.check_epoch(epoch)?;
        if epoch > self.appender.lock().epoch() {
            self.write_label(&mut label, |label| label.epoch = epoch)?;
            reach(Point::SliceFenced);
            self.appender.lock().set_epoch(epoch);
        }
        drop(label);
        // The new writer asks where the slice stands, and goes on there.
        self.drain()
    }

    /// Refuses a read by a writer that has been locked out.
    pub(crate) fn check_epoch(&self, epoch: u64) -> Result<(), PageError> {
        let current = self.appender.lock().epoch();
        if epoch < current {
            let text = format!("epoch {epoch} of {} is over, {current} has begun", self.key);
            return Err(PageError::Fenced(text));
        }
        Ok(())
    }

    /// Makes it known that page versions are synced up to here, before files go that could replace
    /// them.
    pub(crate) fn pages_are_synced(&self, number: u64, offset: u64) -> Result<(), PageError> {
        let mut label = self.label.lock();
        if (label.page_segment, label.page_offset) >= (number, offset) {
            return Ok(());
        }
        self.write_label(&mut label, |label| {
            (label.page_segment, label.page_offset) = (number, offset);
        })
    }

    fn write_label(
        &self,
        label: &mut SliceLabel,
        change: impl FnOnce(&mut SliceLabel),
    ) -> Result<(), PageError> {
        let mut new = *label;
        change(&mut new);
        identity::write_slice(&self.dir, self.key, new, &self.shared.stop)?;
        *label = new;
        Ok(())
    }

    /// Lists a new segment file.
    pub(crate) fn add_segment(&self, segment: &Arc<Segment>) {
        let id = segment.id();
        self.segments
            .lock()
            .insert((id.kind, id.number), segment.clone());
    }

    /// Deletes a segment file that nobody needs.
    pub(crate) fn delete_segment(&self, segment: &Segment) -> Result<(), PageError> {
        let id = segment.id();
        assert!(
            segment.live() == 0,
            "P8: {} is still needed",
            segment.path().display()
        );
        reach(Point::SegmentDead);
        segment.delete()?;
        reach(Point::SegmentDeleted);
        self.segments.lock().remove(&(id.kind, id.number));
        tracing::debug!("deleted {}", segment.path().display());
        Ok(())
    }

    /// Adds a fragment to those that wait for consolidation.
    pub(crate) fn enqueue(&self, fragment: Arc<LogFragment>) {
        let now = Instant::now();
        let bytes = fragment.log_bytes();
        let mut queue = self.queue.lock();
        queue.backlog += bytes;
        queue.last_arrival = Some(now);
        queue.fragments.push_back((fragment, now));
        drop(queue);
        let before = self.shared.backlog.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes >= self.shared.config.consolidate_above {
            self.shared.work.notify_one();
        }
    }

    /// The oldest fragment is consolidated.
    pub(crate) fn dequeue(&self) {
        let mut queue = self.queue.lock();
        let front = queue.fragments.pop_front();
        let (fragment, _) = front.expect("only the worker takes fragments off the queue");
        fragment.set_consolidated();
        let bytes = fragment.log_bytes();
        queue.backlog -= bytes;
        self.shared.counters.consolidated_fragments.add(1);
        self.shared.backlog.fetch_sub(bytes, Ordering::Relaxed);
    }
}
