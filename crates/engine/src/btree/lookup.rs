//! Looking up many keys: what is missing of a batch of them is read at once, and keys that follow
//! each other in one leaf cost one descent.

use std::collections::BTreeMap;
use std::ops::Range;

use perigee_types::{Lsn, PageId};

use super::cursor::LeafRun;
use super::descend::{LeafView, Stop, Target};
use super::{KeySpan, Tree};
use crate::EngineError;
use crate::buffer::Access;

/// Leaves of one span that are brought in ahead. Longer spans are for scans.
const LEAVES_AHEAD: usize = 32;

/// Leaves of the records that begin with one key and that storage goes through. More are for the buffer pool.
const LEAVES_PER_KEY: usize = 8;

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

    /// The leaves on which records are or would be that begin with these keys, of those keys of which the pool lacks a
    /// leaf (`past_pool`: of all), as of one LSN: `pin` is as for [`Tree::leaf_batch`]. `None` if the pool cannot keep
    /// the inner pages on the way.
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
        let is_stored =
            |leaf: &PageId| past_pool || self.pool.get_resident(*leaf, Access::Scan).is_none();
        for (number, key) in keys.iter().enumerate() {
            match self.few_leaves(KeySpan::prefix(key)) {
                Ok(of_key) if of_key.iter().any(is_stored) => {
                    for leaf in of_key {
                        leaves.entry(leaf).or_default().push(number);
                    }
                }
                Ok(_) | Err(Stop::Again) => {}
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
        let leaves = leaves.into_iter();
        let leaves = leaves
            .map(|(page, keys)| StoredLeaf { page, keys })
            .collect();
        Ok(Ok(StoredLeaves { lsn, pin, leaves }))
    }

    /// The leaves of a span; none if they are many, or if the tree has one page, which is in the pool.
    fn few_leaves(&self, mut span: KeySpan) -> Result<Vec<PageId>, Stop> {
        let mut leaves = Vec::new();
        while !span.is_empty() {
            let path = self.descend(Target::At(&span.lower), 1)?;
            let is_leaf = path.last().read(|page| {
                if page.level() > 0 {
                    let Range { start, end } = span.child_slots(page);
                    let slots = (start..end).take(LEAVES_PER_KEY + 1);
                    leaves.extend(slots.map(|slot| page.child(slot)));
                }
                page.level() == 0
            });
            if is_leaf || leaves.len() > LEAVES_PER_KEY {
                return Ok(Vec::new());
            }
            match path.high {
                Some(high) => span.lower = high,
                None => break,
            }
        }
        Ok(leaves)
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

/// Leaves for storage to go through.
#[derive(Debug)]
pub struct StoredLeaves<P> {
    /// As of it they hold their keys.
    pub lsn: Lsn,
    /// What pins the LSN.
    pub pin: P,
    /// The leaves.
    pub leaves: Vec<StoredLeaf>,
}

/// One of them.
#[derive(Debug)]
pub struct StoredLeaf {
    /// Its page id.
    pub page: PageId,
    /// The numbers of the keys whose records are or would be on it.
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
