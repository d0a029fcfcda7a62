//! The bytes of a PLog file: its header and its frames. Pure; `docs/format/plog.md` shows the same.
//!
//! Every checksum is bound to the identity of its PLog, so that bytes of another file fail, and each
//! frame holds the checksum of the frame before it, so that a hole or a changed order fails.
//!
//! Frames begin at multiples of 64 bytes. So a frame's header never crosses the border of a disk
//! sector, and the header of the frame that a crash cut short is either whole or absent.

use perigee_log_api::{MAX_APPEND, PLOG_SIZE, PlogKey};
use perigee_types::{DbId, DecodeError, Lsn, PlogId, Reader, Writer, checksum};

/// Version of the format that this program writes, and the only one it reads.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// Length of a file header: a block of the file system, so that frames begin at the next.
pub(crate) const FILE_HEADER_LEN: usize = 4096;

const FILE_MAGIC: [u8; 8] = *b"PERIPLOG";

/// Length of a frame's header, and the alignment of frames.
pub(crate) const FRAME_HEADER_LEN: usize = 64;

/// Length of what ends a frame.
pub(crate) const TRAILER_LEN: usize = 8;

const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"PLFR");

/// Ends a frame's header.
const HEADER_END: u32 = u32::from_le_bytes(*b"HEAD");

/// Ends a frame. Its last byte is not zero, so a frame that was written up to some byte only is told
/// from a whole one by its last byte.
const FRAME_END: u32 = u32::from_le_bytes(*b"TAIL");

/// The unit that a disk writes whole or not at all.
pub(crate) const SECTOR: usize = 512;

/// Longest frame: that of the longest payload.
pub(crate) const MAX_FRAME_LEN: u64 = frame_len(MAX_APPEND);

/// Length of the frame of a payload of `payload_len` bytes.
pub(crate) const fn frame_len(payload_len: usize) -> u64 {
    (FRAME_HEADER_LEN + payload_len + TRAILER_LEN).next_multiple_of(FRAME_HEADER_LEN) as u64
}

/// What the header of a PLog file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) plog: PlogKey,
    /// Epoch of the writer that made it.
    pub(crate) epoch: u64,
}

/// Why a file header was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileHeaderError {
    /// Not a PLog file, or damaged.
    Damaged,
    /// Whole, but of this format version.
    Version(u32),
}

impl FileHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::appending(Vec::with_capacity(FILE_HEADER_LEN));
        w.raw(&FILE_MAGIC).u32(FORMAT_VERSION);
        w.u32(self.plog.db.0).u64(self.plog.plog.0).u64(self.epoch);
        let mut bytes = w.into_bytes();
        bytes.resize(FILE_HEADER_LEN - 4, 0);
        bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
        bytes
    }

    /// Reads a header and its checksum, which begins the chain of frames.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, u32), FileHeaderError> {
        let damaged = |_: DecodeError| FileHeaderError::Damaged;
        let mut r = Reader::new(bytes, "PLog file header");
        let covered = r.raw(FILE_HEADER_LEN - 4).map_err(damaged)?;
        let crc = r.u32().map_err(damaged)?;
        let mut r = Reader::new(covered, "PLog file header");
        if r.raw(8).map_err(damaged)? != FILE_MAGIC || crc != checksum(covered) {
            return Err(FileHeaderError::Damaged);
        }
        let version = r.u32().map_err(damaged)?;
        if version != FORMAT_VERSION {
            return Err(FileHeaderError::Version(version));
        }
        let db = DbId(r.u32().map_err(damaged)?);
        let plog = PlogKey {
            db,
            plog: PlogId(r.u64().map_err(damaged)?),
        };
        let epoch = r.u64().map_err(damaged)?;
        // The rest is room for later versions.
        if !is_zero(r.raw(r.remaining()).map_err(damaged)?) {
            return Err(FileHeaderError::Damaged);
        }
        Ok((Self { plog, epoch }, crc))
    }
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// One append.
    Entry = 1,
    /// The PLog is sealed; the last frame of its file.
    Seal = 2,
}

