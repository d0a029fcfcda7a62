//! Where each column of a row lies in a record.

use perigee_page::RecordShape;

use crate::ColumnType;

/// Where a column's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the key at this offset from the start of the record, in key encoding (big-endian, sign
    /// flipped). Only keys of fixed width hold their columns, at constant offsets.
    Key {
        /// Offset from the start of the record.
        offset: u16,
    },
    /// At this offset from the start of the record, little-endian.
    Fixed {
        /// Offset from the start of the record.
        offset: u16,
    },
    /// The variable-length item with this number.
    Var {
        /// Index into the record's end offsets.
        item: u8,
    },
}

/// One column of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnLayout {
    /// Its type.
    pub ty: ColumnType,
    /// Bit in the null bitmap if the column is nullable.
    pub null_bit: Option<u16>,
    /// Where it is.
    pub place: Place,
}

/// Layout of the records of one index: `docs/format/row.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowLayout {
    /// Columns in table order (clustered index), or key columns followed by the primary key
    /// columns that are not among them (secondary index).
    pub columns: Vec<ColumnLayout>,
    /// The key: indexes into `columns`, in key order. Unique over all records of the index.
    pub key: Vec<u16>,
    /// Offset of the null bitmap in a record; its length is given by the number of null bits.
    pub null_offset: u16,
    /// The structure that pages know.
    pub shape: RecordShape,
}
