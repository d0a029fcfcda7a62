//! Page allocation: extents of consecutive pages, so that the leaves of an index lie together and
//! a batch read of neighbours goes to one slice per extent.
//!
//! What is used and what is free says the space map ([`crate::space`]), which changes in the
//! mini-transactions that use and free pages. The superblock has one number more, the first page
//! that was never handed out. Beside the map there are lists in memory, of the extents with
//! free pages and of those that are free; a start makes them anew.
//!
//! Invariants:
//! - who changes the map holds the latch of the superblock, from before he looks at it until he
//!   has his LSN: so a page is used in log groups above the one that freed it, and pages of the
//!   map are latched in any order;
//! - the lists say of an extent what the map says, but for extents that a build has for itself;
//! - a page that is made gets a frame of its own, and what is on its way to the pool under its id does
//!   not come in: it is what the page was before it was freed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use perigee_page::{HEADER_LEN, PageKind, PageRef, RecordShape};
use perigee_redo::{Change, Op};
use perigee_sal::SUPERBLOCK_RESERVED;
use perigee_types::{IndexId, PageId};

use super::{Latched, Mtr};
use crate::EngineError;
use crate::buffer::{Access, BufferPool, Frame};
use crate::space::{EXTENT, Entry, ExtentUse, MAPPED, Owner, Retired};
use crate::space::{bit_of, extent_of, map_page};

/// Offset in the superblock of the first page that was never handed out; 0 in a new database.
pub(crate) const NEXT_PAGE: usize = HEADER_LEN + SUPERBLOCK_RESERVED;

/// Index id that pages outside of trees carry.
const NO_INDEX: IndexId = IndexId(0);

/// Owner of the extents that begin with a page of the map.
const SYSTEM: Owner = (NO_INDEX, ExtentUse::System);

/// Pages of the map that are read at a time.
const MAPS_AT_ONCE: usize = 64;

/// What there is to be handed out, and who has what.
#[derive(Debug, Default)]
pub(crate) struct Allocator {
    state: Mutex<State>,
    retired: Arc<Retired>,
}

#[derive(Debug, Default)]
struct State {
    /// The pages of the map, which stay in the pool.
    maps: Vec<Arc<Frame>>,
    /// Extents with free pages that all of their owner may use.
    open: HashMap<Owner, BTreeSet<u64>>,
    /// All extents that are not free, by index.
    owned: HashMap<IndexId, BTreeSet<u64>>,
    /// Low ones are taken first, so that the last slices get empty.
    free: BTreeSet<u64>,
}

impl Allocator {
    /// Reads the map, or makes it in a new database.
    pub(crate) async fn open(pool: &BufferPool) -> Result<(), EngineError> {
        let next = pool.superblock().read(first_unused) / EXTENT;
        if next == 0 {
            pool.admit().await?;
            let mut mtr = Mtr::new(pool);
            mtr.make_map();
            let _ = mtr.commit();
            return Ok(());
        }
        let ids: Vec<_> = (0..next.div_ceil(MAPPED)).map(map_page).collect();
        for ids in ids.chunks(MAPS_AT_ONCE) {
            let frames = pool.fetch_many(ids, Access::Point).await?;
            let mut state = pool.allocator().state.lock();
            for frame in frames {
                let first = extent_of(frame.id());
                for extent in first..next.min(first + MAPPED) {
                    let entry = frame.read(|page| Entry::read(page, extent));
                    let damaged = || {
                        let page = frame.id();
                        EngineError::Corrupt(format!("space map {page}: extent {extent}"))
                    };
                    state.note(extent, entry.ok_or_else(damaged)?);
                }
                state.maps.push(frame);
            }
        }
        Ok(())
    }

    /// Trees that are no longer needed.
    pub(crate) fn retired(&self) -> &Arc<Retired> {
        &self.retired
    }

    /// True if a page that is never freed was made.
    pub(crate) fn has_made(&self, page: PageId) -> bool {
        let extent = extent_of(page);
        let entry = self.map_of(extent).read(|map| Entry::read(map, extent));
        entry.is_some_and(|entry| entry.used & bit_of(page) != 0)
    }

    /// Lets an owner's mini-transactions use what is left of an extent that a build had for itself.
    /// Nothing happens if the extent is the owner's no more.
    pub(crate) fn give(&self, owner: Owner, extent: u64) {
        let mut state = self.state.lock();
        let owned = state.owned.get(&owner.0);
        if owned.is_some_and(|owned| owned.contains(&extent)) {
            state.open.entry(owner).or_default().insert(extent);
        }
    }

    /// The indexes that have extents.
    pub(crate) fn indexes(&self) -> Vec<IndexId> {
        self.state.lock().owned.keys().copied().collect()
    }

