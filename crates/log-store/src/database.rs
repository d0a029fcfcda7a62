//! The PLogs of one database.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use perigee_crash::{Point, reach};
use perigee_log_api::{Append, LogError, PlogInfo, PlogKey};
use perigee_types::{DbId, PlogId};
use tokio::sync::watch;

use crate::cache::Cache;
use crate::disk::{Disk, TEMPORARY, disk_error};
use crate::epoch::{self, Epoch};
use crate::plog::Plog;
use crate::service::DatabaseFigures;

/// A PLog, or why it is refused.
type Slot = Result<Arc<Plog>, LogError>;

/// One database of a Log Store.
#[derive(Debug)]
pub(crate) struct Database {
    db: DbId,
    dir: PathBuf,
    epoch: Epoch,
    plogs: RwLock<BTreeMap<PlogId, Slot>>,
    /// Held while a PLog is made or deleted, that is, across I/O.
    changing: Mutex<()>,
}

/// Name of a database's directory.
pub(crate) fn directory_name(db: DbId) -> String {
    format!("db-{}", db.0)
}

/// The database whose directory has this name.
pub(crate) fn parse_directory_name(name: &str) -> Option<DbId> {
    let db = DbId(name.strip_prefix("db-")?.parse().ok()?);
    (directory_name(db) == name).then_some(db)
}

fn file_name(plog: PlogId) -> String {
    format!("plog-{:016x}.log", plog.0)
}

fn parse_file_name(name: &str) -> Option<PlogId> {
    let hex = name.strip_prefix("plog-")?.strip_suffix(".log")?;
    let plog = PlogId(u64::from_str_radix(hex, 16).ok()?);
    (file_name(plog) == name).then_some(plog)
}

impl Database {
    /// Makes the directory of a database, or takes an empty one.
    pub(crate) fn create(disk: &Disk, parent: &Path, db: DbId) -> Result<Self, LogError> {
        let dir = parent.join(directory_name(db));
        match fs::create_dir(&dir) {
            // Left by a call that failed half-way.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(|e| disk_error("create", &dir, &e))?,
        }
        reach(Point::LogDirectoryMade);
        disk.sync_directory(parent)?;
        Self::open(disk, dir, db)
    }

    /// Opens a database and checks all its PLogs. A damaged one is refused later, when it is asked
    /// for; so is the whole database if its epoch is unknown.
    pub(crate) fn open(disk: &Disk, dir: PathBuf, db: DbId) -> Result<Self, LogError> {
        // What a killed process renamed may not be on disk yet.
        disk.sync_directory(&dir)?;
        let epoch = Epoch::open(db, &dir)?;
        let mut plogs = BTreeMap::new();
        let mut greatest = 0;
        for entry in fs::read_dir(&dir).map_err(|e| disk_error("list", &dir, &e))? {
            let entry = entry.map_err(|e| disk_error("list", &dir, &e))?;
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            if path.extension().is_some_and(|e| e == TEMPORARY) {
                // Was being written at a crash; nothing depends on it yet.
                fs::remove_file(&path).map_err(|e| disk_error("remove", &path, &e))?;
            } else if let Some(plog) = parse_file_name(&name) {
                let slot = match Plog::open(disk, path, PlogKey { db, plog }) {
                    Ok((plog, epoch)) => {
                        greatest = greatest.max(epoch);
                        Ok(Arc::new(plog))
                    }
                    Err(e) => {
                        // A sync that failed says nothing about this PLog only.
                        disk.check()?;
                        tracing::error!("{db} {plog} is refused: {e}");
                        Err(e)
                    }
                };
                plogs.insert(plog, slot);
            } else if name != epoch::FILE_NAME {
                tracing::warn!(
                    "{} is no file of a log store and is ignored",
                    path.display()
                );
            }
        }
        if greatest > epoch.current() {
            let (dir, current) = (dir.display(), epoch.current());
            return Err(LogError::Corrupt(format!(
                "{dir}/{} says {current}, but a PLog has epoch {greatest}",
                epoch::FILE_NAME
            )));
        }
        Ok(Self {
            db,
            dir,
            epoch,
            plogs: RwLock::new(plogs),
            changing: Mutex::new(()),
        })
    }

    fn key(&self, plog: PlogId) -> PlogKey {
        PlogKey { db: self.db, plog }
    }

    /// The PLog, if it is there and sound.
    pub(crate) fn plog(&self, plog: PlogId) -> Result<Arc<Plog>, LogError> {
        match self.plogs.read().get(&plog) {
            Some(slot) => slot.clone(),
            None => Err(LogError::NotFound(self.key(plog).to_string())),
        }
    }

