//! The system page: counters that hand out ids, and one slot for each transaction that writes.
//!
//! Page 2, kind meta. Body, from the end of the page header (`docs/format/system.md`):
//!
//! ```text
//! 0   8  transaction ids below this one may be in use
//! 8   8  row ids below this one may be in use
//! 16  4  next table id
//! 20  4  next index id
//! 24  …  slots, 32 bytes each
//!
//! slot  0   8  the unfinished transaction, 0 if there is none
//!       8   8  head: first page of the segment with undo that is not purged, 0 if it has no pages
//!       16  8  start: page in which the transaction's undo begins; without one, a page at or before
//!              the last one written to
//!       24  2  offset in that page
//!       26  6  0
//! ```
//!
//! Transaction and row ids are reserved in steps, so that not each one writes the page; after a
//! crash the rest of a step is skipped. A slot is the durable truth about a transaction: as long as
//! it names a transaction, that one is unfinished and a restart rolls it back; freeing the slot *is*
//! the commit. Each slot has an undo segment of its own (`segment.rs`), which outlives its transactions.

use bytes::Bytes;
use perigee_page::{HEADER_LEN, PageRef};
use perigee_redo::Op;
use perigee_types::{PageId, TrxId};

use super::segment::Position;

/// The page all this lies in.
pub const SYSTEM_PAGE: PageId = PageId(2);

/// Number of transaction slots: more writers at once would each wait for the log anyway.
pub const SLOTS: usize = 500;

const TRX_LIMIT: usize = 0;
const ROW_LIMIT: usize = 8;
const NEXT_TABLE: usize = 16;
const NEXT_INDEX: usize = 20;
const SLOT_ARRAY: usize = 24;
const SLOT_LEN: usize = 32;

/// A counter in the system page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Transaction ids.
    Trx,
    /// Hidden row ids.
    Row,
    /// Table ids.
    Table,
    /// Index ids.
    Index,
}

/// Contents of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// The unfinished transaction, or `TrxId(0)`.
    pub trx: TrxId,
    /// First page of the segment with undo that is not purged, or `PageId(0)`.
    pub head: PageId,
    /// Where the transaction's undo begins; without a transaction, where the next one's may begin.
    pub start: Position,
}

/// Reads a counter.
#[must_use]
pub fn counter(page: PageRef<'_>, counter: Counter) -> u64 {
    let (offset, width) = place(counter);
    let mut bytes = [0; 8];
    bytes[..width].copy_from_slice(body(page, offset, width));
    u64::from_le_bytes(bytes)
}

/// The operation that sets a counter.
#[must_use]
pub fn set_counter(counter: Counter, value: u64) -> Op {
    let (offset, width) = place(counter);
    write(offset, &value.to_le_bytes()[..width])
}

/// Reads a slot.
#[must_use]
pub fn slot(page: PageRef<'_>, slot: usize) -> Slot {
    let bytes = body(page, slot_offset(slot), SLOT_LEN);
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    Slot {
        trx: TrxId(number(0)),
        head: PageId(number(8)),
        start: Position {
            page: PageId(number(16)),
            offset: u16::from_le_bytes([bytes[24], bytes[25]]),
        },
    }
}

/// The operation that sets a slot.
#[must_use]
pub fn set_slot(slot: usize, contents: Slot) -> Op {
    let mut bytes = contents.trx.0.to_le_bytes().to_vec();
    bytes.extend(contents.head.0.to_le_bytes());
    bytes.extend(contents.start.page.0.to_le_bytes());
    bytes.extend(contents.start.offset.to_le_bytes());
    bytes.resize(SLOT_LEN, 0);
    write(slot_offset(slot), &bytes)
}

fn place(counter: Counter) -> (usize, usize) {
    match counter {
        Counter::Trx => (TRX_LIMIT, 8),
        Counter::Row => (ROW_LIMIT, 8),
        Counter::Table => (NEXT_TABLE, 4),
        Counter::Index => (NEXT_INDEX, 4),
    }
}

fn slot_offset(slot: usize) -> usize {
    assert!(slot < SLOTS, "transaction slot {slot}");
    SLOT_ARRAY + slot * SLOT_LEN
}

fn body(page: PageRef<'_>, offset: usize, len: usize) -> &[u8] {
    &page.bytes()[HEADER_LEN + offset..][..len]
}

fn write(offset: usize, bytes: &[u8]) -> Op {
    Op::Write {
        offset: (HEADER_LEN + offset) as u16,
        bytes: Bytes::copy_from_slice(bytes),
    }
}

#[cfg(test)]
mod tests {
    use perigee_page::{PageKind, RecordShape};
    use perigee_types::{DbId, IndexId, PAGE_SIZE};

    use super::*;

    #[test]
    fn what_is_set_is_read() {
        let mut page = [0; PAGE_SIZE];
        let none = PageId(0);
        let format = Op::Format {
            kind: PageKind::Meta,
            level: 0,
            db: DbId(1),
            index: IndexId(0),
            shape: RecordShape::default(),
            prev: none,
            next: none,
        };
        let last = Slot {
            trx: TrxId(9),
            head: PageId(77),
            start: Position {
                page: PageId(78),
                offset: 99,
            },
        };
        let ops = [
            format,
            set_counter(Counter::Trx, 1 << 40),
            set_counter(Counter::Index, 12),
            set_slot(SLOTS - 1, last),
        ];
        for op in &ops {
            perigee_redo::apply(&mut page, SYSTEM_PAGE, op).expect("applies");
        }
        let page = PageRef::new(&page).expect("a page");
        assert_eq!(counter(page, Counter::Trx), 1 << 40);
        assert_eq!(counter(page, Counter::Row), 0);
        assert_eq!(counter(page, Counter::Index), 12);
        assert_eq!(slot(page, SLOTS - 1), last);
        assert_eq!(slot(page, 0), Slot::default());
    }
}
