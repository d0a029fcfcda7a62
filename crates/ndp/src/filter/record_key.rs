//! Keys read from records: the values of some columns, encoded one after the other as filters and join tables have them.
//!
//! Every offset handed in begins a record that the layout's shape accepts; loads are bounds-checked all the same.

use perigee_value::{ColumnType, Place, RowLayout, ValueRef, key};

use super::form::KeyForm;
use crate::gather::Gather;

/// Where the parts of a key are in the records of a layout.
pub(crate) struct RecordKey {
    pub(crate) form: KeyForm,
    columns: Vec<KeyColumn>,
    /// A part may be NULL.
    pub(crate) has_nulls: bool,
}

impl RecordKey {
    /// The key that these columns of a layout make.
    ///
    /// # Panics
    /// If the layout lacks one.
    pub(crate) fn new(layout: &RowLayout, columns: impl Iterator<Item = u16> + Clone) -> Self {
        let types = columns.clone().map(|c| layout.columns[usize::from(c)].ty);
        let form = KeyForm::of(types);
        let columns: Vec<_> = columns.map(|c| KeyColumn::new(layout, c)).collect();
        Self {
            form,
            has_nulls: columns.iter().any(|column| column.null.is_some()),
            columns,
        }
    }

    /// The packed keys of records; that of one with a NULL means nothing.
    pub(crate) fn numbers(&self, base: &[u8], records: &[u16], keys: &mut Vec<u64>) {
        keys.clear();
        keys.resize(records.len(), 0);
        for column in &self.columns {
            column.pack(base, records, keys);
        }
    }

    /// The key of a record; false if what it holds cannot be encoded.
    pub(crate) fn key(&self, base: &[u8], at: u16, key: &mut Vec<u8>) -> bool {
        key.clear();
        let mut columns = self.columns.iter();
        columns.all(|column| column.append(base, at, key).is_some())
    }

    /// True if a part of a record's key is NULL.
    pub(crate) fn is_null(&self, base: &[u8], at: u16) -> bool {
        let mut nulls = self.columns.iter().filter_map(|column| column.null);
        nulls.any(|(offset, mask)| base[usize::from(at) + offset] & mask != 0)
    }
}

/// Where a column of a key is in a record.
struct KeyColumn {
    ty: ColumnType,
    place: KeyPlace,
    /// Offset of the byte and mask of the bit that is set if the column is NULL.
    null: Option<(usize, u8)>,
}

enum KeyPlace {
    /// So many bytes in key encoding.
    Encoded { offset: usize, width: usize },
    /// A stored value of at most eight bytes.
    Number { offset: usize, width: usize },
    /// A stored decimal of sixteen bytes.
    Wide { offset: usize },
    /// A string.
    Item(Gather),
}

impl KeyColumn {
    fn new(layout: &RowLayout, column: u16) -> Self {
        let gather = Gather::new(layout, column);
        let column = &layout.columns[usize::from(column)];
        let width = usize::from(column.ty.stored_width().unwrap_or(0));
        let place = match column.place {
            Place::Key { offset } => KeyPlace::Encoded {
                offset: offset.into(),
                width,
            },
            // Wide decimals are stored as they are encoded.
            Place::Fixed { offset } if column.ty.is_wide() => KeyPlace::Encoded {
                offset: offset.into(),
                width,
            },
            Place::Fixed { offset } if width > 8 => KeyPlace::Wide {
                offset: offset.into(),
            },
            Place::Fixed { offset } => KeyPlace::Number {
                offset: offset.into(),
                width,
            },
            Place::Var { .. } => KeyPlace::Item(gather),
        };
        let null = column.null_bit.map(|bit| {
            let offset = usize::from(layout.null_offset) + usize::from(bit / 8);
            (offset, 1 << (bit % 8))
        });
        Self {
            ty: column.ty,
            place,
            null,
        }
    }