    /// Begins an epoch. Who was making or deleting a PLog with an earlier one has done so.
    pub(crate) fn begin_epoch(&self, disk: &Disk) -> Result<u64, LogError> {
        let _changing = self.changing.lock();
        let last = self.plogs.read().last_key_value().map_or(0, |(id, _)| id.0);
        let epoch = self.epoch.begin(disk, last)?;
        reach(Point::EpochBegun);
        Ok(epoch)
    }

    /// Tells of the epochs that begin.
    pub(crate) fn watch_epoch(&self) -> watch::Receiver<u64> {
        self.epoch.watch()
    }

    pub(crate) fn create_plog(
        &self,
        disk: &Disk,
        plog: PlogId,
        epoch: u64,
    ) -> Result<(), LogError> {
        self.epoch.admit(disk, epoch)?;
        let _changing = self.changing.lock();
        self.epoch.check(epoch)?;
        let key = self.key(plog);
        match self.plog(plog) {
            Err(LogError::NotFound(_)) => {
                let made = Plog::create(disk, self.dir.join(file_name(plog)), key, epoch)?;
                reach(Point::PlogCreated);
                self.plogs.write().insert(plog, Ok(Arc::new(made)));
                Ok(())
            }
            Err(e) => Err(e),
            Ok(existing) => {
                let info = existing.info();
                if info.sealed || info.length > 0 {
                    let text = format!("{key} exists: {} bytes", info.length);
                    return Err(LogError::Refused(text));
                }
                Ok(())
            }
        }
    }

    /// As [`Plog::append`].
    pub(crate) fn append(
        &self,
        disk: &Disk,
        cache: &Cache,
        append: &Append,
    ) -> Result<(u64, bool), LogError> {
        self.epoch.admit(disk, append.epoch)?;
        self.plog(append.plog.plog)?
            .append(disk, &self.epoch, cache, append)
    }

    pub(crate) fn seal(&self, disk: &Disk, plog: PlogId, epoch: u64) -> Result<u64, LogError> {
        self.epoch.admit(disk, epoch)?;
        self.plog(plog)?.seal(disk, &self.epoch, epoch)
    }

    /// All PLogs; an error if one of them is refused.
    pub(crate) fn list(&self) -> Result<Vec<PlogInfo>, LogError> {
        let plogs = self.plogs.read();
        plogs
            .values()
            .map(|slot| slot.as_ref().map(|p| p.info()).map_err(LogError::clone))
            .collect()
    }

    /// What operators are told of it.
    pub(crate) fn figures(&self) -> DatabaseFigures {
        let mut figures = DatabaseFigures::of(self.db);
        for slot in self.plogs.read().values() {
            let Ok(plog) = slot else {
                figures.damaged_plogs += 1;
                continue;
            };
            let info = plog.info();
            figures.plogs += 1;
            figures.open_plogs += u64::from(!info.sealed);
            figures.bytes += info.length;
            figures.last_lsn = figures.last_lsn.max(info.last_lsn);
        }
        figures
    }

    /// The PLogs that are refused, and why.
    pub(crate) fn damage(&self) -> Vec<LogError> {
        self.plogs
            .read()
            .values()
            .filter_map(|slot| slot.as_ref().err().cloned())
            .collect()
    }

    pub(crate) fn delete(
        &self,
        disk: &Disk,
        cache: &Cache,
        plog: PlogId,
        epoch: u64,
    ) -> Result<(), LogError> {
        self.epoch.admit(disk, epoch)?;
        let _changing = self.changing.lock();
        self.epoch.check(epoch)?;
        let existing = self.plog(plog)?;
        if !existing.info().sealed {
            let text = format!("{} is open and cannot be deleted", self.key(plog));
            return Err(LogError::Refused(text));
        }
        let path = existing.path();
        fs::remove_file(path).map_err(|e| disk_error("remove", path, &e))?;
        reach(Point::PlogRemoved);
        cache.remove(self.key(plog));
        self.plogs.write().remove(&plog);
        disk.sync_directory(&self.dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_only_in_the_form_they_are_written() {
        for id in [0, 7, u64::MAX] {
            assert_eq!(parse_file_name(&file_name(PlogId(id))), Some(PlogId(id)));
        }
        for name in [
            "plog-7.log",
            "plog-000000000000000G.log",
            "plog-000000000000000A.log",
            "plog",
        ] {
            assert_eq!(parse_file_name(name), None, "{name}");
        }
        assert_eq!(parse_directory_name("db-12"), Some(DbId(12)));
        for name in ["db-012", "db-+1", "db-", "db-4294967296", "lost+found"] {
            assert_eq!(parse_directory_name(name), None, "{name}");
        }
    }
}