/// What the header of a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) kind: FrameKind,
    /// Offset of the entry in the PLog, in payload bytes; of a seal, the length of the PLog.
    pub(crate) offset: u64,
    /// LSN of the first group; 0 in a seal.
    pub(crate) first_lsn: Lsn,
    /// LSN of the last group; 0 in a seal.
    pub(crate) last_lsn: Lsn,
    /// Epoch of the writer.
    pub(crate) epoch: u64,
    pub(crate) payload_len: u32,
    /// CRC-32C of the payload.
    pub(crate) payload_crc: u32,
    /// Checksum of the frame before, or of the file header.
    pub(crate) previous: u32,
    /// Number of sectors after the header that hold only zeros: one more of them on disk means that
    /// a sector was never written.
    pub(crate) zero_sectors: u32,
}

impl FrameHeader {
    /// The header's bytes and its checksum, which the next frame repeats. `file_crc` is the
    /// checksum of the file header.
    pub(crate) fn encode(&self, file_crc: u32) -> ([u8; FRAME_HEADER_LEN], u32) {
        let mut w = Writer::appending(Vec::with_capacity(FRAME_HEADER_LEN));
        w.u32(FRAME_MAGIC).u32(self.kind as u32).u64(self.offset);
        w.u64(self.first_lsn.0).u64(self.last_lsn.0).u64(self.epoch);
        w.u32(self.payload_len)
            .u32(self.payload_crc)
            .u32(self.previous)
            .u32(self.zero_sectors);
        let mut bytes = w.into_bytes();
        let crc = header_crc(file_crc, &bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(&HEADER_END.to_le_bytes());
        (bytes.try_into().expect("the fields fill the header"), crc)
    }

    /// Reads a header and its checksum; `None` if the bytes are no header of this file.
    pub(crate) fn decode(bytes: &[u8], file_crc: u32) -> Option<(Self, u32)> {
        let mut r = Reader::new(bytes, "PLog frame header");
        let covered = r.raw(FRAME_HEADER_LEN - 8).ok()?;
        let crc = r.u32().ok()?;
        if r.u32().ok()? != HEADER_END || covered[..4] != FRAME_MAGIC.to_le_bytes() {
            return None;
        }
        if crc != header_crc(file_crc, covered) {
            return None;
        }
        Some((Self::decode_fields(covered).ok()?, crc))
    }

    fn decode_fields(covered: &[u8]) -> Result<Self, DecodeError> {
        let bad = |what| Err(DecodeError::new(what));
        let mut r = Reader::new(covered, "PLog frame header");
        r.u32()?;
        let kind = match r.u32()? {
            1 => FrameKind::Entry,
            2 => FrameKind::Seal,
            _ => return bad("PLog frame kind"),
        };
        let header = Self {
            kind,
            offset: r.u64()?,
            first_lsn: Lsn(r.u64()?),
            last_lsn: Lsn(r.u64()?),
            epoch: r.u64()?,
            payload_len: r.u32()?,
            payload_crc: r.u32()?,
            previous: r.u32()?,
            zero_sectors: r.u32()?,
        };
        r.finish()?;
        let len = header.payload_len as usize;
        let fits = match kind {
            FrameKind::Entry => (1..=MAX_APPEND).contains(&len),
            FrameKind::Seal => len == 0,
        };
        let end = header.offset.checked_add(len as u64);
        if !fits || end.is_none_or(|end| end > PLOG_SIZE) {
            return bad("PLog frame length");
        }
        let lsns_fit = match kind {
            FrameKind::Entry => Lsn(0) < header.first_lsn && header.first_lsn <= header.last_lsn,
            FrameKind::Seal => header.first_lsn == Lsn(0) && header.last_lsn == Lsn(0),
        };
        if lsns_fit {
            Ok(header)
        } else {
            bad("PLog frame LSNs")
        }
    }

    /// Length of the frame in the file.
    pub(crate) fn frame_len(&self) -> u64 {
        frame_len(self.payload_len as usize)
    }

    /// Length of everything after the header: payload, padding, trailer.
    pub(crate) fn rest_len(&self) -> usize {
        frame_len(self.payload_len as usize) as usize - FRAME_HEADER_LEN
    }

    /// True if `rest`, everything after the header, is what was written. `crc` is the header's.
    pub(crate) fn rest_is_whole(&self, rest: &[u8], crc: u32) -> bool {
        assert_eq!(
            rest.len(),
            self.rest_len(),
            "the caller reads what the header says"
        );
        let (body, end) = rest.split_at(self.rest_len() - TRAILER_LEN);
        let (payload, padding) = body.split_at(self.payload_len as usize);
        end == trailer(crc) && is_zero(padding) && checksum(payload) == self.payload_crc
    }

    /// True if `rest`, which is not whole and began `position` bytes into the file, is a write that
    /// was cut short, provided that sectors are written whole or not at all and were zero before.
    pub(crate) fn rest_is_torn(&self, rest: &[u8], position: u64) -> bool {
        rest.last() == Some(&0)
            || count_zero_sectors(rest, rest.len(), position) > self.zero_sectors
    }
}

/// What ends the frame whose header has the checksum `crc`.
fn trailer(crc: u32) -> [u8; TRAILER_LEN] {
    let mut bytes = [0; TRAILER_LEN];
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    bytes[4..].copy_from_slice(&FRAME_END.to_le_bytes());
    bytes
}

fn header_crc(file_crc: u32, covered: &[u8]) -> u32 {
    let mut bytes = [0; FRAME_HEADER_LEN - 4];
    bytes[..4].copy_from_slice(&file_crc.to_le_bytes());
    bytes[4..].copy_from_slice(covered);
    checksum(&bytes)
}

/// True if every byte is zero.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    // Sixteen at a time: recovery runs over all the space made ready.
    let (blocks, rest) = bytes.as_chunks::<16>();
    blocks.iter().all(|b| u128::from_ne_bytes(*b) == 0) && rest.iter().all(|b| *b == 0)
}

