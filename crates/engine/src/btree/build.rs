//! Building a tree from sorted records, bottom up: a bulk load through the log.
//!
//! Each page is one Format and one Insert, about a megabyte of pages a log group. The pages are not
//! made in this frontend at all: nobody can reach them until the root is linked, and that is after
//! they are on their Page Stores (so the first reader finds them there, invariant P9). A build that
//! is dropped leaves pages that nothing leads to: they are freed with the tree, or when it is cleared.

use std::ops::Range;

use bytes::Bytes;
use perigee_page::inner_record;
use perigee_redo::{Change, Op};
use perigee_types::{Lsn, PageId, TrxId};

use super::split::extent_use;
use super::{MAX_KEY_LEN, MAX_RECORD_LEN, PAGE_ROOM, SLOT_LEN, Tree};
use crate::buffer::Access;
use crate::mtr::{EXTENT, ExtentUse, Mtr};
use crate::space::{ABANDONED, extent_of};
use crate::{EngineError, errand};

/// Pages of one log group.
const GROUP_PAGES: usize = EXTENT as usize;

/// What a build made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Built {
    /// Records.
    pub records: u64,
    /// Leaf pages.
    pub leaf_pages: u64,
    /// All pages.
    pub pages: u64,
    /// Levels, 1 if the root is a leaf.
    pub height: u8,
    /// LSN of the log group that links the tree.
    pub lsn: Lsn,
}

/// Records for one page.
#[derive(Debug, Default)]
struct Filling {
    records: Vec<u8>,
    used: usize,
    /// First key of the page.
    first: Vec<u8>,
}

/// The page being filled at a level, and the page before it.
#[derive(Debug, Default)]
struct Level {
    filling: Filling,
    /// Its page id, once it is known not to be the root.
    id: Option<PageId>,
    prev: PageId,
}

/// A build under way.
#[derive(Debug)]
pub struct Builder {
    tree: Tree,
    trx: TrxId,
    /// Bytes of records and slots up to which a page is filled.
    room: usize,
    /// The leaf level and those above it.
    levels: Vec<Level>,
    leaf_extent: Range<u64>,
    inner_extent: Range<u64>,
    /// All extents it had.
    extents: Vec<u64>,
    group: Vec<Change>,
    last_key: Vec<u8>,
    built: Built,
}

impl Tree {
    /// Begins to build this tree, which must be empty and stay so until the end. Pages are filled
    /// to `sixteenths` of 16; `trx` becomes the largest transaction id of every leaf.
    #[must_use]
    pub fn build(&self, trx: TrxId, sixteenths: usize) -> Builder {
        assert!(
            (8..=16).contains(&sixteenths),
            "pages are filled to {sixteenths}/16"
        );
        Builder {
            tree: self.clone(),
            trx,
            room: PAGE_ROOM * sixteenths / 16,
            levels: vec![Level::default()],
            leaf_extent: 0..0,
            inner_extent: 0..0,
            extents: Vec::new(),
            group: Vec::new(),
            last_key: Vec::new(),
            built: Built::default(),
        }
    }
}

impl Tree {
    /// Empties the tree: its root becomes an empty leaf. The other pages are freed: inner pages at once,
    /// leaves when those who have the tree open now have closed it, as they may have them on their way.
    /// Chains of long values stay. May be repeated if it fails or if there is a crash in the middle.
    pub async fn clear(&self) -> Result<(), EngineError> {
        let pool = &self.pool;
        let root = pool.fetch(self.spec.root, Access::Point).await?;
        pool.admit().await?;
        {
            let _tree = self.latch_structure();
            let mut mtr = Mtr::new(pool);
            let page = mtr.latch(&root);
            mtr.apply(page, self.format(0, PageId(0), PageId(0)));
            let _ = mtr.commit();
        }
        let allocator = pool.allocator();
        let mut leaves = Vec::new();
        for extent in allocator.extents_of(self.spec.index, usize::MAX) {
            pool.admit().await?;
            let mut mtr = Mtr::new(pool);
            match mtr.entry(extent).owner {
                Some((_, ExtentUse::Leaf)) => {
                    mtr.give_away(extent, (ABANDONED, ExtentUse::Leaf));
                    leaves.push(extent);
                }
                Some((_, ExtentUse::Inner)) => mtr.free_extent_but(extent, self.spec.root),
                _ => continue,
            }
            let _ = mtr.commit();
        }
        let users = pool.renew_users(self.spec.index);
        allocator.retired().abandon(leaves, users);
        Ok(())
    }
}

