//! Reading the frames of a PLog file: all of them when a store opens, some of them for a read.
//!
//! What is not a whole frame is judged here. There are only three verdicts:
//! - *end*: nothing but zeros follows; the space was made ready and not used;
//! - *torn*: what follows is part of one frame that was being written when the process or the
//!   machine stopped. It was never acknowledged and is removed;
//! - *damage*: anything else. Nothing is removed and the PLog is refused.
//!
//! The next frame is written only after the one before it was synced. So as soon as there is a sign
//! of a later frame, the bad one had been acknowledged, and it is damage.

use std::fmt;
use std::io;

use bytes::Bytes;
use perigee_log_api::LogEntry;
use perigee_types::Lsn;

use crate::frame::{
    FILE_HEADER_LEN, FRAME_HEADER_LEN, FileHeader, FileHeaderError, FrameHeader, FrameKind,
    MAX_FRAME_LEN, is_zero,
};
use crate::source::{Source, Window};

/// Bytes of zeros that are tested at once.
const STEP: usize = 64 << 10;

/// A mark in the index is set about every this many bytes of file: a read passes over at most this
/// much, and the marks of a full PLog take 16 KiB.
const MARK_DISTANCE: u64 = 64 << 10;

/// An entry's offset in the PLog and the position of its frame in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) offset: u64,
    pub(crate) position: u64,
}

/// Where the good frames of a PLog end, and what they hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    /// Checksum of the file header.
    pub(crate) file_crc: u32,
    /// Checksum of the last frame, or of the file header.
    pub(crate) chain: u32,
    /// Position in the file after the last frame.
    pub(crate) end: u64,
    /// Length of the PLog in payload bytes.
    pub(crate) length: u64,
    pub(crate) sealed: bool,
    pub(crate) first_lsn: Lsn,
    pub(crate) last_lsn: Lsn,
    /// Epoch of the file header: of the writer that made the PLog.
    pub(crate) made_in: u64,
    /// Greatest epoch of a frame or of the file header.
    pub(crate) epoch: u64,
    /// Position of the last entry's frame.
    pub(crate) last_entry: Option<u64>,
    pub(crate) marks: Vec<Mark>,
}

impl Contents {
    /// A PLog that was just made.
    pub(crate) fn new(header: &FileHeader, file_crc: u32) -> Self {
        Self {
            file_crc,
            chain: file_crc,
            end: FILE_HEADER_LEN as u64,
            length: 0,
            sealed: false,
            first_lsn: Lsn(0),
            last_lsn: Lsn(0),
            made_in: header.epoch,
            epoch: header.epoch,
            last_entry: None,
            marks: Vec::new(),
        }
    }

    /// Takes note of the frame that now ends the file. `crc` is the checksum of its header.
    pub(crate) fn add(&mut self, header: &FrameHeader, crc: u32) {
        let position = self.end;
        self.end += header.frame_len();
        self.chain = crc;
        self.epoch = header.epoch;
        match header.kind {
            FrameKind::Seal => self.sealed = true,
            FrameKind::Entry => {
                if self
                    .marks
                    .last()
                    .is_none_or(|m| m.position + MARK_DISTANCE <= position)
                {
                    self.marks.push(Mark {
                        offset: header.offset,
                        position,
                    });
                }
                if self.length == 0 {
                    self.first_lsn = header.first_lsn;
                }
                self.last_lsn = header.last_lsn;
                self.length += u64::from(header.payload_len);
                self.last_entry = Some(position);
            }
        }
    }

    /// The last mark at or before `offset`.
    pub(crate) fn mark(&self, offset: u64) -> Option<Mark> {
        let after = self.marks.partition_point(|m| m.offset <= offset);
        after.checked_sub(1).map(|i| self.marks[i])
    }
}

/// What a scan found after the good frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing, or zeros.
    End,
    /// Part of a frame that was never acknowledged.
    Torn,
}

/// Bytes that are not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Where, in the file.
    pub(crate) position: u64,
    /// What is wrong there.
    pub(crate) what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.position, self.what)
    }
}

