//! Mini-transactions: the atomic changes of pages, each one log group.
//!
//! Invariants:
//! - *do = redo*: a page changes by `redo::apply` only, and what was applied is what is logged;
//! - all existing pages are latched before the first change, but for superblock and space map, which are
//!   the last; once something is applied the mini-transaction commits, it cannot be abandoned (checked);
//! - latches are held until the LSN is assigned (SPEC's N6), so that whoever holds a latch knows
//!   that all changes of the page have LSNs at or below the last assigned one;
//! - a mini-transaction never lives across an await: it is not `Send`.

mod allocate;

use std::sync::Arc;

use perigee_page::{PageMut, PageRef};
use perigee_redo::{Change, Op, apply};
use perigee_types::{DbId, IndexId, Lsn, PageId};

use crate::buffer::{BufferPool, Frame, WriteLatch};
use crate::crash::crash;

pub use crate::space::{EXTENT, ExtentUse};
pub(crate) use allocate::{Allocator, first_unused};

/// A page that a mini-transaction has latched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latched(usize);

struct LatchedPage {
    frame: Arc<Frame>,
    latch: WriteLatch,
    ops: Vec<Op>,
}

/// A mini-transaction. See the module's invariants.
#[must_use = "a mini-transaction with changes has to be committed"]
pub struct Mtr<'p> {
    pool: &'p BufferPool,
    pages: Vec<LatchedPage>,
    /// Changes of pages that are not latched, because nobody reads them.
    unread: Vec<Change>,
    superblock: Option<Latched>,
    /// Pages of the space map, by number.
    maps: Vec<(u64, Latched)>,
    applied: bool,
}

impl<'p> Mtr<'p> {
    /// A mini-transaction without pages.
    pub fn new(pool: &'p BufferPool) -> Self {
        Self {
            pool,
            pages: Vec::new(),
            unread: Vec::new(),
            superblock: None,
            maps: Vec::new(),
            applied: false,
        }
    }

    /// Latches a page exclusively; waits for whoever has it latched. The order is that of
    /// `docs/locks.md`.
    ///
    /// # Panics
    /// If a page was changed already, or this one is latched.
    pub fn latch(&mut self, frame: &Arc<Frame>) -> Latched {
        assert!(
            !self.applied,
            "MTR: {} is latched after a change",
            frame.id()
        );
        self.latch_page(frame.clone())
    }

    /// A new page, latched. Its first operation must be a format.
    pub fn create(&mut self, page: PageId, index: IndexId) -> Latched {
        self.latch_page(self.pool.create(page, index))
    }

    fn latch_page(&mut self, frame: Arc<Frame>) -> Latched {
        let again = self.pages.iter().any(|p| p.frame.id() == frame.id());
        assert!(!again, "MTR: {} is latched twice", frame.id());
        let latch = frame.write();
        self.pages.push(LatchedPage {
            frame,
            latch,
            ops: Vec::new(),
        });
        Latched(self.pages.len() - 1)
    }

    /// A latched page to read.
    ///
    /// # Panics
    /// If it is a new page that was not formatted.
    #[must_use]
    pub fn page(&self, page: Latched) -> PageRef<'_> {
        PageRef::new(&self.pages[page.0].latch[..]).expect("a latched page has a known format")
    }

    /// The frame of a latched page.
    #[must_use]
    pub fn frame(&self, page: Latched) -> &Arc<Frame> {
        &self.pages[page.0].frame
    }

    /// The database of the pages.
    #[must_use]
    pub fn db(&self) -> DbId {
        self.pool.sal().db()
    }

    /// Applies an operation to a latched page and logs it.
    ///
    /// # Panics
    /// If the operation does not fit the page: it was made from what the page shows under the same
    /// latch.
    pub fn apply(&mut self, page: Latched, op: Op) {
        self.applied = true;
        let LatchedPage { frame, latch, ops } = &mut self.pages[page.0];
        let bytes = Arc::make_mut(latch);
        if let Err(error) = apply(bytes, frame.id(), &op) {
            panic!("MTR: {error}: {}", op.dump());
        }
        ops.push(op);
    }

    /// Logs a change of a page without making it here: of new pages that are linked to the rest
    /// only after they are on their Page Store, and of pages that are freed unread.
    pub(crate) fn log_unread(&mut self, change: Change) {
        self.applied = true;
        self.unread.push(change);
    }

    /// Assigns the LSN, appends the log group and releases the latches.
    ///
    /// # Panics
    /// If nothing was changed.
    pub fn commit(mut self) -> Lsn {
        assert!(self.applied, "MTR: commit without a change");
        let mut changed: Vec<_> = self
            .pages
            .iter_mut()
            .filter(|p| !p.ops.is_empty())
            .collect();
        let take = |p: &mut &mut LatchedPage| Change {
            page: p.frame.id(),
            ops: std::mem::take(&mut p.ops),
        };
        let mut changes: Vec<_> = changed.iter_mut().map(take).collect();
        changes.append(&mut self.unread);
        let lsn = self.pool.sal().append(changes);
        for page in changed {
            PageMut::new(Arc::make_mut(&mut page.latch)).set_lsn(lsn);
            page.frame.set_newest(lsn);
        }
        self.applied = false;
        lsn
    }
}

impl Drop for Mtr<'_> {
    fn drop(&mut self) {
        if !self.applied {
            return;
        }
        if std::thread::panicking() {
            // Pages in the pool have changes that are in no log.
            crash("a mini-transaction panicked halfway");
        }
        panic!("MTR: a mini-transaction with changes was dropped");
    }
}
