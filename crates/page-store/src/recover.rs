//! Opening a segment after a restart: by its index if it is sealed, else by reading it all.
//!
//! A scan ends at the first frame that is not whole. Is it the torn end of the last write, which
//! nobody was told of, or was it acknowledged once and is damaged? Damage is reported and never cut
//! away; a torn end is cut. It is damage if
//! - the segment is known to have been synced beyond it: by a later frame, by a later segment, or
//!   by the slice's label; or
//! - it is log, and every sector of it has arrived. Space that a file is extended by reads as zeros, so what did
//!   not arrive shows as a sector of zeros or as the end of the file.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use perigee_crash::{Point, reach};
use perigee_page::PageRef;
use perigee_page_api::PageError;
use perigee_types::checksum;

use crate::failstop::{FailStop, disk};
use crate::frame::{
    self, ChainStart, FRAME_HEADER, FrameHeader, FrameKind, IndexEntry, SEGMENT_HEADER, SegmentId,
    SegmentKind,
};
use crate::segment::{Segment, SegmentIndex};

/// A segment that was found in a slice's directory.
#[derive(Debug)]
pub(crate) struct Found {
    pub segment: Arc<Segment>,
    pub start: ChainStart,
    /// Its frames in order, without the index frame.
    pub frames: Vec<IndexEntry>,
    /// Where the next frame goes; `None` if the segment is sealed.
    pub end: Option<u64>,
}

/// Smallest unit that a disk writes as a whole.
const SECTOR: usize = 512;

/// Opens the segment at `path`, which is known to be synced up to the offset `synced`. `None` means
/// that not even its creation was finished, and it was removed.
pub(crate) fn open_segment(
    id: SegmentId,
    path: &Path,
    synced: u64,
    stop: &FailStop,
) -> Result<Option<Found>, PageError> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|e| disk("opening of", path, &e))?;
    let size = file
        .metadata()
        .map_err(|e| disk("opening of", path, &e))?
        .len();
    let mut header = Vec::with_capacity(SEGMENT_HEADER);
    (&mut file)
        .take(SEGMENT_HEADER as u64)
        .read_to_end(&mut header)
        .map_err(|e| disk("read of", path, &e))?;
    let start = match frame::decode_segment_header(&header, id) {
        Ok(start) => start,
        Err(_) if synced == 0 && size < SEGMENT_HEADER as u64 => {
            tracing::warn!("{} was never finished and is removed", path.display());
            fs::remove_file(path).map_err(|e| disk("deletion of", path, &e))?;
            return Ok(None);
        }
        Err(what) => {
            let (slice, path) = (id.slice, path.display());
            return Err(PageError::Corrupt(format!("{slice}, file {path}: {what}")));
        }
    };
    let segment = Arc::new(Segment::new(id, path.to_owned(), file, size));
    let (frames, end) = match segment.read_index()? {
        SegmentIndex::Good(frames) => (frames, None),
        SegmentIndex::Damaged(end) => (scan(&segment, end, end)?.0, None),
        SegmentIndex::None if synced < u64::MAX => {
            let (frames, end) = scan(&segment, size, synced)?;
            // What was read may be in the page cache only; from here on it counts as durable.
            let file = segment.file()?;
            file.set_len(end)
                .map_err(|e| disk("truncation of", path, &e))?;
            reach(Point::TornSegmentCut);
            file.sync_all().map_err(|e| stop.sync_failed(path, &e))?;
            segment.set_size(end);
            (frames, Some(end))
        }
        SegmentIndex::None => (scan(&segment, size, synced)?.0, None),
    };
    Ok(Some(Found {
        segment,
        start,
        frames,
        end,
    }))
}

/// The frames of a segment, and where the next one goes if it is not sealed; changes nothing.
pub(crate) fn read_frames(segment: &Segment) -> Result<(Vec<IndexEntry>, Option<u64>), PageError> {
    let mut header = [0; SEGMENT_HEADER];
    segment.read(&mut header, 0)?;
    frame::decode_segment_header(&header, segment.id()).map_err(|e| segment.corrupt(0, e))?;
    match segment.read_index()? {
        SegmentIndex::Good(frames) => Ok((frames, None)),
        SegmentIndex::Damaged(end) => Ok((scan(segment, end, end)?.0, None)),
        SegmentIndex::None => {
            let (frames, end) = scan(segment, segment.size(), 0)?;
            Ok((frames, Some(end)))
        }
    }
}

