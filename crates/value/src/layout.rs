//! Where each column of a row lies in a record.
//!
//! A layout is a function of the column types and the key, so its wire form is just those; what
//! is decoded is built by the same constructor and is therefore valid.

use perigee_page::{CLUSTERED_HEADER_LEN, PLAIN_HEADER_LEN, RecordShape};
use perigee_types::{DecodeError, Reader, Writer};

use crate::{ColumnType, LayoutError};

/// Greatest number of columns of a record (InnoDB's limit).
pub const MAX_COLUMNS: usize = 1017;

/// Greatest length of a record: a 16 KiB page takes at least two (InnoDB's limit is alike).
pub const MAX_RECORD_LEN: usize = 8126;

/// Greatest length of an encoded key: an inner page takes at least five (InnoDB's limit).
pub const MAX_KEY_LEN: usize = 3072;

/// Greatest number of variable-length items of a record; the count is one byte.
const MAX_ITEMS: usize = 255;

/// Where a column's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the key at this offset from the start of the record, in key encoding (big-endian, sign
    /// flipped). Only keys of fixed width hold their columns, at constant offsets. If the column
    /// is nullable the byte before tells NULL apart in key order; readers use the null bitmap.
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
    /// Bit in the null bitmap if the column is nullable; set = NULL. Bit `b` is bit `b % 8` of the
    /// byte at `null_offset + b / 8`.
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

impl RowLayout {
    /// Layout of a clustered index over columns `(type, nullable)`; `key` are the columns of the
    /// primary key, which must not be nullable.
    pub fn clustered(columns: &[(ColumnType, bool)], key: &[u16]) -> Result<Self, LayoutError> {
        for column in key {
            if columns
                .get(usize::from(*column))
                .is_some_and(|(_, nullable)| *nullable)
            {
                return Err(LayoutError::Key("a primary key column is nullable"));
            }
        }
        Self::build(columns, key, CLUSTERED_HEADER_LEN)
    }

    /// Layout of a secondary index whose entries have these columns `(type, nullable)`: the
    /// index columns in order, then the primary key columns that are not among them
    /// ([`RowLayout::secondary_columns`]). All of them form the key.
    pub fn secondary(columns: &[(ColumnType, bool)]) -> Result<Self, LayoutError> {
        let key: Vec<u16> = (0..columns.len().min(MAX_COLUMNS) as u16).collect();
        Self::build(columns, &key, PLAIN_HEADER_LEN)
    }

    /// Table columns that an entry of a secondary index holds, in order.
    #[must_use]
    pub fn secondary_columns(index: &[u16], primary_key: &[u16]) -> Vec<u16> {
        let mut columns = index.to_vec();
        columns.extend(primary_key.iter().filter(|column| !index.contains(column)));
        columns
    }

    fn build(
        columns: &[(ColumnType, bool)],
        key: &[u16],
        header_len: usize,
    ) -> Result<Self, LayoutError> {
        check_columns(columns)?;
        check_key(columns.len(), key)?;
        if key.iter().any(|c| columns[usize::from(*c)].0.is_long()) {
            return Err(LayoutError::Key("it has a TEXT or BLOB column"));
        }
        let key_len = fixed_key_len(columns, key);
        if key_len.is_some_and(|len| len > MAX_KEY_LEN) {
            return Err(LayoutError::KeyTooLong(key_len.unwrap_or_default()));
        }
        let null_bits = columns.iter().filter(|(_, nullable)| *nullable).count();
        let key_offset = header_len + null_bits.div_ceil(8);
        let places = place_columns(columns, key, key_offset, key_len)?;

        let mut next_bit = 0;
        let columns = columns
            .iter()
            .zip(places.columns)
            .map(|((ty, nullable), place)| {
                let null_bit = nullable.then_some(next_bit);
                next_bit += u16::from(*nullable);
                ColumnLayout {
                    ty: *ty,
                    null_bit,
                    place,
                }
            })
            .collect();
        Ok(Self {
            columns,
            key: key.to_vec(),
            null_offset: header_len as u16,
            shape: RecordShape {
                fixed_len: places.fixed_len,
                key_offset: key_offset as u16,
                key_len: key_len.unwrap_or(0) as u16,
                var_count: places.items,
                header_len: header_len as u8,
            },
        })
    }

    /// True for the layout of a clustered index: records carry transaction id and roll pointer.
    #[must_use]
    pub fn is_clustered(&self) -> bool {
        self.shape.is_clustered()
    }

    /// True if a column has values that may lie outside of the record.
    #[must_use]
    pub fn has_long(&self) -> bool {
        self.columns.iter().any(|column| column.ty.is_long())
    }

    /// Bytes of the null bitmap.
    #[must_use]
    pub fn null_bytes(&self) -> usize {
        self.columns
            .iter()
            .filter(|c| c.null_bit.is_some())
            .count()
            .div_ceil(8)
    }