impl Filling {
    fn fits(&self, len: usize, room: usize) -> bool {
        self.records.is_empty() || self.used + len + SLOT_LEN <= room
    }

    fn add(&mut self, record: &[u8], key: &[u8]) {
        if self.records.is_empty() {
            self.first = key.to_vec();
            self.records.reserve(PAGE_ROOM);
        }
        self.records.extend_from_slice(record);
        self.used += record.len() + SLOT_LEN;
    }
}

impl Builder {
    /// Adds the next record; writes a log group when there are enough pages.
    ///
    /// # Errors
    /// If the record or its key is too long, or storage fails.
    ///
    /// # Panics
    /// If the record is not one of the tree's leaf shape or its key does not follow the last one.
    pub async fn push(&mut self, record: &[u8]) -> Result<(), EngineError> {
        if self.add(record)? {
            self.write_group().await
        } else {
            Ok(())
        }
    }

    /// Adds the next record without writing; true if [`Builder::write_group`] is due.
    ///
    /// # Errors
    /// If the record or its key is too long.
    ///
    /// # Panics
    /// As [`Builder::push`].
    pub fn add(&mut self, record: &[u8]) -> Result<bool, EngineError> {
        let shape = self.tree.spec.shape;
        assert_eq!(
            shape.record_len(record),
            Some(record.len()),
            "one record of the leaf shape"
        );
        if record.len() > MAX_RECORD_LEN {
            return Err(EngineError::RowTooLong {
                bytes: record.len(),
                limit: MAX_RECORD_LEN,
            });
        }
        let key = shape.key(record);
        if key.len() > MAX_KEY_LEN {
            return Err(EngineError::KeyTooLong {
                bytes: key.len(),
                limit: MAX_KEY_LEN,
            });
        }
        let follows = self.built.records == 0 || self.last_key.as_slice() < key;
        assert!(follows, "records of a build ascend");
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.built.records += 1;
        self.add_to(0, record, key);
        Ok(self.group.len() >= GROUP_PAGES)
    }

