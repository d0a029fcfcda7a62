//! Making a tree smaller: two neighbours below one parent become one page, and a root with a single
//! child takes its content.
//!
//! Each of these is a mini-transaction of its own, under the exclusive tree latch, after which the
//! tree is a good one; so it may end after any of them. A removal that leaves a leaf small has it
//! looked at, and then the pages above it: first under the shared tree latch, as there is rarely
//! something to do.
//!
//! Invariant: a quarter of a page of records is removed between a split and a merge of its two pages,
//! so that they do not alternate (see [`Fill::goes_with`]; inserts of ascending keys that are removed
//! at once, before the end of the tree, are split in halves the next time).

use std::sync::Arc;

use perigee_page::{PageRef, inner_record};
use perigee_redo::Op;
use perigee_types::{PAGE_SIZE, PageId, TrxId};

use super::descend::{Path, Stop, Target};
use super::split::records_of;
use super::{PAGE_ROOM, Tree};
use crate::EngineError;
use crate::buffer::{Access, Frame};
use crate::mtr::{Latched, Mtr};

/// A page with fewer bytes of records and slots looks for a neighbour to go together with: half a
/// page, InnoDB's `MERGE_THRESHOLD`.
const SMALL: usize = PAGE_SIZE / 2;

/// Two pages go together if they leave this much of one free. A page is split when it is full, so
/// this is what lies between a merge and a split.
const LEFT_FREE: usize = PAGE_ROOM / 4;

/// How full a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fill {
    /// Bytes of records and slots.
    used: usize,
    /// It is the last leaf, where ascending inserts go on.
    is_last: bool,
}

/// What makes a tree smaller by a page.
enum Step {
    Merge(Merge),
    /// The root takes the content of its only child.
    Lower {
        root: Arc<Frame>,
        child: Arc<Frame>,
    },
}

/// Two neighbours that become one.
struct Merge {
    parent: Arc<Frame>,
    /// Slot of the left one in the parent.
    slot: u16,
    left: Arc<Frame>,
    right: Arc<Frame>,
    /// The left one goes, because it has less to move; otherwise the right one.
    left_goes: bool,
    /// The leaf next to the one that goes, on the other side.
    beyond: Option<Arc<Frame>>,
}

/// Bytes of a page that records and slots take.
pub(super) fn used(page: PageRef<'_>) -> usize {
    PAGE_ROOM - page.free_space()
}

/// True if a leaf that had `before` bytes of records and slots and has `after` now is worth looking
/// at: each time it came below a half, a quarter, an eighth of a page and so on, and when it is
/// empty. So a leaf whose neighbours are full costs a few looks, not one for each record.
pub(super) fn is_worth_a_look(before: usize, after: usize) -> bool {
    after < SMALL && before.leading_zeros() != after.leading_zeros()
}

impl Fill {
    fn of(page: PageRef<'_>) -> Self {
        Self {
            used: used(page),
            is_last: page.level() == 0 && page.next().is_none(),
        }
    }

    fn is_small(self) -> bool {
        self.used < SMALL
    }

    /// True if a small page and its neighbour should be one.
    ///
    /// A split leaves more than a page in two, of which the smaller has a quarter at least, or, where
    /// inserts ascend, few records behind a full page. In the first case a quarter has to be removed
    /// before the two leave a quarter free or the smaller one is empty. In the second the smaller one
    /// may be empty at once: it stays if it is the last.
    fn goes_with(self, neighbour: Self) -> bool {
        let empty = self.used == 0 && !self.is_last;
        empty || self.used + neighbour.used + LEFT_FREE <= PAGE_ROOM
    }
}

impl Tree {
    /// Merges the pages that lead to a key with their neighbours as long as there are such that should
    /// be one.
    ///
    /// # Errors
    /// What storage says; the tree is good all the same.
    pub(super) async fn condense(&self, key: &[u8]) -> Result<(), EngineError> {
        self.pool.admit().await?;
        self.run(|| {
            let shared = self.latch.read();
            if self.next_step(key)?.is_none() {
                return Ok(());
            }
            drop(shared);
            let _tree = self.latch_structure();
            while let Some(step) = self.next_step(key)? {
                match step {
                    Step::Merge(merge) => self.merge(&merge),
                    Step::Lower { root, child } => self.lower(&root, &child),
                }
            }
            Ok(())
        })
        .await
    }

