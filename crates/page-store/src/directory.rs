//! The log directory of a slice: for each page its versions on disk and the log records that are
//! still needed (taurus-2020 section 7).
//!
//! Invariants, with *R* the recycle LSN and a page's versions and records in LSN order:
//! - the page at an LSN L >= R is the greatest version at or below L plus the records between that
//!   version and L (P2, P3), and all of these are in the directory;
//! - a version is dropped when a newer one at or below R exists; a record when a version at or
//!   below R covers it, or a version with exactly its LSN exists (P8);
//! - what is dropped gives up its bytes in its segment or fragment at once.
//!
//! No I/O happens under a latch: readers take a [`View`] and work with that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use perigee_types::{Lsn, PAGE_SIZE, PageId};
use rustc_hash::FxHashMap;

use crate::fragment::{LogCache, LogFragment};
use crate::frame::FRAME_HEADER;
use crate::segment::Segment;

/// Bytes of a page version in a segment.
pub(crate) const PAGE_FRAME: u64 = (FRAME_HEADER + PAGE_SIZE) as u64;

/// Number of shards: more than there are threads that work in one slice.
const SHARDS: usize = 32;

/// A page version on disk.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub lsn: Lsn,
    pub segment: Arc<Segment>,
    /// Offset of its frame.
    pub offset: u64,
}

/// A page's part of one log group.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub lsn: Lsn,
    pub fragment: Arc<LogFragment>,
    /// Index of the group in the fragment.
    pub group: u32,
    /// Index of the change in the group.
    pub change: u16,
    /// It begins by formatting the page: what the page was before does not matter.
    pub formats: bool,
}

/// What makes a page version: records applied to a base.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// The newest version on disk that is not too new.
    pub base: Option<Version>,
    /// The records above it, in LSN order.
    pub records: Vec<Record>,
}

impl View {
    /// LSN of the page version it makes.
    pub(crate) fn lsn(&self) -> Option<Lsn> {
        let last = self.records.last().map(|r| r.lsn);
        last.or(self.base.as_ref().map(|v| v.lsn))
    }

    /// True if the records need not be read from disk.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.records.iter().all(|r| r.fragment.is_in_memory())
    }

    /// LSN of the base, 0 if there is none.
    pub(crate) fn base_lsn(&self) -> Lsn {
        self.base.as_ref().map_or(Lsn(0), |v| v.lsn)
    }
}

#[derive(Debug, Default)]
struct Entry {
    /// In LSN order.
    versions: Vec<Version>,
    /// In LSN order.
    records: Vec<Record>,
    /// Its log cannot be applied; it is not tried again in the background.
    broken: bool,
}

type Shard = FxHashMap<PageId, Entry>;

/// The log directory.
#[derive(Debug)]
pub(crate) struct Directory {
    shards: Vec<Mutex<Shard>>,
    /// Pages with a version on disk.
    pages: AtomicU64,
}