    /// Appends the wire form: version, kind, columns, key.
    pub fn encode(&self, w: &mut Writer) {
        w.u8(LAYOUT_VERSION).u8(u8::from(self.is_clustered()));
        w.u16(self.columns.len() as u16);
        for column in &self.columns {
            column.ty.encode(w);
            w.u8(u8::from(column.null_bit.is_some()));
        }
        if self.is_clustered() {
            w.u16(self.key.len() as u16);
            for column in &self.key {
                w.u16(*column);
            }
        }
    }

    /// Reads what [`RowLayout::encode`] wrote.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if r.u8()? != LAYOUT_VERSION {
            return Err(DecodeError::new("row layout: version"));
        }
        let clustered = decode_bool(r)?;
        let count = usize::from(r.u16()?);
        if count > MAX_COLUMNS {
            return Err(DecodeError::new("row layout: number of columns"));
        }
        let mut columns = Vec::with_capacity(count);
        for _ in 0..count {
            columns.push((ColumnType::decode(r)?, decode_bool(r)?));
        }
        let layout = if clustered {
            let parts = usize::from(r.u16()?);
            if parts > count {
                return Err(DecodeError::new("row layout: key"));
            }
            let key = (0..parts).map(|_| r.u16()).collect::<Result<Vec<_>, _>>()?;
            Self::clustered(&columns, &key)
        } else {
            Self::secondary(&columns)
        };
        layout.map_err(|_| DecodeError::new("row layout: columns and key do not fit"))
    }
}

/// Version of the wire form of layouts and of the record format that it stands for.
const LAYOUT_VERSION: u8 = 1;

fn decode_bool(r: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match r.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::new("row layout: flag")),
    }
}

fn check_columns(columns: &[(ColumnType, bool)]) -> Result<(), LayoutError> {
    if columns.is_empty() || columns.len() > MAX_COLUMNS {
        return Err(LayoutError::ColumnCount(columns.len()));
    }
    for (column, (ty, _)) in columns.iter().enumerate() {
        ty.check().map_err(|what| LayoutError::Type {
            column: column as u16,
            what,
        })?;
    }
    Ok(())
}

fn check_key(columns: usize, key: &[u16]) -> Result<(), LayoutError> {
    if key.is_empty() {
        return Err(LayoutError::Key("it has no columns"));
    }
    let mut seen = vec![false; columns];
    for column in key {
        match seen.get_mut(usize::from(*column)) {
            None => return Err(LayoutError::Key("it names a column that does not exist")),
            Some(true) => return Err(LayoutError::Key("it repeats a column")),
            Some(seen) => *seen = true,
        }
    }
    Ok(())
}

/// Width of the encoded key if no column of it is a string.
fn fixed_key_len(columns: &[(ColumnType, bool)], key: &[u16]) -> Option<usize> {
    key.iter().try_fold(0, |sum, column| {
        let (ty, nullable) = columns[usize::from(*column)];
        Some(sum + usize::from(nullable) + usize::from(ty.stored_width()?))
    })
}

struct Places {
    columns: Vec<Place>,
    fixed_len: u16,
    items: u8,
}

/// Lays out key, fixed columns and variable-length items; the latter two in column order.
fn place_columns(
    columns: &[(ColumnType, bool)],
    key: &[u16],
    key_offset: usize,
    key_len: Option<usize>,
) -> Result<Places, LayoutError> {
    let strings = columns.iter().filter(|(ty, _)| ty.is_string()).count();
    let items = strings + usize::from(key_len.is_none());
    if items > MAX_ITEMS {
        return Err(LayoutError::StringCount(strings));
    }
    let mut places = vec![None; columns.len()];
    if key_len.is_some() {
        let mut offset = key_offset;
        for column in key {
            let (ty, nullable) = columns[usize::from(*column)];
            offset += usize::from(nullable);
            places[usize::from(*column)] = Some(Place::Key {
                offset: offset as u16,
            });
            offset += usize::from(ty.stored_width().unwrap_or_default());
        }
    }
    // Offsets fit 16 bits: 1017 columns of at most 17 bytes.
    let mut fixed_len = key_offset + key_len.unwrap_or(0);
    let mut item = u8::from(key_len.is_none());
    let places = columns
        .iter()
        .zip(places)
        .map(|((ty, _), place)| {
            place.unwrap_or_else(|| match ty.stored_width() {
                Some(width) => {
                    let offset = fixed_len as u16;
                    fixed_len += usize::from(width);
                    Place::Fixed { offset }
                }
                None => {
                    item = item.wrapping_add(1);
                    Place::Var {
                        item: item.wrapping_sub(1),
                    }
                }
            })
        })
        .collect();
    let len = fixed_len + 2 * items;
    if len > MAX_RECORD_LEN {
        return Err(LayoutError::RowTooLong(len));
    }
    Ok(Places {
        columns: places,
        fixed_len: fixed_len as u16,
        items: items as u8,
    })
}

#[cfg(test)]
mod tests;
