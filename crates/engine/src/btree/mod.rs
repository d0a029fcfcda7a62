//! B+-trees over the buffer pool.
//!
//! A tree is named by its index id and its root page, which never changes: a root that overflows
//! moves its records to new pages below it, and one with a single child takes that child's. Leaves
//! are linked both ways; inner pages are not.
//!
//! Invariants:
//! - the separator at a slot of an inner page is at or below every key of the subtree it leads to,
//!   and above every key of the subtrees before; the first separator of the leftmost page of each
//!   level is the least key there is;
//! - the structure (which pages exist, inner pages, links) changes only under the exclusive tree
//!   latch; records in leaves change under the shared tree latch and the leaf's exclusive latch;
//! - a structure change is one mini-transaction: a split from the leaf to the last parent it reaches,
//!   a merge of two neighbours below one parent, the root's taking of its only child's content;
//! - the LSN of the leaf in which a key is or would be never falls, and rises with each change of what
//!   the tree has of the key: pages that records move to have the LSN of the move;
//! - leaves may be empty, where no neighbour has room for a merge (`merge.rs`) or nobody tried;
//! - outside of the tree latch, page ids of leaves are used in three ways only, so that a page may be
//!   freed by a merge, and used again, as soon as the tree latch is free. Either with the LSN that was
//!   taken with them, to read versions of then; or with a seat in the flight that was begun under the
//!   tree latch, which brings the page as it was then, as a page on its way cannot be changed; or to
//!   have a page in the pool before starting again at the root, where it does not matter what it is.
//!   What is kept of a leaf (`LeafView`, `LeafRun`, `LeafState`) is a version of it, and how to go on
//!   from it is a key.
//!
//! No latch is held across an await. An operation that misses a page lets go of everything, has
//! the page read, and starts again; pages it had to read stay pinned until it is done, so it ends.

mod batch;
mod build;
mod change;
mod cursor;
mod descend;
mod estimate;
mod lookup;
mod merge;
mod partition;
mod sample;
mod span;
mod spans;
mod split;
mod verify;
mod walk;

use std::sync::Arc;

use parking_lot::RwLockWriteGuard;
use perigee_page::{HEADER_LEN, PageKind, RecordShape};
use perigee_redo::Op;
use perigee_types::{IndexId, PAGE_SIZE, PageId};

use crate::EngineError;
use crate::buffer::{Access, BufferPool, TreeLatch};
use crate::mtr::{ExtentUse, Mtr};

pub use batch::{BatchLeaf, BatchRequest, LeafBatch, LeafState};
pub use build::{Builder, Built};
pub use change::{Inserted, Place, RecordChange, Updated};
pub use cursor::{Cursor, LeafRun};
pub use descend::{LeafView, Target};
pub use estimate::TreeSize;
pub use lookup::{Finder, StoredLeaf, StoredLeaves};
pub(crate) use sample::within_part;
pub use span::KeySpan;
pub use spans::KeySpans;
pub use verify::TreeStats;
pub(crate) use walk::{Visit, Visitor, Walked};

/// Index of the catalog's tree.
pub(crate) const CATALOG_INDEX: IndexId = IndexId(1);

use descend::Stop;

/// Greatest length of a record: two fit on a page, so that every page can be split.
pub const MAX_RECORD_LEN: usize = (PAGE_SIZE - HEADER_LEN) / 2 - SLOT_LEN;

/// So many times in a row a traversal may be led to a page that is freed before it is read. Numbers of freed
/// pages are used again soon, so it may be the same page twice; a page that is lost is still found out.
const FREED_IN_A_ROW: u32 = 64;

/// Greatest length of a key: four separators fit on an inner page with room to spare.
pub const MAX_KEY_LEN: usize = 3072;

/// Bytes of a slot in the page's directory.
const SLOT_LEN: usize = 2;

/// Bytes of a page that records and their slots may take.
const PAGE_ROOM: usize = PAGE_SIZE - HEADER_LEN;

