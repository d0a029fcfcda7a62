//! [`LogStoreService`]: the databases of a directory behind the [`LogStore`] trait.
//!
//! File I/O blocks, so every call that needs it runs on a thread of tokio's blocking pool; gates
//! bound how many. A call that was dropped by its caller still runs to its end there. Only appends
//! of a store that was told so run where they are called.

use std::any::Any;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use parking_lot::{Mutex, RwLock};
use perigee_log_api::{
    Append, LogEntry, LogError, LogStore, MAX_APPEND, PLOG_SIZE, PlogInfo, PlogKey,
};
use perigee_types::{DbId, Lsn};
use tokio::time::timeout;

use crate::Config;
use crate::cache::Cache;
use crate::database::{Database, parse_directory_name};
use crate::disk::{Disk, disk_error};
use crate::gate::Gate;
use crate::identity;
use crate::latency::{Latencies, LiveLatencies};

/// A Log Store over a local directory. Clones share it; the directory is free again when the last
/// clone and the last running call are gone.
#[derive(Clone, Debug)]
pub struct LogStoreService {
    inner: Arc<Inner>,
}

/// Counts since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Appends acknowledged, repeats not counted.
    pub appends: u64,
    /// Payload bytes of them.
    pub append_bytes: u64,
    /// Reads answered from memory.
    pub cached_reads: u64,
    /// Reads answered from the disk.
    pub disk_reads: u64,
}

/// What a Log Store did since it was opened, and where it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Every database.
    pub databases: Vec<DatabaseFigures>,
    /// Counts.
    pub stats: Stats,
    /// What appends took, from the call to the answer.
    pub append_time: Latencies,
    /// What syncs of files took.
    pub sync_time: Latencies,
    /// Bytes that recent appends take in memory.
    pub cache_bytes: u64,
    /// The most they may take.
    pub cache_capacity_bytes: u64,
}

/// The log of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseFigures {
    /// The database.
    pub db: DbId,
    /// True if it is not served because its files are damaged.
    pub damaged: bool,
    /// PLogs that are served.
    pub plogs: u64,
    /// Those of them that are not sealed.
    pub open_plogs: u64,
    /// PLogs that are not served because their files are damaged.
    pub damaged_plogs: u64,
    /// Bytes of log in those that are served.
    pub bytes: u64,
    /// LSN of the last log group.
    pub last_lsn: Lsn,
}

impl DatabaseFigures {
    /// Those of a database without PLogs.
    pub(crate) fn of(db: DbId) -> Self {
        Self {
            db,
            damaged: false,
            plogs: 0,
            open_plogs: 0,
            damaged_plogs: 0,
            bytes: 0,
            last_lsn: Lsn(0),
        }
    }
}

#[derive(Debug, Default)]
struct Counters {
    append_time: LiveLatencies,
    appends: AtomicU64,
    append_bytes: AtomicU64,
    cached_reads: AtomicU64,
    disk_reads: AtomicU64,
}

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    disk: Disk,
    cache: Cache,
    /// A database, or why it is refused.
    databases: RwLock<BTreeMap<DbId, Result<Arc<Database>, LogError>>>,
    /// Held while a database is made.
    creating: Mutex<()>,
    counters: Counters,
    writers: Gate,
    readers: Gate,
    append_in_place: bool,
    _lock: File,
}

impl LogStoreService {
    /// Opens the store in `dir`, making it if `dir` is missing or empty. Reads and checks all
    /// PLogs, so it takes time with the size of the log and must not be called where blocking is
    /// not allowed.
    ///
    /// Damaged PLogs do not keep the store from opening; see [`LogStoreService::damage`].
    ///
    /// # Errors
    /// [`LogError::Refused`] if `dir` holds something else or another format version,
    /// [`LogError::Unavailable`] if another process uses it, [`LogError::Disk`] if it cannot be
    /// read.
    pub fn open(dir: impl AsRef<Path>, config: Config) -> Result<Self, LogError> {
        Self::open_on(Disk::default(), dir.as_ref(), config)
    }

