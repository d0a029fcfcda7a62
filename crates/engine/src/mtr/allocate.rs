//! Page allocation: extents of consecutive pages, so that the leaves of an index lie together and
//! a batch read of neighbours goes to one slice per extent.
//!
//! The superblock has one number, the first page that was never handed out. An extent is taken by
//! raising it, in the mini-transaction that uses the extent's first page. What is left of extents
//! is remembered in memory only: after a restart the rest is not used, which costs numbers, not
//! storage. Pages of dropped tables are not handed out again.
//!
//! Invariant: a page of an extent is used only in log groups at or above the LSN of the one that
//! took the extent; otherwise a crash between the two could hand the page out twice.

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;
use parking_lot::Mutex;
use perigee_page::{HEADER_LEN, PageRef};
use perigee_redo::Op;
use perigee_sal::{Geometry, SUPERBLOCK_RESERVED};
use perigee_types::{IndexId, PageId};

use super::Mtr;

/// Pages of an extent.
pub const EXTENT: u64 = Geometry::EXTENT_PAGES as u64;

/// First page that is handed out. Pages below are fixed: 1 is the superblock, the rest is for the
/// engine's system pages.
pub const FIRST_EXTENT: PageId = PageId(EXTENT);

/// Offset in the superblock of the first page that was never handed out; 0 stands for
/// [`FIRST_EXTENT`].
const NEXT_PAGE: usize = HEADER_LEN + SUPERBLOCK_RESERVED;

/// What the pages of an extent are for: leaves lie together, without inner pages in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExtentUse {
    /// Leaves of an index.
    Leaf,
    /// Inner pages of an index.
    Inner,
    /// Everything else.
    Other,
}

pub(crate) type Owner = (IndexId, ExtentUse);

/// What is left of extents, by owner.
pub(super) type Extents = HashMap<Owner, Vec<Range<u64>>>;

/// What is left of extents that all may use.
#[derive(Debug, Default)]
pub(crate) struct Allocator {
    free: Mutex<Extents>,
}

impl Allocator {
    pub(super) fn publish(&self, extents: Extents) {
        if extents.is_empty() {
            return;
        }
        let mut free = self.free.lock();
        for (owner, ranges) in extents {
            free.entry(owner).or_default().extend(ranges);
        }
    }

    /// Lets an owner's mini-transactions use pages of an extent that was taken before.
    pub(crate) fn give(&self, owner: Owner, range: Range<u64>) {
        if !range.is_empty() {
            self.free.lock().entry(owner).or_default().push(range);
        }
    }

    fn take(&self, owner: Owner) -> Option<PageId> {
        take(&mut self.free.lock(), owner)
    }
}

fn take(extents: &mut Extents, owner: Owner) -> Option<PageId> {
    let ranges = extents.get_mut(&owner)?;
    let page = ranges
        .last_mut()?
        .next()
        .expect("what is left is not empty");
    ranges.retain(|r| !r.is_empty());
    Some(PageId(page))
}

impl Mtr<'_> {
    /// The id of a page that was never used. Existing pages have to be latched before.
    pub fn allocate(&mut self, index: IndexId, purpose: ExtentUse) -> PageId {
        let owner = (index, purpose);
        if let Some(page) = take(&mut self.extents, owner) {
            return page;
        }
        if let Some(page) = self.pool.allocator().take(owner) {
            return page;
        }
        let superblock = self.latch_superblock();
        // Somebody may have taken an extent while we waited for the latch.
        if let Some(page) = self.pool.allocator().take(owner) {
            return page;
        }
        let mut extent = self.raise(superblock);
        let page = extent.next().expect("an extent has pages");
        self.extents.entry(owner).or_default().push(extent);
        PageId(page)
    }

    /// An extent that was never used, for the caller alone once this mini-transaction has its LSN.
    pub(crate) fn allocate_extent(&mut self) -> Range<u64> {
        let superblock = self.latch_superblock();
        self.raise(superblock)
    }

    fn raise(&mut self, superblock: super::Latched) -> Range<u64> {
        let next = first_unused(self.page(superblock));
        let bytes = Bytes::copy_from_slice(&(next + EXTENT).to_le_bytes());
        self.apply(
            superblock,
            Op::Write {
                offset: NEXT_PAGE as u16,
                bytes,
            },
        );
        next..next + EXTENT
    }

    fn latch_superblock(&mut self) -> super::Latched {
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
fn first_unused(superblock: PageRef<'_>) -> u64 {
    let bytes = &superblock.bytes()[NEXT_PAGE..][..size_of::<u64>()];
    let next = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    next.max(FIRST_EXTENT.0)
}
