//! Stores that fail on command: around any store, a switchboard of faults.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use perigee_log_api::{Append, LogEntry, LogError, LogStore, PlogInfo, PlogKey};
use perigee_page_api::{
    Capabilities, Fragment, NdpRead, NdpStream, PageError, PageStore, ReadPages, SliceKey,
    SliceStatus, StoreStatus,
};
use perigee_types::{DbId, Lsn, PageId};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Faults of one store, set by a test and shared with a [`Faulty`].
#[derive(Debug, Default)]
pub struct Faults {
    reject: AtomicUsize,
    lose: AtomicUsize,
    stopped: watch::Sender<bool>,
    disk: Mutex<DiskFault>,
    low_on_space: AtomicBool,
    page_reads: AtomicUsize,
    damaged: Mutex<HashSet<PageId>>,
    meanwhile: Mutex<Meanwhile>,
}

/// How writes fail at the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DiskFault {
    #[default]
    None,
    Broken,
    Full,
}

/// What happens between a request and its answer.
#[derive(Default)]
enum Meanwhile {
    #[default]
    Nothing,
    /// Waits for a read, and is then waited for this long.
    Armed {
        ndp: bool,
        happens: BoxFuture<'static, ()>,
        wait: Duration,
    },
    Begun(JoinHandle<()>),
}

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::Armed { .. } => "armed",
            Self::Begun(_) => "begun",
        })
    }
}

impl Faults {
    /// The next `calls` calls fail without being carried out.
    pub fn reject(&self, calls: usize) {
        self.reject.store(calls, Ordering::SeqCst);
    }

    /// The next `calls` calls are carried out, and the answers lost.
    pub fn lose_answers(&self, calls: usize) {
        self.lose.store(calls, Ordering::SeqCst);
    }

    /// From now on calls wait until [`Faults::go_on`].
    pub fn stop(&self) {
        self.stopped.send_replace(true);
    }

    /// Ends [`Faults::stop`].
    pub fn go_on(&self) {
        self.stopped.send_replace(false);
    }

    /// From now on writes fail with a disk error.
    pub fn break_disk(&self) {
        *self.disk() = DiskFault::Broken;
    }

    /// From now on writes fail because the disk is full.
    pub fn fill_disk(&self) {
        *self.disk() = DiskFault::Full;
    }

    /// Ends [`Faults::break_disk`] and [`Faults::fill_disk`].
    pub fn mend_disk(&self) {
        *self.disk() = DiskFault::None;
    }

    /// From now on a page cannot be read.
    pub fn damage(&self, page: PageId) {
        self.damaged().insert(page);
    }

    fn damaged(&self) -> MutexGuard<'_, HashSet<PageId>> {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads of whole pages that Page Stores were asked for, each of any number of pages.
    #[must_use]
    pub fn page_reads(&self) -> usize {
        self.page_reads.load(Ordering::SeqCst)
    }

    /// Something happens between the next read of pages, with near-data processing or without, and
    /// its answer. The answer waits for it so long: it may need the very pages that are read, and
    /// then ends after them.
    pub fn before_next_read(
        &self,
        ndp: bool,
        happens: impl Future<Output = ()> + Send + 'static,
        wait: Duration,
    ) {
        *self.meanwhile() = Meanwhile::Armed {
            ndp,
            happens: Box::pin(happens),
            wait,
        };
    }

    /// Waits until what was to happen before a read has ended; false if there was no read.
    ///
    /// # Panics
    /// If what happened panicked.
    pub async fn happened(&self) -> bool {
        let begun = std::mem::take(&mut *self.meanwhile());
        let Meanwhile::Begun(task) = begun else {
            return false;
        };
        task.await.expect("what happens meanwhile does not panic");
        true
    }

