//! A slice as its writer sees it: the slice buffer, and the task that sends it as a chain of
//! fragments (taurus-2020 section 4.1).
//!
//! Invariant P1: fragments are sent one after the other, each naming the one before.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use perigee_crash::{Point, reach};
use perigee_page_api::{Fragment, PageError, SliceKey, SliceStatus};
use perigee_types::Lsn;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::SalError;
use crate::cv::BufferNumber;
use crate::outage::OutageWatch;
use crate::retry::persist;
use crate::sal::Shared;

/// A slice's part of a database log buffer, or the news that there was none for it.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// The buffer, unless the slice had no part of it.
    pub buffer: Option<BufferNumber>,
    /// First LSN with a record for the slice.
    pub first: Lsn,
    /// The slice has everything up to here with this chunk.
    pub last: Lsn,
    /// Encoded log groups.
    pub groups: Bytes,
}

#[derive(Debug, Default)]
struct Pending {
    chunks: VecDeque<Chunk>,
    bytes: usize,
    /// `last` of the last chunk that was ever queued.
    queued: Lsn,
    /// `last` of the last one with log in it, and when it was queued.
    changed: Option<(Lsn, Instant)>,
    stay: Stay,
}

/// Whether a slice is here to stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stay {
    #[default]
    Stays,
    /// A chunk is about to be queued: it must not leave.
    Wanted,
    /// Its Page Store is asked to delete it; it takes no chunks.
    Leaves,
    /// It is deleted.
    Gone,
}

/// A slice.
#[derive(Debug)]
pub(crate) struct Slice {
    pub key: SliceKey,
    pub store: usize,
    /// What the Page Store had when the database was opened; no need to send it again.
    pub base: Lsn,
    base_sequence: u64,
    persistent: AtomicU64,
    backlog: AtomicU64,
    pages: AtomicU64,
    pending: Mutex<Pending>,
    wake: Notify,
    /// It stays after all, or has gone.
    settled: Notify,
    /// Why its log is not taken, if it is not.
    pub outage: OutageWatch,
}

impl Slice {
    pub fn new(key: SliceKey, store: usize, status: SliceStatus) -> Arc<Self> {
        let base = status.persistent_lsn;
        Arc::new(Self {
            key,
            store,
            base,
            base_sequence: status.sequence,
            persistent: AtomicU64::new(base.0),
            backlog: AtomicU64::new(status.backlog_bytes),
            pages: AtomicU64::new(status.pages),
            pending: Mutex::new(Pending {
                queued: base,
                changed: Some((base, Instant::now())),
                ..Pending::default()
            }),
            wake: Notify::new(),
            settled: Notify::new(),
            outage: OutageWatch::new(key.to_string()),
        })
    }

    /// The slice persistent LSN; with one replica it is the slice flush LSN as well.
    pub fn persistent(&self) -> Lsn {
        Lsn(self.persistent.load(Ordering::Acquire))
    }

    /// Bytes its store had to consolidate when it last said so.
    pub fn backlog(&self) -> u64 {
        self.backlog.load(Ordering::Relaxed)
    }

    /// Pages it had when its store last said so.
    pub fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    /// What its store says of it.
    pub fn set_status(&self, status: &SliceStatus) {
        self.backlog.store(status.backlog_bytes, Ordering::Relaxed);
        self.pages.store(status.pages, Ordering::Relaxed);
    }

    /// Keeps the slice until [`Slice::release`], once it is settled whether it stays; false if it is gone.
    pub async fn reserve(&self) -> bool {
        loop {
            let settled = self.settled.notified();
            {
                let mut pending = self.pending.lock();
                match pending.stay {
                    Stay::Stays | Stay::Wanted => {
                        pending.stay = Stay::Wanted;
                        return true;
                    }
                    Stay::Gone => return false,
                    Stay::Leaves => {}
                }
            }
            settled.await;
        }
    }

    /// What was to be queued is queued.
    pub fn release(&self) {
        self.pending.lock().stay = Stay::Stays;
    }

    /// From now on the slice takes nothing, if it has been without pages and log for `quiet`, all its
    /// log was sent, and no read wants what its pages were before `recycled`. True if it leaves, or did
    /// already.
    pub fn leave(&self, quiet: Duration, recycled: Lsn) -> bool {
        let mut pending = self.pending.lock();
        let (changed, since) = pending.changed.expect("set when it was made");
        let is_done = pending.chunks.is_empty() && pending.queued == self.persistent();
        let is_empty = self.pages() == 0 && self.backlog() == 0 && changed <= recycled;
        if pending.stay == Stay::Stays && is_done && is_empty && since.elapsed() >= quiet {
            pending.stay = Stay::Leaves;
        }
        pending.stay == Stay::Leaves
    }

    /// It is not deleted: it goes on, and is not asked to leave again for a while.
    pub fn stay(&self) {
        let mut pending = self.pending.lock();
        pending.stay = Stay::Stays;
        let (changed, _) = pending.changed.expect("set when it was made");
        pending.changed = Some((changed, Instant::now()));
        drop(pending);
        self.settled.notify_waiters();
    }

    /// It is deleted: its task ends.
    pub fn gone(&self) {
        self.pending.lock().stay = Stay::Gone;
        self.wake.notify_one();
        self.settled.notify_waiters();
    }

