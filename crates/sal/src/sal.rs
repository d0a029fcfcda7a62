//! [`Sal`]: what a frontend calls, and the state that its tasks share.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use futures::FutureExt;
use parking_lot::{Mutex, RwLock};
use perigee_crash::{Point, reach};
use perigee_log_api::{LogStore, MAX_APPEND};
use perigee_page_api::{PageError, PageStore, SliceKey, SliceStatus, StoreStatus};
use perigee_redo::{Change, Group};
use perigee_types::{DbId, Lsn, PageId, SliceId, Writer};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::cv::CvTracker;
use crate::fence::Pulse;
use crate::link::Link;
use crate::log_buffer::LogBuffer;
use crate::outage::OutageWatch;
use crate::plogs::PlogList;
use crate::retry::{Patience, retry};
use crate::room::Room;
use crate::slice::Slice;
use crate::waiters::Waiters;
use crate::{Geometry, SalConfig, SalError, capabilities};

/// As the LSN of a read: the newest version that the Page Stores have.
pub const LATEST: Lsn = Lsn(u64::MAX);

/// How far the log has come.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Everything up to here is on the Log Stores (durable LSN).
    pub durable: Lsn,
    /// Everything up to here is on the Page Stores (CV-LSN).
    pub persistent: Lsn,
    pub(crate) failed: Option<Arc<SalError>>,
}

/// What the tasks of a [`Sal`] share.
pub(crate) struct Shared {
    pub config: SalConfig,
    pub geometry: Geometry,
    pub epoch: u64,
    pub log: Arc<dyn LogStore>,
    pub stores: Vec<Store>,
    pub buffer: Mutex<LogBuffer>,
    pub flusher_wake: Notify,
    /// Greatest LSN that somebody waits to be durable.
    pub wanted: AtomicU64,
    pub progress: watch::Sender<Progress>,
    pub durable_waiters: Waiters,
    pub cv: Mutex<CvTracker>,
    pub slices: RwLock<BTreeMap<SliceId, Arc<Slice>>>,
    /// Slices that their Page Stores do not serve, and why.
    pub damaged: BTreeMap<SliceId, PageError>,
    /// Bytes of log that are appended and not below the CV-LSN.
    pub unpersisted: AtomicUsize,
    pub log_bytes: AtomicU64,
    /// What that was when housekeeping came round last.
    pub log_at_round: AtomicU64,
    pub plogs: Mutex<PlogList>,
    pub recycle: AtomicU64,
    pub maintenance_wake: Notify,
    /// Why the log is not written, if it is not.
    pub log_outage: OutageWatch,
    /// Whether the stores have room for more data.
    pub room: Room,
    /// Whether the process has stood still.
    pub pulse: Pulse,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// A Page Store and the fragments that may be on their way to it.
pub(crate) struct Store {
    pub api: Arc<dyn PageStore>,
    pub in_flight: tokio::sync::Semaphore,
    /// Why slices cannot be made on it, if they cannot.
    pub outage: OutageWatch,
    /// What near-data processing it knows.
    pub known: capabilities::Known,
    /// What reads from it cost on their way.
    pub link: Link,
}

/// State with which a [`Shared`] begins.
pub(crate) struct Start {
    pub geometry: Geometry,
    pub epoch: u64,
    pub last: Lsn,
    pub plogs: PlogList,
    pub damaged: BTreeMap<SliceId, PageError>,
}

impl Shared {
    pub fn new(
        config: SalConfig,
        log: Arc<dyn LogStore>,
        stores: Vec<Arc<dyn PageStore>>,
        start: Start,
    ) -> Arc<Self> {
        let permits = config.max_fragments_in_flight.max(1);
        let store = |(number, api)| Store {
            api,
            in_flight: tokio::sync::Semaphore::new(permits),
            outage: OutageWatch::new(format!("page store {number}")),
            known: capabilities::Known::default(),
            link: Link::default(),
        };
        let progress = Progress {
            durable: start.last,
            persistent: Lsn(0),
            failed: None,
        };
        Arc::new(Self {
            buffer: Mutex::new(LogBuffer::new(start.last, config.log_buffer_bytes)),
            config,
            geometry: start.geometry,
            epoch: start.epoch,
            log,
            stores: stores.into_iter().enumerate().map(store).collect(),
            flusher_wake: Notify::new(),
            wanted: AtomicU64::new(0),
            progress: watch::Sender::new(progress),
            durable_waiters: Waiters::default(),
            cv: Mutex::default(),
            slices: RwLock::default(),
            damaged: start.damaged,
            unpersisted: AtomicUsize::new(0),
            log_bytes: AtomicU64::new(0),
            log_at_round: AtomicU64::new(0),
            plogs: Mutex::new(start.plogs),
            recycle: AtomicU64::new(0),
            maintenance_wake: Notify::new(),
            log_outage: OutageWatch::new("the log"),
            room: Room::default(),
            pulse: Pulse::default(),
            tasks: Mutex::default(),
        })
    }

