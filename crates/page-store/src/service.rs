//! The Page Store itself: slices of many databases in a directory, behind the [`PageStore`] trait.
//!
//! Work that blocks runs on the runtime's blocking threads; a call that is dropped lets it finish.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::{Condvar, Mutex, RwLock};
use perigee_crash::{Point, reach};
use perigee_page_api::{
    Capabilities, Fragment, MAX_PAGES, NdpRead, NdpStream, PageError, PageStore, ReadPages,
    SliceKey, SliceStatus, StoreStatus,
};
use perigee_reserve::Reserve;
use perigee_types::{DbId, Lsn, PAGE_SIZE, PageId, SliceId};
use tokio::sync::Semaphore;

use crate::config::Config;
use crate::delete;
use crate::descriptors::DescriptorCache;
use crate::failstop::{FailStop, disk};
use crate::figures::{Figures, LogCounters, LogFigures, NdpCounters, SliceFigures};
use crate::files::OpenFiles;
use crate::filters::FilterCache;
use crate::fragment::LogCache;
use crate::group_memory::GroupLedger;
use crate::identity::{self, SliceLabel};
use crate::ndp::NdpPool;
use crate::plugin::{NdpPlugin, PerigeePlugin};
use crate::pool::{Pool, Use};
use crate::segment::sync_dir;
use crate::slice::{Shared, Slice, Tenant};
use crate::worker::{Slices, Workers};

/// A slice, or why it cannot be used.
type SliceOrError = Result<Arc<Slice>, PageError>;

/// A Page Store over a local directory. Its async methods need a tokio runtime.
pub struct PageStoreService {
    store: Arc<Store>,
    /// Ends the background threads when the service is dropped.
    _workers: Workers,
}

/// What the calls of a service share, and outlive it with.
pub(crate) struct Store {
    dir: PathBuf,
    shared: Arc<Shared>,
    pub(crate) plugin: Arc<dyn NdpPlugin>,
    pub(crate) descriptors: DescriptorCache,
    pub(crate) filters: FilterCache,
    pub(crate) groups: Arc<GroupLedger>,
    /// Memory for the groups of one request.
    pub(crate) group_bytes: usize,
    pub(crate) ndp: NdpPool,
    pub(crate) ndp_counters: NdpCounters,
    /// Turns to have declined pages read and sent.
    pub(crate) declined_reads: Arc<Semaphore>,
    slices: RwLock<BTreeMap<SliceKey, SliceOrError>>,
    tenants: Mutex<BTreeMap<DbId, Arc<Tenant>>>,
    next_number: AtomicU32,
    /// One slice is created at a time.
    creating: Mutex<()>,
    /// Keeps other processes out for as long as any call is at work.
    _lock: File,
}

impl fmt::Debug for PageStoreService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageStoreService in {}", self.store.dir.display())
    }
}

impl Slices for Store {
    fn all(&self) -> Vec<Arc<Slice>> {
        self.slices
            .read()
            .values()
            .filter_map(|s| s.as_ref().ok().cloned())
            .collect()
    }
}

/// Directory of a database.
pub(crate) fn db_name(db: DbId) -> String {
    format!("db-{}", db.0)
}

/// Directory of a slice in that of its database.
fn slice_name(slice: SliceId) -> String {
    format!("slice-{}", slice.0)
}

impl PageStoreService {
    /// Opens the store in `dir`, or makes an empty one, with Perigee's own NDP. Blocks until every
    /// slice is open. A slice that is damaged does not keep the others from being served; calls to
    /// it say what is wrong.
    ///
    /// # Errors
    /// [`PageError::Refused`] if the directory is another kind of store, of another version, or in
    /// use; [`PageError::Disk`] if it cannot be read or written.
    pub fn open(dir: impl AsRef<Path>, config: Config) -> Result<Self, PageError> {
        Self::open_with_plugin(dir, config, Arc::new(PerigeePlugin::default()))
    }

