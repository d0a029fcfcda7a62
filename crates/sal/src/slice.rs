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
    pending: Mutex<Pending>,
    wake: Notify,
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
            pending: Mutex::new(Pending {
                queued: base,
                ..Pending::default()
            }),
            wake: Notify::new(),
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

    pub fn set_backlog(&self, bytes: u64) {
        self.backlog.store(bytes, Ordering::Relaxed);
    }

    /// Queues a part of a log buffer.
    pub fn push(&self, chunk: Chunk) {
        let mut pending = self.pending.lock();
        assert!(
            pending.queued < chunk.last,
            "P1: chunks of a slice in LSN order"
        );
        pending.queued = chunk.last;
        pending.bytes += chunk.groups.len();
        pending.chunks.push_back(chunk);
        drop(pending);
        self.wake.notify_one();
    }

    /// Lets an idle slice know that nothing up to `lsn`, a CV-LSN, is for it.
    pub fn pass(&self, lsn: Lsn) {
        let mut pending = self.pending.lock();
        if pending.queued >= lsn {
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

    /// The next chunks to send: when there are `enough` bytes, or some and `delay` is over.
    async fn next(&self, enough: usize, delay: Duration) -> Vec<Chunk> {
        while self.pending.lock().chunks.is_empty() {
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
        chunks
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
    loop {
        let chunks = slice
            .next(config.slice_buffer_bytes, config.slice_flush_interval)
            .await;
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
        slice.set_backlog(status.backlog_bytes);
        slice.persistent.store(prev_lsn.0, Ordering::Release);
        let mut cv = shared.cv.lock();
        chunks
            .iter()
            .filter_map(|c| c.buffer)
            .for_each(|buffer| cv.done(buffer));
        drop(cv);
        shared.advance_cv();
    }
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