    /// Starts a task that ends with the layer. A panic in it stops the layer: a half-done step
    /// must not look like a slow one.
    pub fn spawn(self: &Arc<Self>, name: &str, task: impl Future<Output = ()> + Send + 'static) {
        let (shared, name) = (self.clone(), name.to_owned());
        let guarded = async move {
            if AssertUnwindSafe(task).catch_unwind().await.is_err() {
                shared.fail(SalError::Inconsistent(format!("the {name} task panicked")));
            }
        };
        self.tasks.lock().push(tokio::spawn(guarded));
    }

    /// Stops the layer for good: the first reason counts.
    pub fn fail(&self, error: SalError) {
        self.buffer.lock().discard();
        self.progress.send_modify(|p| {
            if p.failed.is_none() {
                if error != SalError::ShutDown {
                    tracing::error!("storage stops: {error}");
                }
                p.failed = Some(Arc::new(error));
            }
        });
        self.durable_waiters.give_up();
    }

    /// The failure that stopped the layer, if any, as later callers see it.
    pub fn check(&self) -> Result<(), SalError> {
        self.progress.borrow().check()
    }

    /// Adds a slice that its Page Store has and starts its task.
    pub fn add_slice(self: &Arc<Self>, id: SliceId, status: SliceStatus) -> Arc<Slice> {
        let key = SliceKey {
            db: self.config.db,
            slice: id,
        };
        let slice = Slice::new(key, self.geometry.store_of(id), status);
        self.spawn(
            &key.to_string(),
            crate::slice::run(self.clone(), slice.clone()),
        );
        let before = self.slices.write().insert(id, slice.clone());
        assert!(before.is_none(), "P1: {key} has two writers");
        slice
    }

    /// [`Sal::append`].
    pub fn append(&self, changes: Vec<Change>) -> Lsn {
        let mut w = Writer::new();
        Group {
            lsn: Lsn(0),
            changes,
        }
        .encode(&mut w);
        let bytes = w.into_bytes();
        assert!(
            bytes.len() <= MAX_APPEND,
            "log group of {} bytes",
            bytes.len()
        );
        self.unpersisted.fetch_add(bytes.len(), Ordering::Relaxed);
        self.log_bytes
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let mut buffer = self.buffer.lock();
        let wake = buffer.is_empty() || buffer.is_full(bytes.len());
        // The first field of a group is its LSN, known only now.
        let lsn = buffer.append(&bytes[size_of::<Lsn>()..]);
        drop(buffer);
        if wake {
            self.flusher_wake.notify_one();
        }
        lsn
    }

    /// Moves the CV-LSN over complete log buffers.
    pub fn advance_cv(&self) {
        let mut cv = self.cv.lock();
        if let Some((lsn, bytes)) = cv.advance() {
            self.unpersisted.fetch_sub(bytes, Ordering::Relaxed);
            self.progress.send_modify(|p| {
                assert!(
                    p.persistent < lsn && lsn <= p.durable,
                    "P9: CV-LSN {lsn} after {p:?}"
                );
                p.persistent = lsn;
            });
        }
    }

    /// Bytes of the pages that Page Stores have, as far as they said.
    pub fn live_bytes(&self) -> u64 {
        let pages: u64 = self.slices.read().values().map(|s| s.pages()).sum();
        pages * perigee_types::PAGE_SIZE as u64
    }

    /// Bytes that Page Stores have to consolidate, as far as they said.
    pub fn backlog(&self) -> u64 {
        self.slices.read().values().map(|s| s.backlog()).sum()
    }

