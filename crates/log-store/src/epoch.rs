//! The greatest writer epoch of a database, kept in a file of its own: it must survive the PLogs,
//! which are deleted one by one (invariants L2 and S7).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use perigee_log_api::LogError;
use perigee_types::{DbId, DecodeError, Reader, Writer, checksum};
use tokio::sync::watch;

use crate::disk::{Disk, disk_error};

/// Name of the file in the directory of the database.
pub(crate) const FILE_NAME: &str = "EPOCH";

const MAGIC: [u8; 8] = *b"PERIEPOC";
const VERSION: u32 = 1;

/// The fence of one database.
#[derive(Debug)]
pub(crate) struct Epoch {
    db: DbId,
    path: PathBuf,
    current: watch::Sender<u64>,
    raising: Mutex<()>,
}

impl Epoch {
    /// Reads the epoch of `db` from its directory; 0 if it was never raised.
    pub(crate) fn open(db: DbId, dir: &Path) -> Result<Self, LogError> {
        let path = dir.join(FILE_NAME);
        let current = match fs::read(&path) {
            Ok(bytes) => decode(db, &bytes).map_err(|e| {
                LogError::Corrupt(format!("{}: the epoch of {db}: {e}", path.display()))
            })?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => 0,
            Err(e) => return Err(disk_error("read", &path, &e)),
        };
        Ok(Self {
            db,
            path,
            current: watch::Sender::new(current),
            raising: Mutex::new(()),
        })
    }

    /// The greatest epoch seen.
    pub(crate) fn current(&self) -> u64 {
        *self.current.borrow()
    }

    /// Refuses `epoch` if it is not the current one, and makes a greater one the current one, durably.
    pub(crate) fn admit(&self, disk: &Disk, epoch: u64) -> Result<(), LogError> {
        if epoch > self.current() {
            let _raising = self.raising.lock();
            if epoch > self.current() {
                self.raise(disk, epoch)?;
            }
        }
        self.check(epoch)
    }

    /// Begins an epoch that is above all before, and above `least`; durable when this returns.
    pub(crate) fn begin(&self, disk: &Disk, least: u64) -> Result<u64, LogError> {
        let _raising = self.raising.lock();
        let Some(epoch) = self.current().max(least).checked_add(1) else {
            let text = format!("there is no epoch of {} after this one", self.db);
            return Err(LogError::Refused(text));
        };
        self.raise(disk, epoch)?;
        Ok(epoch)
    }

    /// To be called under `raising`.
    fn raise(&self, disk: &Disk, epoch: u64) -> Result<(), LogError> {
        disk.replace(&self.path, &encode(self.db, epoch))?;
        self.current.send_replace(epoch);
        Ok(())
    }

    /// Tells of the epochs that begin.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.current.subscribe()
    }

    /// Refuses `epoch` if a greater one was seen. To be called again under the lock of the object
    /// that is changed: the fence may have moved while the call waited for it.
    pub(crate) fn check(&self, epoch: u64) -> Result<(), LogError> {
        let current = self.current();
        if epoch < current {
            let text = format!("epoch {epoch} of {} is over, {current} was seen", self.db);
            return Err(LogError::Fenced(text));
        }
        Ok(())
    }
}

fn encode(db: DbId, epoch: u64) -> Vec<u8> {
    let mut w = Writer::new();
    w.raw(&MAGIC).u32(VERSION).u32(db.0).u64(epoch);
    let mut bytes = w.into_bytes();
    bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
    bytes
}

fn decode(db: DbId, bytes: &[u8]) -> Result<u64, DecodeError> {
    let mut r = Reader::new(bytes, "EPOCH file");
    let (magic, version, found, epoch, crc) = (r.raw(8)?, r.u32()?, r.u32()?, r.u64()?, r.u32()?);
    r.finish()?;
    if crc != checksum(&bytes[..bytes.len() - 4]) || magic != MAGIC {
        return Err(DecodeError::new("EPOCH file checksum"));
    }
    if version != VERSION {
        return Err(DecodeError::new("EPOCH file version"));
    }
    if found != db.0 {
        return Err(DecodeError::new("EPOCH file of another database"));
    }
    Ok(epoch)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_raised_epoch_survives_and_fences() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::default();
        let epoch = Epoch::open(DbId(3), dir.path()).unwrap();
        epoch.admit(&disk, 0).unwrap();
        assert!(
            !dir.path().join(FILE_NAME).exists(),
            "nothing to remember yet"
        );
        epoch.admit(&disk, 7).unwrap();
        assert!(matches!(epoch.admit(&disk, 6), Err(LogError::Fenced(_))));
        assert_eq!(epoch.begin(&disk, 3), Ok(8));
        assert_eq!(epoch.begin(&disk, 20), Ok(21));
        assert!(matches!(epoch.check(8), Err(LogError::Fenced(_))));
        let again = Epoch::open(DbId(3), dir.path()).unwrap();
        assert_eq!(again.current(), 21);
        assert!(matches!(
            Epoch::open(DbId(4), dir.path()),
            Err(LogError::Corrupt(_))
        ));
    }

    #[test]
    fn every_flip_and_truncation_is_detected() {
        let good = encode(DbId(3), 0x0102_0304_0506);
        assert_eq!(decode(DbId(3), &good), Ok(0x0102_0304_0506));
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(DbId(3), &bad).is_err(), "bit {bit}");
        }
        for len in 0..good.len() {
            assert!(decode(DbId(3), &good[..len]).is_err(), "{len} bytes");
        }
    }
}