impl Directory {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            pages: AtomicU64::new(0),
        }
    }

    /// Number of pages with a version on disk.
    pub(crate) fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    /// Adds a record, which is newer than all that the page has.
    pub(crate) fn add_record(&self, page: PageId, record: Record) {
        let mut shard = self.shard(page);
        let records = &mut shard.entry(page).or_default().records;
        let in_order = records.last().is_none_or(|last| last.lsn < record.lsn);
        assert!(
            in_order,
            "P1: {page} gets {} after a newer record",
            record.lsn
        );
        records.push(record);
    }

    /// Adds a version that was found on disk; versions come in any order and may come twice.
    pub(crate) fn add_version(&self, page: PageId, version: Version) {
        let mut shard = self.shard(page);
        let versions = &mut shard.entry(page).or_default().versions;
        let at = versions.partition_point(|v| v.lsn < version.lsn);
        if versions.get(at).is_none_or(|v| v.lsn != version.lsn) {
            self.pages
                .fetch_add(u64::from(versions.is_empty()), Ordering::Relaxed);
            version.segment.retain(PAGE_FRAME);
            versions.insert(at, version);
        }
    }

    /// What makes the page as of `lsn`; `None` if nothing does.
    pub(crate) fn view(&self, page: PageId, lsn: Lsn) -> Option<View> {
        let shard = self.shard(page);
        let entry = shard.get(&page)?;
        let base = entry.versions.iter().rev().find(|v| v.lsn <= lsn).cloned();
        let from = base.as_ref().map_or(Lsn(0), |v| v.lsn);
        let records = &entry.records;
        let (start, end) = (
            records.partition_point(|r| r.lsn <= from),
            records.partition_point(|r| r.lsn <= lsn),
        );
        let records = records[start..end].to_vec();
        (base.is_some() || !records.is_empty()).then_some(View { base, records })
    }

    /// What makes the newest version of the page, if that is not on disk and not known to fail.
    pub(crate) fn pending(&self, page: PageId) -> Option<View> {
        let shard = self.shard(page);
        let entry = shard.get(&page).filter(|entry| !entry.broken)?;
        let base = entry.versions.last().cloned();
        let from = base.as_ref().map_or(Lsn(0), |v| v.lsn);
        let start = entry.records.partition_point(|r| r.lsn <= from);
        let records = entry.records[start..].to_vec();
        (!records.is_empty()).then_some(View { base, records })
    }

    /// The page's log cannot be applied: stop trying.
    pub(crate) fn set_broken(&self, page: PageId) {
        if let Some(entry) = self.shard(page).get_mut(&page) {
            entry.broken = true;
        }
    }

    /// Adds a version that consolidation made durable and drops what is not needed above
    /// `recycle`. True if more can be dropped when the recycle LSN has reached this version.
    pub(crate) fn publish(
        &self,
        page: PageId,
        version: Version,
        recycle: Lsn,
        cache: &LogCache,
    ) -> bool {
        let mut shard = self.shard(page);
        let entry = shard.entry(page).or_default();
        let newer = entry.versions.last().is_none_or(|v| v.lsn < version.lsn);
        assert!(newer, "P3: {page} is consolidated to {} again", version.lsn);
        self.pages
            .fetch_add(u64::from(entry.versions.is_empty()), Ordering::Relaxed);
        version.segment.retain(PAGE_FRAME);
        entry.versions.push(version);
        entry.prune(recycle, cache)
    }

    /// Drops what is not needed above `recycle`. True if more can be dropped later.
    pub(crate) fn prune(&self, page: PageId, recycle: Lsn, cache: &LogCache) -> bool {
        let mut shard = self.shard(page);
        shard
            .get_mut(&page)
            .is_some_and(|entry| entry.prune(recycle, cache))
    }

    /// True if the page has a version in this place.
    pub(crate) fn is_at(&self, page: PageId, segment: &Segment, offset: u64) -> bool {
        let shard = self.shard(page);
        let versions = shard.get(&page).map_or(&[][..], |entry| &entry.versions);
        versions
            .iter()
            .any(|v| v.offset == offset && v.segment.id() == segment.id())
    }

    /// The version at the first place is at the second now too; nothing happens if it is gone.
    pub(crate) fn relocate(&self, page: PageId, from: (&Segment, u64), to: (&Arc<Segment>, u64)) {
        let mut shard = self.shard(page);
        let Some(entry) = shard.get_mut(&page) else {
            return;
        };
        let there = |v: &&mut Version| v.offset == from.1 && v.segment.id() == from.0.id();
        if let Some(version) = entry.versions.iter_mut().find(there) {
            version.segment.release(PAGE_FRAME);
            to.0.retain(PAGE_FRAME);
            (version.segment, version.offset) = (to.0.clone(), to.1);
        }
    }

    /// All pages, in id order.
    pub(crate) fn page_ids(&self) -> Vec<PageId> {
        let mut ids: Vec<_> = self
            .shards
            .iter()
            .flat_map(|s| s.lock().keys().copied().collect::<Vec<_>>())
            .collect();
        ids.sort_unstable();
        ids
    }

    /// LSNs of a page's versions and of its records.
    pub(crate) fn lsns(&self, page: PageId) -> (Vec<Version>, Vec<Lsn>) {
        let shard = self.shard(page);
        shard.get(&page).map_or_else(Default::default, |entry| {
            let records = entry.records.iter().map(|r| r.lsn).collect();
            (entry.versions.clone(), records)
        })
    }

    fn shard(&self, page: PageId) -> MutexGuard<'_, Shard> {
        // Extents of 64 pages go round the slices; within one, neighbours go round the shards.
        self.shards[page.0 as usize % SHARDS].lock()
    }
}

impl Entry {
    fn prune(&mut self, recycle: Lsn, cache: &LogCache) -> bool {
        let old = self
            .versions
            .partition_point(|v| v.lsn <= recycle)
            .saturating_sub(1);
        for version in self.versions.drain(..old) {
            version.segment.release(PAGE_FRAME);
        }
        let base = self
            .versions
            .first()
            .map(|v| v.lsn)
            .filter(|lsn| *lsn <= recycle);
        let versions = &self.versions;
        self.records.retain(|record| {
            let covered = base.is_some_and(|base| record.lsn <= base)
                || versions
                    .binary_search_by_key(&record.lsn, |v| v.lsn)
                    .is_ok();
            if covered {
                record.fragment.release(cache);
            }
            !covered
        });
        if self.records.is_empty() {
            // Most pages are quiet most of the time.
            self.records = Vec::new();
        }
        self.versions.len() > 1 || !self.records.is_empty()
    }
}