    /// True once everything up to `lsn` is on the Log Stores; an error if it will not come there.
    fn is_durable(&self, lsn: Lsn) -> Result<bool, SalError> {
        let progress = self.progress.borrow();
        match progress.durable >= lsn {
            true => Ok(true),
            false => progress.check().map(|()| false),
        }
    }

    /// [`Sal::wait_durable`].
    async fn wait_durable(&self, lsn: Lsn) -> Result<(), SalError> {
        self.wanted.fetch_max(lsn.0, Ordering::Relaxed);
        self.flusher_wake.notify_one();
        while !self.is_durable(lsn)? {
            let told = self.durable_waiters.wait_for(lsn);
            // What came before the wait was known is not told.
            if !self.is_durable(lsn)? {
                // An error is a failure, which the next look shows.
                let _ = told.await;
            }
        }
        Ok(())
    }

    /// Waits until the log has come as far as `reached` says, or storage has stopped before.
    pub async fn wait(&self, reached: impl Fn(&Progress) -> bool) -> Result<(), SalError> {
        let mut progress = self.progress.subscribe();
        let now = progress
            .wait_for(|p| p.failed.is_some() || reached(p))
            .await
            .expect("the sender lives in self");
        if reached(&now) { Ok(()) } else { now.check() }
    }

    /// Waits until slices have room for more of the log that is sent again.
    pub async fn wait_for_room(&self) -> Result<(), SalError> {
        let most = self.config.max_unpersisted_bytes;
        self.wait(|_| self.unpersisted.load(Ordering::Relaxed) <= most)
            .await
    }

    /// The Page Stores turn out to have everything up to `lsn`.
    pub fn all_is_persistent(&self, lsn: Lsn) {
        self.progress
            .send_modify(|p| p.persistent = p.persistent.max(lsn));
    }

    /// Tells the tasks to end where they are, and returns them.
    pub fn end_tasks(&self) -> Vec<JoinHandle<()>> {
        let tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.iter().for_each(JoinHandle::abort);
        tasks
    }
}

/// Where a slice stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceProgress {
    /// The slice.
    pub slice: SliceId,
    /// Number of its Page Store.
    pub store: usize,
    /// The slice persistent LSN.
    pub persistent: Lsn,
    /// Bytes of log that its Page Store had to consolidate when it last said so.
    pub backlog: u64,
}

impl Progress {
    fn check(&self) -> Result<(), SalError> {
        match &self.failed {
            None => Ok(()),
            Some(e) if **e == SalError::ShutDown => Err(SalError::ShutDown),
            Some(e) => Err(SalError::Stopped(e.clone())),
        }
    }
}

/// The storage abstraction layer of one database, for its only writer. Dropping it ends its tasks
/// at once, as a crash would; [`Sal::shutdown`] writes what is buffered first.
pub struct Sal {
    pub(crate) shared: Arc<Shared>,
}

impl Sal {
    /// Opens a database, or makes it if the Log Store knows nothing of it: finds the end of the
    /// log, locks out earlier writers, and sends Page Stores what they miss (taurus-2020 section
    /// 5.3). The order of `stores` is part of the database's geometry.
    ///
    /// # Errors
    /// [`SalError::Incompatible`] if the database was made with other Page Stores or by another
    /// version; [`SalError::Inconsistent`] if log was lost or is damaged; otherwise what a store
    /// answered.
    pub async fn open(
        config: SalConfig,
        log: Arc<dyn LogStore>,
        stores: Vec<Arc<dyn PageStore>>,
    ) -> Result<Arc<Self>, SalError> {
        let shared = crate::recover::open(config, log, stores).await?;
        Ok(Arc::new(Self { shared }))
    }

    /// The database.
    #[must_use]
    pub fn db(&self) -> DbId {
        self.shared.config.db
    }

