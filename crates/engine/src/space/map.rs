//! The space map: for each extent what it is for, and which of its pages are in use
//! (`docs/format/superblock.md`). It lies in pages like everything else and changes in the log groups
//! that use or free pages, so a crash leaves it right.
//!
//! ```text
//! page of the map    its extents, 1,000 of them, 16 bytes each from the start of the body on
//!
//! extent   0  4  index, 0 if it belongs to none
//!          4  1  what its pages are for; 0 if the extent is free
//!          5  3  0
//!          8  8  which of its 64 pages are in use; bit 0 is the first one
//! ```
//!
//! The first page of the map is page 4; those after it are the first pages of the extents 1,000, 2,000 and
//! so on.

use bytes::Bytes;
use perigee_page::{HEADER_LEN, PageRef};
use perigee_redo::Op;
use perigee_sal::Geometry;
use perigee_types::{IndexId, PageId};

/// Pages of an extent.
pub const EXTENT: u64 = Geometry::EXTENT_PAGES as u64;

/// Extents that a page of the map tells of: as many as fit, rounded down to a number that people can
/// calculate with.
pub const MAPPED: u64 = 1000;

/// The first page of the map.
const FIRST_MAP: PageId = PageId(4);

const ENTRY_LEN: usize = 16;
const PURPOSE: usize = 4;
const USED: usize = 8;

/// Extents of a tree that was emptied, before they are free: nobody's.
pub(crate) const ABANDONED: IndexId = IndexId(u32::MAX);

/// What the pages of an extent are for: leaves lie together, without inner pages in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExtentUse {
    /// Leaves of an index.
    Leaf = 1,
    /// Inner pages of an index, and its root.
    Inner = 2,
    /// Chains of long values.
    Overflow = 3,
    /// Undo.
    Undo = 4,
    /// Superblock, system page, root of the catalog, the map itself.
    System = 5,
}

impl ExtentUse {
    fn from_u8(n: u8) -> Option<Self> {
        let all = [
            Self::Leaf,
            Self::Inner,
            Self::Overflow,
            Self::Undo,
            Self::System,
        ];
        all.into_iter().find(|purpose| *purpose as u8 == n)
    }
}

/// Whose an extent is, and for what.
pub(crate) type Owner = (IndexId, ExtentUse);

/// What the map says of an extent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// `None` if it is free.
    pub owner: Option<Owner>,
    /// A bit for each page in use.
    pub used: u64,
}

impl Entry {
    /// What a page of the map says of one of its extents; `None` if that means nothing.
    pub fn read(page: PageRef<'_>, extent: u64) -> Option<Self> {
        let at = offset(extent);
        let bytes: &[u8; ENTRY_LEN] = page.bytes()[at..].first_chunk()?;
        let index = IndexId(u32::from_le_bytes(*bytes.first_chunk()?));
        let used = u64::from_le_bytes(*bytes[USED..].first_chunk()?);
        let owner = match bytes[PURPOSE] {
            0 if index == IndexId(0) && used == 0 => None,
            n => Some((index, ExtentUse::from_u8(n)?)),
        };
        Some(Self { owner, used })
    }

    /// What says this of an extent in its page of the map.
    pub fn write(self, extent: u64) -> Op {
        let mut bytes = [0; ENTRY_LEN];
        if let Some((index, purpose)) = self.owner {
            bytes[..PURPOSE].copy_from_slice(&index.0.to_le_bytes());
            bytes[PURPOSE] = purpose as u8;
        }
        bytes[USED..].copy_from_slice(&self.used.to_le_bytes());
        Op::Write {
            offset: offset(extent) as u16,
            bytes: Bytes::copy_from_slice(&bytes),
        }
    }

    /// The pages of the extent that are in use.
    pub fn pages(self, extent: u64) -> impl Iterator<Item = PageId> {
        let bits = (0..EXTENT).filter(move |bit| self.used & (1 << bit) != 0);
        bits.map(move |bit| PageId(extent * EXTENT + bit))
    }
}

fn offset(extent: u64) -> usize {
    HEADER_LEN + (extent % MAPPED) as usize * ENTRY_LEN
}

/// The extent of a page.
pub(crate) fn extent_of(page: PageId) -> u64 {
    page.0 / EXTENT
}

/// The bit of a page in its extent's entry.
pub(crate) fn bit_of(page: PageId) -> u64 {
    1 << (page.0 % EXTENT)
}

/// The page of the map with this number.
pub(crate) fn map_page(number: u64) -> PageId {
    match number {
        0 => FIRST_MAP,
        n => PageId(n * MAPPED * EXTENT),
    }
}

#[cfg(test)]
mod tests {
    use perigee_page::{PageKind, RecordShape};
    use perigee_redo::apply;
    use perigee_types::{DbId, PAGE_SIZE};

    use super::*;

    #[test]
    fn entries_are_read_back_and_do_not_touch_their_neighbours() {
        let mut page = Box::new([0; PAGE_SIZE]);
        let format = Op::Format {
            kind: PageKind::Meta,
            level: 0,
            db: DbId(1),
            index: IndexId(0),
            shape: RecordShape::default(),
            prev: PageId(0),
            next: PageId(0),
        };
        apply(&mut page, FIRST_MAP, &format).expect("formats");
        let entry = |n: u64| Entry {
            owner: Some((IndexId(n as u32), ExtentUse::Overflow)),
            used: u64::MAX - n,
        };
        for extent in 0..MAPPED {
            apply(&mut page, FIRST_MAP, &entry(extent).write(extent)).expect("fits");
        }
        let found = |page: &[u8; PAGE_SIZE], extent| {
            Entry::read(PageRef::new(&page[..]).expect("a page"), extent)
        };
        for extent in 0..MAPPED {
            assert_eq!(found(&page, extent), Some(entry(extent)));
        }
        apply(&mut page, FIRST_MAP, &Entry::default().write(7)).expect("fits");
        assert_eq!(found(&page, 7), Some(Entry::default()));
        assert_eq!(found(&page, 8), Some(entry(8)));
        page[offset(9) + PURPOSE] = 77;
        assert_eq!(found(&page, 9), None, "an unknown use");
    }

    #[test]
    fn a_page_of_the_map_lies_in_the_first_extent_that_it_tells_of() {
        for number in [0, 1, 2, 77] {
            assert_eq!(extent_of(map_page(number)), number * MAPPED);
        }
    }
}
