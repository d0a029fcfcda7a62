//! Projection: the values of one column of many records, appended to a vector.
//!
//! One tight loop per stored form. Every offset handed in begins a record that the layout's shape
//! accepts; loads are bounds-checked all the same, so a caller's mistake is a panic, not a read
//! outside the page.

use std::slice;

use perigee_expr::{Lanes, Vector};
use perigee_value::{ColumnType, Place, RowLayout, Wide};

/// How to read one column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gather {
    form: Form,
    null: Option<NullBit>,
}

#[derive(Clone, Copy, Debug)]
struct NullBit {
    offset: usize,
    bit: u8,
}

/// Stored form of a column.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// An integer of `width` bytes at `offset`; in key form (big-endian, sign flipped) or
    /// little-endian.
    Number {
        offset: usize,
        width: u8,
        kind: NumberKind,
        key: bool,
    },
    /// As many bytes as a wide decimal has, at `offset`, the same in keys.
    WideDecimal { offset: usize },
    /// Variable-length item with this number; the end offsets begin at `ends`.
    Item {
        ends: usize,
        item: usize,
        data: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberKind {
    Signed,
    Unsigned,
    Wide,
    Float,
}

impl Gather {
    /// How to read `column` of records of `layout`.
    pub(crate) fn new(layout: &RowLayout, column: u16) -> Self {
        let column = &layout.columns[usize::from(column)];
        let null = column.null_bit.map(|bit| NullBit {
            offset: usize::from(layout.null_offset) + usize::from(bit / 8),
            bit: (bit % 8) as u8,
        });
        let (offset, key) = match column.place {
            Place::Key { offset } => (usize::from(offset), true),
            Place::Fixed { offset } => (usize::from(offset), false),
            Place::Var { item } => {
                let ends = usize::from(layout.shape.fixed_len);
                let data = layout.shape.var_data_offset();
                let form = Form::Item {
                    ends,
                    item: usize::from(item),
                    data,
                };
                return Self { form, null };
            }
        };
        if column.ty.is_wide() {
            let form = Form::WideDecimal { offset };
            return Self { form, null };
        }
        let width = column
            .ty
            .stored_width()
            .expect("only strings have variable length");
        let kind = match column.ty {
            ty if ty.is_unsigned() => NumberKind::Unsigned,
            ColumnType::Float | ColumnType::Double => NumberKind::Float,
            ColumnType::Decimal { .. } if width > 8 => NumberKind::Wide,
            _ => NumberKind::Signed,
        };
        let width = width as u8;
        Self {
            form: Form::Number {
                offset,
                width,
                kind,
                key,
            },
            null,
        }
    }

    /// An empty vector of the form that this column's values take.
    pub(crate) fn vector(&self) -> Vector {
        let lanes = match self.form {
            Form::Item { .. } | Form::WideDecimal { .. } => Lanes::Bytes {
                ends: Vec::new(),
                data: Vec::new(),
            },
            Form::Number {
                kind: NumberKind::Signed,
                ..
            } => Lanes::I64(Vec::new()),
            Form::Number {
                kind: NumberKind::Unsigned,
                ..
            } => Lanes::U64(Vec::new()),
            Form::Number {
                kind: NumberKind::Wide,
                ..
            } => Lanes::I128(Vec::new()),
            Form::Number {
                kind: NumberKind::Float,
                ..
            } => Lanes::F64(Vec::new()),
        };
        Vector { lanes, valid: None }
    }

    /// Appends the column's value of each record.
    pub(crate) fn append(&self, base: &[u8], records: &[u16], out: &mut Vector) {
        self.append_validity(base, records, out);
        match (self.form, &mut out.lanes) {
            (
                Form::Number {
                    offset, width, key, ..
                },
                Lanes::I64(lanes),
            ) => {
                signed(base, records, offset, (width, key), lanes);
            }
            (
                Form::Number {
                    offset, width, key, ..
                },
                Lanes::U64(lanes),
            ) => {
                unsigned(base, records, offset, (width, key), lanes);
            }
            (Form::Number { offset, key, .. }, Lanes::I128(lanes)) => {
                let flip = 1 << 127;
                lanes.extend(loads::<16>(base, records, offset).map(|bytes| {
                    if key {
                        (u128::from_be_bytes(bytes) ^ flip) as i128
                    } else {
                        i128::from_le_bytes(bytes)
                    }
                }));
            }
            (
                Form::Number {
                    offset, width, key, ..
                },
                Lanes::F64(lanes),
            ) => {
                floats(base, records, offset, (width, key), lanes);
            }
            (Form::WideDecimal { offset }, Lanes::Bytes { ends, data }) => {
                for bytes in loads::<{ Wide::WIDTH }>(base, records, offset) {
                    data.extend_from_slice(&bytes);
                    ends.push(data.len() as u32);
                }
            }
            (
                Form::Item { ends, item, data },
                Lanes::Bytes {
                    ends: out_ends,
                    data: out_data,
                },
            ) => {
                copy_items(base, records, (ends, item, data), out_ends, out_data);
            }
            _ => panic!("N1: a vector has the form of its column"),
        }
    }

    /// Start and end in `base` of the variable-length item that the column is; `None` if it is NULL.
    pub(crate) fn item(&self, base: &[u8], record: u16) -> Option<(usize, usize)> {
        self.items(base, &[record])
            .next()
            .expect("one for each record")
    }

    /// [`Gather::item`] of each record.
    ///
    /// # Panics
    /// If the column is a number.
    #[inline]
    pub(crate) fn items<'a>(&self, base: &'a [u8], records: &'a [u16]) -> Items<'a> {
        let Form::Item { ends, item, data } = self.form else {
            panic!("N1: only strings are items");
        };
        let (null_at, null_mask) = self
            .null
            .map_or((0, 0), |null| (null.offset, 1 << null.bit));
        Items {
            base,
            records: records.iter(),
            end_at: ends + 2 * item,
            first: (item == 0).then_some(data),
            null_at,
            null_mask,
        }
    }

    /// True if the column is a variable-length item.
    pub(crate) fn is_item(&self) -> bool {
        matches!(self.form, Form::Item { .. })
    }

    fn append_validity(&self, base: &[u8], records: &[u16], out: &mut Vector) {
        let Some(NullBit { offset, bit }) = self.null else {
            return;
        };
        let rows = out.len();
        let valid = out.valid.get_or_insert_with(|| vec![1; rows]);
        valid.extend(
            records
                .iter()
                .map(|&at| !(base[usize::from(at) + offset] >> bit) & 1),
        );
    }
}

/// Where the strings of a column are, one record after the other; `None` if NULL.
pub(crate) struct Items<'a> {
    base: &'a [u8],
    records: slice::Iter<'a, u16>,
    /// Where in a record the end of its item is said; before it, that of the item before.
    end_at: usize,
    /// Where the first item begins, if it is that.
    first: Option<usize>,
    null_at: usize,
    null_mask: u8,
}

