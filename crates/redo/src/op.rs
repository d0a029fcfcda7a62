//! The operations.

use bytes::Bytes;
use perigee_page::{PageKind, RecordShape};
use perigee_types::{DbId, IndexId, PageId, TrxId};

/// One change of one page. Slots are positions in key order at the time the operation is applied.
///
/// Operations on leaf pages carry the writing transaction (`trx`), which raises the page's largest
/// transaction id in the same step (SPEC's N8); `TrxId(0)` raises nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Makes the page an empty one of the given kind, whatever it was.
    Format {
        /// Kind.
        kind: PageKind,
        /// Level in its tree, 0 for leaves.
        level: u8,
        /// Owner.
        db: DbId,
        /// Index it belongs to.
        index: IndexId,
        /// Structure of its records.
        shape: RecordShape,
        /// Left sibling, or `PageId(0)`.
        prev: PageId,
        /// Right sibling, or `PageId(0)`.
        next: PageId,
    },
    /// Inserts records, given one after the other in key order, at `slot`.
    Insert {
        /// Slot of the first of them.
        slot: u16,
        /// Writer.
        trx: TrxId,
        /// Concatenated records; the page's shape tells where each one ends.
        records: Bytes,
    },
    /// Removes `count` records from `slot` on.
    Remove {
        /// First slot.
        slot: u16,
        /// How many.
        count: u16,
        /// Writer.
        trx: TrxId,
    },
    /// Replaces the record at `slot` by one with the same key.
    Replace {
        /// Slot.
        slot: u16,
        /// Writer.
        trx: TrxId,
        /// The new record.
        record: Bytes,
    },
    /// Overwrites the header of the record at `slot` (delete mark, transaction id, roll pointer).
    SetHeader {
        /// Slot.
        slot: u16,
        /// Writer.
        trx: TrxId,
        /// `RecordShape::header_len` bytes.
        header: Bytes,
    },
    /// Sets the sibling links.
    SetLinks {
        /// Left sibling, or `PageId(0)`.
        prev: PageId,
        /// Right sibling, or `PageId(0)`.
        next: PageId,
    },
    /// Writes bytes into the body of a page without records (undo and meta pages).
    Write {
        /// Offset from the start of the page, at least the header's length.
        offset: u16,
        /// What is written.
        bytes: Bytes,
    },
    /// Frees the page: it has no content any more until it is formatted again. A store may forget
    /// what it was once nobody reads it as of an LSN before this one. Nothing follows it in a change.
    Free,
}
