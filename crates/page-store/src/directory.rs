//! The log directory of a slice: for each page its versions on disk and the log records that are
//! still needed (taurus-2020 section 7).
//!
//! Invariants, with *R* the recycle LSN and a page's versions and records in LSN order:
//! - the page at an LSN L >= R is the greatest version at or below L plus the records between that
//!   version and L (P2, P3), and all of these are in the directory;
//! - a version is dropped when a newer one at or below R exists; a record when a version at or
//!   below R covers it, or a version with exactly its LSN exists (P8);
//! - what is dropped gives up its bytes in its segment or fragment at once;
//! - a page that was freed has, from then on, nothing to be read. On disk that is a version without
//!   bytes, a *tombstone*: without it the versions before, which may still lie in some file, would come
//!   back with a restart. It goes when no other file can hold one of them.
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

/// Bytes of a tombstone in a segment.
const TOMBSTONE: u64 = FRAME_HEADER as u64;

/// A page version on disk.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub lsn: Lsn,
    pub segment: Arc<Segment>,
    /// Offset of its frame.
    pub offset: u64,
    /// It is a tombstone: the page was freed.
    pub freed: bool,
}

impl Version {
    fn bytes(&self) -> u64 {
        if self.freed { TOMBSTONE } else { PAGE_FRAME }
    }
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
    /// It frees the page: there is nothing to be read until it is formatted again.
    pub frees: bool,
}

/// What the newest version of a page is, if it is not on disk.
#[derive(Debug)]
pub(crate) enum Newest {
    /// What this makes.
    Page(View),
    /// Nothing: the page was freed.
    Freed(Lsn),
}

/// What there is to do about a page after it was pruned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pruned {
    /// More can be dropped when the recycle LSN has reached the newest version.
    pub later: bool,
    /// Nothing is left of it but its tombstone.
    pub buried: bool,
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
    /// What is to be read of it: nothing if the page was freed last. What it was before that does not
    /// matter.
    fn readable(mut self) -> Option<Self> {
        self.base = self.base.filter(|base| !base.freed);
        match self.records.last() {
            Some(last) => (!last.frees).then_some(self),
            None => self.base.is_some().then_some(self),
        }
    }

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
    /// Pages whose newest version on disk is not a tombstone.
    pages: AtomicU64,
    tombstones: AtomicU64,
}

