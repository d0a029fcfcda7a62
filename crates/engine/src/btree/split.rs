//! Inserting where there is no room: pages are split from the leaf up, in one mini-transaction.
//!
//! The caller holds the tree latch exclusively. All pages that may change are latched before the
//! first change: those on the path, and the leaf's right neighbour for its link.

use std::ops::Range;

use bytes::Bytes;
use perigee_page::{PageRef, inner_record};
use perigee_redo::Op;
use perigee_types::{Lsn, PageId, TrxId};

use super::descend::{Path, Stop, Target};
use super::{PAGE_ROOM, SLOT_LEN, Tree};
use crate::EngineError;
use crate::buffer::Access;
use crate::mtr::{ExtentUse, Latched, Mtr};

/// A record to insert at a slot of the page that a path leads to.
#[derive(Debug)]
pub(super) struct Insertion {
    pub slot: u16,
    pub record: Bytes,
    pub trx: TrxId,
    /// The records that follow are likely to go behind this one: leave the left page full.
    pub ascending: bool,
    /// The record at the slot is removed first.
    pub replaces: bool,
    /// The leaf is split even if it has room.
    pub divides: bool,
}

/// How the records of a page and a new one at `slot` are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Division {
    /// Records from this slot on go to the right page.
    pub point: u16,
    /// The new record goes to the left page.
    pub new_left: bool,
}

impl Tree {
    /// Splits a leaf as an insert in its middle would if it were full, for tests of what happens
    /// meanwhile. False if it has too few records to be divided, or is no leaf of the tree any more.
    ///
    /// # Errors
    /// What storage says.
    pub async fn split_leaf(&self, leaf: PageId) -> Result<bool, EngineError> {
        self.pool.admit().await?;
        let frame = match self.pool.fetch(leaf, Access::Scan).await {
            Err(error) if error.is_freed_page() => return Ok(false),
            frame => frame?,
        };
        self.run(|| {
            let _tree = self.latch_structure();
            let middle = frame.read(|page| {
                // Meanwhile the page may have been freed and made for something else.
                if (page.index(), page.kind()) != (self.spec.index, self.spec.kind) {
                    return None;
                }
                let slot = page.slot_count() / 2;
                let record = || Bytes::copy_from_slice(page.record(slot));
                let divisible = page.level() == 0 && slot > 0;
                divisible.then(|| (slot, record(), page.key(slot).to_vec(), page.max_trx()))
            });
            let Some((slot, record, key, trx)) = middle else {
                return Ok(false);
            };
            let path = self.descend(Target::At(&key), 0)?;
            if path.last().id() != leaf {
                return Ok(false);
            }
            let new = Insertion {
                slot,
                record,
                trx,
                ascending: false,
                replaces: true,
                divides: true,
            };
            self.insert_at(&path, new)?;
            Ok(true)
        })
        .await
    }

    /// Inserts into the leaf at the end of `path`, splitting what is full.
    pub(super) fn insert_at(&self, path: &Path, mut new: Insertion) -> Result<Lsn, Stop> {
        let neighbour = path.last().read(|page| page.next());
        let neighbour = neighbour
            .map(|id| self.resident(id, Access::Scan))
            .transpose()?;
        let mut mtr = Mtr::new(&self.pool);
        let pages: Vec<_> = path.frames.iter().map(|frame| mtr.latch(frame)).collect();
        let neighbour = neighbour.map(|frame| mtr.latch(&frame));
        if new.replaces {
            let leaf = *pages.last().expect("a path has a root");
            mtr.apply(
                leaf,
                Op::Remove {
                    slot: new.slot,
                    count: 1,
                    trx: new.trx,
                },
            );
        }
        for depth in (0..pages.len()).rev() {
            let page = pages[depth];
            let fits = mtr.page(page).free_space() >= new.record.len() + SLOT_LEN;
            if fits && !new.divides {
                let Insertion {
                    slot, record, trx, ..
                } = new;
                mtr.apply(
                    page,
                    Op::Insert {
                        slot,
                        trx,
                        records: record,
                    },
                );
                break;
            }
            if depth == 0 {
                self.grow_root(&mut mtr, page, new);
                break;
            }
            let (separator, right) = self.split(&mut mtr, page, neighbour, new);
            new = Insertion {
                slot: path.slots[depth - 1] + 1,
                record: inner_record(&self.inner, &separator, right).into(),
                trx: TrxId(0),
                ascending: false,
                replaces: false,
                divides: false,
            };
            new.ascending = new.slot == mtr.page(pages[depth - 1]).slot_count();
        }
        Ok(mtr.commit())
    }

