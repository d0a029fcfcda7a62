//! The page header and [`PageRef`], the reading face.

use perigee_types::{DbId, IndexId, Lsn, PAGE_SIZE, PageId, TrxId, checksum};

use crate::{PageFormatError, RecordHeader, RecordShape};

/// Length of the page header; records begin here.
pub const HEADER_LEN: usize = 72;

/// Version of the page format.
pub(crate) const FORMAT_VERSION: u8 = 1;

/// Offsets of the header's fields (`docs/format/page.md`).
pub(crate) mod at {
    pub const CHECKSUM: usize = 0;
    pub const VERSION: usize = 4;
    pub const KIND: usize = 5;
    pub const LEVEL: usize = 6;
    pub const ID: usize = 8;
    pub const LSN: usize = 16;
    pub const DB: usize = 24;
    pub const INDEX: usize = 28;
    pub const PREV: usize = 32;
    pub const NEXT: usize = 40;
    pub const MAX_TRX: usize = 48;
    pub const SLOTS: usize = 56;
    pub const HEAP_END: usize = 58;
    pub const GARBAGE: usize = 60;
    pub const DELETED: usize = 62;
    pub const FIXED_LEN: usize = 64;
    pub const KEY_OFFSET: usize = 66;
    pub const KEY_LEN: usize = 68;
    pub const VAR_COUNT: usize = 70;
    pub const RECORD_HEADER_LEN: usize = 71;
}

/// What a page is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PageKind {
    /// Leaf of a clustered index: rows with transaction id and roll pointer.
    Clustered = 1,
    /// Leaf of a secondary index.
    Secondary = 2,
    /// Inner page of any tree: separator keys and child page ids.
    Inner = 3,
    /// Undo records; a body without slots.
    Undo = 4,
    /// Superblock and transaction slots; a body without slots.
    Meta = 5,
    /// A part of a long value; a body without slots.
    Overflow = 6,
}

impl PageKind {
    /// The kind with this number.
    #[must_use]
    pub fn from_u8(n: u8) -> Option<Self> {
        [
            Self::Clustered,
            Self::Secondary,
            Self::Inner,
            Self::Undo,
            Self::Meta,
            Self::Overflow,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == n)
    }

    /// True for leaves of trees.
    #[must_use]
    pub fn is_leaf(self) -> bool {
        matches!(self, Self::Clustered | Self::Secondary)
    }

    /// True for pages with slots and records.
    #[must_use]
    pub fn has_records(self) -> bool {
        self.is_leaf() || self == Self::Inner
    }
}

/// A page to read.
///
/// Accessors of records panic on a page whose slots point outside; pages that come from disk or
/// from the wire go through [`PageRef::verify_checksum`] and [`PageRef::verify`] first.
#[derive(Clone, Copy)]
pub struct PageRef<'a>(pub(crate) &'a [u8; PAGE_SIZE]);

impl<'a> PageRef<'a> {
    /// A page over `bytes`; checks length, format version and kind, nothing more.
    pub fn new(bytes: &'a [u8]) -> Result<Self, PageFormatError> {
        let found = bytes.len();
        let page = Self(
            bytes
                .try_into()
                .map_err(|_| PageFormatError::Length { found })?,
        );
        let version = page.0[at::VERSION];
        if version != FORMAT_VERSION {
            return Err(PageFormatError::Version {
                page: page.id(),
                version,
            });
        }
        if PageKind::from_u8(page.0[at::KIND]).is_none() {
            return Err(PageFormatError::Structure {
                page: page.id(),
                what: "unknown page kind",
            });
        }
        Ok(page)
    }