    /// The extents of an index, at most so many.
    pub(crate) fn extents_of(&self, index: IndexId, most: usize) -> Vec<u64> {
        let state = self.state.lock();
        let extents = state.owned.get(&index).into_iter().flatten();
        extents.take(most).copied().collect()
    }

    fn map_of(&self, extent: u64) -> Arc<Frame> {
        self.state.lock().maps[(extent / MAPPED) as usize].clone()
    }
}

impl State {
    /// Takes note of what the map says of an extent.
    fn note(&mut self, extent: u64, entry: Entry) {
        let Some(owner) = entry.owner else {
            self.free.insert(extent);
            return;
        };
        if owner == SYSTEM {
            return;
        }
        self.owned.entry(owner.0).or_default().insert(extent);
        if entry.used != u64::MAX {
            self.open.entry(owner).or_default().insert(extent);
        }
    }

    fn close(&mut self, owner: Owner, extent: u64) {
        if let Some(open) = self.open.get_mut(&owner) {
            open.remove(&extent);
            if open.is_empty() {
                self.open.remove(&owner);
            }
        }
    }

    /// The extent is not this owner's any more.
    fn leave(&mut self, owner: Owner, extent: u64) {
        self.close(owner, extent);
        if let Some(owned) = self.owned.get_mut(&owner.0) {
            owned.remove(&extent);
            if owned.is_empty() {
                self.owned.remove(&owner.0);
            }
        }
    }
}

