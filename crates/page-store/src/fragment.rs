//! Log fragments as the store keeps them, and the log cache.
//!
//! A fragment lies in a log segment; its decoded groups are in memory as long as the log cache has
//! room. Consolidation follows the log cache (taurus-2020 section 7, "log cache-centric"): when the
//! cache is full a new fragment stays on disk only and is loaded when its turn comes.
//!
//! Invariants:
//! - a fragment's `live` is the number of its records in the log directory; at zero nobody will
//!   read it again and its bytes in the segment are released;
//! - fragments leave the cache in the order in which they came, those that are not consolidated
//!   yet never.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use perigee_page_api::{Fragment, PageError};
use perigee_redo::{Group, Op};
use perigee_types::{Lsn, Reader, Writer, checksum};

use crate::frame::{FRAME_HEADER, FrameHeader, FrameKind};
use crate::segment::Segment;

/// Length of what precedes the groups in a fragment's payload: epoch, previous LSN, first LSN.
pub(crate) const FRAGMENT_HEAD: usize = 24;

/// The fields of a fragment beside its groups, sequence number and last LSN.
pub(crate) fn encode_head(fragment: &Fragment) -> Vec<u8> {
    let mut w = Writer::new();
    w.u64(fragment.epoch)
        .u64(fragment.prev_lsn.0)
        .u64(fragment.first_lsn.0);
    w.into_bytes()
}

/// A fragment on disk.
#[derive(Debug)]
pub(crate) struct LogFragment {
    pub sequence: u64,
    pub epoch: u64,
    pub prev_lsn: Lsn,
    pub last_lsn: Lsn,
    segment: Arc<Segment>,
    offset: u64,
    payload_len: u32,
    live: AtomicU32,
    consolidated: AtomicBool,
    /// Bytes charged to the log cache for `groups`.
    charge: AtomicUsize,
    groups: Mutex<Option<Arc<Vec<Group>>>>,
}

impl LogFragment {
    /// The fragment that was written at `offset` of `segment`, with `live` records.
    pub(crate) fn new(fragment: &Fragment, segment: Arc<Segment>, offset: u64, live: u32) -> Self {
        let made = Self {
            sequence: fragment.sequence,
            epoch: fragment.epoch,
            prev_lsn: fragment.prev_lsn,
            last_lsn: fragment.last_lsn,
            segment,
            offset,
            payload_len: (FRAGMENT_HEAD + fragment.groups.len()) as u32,
            live: AtomicU32::new(live),
            consolidated: AtomicBool::new(false),
            charge: AtomicUsize::new(0),
            groups: Mutex::new(None),
        };
        if live > 0 {
            made.segment.retain(made.disk_bytes());
        }
        made
    }

    /// Reads the fragment at `offset` of a segment; its records count as live.
    pub(crate) fn read(
        segment: &Arc<Segment>,
        offset: u64,
    ) -> Result<(Self, Arc<Vec<Group>>), PageError> {
        let (header, payload) = read_payload(segment, offset)?;
        let mut r = Reader::new(&payload, "fragment");
        let mut field = || r.u64().map_err(|e| segment.corrupt(offset, e));
        let (epoch, prev, first) = (field()?, field()?, field()?);
        let groups = Group::decode_all(&payload.slice(FRAGMENT_HEAD..))
            .map_err(|e| segment.corrupt(offset, e))?;
        let fragment = Fragment {
            slice: segment.slice(),
            epoch,
            sequence: header.id,
            prev_lsn: Lsn(prev),
            first_lsn: Lsn(first),
            last_lsn: header.lsn,
            groups: payload.slice(FRAGMENT_HEAD..),
        };
        let live = record_count(&groups);
        Ok((
            Self::new(&fragment, segment.clone(), offset, live),
            Arc::new(groups),
        ))
    }

    /// Bytes of its groups.
    pub(crate) fn log_bytes(&self) -> u64 {
        u64::from(self.payload_len) - FRAGMENT_HEAD as u64
    }

    fn disk_bytes(&self) -> u64 {
        FRAME_HEADER as u64 + u64::from(self.payload_len)
    }

    /// True if the directory needs none of its records.
    pub(crate) fn is_dead(&self) -> bool {
        self.live.load(Ordering::Acquire) == 0
    }

    /// The directory needs one record less.
    pub(crate) fn release(&self, cache: &LogCache) {
        let before = self.live.fetch_sub(1, Ordering::AcqRel);
        assert!(
            before > 0,
            "P8: fragment {} loses more than it has",
            self.sequence
        );
        if before == 1 {
            self.segment.release(self.disk_bytes());
            self.evict(cache);
        }
    }

    /// All its records are in page versions, or cannot be applied.
    pub(crate) fn set_consolidated(&self) {
        self.consolidated.store(true, Ordering::Release);
    }