    /// How pages are spread.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.shared.geometry
    }

    /// Epoch of this writer.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.shared.epoch
    }

    /// Gives a mini-transaction its LSN and appends its log group to the log buffer. The caller
    /// holds the latches of the changed pages until this returns (SPEC's N6).
    ///
    /// It never fails, because the pages are changed already: after a failure of storage the group
    /// goes nowhere, and every wait for it reports the failure. Callers go through
    /// [`Sal::throttle`] before they latch.
    ///
    /// # Panics
    /// If the group is longer than [`MAX_APPEND`].
    pub fn append(&self, changes: Vec<Change>) -> Lsn {
        self.shared.append(changes)
    }

    /// LSN of the last log group that was appended.
    #[must_use]
    pub fn last_lsn(&self) -> Lsn {
        self.shared.buffer.lock().last()
    }

    /// Everything up to here survives a crash.
    #[must_use]
    pub fn durable_lsn(&self) -> Lsn {
        self.shared.progress.borrow().durable
    }

    /// Everything up to here can be read from the Page Stores.
    #[must_use]
    pub fn cv_lsn(&self) -> Lsn {
        self.shared.progress.borrow().persistent
    }

    /// The slice persistent LSN of the slice that `page` lies in: a page whose newest change is at
    /// or below it can be read from its Page Store (invariant P9). Of a slice that is not there, the CV-LSN:
    /// there is no log for it up to there that is not on its way.
    #[must_use]
    pub fn persistent_lsn_of(&self, page: PageId) -> Lsn {
        let slice = self.shared.geometry.slice_of(page);
        self.shared
            .slices
            .read()
            .get(&slice)
            .map_or_else(|| self.cv_lsn(), |s| s.persistent())
    }

    /// Waits until the Log Stores have everything up to `lsn`; a commit is acknowledged after this.
    pub async fn wait_durable(&self, lsn: Lsn) -> Result<(), SalError> {
        self.shared.wait_durable(lsn).await
    }

    /// Waits until the Page Stores have everything up to `lsn`.
    pub async fn wait_page_persistent(&self, lsn: Lsn) -> Result<(), SalError> {
        self.shared.wanted.fetch_max(lsn.0, Ordering::Relaxed);
        self.shared.flusher_wake.notify_one();
        self.shared.wait(|p| p.persistent >= lsn).await
    }

    /// Tells of every change of [`Progress`].
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Progress> {
        self.shared.progress.subscribe()
    }

    /// Fails if storage has stopped.
    pub fn check(&self) -> Result<(), SalError> {
        self.shared.check()
    }

    /// Waits until the layer has stopped for good, and says why.
    pub async fn stopped(&self) -> SalError {
        let stopped = self.shared.wait(|_| false).await;
        stopped.expect_err("only a failure ends this wait")
    }

    /// No reader needs page versions that are older than the newest one at `lsn`; forwarded to the
    /// Page Stores from time to time, never backwards and never beyond the CV-LSN.
    pub fn set_recycle_lsn(&self, lsn: Lsn) {
        self.shared.recycle.fetch_max(lsn.0, Ordering::Relaxed);
    }

    /// Bytes of log groups appended since the database was opened.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.shared.log_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of log that no Page Store is known to have.
    #[must_use]
    pub fn unpersisted_bytes(&self) -> u64 {
        self.shared.unpersisted.load(Ordering::Relaxed) as u64
    }

    /// Where each slice stands, as far as its Page Store has said.
    #[must_use]
    pub fn slices(&self) -> Vec<SliceProgress> {
        let slices = self.shared.slices.read();
        let progress = |(id, slice): (&SliceId, &Arc<Slice>)| SliceProgress {
            slice: *id,
            store: slice.store,
            persistent: slice.persistent(),
            backlog: slice.backlog(),
        };
        slices.iter().map(progress).collect()
    }

    /// What each Page Store holds, in the order they were given.
    pub async fn page_store_status(&self) -> Result<Vec<StoreStatus>, SalError> {
        let config = &self.shared.config;
        let patience = Patience {
            call: config.call_timeout,
            total: config.read_timeout,
        };
        let ask = |store: &Store| {
            let api = store.api.clone();
            async move { retry("page store status", patience, || api.status()).await }
        };
        Ok(futures::future::try_join_all(self.shared.stores.iter().map(ask)).await?)
    }

    /// Writes everything to Log Stores and Page Stores and ends: when this returns, no task uses a
    /// store any more. Later calls fail.
    pub async fn shutdown(&self) -> Result<(), SalError> {
        let result = self.wait_page_persistent(self.last_lsn()).await;
        reach(Point::AllPersistent);
        self.shared.fail(SalError::ShutDown);
        for task in self.shared.end_tasks() {
            // Aborted or panicked: it has ended.
            let _ = task.await;
        }
        result
    }
}

impl Drop for Sal {
    fn drop(&mut self) {
        drop(self.shared.end_tasks());
    }
}
