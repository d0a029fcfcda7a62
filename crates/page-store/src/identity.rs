//! Small files that say what a directory is: the store's identity and lock, a slice's epoch, a
//! database's recycle LSN and the epoch of the last deletion of a slice.
//!
//! Each is replaced as a whole (write beside, sync, rename, sync the directory), so that a crash
//! leaves the old or the new one.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use perigee_crash::{Point, reach};
use perigee_page_api::{PageError, SliceKey};
use perigee_types::{DbId, DecodeError, Lsn, Reader, Writer, checksum};

use crate::failstop::{FailStop, disk};
use crate::segment::sync_dir;

/// How long to wait for the lock of a directory.
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// Version of the layout of a store's directory.
const FORMAT: &str = "2";

const STORE_FILE: &str = "STORE";
const LOCK_FILE: &str = "LOCK";
const SLICE_FILE: &str = "SLICE";
const RECYCLE_FILE: &str = "RECYCLE";

const SLICE_MAGIC: &[u8; 8] = b"PERISLIC";
const RECYCLE_MAGIC: &[u8; 8] = b"PERIRECY";

const EPOCH_FILE: &str = "EPOCH";
const EPOCH_MAGIC: &[u8; 8] = b"PERIEPOC";

/// What this store is, in its identity file; other stores have other words there.
const KIND: &str = "page-store";

/// Checks that `dir` is a Page Store of this format, or makes it one if it is empty, and locks it
/// for as long as the returned file lives.
pub(crate) fn claim_store(dir: &Path, stop: &FailStop) -> Result<File, PageError> {
    fs::create_dir_all(dir).map_err(|e| disk("creation of", dir, &e))?;
    let is_new = !check_store(dir)?;
    let lock_path = dir.join(LOCK_FILE);
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&lock_path);
    let lock = lock.map_err(|e| disk("creation of", &lock_path, &e))?;
    // A process that was killed keeps its lock until its last sync has ended.
    let patience = Instant::now() + LOCK_WAIT;
    let mut locked = lock.try_lock();
    while matches!(locked, Err(TryLockError::WouldBlock)) && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(10));
        locked = lock.try_lock();
    }
    locked.map_err(|error| match error {
        TryLockError::WouldBlock => {
            let dir = dir.display();
            PageError::Refused(format!(
                "{dir} is in use by another process; stop it or use another directory"
            ))
        }
        TryLockError::Error(e) => disk("locking of", &lock_path, &e),
    })?;
    if is_new && !check_store(dir)? {
        let line = format!("perigee {KIND} {FORMAT}\n");
        replace(&dir.join(STORE_FILE), line.as_bytes(), stop)?;
    }
    Ok(lock)
}

/// True if `dir` is a Page Store of this format, false if it is empty; all else is refused.
pub(crate) fn check_store(dir: &Path) -> Result<bool, PageError> {
    let place = dir.display();
    let Some(bytes) = read_if_there(&dir.join(STORE_FILE))? else {
        let entries = fs::read_dir(dir).map_err(|e| disk("listing of", dir, &e))?;
        for entry in entries {
            let name = entry.map_err(|e| disk("listing of", dir, &e))?.file_name();
            if name != LOCK_FILE && name != "STORE.new" && name != "lost+found" {
                let text = format!("{place} is no {KIND}: it has no file STORE but holds {name:?}");
                return Err(PageError::Refused(text));
            }
        }
        return Ok(false);
    };
    let line = std::str::from_utf8(&bytes)
        .ok()
        .and_then(|text| text.strip_suffix('\n'));
    let words: Vec<&str> = line
        .map(|line| line.split(' ').collect())
        .unwrap_or_default();
    match words[..] {
        ["perigee", kind, _] if kind != KIND => Err(PageError::Refused(format!(
            "{place} holds a {kind}, expected a {KIND}"
        ))),
        ["perigee", _, version] if version != FORMAT => Err(PageError::Refused(format!(
            "{place} holds a {KIND} of format version {version}, expected version {FORMAT}; \
             use the program that made it, or another directory"
        ))),
        ["perigee", _, _] => Ok(true),
        _ => Err(PageError::Corrupt(format!(
            "{place}/{STORE_FILE} does not say what the directory is"
        ))),
    }
}

/// What a slice must know of itself before it reads its segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SliceLabel {
    /// Writers of an older epoch are refused.
    pub epoch: u64,
    /// Page segments up to this number, and of this one all up to `page_offset`, are known to be
    /// synced: files that could replace them have been deleted.
    pub page_segment: u64,
    /// See `page_segment`.
    pub page_offset: u64,
}

/// Makes the label of a slice durable.
pub(crate) fn write_slice(
    dir: &Path,
    slice: SliceKey,
    label: SliceLabel,
    stop: &FailStop,
) -> Result<(), PageError> {
    let mut w = Writer::new();
    w.u32(slice.db.0).u32(slice.slice.0).u64(label.epoch);
    w.u64(label.page_segment).u64(label.page_offset);
    write(&dir.join(SLICE_FILE), SLICE_MAGIC, &w.into_bytes(), stop)
}

/// The label of the slice in `dir`; `None` if the creation of the slice was never finished.
pub(crate) fn read_slice(dir: &Path, slice: SliceKey) -> Result<Option<SliceLabel>, PageError> {
    let path = dir.join(SLICE_FILE);
    let Some(bytes) = read_if_there(&path)? else {
        return Ok(None);
    };
    let mut r = Reader::new(unseal(&path, SLICE_MAGIC, &bytes)?, "SLICE file");
    let mut fields = || {
        let key = (r.u32()?, r.u32()?);
        let label = SliceLabel {
            epoch: r.u64()?,
            page_segment: r.u64()?,
            page_offset: r.u64()?,
        };
        Ok::<_, DecodeError>((key, label))
    };
    match fields() {
        Ok((key, label)) if key == (slice.db.0, slice.slice.0) => Ok(Some(label)),
        _ => {
            let path = path.display();
            Err(PageError::Corrupt(format!(
                "{slice}, file {path}: it is another slice's"
            )))
        }
    }
}