    pub(crate) fn open_on(disk: Disk, dir: &Path, config: Config) -> Result<Self, LogError> {
        let lock = identity::open(&disk, dir)?;
        disk.keep_reserve(dir, config.reserve_bytes);
        // What a killed process made here may not be on disk yet.
        disk.sync_directory(dir)?;
        let mut databases = BTreeMap::new();
        for entry in fs::read_dir(dir).map_err(|e| disk_error("list", dir, &e))? {
            let path = entry.map_err(|e| disk_error("list", dir, &e))?.path();
            let name = path.file_name().map(|n| n.to_string_lossy());
            let Some(db) = name.and_then(|n| parse_directory_name(&n)) else {
                continue;
            };
            let database = match Database::open(&disk, path, db) {
                Ok(database) => Ok(Arc::new(database)),
                Err(e) => {
                    disk.check()?;
                    tracing::error!("{db} is refused: {e}");
                    Err(e)
                }
            };
            databases.insert(db, database);
        }
        Ok(Self {
            inner: Arc::new(Inner {
                dir: dir.to_owned(),
                disk,
                cache: Cache::new(config.cache_bytes),
                databases: RwLock::new(databases),
                creating: Mutex::new(()),
                counters: Counters::default(),
                writers: Gate::new(config.writers, config.waiting),
                readers: Gate::new(config.readers, config.waiting),
                append_in_place: config.append_in_place,
                _lock: lock,
            }),
        })
    }

    /// The PLogs and databases that are refused because their files are damaged, with file and
    /// position.
    #[must_use]
    pub fn damage(&self) -> Vec<LogError> {
        let databases = self.inner.databases.read();
        let of_one = |slot: &Result<Arc<Database>, LogError>| match slot {
            Ok(database) => database.damage(),
            Err(e) => vec![e.clone()],
        };
        databases.values().flat_map(of_one).collect()
    }

    /// Counts since the store was opened.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let c = &self.inner.counters;
        Stats {
            appends: c.appends.load(Ordering::Relaxed),
            append_bytes: c.append_bytes.load(Ordering::Relaxed),
            cached_reads: c.cached_reads.load(Ordering::Relaxed),
            disk_reads: c.disk_reads.load(Ordering::Relaxed),
        }
    }

    /// What it did since it was opened, and where it stands. Takes latches that are held briefly.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let inner = &self.inner;
        let databases = inner.databases.read();
        let figures = |(db, slot): (&DbId, &Result<Arc<Database>, LogError>)| match slot {
            Ok(database) => database.figures(),
            Err(_) => DatabaseFigures {
                damaged: true,
                ..DatabaseFigures::of(*db)
            },
        };
        let (bytes, capacity) = inner.cache.bytes();
        Figures {
            databases: databases.iter().map(figures).collect(),
            stats: self.stats(),
            append_time: inner.counters.append_time.snapshot(),
            sync_time: inner.disk.syncs.snapshot(),
            cache_bytes: bytes as u64,
            cache_capacity_bytes: capacity as u64,
        }
    }

    /// Fails if the store has stopped because its disk failed.
    ///
    /// # Errors
    /// [`LogError::Disk`], with what failed.
    pub fn check(&self) -> Result<(), LogError> {
        self.inner.disk.check()
    }

    #[cfg(test)]
    pub(crate) fn disk(&self) -> &Disk {
        &self.inner.disk
    }

    /// Runs `call` on a thread that may block, when `gate` lets it.
    async fn run<T: Send + 'static>(
        &self,
        gate: &Gate,
        call: impl FnOnce(&Inner) -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        let permit = gate.enter().await?;
        let inner = self.inner.clone();
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            inner.disk.check()?;
            call(&inner)
        });
        match task.await {
            Ok(answer) => answer,
            Err(e) if e.is_panic() => self.inner.go_down(e.into_panic()),
            Err(_) => Err(LogError::Unavailable(
                "the log store is shutting down".into(),
            )),
        }
    }

    /// Appends on this thread.
    async fn append_in_place(&self, append: &Append) -> Result<u64, LogError> {
        let inner = &self.inner;
        let _permit = inner.writers.enter().await?;
        inner.disk.check()?;
        panic::catch_unwind(AssertUnwindSafe(|| inner.append(append)))
            .unwrap_or_else(|panic| inner.go_down(panic))
    }
}

impl Inner {
    /// Goes on with a panic. A broken invariant: what is in memory is not to be trusted any more.
    fn go_down(&self, panic: Box<dyn Any + Send>) -> ! {
        self.disk.stop("a call panicked");
        panic::resume_unwind(panic)
    }

    fn database(&self, db: DbId) -> Result<Arc<Database>, LogError> {
        match self.databases.read().get(&db) {
            Some(slot) => slot.clone(),
            None => Err(LogError::NotFound(db.to_string())),
        }
    }

    fn database_or_new(&self, db: DbId) -> Result<Arc<Database>, LogError> {
        let _creating = self.creating.lock();
        match self.database(db) {
            Err(LogError::NotFound(_)) => {
                let database = Arc::new(Database::create(&self.disk, &self.dir, db)?);
                self.databases.write().insert(db, Ok(database.clone()));
                Ok(database)
            }
            found => found,
        }
    }

