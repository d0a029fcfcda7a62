//! The structure of records, as far as pages know it.
//!
//! ```text
//! clustered leaf   [flags 1][trx id 6][roll ptr 7][rest of the fixed part][var ends 2n][var data]
//! secondary leaf   [flags 1]                      [rest of the fixed part][var ends 2n][var data]
//! inner            [flags 1]                      [key][child page id 8] or [child 8][end 2][key]
//! ```
//!
//! Var end `i` is the offset, from the start of the record, of the first byte after item `i`.

use perigee_types::{PAGE_SIZE, PageId, RollPtr, TrxId};

use crate::PageKind;

/// Length of the record header in clustered leaf pages: flags, transaction id, roll pointer.
pub const CLUSTERED_HEADER_LEN: usize = 14;

/// Length of the record header everywhere else: flags.
pub const PLAIN_HEADER_LEN: usize = 1;

/// How the records of a page are built; 8 bytes of the page header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RecordShape {
    /// Bytes before the var ends: header, null bitmap and fixed columns.
    pub fixed_len: u16,
    /// Offset of a fixed-width key; meaningless if `key_len` is 0.
    pub key_offset: u16,
    /// Width of the key, or 0 if the key is var item 0.
    pub key_len: u16,
    /// Number of variable-length items.
    pub var_count: u8,
    /// [`CLUSTERED_HEADER_LEN`] or [`PLAIN_HEADER_LEN`].
    pub header_len: u8,
}

/// Flag bits of a record, its first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordFlags(pub u8);

impl RecordFlags {
    /// The record is deleted, for the transactions that see its version.
    pub const DELETED: u8 = 1;

    /// True if the record carries a delete mark.
    #[must_use]
    pub fn is_deleted(self) -> bool {
        self.0 & Self::DELETED != 0
    }
}

/// Header of a clustered record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordHeader {
    /// Delete mark and room for more.
    pub flags: RecordFlags,
    /// The transaction that wrote this version.
    pub trx: TrxId,
    /// Where the undo record leading to the version before lies.
    pub roll: RollPtr,
}

impl RecordShape {
    /// Shape of the inner pages of a tree whose leaves have this shape.
    #[must_use]
    pub fn inner(&self) -> Self {
        let plain = PLAIN_HEADER_LEN as u16;
        let fixed_key = self.key_len > 0;
        Self {
            fixed_len: plain + self.key_len + 8,
            key_offset: plain,
            key_len: self.key_len,
            var_count: u8::from(!fixed_key),
            header_len: PLAIN_HEADER_LEN as u8,
        }
    }

    /// Checks that pages of this kind can have records of this shape; otherwise says what is wrong.
    pub fn check(&self, kind: PageKind) -> Result<(), &'static str> {
        let header_len = usize::from(self.header_len);
        let expected = if kind == PageKind::Clustered {
            CLUSTERED_HEADER_LEN
        } else {
            PLAIN_HEADER_LEN
        };
        let fixed_len = usize::from(self.fixed_len);
        if header_len != expected || fixed_len < header_len || fixed_len > PAGE_SIZE {
            return Err("record shape does not fit the page kind");
        }
        let key_end = usize::from(self.key_offset) + usize::from(self.key_len);
        let key_inside = usize::from(self.key_offset) >= header_len && key_end <= fixed_len;
        if if self.key_len > 0 {
            !key_inside
        } else {
            self.var_count == 0
        } {
            return Err("record shape has no key");
        }
        if kind == PageKind::Inner && fixed_len < PLAIN_HEADER_LEN + 8 {
            return Err("record shape has no child");
        }
        Ok(())
    }

    /// True if records carry transaction id and roll pointer.
    #[must_use]
    pub fn is_clustered(&self) -> bool {
        usize::from(self.header_len) == CLUSTERED_HEADER_LEN
    }

    /// Start of the first variable-length item.
    #[must_use]
    pub fn var_data_offset(&self) -> usize {
        usize::from(self.fixed_len) + 2 * usize::from(self.var_count)
    }

    /// Length of the record that `bytes` begins with, or `None` if `bytes` is too short or its
    /// var ends do not increase.
    #[must_use]
    pub fn record_len(&self, bytes: &[u8]) -> Option<usize> {
        let mut end = self.var_data_offset();
        if bytes.len() < end {
            return None;
        }
        for item in 0..usize::from(self.var_count) {
            let next = self.var_end(bytes, item);
            if next < end {
                return None;
            }
            end = next;
        }
        (end <= bytes.len()).then_some(end)
    }

    /// Variable-length item `item` of a record that [`RecordShape::record_len`] accepted.
    #[must_use]
    pub fn var_item<'a>(&self, record: &'a [u8], item: usize) -> &'a [u8] {
        let start = if item == 0 {
            self.var_data_offset()
        } else {
            self.var_end(record, item - 1)
        };
        &record[start..self.var_end(record, item)]
    }

    /// The key of a record that [`RecordShape::record_len`] accepted; keys compare bytewise.
    #[must_use]
    pub fn key<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        if self.key_len > 0 {
            &record[usize::from(self.key_offset)..][..usize::from(self.key_len)]
        } else {
            self.var_item(record, 0)
        }
    }

    fn var_end(&self, record: &[u8], item: usize) -> usize {
        let at = usize::from(self.fixed_len) + 2 * item;
        usize::from(u16::from_le_bytes([record[at], record[at + 1]]))
    }
}

impl RecordHeader {
    /// Reads the header of a clustered record.
    ///
    /// # Panics
    /// If `record` is shorter than [`CLUSTERED_HEADER_LEN`].
    #[must_use]
    pub fn read(record: &[u8]) -> Self {
        let mut trx = [0; 8];
        trx[..6].copy_from_slice(&record[1..7]);
        let mut roll = [0; 8];
        roll[..7].copy_from_slice(&record[7..14]);
        Self {
            flags: RecordFlags(record[0]),
            trx: TrxId(u64::from_le_bytes(trx)),
            roll: RollPtr(u64::from_le_bytes(roll)),
        }
    }

    /// The header's bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; CLUSTERED_HEADER_LEN] {
        assert!(
            self.trx <= TrxId::MAX && self.roll.0 < 1 << 56,
            "header field out of range"
        );
        let mut out = [0; CLUSTERED_HEADER_LEN];
        out[0] = self.flags.0;
        out[1..7].copy_from_slice(&self.trx.0.to_le_bytes()[..6]);
        out[7..14].copy_from_slice(&self.roll.0.to_le_bytes()[..7]);
        out
    }
}

/// The record of an inner page of this shape that leads to `child` for keys from `key` on.
///
/// # Panics
/// If `shape` is not the shape of an inner page or `key` does not have its width.
#[must_use]
pub fn inner_record(shape: &RecordShape, key: &[u8], child: PageId) -> Vec<u8> {
    let mut record = vec![0; PLAIN_HEADER_LEN];
    if shape.key_len > 0 {
        assert_eq!(
            key.len(),
            usize::from(shape.key_len),
            "key width of an inner page"
        );
        record.extend_from_slice(key);
        record.extend_from_slice(&child.0.to_le_bytes());
    } else {
        record.extend_from_slice(&child.0.to_le_bytes());
        let end = shape.var_data_offset() + key.len();
        let end = u16::try_from(end).expect("keys are shorter than a page");
        record.extend_from_slice(&end.to_le_bytes());
        record.extend_from_slice(key);
    }
    assert_eq!(
        shape.record_len(&record),
        Some(record.len()),
        "inner record of the wrong shape"
    );
    record
}
