//! The tree verifier: everything that a good tree satisfies. It reads pages one after the other
//! without keeping the tree latched, and starts again if the structure changed meanwhile; so it is for
//! a tree that is left alone but for purge, which ends.

use perigee_page::{PageKind, PageRef};
use perigee_types::PageId;

use super::Tree;
use crate::EngineError;
use crate::buffer::Access;

/// Size of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Levels, 1 if the root is a leaf.
    pub height: u8,
    /// Inner pages.
    pub inner_pages: u64,
    /// Leaf pages.
    pub leaf_pages: u64,
    /// Records, delete-marked ones included.
    pub records: u64,
    /// Delete-marked records.
    pub deleted: u64,
    /// Bytes of records in leaves.
    pub record_bytes: u64,
}

/// A page to visit and what its parent says of it.
struct Visit {
    page: PageId,
    level: Option<u8>,
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
}

/// Where the walk over the leaves is.
#[derive(Default)]
struct Chain {
    last: Option<PageId>,
    next: Option<PageId>,
}

impl Tree {
    /// Checks every page and how they hang together: levels, kinds, key ranges, separators, links.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`] naming the first page that is wrong.
    pub async fn verify(&self) -> Result<TreeStats, EngineError> {
        loop {
            let before = *self.latch.read();
            let verified = self.verify_pages().await;
            if *self.latch.read() == before {
                return verified;
            }
        }
    }

    async fn verify_pages(&self) -> Result<TreeStats, EngineError> {
        let mut stats = TreeStats::default();
        let mut chain = Chain::default();
        let root = Visit {
            page: self.spec.root,
            level: None,
            low: None,
            high: None,
        };
        let mut stack = vec![root];
        while let Some(visit) = stack.pop() {
            let page = self.pool.fetch(visit.page, Access::Scan).await?.page();
            let page = page.get();
            page.verify()
                .map_err(|e| EngineError::Corrupt(e.to_string()))?;
            self.verify_place(page, &visit)?;
            if page.level() == 0 {
                self.verify_leaf(page, &mut chain)?;
                stats.leaf_pages += 1;
                stats.records += u64::from(page.slot_count());
                stats.deleted += u64::from(page.deleted_count());
                stats.record_bytes += page.record_bytes() as u64;
            } else {
                stats.inner_pages += 1;
                self.push_children(page, visit, &mut stack)?;
            }
            stats.height = stats.height.max(page.level() + 1);
        }
        if chain.next.is_some() {
            let last = chain.last.unwrap_or_default();
            return Err(self.corrupt(last, "the last leaf has a right neighbour"));
        }
        Ok(stats)
    }

    fn verify_place(&self, page: PageRef<'_>, visit: &Visit) -> Result<(), EngineError> {
        let bad = |what| Err(self.corrupt(page.id(), what));
        let leaf = page.level() == 0;
        let (kind, shape) = if leaf {
            (self.spec.kind, self.spec.shape)
        } else {
            (PageKind::Inner, self.inner)
        };
        if (page.index(), page.kind(), page.shape()) != (self.spec.index, kind, shape) {
            return bad("the page is of another index, kind or shape");
        }
        if visit.level.is_some_and(|level| page.level() != level) {
            return bad("the page is at another level than its parent says");
        }
        let Some(last) = page.slot_count().checked_sub(1) else {
            return if leaf {
                Ok(())
            } else {
                bad("an inner page is empty")
            };
        };
        let least = self.least_key();
        let low = visit.low.as_ref().unwrap_or(&least).as_slice();
        let first_fits = if leaf {
            page.key(0) >= low
        } else {
            page.key(0) == low
        };
        if !first_fits {
            return bad("the first key does not fit the separator above");
        }
        if visit
            .high
            .as_ref()
            .is_some_and(|high| page.key(last) >= high.as_slice())
        {
            return bad("the last key reaches into the next page");
        }
        Ok(())
    }

    fn verify_leaf(&self, page: PageRef<'_>, chain: &mut Chain) -> Result<(), EngineError> {
        let first = chain.last.is_none();
        if page.prev() != chain.last || (!first && chain.next != Some(page.id())) {
            return Err(self.corrupt(page.id(), "the leaf is not linked to the one before"));
        }
        (chain.last, chain.next) = (Some(page.id()), page.next());
        Ok(())
    }

    fn push_children(
        &self,
        page: PageRef<'_>,
        visit: Visit,
        stack: &mut Vec<Visit>,
    ) -> Result<(), EngineError> {
        if page.prev().is_some() || page.next().is_some() {
            return Err(self.corrupt(page.id(), "an inner page has neighbours"));
        }
        let count = page.slot_count();
        for slot in (0..count).rev() {
            let low = if slot == 0 {
                visit.low.clone()
            } else {
                Some(page.key(slot).to_vec())
            };
            let high = if slot + 1 == count {
                visit.high.clone()
            } else {
                Some(page.key(slot + 1).to_vec())
            };
            stack.push(Visit {
                page: page.child(slot),
                level: Some(page.level() - 1),
                low,
                high,
            });
        }
        Ok(())
    }
}
