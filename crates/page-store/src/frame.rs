//! Frames: how fragments and page versions lie in a segment file (`docs/format/slice.md`).
//!
//! A frame header carries a checksum over itself *and* over where it stands (database, slice,
//! segment, offset): a frame that a disk returns from another place is not taken for the right one.
//! The payload has a checksum of its own in the header; for a page version that is the page's.
//!
//! Each header says up to which offset the segment was synced when the frame was written. A bad
//! frame before that offset was acknowledged once, so it is damage; a bad frame behind every such
//! offset is the torn end of a write that nobody was told of.
//!
//! Pure: no I/O.

use perigee_page_api::SliceKey;
use perigee_types::{DbId, Lsn, SliceId};

/// Length of a frame header.
pub(crate) const FRAME_HEADER: usize = 48;

/// Length of a segment header.
pub(crate) const SEGMENT_HEADER: usize = 64;

/// Length of the trailer that ends a sealed segment.
pub(crate) const TRAILER: usize = 16;

/// Version of the segment format.
pub(crate) const VERSION: u32 = 2;

const SEGMENT_MAGIC: [u8; 8] = *b"PERISLSG";
const FRAME_MAGIC: [u8; 4] = *b"PSFR";
const TRAILER_MAGIC: [u8; 4] = *b"PSTR";

/// What a segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub(crate) enum SegmentKind {
    /// Fragments: the slice's log.
    Log = 1,
    /// Page versions.
    Pages = 2,
}

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FrameKind {
    /// A fragment; payload [`crate::fragment`].
    Fragment = 1,
    /// A page version; the payload is the page.
    Page = 2,
    /// The index of a sealed segment.
    Index = 3,
    /// A page was freed; no payload.
    Freed = 4,
}

/// Where a segment belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentId {
    pub slice: SliceKey,
    pub kind: SegmentKind,
    /// Numbers grow by one with each segment of the kind.
    pub number: u64,
}

/// Where the log stood when a log segment was begun; zero in page segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChainStart {
    pub sequence: u64,
    pub lsn: Lsn,
}

/// A frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub kind: FrameKind,
    pub payload_len: u32,
    pub payload_crc: u32,
    /// Fragment: its sequence number. Page, freed page: the page id. Index: number of entries.
    pub id: u64,
    /// Fragment: its last LSN. Page: the page's LSN. Freed page: that of the log group that freed it. Index: 0.
    pub lsn: Lsn,
    /// The segment was synced up to here when the frame was written.
    pub synced: u64,
}

impl FrameHeader {
    /// Offset of what follows a frame at `offset`.
    pub(crate) fn end(&self, offset: u64) -> u64 {
        offset + (FRAME_HEADER as u64) + u64::from(self.payload_len)
    }

