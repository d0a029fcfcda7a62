//! Segment files: append-only, read at random, deleted as a whole.
//!
//! Invariants:
//! - a byte below the synced mark is never written again;
//! - one [`SegmentWriter`] writes a segment, any number of threads read it;
//! - a reader holds the `Arc<Segment>`, and with it the open file, so a segment that is deleted
//!   meanwhile stays readable for it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use perigee_crash::{Point, is_armed, reach};
use perigee_page_api::{PageError, SliceKey};
use perigee_types::{Lsn, checksum};

use crate::failstop::{FailStop, disk};
use crate::files::{OpenFiles, SegmentFile};
use crate::frame::{
    self, ChainStart, FRAME_HEADER, FrameHeader, FrameKind, IndexEntry, SEGMENT_HEADER, SegmentId,
    SegmentKind,
};

/// Smallest and greatest step in which a file is extended ahead of its end, a quarter of its length. An
/// append into space that is allocated already syncs about three times faster, because only data is
/// written.
const ALLOCATION: (u64, u64) = (64 << 10, 2 << 20);

/// A segment file.
#[derive(Debug)]
pub(crate) struct Segment {
    id: SegmentId,
    path: PathBuf,
    file: Arc<SegmentFile>,
    /// Length of the file.
    size: AtomicU64,
    /// Bytes of frames that are still needed.
    live: AtomicU64,
}

/// File name of a segment.
pub(crate) fn file_name(kind: SegmentKind, number: u64) -> String {
    let kind = match kind {
        SegmentKind::Log => "log",
        SegmentKind::Pages => "pages",
    };
    format!("{kind}-{number:016x}.seg")
}

/// The kind and number that a file name gives, if it is a segment's.
pub(crate) fn parse_file_name(name: &str) -> Option<(SegmentKind, u64)> {
    let (kind, number) = name.strip_suffix(".seg")?.split_once('-')?;
    let kind = match kind {
        "log" => SegmentKind::Log,
        "pages" => SegmentKind::Pages,
        _ => return None,
    };
    let number = u64::from_str_radix(number, 16).ok()?;
    (file_name(kind, number) == name).then_some((kind, number))
}

impl Segment {
    pub(crate) fn new(id: SegmentId, path: PathBuf, file: File, size: u64) -> Self {
        Self {
            id,
            path,
            file: SegmentFile::new(file),
            size: AtomicU64::new(size),
            live: AtomicU64::new(0),
        }
    }

    /// Its end was cut.
    pub(crate) fn set_size(&self, size: u64) {
        self.size.store(size, Ordering::Relaxed);
    }

    pub(crate) fn id(&self) -> SegmentId {
        self.id
    }

    pub(crate) fn slice(&self) -> SliceKey {
        self.id.slice
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its file; opens it if it was closed.
    pub(crate) fn file(&self) -> Result<Arc<File>, PageError> {
        let file = self.file.get(&self.path);
        file.map_err(|e| disk("opening of", &self.path, &e))
    }

    /// From now on it is only read: its file may be closed and opened again.
    pub(crate) fn is_closed(&self, files: &Arc<OpenFiles>) {
        files.manage(&self.file);
    }

    /// Length of the file in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    pub(crate) fn live(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    /// Somebody needs `bytes` more of it.
    pub(crate) fn retain(&self, bytes: u64) {
        self.live.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Nobody needs `bytes` of it any more.
    pub(crate) fn release(&self, bytes: u64) {
        let before = self.live.fetch_sub(bytes, Ordering::Relaxed);
        assert!(
            before >= bytes,
            "P8: {} loses more than it has",
            self.path.display()
        );
    }

    /// Fills `buf` from `offset`.
    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) -> Result<(), PageError> {
        self.file()?.read_exact_at(buf, offset).map_err(|error| {
            if error.kind() == io::ErrorKind::UnexpectedEof {
                return self.corrupt(offset, "the file ends inside a frame");
            }
            disk("read of", &self.path, &error)
        })
    }

    /// The error for bad bytes at `offset`.
    pub(crate) fn corrupt(&self, offset: u64, what: impl std::fmt::Display) -> PageError {
        let (slice, path) = (self.id.slice, self.path.display());
        PageError::Corrupt(format!("{slice}, file {path}, offset {offset}: {what}"))
    }

    /// Removes the file; whoever reads it may go on.
    pub(crate) fn delete(&self) -> Result<(), PageError> {
        let kept = self.file.keep(&self.path);
        kept.map_err(|e| disk("opening of", &self.path, &e))?;
        fs::remove_file(&self.path).map_err(|e| disk("deletion of", &self.path, &e))
    }

    /// The index of a sealed segment.
    pub(crate) fn read_index(&self) -> Result<SegmentIndex, PageError> {
        let Some(at) = self.size().checked_sub(frame::TRAILER as u64) else {
            return Ok(SegmentIndex::None);
        };
        let mut trailer = [0; frame::TRAILER];
        self.read(&mut trailer, at)?;
        let Some(offset) = frame::decode_trailer(&trailer, self.id).filter(|o| *o < at) else {
            return Ok(SegmentIndex::None);
        };
        let mut bytes = vec![0; (at - offset) as usize];
        self.read(&mut bytes, offset)?;
        let entries = FrameHeader::decode(&bytes, self.id, offset)
            .filter(|h| h.kind == FrameKind::Index && h.end(offset) == at)
            .filter(|h| checksum(&bytes[FRAME_HEADER..]) == h.payload_crc)
            .and_then(|_| frame::decode_index(&bytes[FRAME_HEADER..], offset));
        Ok(entries.map_or(SegmentIndex::Damaged(offset), SegmentIndex::Good))
    }
}

/// What a segment says of its frames at its end.
pub(crate) enum SegmentIndex {
    /// Nothing: it is not sealed.
    None,
    /// Its frames.
    Good(Vec<IndexEntry>),
    /// Frames end at this offset; which ones they are must be read from themselves.
    Damaged(u64),
}

/// A frame to append.
pub(crate) struct NewFrame<'a> {
    pub kind: FrameKind,
    pub id: u64,
    pub lsn: Lsn,
    pub payload_crc: u32,
    /// The payload, in two parts so that a fragment's groups are not copied.
    pub payload: [&'a [u8]; 2],
}

/// Appends to the youngest segment of a kind.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    segment: Arc<Segment>,
    /// The segment's file, which stays open as long as it is written to.
    file: Arc<File>,
    end: u64,
    synced: u64,
    index: Vec<IndexEntry>,
    /// The file is extended ahead of its end.
    ahead: bool,
}