/// Makes the recycle LSN of a database durable.
pub(crate) fn write_recycle(
    dir: &Path,
    db: DbId,
    lsn: Lsn,
    stop: &FailStop,
) -> Result<(), PageError> {
    write_number(&dir.join(RECYCLE_FILE), RECYCLE_MAGIC, (db, lsn.0), stop)
}

/// The recycle LSN of the database in `dir`; 0 if none was ever set.
pub(crate) fn read_recycle(dir: &Path, db: DbId) -> Result<Lsn, PageError> {
    read_number(&dir.join(RECYCLE_FILE), RECYCLE_MAGIC, db).map(Lsn)
}

/// Makes it durable that writers of a database with an older epoch make no slices.
pub(crate) fn write_epoch(
    dir: &Path,
    db: DbId,
    epoch: u64,
    stop: &FailStop,
) -> Result<(), PageError> {
    write_number(&dir.join(EPOCH_FILE), EPOCH_MAGIC, (db, epoch), stop)
}

/// The epoch below which nobody makes slices of the database in `dir`; 0 if none was ever deleted.
pub(crate) fn read_epoch(dir: &Path, db: DbId) -> Result<u64, PageError> {
    read_number(&dir.join(EPOCH_FILE), EPOCH_MAGIC, db)
}

fn write_number(
    path: &Path,
    magic: &[u8; 8],
    (db, number): (DbId, u64),
    stop: &FailStop,
) -> Result<(), PageError> {
    let mut w = Writer::new();
    w.u32(db.0).u64(number);
    write(path, magic, &w.into_bytes(), stop)
}

/// 0 if there is no such file.
fn read_number(path: &Path, magic: &[u8; 8], db: DbId) -> Result<u64, PageError> {
    let Some(bytes) = read_if_there(path)? else {
        return Ok(0);
    };
    let mut r = Reader::new(unseal(path, magic, &bytes)?, "file of a database");
    match r.u32().and_then(|found| Ok((found, r.u64()?))) {
        Ok((found, number)) if found == db.0 => Ok(number),
        _ => {
            let path = path.display();
            Err(PageError::Corrupt(format!(
                "{db}, file {path}: it is another database's"
            )))
        }
    }
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, PageError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(disk("read of", path, &e)),
    }
}

/// Replaces a file by magic, body and checksum.
fn write(path: &Path, magic: &[u8; 8], body: &[u8], stop: &FailStop) -> Result<(), PageError> {
    let mut bytes = magic.to_vec();
    bytes.extend_from_slice(body);
    bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
    replace(path, &bytes, stop)
}

/// Replaces a file as a whole, durably.
fn replace(path: &Path, bytes: &[u8], stop: &FailStop) -> Result<(), PageError> {
    let beside = path.with_extension("new");
    let dir = path.parent().expect("these files lie in a directory");
    let mut file = File::create(&beside).map_err(|e| disk("creation of", &beside, &e))?;
    file.write_all(bytes)
        .map_err(|e| disk("write of", &beside, &e))?;
    file.sync_all().map_err(|e| stop.sync_failed(&beside, &e))?;
    reach(Point::LabelWritten);
    fs::rename(&beside, path).map_err(|e| disk("replacement of", path, &e))?;
    reach(Point::LabelRenamed);
    sync_dir(dir, stop)
}

fn unseal<'a>(path: &Path, magic: &[u8; 8], bytes: &'a [u8]) -> Result<&'a [u8], PageError> {
    let good = bytes.split_last_chunk::<4>().and_then(|(all, sum)| {
        (checksum(all).to_le_bytes() == *sum).then(|| all.strip_prefix(magic))?
    });
    good.ok_or_else(|| PageError::Corrupt(format!("file {}: it is damaged", path.display())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use perigee_types::SliceId;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// With a good checksum and without: an error that names the file, or what was written.
        #[test]
        fn files_of_any_bytes_are_survived(
            body in prop::collection::vec(any::<u8>(), 0..40),
            line in prop::collection::vec(any::<u8>(), 0..40),
            sealed: bool,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let (dir, stop) = (dir.path(), FailStop::default());
            let slice = SliceKey { db: DbId(1), slice: SliceId(2) };
            let files = [
                (SLICE_FILE, SLICE_MAGIC),
                (RECYCLE_FILE, RECYCLE_MAGIC),
                (EPOCH_FILE, EPOCH_MAGIC),
            ];
            for (name, magic) in files {
                let path = dir.join(name);
                match sealed {
                    true => write(&path, magic, &body, &stop).unwrap(),
                    false => fs::write(&path, &body).unwrap(),
                }
                let text = match name {
                    SLICE_FILE => read_slice(dir, slice).map(drop),
                    EPOCH_FILE => read_epoch(dir, slice.db).map(drop),
                    _ => read_recycle(dir, slice.db).map(drop),
                };
                let named = |e: PageError| e.to_string().contains(name);
                prop_assert!(text.map_or_else(named, |()| sealed && body.len() >= 12));
            }
            fs::write(dir.join(STORE_FILE), &line).unwrap();
            prop_assert!(check_store(dir).is_err());
        }
    }
}