    /// Moves the upper part of a page to a new page on its right; returns the separator and the
    /// new page.
    fn split(
        &self,
        mtr: &mut Mtr<'_>,
        left: Latched,
        neighbour: Option<Latched>,
        new: Insertion,
    ) -> (Vec<u8>, PageId) {
        let page = mtr.page(left);
        let (level, count, max_trx) = (page.level(), page.slot_count(), page.max_trx());
        let division = divide(page, &new);
        let records = records_of(
            page,
            division.point..count,
            (!division.new_left).then_some(&new),
        );
        let (prev, next) = (
            page.prev().unwrap_or_default(),
            page.next().unwrap_or_default(),
        );
        let separator = page.shape().key(&records).to_vec();

        let right = mtr.make(self.spec.index, extent_use(level));
        let id = mtr.frame(right).id();
        let left_id = mtr.frame(left).id();
        let links = level == 0;
        let none = PageId(0);
        let (right_prev, right_next) = if links { (left_id, next) } else { (none, none) };
        mtr.apply(right, self.format(level, right_prev, right_next));
        // Moved records carry their transactions with them.
        let trx = if division.new_left {
            max_trx
        } else {
            max_trx.max(new.trx)
        };
        mtr.apply(
            right,
            Op::Insert {
                slot: 0,
                trx,
                records: records.into(),
            },
        );
        if division.point < count {
            let removed = count - division.point;
            mtr.apply(
                left,
                Op::Remove {
                    slot: division.point,
                    count: removed,
                    trx: TrxId(0),
                },
            );
        }
        if division.new_left {
            let Insertion {
                slot, record, trx, ..
            } = new;
            mtr.apply(
                left,
                Op::Insert {
                    slot,
                    trx,
                    records: record,
                },
            );
        }
        if links {
            mtr.apply(left, Op::SetLinks { prev, next: id });
            if let Some(neighbour) = neighbour {
                let beyond = mtr.page(neighbour).next().unwrap_or_default();
                mtr.apply(
                    neighbour,
                    Op::SetLinks {
                        prev: id,
                        next: beyond,
                    },
                );
            }
        }
        (separator, id)
    }

    /// The root is full: its records move to two new pages, and it becomes their parent.
    fn grow_root(&self, mtr: &mut Mtr<'_>, root: Latched, new: Insertion) {
        let page = mtr.page(root);
        let (level, count, max_trx) = (page.level(), page.slot_count(), page.max_trx());
        let division = divide(page, &new);
        let trx = max_trx.max(new.trx);
        let (left_new, right_new) = if division.new_left {
            (Some(&new), None)
        } else {
            (None, Some(&new))
        };
        let left_records = records_of(page, 0..division.point, left_new);
        let right_records = records_of(page, division.point..count, right_new);
        let separator = page.shape().key(&right_records).to_vec();

        let pages = [(); 2].map(|()| mtr.make(self.spec.index, extent_use(level)));
        let [left, right] = pages.map(|page| mtr.frame(page).id());
        let (left_next, right_prev) = if level == 0 {
            (right, left)
        } else {
            <_>::default()
        };
        for (page, prev, next, records) in [
            (pages[0], PageId(0), left_next, left_records),
            (pages[1], right_prev, PageId(0), right_records),
        ] {
            mtr.apply(page, self.format(level, prev, next));
            mtr.apply(
                page,
                Op::Insert {
                    slot: 0,
                    trx,
                    records: records.into(),
                },
            );
        }
        mtr.apply(root, self.format(level + 1, PageId(0), PageId(0)));
        let mut children = inner_record(&self.inner, &self.least_key(), left);
        if level > 0 {
            debug_assert!(
                self.least_key() < separator,
                "the least key is below every separator"
            );
        }
        children.extend(inner_record(&self.inner, &separator, right));
        mtr.apply(
            root,
            Op::Insert {
                slot: 0,
                trx: TrxId(0),
                records: children.into(),
            },
        );
    }
}

pub(super) fn extent_use(level: u8) -> ExtentUse {
    if level == 0 {
        ExtentUse::Leaf
    } else {
        ExtentUse::Inner
    }
}

/// The records at `slots`, with the new one at its place among them.
pub(super) fn records_of(page: PageRef<'_>, slots: Range<u16>, new: Option<&Insertion>) -> Vec<u8> {
    let mut records = Vec::new();
    for slot in slots.clone() {
        if let Some(new) = new.filter(|new| new.slot == slot) {
            records.extend_from_slice(&new.record);
        }
        records.extend_from_slice(page.record(slot));
    }
    if let Some(new) = new.filter(|new| new.slot == slots.end) {
        records.extend_from_slice(&new.record);
    }
    records
}