impl SegmentWriter {
    /// Makes a new segment file in `dir`, durable when this returns.
    pub(crate) fn create(
        dir: &Path,
        id: SegmentId,
        start: ChainStart,
        stop: &FailStop,
    ) -> Result<Self, PageError> {
        let path = dir.join(file_name(id.kind, id.number));
        let open = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path);
        let mut file = open.map_err(|e| disk("creation of", &path, &e))?;
        let header = frame::encode_segment_header(id, start);
        if let Err(error) = file.write_all(&header) {
            // The next attempt truncates what may be left.
            drop(fs::remove_file(&path));
            return Err(disk("creation of", &path, &error));
        }
        reach(Point::SegmentWritten);
        file.sync_all().map_err(|e| stop.sync_failed(&path, &e))?;
        sync_dir(dir, stop)?;
        reach(Point::SegmentCreated);
        let size = SEGMENT_HEADER as u64;
        let segment = Arc::new(Segment::new(id, path, file, size));
        Self::resume(segment, size, Vec::new())
    }

    /// Goes on behind `end` of a segment whose frames up to there are `index` and are synced.
    pub(crate) fn resume(
        segment: Arc<Segment>,
        end: u64,
        index: Vec<IndexEntry>,
    ) -> Result<Self, PageError> {
        Ok(Self {
            file: segment.file()?,
            segment,
            end,
            synced: end,
            index,
            ahead: true,
        })
    }

    /// Whether the file is extended ahead of its end from now on: not on a disk that is short of room.
    pub(crate) fn allocate_ahead(&mut self, ahead: bool) {
        self.ahead = ahead;
    }

    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Offset of the next frame.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Everything before this offset is durable.
    pub(crate) fn synced(&self) -> u64 {
        self.synced
    }

    /// Writes frames at the end; returns their offsets. They are durable after
    /// [`SegmentWriter::sync`]. On error nothing was appended.
    pub(crate) fn append(&mut self, frames: &[NewFrame<'_>]) -> Result<Vec<u64>, PageError> {
        let mut offsets = Vec::with_capacity(frames.len());
        let mut headers = Vec::with_capacity(frames.len());
        let mut end = self.end;
        for new in frames {
            let len: usize = new.payload.iter().map(|part| part.len()).sum();
            let header = FrameHeader {
                kind: new.kind,
                payload_len: u32::try_from(len).expect("payloads are bounded by MAX_FRAGMENT"),
                payload_crc: new.payload_crc,
                id: new.id,
                lsn: new.lsn,
                synced: self.synced,
            };
            headers.push(header.encode(self.segment.id, end));
            offsets.push(end);
            end = header.end(end);
        }
        let mut parts = Vec::with_capacity(3 * frames.len());
        for (header, new) in headers.iter().zip(frames) {
            parts.push(IoSlice::new(header));
            parts.extend(
                new.payload
                    .iter()
                    .filter(|p| !p.is_empty())
                    .map(|p| IoSlice::new(p)),
            );
        }
        self.write(&mut parts, end)?;
        let entries = frames.iter().zip(&offsets);
        self.index.extend(entries.map(|(new, offset)| IndexEntry {
            id: new.id,
            lsn: new.lsn,
            offset: *offset,
            freed: new.kind == FrameKind::Freed,
        }));
        Ok(offsets)
    }

    fn write(&mut self, parts: &mut [IoSlice<'_>], end: u64) -> Result<(), PageError> {
        self.allocate(end);
        let mut file = &*self.file;
        if is_armed(Point::SegmentTorn) {
            let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
            let len = perigee_crash::tear(self.end, end) - self.end;
            drop(file.write_all_at(&bytes[..len as usize], self.end));
        }
        reach(Point::SegmentTorn);
        let written = file
            .seek(SeekFrom::Start(self.end))
            .and_then(|_| write_all_vectored(file, parts));
        if let Err(error) = written {
            // Not needed for correctness: a scan ends at the first bad frame behind the mark.
            drop(file.set_len(self.end));
            self.segment.size.store(self.end, Ordering::Relaxed);
            return Err(disk("append to", &self.segment.path, &error));
        }
        self.end = end;
        self.segment.size.fetch_max(end, Ordering::Relaxed);
        Ok(())
    }

    /// Extends the file ahead of `end`. Only a matter of speed: if it fails, the write tells.
    fn allocate(&mut self, end: u64) {
        let size = self.segment.size();
        if end <= size || !self.ahead {
            return;
        }
        let step = (self.end / 4).clamp(ALLOCATION.0, ALLOCATION.1);
        let target = end.next_multiple_of(ALLOCATION.0).max(self.end + step);
        let (Ok(from), Ok(len)) = (i64::try_from(size), i64::try_from(target - size)) else {
            return;
        };
        // SAFETY: the descriptor is open for as long as `self.file` lives, and fallocate
        // touches no memory of ours.
        let done = unsafe { libc::fallocate(self.file.as_raw_fd(), 0, from, len) };
        if done == 0 {
            self.segment.size.store(target, Ordering::Relaxed);
        }
    }

    /// Takes back what was appended since the last sync: nobody knows of it yet.
    pub(crate) fn take_back_unsynced(&mut self) {
        // Not needed for correctness: a scan ends at the first bad frame behind the mark.
        drop(self.file.set_len(self.synced));
        self.segment.size.store(self.synced, Ordering::Relaxed);
        self.index.retain(|entry| entry.offset < self.synced);
        self.end = self.synced;
    }

    /// Makes everything appended durable. A failure stops the store.
    pub(crate) fn sync(&mut self, stop: &FailStop) -> Result<(), PageError> {
        let synced = self.file.sync_data();
        synced.map_err(|e| stop.sync_failed(&self.segment.path, &e))?;
        self.synced = self.end;
        Ok(())
    }

    /// Ends the segment with its index, so that opening it reads little. If the disk is full the
    /// segment stays without one and is scanned when it is opened.
    pub(crate) fn seal(mut self, stop: &FailStop) -> Result<Arc<Segment>, PageError> {
        let payload = frame::encode_index(&self.index);
        let (id, at) = (self.segment.id, self.end);
        let header = FrameHeader {
            kind: FrameKind::Index,
            payload_len: u32::try_from(payload.len()).expect("an index is short"),
            payload_crc: checksum(&payload),
            id: self.index.len() as u64,
            lsn: Lsn(0),
            synced: self.synced,
        };
        let trailer = frame::encode_trailer(id, at);
        let header_bytes = header.encode(id, at);
        let mut parts = [&header_bytes[..], &payload, &trailer].map(IoSlice::new);
        let end = header.end(at) + trailer.len() as u64;
        match self.write(&mut parts, end) {
            Ok(()) => drop(self.file.set_len(end)),
            Err(error) => tracing::warn!("segment without index: {error}"),
        }
        self.segment.size.store(self.end, Ordering::Relaxed);
        self.sync(stop)?;
        Ok(self.segment)
    }
}

fn write_all_vectored(mut file: &File, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
    while !parts.is_empty() {
        match file.write_vectored(parts) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut parts, n),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_dir(dir: &Path, stop: &FailStop) -> Result<(), PageError> {
    // A directory that cannot be opened, for lack of descriptors say, was not tried to be synced.
    let open = File::open(dir).map_err(|e| disk("opening of", dir, &e))?;
    open.sync_all().map_err(|e| stop.sync_failed(dir, &e))
}