    /// As [`PageStoreService::open`], with another interpreter of NDP descriptors.
    ///
    /// # Errors
    /// As there.
    pub fn open_with_plugin(
        dir: impl AsRef<Path>,
        config: Config,
        plugin: Arc<dyn NdpPlugin>,
    ) -> Result<Self, PageError> {
        let dir = dir.as_ref();
        let no_threads = |e| PageError::Unavailable(format!("no threads: {e}"));
        let shared = Arc::new(Shared {
            stop: FailStop::default(),
            reserve: Reserve::new(dir, config.reserve_bytes),
            files: OpenFiles::new(config.open_segments),
            pool: Pool::new(config.pool_bytes),
            cache: LogCache::new(config.log_cache_bytes),
            backlog: AtomicU64::new(0),
            counters: LogCounters::default(),
            work: Condvar::new(),
            work_latch: Mutex::new(()),
            config,
        });
        let config = &shared.config;
        let lock = identity::claim_store(dir, &shared.stop)?;
        let ndp = NdpPool::start(config);
        let store = Arc::new(Store {
            dir: dir.to_owned(),
            shared: shared.clone(),
            plugin,
            descriptors: DescriptorCache::new(
                config.descriptor_cache,
                config.descriptor_cache_bytes,
            ),
            filters: FilterCache::new(config.filter_cache, config.filter_cache_bytes),
            groups: GroupLedger::new(config.ndp_group_bytes_tenant),
            group_bytes: config.ndp_group_bytes,
            ndp: ndp.map_err(no_threads)?,
            ndp_counters: NdpCounters::default(),
            declined_reads: Arc::new(Semaphore::new(config.ndp_threads.max(1))),
            slices: RwLock::default(),
            tenants: Mutex::default(),
            next_number: AtomicU32::new(0),
            creating: Mutex::new(()),
            _lock: lock,
        });
        store.open_all()?;
        let slices: Arc<dyn Slices> = store.clone();
        let workers = Workers::start(config.consolidators, &shared, &slices);
        Ok(Self {
            store,
            _workers: workers.map_err(no_threads)?,
        })
    }

    /// Hits and misses of the pool since the store was opened.
    #[must_use]
    pub fn pool_counts(&self) -> (u64, u64) {
        self.store.shared.pool.counts()
    }

    /// What it did since it was opened, and where it stands. Takes latches that are held briefly.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.store.figures()
    }

    /// Fails if the store has stopped because its disk failed.
    ///
    /// # Errors
    /// [`PageError::Disk`], with what failed.
    pub fn check(&self) -> Result<(), PageError> {
        self.store.shared.stop.check()
    }
}

