//! Durable file operations, and the stop after a sync that failed.
//!
//! When a sync fails, the kernel may mark the pages clean although they never reached the disk, and
//! the next sync then succeeds. So there is no second try: [`Disk::check`] fails from then on, and
//! with it every call of the store.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

use perigee_crash::{Point, reach};
use perigee_log_api::LogError;
use perigee_reserve::{Failure, Purpose, Reserve};

use crate::latency::LiveLatencies;

/// Suffix of files that are being written; they are removed when a store opens.
pub(crate) const TEMPORARY: &str = "tmp";

/// An I/O error in words: what could not be done with which file.
pub(crate) fn disk_error(what: &str, path: &Path, error: &io::Error) -> LogError {
    let text = format!("cannot {what} {}: {error}", path.display());
    match Failure::from(error) {
        Failure::Full => LogError::Full(text),
        Failure::Files => LogError::Unavailable(text),
        Failure::Disk => LogError::Disk(text),
    }
}

/// The disk as this store sees it.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    stopped: OnceLock<LogError>,
    /// Set when the store's directory is known.
    reserve: OnceLock<Reserve>,
    /// What syncs took.
    pub(crate) syncs: LiveLatencies,
    #[cfg(test)]
    pub(crate) faults: faults::Faults,
}

impl Disk {
    /// Fails if the store has stopped.
    pub(crate) fn check(&self) -> Result<(), LogError> {
        self.stopped.get().cloned().map_or(Ok(()), Err)
    }

    /// Stops the store and returns the error that every call will now get.
    pub(crate) fn stop(&self, reason: &str) -> LogError {
        let error = LogError::Disk(format!("the log store has stopped: {reason}"));
        tracing::error!("{error}; it must be started anew");
        self.stopped.get_or_init(|| error).clone()
    }

    /// Keeps `bytes` bytes in reserve on the disk of `dir`.
    pub(crate) fn keep_reserve(&self, dir: &Path, bytes: u64) {
        self.reserve.get_or_init(|| Reserve::new(dir, bytes));
    }

    /// False while there is less room than the reserve.
    pub(crate) fn has_room(&self) -> bool {
        self.reserve.get().is_none_or(Reserve::has_room)
    }

    /// True if nothing should be prepared ahead of need.
    pub(crate) fn is_low(&self) -> bool {
        self.reserve.get().is_some_and(Reserve::is_low)
    }

    /// Fails if there is no room for `len` bytes of log in the file at `path`.
    pub(crate) fn check_room(&self, path: &Path, len: u64) -> Result<(), LogError> {
        let room = self
            .reserve
            .get()
            .map_or(Ok(()), |r| r.check(Purpose::Log, len));
        room.map_err(|e| disk_error("append to", path, &e))
    }

    /// Writes all of `bytes` at `position`.
    pub(crate) fn write(&self, file: &File, bytes: &[u8], position: u64) -> io::Result<()> {
        #[cfg(test)]
        self.faults.write(file, bytes, position)?;
        file.write_all_at(bytes, position)
    }

    /// Syncs the contents of `file`; stops the store if that fails.
    pub(crate) fn sync(&self, file: &File, path: &Path) -> Result<(), LogError> {
        let begin = Instant::now();
        let synced = self.before_sync().and_then(|()| file.sync_data());
        self.syncs.count(begin.elapsed());
        synced.map_err(|e| self.stop(&disk_error("sync", path, &e).to_string()))
    }

    /// Syncs the entries of a directory; stops the store if that fails.
    pub(crate) fn sync_directory(&self, dir: &Path) -> Result<(), LogError> {
        let file = File::open(dir).map_err(|e| disk_error("open", dir, &e))?;
        let synced = self.before_sync().and_then(|()| file.sync_all());
        synced.map_err(|e| self.stop(&disk_error("sync", dir, &e).to_string()))
    }

    fn before_sync(&self) -> io::Result<()> {
        #[cfg(test)]
        self.faults.sync()?;
        Ok(())
    }

    /// Cuts `file` to `len` bytes; stops the store if that fails, for what follows those bytes
    /// must not stay.
    pub(crate) fn truncate(&self, file: &File, path: &Path, len: u64) -> Result<(), LogError> {
        file.set_len(len)
            .map_err(|e| self.stop(&disk_error("truncate", path, &e).to_string()))
    }

    /// Makes `path` hold `bytes`, durably and at once: a crash leaves the old file or the new one.
    pub(crate) fn replace(&self, path: &Path, bytes: &[u8]) -> Result<File, LogError> {
        let temporary = temporary_path(path);
        let made = self.write_new(&temporary, bytes).and_then(|file| {
            reach(Point::LogFileWritten);
            fs::rename(&temporary, path).map_err(|e| disk_error("rename", &temporary, &e))?;
            reach(Point::LogFileRenamed);
            Ok(file)
        });
        if made.is_err() {
            // It would be removed by the next start; its space is wanted now.
            let _ = fs::remove_file(&temporary);
        }
        let file = made?;
        self.sync_directory(path.parent().expect("files of a store are in a directory"))?;
        Ok(file)
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> Result<File, LogError> {
        let mut options = File::options();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path);
        let mut file = file.map_err(|e| disk_error("create", path, &e))?;
        file.write_all(bytes)
            .map_err(|e| disk_error("write", path, &e))?;
        self.sync(&file, path)?;
        Ok(file)
    }
}

fn temporary_path(path: &Path) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(TEMPORARY);
    name.into()
}

/// Faults that unit tests inject.
#[cfg(test)]
pub(crate) mod faults {
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::{AtomicI64, Ordering};

    #[derive(Debug)]
    pub(crate) struct Faults {
        /// Syncs that still succeed before one fails; negative: all succeed.
        pub(crate) syncs: AtomicI64,
        /// Bytes that can still be written before the disk is full; negative: no limit.
        pub(crate) space: AtomicI64,
    }

    impl Default for Faults {
        fn default() -> Self {
            Self {
                syncs: AtomicI64::new(-1),
                space: AtomicI64::new(-1),
            }
        }
    }

    impl Faults {
        pub(super) fn sync(&self) -> io::Result<()> {
            if self.syncs.load(Ordering::SeqCst) >= 0
                && self.syncs.fetch_sub(1, Ordering::SeqCst) == 0
            {
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
            Ok(())
        }

        /// Writes what fits of `bytes` and fails if that is not all.
        pub(super) fn write(&self, file: &File, bytes: &[u8], position: u64) -> io::Result<()> {
            let space = self.space.load(Ordering::SeqCst);
            if space < 0 {
                return Ok(());
            }
            let fits = bytes.len().min(space as usize);
            self.space.fetch_sub(fits as i64, Ordering::SeqCst);
            file.write_all_at(&bytes[..fits], position)?;
            if fits < bytes.len() {
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            }
            Ok(())
        }
    }
}
