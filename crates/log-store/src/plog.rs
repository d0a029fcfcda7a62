//! One PLog: its file, its end, and the rules of appending.
//!
//! Invariants:
//! - `contents` describes what is on disk and synced, never more;
//! - only who holds `writer` changes file or `contents`; readers never wait for a sync;
//! - after the frames at `contents.end` the file holds only zeros: what a failed append left is cut
//!   off before the next one.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use perigee_crash::{Point, is_armed, reach};
use perigee_log_api::{Append, LogEntry, LogError, PLOG_SIZE, PlogInfo, PlogKey};
use perigee_types::Lsn;

use crate::cache::Cache;
use crate::disk::{Disk, disk_error};
use crate::epoch::Epoch;
use crate::frame::{
    EncodedFrame, FRAME_HEADER_LEN, FileHeader, FrameHeader, FrameKind, Label, Place, encode_frame,
};
use crate::scan::{self, Contents, Mark, Range, ScanError, Tail};
use crate::space::Space;

/// Frames below this length are written by one call, from a copy; of longer ones the payload is
/// written from where it lies.
const COPY_BELOW: usize = 64 << 10;

/// A PLog whose file passed its checks.
#[derive(Debug)]
pub(crate) struct Plog {
    key: PlogKey,
    path: PathBuf,
    writer: Mutex<Space>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    contents: Contents,
    /// The file, while the PLog is open. Sealed ones are opened for each read: there may be more of
    /// them than a process may have files.
    file: Option<Arc<File>>,
}

/// What an append needs to know of the PLog.
struct End {
    file: Arc<File>,
    place: Place,
    length: u64,
    last_lsn: Lsn,
    last_entry: Option<u64>,
}

impl Plog {
    /// Makes an empty PLog.
    pub(crate) fn create(
        disk: &Disk,
        path: PathBuf,
        key: PlogKey,
        epoch: u64,
    ) -> Result<Self, LogError> {
        let header = FileHeader { plog: key, epoch };
        let bytes = header.encode();
        let file = disk.replace(&path, &bytes)?;
        let (_, file_crc) = FileHeader::decode(&bytes).expect("what was encoded can be decoded");
        Ok(Self::new(key, path, Contents::new(&header, file_crc), file))
    }

    fn new(key: PlogKey, path: PathBuf, contents: Contents, file: File) -> Self {
        let space = Space::new(contents.end);
        let file = (!contents.sealed).then(|| Arc::new(file));
        Self {
            key,
            path,
            writer: Mutex::new(space),
            state: Mutex::new(State { contents, file }),
        }
    }

    /// Opens the file of `key`, checks all of it, and cuts off what was being written at a crash.
    /// Also tells the greatest epoch in it.
    pub(crate) fn open(disk: &Disk, path: PathBuf, key: PlogKey) -> Result<(Self, u64), LogError> {
        let file = File::options().read(true).write(true).open(&path);
        let file = file.map_err(|e| disk_error("open", &path, &e))?;
        // A frame that is only in the page cache is not yet one to rely on, and pages whose sync
        // failed are there as if they had been written. So: write back, forget, read from the disk.
        disk.sync(&file, &path)?;
        forget_cached_pages(&file);
        let len = file
            .metadata()
            .map_err(|e| disk_error("examine", &path, &e))?
            .len();
        let (header, contents, tail) =
            scan::scan(&file, len, |_, _| ()).map_err(|e| scan_error(&path, e))?;
        if header.plog != key {
            let text = format!(
                "{} at byte 0: it belongs to {}",
                path.display(),
                header.plog
            );
            return Err(LogError::Corrupt(text));
        }
        if tail == Tail::Torn || (contents.sealed && len > contents.end) {
            if tail == Tail::Torn {
                let (path, end) = (path.display(), contents.end);
                tracing::warn!("{path}: removing an unfinished append at byte {end}");
            }
            disk.truncate(&file, &path, contents.end)?;
            reach(Point::TornAppendCut);
            disk.sync(&file, &path)?;
        }
        let epoch = contents.epoch;
        Ok((Self::new(key, path, contents, file), epoch))
    }

