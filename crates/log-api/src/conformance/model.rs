//! [`MemoryLogStore`]: the meaning of [`LogStore`] in its simplest form, to compare others with and
//! to test callers with. It forgets everything when it is dropped.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use perigee_types::{DbId, Lsn, PlogId};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::{Append, LogEntry, LogError, LogStore, MAX_APPEND, PLOG_SIZE, PlogInfo, PlogKey};

/// A Log Store in memory.
#[derive(Debug, Default)]
pub struct MemoryLogStore {
    databases: Mutex<BTreeMap<DbId, Database>>,
    /// Tells of new epochs.
    begun: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Database {
    epoch: u64,
    plogs: BTreeMap<PlogId, Plog>,
}

#[derive(Debug, Default)]
struct Plog {
    /// Of the writer that made it.
    epoch: u64,
    sealed: bool,
    entries: Vec<(u64, LogEntry)>,
}

impl Plog {
    fn length(&self) -> u64 {
        self.entries.last().map_or(0, |(_, e)| e.next_offset)
    }

    fn info(&self, plog: PlogKey) -> PlogInfo {
        PlogInfo {
            plog,
            epoch: self.epoch,
            length: self.length(),
            sealed: self.sealed,
            first_lsn: self.entries.first().map_or(Lsn(0), |(_, e)| e.first_lsn),
            last_lsn: self.entries.last().map_or(Lsn(0), |(_, e)| e.last_lsn),
        }
    }
}

impl Database {
    fn admit(&mut self, epoch: u64) -> Result<(), LogError> {
        if epoch < self.epoch {
            return Err(LogError::Fenced(format!(
                "epoch {epoch} is below {}",
                self.epoch
            )));
        }
        self.epoch = epoch;
        Ok(())
    }

    fn plog(&mut self, key: PlogKey) -> Result<&mut Plog, LogError> {
        self.plogs
            .get_mut(&key.plog)
            .ok_or_else(|| LogError::NotFound(key.to_string()))
    }
}

impl MemoryLogStore {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<DbId, Database>> {
        self.databases
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused<T>(why: impl Into<String>) -> Result<T, LogError> {
    Err(LogError::Refused(why.into()))
}

#[async_trait]
impl LogStore for MemoryLogStore {
    async fn begin_epoch(&self, db: DbId) -> Result<u64, LogError> {
        let mut databases = self.lock();
        let db = databases.entry(db).or_default();
        let last = db.plogs.last_key_value().map_or(0, |(id, _)| id.0);
        let Some(epoch) = db.epoch.max(last).checked_add(1) else {
            return refused("there are no more epochs");
        };
        db.epoch = epoch;
        self.begun.send_modify(|_| ());
        Ok(epoch)
    }

    async fn await_epoch(&self, db: DbId, epoch: u64, wait: Duration) -> Result<u64, LogError> {
        let current = || self.lock().get(&db).map_or(0, |d| d.epoch);
        let mut begun = self.begun.subscribe();
        let above = async { while current() <= epoch && begun.changed().await.is_ok() {} };
        // What the time limit cuts off is told as well.
        let _ = timeout(wait, above).await;
        Ok(current())
    }

    async fn create_plog(&self, key: PlogKey, epoch: u64) -> Result<(), LogError> {
        let mut databases = self.lock();
        let db = databases.entry(key.db).or_default();
        db.admit(epoch)?;
        let made = || Plog {
            epoch,
            ..Plog::default()
        };
        let plog = db.plogs.entry(key.plog).or_insert_with(made);
        if plog.sealed || plog.length() > 0 {
            return refused(format!("{key} exists"));
        }
        Ok(())
    }

    async fn append(&self, append: Append) -> Result<u64, LogError> {
        let key = append.plog;
        let len = append.payload.len() as u64;
        if len == 0 || len > MAX_APPEND as u64 {
            return refused(format!("payload of {len} bytes"));
        }
        if append.first_lsn == Lsn(0) || append.first_lsn > append.last_lsn {
            return refused(format!(
                "groups {} to {}",
                append.first_lsn, append.last_lsn
            ));
        }
        let mut databases = self.lock();
        let Some(db) = databases.get_mut(&key.db) else {
            return Err(LogError::NotFound(key.to_string()));
        };
        db.admit(append.epoch)?;
        let plog = db.plog(key)?;
        let entry = LogEntry {
            offset: append.offset,
            next_offset: append.offset.saturating_add(len),
            first_lsn: append.first_lsn,
            last_lsn: append.last_lsn,
            payload: append.payload,
        };
        if plog.sealed {
            return refused(format!("{key} is sealed"));
        }
        if plog
            .entries
            .last()
            .is_some_and(|last| *last == (append.epoch, entry.clone()))
        {
            return Ok(entry.next_offset);
        }
        if entry.offset != plog.length() || entry.next_offset > PLOG_SIZE {
            return refused(format!("{key} ends at {}", plog.length()));
        }
        if plog
            .entries
            .last()
            .is_some_and(|(_, last)| entry.first_lsn != last.last_lsn.next())
        {
            return refused(format!("{key}: {} does not follow", entry.first_lsn));
        }
        let end = entry.next_offset;
        plog.entries.push((append.epoch, entry));
        Ok(end)
    }

    async fn read(
        &self,
        key: PlogKey,
        offset: u64,
        max_bytes: u64,
    ) -> Result<Vec<LogEntry>, LogError> {
        let mut databases = self.lock();
        let Some(db) = databases.get_mut(&key.db) else {
            return Err(LogError::NotFound(key.to_string()));
        };
        let plog = db.plog(key)?;
        if offset == plog.length() {
            return Ok(Vec::new());
        }
        let Ok(first) = plog
            .entries
            .binary_search_by_key(&offset, |(_, e)| e.offset)
        else {
            return refused(format!("{key} has no entry at {offset}"));
        };
        let mut bytes = 0;
        let wanted = plog.entries[first..].iter().take_while(|(_, e)| {
            bytes += e.payload.len() as u64;
            e.offset == offset || bytes <= max_bytes
        });
        Ok(wanted.map(|(_, e)| e.clone()).collect())
    }

    async fn seal(&self, key: PlogKey, epoch: u64) -> Result<u64, LogError> {
        let mut databases = self.lock();
        let Some(db) = databases.get_mut(&key.db) else {
            return Err(LogError::NotFound(key.to_string()));
        };
        db.admit(epoch)?;
        let plog = db.plog(key)?;
        plog.sealed = true;
        Ok(plog.length())
    }

    async fn list(&self, db: DbId) -> Result<Vec<PlogInfo>, LogError> {
        let databases = self.lock();
        let plogs = databases.get(&db).into_iter().flat_map(|d| &d.plogs);
        Ok(plogs
            .map(|(&plog, p)| p.info(PlogKey { db, plog }))
            .collect())
    }

    async fn delete(&self, key: PlogKey, epoch: u64) -> Result<(), LogError> {
        let mut databases = self.lock();
        let Some(db) = databases.get_mut(&key.db) else {
            return Err(LogError::NotFound(key.to_string()));
        };
        db.admit(epoch)?;
        if !db.plog(key)?.sealed {
            return refused(format!("{key} is open"));
        }
        db.plogs.remove(&key.plog);
        Ok(())
    }
}
