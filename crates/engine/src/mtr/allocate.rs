//! Page allocation: extents of consecutive pages, so that the leaves of an index lie together and
//! a batch read of neighbours goes to one slice per extent.
//!
//! The superblock has one number, the first page that was never handed out. An extent is taken by
//! raising it, in the mini-transaction that uses the extent's first page. What is left of extents
//! is remembered in memory only: after a restart the rest is not used, which costs numbers, not
//! storage. Pages of dropped tables are not handed out again.
//!
//! A page that a mini-transaction frees is used again by the same owner, and is remembered in memory
//! only, too. While it is free it is of kind meta, so that a tree that leads to it is found corrupt.
//!
//! Invariants:
//! - a page of an extent is used only in log groups at or above the LSN of the one that took the
//!   extent, and a freed page in groups above the one that freed it; otherwise a crash between the
//!   two could leave a page in two places;
//! - a freed page is used again in its own frame: whoever uses it has it resident and latched before
//!   the first change, so that no flight brings the page of before over the new one;
//! - pages of a tree are freed and used again under one lock, its exclusive tree latch; who takes
//!   freed pages of a chain has them for itself.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use perigee_page::{HEADER_LEN, PageKind, PageRef, RecordShape};
use perigee_redo::Op;
use perigee_sal::{Geometry, SUPERBLOCK_RESERVED};
use perigee_types::{IndexId, PageId};

use super::{Latched, Mtr};
use crate::buffer::Frame;

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
    /// Chains of long values.
    Overflow,
    /// Everything else.
    Other,
}

pub(crate) type Owner = (IndexId, ExtentUse);

/// What is left of extents, by owner.
pub(super) type Extents = HashMap<Owner, Vec<Range<u64>>>;

/// Freed pages of an owner that are remembered: half a megabyte of numbers for a gigabyte of pages.
/// The numbers of more are lost.
const MAX_FREED: usize = 1 << 16;

/// What is left of extents that all may use, and freed pages.
#[derive(Debug, Default)]
pub(crate) struct Allocator {
    free: Mutex<Extents>,
    freed: Mutex<HashMap<Owner, Vec<PageId>>>,
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

    /// Forgets what there is for an index that is dropped.
    pub(crate) fn forget(&self, index: IndexId) {
        self.free.lock().retain(|(of, _), _| *of != index);
        self.freed.lock().retain(|(of, _), _| *of != index);
    }

    /// At most `most` freed pages of an owner, those freed last, which are the likeliest to be in the
    /// pool. They stay in the list until they are used.
    pub(crate) fn freed(&self, owner: Owner, most: usize) -> Vec<PageId> {
        let freed = self.freed.lock();
        let pages = freed.get(&owner).into_iter().flatten();
        pages.rev().take(most).copied().collect()
    }

    /// At most `most` freed pages of an owner, for the caller alone.
    pub(crate) fn take_freed(&self, owner: Owner, most: usize) -> Vec<PageId> {
        let mut freed = self.freed.lock();
        let Some(freed) = freed.get_mut(&owner) else {
            return Vec::new();
        };
        let rest = freed.len() - most.min(freed.len());
        freed.split_off(rest)
    }

    pub(super) fn publish_freed(&self, pages: &mut Vec<(Owner, PageId)>) {
        if pages.is_empty() {
            return;
        }
        let mut freed = self.freed.lock();
        for (owner, page) in pages.drain(..) {
            let freed = freed.entry(owner).or_default();
            if freed.len() < MAX_FREED {
                freed.push(page);
            }
        }
    }

    fn remove_freed(&self, owner: Owner, page: PageId) {
        let mut freed = self.freed.lock();
        let Some(freed) = freed.get_mut(&owner) else {
            return;
        };
        if let Some(at) = freed.iter().rposition(|freed| *freed == page) {
            freed.remove(at);
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
    /// A page to make, latched: a freed one that was latched for this, or one that was never used.
    /// Existing pages have to be latched before; its first operation must be a format.
    pub(crate) fn make(&mut self, index: IndexId, purpose: ExtentUse) -> Latched {
        let spare = self.spares.iter().position(|(of, _)| *of == purpose);
        if let Some(spare) = spare {
            let (_, page) = self.spares.swap_remove(spare);
            let id = self.frame(page).id();
            self.pool.allocator().remove_freed((index, purpose), id);
            return page;
        }
        let id = self.allocate(index, purpose);
        self.create(id, index)
    }

    /// Latches a freed page for [`Mtr::make`], before the first change. It stays free if it turns out
    /// not to be needed.
    ///
    /// # Panics
    /// As [`Mtr::latch`].
    pub(crate) fn latch_spare(&mut self, frame: &Arc<Frame>, purpose: ExtentUse) {
        let page = self.latch(frame);
        self.spares.push((purpose, page));
    }

    /// Frees a latched page that nothing leads to any more.
    pub(crate) fn free(&mut self, page: Latched, purpose: ExtentUse) {
        let frame = self.frame(page);
        let (id, index) = (frame.id(), frame.index());
        let none = PageId(0);
        self.apply(
            page,
            Op::Format {
                kind: PageKind::Meta,
                level: 0,
                db: self.pool.sal().db(),
                index,
                shape: RecordShape::default(),
                prev: none,
                next: none,
            },
        );
        self.freed.push(((index, purpose), id));
    }

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

    fn raise(&mut self, superblock: Latched) -> Range<u64> {
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
fn first_unused(superblock: PageRef<'_>) -> u64 {
    let bytes = &superblock.bytes()[NEXT_PAGE..][..size_of::<u64>()];
    let next = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    next.max(FIRST_EXTENT.0)
}