impl Iterator for Items<'_> {
    type Item = Option<(usize, usize)>;

    // Its fields belong into registers: it is the innermost loop of grouping.
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let at = usize::from(*self.records.next()?);
        if self.null_mask != 0 && self.base[at + self.null_at] & self.null_mask != 0 {
            return Some(None);
        }
        let end_at = at + self.end_at;
        let (start, end) = match self.first {
            Some(data) => {
                let end = &self.base[end_at..end_at + 2];
                (data, u16::from_le_bytes([end[0], end[1]]))
            }
            None => {
                let ends = &self.base[end_at - 2..end_at + 2];
                let start = u16::from_le_bytes([ends[0], ends[1]]);
                (start.into(), u16::from_le_bytes([ends[2], ends[3]]))
            }
        };
        Some(Some((at + start, at + usize::from(end))))
    }
}

#[inline]
fn loads<'a, const N: usize>(
    base: &'a [u8],
    records: &'a [u16],
    offset: usize,
) -> impl Iterator<Item = [u8; N]> + 'a {
    records.iter().map(move |&at| {
        let at = usize::from(at) + offset;
        base[at..at + N].try_into().expect("the slice has N bytes")
    })
}

fn signed(base: &[u8], records: &[u16], offset: usize, form: (u8, bool), out: &mut Vec<i64>) {
    macro_rules! load {
        ($n:literal, |$bytes:ident| $value:expr) => {
            out.extend(loads::<$n>(base, records, offset).map(|$bytes| i64::from($value)))
        };
    }
    match form {
        (1, false) => load!(1, |b| i8::from_le_bytes(b)),
        (2, false) => load!(2, |b| i16::from_le_bytes(b)),
        (4, false) => load!(4, |b| i32::from_le_bytes(b)),
        (8, false) => load!(8, |b| i64::from_le_bytes(b)),
        (1, true) => load!(1, |b| i8::from_be_bytes(b) ^ i8::MIN),
        (2, true) => load!(2, |b| i16::from_be_bytes(b) ^ i16::MIN),
        (4, true) => load!(4, |b| i32::from_be_bytes(b) ^ i32::MIN),
        (8, true) => load!(8, |b| i64::from_be_bytes(b) ^ i64::MIN),
        (width, _) => panic!("N1: no signed column is stored in {width} bytes"),
    }
}

