//! The pages of a batch read: the leaves below one level-1 page (taurus-ndp section IV.C.4).
//!
//! Under the shared tree latch, in one synchronous step, a scan gets the ids of the leaves in its
//! range, the LSN *L* at which they hold the range, and those of them that are cached. Whatever
//! happens to the tree afterwards, the versions of the others as of *L* complete the range.
//!
//! Batches begin and end at separators. When one of these has gone by the time that the next batch is
//! taken, because two leaves were merged, the leaf there is *shared*: it has keys of both batches.

use std::ops::Range;

use perigee_types::{Lsn, PageId};

use super::descend::{Path, Target};
use super::{KeySpan, Tree};
use crate::EngineError;
use crate::buffer::{Access, Page, PageLoad};

/// What a scan wants next.
#[derive(Clone, Debug)]
pub struct BatchRequest<'s> {
    /// All that is scanned. The caller leaves out what a leaf has beside it.
    pub range: &'s KeySpan,
    /// What is left of it, or of the caller's part of it.
    pub span: &'s KeySpan,
    /// From the greatest key to the least.
    pub reverse: bool,
    /// At most this many leaves, at least one.
    pub max_pages: usize,
    /// Have leaves that are not cached brought into the pool. Otherwise they are for the caller to
    /// read, as of the batch's LSN.
    pub load: bool,
}

/// Where a leaf of a batch is.
#[derive(Clone, Debug)]
pub enum LeafState {
    /// In the pool; the page as it was under the latch.
    Resident(Page),
    /// On its way to the pool.
    Loading(PageLoad),
    /// On its Page Store only.
    Stored,
}

/// A leaf of a batch.
#[derive(Clone, Debug)]
pub struct BatchLeaf {
    /// Its page id.
    pub page: PageId,
    /// Where it is.
    pub state: LeafState,
    /// It may have keys of the range that are not of the span: another batch has delivered them, or
    /// will.
    pub shared: bool,
}

/// Some leaves, in the order of the scan.
#[derive(Debug)]
pub struct LeafBatch<P> {
    /// Their LSN: as of it, they hold all records of the covered part of the range that were there
    /// under the latch. A cached leaf may be newer.
    pub lsn: Lsn,
    /// What pins the LSN.
    pub pin: P,
    /// The leaves.
    pub leaves: Vec<BatchLeaf>,
    /// The range that is left; `None` at the end.
    pub rest: Option<KeySpan>,
}

/// The leaves that a level-1 page contributes.
struct Children {
    /// The leaves, and whether they are shared.
    leaves: Vec<(PageId, bool)>,
    /// Where the scan goes on, if not in the next level-1 page.
    edge: Option<Vec<u8>>,
}

impl Tree {
    /// The next leaves of a scan.
    ///
    /// `pin` is called once, under the latches; it returns *L* and what keeps versions as of *L*
    /// readable. It must take the last assigned LSN and put up the pin in one step with respect to
    /// whoever raises the recycle LSN, for example under one lock. A caller that has pages loaded
    /// needs no pin: `|| (tree.pool().sal().last_lsn(), ())`.
    pub async fn leaf_batch<P>(
        &self,
        request: BatchRequest<'_>,
        mut pin: impl FnMut() -> (Lsn, P),
    ) -> Result<LeafBatch<P>, EngineError> {
        assert!(request.max_pages > 0, "a batch has pages");
        self.run(|| {
            let _tree = self.latch.read();
            let target = match (request.reverse, &request.span.upper) {
                (false, _) => Target::At(&request.span.lower),
                (true, Some(upper)) => Target::Before(upper),
                (true, None) => Target::Last,
            };
            let path = self.descend(target, 1)?;
            let (lsn, pin) = pin();
            let children = self.children(&path, &request);
            let rest = self.rest(&path, &request, children.edge);
            let leaves = self.take(&children.leaves, request.load);
            Ok(LeafBatch {
                lsn,
                pin,
                leaves,
                rest,
            })
        })
        .await
    }

    /// Children of the level-1 page that lie in the range; the root if it is a leaf.
    fn children(&self, path: &Path, request: &BatchRequest<'_>) -> Children {
        let BatchRequest {
            range,
            span,
            reverse,
            max_pages,
            ..
        } = request;
        let is_shared = |keys: KeySpan| !span.covers(&keys.and(range));
        path.last().read(|page| {
            if page.level() == 0 {
                return Children {
                    leaves: vec![(page.id(), is_shared(KeySpan::all()))],
                    edge: None,
                };
            }
            let Range { start: first, end } = span.child_slots(page);
            let most = u16::try_from(*max_pages).unwrap_or(u16::MAX);
            let (slots, edge) = if *reverse {
                let start = first.max(end.saturating_sub(most));
                (start..end, (start > first).then_some(start))
            } else {
                let stop = end.min(first.saturating_add(most));
                (first..stop, (stop < end).then_some(stop))
            };
            let ends = [slots.start, slots.end - 1];
            let leaf = |slot| {
                let at_end = ends.contains(&slot);
                (
                    page.child(slot),
                    at_end && is_shared(path.keys_at(page, slot)),
                )
            };
            let mut leaves: Vec<_> = slots.map(leaf).collect();
            if *reverse {
                leaves.reverse();
            }
            Children {
                leaves,
                edge: edge.map(|slot| page.key(slot).to_vec()),
            }
        })
    }

    fn rest(
        &self,
        path: &Path,
        request: &BatchRequest<'_>,
        edge: Option<Vec<u8>>,
    ) -> Option<KeySpan> {
        let bound = if request.reverse {
            &path.low
        } else {
            &path.high
        };
        let edge = edge.or_else(|| bound.clone())?;
        let KeySpan { lower, upper } = request.span.clone();
        let rest = if request.reverse {
            KeySpan {
                lower,
                upper: Some(edge),
            }
        } else {
            KeySpan { lower: edge, upper }
        };
        (!rest.is_empty()).then_some(rest)
    }

    fn take(&self, leaves: &[(PageId, bool)], load: bool) -> Vec<BatchLeaf> {
        let pages: Vec<_> = leaves.iter().map(|(page, _)| *page).collect();
        let states: Vec<_> = if load {
            let loads = self.pool.load(&pages, Access::Scan).into_iter();
            let state = |load| match load {
                PageLoad::Resident(page) => LeafState::Resident(page),
                loading @ PageLoad::Loading(_) => LeafState::Loading(loading),
            };
            loads.map(state).collect()
        } else {
            let state = |page| match self.pool.get_resident(page, Access::Scan) {
                Some(frame) => LeafState::Resident(frame.page()),
                None => LeafState::Stored,
            };
            pages.into_iter().map(state).collect()
        };
        let leaves = leaves.iter().zip(states);
        leaves
            .map(|((page, shared), state)| BatchLeaf {
                page: *page,
                state,
                shared: *shared,
            })
            .collect()
    }
}