    /// Bytes of the record that fills the current leaf, for progress displays.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.built.records
    }

    /// Writes the pages that are complete.
    pub async fn write_group(&mut self) -> Result<(), EngineError> {
        if self.group.is_empty() {
            return Ok(());
        }
        let sal = self.tree.pool.sal();
        errand::wait(sal.throttle(errand::purpose())).await?;
        let mut mtr = Mtr::new(&self.tree.pool);
        let mut pages: Vec<_> = self.group.iter().map(|change| change.page).collect();
        pages.sort_unstable();
        mtr.note_used(&pages);
        self.group
            .drain(..)
            .for_each(|change| mtr.log_unread(change));
        self.built.lsn = mtr.commit();
        Ok(())
    }

    /// Completes the tree and links it to its root.
    ///
    /// # Errors
    /// If storage fails; then the tree is still empty.
    ///
    /// # Panics
    /// If the tree is not empty.
    pub async fn finish(mut self) -> Result<Built, EngineError> {
        let mut at = 0;
        // A level whose page has no id has one page only: the root.
        while let Some(id) = self.levels[at].id {
            self.complete(at, id, PageId(0));
            at += 1;
        }
        self.write_group().await?;
        let pool = self.tree.pool.clone();
        errand::wait(pool.sal().wait_page_persistent_in_time(self.built.lsn)).await?;
        // What the pool may have of these pages is from before they were freed and taken for this.
        let pages = self.extents.iter().flat_map(|extent| pages_of(*extent));
        pool.discard(pages.map(PageId));
        let root = pool.fetch(self.tree.spec.root, Access::Point).await?;
        pool.admit().await?;
        let Filling { records, .. } = std::mem::take(&mut self.levels[at].filling);
        self.built.height = at as u8 + 1;
        self.built.pages += 1;
        self.built.leaf_pages += u64::from(at == 0);
        if at == 0 && records.is_empty() {
            return Ok(self.built);
        }
        let _tree = self.tree.latch_structure();
        let mut mtr = Mtr::new(&pool);
        let page = mtr.latch(&root);
        let (level, slots) = (mtr.page(page).level(), mtr.page(page).slot_count());
        assert_eq!(
            (level, slots),
            (0, 0),
            "the tree stays empty until its build ends"
        );
        mtr.apply(page, self.tree.format(at as u8, PageId(0), PageId(0)));
        let trx = if at == 0 { self.trx } else { TrxId(0) };
        mtr.apply(
            page,
            Op::Insert {
                slot: 0,
                trx,
                records: records.into(),
            },
        );
        self.built.lsn = mtr.commit();
        Ok(self.built)
    }

    fn add_to(&mut self, at: usize, record: &[u8], key: &[u8]) {
        if !self.levels[at].filling.fits(record.len(), self.room) {
            let id = match self.levels[at].id {
                Some(id) => id,
                None => self.allocate(at),
            };
            let next = self.allocate(at);
            self.complete(at, id, next);
            self.levels[at].id = Some(next);
        }
        self.levels[at].filling.add(record, key);
    }

    /// Hands the page being filled to the log and its id to the level above.
    fn complete(&mut self, at: usize, id: PageId, next: PageId) {
        let level = &mut self.levels[at];
        let Filling { records, first, .. } = std::mem::take(&mut level.filling);
        let leaf = at == 0;
        let (prev, next) = if leaf {
            (level.prev, next)
        } else {
            <_>::default()
        };
        level.prev = id;
        let trx = if leaf { self.trx } else { TrxId(0) };
        let insert = Op::Insert {
            slot: 0,
            trx,
            records: Bytes::from(records),
        };
        let ops = vec![self.tree.format(at as u8, prev, next), insert];
        self.group.push(Change { page: id, ops });
        self.built.pages += 1;
        self.built.leaf_pages += u64::from(leaf);
        if self.levels.len() == at + 1 {
            self.levels.push(Level::default());
        }
        // The first page of a level is the leftmost one.
        let above = &self.levels[at + 1];
        let leftmost = above.filling.records.is_empty() && above.id.is_none();
        let separator = if leftmost {
            self.tree.least_key()
        } else {
            first
        };
        let record = inner_record(&self.tree.inner, &separator, id);
        self.add_to(at + 1, &record, &separator);
    }

    fn allocate(&mut self, at: usize) -> PageId {
        let extent = if at == 0 {
            &mut self.leaf_extent
        } else {
            &mut self.inner_extent
        };
        if extent.is_empty() {
            let purpose = extent_use(at as u8);
            let mut mtr = Mtr::new(&self.tree.pool);
            let taken = mtr.take_extent((self.tree.spec.index, purpose));
            mtr.commit();
            self.extents.push(taken);
            *extent = pages_of(taken);
        }
        PageId(extent.next().expect("an extent has pages"))
    }
}

/// The pages of an extent.
fn pages_of(extent: u64) -> Range<u64> {
    extent * EXTENT..(extent + 1) * EXTENT
}

impl Drop for Builder {
    /// What is left of the extents serves inserts to come.
    fn drop(&mut self) {
        let allocator = self.tree.pool.allocator();
        let index = self.tree.spec.index;
        for (rest, purpose) in [
            (&self.leaf_extent, ExtentUse::Leaf),
            (&self.inner_extent, ExtentUse::Inner),
        ] {
            if !rest.is_empty() {
                allocator.give((index, purpose), extent_of(PageId(rest.start)));
            }
        }
    }
}