    pub(crate) fn encode(&self, segment: SegmentId, offset: u64) -> [u8; FRAME_HEADER] {
        let mut out = [0; FRAME_HEADER];
        out[0..4].copy_from_slice(&FRAME_MAGIC);
        out[4] = self.kind as u8;
        out[8..12].copy_from_slice(&self.payload_len.to_le_bytes());
        out[12..16].copy_from_slice(&self.payload_crc.to_le_bytes());
        out[16..24].copy_from_slice(&self.id.to_le_bytes());
        out[24..32].copy_from_slice(&self.lsn.0.to_le_bytes());
        out[32..40].copy_from_slice(&self.synced.to_le_bytes());
        let crc = placed_checksum(&out[..44], segment, offset);
        out[44..48].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// The header that stands at `offset` of the segment, if `bytes` begins with one.
    pub(crate) fn decode(bytes: &[u8], segment: SegmentId, offset: u64) -> Option<Self> {
        let bytes: &[u8; FRAME_HEADER] = bytes.first_chunk()?;
        if bytes[0..4] != FRAME_MAGIC || bytes[5..8] != [0; 3] || bytes[40..44] != [0; 4] {
            return None;
        }
        if u32_at(bytes, 44) != placed_checksum(&bytes[..44], segment, offset) {
            return None;
        }
        let kind = match bytes[4] {
            1 => FrameKind::Fragment,
            2 => FrameKind::Page,
            3 => FrameKind::Index,
            4 => FrameKind::Freed,
            _ => return None,
        };
        Some(Self {
            kind,
            payload_len: u32_at(bytes, 8),
            payload_crc: u32_at(bytes, 12),
            id: u64_at(bytes, 16),
            lsn: Lsn(u64_at(bytes, 24)),
            synced: u64_at(bytes, 32),
        })
    }
}

/// The header of a segment file.
pub(crate) fn encode_segment_header(id: SegmentId, start: ChainStart) -> [u8; SEGMENT_HEADER] {
    let mut out = [0; SEGMENT_HEADER];
    out[0..8].copy_from_slice(&SEGMENT_MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out[12..16].copy_from_slice(&(id.kind as u32).to_le_bytes());
    out[16..20].copy_from_slice(&id.slice.db.0.to_le_bytes());
    out[20..24].copy_from_slice(&id.slice.slice.0.to_le_bytes());
    out[24..32].copy_from_slice(&id.number.to_le_bytes());
    out[32..40].copy_from_slice(&start.sequence.to_le_bytes());
    out[40..48].copy_from_slice(&start.lsn.0.to_le_bytes());
    let crc = crc32c(&out[..60]);
    out[60..64].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Reads a segment header and checks that it is the one of `id`; otherwise says what is wrong.
pub(crate) fn decode_segment_header(bytes: &[u8], id: SegmentId) -> Result<ChainStart, String> {
    let bytes: &[u8; SEGMENT_HEADER] = bytes
        .first_chunk()
        .ok_or_else(|| "shorter than a segment header".to_owned())?;
    if bytes[0..8] != SEGMENT_MAGIC {
        return Err("no segment of a slice".to_owned());
    }
    let version = u32_at(bytes, 8);
    if version != VERSION {
        return Err(format!(
            "segment format {version}, this program knows {VERSION}"
        ));
    }
    if u32_at(bytes, 60) != crc32c(&bytes[..60]) {
        return Err("checksum of the segment header does not match".to_owned());
    }
    let slice = SliceKey {
        db: DbId(u32_at(bytes, 16)),
        slice: SliceId(u32_at(bytes, 20)),
    };
    let (kind, number) = (u32_at(bytes, 12), u64_at(bytes, 24));
    if (slice, kind, number) != (id.slice, id.kind as u32, id.number) {
        return Err(format!("segment {number} of {slice} is in its place"));
    }
    Ok(ChainStart {
        sequence: u64_at(bytes, 32),
        lsn: Lsn(u64_at(bytes, 40)),
    })
}

/// The trailer of a sealed segment whose index frame is at `index`.
pub(crate) fn encode_trailer(segment: SegmentId, index: u64) -> [u8; TRAILER] {
    let mut out = [0; TRAILER];
    out[0..8].copy_from_slice(&index.to_le_bytes());
    out[8..12].copy_from_slice(&TRAILER_MAGIC);
    let crc = placed_checksum(&out[..12], segment, index);
    out[12..16].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Offset of the index frame, if `bytes` is the trailer of the segment.
pub(crate) fn decode_trailer(bytes: &[u8], segment: SegmentId) -> Option<u64> {
    let bytes: &[u8; TRAILER] = bytes.try_into().ok()?;
    let index = u64_at(bytes, 0);
    let crc = placed_checksum(&bytes[..12], segment, index);
    (bytes[8..12] == TRAILER_MAGIC && u32_at(bytes, 12) == crc).then_some(index)
}

/// One frame in the index of a sealed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// As in [`FrameHeader`].
    pub id: u64,
    /// As in [`FrameHeader`].
    pub lsn: Lsn,
    /// Offset of the frame.
    pub offset: u64,
    /// It says that the page was freed.
    pub freed: bool,
}

const INDEX_ENTRY: usize = 24;

/// Set in the offset of an entry of a frame that says that a page was freed.
const FREED: u64 = 1 << 63;

pub(crate) fn encode_index(entries: &[IndexEntry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(INDEX_ENTRY * entries.len());
    for entry in entries {
        let freed = if entry.freed { FREED } else { 0 };
        for field in [entry.id, entry.lsn.0, entry.offset | freed] {
            out.extend_from_slice(&field.to_le_bytes());
        }
    }
    out
}

/// The entries of an index, or `None` if they do not lie one behind the other before `end`.
pub(crate) fn decode_index(bytes: &[u8], end: u64) -> Option<Vec<IndexEntry>> {
    if !bytes.len().is_multiple_of(INDEX_ENTRY) {
        return None;
    }
    let entries: Vec<_> = bytes
        .chunks_exact(INDEX_ENTRY)
        .map(|b| IndexEntry {
            id: u64_at(b, 0),
            lsn: Lsn(u64_at(b, 8)),
            offset: u64_at(b, 16) & !FREED,
            freed: u64_at(b, 16) & FREED != 0,
        })
        .collect();
    let sorted = entries.is_sorted_by(|a, b| a.offset < b.offset);
    let inside = entries.last().is_none_or(|last| last.offset < end);
    (sorted && inside).then_some(entries)
}

/// Checksum of bytes and of the place they belong to.
fn placed_checksum(bytes: &[u8], segment: SegmentId, offset: u64) -> u32 {
    let mut place = [0; 28];
    place[0..4].copy_from_slice(&segment.slice.db.0.to_le_bytes());
    place[4..8].copy_from_slice(&segment.slice.slice.0.to_le_bytes());
    place[8..12].copy_from_slice(&(segment.kind as u32).to_le_bytes());
    place[12..20].copy_from_slice(&segment.number.to_le_bytes());
    place[20..28].copy_from_slice(&offset.to_le_bytes());
    let mut all = [0; 28 + 44];
    all[..28].copy_from_slice(&place);
    all[28..28 + bytes.len()].copy_from_slice(bytes);
    crc32c(&all[..28 + bytes.len()])
}

fn crc32c(bytes: &[u8]) -> u32 {
    perigee_types::checksum(bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use perigee_testkit::Fuzz;

    use super::*;

    fn id(number: u64) -> SegmentId {
        SegmentId {
            slice: SliceKey {
                db: DbId(3),
                slice: SliceId(4),
            },
            kind: SegmentKind::Log,
            number,
        }
    }

    fn header() -> FrameHeader {
        FrameHeader {
            kind: FrameKind::Fragment,
            payload_len: 100,
            payload_crc: 7,
            id: 8,
            lsn: Lsn(9),
            synced: 64,
        }
    }

    #[test]
    fn frame_headers_are_read_only_where_they_belong() {
        let bytes = header().encode(id(1), 64);
        assert_eq!(FrameHeader::decode(&bytes, id(1), 64), Some(header()));
        assert_eq!(FrameHeader::decode(&bytes, id(1), 65), None);
        assert_eq!(FrameHeader::decode(&bytes, id(2), 64), None);
        let mut other = id(1);
        other.slice.db = DbId(9);
        assert_eq!(FrameHeader::decode(&bytes, other, 64), None);
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_found() {
        let frame = header().encode(id(1), 64);
        for bit in 0..8 * FRAME_HEADER {
            let mut bytes = frame;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FrameHeader::decode(&bytes, id(1), 64), None, "bit {bit}");
        }
        let start = ChainStart {
            sequence: 5,
            lsn: Lsn(6),
        };
        let segment = encode_segment_header(id(1), start);
        assert_eq!(decode_segment_header(&segment, id(1)), Ok(start));
        for bit in 0..8 * SEGMENT_HEADER {
            let mut bytes = segment;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_segment_header(&bytes, id(1)).is_err(), "bit {bit}");
        }
        let trailer = encode_trailer(id(1), 1000);
        assert_eq!(decode_trailer(&trailer, id(1)), Some(1000));
        for bit in 0..8 * TRAILER {
            let mut bytes = trailer;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_trailer(&bytes, id(1)), None, "bit {bit}");
        }
    }

    #[test]
    fn other_versions_are_named() {
        let mut bytes = encode_segment_header(id(1), ChainStart::default());
        bytes[8] = 9;
        let error = decode_segment_header(&bytes, id(1)).unwrap_err();
        assert!(
            error.contains("format 9") && error.contains("knows 2"),
            "{error}"
        );
    }

    /// Corrects the checksum of a frame header.
    fn seal(bytes: &mut [u8]) {
        if let Some((header, _)) = bytes.split_at_mut_checked(FRAME_HEADER) {
            let crc = placed_checksum(&header[..44], id(1), 64);
            header[44..48].copy_from_slice(&crc.to_le_bytes());
        }
    }

    #[test]
    fn damaged_frame_headers_are_refused_or_read() {
        let kinds = [
            FrameKind::Fragment,
            FrameKind::Page,
            FrameKind::Index,
            FrameKind::Freed,
        ];
        let corpus = kinds.map(|kind| FrameHeader { kind, ..header() }.encode(id(1), 64).to_vec());
        Fuzz::new(corpus)
            .sealed(seal)
            .run("frame headers", |bytes| {
                let Some(header) = FrameHeader::decode(bytes, id(1), 64) else {
                    return false;
                };
                assert_eq!(header.encode(id(1), 64), bytes[..FRAME_HEADER]);
                assert!(header.end(64) >= 64 + FRAME_HEADER as u64);
                true
            });
    }

    #[test]
    fn damaged_segment_headers_trailers_and_indexes_are_refused_or_read() {
        let start = ChainStart {
            sequence: 5,
            lsn: Lsn(6),
        };
        let entry = |n: u64| IndexEntry {
            id: n,
            lsn: Lsn(n),
            offset: 64 + 100 * n,
            freed: n == 2,
        };
        let corpus = [
            encode_segment_header(id(1), start).to_vec(),
            encode_trailer(id(1), 1000).to_vec(),
            encode_index(&[entry(1), entry(2), entry(3)]),
            encode_index(&[]),
        ];
        Fuzz::new(corpus).run("segments", |bytes| {
            let mut read = decode_segment_header(bytes, id(1)).is_ok();
            read |= decode_trailer(bytes, id(1)).is_some();
            if let Some(entries) = decode_index(bytes, 1000) {
                assert!(entries.is_sorted_by_key(|entry| entry.offset));
                assert!(entries.iter().all(|entry| entry.offset < 1000));
                read = true;
            }
            read
        });
    }
}