    fn append(&self, append: &Append) -> Result<u64, LogError> {
        let database = self.database(append.plog.db)?;
        let (end, is_new) = database.append(&self.disk, &self.cache, append)?;
        if is_new {
            self.counters.appends.fetch_add(1, Ordering::Relaxed);
            self.counters
                .append_bytes
                .fetch_add(append.payload.len() as u64, Ordering::Relaxed);
        }
        Ok(end)
    }
}

/// What is wrong with an append whatever the store holds.
fn check_form(append: &Append) -> Result<(), LogError> {
    let (plog, len) = (append.plog, append.payload.len());
    if len == 0 || len > MAX_APPEND {
        let text = format!("append of {len} bytes to {plog}, not of 1 to {MAX_APPEND}");
        return Err(LogError::Refused(text));
    }
    if append.first_lsn == Lsn(0) || append.first_lsn > append.last_lsn {
        let (first, last) = (append.first_lsn, append.last_lsn);
        return Err(LogError::Refused(format!(
            "append of {first} to {last} to {plog}"
        )));
    }
    Ok(())
}

#[async_trait]
impl LogStore for LogStoreService {
    async fn begin_epoch(&self, db: DbId) -> Result<u64, LogError> {
        self.run(&self.inner.writers, move |inner| {
            inner.database_or_new(db)?.begin_epoch(&inner.disk)
        })
        .await
    }

    async fn await_epoch(&self, db: DbId, epoch: u64, wait: Duration) -> Result<u64, LogError> {
        self.inner.disk.check()?;
        let mut current = match self.inner.database(db) {
            Ok(database) => database.watch_epoch(),
            Err(LogError::NotFound(_)) => return Ok(0),
            Err(e) => return Err(e),
        };
        let above = current.wait_for(|now| *now > epoch);
        if let Ok(Ok(now)) = timeout(wait, above).await {
            return Ok(*now);
        }
        Ok(*current.borrow())
    }

    async fn create_plog(&self, plog: PlogKey, epoch: u64) -> Result<(), LogError> {
        self.run(&self.inner.writers, move |inner| {
            inner
                .database_or_new(plog.db)?
                .create_plog(&inner.disk, plog.plog, epoch)
        })
        .await
    }

    async fn append(&self, append: Append) -> Result<u64, LogError> {
        check_form(&append)?;
        let begin = Instant::now();
        let appended = if self.inner.append_in_place {
            self.append_in_place(&append).await
        } else {
            self.run(&self.inner.writers, move |inner| inner.append(&append))
                .await
        };
        self.inner.counters.append_time.count(begin.elapsed());
        appended
    }

    async fn read(
        &self,
        plog: PlogKey,
        offset: u64,
        max_bytes: u64,
    ) -> Result<Vec<LogEntry>, LogError> {
        // The answer is held in memory as a whole; nobody needs more than a PLog at once.
        let max_bytes = max_bytes.min(PLOG_SIZE);
        self.inner.disk.check()?;
        let cached = self.inner.cache.read(plog, offset, max_bytes);
        if !cached.is_empty() {
            self.inner
                .counters
                .cached_reads
                .fetch_add(1, Ordering::Relaxed);
            return Ok(cached);
        }
        self.run(&self.inner.readers, move |inner| {
            inner.counters.disk_reads.fetch_add(1, Ordering::Relaxed);
            inner
                .database(plog.db)?
                .plog(plog.plog)?
                .read(offset, max_bytes)
        })
        .await
    }

    async fn seal(&self, plog: PlogKey, epoch: u64) -> Result<u64, LogError> {
        self.run(&self.inner.writers, move |inner| {
            inner.database(plog.db)?.seal(&inner.disk, plog.plog, epoch)
        })
        .await
    }

    async fn list(&self, db: DbId) -> Result<Vec<PlogInfo>, LogError> {
        self.inner.disk.check()?;
        match self.inner.database(db) {
            Ok(database) => database.list(),
            Err(LogError::NotFound(_)) => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }

    async fn delete(&self, plog: PlogKey, epoch: u64) -> Result<(), LogError> {
        self.run(&self.inner.writers, move |inner| {
            inner
                .database(plog.db)?
                .delete(&inner.disk, &inner.cache, plog.plog, epoch)
        })
        .await
    }

    async fn has_room(&self) -> Result<bool, LogError> {
        self.run(&self.inner.readers, |inner| Ok(inner.disk.has_room()))
            .await
    }
}

#[cfg(test)]
mod tests;