fn unsigned(base: &[u8], records: &[u16], offset: usize, form: (u8, bool), out: &mut Vec<u64>) {
    macro_rules! load {
        ($n:literal, |$bytes:ident| $value:expr) => {
            out.extend(loads::<$n>(base, records, offset).map(|$bytes| u64::from($value)))
        };
    }
    match form {
        (1, _) => load!(1, |b| b[0]),
        (2, false) => load!(2, |b| u16::from_le_bytes(b)),
        (4, false) => load!(4, |b| u32::from_le_bytes(b)),
        (8, false) => load!(8, |b| u64::from_le_bytes(b)),
        (2, true) => load!(2, |b| u16::from_be_bytes(b)),
        (4, true) => load!(4, |b| u32::from_be_bytes(b)),
        (8, true) => load!(8, |b| u64::from_be_bytes(b)),
        (width, _) => panic!("N1: no unsigned column is stored in {width} bytes"),
    }
}

fn floats(base: &[u8], records: &[u16], offset: usize, form: (u8, bool), out: &mut Vec<f64>) {
    // In keys the sign is flipped and negative numbers are inverted, so that bytes sort.
    macro_rules! load {
        ($n:literal, $bits:ty, $float:ty, $key:literal) => {
            out.extend(loads::<$n>(base, records, offset).map(|bytes| {
                let bits = if $key {
                    let bits = <$bits>::from_be_bytes(bytes);
                    let sign = 1 << (<$bits>::BITS - 1);
                    if bits & sign != 0 { bits ^ sign } else { !bits }
                } else {
                    <$bits>::from_le_bytes(bytes)
                };
                f64::from(<$float>::from_bits(bits))
            }))
        };
    }
    match form {
        (4, false) => load!(4, u32, f32, false),
        (8, false) => load!(8, u64, f64, false),
        (4, true) => load!(4, u32, f32, true),
        (8, true) => load!(8, u64, f64, true),
        (width, _) => panic!("N1: no float is stored in {width} bytes"),
    }
}

/// Strings up to this length are copied by one load and one store, whatever their length.
const SHORT: usize = 16;

/// Appends variable-length items; `place` is where the end offsets begin, the item's number and
/// where the first item begins.
fn copy_items(
    base: &[u8],
    records: &[u16],
    place: (usize, usize, usize),
    ends: &mut Vec<u32>,
    out: &mut Vec<u8>,
) {
    let (end_offsets, item, data) = place;
    let load = |at: usize| usize::from(u16::from_le_bytes([base[at], base[at + 1]]));
    let start_of = |at: usize, end_at: usize| at + if item == 0 { data } else { load(end_at - 2) };
    let before = out.len();
    let mut filled = before;
    ends.extend(records.iter().map(|&record| {
        let at = usize::from(record);
        let end_at = at + end_offsets + 2 * item;
        filled += at + load(end_at) - start_of(at, end_at);
        filled as u32
    }));
    // Room behind the last string, for the copies that write more than they keep.
    out.resize(filled + SHORT, 0);
    let mut filled = before;
    for (&record, &end) in records.iter().zip(&ends[ends.len() - records.len()..]) {
        let at = usize::from(record);
        let start = start_of(at, at + end_offsets + 2 * item);
        let len = end as usize - filled;
        match base.get(start..start + SHORT) {
            Some(window) if len <= SHORT => {
                out[filled..filled + SHORT].copy_from_slice(window);
            }
            _ => out[filled..filled + len].copy_from_slice(&base[start..start + len]),
        }
        filled = end as usize;
    }
    out.truncate(filled);
}