/// Names a tree and says what its leaves are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeSpec {
    /// The index, unique in the database.
    pub index: IndexId,
    /// Its root page.
    pub root: PageId,
    /// [`PageKind::Clustered`] or [`PageKind::Secondary`].
    pub kind: PageKind,
    /// Shape of leaf records.
    pub shape: RecordShape,
}

/// A B+-tree. Cheap to clone; all clones of an index share one tree latch.
#[derive(Clone)]
pub struct Tree {
    pool: Arc<BufferPool>,
    spec: TreeSpec,
    inner: RecordShape,
    latch: Arc<TreeLatch>,
    /// Its pages stay as long as this is there.
    _user: Arc<()>,
}

impl Tree {
    /// A tree that exists. Does no I/O.
    #[must_use]
    pub fn open(pool: &Arc<BufferPool>, spec: TreeSpec) -> Self {
        assert!(
            spec.kind.is_leaf(),
            "trees have leaves of kind {:?}",
            spec.kind
        );
        let (latch, user) = pool.open_tree(spec.index);
        Self {
            _user: user,
            pool: pool.clone(),
            spec,
            inner: spec.shape.inner(),
            latch,
        }
    }

    /// Makes an empty tree within a mini-transaction that has latched all existing pages it needs;
    /// returns its root page.
    pub fn create(
        mtr: &mut Mtr<'_>,
        pool: &BufferPool,
        index: IndexId,
        kind: PageKind,
        shape: RecordShape,
    ) -> TreeSpec {
        let page = mtr.make(index, ExtentUse::Inner);
        let root = mtr.frame(page).id();
        let spec = TreeSpec {
            index,
            root,
            kind,
            shape,
        };
        let none = PageId(0);
        let db = pool.sal().db();
        mtr.apply(
            page,
            Op::Format {
                kind,
                level: 0,
                db,
                index,
                shape,
                prev: none,
                next: none,
            },
        );
        spec
    }

    /// The tree's name and leaf shape.
    #[must_use]
    pub fn spec(&self) -> &TreeSpec {
        &self.spec
    }

    /// The pool it lives in.
    #[must_use]
    pub fn pool(&self) -> &Arc<BufferPool> {
        &self.pool
    }

    /// Runs `attempt` until it needs no page that is not in the pool.
    async fn run<T>(&self, mut attempt: impl FnMut() -> Result<T, Stop>) -> Result<T, EngineError> {
        let (mut pins, mut freed) = (Vec::new(), 0);
        loop {
            match attempt() {
                Ok(done) => return Ok(done),
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Again) => {}
                Err(Stop::Missing(page)) => match self.pool.fetch(page, Access::Point).await {
                    Ok(frame) => {
                        freed = 0;
                        pins.push(frame);
                    }
                    // It was freed after the latch was given up: the tree leads elsewhere now, perhaps
                    // to another page that had this number and is freed meanwhile, too.
                    Err(error) if error.is_freed_page() && freed < FREED_IN_A_ROW => freed += 1,
                    Err(error) => return Err(error),
                },
            }
        }
    }

    /// Latches the tree exclusively, for a structure change.
    fn latch_structure(&self) -> RwLockWriteGuard<'_, u64> {
        let mut changes = self.latch.write();
        *changes += 1;
        changes
    }

    /// The least key of this tree's shape, the first separator of leftmost inner pages.
    fn least_key(&self) -> Vec<u8> {
        vec![0; usize::from(self.spec.shape.key_len)]
    }

    /// Operation that makes a page of this tree.
    fn format(&self, level: u8, prev: PageId, next: PageId) -> Op {
        let TreeSpec {
            index, kind, shape, ..
        } = self.spec;
        let (kind, shape) = if level == 0 {
            (kind, shape)
        } else {
            (PageKind::Inner, self.inner)
        };
        Op::Format {
            kind,
            level,
            db: self.pool.sal().db(),
            index,
            shape,
            prev,
            next,
        }
    }
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tree").field(&self.spec).finish()
    }
}