    /// What the store knows of it.
    pub(crate) fn info(&self) -> PlogInfo {
        let contents = &self.state.lock().contents;
        PlogInfo {
            plog: self.key,
            epoch: contents.made_in,
            length: contents.length,
            sealed: contents.sealed,
            first_lsn: contents.first_lsn,
            last_lsn: contents.last_lsn,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn end(&self) -> Result<End, LogError> {
        let state = self.state.lock();
        let c = &state.contents;
        let Some(file) = state.file.clone() else {
            return Err(LogError::Refused(format!(
                "{} is sealed at {}",
                self.key, c.length
            )));
        };
        Ok(End {
            file,
            place: Place {
                file_crc: c.file_crc,
                previous: c.chain,
                position: c.end,
            },
            length: c.length,
            last_lsn: c.last_lsn,
            last_entry: c.last_entry,
        })
    }

    /// Appends, syncs and puts the entry into `cache`; returns the new end, and true if this was not
    /// a repeat of the last append.
    pub(crate) fn append(
        &self,
        disk: &Disk,
        epoch: &Epoch,
        cache: &Cache,
        append: &Append,
    ) -> Result<(u64, bool), LogError> {
        let mut space = self.writer.lock();
        epoch.check(append.epoch)?;
        let end = self.end()?;
        let next = append.offset.saturating_add(append.payload.len() as u64);
        if append.offset != end.length {
            if next == end.length && self.is_repeat(&end, append)? {
                return Ok((next, false));
            }
            let (key, offset, length) = (self.key, append.offset, end.length);
            let text = format!("append to {key} at {offset}, but it ends at {length}");
            return Err(LogError::Refused(text));
        }
        if next > PLOG_SIZE {
            let text = format!("{} is full: it would end at {next}", self.key);
            return Err(LogError::Refused(text));
        }
        if end.last_entry.is_some() && append.first_lsn != end.last_lsn.next() {
            let (key, first, last) = (self.key, append.first_lsn, end.last_lsn);
            let text = format!("append to {key} begins with {first}, but it ends with {last}");
            return Err(LogError::Refused(text));
        }
        let label = Label {
            kind: FrameKind::Entry,
            offset: append.offset,
            first_lsn: append.first_lsn,
            last_lsn: append.last_lsn,
            epoch: append.epoch,
        };
        disk.check_room(&self.path, append.payload.len() as u64)?;
        self.write_frame(disk, &mut space, &end, label, &append.payload)?;
        // Still under the lock: after a seal nothing comes into the cache any more, so that what a
        // delete takes out of it stays out.
        let entry = LogEntry {
            offset: append.offset,
            next_offset: next,
            first_lsn: append.first_lsn,
            last_lsn: append.last_lsn,
            payload: append.payload.clone(),
        };
        cache.add(self.key, entry);
        Ok((next, true))
    }

    /// True if `append` is the last append once more, to the byte.
    fn is_repeat(&self, end: &End, append: &Append) -> Result<bool, LogError> {
        let Some(position) = end.last_entry else {
            return Ok(false);
        };
        let file_crc = end.place.file_crc;
        let header = scan::header_at(&*end.file, file_crc, position)
            .map_err(|e| scan_error(&self.path, e))?;
        if header.epoch != append.epoch || header.offset != append.offset {
            return Ok(false);
        }
        let mark = Mark {
            offset: header.offset,
            position,
        };
        let range = Range {
            file_crc,
            mark,
            offset: header.offset,
            end: end.place.position,
            max_bytes: 0,
        };
        let entries =
            scan::read_entries(&*end.file, range).map_err(|e| scan_error(&self.path, e))?;
        Ok(entries.first().is_some_and(|e| {
            e.first_lsn == append.first_lsn
                && e.last_lsn == append.last_lsn
                && e.payload == append.payload
        }))
    }

    /// Writes and syncs a frame at the end, and takes note of it.
    fn write_frame(
        &self,
        disk: &Disk,
        space: &mut Space,
        end: &End,
        label: Label,
        payload: &[u8],
    ) -> Result<(), LogError> {
        let frame = encode_frame(end.place, label, payload);
        let position = end.place.position;
        let len = (FRAME_HEADER_LEN + payload.len() + frame.ending.len()) as u64;
        space.prepare(disk, &end.file, position, len);
        if let Err(e) = write_parts(disk, &end.file, position, &frame, payload) {
            // Part of the frame may be there; the next append must find zeros.
            disk.truncate(&end.file, &self.path, position)?;
            *space = Space::new(position);
            return Err(disk_error("write", &self.path, &e));
        }
        let (written, synced) = match label.kind {
            FrameKind::Entry => (Point::AppendWritten, Point::AppendSynced),
            FrameKind::Seal => (Point::SealWritten, Point::SealSynced),
        };
        reach(written);
        disk.sync(&end.file, &self.path)?;
        reach(synced);
        let (header, crc) = FrameHeader::decode(&frame.header, end.place.file_crc)
            .expect("L3: what was encoded can be decoded");
        let mut state = self.state.lock();
        assert_eq!(state.contents.end, position, "L2: two appends at one place");
        state.contents.add(&header, crc);
        Ok(())
    }

    /// Seals the PLog; returns its length.
    pub(crate) fn seal(&self, disk: &Disk, epoch: &Epoch, by: u64) -> Result<u64, LogError> {
        let mut space = self.writer.lock();
        epoch.check(by)?;
        let info = self.info();
        if info.sealed {
            return Ok(info.length);
        }
        let end = self.end()?;
        let label = Label {
            kind: FrameKind::Seal,
            offset: end.length,
            first_lsn: Lsn(0),
            last_lsn: Lsn(0),
            epoch: by,
        };
        self.write_frame(disk, &mut space, &end, label, &[])?;
        let position = {
            let mut state = self.state.lock();
            state.file = None;
            state.contents.end
        };
        // Gives back what was made ready. If a crash undoes it, the next start does it again.
        disk.truncate(&end.file, &self.path, position)?;
        Ok(end.length)
    }

    /// Entries from `offset` on, from the disk.
    pub(crate) fn read(&self, offset: u64, max_bytes: u64) -> Result<Vec<LogEntry>, LogError> {
        let (file, range) = {
            let state = self.state.lock();
            let c = &state.contents;
            if offset == c.length {
                return Ok(Vec::new());
            }
            let Some(mark) = c.mark(offset).filter(|_| offset < c.length) else {
                let (key, length) = (self.key, c.length);
                let text = format!("read of {key} at {offset}, but it ends at {length}");
                return Err(LogError::Refused(text));
            };
            let end = c.end;
            (
                state.file.clone(),
                Range {
                    file_crc: c.file_crc,
                    mark,
                    offset,
                    end,
                    max_bytes,
                },
            )
        };
        let file = match file {
            Some(file) => file,
            None => match File::open(&self.path) {
                Ok(file) => Arc::new(file),
                // Deleted meanwhile.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    return Err(LogError::NotFound(self.key.to_string()));
                }
                Err(e) => return Err(disk_error("open", &self.path, &e)),
            },
        };
        let entries = scan::read_entries(&*file, range).map_err(|e| scan_error(&self.path, e))?;
        if entries.is_empty() {
            let text = format!("read of {} at {offset}, where no entry begins", self.key);
            return Err(LogError::Refused(text));
        }
        Ok(entries)
    }
}

/// Writes a frame.
fn write_parts(
    disk: &Disk,
    file: &File,
    position: u64,
    frame: &EncodedFrame,
    payload: &[u8],
) -> io::Result<()> {
    let body = position + FRAME_HEADER_LEN as u64;
    if payload.len() < COPY_BELOW {
        let bytes = [&frame.header, payload, &frame.ending].concat();
        if !payload.is_empty() && is_armed(Point::AppendTorn) {
            let end = position + bytes.len() as u64;
            let len = perigee_crash::tear(position, end) - position;
            disk.write(file, &bytes[..len as usize], position)?;
        }
        if !payload.is_empty() {
            reach(Point::AppendTorn);
        }
        return disk.write(file, &bytes, position);
    }
    disk.write(file, &frame.header, position)?;
    disk.write(file, payload, body)?;
    disk.write(file, &frame.ending, body + payload.len() as u64)
}

/// Names the file in what a scan says.
pub(crate) fn scan_error(path: &Path, error: ScanError) -> LogError {
    match error {
        ScanError::Damage(damage) => LogError::Corrupt(format!("{} {damage}", path.display())),
        ScanError::Io(e) => disk_error("read", path, &e),
    }
}

/// Drops the clean pages of `file` from the page cache, as far as the system does so.
#[cfg(target_os = "linux")]
fn forget_cached_pages(file: &File) {
    use std::os::fd::AsRawFd;
    // SAFETY: the call takes no pointer, and the descriptor is open while `file` is borrowed. It is
    // advice: its failure changes nothing but what is read again from memory.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

/// Drops the clean pages of `file` from the page cache, as far as the system does so.
#[cfg(not(target_os = "linux"))]
fn forget_cached_pages(_file: &File) {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use bytes::Bytes;
    use perigee_types::{DbId, PlogId};

    use super::*;

    #[test]
    fn an_epoch_that_ends_while_a_call_waits_for_the_plog_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::default();
        let key = PlogKey {
            db: DbId(1),
            plog: PlogId(1),
        };
        let epoch = Epoch::open(key.db, dir.path()).unwrap();
        let plog = Plog::create(&disk, dir.path().join("plog"), key, 1).unwrap();
        // Both calls were admitted with epoch 1 and come to the PLog after epoch 2 began.
        epoch.admit(&disk, 1).unwrap();
        epoch.admit(&disk, 2).unwrap();
        let append = Append {
            plog: key,
            epoch: 1,
            offset: 0,
            first_lsn: Lsn(1),
            last_lsn: Lsn(1),
            payload: Bytes::from_static(b"late"),
        };
        let answer = plog.append(&disk, &epoch, &Cache::new(0), &append);
        assert!(matches!(answer, Err(LogError::Fenced(_))), "{answer:?}");
        let answer = plog.seal(&disk, &epoch, 1);
        assert!(matches!(answer, Err(LogError::Fenced(_))), "{answer:?}");
        assert_eq!(plog.info().length, 0);
    }
}