impl Directory {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            pages: AtomicU64::new(0),
            tombstones: AtomicU64::new(0),
        }
    }

    /// Number of pages with a version on disk that were not freed.
    pub(crate) fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    /// Bytes of tombstones.
    pub(crate) fn tombstone_bytes(&self) -> u64 {
        self.tombstones.load(Ordering::Relaxed) * TOMBSTONE
    }

    /// Counts a version that was added to an entry, or dropped from it.
    fn note(&self, entry: &Entry, was_live: bool) {
        match (was_live, entry.is_live()) {
            (false, true) => drop(self.pages.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(self.pages.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }

    fn retain(&self, version: &Version) {
        version.segment.retain(version.bytes());
        self.tombstones
            .fetch_add(u64::from(version.freed), Ordering::Relaxed);
    }

    fn release(&self, version: &Version) {
        version.segment.release(version.bytes());
        self.tombstones
            .fetch_sub(u64::from(version.freed), Ordering::Relaxed);
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
        let entry = shard.entry(page).or_default();
        let was_live = entry.is_live();
        let at = entry.versions.partition_point(|v| v.lsn < version.lsn);
        if entry.versions.get(at).is_none_or(|v| v.lsn != version.lsn) {
            self.retain(&version);
            entry.versions.insert(at, version);
            self.note(entry, was_live);
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
        View { base, records }.readable()
    }

    /// What makes the newest version of the page, if that is not on disk and not known to fail.
    pub(crate) fn pending(&self, page: PageId) -> Option<Newest> {
        let shard = self.shard(page);
        let entry = shard.get(&page).filter(|entry| !entry.broken)?;
        let base = entry.versions.last().cloned();
        let from = base.as_ref().map_or(Lsn(0), |v| v.lsn);
        let start = entry.records.partition_point(|r| r.lsn <= from);
        let records = entry.records[start..].to_vec();
        let last = records.last()?;
        if last.frees {
            return Some(Newest::Freed(last.lsn));
        }
        View { base, records }.readable().map(Newest::Page)
    }

    /// The page's log cannot be applied: stop trying.
    pub(crate) fn set_broken(&self, page: PageId) {
        if let Some(entry) = self.shard(page).get_mut(&page) {
            entry.broken = true;
        }
    }

    /// Adds a version that consolidation made durable and drops what is not needed above
    /// `recycle`.
    pub(crate) fn publish(
        &self,
        page: PageId,
        version: Version,
        recycle: Lsn,
        cache: &LogCache,
    ) -> Pruned {
        let mut shard = self.shard(page);
        let entry = shard.entry(page).or_default();
        let was_live = entry.is_live();
        let newer = entry.versions.last().is_none_or(|v| v.lsn < version.lsn);
        assert!(newer, "P3: {page} is consolidated to {} again", version.lsn);
        self.retain(&version);
        entry.versions.push(version);
        self.note(entry, was_live);
        self.prune_entry(entry, recycle, cache)
    }

    /// Drops what is not needed above `recycle`.
    pub(crate) fn prune(&self, page: PageId, recycle: Lsn, cache: &LogCache) -> Pruned {
        let mut shard = self.shard(page);
        let entry = shard.get_mut(&page);
        entry.map_or(Pruned::default(), |entry| {
            self.prune_entry(entry, recycle, cache)
        })
    }

    fn prune_entry(&self, entry: &mut Entry, recycle: Lsn, cache: &LogCache) -> Pruned {
        let old = entry
            .versions
            .partition_point(|v| v.lsn <= recycle)
            .saturating_sub(1);
        for version in entry.versions.drain(..old) {
            self.release(&version);
        }
        entry.prune_records(recycle, cache);
        entry.pruned(recycle)
    }

    /// The segment of a page's tombstone if nothing else is left of the page.
    pub(crate) fn grave(&self, page: PageId, recycle: Lsn) -> Option<u64> {
        let shard = self.shard(page);
        let entry = shard
            .get(&page)
            .filter(|entry| entry.pruned(recycle).buried)?;
        Some(entry.versions[0].segment.id().number)
    }

    /// True if no page has anything but a tombstone at or below the recycle LSN.
    pub(crate) fn is_needless(&self, recycle: Lsn) -> bool {
        let buried = |shard: &Mutex<Shard>| {
            let shard = shard.lock();
            shard.values().all(|entry| entry.pruned(recycle).buried)
        };
        self.pages() == 0 && self.shards.iter().all(buried)
    }

    /// Forgets a page of which nothing is left but its tombstone.
    pub(crate) fn forget(&self, page: PageId, recycle: Lsn) {
        let mut shard = self.shard(page);
        if let Some(entry) = shard.get(&page).filter(|e| e.pruned(recycle).buried) {
            self.release(&entry.versions[0]);
            shard.remove(&page);
        }
    }

    /// The version of the page that is in this place, if one is needed.
    pub(crate) fn version_at(
        &self,
        page: PageId,
        segment: &Segment,
        offset: u64,
    ) -> Option<Version> {
        let shard = self.shard(page);
        let mut versions = shard.get(&page)?.versions.iter();
        let found = versions.find(|v| v.offset == offset && v.segment.id() == segment.id());
        found.cloned()
    }

    /// The version at the first place is at the second now too; nothing happens if it is gone.
    pub(crate) fn relocate(&self, page: PageId, from: (&Segment, u64), to: (&Arc<Segment>, u64)) {
        let mut shard = self.shard(page);
        let Some(entry) = shard.get_mut(&page) else {
            return;
        };
        let there = |v: &&mut Version| v.offset == from.1 && v.segment.id() == from.0.id();
        if let Some(version) = entry.versions.iter_mut().find(there) {
            version.segment.release(version.bytes());
            to.0.retain(version.bytes());
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
    fn is_live(&self) -> bool {
        self.versions.last().is_some_and(|newest| !newest.freed)
    }

    fn prune_records(&mut self, recycle: Lsn, cache: &LogCache) {
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
    }

    /// What is left to do.
    fn pruned(&self, recycle: Lsn) -> Pruned {
        let is_alone = self.versions.len() == 1 && self.records.is_empty();
        let tombstone = self.versions.last().filter(|newest| newest.freed);
        let passed = tombstone.is_some_and(|tombstone| tombstone.lsn <= recycle);
        Pruned {
            later: !self.records.is_empty()
                || self.versions.len() > 1
                || tombstone.is_some() && !passed,
            buried: is_alone && passed,
        }
    }
}