    /// Queues a part of a log buffer.
    pub fn push(&self, chunk: Chunk) {
        let mut pending = self.pending.lock();
        assert!(
            pending.queued < chunk.last,
            "P1: chunks of a slice in LSN order"
        );
        assert!(
            pending.stay == Stay::Wanted,
            "P1: log for a slice that may leave"
        );
        pending.queued = chunk.last;
        pending.changed = Some((chunk.last, Instant::now()));
        pending.bytes += chunk.groups.len();
        pending.chunks.push_back(chunk);
        drop(pending);
        self.wake.notify_one();
    }

    /// Lets an idle slice know that nothing up to `lsn`, a CV-LSN, is for it.
    pub fn pass(&self, lsn: Lsn) {
        let mut pending = self.pending.lock();
        if pending.queued >= lsn || matches!(pending.stay, Stay::Leaves | Stay::Gone) {
            return;
        }
        let first = pending.queued.next();
        pending.queued = lsn;
        pending.chunks.push_back(Chunk {
            buffer: None,
            first,
            last: lsn,
            groups: Bytes::new(),
        });
        drop(pending);
        self.wake.notify_one();
    }

    /// The next chunks to send: when there are `enough` bytes, or some and `delay` is over. `None` if the
    /// slice is deleted.
    async fn next(&self, enough: usize, delay: Duration) -> Option<Vec<Chunk>> {
        loop {
            {
                let pending = self.pending.lock();
                if pending.stay == Stay::Gone {
                    return None;
                }
                if !pending.chunks.is_empty() {
                    break;
                }
            }
            self.wake.notified().await;
        }
        let deadline = Instant::now() + delay;
        while self.pending.lock().bytes < enough {
            if timeout_at(deadline, self.wake.notified()).await.is_err() {
                break;
            }
        }
        let mut pending = self.pending.lock();
        let (mut chunks, mut bytes) = (Vec::new(), 0);
        while bytes < enough
            && let Some(chunk) = pending.chunks.pop_front()
        {
            bytes += chunk.groups.len();
            chunks.push(chunk);
        }
        pending.bytes -= bytes;
        Some(chunks)
    }
}

/// Sends what is queued for the slice, which its store has, until the layer ends.
pub(crate) async fn run(shared: Arc<Shared>, slice: Arc<Slice>) {
    if let Err(error) = send_all(&shared, &slice).await {
        shared.fail(error);
    }
}

async fn send_all(shared: &Shared, slice: &Slice) -> Result<(), SalError> {
    let config = &shared.config;
    let store = &shared.stores[slice.store];
    let (mut sequence, mut prev_lsn) = (slice.base_sequence, slice.base);
    while let Some(chunks) = slice
        .next(config.slice_buffer_bytes, config.slice_flush_interval)
        .await
    {
        let _permit = store.in_flight.acquire().await.expect("never closed");
        sequence += 1;
        let fragment = Fragment {
            slice: slice.key,
            epoch: shared.epoch,
            sequence,
            prev_lsn,
            first_lsn: chunks[0].first,
            last_lsn: chunks.last().expect("not empty").last,
            groups: concatenate(&chunks),
        };
        prev_lsn = fragment.last_lsn;
        let status = send(shared, slice, fragment).await?;
        reach(Point::FragmentSent);
        slice.set_status(&status);
        slice.persistent.store(prev_lsn.0, Ordering::Release);
        let mut cv = shared.cv.lock();
        chunks
            .iter()
            .filter_map(|c| c.buffer)
            .for_each(|buffer| cv.done(buffer));
        drop(cv);
        shared.advance_cv();
    }
    Ok(())
}

async fn send(shared: &Shared, slice: &Slice, fragment: Fragment) -> Result<SliceStatus, SalError> {
    let api = &shared.stores[slice.store].api;
    let what = format!("fragment {} of {}", fragment.sequence, slice.key);
    let (limit, outage) = (shared.config.call_timeout, &slice.outage);
    let (sequence, last_lsn) = (fragment.sequence, fragment.last_lsn);
    // The log is durable: a Page Store that is away may take its time, writers are throttled.
    let status = match persist(&what, limit, outage, || api.write_logs(fragment.clone())).await {
        Ok(status) => status,
        // An attempt whose answer was lost may have succeeded all the same.
        Err(PageError::Refused(why)) => {
            let status = persist(&what, limit, outage, || api.slice_status(slice.key)).await?;
            if (status.sequence, status.persistent_lsn) != (sequence, last_lsn) {
                return Err(PageError::Refused(why).into());
            }
            status
        }
        Err(error) => return Err(error.into()),
    };
    if status.persistent_lsn < last_lsn {
        return Err(SalError::Inconsistent(format!(
            "{what} was acknowledged up to {} instead of {last_lsn}",
            status.persistent_lsn
        )));
    }
    Ok(status)
}

fn concatenate(chunks: &[Chunk]) -> Bytes {
    if let [only] = chunks {
        return only.groups.clone();
    }
    let mut all = BytesMut::with_capacity(chunks.iter().map(|c| c.groups.len()).sum());
    chunks.iter().for_each(|c| all.extend_from_slice(&c.groups));
    all.freeze()
}