impl Store {
    /// Runs `work` where it may block. A panic in it stops the store.
    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, PageError> + Send + 'static,
    ) -> Result<T, PageError> {
        let store = self.clone();
        match tokio::task::spawn_blocking(move || work(&store)).await {
            Ok(result) => result,
            Err(error) => {
                let stop = &self.shared.stop;
                if error.is_panic() {
                    stop.stop("a request panicked".into());
                }
                stop.check()?;
                Err(PageError::Unavailable("the store is shutting down".into()))
            }
        }
    }

    /// Page versions as of an LSN.
    pub(crate) async fn read_pages(
        self: &Arc<Self>,
        read: ReadPages,
    ) -> Result<Vec<Bytes>, PageError> {
        let slice = self.slice(read.slice)?;
        slice.check_epoch(read.epoch)?;
        check_count(&read.pages)?;
        self.shared.counters.pages_read.add(read.pages.len() as u64);
        if let Some(pages) = slice.read_from_memory(read.lsn, &read.pages, Use::Wanted)? {
            return Ok(pages);
        }
        self.blocking(move |_| slice.read_blocking(read.lsn, &read.pages, Use::Wanted))
            .await
    }

    fn open_all(&self) -> Result<(), PageError> {
        for (db, db_dir) in numbered(&self.dir, "db-")? {
            let tenant = self.open_tenant(DbId(db), db_dir.clone());
            delete::finish(&db_dir)?;
            for (slice, dir) in numbered(&db_dir, "slice-")? {
                let key = SliceKey {
                    db: DbId(db),
                    slice: SliceId(slice),
                };
                let opened = match &tenant {
                    Ok(tenant) => self.open_slice(key, &dir, tenant),
                    Err(error) => Err(error.clone()),
                };
                match opened {
                    Ok(None) => {}
                    Ok(Some(slice)) => {
                        self.slices.write().insert(key, Ok(slice));
                    }
                    Err(error @ PageError::Corrupt(_)) => {
                        tracing::error!("{key} is not served: {error}");
                        self.slices.write().insert(key, Err(error));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn open_tenant(&self, db: DbId, dir: PathBuf) -> Result<Arc<Tenant>, PageError> {
        let recycle = identity::read_recycle(&dir, db)?;
        let epoch = identity::read_epoch(&dir, db)?;
        let tenant = Arc::new(Tenant::new(dir, recycle, epoch));
        self.tenants.lock().insert(db, tenant.clone());
        Ok(tenant)
    }

    /// Opens a slice; `None` if its creation was never finished.
    fn open_slice(
        &self,
        key: SliceKey,
        dir: &Path,
        tenant: &Arc<Tenant>,
    ) -> Result<Option<Arc<Slice>>, PageError> {
        let Some(label) = identity::read_slice(dir, key)? else {
            return Ok(None);
        };
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let (shared, tenant) = (self.shared.clone(), tenant.clone());
        Slice::open(key, number, dir, shared, tenant, label).map(|slice| Some(Arc::new(slice)))
    }

    pub(crate) fn slice(&self, key: SliceKey) -> SliceOrError {
        let slices = self.slices.read();
        slices
            .get(&key)
            .cloned()
            .unwrap_or_else(|| Err(PageError::NotFound(key.to_string())))
    }

    fn tenant(&self, db: DbId) -> Result<Arc<Tenant>, PageError> {
        if let Some(tenant) = self.tenants.lock().get(&db) {
            return Ok(tenant.clone());
        }
        let dir = self.dir.join(db_name(db));
        if !dir.is_dir() {
            fs::create_dir(&dir).map_err(|e| disk("creation of", &dir, &e))?;
            reach(Point::TenantDirectoryMade);
            sync_dir(&self.dir, &self.shared.stop)?;
        }
        self.open_tenant(db, dir)
    }

    fn create_slice(&self, key: SliceKey, epoch: u64) -> Result<(), PageError> {
        let stop = &self.shared.stop;
        stop.check()?;
        let _one_at_a_time = self.creating.lock();
        match self.slice(key) {
            Ok(slice) => return slice.raise_epoch(epoch),
            Err(PageError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        let tenant = self.tenant(key.db)?;
        delete::check_epoch(&tenant, key, epoch)?;
        let dir = tenant.dir.join(slice_name(key.slice));
        if !dir.is_dir() {
            fs::create_dir(&dir).map_err(|e| disk("creation of", &dir, &e))?;
            reach(Point::SliceDirectoryMade);
            sync_dir(&tenant.dir, stop)?;
        }
        let label = SliceLabel {
            epoch,
            ..SliceLabel::default()
        };
        identity::write_slice(&dir, key, label, stop)?;
        reach(Point::SliceCreated);
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let slice = Slice::empty(key, number, &dir, self.shared.clone(), tenant, label);
        self.slices.write().insert(key, Ok(Arc::new(slice)));
        Ok(())
    }

    fn delete_slice(&self, key: SliceKey, epoch: u64, end: Lsn) -> Result<bool, PageError> {
        self.shared.stop.check()?;
        let _one_at_a_time = self.creating.lock();
        let slice = match self.slice(key) {
            Ok(slice) => slice,
            Err(PageError::NotFound(_)) => return Ok(true),
            Err(error) => return Err(error),
        };
        let deleted = slice.delete(epoch, end)?;
        if deleted {
            self.slices.write().remove(&key);
        }
        Ok(deleted)
    }

    fn set_recycle_lsn(&self, db: DbId, lsn: Lsn) -> Result<(), PageError> {
        self.shared.stop.check()?;
        let tenant = {
            let _one_at_a_time = self.creating.lock();
            self.tenant(db)?
        };
        let _one_at_a_time = tenant.advancing.lock();
        if lsn > tenant.recycle_lsn() {
            // Durable first: what is dropped because of it may come back with a restart.
            identity::write_recycle(&tenant.dir, db, lsn, &self.shared.stop)?;
            reach(Point::RecycleWritten);
            tenant.set_recycle_lsn(lsn);
        }
        Ok(())
    }

    fn figures(&self) -> Figures {
        let Shared {
            counters,
            pool,
            backlog,
            ..
        } = &*self.shared;
        let slices = self.slices.read();
        let slice = |(key, slice): (&SliceKey, &SliceOrError)| match slice {
            Ok(slice) => slice.figures(),
            Err(_) => SliceFigures {
                key: *key,
                status: SliceStatus::default(),
                recycle_lsn: Lsn(0),
                pages: 0,
                versions: 0,
                live_bytes: 0,
                disk_bytes: 0,
                damaged: true,
            },
        };
        let slices = slices.iter().map(slice).collect();
        let mut ndp = self.ndp_counters.figures();
        self.ndp.add_to(&mut ndp);
        ndp.group_bytes = self.groups.bytes();
        Figures {
            slices,
            pool: pool.figures(),
            log: LogFigures {
                fragments: counters.fragments.get(),
                bytes: counters.bytes.get(),
                consolidated_fragments: counters.consolidated_fragments.get(),
                versions_written: counters.versions_written.get(),
                backlog_bytes: backlog.load(Ordering::Relaxed),
                pages_read: counters.pages_read.get(),
            },
            ndp,
            descriptors: self.descriptors.figures(),
            filters: self.filters.figures(),
        }
    }

    fn status(&self) -> StoreStatus {
        let mut status = StoreStatus::default();
        for (key, slice) in self.slices.read().iter() {
            let Ok(slice) = slice else {
                status.slices.push((*key, SliceStatus::default()));
                continue;
            };
            status.slices.push((*key, slice.status()));
            status.live_bytes += slice.directory.pages() * PAGE_SIZE as u64;
            status.disk_bytes += slice.disk_bytes();
        }
        status
    }
}

/// Subdirectories whose names are a prefix and a number.
pub(crate) fn numbered(dir: &Path, prefix: &str) -> Result<Vec<(u32, PathBuf)>, PageError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(|e| disk("listing of", dir, &e))? {
        let entry = entry.map_err(|e| disk("listing of", dir, &e))?;
        let name = entry.file_name();
        let number = name
            .to_str()
            .and_then(|n| n.strip_prefix(prefix)?.parse().ok());
        if let Some(number) = number
            && entry.path().is_dir()
        {
            found.push((number, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

fn check_count(pages: &[PageId]) -> Result<(), PageError> {
    if pages.len() > MAX_PAGES {
        let text = format!("read of {} pages, {MAX_PAGES} are the most", pages.len());
        return Err(PageError::Refused(text));
    }
    Ok(())
}

#[async_trait]
impl PageStore for PageStoreService {
    async fn create_slice(&self, slice: SliceKey, epoch: u64) -> Result<(), PageError> {
        self.store
            .blocking(move |store| store.create_slice(slice, epoch))
            .await
    }

    async fn delete_slice(&self, slice: SliceKey, epoch: u64, end: Lsn) -> Result<bool, PageError> {
        self.store
            .blocking(move |store| store.delete_slice(slice, epoch, end))
            .await
    }

    async fn write_logs(&self, fragment: Fragment) -> Result<SliceStatus, PageError> {
        let slice = self.store.slice(fragment.slice)?;
        self.store.blocking(move |_| slice.write(fragment)).await
    }

    async fn read_pages(&self, read: ReadPages) -> Result<Vec<Bytes>, PageError> {
        self.store.read_pages(read).await
    }

    async fn ndp_read(&self, read: NdpRead) -> Result<NdpStream, PageError> {
        check_count(&read.pages)?;
        self.store.ndp_read(read).await
    }

    async fn set_recycle_lsn(&self, db: DbId, lsn: Lsn) -> Result<(), PageError> {
        self.store
            .blocking(move |store| store.set_recycle_lsn(db, lsn))
            .await
    }

    async fn slice_status(&self, slice: SliceKey) -> Result<SliceStatus, PageError> {
        let slice = self.store.slice(slice)?;
        self.store.shared.stop.check()?;
        Ok(slice.status())
    }

    async fn status(&self) -> Result<StoreStatus, PageError> {
        self.store.shared.stop.check()?;
        Ok(self.store.status())
    }

    async fn has_room(&self) -> Result<bool, PageError> {
        let has_room = |store: &Store| Ok(store.shared.reserve.has_room());
        self.store.blocking(has_room).await
    }
    async fn capabilities(&self) -> Result<Capabilities, PageError> {
        Ok(self.store.plugin.capabilities())
    }
}
