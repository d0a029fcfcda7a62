//! Looking up many keys: what is missing of a batch of them is read at once, and keys that follow
//! each other in one leaf cost one descent.

use std::collections::BTreeMap;

use perigee_types::{Lsn, PageId};

use super::cursor::LeafRun;
use super::descend::{LeafView, Stop, Target};
use super::{KeySpan, Tree};
use crate::EngineError;
use crate::buffer::Access;

/// Leaves of one span that are brought in ahead. Longer spans are for scans.
const LEAVES_AHEAD: usize = 32;

impl Tree {
    /// Brings the leaves that hold these spans into the pool, reading all that are missing on a
    /// level at once: what a batch of look-ups begins with. What a small pool has no room for, and
    /// what a long span has beyond its first leaves, is left to the look-ups.
    pub async fn prefetch(&self, spans: &[KeySpan]) -> Result<(), EngineError> {
        let room = self.pool.capacity() / 4;
        // One round a level; each page that is found missing is one level deeper.
        for _ in 0..u8::MAX {
            let (mut missing, at_leaves) = self.missing(spans)?;
            missing.truncate(room.max(1));
            self.pool.warm(&missing).await?;
            if at_leaves {
                break;
            }
        }
        Ok(())
    }

    /// The pages that stop the descents to these spans; true if all descents reach the leaves,
    /// which are then those that are not in the pool.
    fn missing(&self, spans: &[KeySpan]) -> Result<(Vec<PageId>, bool), EngineError> {
        let _tree = self.latch.read();
        let (mut missing, mut leaves) = (Vec::new(), Vec::new());
        for span in spans {
            match self.descend(Target::At(&span.lower), 1) {
                Ok(path) => path.last().read(|page| {
                    if page.level() == 0 {
                        return;
                    }
                    let first = page.child_slot(&span.lower);
                    let end = match &span.upper {
                        Some(upper) => page.lower_bound(upper).max(first + 1),
                        None => page.slot_count(),
                    };
                    let ahead = (first..end).take(LEAVES_AHEAD);
                    leaves.extend(ahead.map(|slot| page.child(slot)));
                }),
                Err(Stop::Again) => {}
                Err(Stop::Missing(page)) => missing.push(page),
                Err(Stop::Failed(error)) => return Err(error),
            }
        }
        let at_leaves = missing.is_empty();
        let mut pages = if at_leaves { leaves } else { missing };
        pages.sort_unstable();
        pages.dedup();
        pages.retain(|page| self.pool.get_resident(*page, Access::Scan).is_none());
        Ok((pages, at_leaves))
    }

    /// The leaves that are not in the pool, or `past_pool` all, on which these keys are or would be, as of one LSN: `pin`
    /// is as for [`Tree::leaf_batch`]. `None` if the pool cannot keep the inner pages on the way.
    pub async fn stored_leaves<P>(
        &self,
        keys: &[&[u8]],
        past_pool: bool,
        mut pin: impl FnMut() -> (Lsn, P),
    ) -> Result<Option<StoredLeaves<P>>, EngineError> {
        for _ in 0..u8::MAX {
            match self.try_stored_leaves(keys, past_pool, &mut pin)? {
                Ok(found) => return Ok(Some(found)),
                Err(missing) => self.pool.warm(&missing).await?,
            }
        }
        Ok(None)
    }

    /// The same in one step under the latch, or the inner pages that are missing for it.
    fn try_stored_leaves<P>(
        &self,
        keys: &[&[u8]],
        past_pool: bool,
        pin: &mut impl FnMut() -> (Lsn, P),
    ) -> Result<Result<StoredLeaves<P>, Vec<PageId>>, EngineError> {
        let _tree = self.latch.read();
        let (mut missing, mut leaves) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
        for (number, key) in keys.iter().enumerate() {
            match self.descend(Target::At(key), 1) {
                Ok(path) => path.last().read(|page| {
                    // A tree of one page has it in the pool.
                    if page.level() > 0 {
                        let leaf = page.child(page.child_slot(key));
                        leaves.entry(leaf).or_default().push(number);
                    }
                }),
                Err(Stop::Again) => {}
                Err(Stop::Missing(page)) => missing.push(page),
                Err(Stop::Failed(error)) => return Err(error),
            }
        }
        if !missing.is_empty() {
            missing.sort_unstable();
            missing.dedup();
            return Ok(Err(missing));
        }
        let (lsn, pin) = pin();
        let is_stored = |leaf| self.pool.get_resident(leaf, Access::Scan).is_none();
        leaves.retain(|leaf, _| past_pool || is_stored(*leaf));
        let leaves = leaves.into_iter();
        let leaves = leaves
            .map(|(page, keys)| StoredLeaf { page, keys })
            .collect();
        Ok(Ok(StoredLeaves { lsn, pin, leaves }))
    }

    /// Look-ups in this tree.
    #[must_use]
    pub fn finder(&self) -> Finder {
        Finder {
            tree: self.clone(),
            leaf: None,
        }
    }
}

/// Leaves that are on their Page Stores only.
#[derive(Debug)]
pub struct StoredLeaves<P> {
    /// As of it they hold their keys.
    pub lsn: Lsn,
    /// What pins the LSN.
    pub pin: P,
    /// The leaves.
    pub leaves: Vec<StoredLeaf>,
}

/// A leaf that is on its Page Store only.
#[derive(Debug)]
pub struct StoredLeaf {
    /// Its page id.
    pub page: PageId,
    /// The numbers of the keys that are or would be on it.
    pub keys: Vec<usize>,
}

/// Look-ups one after the other, fastest in the order of their keys. The leaf that was used last is
/// kept as it was then: a look-up need not see what was written after the first one.
#[derive(Debug)]
pub struct Finder {
    tree: Tree,
    leaf: Option<LeafView>,
}

impl Finder {
    /// The records of the first leaf that has some in `rest`, which becomes what is left of it;
    /// `None` if there are none.
    pub async fn next(&mut self, rest: &mut KeySpan) -> Result<Option<LeafRun>, EngineError> {
        while !rest.is_empty() {
            let leaf = self.leaf_at(&rest.lower).await?;
            let slots = rest.slots(leaf.page.get());
            match &leaf.high {
                Some(high) => rest.lower.clone_from(high),
                None => rest.upper = Some(Vec::new()),
            }
            if !slots.is_empty() {
                return Ok(Some(LeafRun {
                    page: leaf.page.clone(),
                    slots,
                }));
            }
        }
        Ok(None)
    }

    /// The record with this key.
    pub async fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        let leaf = self.leaf_at(key).await?;
        let page = leaf.page.get();
        Ok(page.search(key).ok().map(|slot| page.record(slot).to_vec()))
    }

    /// The leaf in which a key is or would be.
    async fn leaf_at(&mut self, key: &[u8]) -> Result<&LeafView, EngineError> {
        let known = self.leaf.take().filter(|leaf| leaf.may_hold(key));
        let leaf = match known {
            Some(leaf) => leaf,
            None => self.tree.leaf(Target::At(key), Access::Point).await?,
        };
        Ok(self.leaf.insert(leaf))
    }
}