/// Reads all frames before `limit`; returns them and the offset behind the last good one.
fn scan(segment: &Segment, limit: u64, synced: u64) -> Result<(Vec<IndexEntry>, u64), PageError> {
    let mut bytes = vec![0; limit as usize];
    segment.read(&mut bytes, 0)?;
    let mut frames = Vec::new();
    let mut offset = SEGMENT_HEADER as u64;
    loop {
        let rest = &bytes[offset as usize..];
        if is_zero(rest) {
            // A segment behind which there is another one may have been sealed without an index.
            if offset < synced && synced < u64::MAX {
                return Err(segment.corrupt(offset, "frames that were synced are missing"));
            }
            return Ok((frames, offset));
        }
        let header = FrameHeader::decode(rest, segment.id(), offset);
        let whole = header.filter(|h| h.end(offset) <= bytes.len() as u64);
        let is_synced = || offset < synced || later_frame_says_synced(segment, &bytes, offset);
        if let Some(h) = whole {
            let payload = &rest[FRAME_HEADER..FRAME_HEADER + h.payload_len as usize];
            if h.kind == FrameKind::Index {
                // Sealing was interrupted, or the trailer is damaged.
                return Ok((frames, offset));
            }
            // A damaged page version is found again, and named, when it is read.
            if payload_is_good(&h, payload) || h.kind == FrameKind::Page && is_synced() {
                frames.push(IndexEntry {
                    id: h.id,
                    lsn: h.lsn,
                    offset,
                    freed: h.kind == FrameKind::Freed,
                });
                offset = h.end(offset);
                continue;
            }
        }
        if is_synced() {
            return Err(segment.corrupt(offset, "a frame that was synced is damaged"));
        }
        // Page versions that nothing vouches for can still be made of log, damaged or torn.
        let end = header.map(|h| h.end(offset) as usize);
        if segment.id().kind == SegmentKind::Log && !is_torn(&bytes, offset as usize, end) {
            return Err(segment.corrupt(offset, "a frame is damaged, and it is not torn"));
        }
        let (path, cut) = (segment.path().display(), rest.len());
        tracing::warn!("{path}: torn end at offset {offset}, {cut} bytes are left out");
        return Ok((frames, offset));
    }
}

/// True if a frame behind `offset` was written after the segment had been synced beyond it.
fn later_frame_says_synced(segment: &Segment, bytes: &[u8], offset: u64) -> bool {
    let places = offset as usize + 1..bytes.len().saturating_sub(FRAME_HEADER - 1);
    places.into_iter().any(|at| {
        bytes[at] == b'P'
            && FrameHeader::decode(&bytes[at..], segment.id(), at as u64)
                .is_some_and(|later| later.synced > offset)
    })
}

/// True if a part of the frame from `start` did not arrive. `end` is where it ends, if its header
/// is good; otherwise the header itself must have been hit.
fn is_torn(bytes: &[u8], start: usize, end: Option<usize>) -> bool {
    let end = end.unwrap_or(start + FRAME_HEADER);
    if end > bytes.len() {
        return true;
    }
    let mut at = start;
    while at < end {
        let next = ((at / SECTOR + 1) * SECTOR).min(end);
        if bytes[at..next].iter().all(|b| *b == 0) {
            return true;
        }
        at = next;
    }
    false
}

fn payload_is_good(header: &FrameHeader, payload: &[u8]) -> bool {
    match header.kind {
        FrameKind::Page => PageRef::new(payload).is_ok_and(|page| {
            page.verify_checksum().is_ok() && payload[..4] == header.payload_crc.to_le_bytes()
        }),
        FrameKind::Fragment | FrameKind::Index | FrameKind::Freed => {
            checksum(payload) == header.payload_crc
        }
    }
}

pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    let mut chunks = bytes.chunks_exact(4096);
    // Comparing whole blocks is a memcmp; most ends are preallocated and long.
    chunks.by_ref().all(|c| c == [0; 4096]) && chunks.remainder().iter().all(|b| *b == 0)
}