    /// What makes the tree smaller next, from the leaf of a key upwards. Final under the exclusive
    /// tree latch, a guess under the shared one.
    fn next_step(&self, key: &[u8]) -> Result<Option<Step>, Stop> {
        let path = self.descend(Target::At(key), 0)?;
        for depth in (1..path.frames.len()).rev() {
            if let Some(merge) = self.merge_at(&path, depth)? {
                return Ok(Some(Step::Merge(merge)));
            }
        }
        let root = &path.frames[0];
        let lower = root.read(|page| page.level() > 0 && page.slot_count() == 1);
        Ok(lower.then(|| Step::Lower {
            root: root.clone(),
            child: path.frames[1].clone(),
        }))
    }

    /// The page of a path at this depth with its left or right neighbour, if they should be one.
    fn merge_at(&self, path: &Path, depth: usize) -> Result<Option<Merge>, Stop> {
        let page = &path.frames[depth];
        let fill = page.read(Fill::of);
        if !fill.is_small() {
            return Ok(None);
        }
        let (parent, slot) = (&path.frames[depth - 1], path.slots[depth - 1]);
        let last = parent.read(|parent| parent.slot_count()) - 1;
        let to_left = slot.checked_sub(1);
        let to_right = Some(slot + 1).filter(|slot| *slot <= last);
        for neighbour_slot in [to_left, to_right].into_iter().flatten() {
            let neighbour = parent.read(|parent| parent.child(neighbour_slot));
            let neighbour = self.resident(neighbour, Access::Scan)?;
            if fill.goes_with(neighbour.read(Fill::of)) {
                let (left, right) = if neighbour_slot < slot {
                    (&neighbour, page)
                } else {
                    (page, &neighbour)
                };
                let slot = slot.min(neighbour_slot);
                return self.pair(parent, slot, left, right).map(Some);
            }
        }
        Ok(None)
    }

    fn pair(
        &self,
        parent: &Arc<Frame>,
        slot: u16,
        left: &Arc<Frame>,
        right: &Arc<Frame>,
    ) -> Result<Merge, Stop> {
        let left_goes = left.read(used) < right.read(used);
        let beyond = if left_goes {
            left.read(|page| page.prev())
        } else {
            right.read(|page| page.next())
        };
        let beyond = beyond
            .map(|id| self.resident(id, Access::Scan))
            .transpose()?;
        Ok(Merge {
            parent: parent.clone(),
            slot,
            left: left.clone(),
            right: right.clone(),
            left_goes,
            beyond,
        })
    }

    /// Makes one page of two neighbours. The separator of the left one leads to it.
    fn merge(&self, merge: &Merge) {
        let mut mtr = Mtr::new(&self.pool);
        let parent = mtr.latch(&merge.parent);
        let beyond = merge.beyond.as_ref();
        let before = beyond.filter(|_| merge.left_goes).map(|f| mtr.latch(f));
        let (left, right) = (mtr.latch(&merge.left), mtr.latch(&merge.right));
        let after = beyond.filter(|_| !merge.left_goes).map(|f| mtr.latch(f));
        let ends = (before, after);

        let level = mtr.page(left).level();
        let (goes, stays, at) = if merge.left_goes {
            (left, right, 0)
        } else {
            (right, left, mtr.page(left).slot_count())
        };
        move_records(&mut mtr, goes, (stays, at));
        if level == 0 {
            relink(&mut mtr, (left, right), stays, ends);
        }
        let trx = TrxId(0);
        if merge.left_goes {
            let separator = mtr.page(parent).key(merge.slot).to_vec();
            let record = inner_record(&self.inner, &separator, merge.right.id()).into();
            let slot = merge.slot;
            mtr.apply(parent, Op::Replace { slot, trx, record });
        }
        let (slot, count) = (merge.slot + 1, 1);
        mtr.apply(parent, Op::Remove { slot, count, trx });
        mtr.free(goes);
        let _ = mtr.commit();
    }

    /// Makes the tree lower by a level: the root becomes what its only child is.
    fn lower(&self, root: &Arc<Frame>, child: &Arc<Frame>) {
        let mut mtr = Mtr::new(&self.pool);
        let (root, child) = (mtr.latch(root), mtr.latch(child));
        let level = mtr.page(child).level();
        let none = PageId(0);
        mtr.apply(root, self.format(level, none, none));
        move_records(&mut mtr, child, (root, 0));
        mtr.free(child);
        let _ = mtr.commit();
    }
}

/// Inserts the records of a page at a slot of another, with the largest transaction id that they
/// carry with them.
fn move_records(mtr: &mut Mtr<'_>, from: Latched, (to, slot): (Latched, u16)) {
    let page = mtr.page(from);
    let trx = page.max_trx();
    let records = records_of(page, 0..page.slot_count(), None).into();
    let op = if page.slot_count() > 0 {
        Op::Insert { slot, trx, records }
    } else {
        // Removes nothing and raises the transaction id.
        Op::Remove {
            slot,
            count: 0,
            trx,
        }
    };
    mtr.apply(to, op);
}