    /// Appends the column to the packed keys of records.
    fn pack(&self, base: &[u8], records: &[u16], keys: &mut [u64]) {
        macro_rules! pack {
            ($width:literal, $offset:expr, |$bytes:ident| $number:expr) => {
                for (&at, key) in records.iter().zip(keys) {
                    let at = usize::from(at) + $offset;
                    let $bytes: [u8; $width] =
                        base[at..at + $width].try_into().expect("so many bytes");
                    // Shifted in two steps: a key of one column has as many bits as the number.
                    *key = *key << (4 * $width) << (4 * $width) | u64::from($number);
                }
            };
        }
        match self.place {
            KeyPlace::Encoded { offset, width: 1 } => pack!(1, offset, |b| b[0]),
            KeyPlace::Encoded { offset, width: 2 } => pack!(2, offset, |b| u16::from_be_bytes(b)),
            KeyPlace::Encoded { offset, width: 4 } => pack!(4, offset, |b| u32::from_be_bytes(b)),
            KeyPlace::Encoded { offset, width: 8 } => pack!(8, offset, |b| u64::from_be_bytes(b)),
            KeyPlace::Number { offset, width } => {
                let order = Order::of(self.ty, width);
                match width {
                    1 => pack!(1, offset, |b| order.ordered(b[0].into()) as u8),
                    2 => pack!(2, offset, |b| order.ordered(u16::from_le_bytes(b).into())
                        as u16),
                    4 => pack!(4, offset, |b| order.ordered(u32::from_le_bytes(b).into())
                        as u32),
                    8 => pack!(8, offset, |b| order.ordered(u64::from_le_bytes(b))),
                    _ => panic!("N1: no number is stored in {width} bytes"),
                }
            }
            KeyPlace::Encoded { .. } | KeyPlace::Wide { .. } | KeyPlace::Item(_) => {
                panic!("N1: a packed key has narrow columns only")
            }
        }
    }

    /// Appends the encoded column of a record; `None` if what it holds cannot be encoded.
    fn append(&self, base: &[u8], at: u16, key: &mut Vec<u8>) -> Option<()> {
        let record = &base[usize::from(at)..];
        match &self.place {
            KeyPlace::Encoded { offset, width } => {
                key.extend_from_slice(&record[*offset..offset + width]);
            }
            KeyPlace::Number { offset, width } => {
                let mut bytes = [0; 8];
                bytes[..*width].copy_from_slice(&record[*offset..offset + width]);
                let number = Order::of(self.ty, *width).ordered(u64::from_le_bytes(bytes));
                key.extend_from_slice(&number.to_be_bytes()[8 - width..]);
            }
            KeyPlace::Wide { offset } => {
                let bytes = record[*offset..offset + 16].try_into().expect("16 bytes");
                let number = u128::from_le_bytes(bytes) ^ 1 << 127;
                key.extend_from_slice(&number.to_be_bytes());
            }
            KeyPlace::Item(gather) => {
                let (start, end) = gather.item(base, at)?;
                let text = ValueRef::String(&base[start..end]);
                key::encode_part(self.ty, false, text, key).ok()?;
            }
        }
        Some(())
    }
}

/// How stored bits become bits that order as the numbers do, the same in every type of a width: those of
/// a negative number are changed in one way, those of any other in another.
#[derive(Clone, Copy)]
struct Order {
    sign: u64,
    if_negative: u64,
    otherwise: u64,
    /// Stored bits that stand for zero as well.
    zero: Option<u64>,
}

impl Order {
    fn of(ty: ColumnType, width: usize) -> Self {
        let sign = 1 << (8 * width - 1);
        let all = sign | (sign - 1);
        let (if_negative, otherwise, zero) = match ty {
            _ if ty.is_unsigned() => (0, 0, None),
            ColumnType::Float | ColumnType::Double => (all, sign, Some(sign)),
            _ => (sign, sign, None),
        };
        Self {
            sign,
            if_negative,
            otherwise,
            zero,
        }
    }

    #[inline(always)]
    fn ordered(self, bits: u64) -> u64 {
        if self.zero == Some(bits) {
            return self.sign;
        }
        match bits & self.sign {
            0 => bits ^ self.otherwise,
            _ => bits ^ self.if_negative,
        }
    }
}