    /// The page's bytes.
    #[must_use]
    pub fn bytes(self) -> &'a [u8; PAGE_SIZE] {
        self.0
    }

    /// The page's id.
    #[must_use]
    pub fn id(self) -> PageId {
        PageId(self.u64(at::ID))
    }

    /// LSN of the last log group that changed the page.
    #[must_use]
    pub fn lsn(self) -> Lsn {
        Lsn(self.u64(at::LSN))
    }

    /// The database it belongs to.
    #[must_use]
    pub fn db(self) -> DbId {
        DbId(self.u32(at::DB))
    }

    /// The index it belongs to.
    #[must_use]
    pub fn index(self) -> IndexId {
        IndexId(self.u32(at::INDEX))
    }

    /// What the page is for.
    #[must_use]
    pub fn kind(self) -> PageKind {
        PageKind::from_u8(self.0[at::KIND]).expect("checked by PageRef::new")
    }

    /// Level in its tree; 0 for leaves.
    #[must_use]
    pub fn level(self) -> u8 {
        self.0[at::LEVEL]
    }

    /// Left sibling, if any.
    #[must_use]
    pub fn prev(self) -> Option<PageId> {
        Some(PageId(self.u64(at::PREV))).filter(|id| id.0 != 0)
    }

    /// Right sibling, if any.
    #[must_use]
    pub fn next(self) -> Option<PageId> {
        Some(PageId(self.u64(at::NEXT))).filter(|id| id.0 != 0)
    }

    /// Greatest transaction id that ever changed this leaf.
    #[must_use]
    pub fn max_trx(self) -> TrxId {
        TrxId(self.u64(at::MAX_TRX))
    }

    /// Structure of the records.
    #[must_use]
    pub fn shape(self) -> RecordShape {
        RecordShape {
            fixed_len: self.u16(at::FIXED_LEN),
            key_offset: self.u16(at::KEY_OFFSET),
            key_len: self.u16(at::KEY_LEN),
            var_count: self.0[at::VAR_COUNT],
            header_len: self.0[at::RECORD_HEADER_LEN],
        }
    }

    /// Number of records.
    #[must_use]
    pub fn slot_count(self) -> u16 {
        self.u16(at::SLOTS)
    }

    /// Number of records with a delete mark.
    #[must_use]
    pub fn deleted_count(self) -> u16 {
        self.u16(at::DELETED)
    }

    /// Bytes that new records and their slots may take, after compaction.
    #[must_use]
    pub fn free_space(self) -> usize {
        self.contiguous_space() + usize::from(self.u16(at::GARBAGE))
    }

    /// Bytes of records, without header, slots and garbage.
    #[must_use]
    pub fn record_bytes(self) -> usize {
        self.heap_end() - HEADER_LEN - usize::from(self.u16(at::GARBAGE))
    }

    /// Offset in the page of the record at `slot`.
    ///
    /// # Panics
    /// If there is no such slot.
    #[must_use]
    pub fn record_offset(self, slot: u16) -> u16 {
        assert!(slot < self.slot_count(), "{}: no slot {slot}", self.id());
        self.u16(slot_at(slot))
    }

    /// Appends the offsets of all records, in key order.
    pub fn record_offsets(self, out: &mut Vec<u16>) {
        let directory = &self.0[PAGE_SIZE - 2 * usize::from(self.slot_count())..];
        out.extend(
            directory
                .rchunks_exact(2)
                .map(|b| u16::from_le_bytes([b[0], b[1]])),
        );
    }

    /// The record at `slot`.
    #[must_use]
    pub fn record(self, slot: u16) -> &'a [u8] {
        let tail = &self.0[usize::from(self.record_offset(slot))..self.heap_end()];
        let len = self
            .shape()
            .record_len(tail)
            .expect("records of a verified page have a length");
        &tail[..len]
    }

    /// The key of the record at `slot`.
    #[must_use]
    pub fn key(self, slot: u16) -> &'a [u8] {
        self.shape()
            .key(&self.0[usize::from(self.record_offset(slot))..])
    }

    /// The header of the record at `slot` of a clustered leaf.
    #[must_use]
    pub fn header(self, slot: u16) -> RecordHeader {
        RecordHeader::read(&self.0[usize::from(self.record_offset(slot))..])
    }

    /// The child page that the record at `slot` of an inner page points to.
    #[must_use]
    pub fn child(self, slot: u16) -> PageId {
        let at = usize::from(self.record_offset(slot)) + usize::from(self.shape().fixed_len) - 8;
        PageId(self.u64(at))
    }

    /// Finds `key`: `Ok(slot)` of the record with it, else `Err(slot)` of the first greater one.
    pub fn search(self, key: &[u8]) -> Result<u16, u16> {
        let slot = self.lower_bound(key);
        if slot < self.slot_count() && self.key(slot) == key {
            Ok(slot)
        } else {
            Err(slot)
        }
    }

    /// Slot of the first record whose key is not below `key`; the slot count if there is none.
    #[must_use]
    pub fn lower_bound(self, key: &[u8]) -> u16 {
        let shape = self.shape();
        let (mut low, mut high) = (0, self.slot_count());
        while low < high {
            let middle = low + (high - low) / 2;
            if shape.key(&self.0[usize::from(self.record_offset(middle))..]) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Slot of the child of an inner page whose subtree covers `key`: the last one whose
    /// separator is not above it, or the first.
    #[must_use]
    pub fn child_slot(self, key: &[u8]) -> u16 {
        match self.search(key) {
            Ok(slot) => slot,
            Err(slot) => slot.saturating_sub(1),
        }
    }

    /// Compares the stored checksum with the contents.
    pub fn verify_checksum(self) -> Result<(), PageFormatError> {
        let found = self.u32(at::CHECKSUM);
        let expected = checksum(&self.0[at::VERSION..]);
        if found == expected {
            Ok(())
        } else {
            Err(PageFormatError::Checksum {
                page: self.id(),
                found,
                expected,
            })
        }
    }

    pub(crate) fn heap_end(self) -> usize {
        usize::from(self.u16(at::HEAP_END))
    }

    pub(crate) fn garbage(self) -> usize {
        usize::from(self.u16(at::GARBAGE))
    }

    /// Free bytes between heap and slot directory.
    pub(crate) fn contiguous_space(self) -> usize {
        (PAGE_SIZE - 2 * usize::from(self.slot_count())).saturating_sub(self.heap_end())
    }

    pub(crate) fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().expect("four bytes"))
    }

    fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().expect("eight bytes"))
    }
}

/// Where the directory entry of a slot lies: the directory grows down from the end of the page.
pub(crate) fn slot_at(slot: u16) -> usize {
    PAGE_SIZE - 2 * (usize::from(slot) + 1)
}