/// Number of sectors of the file that hold only zeros and lie inside the `len` bytes from
/// `position` on, which are `bytes` followed by zeros.
fn count_zero_sectors(bytes: &[u8], len: usize, position: u64) -> u32 {
    let first = (position.next_multiple_of(SECTOR as u64) - position) as usize;
    let sectors = (first..)
        .step_by(SECTOR)
        .take_while(|at| at + SECTOR <= len);
    let cut = |at: usize| at.min(bytes.len());
    sectors
        .filter(|&at| is_zero(&bytes[cut(at)..cut(at + SECTOR)]))
        .count() as u32
}

/// A frame ready to be written: `header`, then the payload, then `ending`.
#[derive(Debug)]
pub(crate) struct EncodedFrame {
    pub(crate) header: [u8; FRAME_HEADER_LEN],
    /// Padding and trailer.
    pub(crate) ending: Vec<u8>,
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Checksum of the file header.
    pub(crate) file_crc: u32,
    /// Checksum of the frame before, or of the file header.
    pub(crate) previous: u32,
    /// Position of the frame in the file.
    pub(crate) position: u64,
}

/// What a frame says beside its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    pub(crate) kind: FrameKind,
    pub(crate) offset: u64,
    pub(crate) first_lsn: Lsn,
    pub(crate) last_lsn: Lsn,
    pub(crate) epoch: u64,
}

/// Encodes the frame of `payload`, which is not copied.
pub(crate) fn encode_frame(place: Place, label: Label, payload: &[u8]) -> EncodedFrame {
    assert_eq!(
        place.position % FRAME_HEADER_LEN as u64,
        0,
        "L3: frames are aligned"
    );
    let padding =
        frame_len(payload.len()) as usize - FRAME_HEADER_LEN - payload.len() - TRAILER_LEN;
    let mut ending = vec![0; padding];
    let body_len = payload.len() + padding;
    let body_position = place.position + FRAME_HEADER_LEN as u64;
    let header = FrameHeader {
        kind: label.kind,
        offset: label.offset,
        first_lsn: label.first_lsn,
        last_lsn: label.last_lsn,
        epoch: label.epoch,
        payload_len: u32::try_from(payload.len()).expect("payloads are at most MAX_APPEND long"),
        payload_crc: checksum(payload),
        previous: place.previous,
        zero_sectors: count_zero_sectors(payload, body_len, body_position),
    };
    let (header, crc) = header.encode(place.file_crc);
    ending.extend_from_slice(&trailer(crc));
    EncodedFrame { header, ending }
}