/// Divides by bytes in halves, or so that an ascending insert goes on in an empty page. Both parts
/// fit a page and neither is empty.
pub(super) fn divide(page: PageRef<'_>, new: &Insertion) -> Division {
    let count = page.slot_count();
    if new.ascending && new.slot == count && count > 0 {
        return Division {
            point: count,
            new_left: false,
        };
    }
    let new_len = new.record.len() + SLOT_LEN;
    let total = page.record_bytes() + SLOT_LEN * usize::from(count) + new_len;
    let mut left = 0;
    // Candidates in order: after each item of the sequence of old records with the new one in it.
    let mut best: Option<(usize, Division)> = None;
    let mut offer = |left: usize, division: Division| {
        let right = total - left;
        let fits = left > 0 && right > 0 && left <= PAGE_ROOM && right <= PAGE_ROOM;
        let gap = left.abs_diff(right);
        if fits && best.is_none_or(|(least, _)| gap < least) {
            best = Some((gap, division));
        }
    };
    for slot in 0..=count {
        if slot == new.slot {
            offer(
                left,
                Division {
                    point: slot,
                    new_left: false,
                },
            );
            left += new_len;
            offer(
                left,
                Division {
                    point: slot,
                    new_left: true,
                },
            );
        } else {
            offer(
                left,
                Division {
                    point: slot,
                    new_left: slot > new.slot,
                },
            );
        }
        if slot < count {
            left += page.record(slot).len() + SLOT_LEN;
        }
    }
    best.expect("records of at most half a page can be divided")
        .1
}

#[cfg(test)]
pub(super) mod tests {
    use perigee_page::{PageKind, RecordShape};
    use perigee_types::{DbId, IndexId, PAGE_SIZE};
    use proptest::prelude::*;

    use super::super::MAX_RECORD_LEN;
    use super::*;

    const SHAPE: RecordShape = RecordShape {
        fixed_len: 1,
        key_offset: 0,
        key_len: 0,
        var_count: 2,
        header_len: 1,
    };

    /// A page with as many records of these lengths as fit; their keys are odd.
    pub fn page_of(lens: &[usize]) -> Box<[u8; PAGE_SIZE]> {
        let mut page = Box::new([0; PAGE_SIZE]);
        let (id, none) = (PageId(5), PageId(0));
        let (db, index) = (DbId(1), IndexId(1));
        let kind = PageKind::Secondary;
        let format = Op::Format {
            kind,
            level: 0,
            db,
            index,
            shape: SHAPE,
            prev: none,
            next: none,
        };
        perigee_redo::apply(&mut page, id, &format).expect("formats");
        for (slot, len) in (0..).zip(lens) {
            let records = Bytes::from(record(2 * slot + 1, *len));
            let trx = TrxId(0);
            let insert = Op::Insert { slot, trx, records };
            if perigee_redo::apply(&mut page, id, &insert).is_err() {
                break;
            }
        }
        page
    }

    /// An insert of a record of this length at a slot of such a page.
    pub fn insertion(slot: u16, len: usize, ascending: bool) -> Insertion {
        Insertion {
            slot,
            record: record(2 * slot, len).into(),
            trx: TrxId(0),
            ascending,
            replaces: false,
            divides: false,
        }
    }

    /// A record with this key and total length.
    fn record(key: u16, len: usize) -> Vec<u8> {
        let mut record = vec![0, 7, 0];
        record.extend((len.max(7) as u16).to_le_bytes());
        record.extend(key.to_be_bytes());
        record.resize(len.max(7), 9);
        record
    }

    proptest! {
        #[test]
        fn both_parts_fit_and_are_balanced(
            lens in prop::collection::vec(7..=MAX_RECORD_LEN, 1..200),
            new_len in 7..=MAX_RECORD_LEN,
            at in 0..200_usize,
        ) {
            let page = page_of(&lens);
            let page = PageRef::new(&page[..]).expect("a page");
            let count = page.slot_count();
            let new = insertion(at as u16 % (count + 1), new_len, false);
            prop_assume!(page.free_space() < new.record.len() + SLOT_LEN);
            let division = divide(page, &new);
            let part = |slots, mine: bool| records_of(page, slots, mine.then_some(&new));
            let left = part(0..division.point, division.new_left);
            let right = part(division.point..count, !division.new_left);
            let mut whole = Vec::new();
            let mut lengths = Vec::new();
            for part in [&left, &right] {
                prop_assert!(!part.is_empty());
                let (mut rest, mut n) = (&part[..], 0);
                while !rest.is_empty() {
                    let len = SHAPE.record_len(rest).expect("whole records");
                    whole.push(SHAPE.key(&rest[..len]).to_vec());
                    rest = &rest[len..];
                    n += 1;
                }
                lengths.push(part.len() + n * SLOT_LEN);
            }
            prop_assert!(whole.is_sorted_by(|a, b| a < b) && whole.len() == usize::from(count) + 1);
            prop_assert!(lengths.iter().all(|l| *l <= PAGE_ROOM));
            prop_assert!(lengths[0].abs_diff(lengths[1]) <= MAX_RECORD_LEN + SLOT_LEN);
        }
    }
}