/// Links the leaf that stays of two with those before and after them; `ends` has the one of these
/// two that was linked with the leaf that goes, if there is one.
fn relink(
    mtr: &mut Mtr<'_>,
    (left, right): (Latched, Latched),
    stays: Latched,
    ends: (Option<Latched>, Option<Latched>),
) {
    let id = mtr.frame(stays).id();
    let prev = mtr.page(left).prev().unwrap_or_default();
    let next = mtr.page(right).next().unwrap_or_default();
    mtr.apply(stays, Op::SetLinks { prev, next });
    if let Some(before) = ends.0 {
        let prev = mtr.page(before).prev().unwrap_or_default();
        mtr.apply(before, Op::SetLinks { prev, next: id });
    }
    if let Some(after) = ends.1 {
        let next = mtr.page(after).next().unwrap_or_default();
        mtr.apply(after, Op::SetLinks { prev: id, next });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::split::divide;
    use super::super::split::tests::{insertion, page_of};
    use super::super::{MAX_RECORD_LEN, SLOT_LEN};
    use super::*;

    /// Bytes of records and slots in the two parts of a page that is split for a new record.
    fn parts(page: PageRef<'_>, slot: u16, len: usize, ascending: bool) -> [usize; 2] {
        let division = divide(page, &insertion(slot, len, ascending));
        let size = |slots: std::ops::Range<u16>| {
            let sizes = slots.map(|slot| page.record(slot).len() + SLOT_LEN);
            sizes.sum::<usize>()
        };
        let mut parts = [
            size(0..division.point),
            size(division.point..page.slot_count()),
        ];
        parts[usize::from(!division.new_left)] += len + SLOT_LEN;
        parts
    }

    proptest! {
        #[test]
        fn what_goes_together_fits_a_page(used in 0..SMALL, neighbour in 0..=PAGE_ROOM, last in 0..3) {
            let fill = |used, at| Fill { used, is_last: last == at };
            let (page, neighbour) = (fill(used, 1), fill(neighbour, 2));
            if page.goes_with(neighbour) {
                prop_assert!(page.used + neighbour.used <= PAGE_ROOM);
                let grows = page.used > 0 && neighbour.used > 0;
                prop_assert!(!grows || page.used + neighbour.used <= PAGE_ROOM - LEFT_FREE);
            }
        }

        #[test]
        fn a_quarter_is_removed_between_a_split_and_a_merge(
            lens in prop_oneof![
                prop::collection::vec(7..=MAX_RECORD_LEN, 1..20),
                prop::collection::vec(7..400_usize, 50..300),
            ],
            len in prop_oneof![7..=MAX_RECORD_LEN, 7..400_usize],
            at in any::<u16>(),
            ascending: bool,
            is_last: bool,
            shares in [0..=100_usize, 0..=100_usize],
        ) {
            let page = page_of(&lens);
            let page = PageRef::new(&page[..]).expect("a page");
            let slot = if ascending { page.slot_count() } else { at % (page.slot_count() + 1) };
            prop_assume!(page.free_space() < len + SLOT_LEN);
            let parts = parts(page, slot, len, ascending);
            let fill = |part: usize, left: usize| Fill {
                used: left,
                is_last: part == 1 && (is_last || ascending),
            };
            // Removes any share of both.
            let left = [parts[0] * shares[0] / 100, parts[1] * shares[1] / 100];
            let removed = parts[0] + parts[1] - left[0] - left[1];
            for (one, other) in [(0, 1), (1, 0)] {
                let (one, other) = (fill(one, left[one]), fill(other, left[other]));
                if one.is_small() && one.goes_with(other) {
                    prop_assert!(removed >= PAGE_ROOM / 4, "{removed} of {parts:?}");
                }
            }
        }

        #[test]
        fn a_leaf_is_looked_at_a_few_times(
            mut used in SMALL..=PAGE_ROOM,
            records in prop::collection::vec(1..300_usize, 1..100),
        ) {
            let (mut looks, mut worth, mut seen) = (0, false, used);
            for record in records.iter().cycle() {
                let after = used.saturating_sub(*record);
                worth = is_worth_a_look(used, after);
                looks += u32::from(worth);
                prop_assert!(!worth || after < SMALL);
                seen = if worth { after } else { seen };
                used = after;
                // At the last look there was at most twice of what is there now.
                prop_assert!(after >= SMALL || seen <= 2 * after);
                if after == 0 {
                    break;
                }
            }
            prop_assert!(worth && looks <= PAGE_SIZE.ilog2(), "{looks} looks");
        }
    }
}