    fn meanwhile(&self) -> MutexGuard<'_, Meanwhile> {
        self.meanwhile
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets happen what is to happen before a read.
    async fn interrupt(&self, of_ndp: bool) {
        let (end, ended) = tokio::sync::oneshot::channel();
        let wait = {
            let mut meanwhile = self.meanwhile();
            match std::mem::take(&mut *meanwhile) {
                Meanwhile::Armed { ndp, happens, wait } if ndp == of_ndp => {
                    *meanwhile = Meanwhile::Begun(tokio::spawn(async {
                        happens.await;
                        let _ = end.send(());
                    }));
                    wait
                }
                other => {
                    *meanwhile = other;
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(wait, ended).await;
    }

    /// Faults that were asked for and have not happened yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.reject.load(Ordering::SeqCst) + self.lose.load(Ordering::SeqCst)
    }

    async fn apply<T, E>(
        &self,
        call: impl Future<Output = Result<T, E>>,
        unavailable: impl Fn(String) -> E,
    ) -> Result<T, E> {
        let mut stopped = self.stopped.subscribe();
        stopped
            .wait_for(|stopped| !stopped)
            .await
            .expect("the sender lives in self");
        if take(&self.reject) {
            return Err(unavailable("rejected by the test".to_owned()));
        }
        let answer = call.await;
        if take(&self.lose) {
            return Err(unavailable("answer lost by the test".to_owned()));
        }
        answer
    }

    /// From now on the store says whether it has room for more data than its reserve.
    pub fn set_low_on_space(&self, low: bool) {
        self.low_on_space.store(low, Ordering::SeqCst);
    }

    fn is_low_on_space(&self) -> bool {
        self.low_on_space.load(Ordering::SeqCst)
    }

    fn disk(&self) -> MutexGuard<'_, DiskFault> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
        .is_ok()
}

/// A store with faults.
#[derive(Debug, Default)]
pub struct Faulty<S> {
    /// The store itself.
    pub store: S,
    /// Its faults.
    pub faults: Arc<Faults>,
}

impl<S> Faulty<S> {
    /// `store` with no faults yet.
    pub fn new(store: S) -> Self {
        Self {
            store,
            faults: Arc::default(),
        }
    }
}

#[async_trait]
impl<S: LogStore> LogStore for Faulty<S> {
    async fn begin_epoch(&self, db: DbId) -> Result<u64, LogError> {
        self.faults
            .apply(self.store.begin_epoch(db), LogError::Unavailable)
            .await
    }

    async fn await_epoch(&self, db: DbId, epoch: u64, wait: Duration) -> Result<u64, LogError> {
        // Not a call that tests count on: it is always under way.
        self.store.await_epoch(db, epoch, wait).await
    }

    async fn create_plog(&self, plog: PlogKey, epoch: u64) -> Result<(), LogError> {
        self.faults
            .apply(self.store.create_plog(plog, epoch), LogError::Unavailable)
            .await
    }

    async fn append(&self, append: Append) -> Result<u64, LogError> {
        let fault = *self.faults.disk();
        match fault {
            DiskFault::None => {}
            DiskFault::Broken => return Err(LogError::Disk("broken by the test".to_owned())),
            DiskFault::Full => return Err(LogError::Full("filled by the test".to_owned())),
        }
        self.faults
            .apply(self.store.append(append), LogError::Unavailable)
            .await
    }

    async fn read(
        &self,
        plog: PlogKey,
        offset: u64,
        max_bytes: u64,
    ) -> Result<Vec<LogEntry>, LogError> {
        self.faults
            .apply(
                self.store.read(plog, offset, max_bytes),
                LogError::Unavailable,
            )
            .await
    }

    async fn seal(&self, plog: PlogKey, epoch: u64) -> Result<u64, LogError> {
        self.faults
            .apply(self.store.seal(plog, epoch), LogError::Unavailable)
            .await
    }

    async fn list(&self, db: DbId) -> Result<Vec<PlogInfo>, LogError> {
        self.faults
            .apply(self.store.list(db), LogError::Unavailable)
            .await
    }

    async fn delete(&self, plog: PlogKey, epoch: u64) -> Result<(), LogError> {
        self.faults
            .apply(self.store.delete(plog, epoch), LogError::Unavailable)
            .await
    }

    async fn has_room(&self) -> Result<bool, LogError> {
        let has_room = async { Ok(!self.faults.is_low_on_space()) };
        self.faults.apply(has_room, LogError::Unavailable).await
    }
}

#[async_trait]
impl<S: PageStore> PageStore for Faulty<S> {
    async fn create_slice(&self, slice: SliceKey, epoch: u64) -> Result<(), PageError> {
        self.faults
            .apply(
                self.store.create_slice(slice, epoch),
                PageError::Unavailable,
            )
            .await
    }

    async fn delete_slice(&self, slice: SliceKey, epoch: u64, end: Lsn) -> Result<bool, PageError> {
        self.faults
            .apply(
                self.store.delete_slice(slice, epoch, end),
                PageError::Unavailable,
            )
            .await
    }

    async fn write_logs(&self, fragment: Fragment) -> Result<SliceStatus, PageError> {
        let fault = *self.faults.disk();
        match fault {
            DiskFault::None => {}
            DiskFault::Broken => return Err(PageError::Disk("broken by the test".to_owned())),
            DiskFault::Full => return Err(PageError::Full("filled by the test".to_owned())),
        }
        self.faults
            .apply(self.store.write_logs(fragment), PageError::Unavailable)
            .await
    }

    async fn read_pages(&self, read: ReadPages) -> Result<Vec<Bytes>, PageError> {
        self.faults.page_reads.fetch_add(1, Ordering::SeqCst);
        let is_damaged = |page: &&PageId| self.faults.damaged().contains(page);
        if let Some(page) = read.pages.iter().find(is_damaged) {
            return Err(PageError::Corrupt(format!("{page}, damaged by the test")));
        }
        self.faults.interrupt(false).await;
        self.faults
            .apply(self.store.read_pages(read), PageError::Unavailable)
            .await
    }

    async fn ndp_read(&self, read: NdpRead) -> Result<NdpStream, PageError> {
        self.faults.interrupt(true).await;
        self.faults
            .apply(self.store.ndp_read(read), PageError::Unavailable)
            .await
    }

    async fn set_recycle_lsn(&self, db: DbId, lsn: Lsn) -> Result<(), PageError> {
        self.faults
            .apply(self.store.set_recycle_lsn(db, lsn), PageError::Unavailable)
            .await
    }

    async fn slice_status(&self, slice: SliceKey) -> Result<SliceStatus, PageError> {
        self.faults
            .apply(self.store.slice_status(slice), PageError::Unavailable)
            .await
    }

    async fn status(&self) -> Result<StoreStatus, PageError> {
        self.faults
            .apply(self.store.status(), PageError::Unavailable)
            .await
    }

    async fn capabilities(&self) -> Result<Capabilities, PageError> {
        self.faults
            .apply(self.store.capabilities(), PageError::Unavailable)
            .await
    }

    async fn has_room(&self) -> Result<bool, PageError> {
        let has_room = async { Ok(!self.faults.is_low_on_space()) };
        self.faults.apply(has_room, PageError::Unavailable).await
    }
}