/// Why a file could not be read.
#[derive(Debug)]
pub(crate) enum ScanError {
    Damage(Damage),
    Io(io::Error),
}

impl From<io::Error> for ScanError {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

fn damage<T>(position: u64, what: impl Into<String>) -> Result<T, ScanError> {
    Err(ScanError::Damage(Damage {
        position,
        what: what.into(),
    }))
}

/// Reads the header of a PLog file and its checksum.
pub(crate) fn file_header<S: Source + ?Sized>(
    window: &mut Window<'_, S>,
) -> Result<(FileHeader, u32), ScanError> {
    match FileHeader::decode(window.get(0, FILE_HEADER_LEN)?) {
        Ok(found) => Ok(found),
        Err(FileHeaderError::Damaged) => damage(0, "the file header fails its checks"),
        Err(FileHeaderError::Version(version)) => damage(
            0,
            format!(
                "the file has format version {version}, this program reads {}",
                crate::frame::FORMAT_VERSION
            ),
        ),
    }
}

/// Reads a whole file of `file_len` bytes, calling `each` with every frame's header and position.
pub(crate) fn scan<S: Source + ?Sized>(
    source: &S,
    file_len: u64,
    mut each: impl FnMut(&FrameHeader, u64),
) -> Result<(FileHeader, Contents, Tail), ScanError> {
    let mut window = Window::new(source);
    let (file, file_crc) = file_header(&mut window)?;
    let mut contents = Contents::new(&file, file_crc);
    loop {
        let position = contents.end;
        let header_bytes = window.get(position, FRAME_HEADER_LEN)?;
        let found = FrameHeader::decode(header_bytes, file_crc);
        let Some((header, crc)) = found.filter(|_| !contents.sealed) else {
            let header_bytes: [u8; FRAME_HEADER_LEN] = header_bytes
                .try_into()
                .expect("the window has the length asked for");
            let tail = judge_header(&mut window, &contents, &header_bytes, file_len)?;
            return Ok((file, contents, tail));
        };
        check_chain(&contents, &header)?;
        let rest_position = position + FRAME_HEADER_LEN as u64;
        let rest = window.get(rest_position, header.rest_len())?;
        if !header.rest_is_whole(rest, crc) {
            let torn = header.rest_is_torn(rest, rest_position);
            let end = position + header.frame_len();
            // Zeros must follow: a later frame would mean that this one was acknowledged.
            if torn && last_nonzero(&mut window, end, file_len)?.is_none() {
                return Ok((file, contents, Tail::Torn));
            }
            return damage(
                position,
                format!("the entry at {} fails its checks", header.offset),
            );
        }
        contents.add(&header, crc);
        each(&header, position);
    }
}

/// A frame whose header is whole must continue what is before it.
fn check_chain(contents: &Contents, header: &FrameHeader) -> Result<(), ScanError> {
    if header.previous != contents.chain || header.offset != contents.length {
        let (found, expected) = (header.offset, contents.length);
        let what = format!("the entry at {found} stands where the one at {expected} belongs");
        return damage(contents.end, what);
    }
    let follows = header.kind == FrameKind::Seal
        || contents.last_entry.is_none()
        || header.first_lsn == contents.last_lsn.next();
    if !follows || header.epoch < contents.epoch {
        let (offset, last, epoch) = (header.offset, contents.last_lsn, contents.epoch);
        let what = format!(
            "the entry at {offset} with {} of epoch {} does not follow {last} of epoch {epoch}",
            header.first_lsn, header.epoch
        );
        return damage(contents.end, what);
    }
    Ok(())
}

/// Judges what follows the good frames, where no header of a frame is.
fn judge_header<S: Source + ?Sized>(
    window: &mut Window<'_, S>,
    contents: &Contents,
    header: &[u8; FRAME_HEADER_LEN],
    file_len: u64,
) -> Result<Tail, ScanError> {
    let position = contents.end;
    let Some(last) = last_nonzero(window, position, file_len)? else {
        return Ok(Tail::End);
    };
    if contents.sealed {
        return damage(position, "bytes follow the seal");
    }
    let after = position + FRAME_HEADER_LEN as u64;
    let torn = if is_zero(header) {
        // The first sector of the frame was not written, others were.
        last < position + MAX_FRAME_LEN && !header_follows(window, contents.file_crc, after, last)?
    } else {
        // Not written beyond the header. A frame never ends in zeros.
        last < after
    };
    if torn {
        return Ok(Tail::Torn);
    }
    damage(
        position,
        format!("the entry at {} has a bad header", contents.length),
    )
}

/// True if a header of this file stands between `from` and `to`.
fn header_follows<S: Source + ?Sized>(
    window: &mut Window<'_, S>,
    file_crc: u32,
    from: u64,
    to: u64,
) -> io::Result<bool> {
    for position in (from..to).step_by(FRAME_HEADER_LEN) {
        if FrameHeader::decode(window.get(position, FRAME_HEADER_LEN)?, file_crc).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Position of the last byte from `from` on that is not zero.
fn last_nonzero<S: Source + ?Sized>(
    window: &mut Window<'_, S>,
    from: u64,
    file_len: u64,
) -> io::Result<Option<u64>> {
    let mut last = None;
    for position in (from..file_len).step_by(STEP) {
        let bytes = window.get(position, STEP)?;
        if !is_zero(bytes) {
            last = bytes
                .iter()
                .rposition(|b| *b != 0)
                .map(|i| position + i as u64);
        }
    }
    Ok(last)
}

/// Part of a PLog to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) file_crc: u32,
    /// Where to begin looking.
    pub(crate) mark: Mark,
    /// Offset of the first entry wanted; not before the mark, and before the end.
    pub(crate) offset: u64,
    /// Position in the file where the PLog ends.
    pub(crate) end: u64,
    pub(crate) max_bytes: u64,
}

/// Reads entries; none if no entry begins at the offset wanted. At least the first is read, then as
/// many as `max_bytes` of payload allow.
pub(crate) fn read_entries<S: Source + ?Sized>(
    source: &S,
    range: Range,
) -> Result<Vec<LogEntry>, ScanError> {
    let mut window = Window::new(source);
    let mut entries = Vec::new();
    let mut bytes = 0;
    let mut position = range.mark.position;
    let mut expected = range.mark.offset;
    while position < range.end {
        let header = FrameHeader::decode(window.get(position, FRAME_HEADER_LEN)?, range.file_crc);
        let Some((header, crc)) = header.filter(|(h, _)| h.offset == expected) else {
            return damage(
                position,
                format!("the entry at {expected} has a bad header"),
            );
        };
        if header.kind == FrameKind::Seal || (header.offset > range.offset && entries.is_empty()) {
            break;
        }
        expected += u64::from(header.payload_len);
        if header.offset >= range.offset {
            bytes += u64::from(header.payload_len);
            if bytes > range.max_bytes && !entries.is_empty() {
                break;
            }
            let rest = window.get(position + FRAME_HEADER_LEN as u64, header.rest_len())?;
            if !header.rest_is_whole(rest, crc) {
                return damage(
                    position,
                    format!("the entry at {} fails its checks", header.offset),
                );
            }
            entries.push(LogEntry {
                offset: header.offset,
                next_offset: expected,
                first_lsn: header.first_lsn,
                last_lsn: header.last_lsn,
                payload: Bytes::copy_from_slice(&rest[..header.payload_len as usize]),
            });
        }
        position += header.frame_len();
    }
    Ok(entries)
}

/// Reads the header of the frame at `position`, which is known to be there.
pub(crate) fn header_at<S: Source + ?Sized>(
    source: &S,
    file_crc: u32,
    position: u64,
) -> Result<FrameHeader, ScanError> {
    let mut bytes = [0; FRAME_HEADER_LEN];
    source.read_full_at(&mut bytes, position)?;
    match FrameHeader::decode(&bytes, file_crc) {
        Some((header, _)) => Ok(header),
        None => damage(position, "an entry has a bad header"),
    }
}

#[cfg(test)]
mod tests;