impl Mtr<'_> {
    /// A page to make, latched: existing pages have to be latched before. Its first operation must be a
    /// format.
    pub(crate) fn make(&mut self, index: IndexId, purpose: ExtentUse) -> Latched {
        let owner = (index, purpose);
        let extent = self.open_extent(owner);
        let mut entry = self.entry(extent);
        assert_eq!(
            entry.owner,
            Some(owner),
            "MTR: extent {extent} is another's"
        );
        let bit = u64::from((!entry.used).trailing_zeros());
        entry.used |= 1 << bit;
        self.set_entry(extent, entry);
        if entry.used == u64::MAX {
            self.pool.allocator().state.lock().close(owner, extent);
        }
        self.create(PageId(extent * EXTENT + bit), index)
    }

    /// Frees a latched page that nothing leads to any more.
    pub(crate) fn free(&mut self, page: Latched) {
        let id = self.frame(page).id();
        self.apply(page, Op::Free);
        let extent = extent_of(id);
        let mut entry = self.entry(extent);
        let owner = entry.owner.expect("MTR: a page of a free extent is freed");
        assert!(entry.used & bit_of(id) != 0, "MTR: {id} is freed twice");
        entry.used &= !bit_of(id);
        if entry.used == 0 {
            self.free_extent(extent);
            return;
        }
        self.set_entry(extent, entry);
        let mut state = self.pool.allocator().state.lock();
        state.open.entry(owner).or_default().insert(extent);
    }

    /// An extent for the caller alone, until [`Allocator::give`].
    pub(crate) fn take_extent(&mut self, owner: Owner) -> u64 {
        let free = {
            self.latch_superblock();
            self.pool.allocator().state.lock().free.pop_first()
        };
        let extent = free.unwrap_or_else(|| self.raise());
        let entry = Entry {
            owner: Some(owner),
            used: 0,
        };
        self.set_entry(extent, entry);
        let mut state = self.pool.allocator().state.lock();
        state.owned.entry(owner.0).or_default().insert(extent);
        extent
    }

    /// Notes that pages of extents that the caller has for itself, or fixed ones, are in use.
    pub(crate) fn note_used(&mut self, pages: &[PageId]) {
        for pages in pages.chunk_by(|a, b| extent_of(*a) == extent_of(*b)) {
            let extent = extent_of(pages[0]);
            let mut entry = self.entry(extent);
            entry.used |= pages.iter().fold(0, |bits, page| bits | bit_of(*page));
            self.set_entry(extent, entry);
        }
    }

    /// Frees an extent with all pages in it, which nobody uses any more; none of them is latched.
    pub(crate) fn free_extent(&mut self, extent: u64) {
        let entry = self.entry(extent);
        self.free_unread(extent, entry, |_| true);
        self.set_entry(extent, Entry::default());
        let mut state = self.pool.allocator().state.lock();
        state.leave(entry.owner.expect("MTR: a free extent is freed"), extent);
        state.free.insert(extent);
    }

    /// Frees all pages of an extent but one that stays; the extent, too, if that is not in it.
    pub(crate) fn free_extent_but(&mut self, extent: u64, stays: PageId) {
        if extent != extent_of(stays) {
            return self.free_extent(extent);
        }
        let mut entry = self.entry(extent);
        let owner = entry.owner.expect("MTR: pages of a free extent are freed");
        self.free_unread(extent, entry, |page| page != stays);
        entry.used &= bit_of(stays);
        self.set_entry(extent, entry);
        let mut state = self.pool.allocator().state.lock();
        state.open.entry(owner).or_default().insert(extent);
    }

    /// Gives an extent to another owner, who gets nothing new from it.
    pub(crate) fn give_away(&mut self, extent: u64, to: Owner) {
        let entry = self.entry(extent);
        let before = entry.owner.expect("MTR: a free extent is given away");
        let owner = Some(to);
        self.set_entry(extent, Entry { owner, ..entry });
        let mut state = self.pool.allocator().state.lock();
        state.leave(before, extent);
        state.owned.entry(to.0).or_default().insert(extent);
    }

    /// What the map says of an extent; nobody else changes it before this mini-transaction ends.
    pub(crate) fn entry(&mut self, extent: u64) -> Entry {
        let map = self.latch_map(extent);
        let entry = Entry::read(self.page(map), extent);
        entry.expect("checked when the map was read")
    }

    fn set_entry(&mut self, extent: u64, entry: Entry) {
        let map = self.latch_map(extent);
        self.apply(map, entry.write(extent));
    }

    fn free_unread(&mut self, extent: u64, entry: Entry, goes: impl Fn(PageId) -> bool) {
        for page in entry.pages(extent).filter(|page| goes(*page)) {
            // Its frame, if it has one, is one of those that are latched and applied to.
            if self.pages.iter().all(|latched| latched.frame.id() != page) {
                let ops = vec![Op::Free];
                self.log_unread(Change { page, ops });
            }
        }
    }

    /// An extent with a free page.
    fn open_extent(&mut self, owner: Owner) -> u64 {
        self.latch_superblock();
        let open = {
            let state = self.pool.allocator().state.lock();
            let open = state.open.get(&owner);
            open.and_then(|open| open.first().copied())
        };
        open.unwrap_or_else(|| {
            let extent = self.take_extent(owner);
            self.pool.allocator().give(owner, extent);
            extent
        })
    }

    /// The next extent that was never handed out. Those that begin with a page of the map are for that.
    fn raise(&mut self) -> u64 {
        let superblock = self.latch_superblock();
        let mut extent = first_unused(self.page(superblock)) / EXTENT;
        if extent.is_multiple_of(MAPPED) {
            self.make_map();
            extent += 1;
        }
        self.set_next(extent + 1);
        extent
    }

    /// Makes the next page of the map. In a new database that is the first one.
    fn make_map(&mut self) {
        let superblock = self.latch_superblock();
        let extent = first_unused(self.page(superblock)) / EXTENT;
        let id = map_page(extent / MAPPED);
        let map = self.create(id, NO_INDEX);
        let none = PageId(0);
        let format = Op::Format {
            kind: PageKind::Meta,
            level: 0,
            db: self.db(),
            index: NO_INDEX,
            shape: RecordShape::default(),
            prev: none,
            next: none,
        };
        self.apply(map, format);
        let superblock = if extent == 0 {
            bit_of(perigee_sal::SUPERBLOCK)
        } else {
            0
        };
        let entry = Entry {
            owner: Some(SYSTEM),
            used: bit_of(id) | superblock,
        };
        self.apply(map, entry.write(extent));
        self.maps.push((extent / MAPPED, map));
        let frame = self.frame(map).clone();
        self.pool.allocator().state.lock().maps.push(frame);
        self.set_next(extent + 1);
    }

    /// All extents before this one were handed out.
    fn set_next(&mut self, extent: u64) {
        let superblock = self.latch_superblock();
        let bytes = Bytes::copy_from_slice(&(extent * EXTENT).to_le_bytes());
        let offset = NEXT_PAGE as u16;
        self.apply(superblock, Op::Write { offset, bytes });
    }

    fn latch_map(&mut self, extent: u64) -> Latched {
        self.latch_superblock();
        let number = extent / MAPPED;
        if let Some((_, map)) = self.maps.iter().find(|(n, _)| *n == number) {
            return *map;
        }
        let frame = self.pool.allocator().map_of(extent);
        let map = self.latch_page(frame);
        self.maps.push((number, map));
        map
    }

    fn latch_superblock(&mut self) -> Latched {
        if let Some(latched) = self.superblock {
            return latched;
        }
        let frame = self.pool.superblock().clone();
        let latched = self.latch_page(frame);
        self.superblock = Some(latched);
        latched
    }
}

/// The first page that was never handed out, according to the superblock.
pub(crate) fn first_unused(superblock: PageRef<'_>) -> u64 {
    let bytes = &superblock.bytes()[NEXT_PAGE..][..size_of::<u64>()];
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}