    /// True if the cache has the groups.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.groups.lock().is_some()
    }

    /// The groups, from the cache or from disk.
    pub(crate) fn groups(self: &Arc<Self>, cache: &LogCache) -> Result<Arc<Vec<Group>>, PageError> {
        if let Some(groups) = &*self.groups.lock() {
            return Ok(groups.clone());
        }
        let (_, payload) = read_payload(&self.segment, self.offset)?;
        let groups = Group::decode_all(&payload.slice(FRAGMENT_HEAD..))
            .map_err(|e| self.segment.corrupt(self.offset, e))?;
        let groups = Arc::new(groups);
        cache.insert(self, &groups);
        Ok(groups)
    }

    fn evict(&self, cache: &LogCache) {
        if self.groups.lock().take().is_some() {
            cache
                .bytes
                .fetch_sub(self.charge.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

/// Number of changes, each of which is a record of the log directory.
pub(crate) fn record_count(groups: &[Group]) -> u32 {
    groups.iter().map(|g| g.changes.len() as u32).sum()
}

/// Reads and checks a fragment's frame.
fn read_payload(segment: &Segment, offset: u64) -> Result<(FrameHeader, Bytes), PageError> {
    let mut bytes = [0; FRAME_HEADER];
    segment.read(&mut bytes, offset)?;
    let header = FrameHeader::decode(&bytes, segment.id(), offset)
        .filter(|h| h.kind == FrameKind::Fragment)
        .filter(|h| h.payload_len as usize >= FRAGMENT_HEAD && h.end(offset) <= segment.size())
        .ok_or_else(|| segment.corrupt(offset, "the header of a fragment is damaged"))?;
    let mut payload = vec![0; header.payload_len as usize];
    segment.read(&mut payload, offset + FRAME_HEADER as u64)?;
    if checksum(&payload) != header.payload_crc {
        let what = format!("checksum of fragment {} does not match", header.id);
        return Err(segment.corrupt(offset, what));
    }
    Ok((header, payload.into()))
}

/// Memory for decoded fragments, shared by all slices.
#[derive(Debug)]
pub(crate) struct LogCache {
    limit: usize,
    bytes: AtomicUsize,
    queue: Mutex<VecDeque<Weak<LogFragment>>>,
}

impl LogCache {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            bytes: AtomicUsize::new(0),
            queue: Mutex::new(VecDeque::new()),
        }
    }

    /// Keeps the groups of a fragment in memory if there is room, or room can be made.
    pub(crate) fn insert(&self, fragment: &Arc<LogFragment>, groups: &Arc<Vec<Group>>) {
        let charge = memory(fragment, groups);
        let mut queue = self.queue.lock();
        while self.bytes.load(Ordering::Relaxed) + charge > self.limit {
            let Some(oldest) = queue.front() else { return };
            if let Some(oldest) = oldest.upgrade() {
                if !oldest.consolidated.load(Ordering::Acquire) && !oldest.is_dead() {
                    return;
                }
                oldest.evict(self);
            }
            queue.pop_front();
        }
        let mut slot = fragment.groups.lock();
        if slot.is_none() && !fragment.is_dead() {
            *slot = Some(groups.clone());
            fragment.charge.store(charge, Ordering::Relaxed);
            self.bytes.fetch_add(charge, Ordering::Relaxed);
            queue.push_back(Arc::downgrade(fragment));
        }
        // Dead fragments at the front keep only their weak references; drop those too.
        while queue.front().is_some_and(|f| f.strong_count() == 0) {
            queue.pop_front();
        }
    }
}

/// What decoded groups take in memory, about.
fn memory(fragment: &LogFragment, groups: &[Group]) -> usize {
    let ops = groups
        .iter()
        .flat_map(|g| &g.changes)
        .map(|c| 48 + c.ops.len() * size_of::<Op>());
    fragment.payload_len as usize + groups.len() * (size_of::<Group>() + 16) + ops.sum::<usize>()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use perigee_page_api::SliceKey;
    use perigee_types::{DbId, SliceId};
    use proptest::prelude::*;

    use super::*;
    use crate::failstop::FailStop;
    use crate::frame::{ChainStart, SegmentId, SegmentKind};
    use crate::segment::{NewFrame, SegmentWriter};

    const ID: SegmentId = SegmentId {
        slice: SliceKey {
            db: DbId(1),
            slice: SliceId(2),
        },
        kind: SegmentKind::Log,
        number: 1,
    };

    proptest! {
        /// Checksums are good, what they cover is not.
        #[test]
        fn payloads_of_any_bytes_are_survived(
            payload in prop::collection::vec(any::<u8>(), 0..200),
            groups: bool,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let stop = FailStop::default();
            let mut writer =
                SegmentWriter::create(dir.path(), ID, ChainStart::default(), &stop).unwrap();
            // A body that begins as a group does gets further.
            let mut whole = vec![0; if groups { FRAGMENT_HEAD } else { 0 }];
            if groups {
                whole.extend(7_u64.to_le_bytes());
                whole.extend((payload.len() as u32).to_le_bytes());
            }
            whole.extend(payload);
            let frame = NewFrame {
                kind: FrameKind::Fragment,
                id: 1,
                lsn: Lsn(7),
                payload_crc: checksum(&whole),
                payload: [&whole, &[]],
            };
            let at = writer.append(&[frame]).unwrap()[0];
            match LogFragment::read(writer.segment(), at) {
                Ok((fragment, groups)) => {
                    let cache = LogCache::new(0);
                    let again = Arc::new(fragment).groups(&cache).unwrap();
                    prop_assert_eq!(again, groups);
                }
                Err(error) => {
                    let named = matches!(&error, PageError::Corrupt(t) if t.contains("log-"));
                    prop_assert!(named, "{}", error);
                }
            }
        }
    }
}
