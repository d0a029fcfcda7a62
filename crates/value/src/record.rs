//! Rows to records and back: `docs/format/row.md`.
//!
//! [`RecordView`] reads; it never panics on a record that `RecordShape::record_len` accepted.
//! Encoding appends to a buffer and allocates nothing else.

use perigee_page::RecordHeader;

use crate::key::{check_stored, encode_part, ordered_bits, read_key_bits};
use crate::overflow::{INLINE, read_item};
use crate::text::check_text;
use crate::time::is_valid_time;
use crate::{
    ColumnType, Datum, MAX_KEY_LEN, MAX_RECORD_LEN, Place, RowError, RowLayout, ValueError,
    ValueErrorKind, ValueRef, Wide, bits, date, decimal, parse_text_ref,
};

/// Appends the record of a row whose values are in the layout's column order. In a secondary
/// index only the flags of `header` are stored. Nothing is appended if it fails.
pub fn encode_row(
    layout: &RowLayout,
    row: &[Datum],
    header: RecordHeader,
    out: &mut Vec<u8>,
) -> Result<(), RowError> {
    check_count(layout, row.len())?;
    encode_with(layout, header, out, |column| Ok(row[column].as_ref()))
}

/// As [`encode_row`], from text fields (`None` = NULL) as LOAD DATA gives them.
pub fn encode_text_row(
    layout: &RowLayout,
    fields: &[Option<&[u8]>],
    header: RecordHeader,
    out: &mut Vec<u8>,
) -> Result<(), RowError> {
    check_count(layout, fields.len())?;
    encode_with(layout, header, out, |column| match fields[column] {
        None => Ok(ValueRef::Null),
        Some(text) => parse_text_ref(layout.columns[column].ty, text),
    })
}

fn check_count(layout: &RowLayout, got: usize) -> Result<(), RowError> {
    match layout.columns.len() {
        expected if expected != got => Err(RowError::ColumnCount { expected, got }),
        _ => Ok(()),
    }
}

/// As [`encode_row`], with `value` giving the value of each column of the layout.
pub fn encode_with<'v>(
    layout: &RowLayout,
    header: RecordHeader,
    out: &mut Vec<u8>,
    value: impl Fn(usize) -> Result<ValueRef<'v>, ValueError>,
) -> Result<(), RowError> {
    let start = out.len();
    let result = append_record(layout, header, out, start, value);
    if result.is_err() {
        out.truncate(start);
    }
    result
}

/// Writes the fixed part with room for the var ends, then the items one after the other.
fn append_record<'v>(
    layout: &RowLayout,
    header: RecordHeader,
    out: &mut Vec<u8>,
    start: usize,
    value: impl Fn(usize) -> Result<ValueRef<'v>, ValueError>,
) -> Result<(), RowError> {
    let shape = &layout.shape;
    let header_len = usize::from(shape.header_len);
    out.extend_from_slice(&header.to_bytes()[..header_len]);
    out.resize(start + shape.var_data_offset(), 0);
    let in_column = |column: usize| {
        move |error| RowError::Column {
            column: column as u16,
            error,
        }
    };
    let mut items = 0;
    if shape.key_len == 0 {
        for column in &layout.key {
            let column = usize::from(*column);
            let place = &layout.columns[column];
            let value = value(column).map_err(in_column(column))?;
            encode_part(place.ty, place.null_bit.is_some(), value, out)
                .map_err(in_column(column))?;
        }
        let len = out.len() - start - shape.var_data_offset();
        if len > MAX_KEY_LEN {
            return Err(RowError::KeyTooLong(len));
        }
        end_item(layout, out, start, &mut items)?;
    }
    for (column, place) in layout.columns.iter().enumerate() {
        let value = value(column).map_err(in_column(column))?;
        put(layout, column, value, &mut out[start..]).map_err(in_column(column))?;
        if let Place::Var { .. } = place.place {
            match value {
                ValueRef::String(text) => {
                    let text = check_text(place.ty, text).map_err(in_column(column))?;
                    if place.ty.is_long() {
                        out.push(INLINE);
                    }
                    out.extend_from_slice(text);
                }
                ValueRef::Overflow(reference) if place.ty.is_long() => {
                    out.extend_from_slice(&reference.to_item());
                }
                _ => {}
            }
            end_item(layout, out, start, &mut items)?;
        }
    }
    assert_eq!(
        items,
        usize::from(shape.var_count),
        "V1: a record has all items of its layout"
    );
    Ok(())
}

/// Notes that the next variable-length item ends where `out` ends.
fn end_item(
    layout: &RowLayout,
    out: &mut [u8],
    start: usize,
    items: &mut usize,
) -> Result<(), RowError> {
    let len = out.len() - start;
    if len > MAX_RECORD_LEN {
        return Err(RowError::RowTooLong(len));
    }
    let at = start + usize::from(layout.shape.fixed_len) + 2 * *items;
    out[at..at + 2].copy_from_slice(&(len as u16).to_le_bytes());
    *items += 1;
    Ok(())
}

/// Stores a value's null bit and, if its width is fixed, the value.
fn put(
    layout: &RowLayout,
    column: usize,
    value: ValueRef<'_>,
    record: &mut [u8],
) -> Result<(), ValueError> {
    let column = &layout.columns[column];
    let ty = column.ty;
    if value.is_null() {
        let Some(bit) = column.null_bit else {
            return Err(ValueError::new(ValueErrorKind::NullNotAllowed, ty, b"NULL"));
        };
        record[usize::from(layout.null_offset + bit / 8)] |= 1 << (bit % 8);
        return Ok(());
    }
    let width = usize::from(ty.stored_width().unwrap_or(0));
    match column.place {
        // Key or not, the form is the same.
        Place::Fixed { offset } | Place::Key { offset } if ty.is_wide() => {
            let wide = stored_wide(ty, value)?;
            let offset = usize::from(offset);
            if matches!(column.place, Place::Key { .. }) && column.null_bit.is_some() {
                record[offset - 1] = 1;
            }
            record[offset..offset + width].copy_from_slice(wide.as_bytes());
        }
        Place::Fixed { offset } => {
            let bits = stored_bits(ty, value)?;
            let offset = usize::from(offset);
            record[offset..offset + width].copy_from_slice(&bits.to_le_bytes()[..width]);
        }
        Place::Key { offset } => {
            let bits = ordered_bits(ty, value)?;
            let offset = usize::from(offset);
            if column.null_bit.is_some() {
                record[offset - 1] = 1;
            }
            record[offset..offset + width].copy_from_slice(&bits.to_be_bytes()[16 - width..]);
        }
        Place::Var { .. } => {
            let fits = match value {
                ValueRef::String(_) => true,
                ValueRef::Overflow(_) => ty.is_long(),
                _ => false,
            };
            if !fits {
                return Err(wrong_kind(ty, value));
            }
        }
    }
    Ok(())
}

fn wrong_kind(ty: ColumnType, value: ValueRef<'_>) -> ValueError {
    ValueError::new(
        ValueErrorKind::Incorrect,
        ty,
        format!("{value:?}").as_bytes(),
    )
}

fn out_of_range(ty: ColumnType, value: ValueRef<'_>) -> ValueError {
    let shown = format!("{value:?}");
    ValueError::new(ValueErrorKind::OutOfRange, ty, shown.as_bytes())
}

/// A value of a wide decimal, checked to be one of the type.
pub(crate) fn stored_wide(ty: ColumnType, value: ValueRef<'_>) -> Result<Wide, ValueError> {
    match (ty, value) {
        (ColumnType::Decimal { precision, .. }, ValueRef::Wide(wide)) => {
            match wide.units().fits(precision) {
                true => Ok(wide),
                false => Err(out_of_range(ty, value)),
            }
        }
        _ => Err(wrong_kind(ty, value)),
    }
}

/// The bits of a value of fixed width in its low bytes, two's complement or IEEE, after checking
/// that it is a value of the type.
pub(crate) fn stored_bits(ty: ColumnType, value: ValueRef<'_>) -> Result<u128, ValueError> {
    let mask = match ty.stored_width() {
        Some(16) | None => u128::MAX,
        Some(width) => (1 << (8 * u32::from(width))) - 1,
    };
    let (bits, fine) = match (ty, value) {
        (
            ColumnType::Int {
                bytes,
                unsigned: false,
            },
            ValueRef::Int(v),
        ) => {
            let shift = 64 - 8 * u32::from(bytes);
            (v as u128, v << shift >> shift == v)
        }
        (
            ColumnType::Int {
                bytes,
                unsigned: true,
            },
            ValueRef::UInt(v),
        ) => {
            let shift = 64 - 8 * u32::from(bytes);
            (u128::from(v), v << shift >> shift == v)
        }
        (ColumnType::Decimal { precision, .. }, ValueRef::Decimal(v)) if !ty.is_wide() => {
            (v as u128, decimal::fits(v, precision))
        }
        (ColumnType::Float, ValueRef::Double(v)) => {
            // No row has the negative zero: it equals the other one, and orders apart from it.
            let float = v as f32 + 0.0;
            (u128::from(float.to_bits()), float.is_finite())
        }
        (ColumnType::Double, ValueRef::Double(v)) => {
            (u128::from((v + 0.0).to_bits()), v.is_finite())
        }
        (ColumnType::Date, ValueRef::Date(v)) => (v as u128, date::is_stored_day(v)),
        (ColumnType::DateTime { .. } | ColumnType::Timestamp { .. }, ValueRef::DateTime(v)) => {
            (v as u128, ty.has_micros(v))
        }
        (ColumnType::Time { .. }, ValueRef::Time(v)) => (v as u128, is_valid_time(v)),
        (ColumnType::Year, ValueRef::UInt(v)) => (u128::from(v), date::is_valid_year(v)),
        (ColumnType::Bit { bits }, ValueRef::UInt(v)) => (u128::from(v), v <= bits::greatest(bits)),
        _ => return Err(wrong_kind(ty, value)),
    };
    if fine {
        Ok(bits & mask)
    } else {
        Err(out_of_range(ty, value))
    }
}

/// The value that bits as [`stored_bits`] makes them stand for.
pub(crate) fn value_of_bits(ty: ColumnType, bits: u128) -> ValueRef<'static> {
    let width = u32::from(ty.stored_width().unwrap_or(0));
    let shift = 128 - 8 * width;
    let signed = (bits << shift) as i128 >> shift;
    match ty {
        ColumnType::Int { unsigned: true, .. } | ColumnType::Year | ColumnType::Bit { .. } => {
            ValueRef::UInt(bits as u64)
        }
        ColumnType::Int { .. } => ValueRef::Int(signed as i64),
        ColumnType::Decimal { .. } => ValueRef::Decimal(signed),
        ColumnType::Float => ValueRef::Double(f64::from(f32::from_bits(bits as u32))),
        ColumnType::Double => ValueRef::Double(f64::from_bits(bits as u64)),
        ColumnType::Date => ValueRef::Date(signed as i32),
        ColumnType::DateTime { .. } | ColumnType::Timestamp { .. } => {
            ValueRef::DateTime(signed as i64)
        }
        ColumnType::Time { .. } => ValueRef::Time(signed as i64),
        ColumnType::Char { .. }
        | ColumnType::Varchar { .. }
        | ColumnType::Long { .. }
        | ColumnType::Json => ValueRef::Null,
    }
}

/// A record and what its bytes mean.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    layout: &'a RowLayout,
    record: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// Views a record. `record` may be longer than the record itself, as when it is the rest of a
    /// page.
    ///
    /// *Requires* that the layout's shape accepts it (`RecordShape::record_len`), as records of
    /// verified pages are; other records make the readers panic.
    #[inline]
    #[must_use]
    pub fn new(layout: &'a RowLayout, record: &'a [u8]) -> Self {
        debug_assert!(
            layout.shape.record_len(record).is_some(),
            "V2: record of the layout"
        );
        Self { layout, record }
    }

    /// The layout.
    #[must_use]
    pub fn layout(&self) -> &'a RowLayout {
        self.layout
    }

    /// True if the column is NULL.
    ///
    /// # Panics
    /// As all readers, if there is no such column.
    #[inline]
    #[must_use]
    pub fn is_null(&self, column: usize) -> bool {
        self.layout.columns[column].null_bit.is_some_and(|bit| {
            self.record[usize::from(self.layout.null_offset + bit / 8)] >> (bit % 8) & 1 == 1
        })
    }

    /// The column's value, checked to be one of its type.
    pub fn get(&self, column: usize) -> Result<Datum, ValueError> {
        let value = self.value(column);
        check_stored(self.layout.columns[column].ty, value)?;
        Ok(value.to_datum())
    }

    /// All values, checked, in the layout's column order.
    pub fn row(&self) -> Result<Vec<Datum>, RowError> {
        let columns = 0..self.layout.columns.len();
        columns
            .map(|column| {
                let wrap = |error| RowError::Column {
                    column: column as u16,
                    error,
                };
                self.get(column).map_err(wrap)
            })
            .collect()
    }

    /// The column's value as it is stored: damaged bytes may give a date, a number of digits or a
    /// string that the type does not have.
    #[inline]
    #[must_use]
    pub fn value(&self, column: usize) -> ValueRef<'a> {
        if self.is_null(column) {
            return ValueRef::Null;
        }
        match self.layout.columns[column].ty {
            ColumnType::Int {
                unsigned: false, ..
            } => ValueRef::Int(self.i64(column)),
            ColumnType::Int { unsigned: true, .. } | ColumnType::Year | ColumnType::Bit { .. } => {
                ValueRef::UInt(self.i64(column) as u64)
            }
            ColumnType::Decimal {
                precision: ..=decimal::MAX_PRECISION,
                ..
            } => ValueRef::Decimal(self.i128(column)),
            ColumnType::Decimal { .. } => ValueRef::Wide(self.wide(column)),
            ColumnType::Float | ColumnType::Double => ValueRef::Double(self.f64(column)),
            ColumnType::Date => ValueRef::Date(self.i64(column) as i32),
            ColumnType::DateTime { .. } | ColumnType::Timestamp { .. } => {
                ValueRef::DateTime(self.i64(column))
            }
            ColumnType::Time { .. } => ValueRef::Time(self.i64(column)),
            ColumnType::Char { .. } | ColumnType::Varchar { .. } => {
                ValueRef::String(self.bytes(column))
            }
            ColumnType::Long { .. } | ColumnType::Json => read_item(self.bytes(column)),
        }
    }

    /// A column of at most eight bytes: integers (unsigned ones as their bits), decimals of at
    /// most 18 digits, dates. NULL gives 0.
    ///
    /// # Panics
    /// If the column is wider, or a string.
    #[inline]
    #[must_use]
    pub fn i64(&self, column: usize) -> i64 {
        let layout = &self.layout.columns[column];
        let unsigned = layout.ty.is_unsigned();
        let width = layout
            .ty
            .stored_width()
            .expect("the caller asks for a column of fixed width");
        match layout.place {
            Place::Fixed { offset } => {
                let at = &self.record[usize::from(offset)..];
                match (width, unsigned) {
                    (4, false) => i64::from(i32::from_le_bytes(take(at))),
                    (8, _) => i64::from_le_bytes(take(at)),
                    (1, false) => i64::from(at[0] as i8),
                    (2, false) => i64::from(i16::from_le_bytes(take(at))),
                    (4, true) => i64::from(u32::from_le_bytes(take(at))),
                    (1, true) => i64::from(at[0]),
                    (2, true) => i64::from(u16::from_le_bytes(take(at))),
                    _ => panic!("column {column} is wider than 8 bytes"),
                }
            }
            Place::Key { offset } => {
                if self.is_null(column) {
                    return 0;
                }
                let at = &self.record[usize::from(offset)..];
                let raw = match width {
                    4 => u64::from(u32::from_be_bytes(take(at))),
                    8 => u64::from_be_bytes(take(at)),
                    1 => u64::from(at[0]),
                    2 => u64::from(u16::from_be_bytes(take(at))),
                    _ => panic!("column {column} is wider than 8 bytes"),
                };
                // Flipping the sign bit is subtracting its weight.
                let bias = if unsigned { 0 } else { 1u64 << (8 * width - 1) };
                raw.wrapping_sub(bias) as i64
            }
            Place::Var { .. } => panic!("column {column} is not of fixed width"),
        }
    }

    /// A decimal column of up to 38 digits, or any column that [`RecordView::i64`] reads.
    ///
    /// # Panics
    /// If the column is wider, or a string.
    #[inline]
    #[must_use]
    pub fn i128(&self, column: usize) -> i128 {
        let layout = &self.layout.columns[column];
        if layout.ty.stored_width() != Some(16) {
            let value = self.i64(column);
            let unsigned = layout.ty.is_unsigned();
            return if unsigned {
                i128::from(value as u64)
            } else {
                i128::from(value)
            };
        }
        match layout.place {
            Place::Fixed { offset } => {
                i128::from_le_bytes(take(&self.record[usize::from(offset)..]))
            }
            Place::Key { .. } if self.is_null(column) => 0,
            Place::Key { offset } => {
                let raw = i128::from_be_bytes(take(&self.record[usize::from(offset)..]));
                raw ^ i128::MIN
            }
            Place::Var { .. } => panic!("column {column} is not of fixed width"),
        }
    }

    /// A column of wide decimals. NULL gives any.
    ///
    /// # Panics
    /// If it is of another type.
    #[must_use]
    pub fn wide(&self, column: usize) -> Wide {
        let layout = &self.layout.columns[column];
        match layout.place {
            Place::Fixed { offset } | Place::Key { offset } if layout.ty.is_wide() => {
                Wide::from_bytes(take(&self.record[usize::from(offset)..]))
            }
            _ => panic!("column {column} is no wide decimal"),
        }
    }

    /// A FLOAT or DOUBLE column. NULL gives 0.
    ///
    /// # Panics
    /// If it is of another type.
    #[inline]
    #[must_use]
    pub fn f64(&self, column: usize) -> f64 {
        let layout = &self.layout.columns[column];
        let bits = match layout.place {
            Place::Fixed { offset } => {
                let at = &self.record[usize::from(offset)..];
                match layout.ty {
                    ColumnType::Float => u64::from(u32::from_le_bytes(take(at))),
                    _ => u64::from_le_bytes(take(at)),
                }
            }
            Place::Key { .. } if self.is_null(column) => 0,
            Place::Key { offset } => {
                let width = usize::from(layout.ty.stored_width().unwrap_or(0));
                let part = &self.record[usize::from(offset)..][..width];
                read_key_bits(layout.ty, part) as u64
            }
            Place::Var { .. } => panic!("column {column} is not a number"),
        };
        match layout.ty {
            ColumnType::Float => f64::from(f32::from_bits(bits as u32)),
            ColumnType::Double => f64::from_bits(bits),
            _ => panic!("column {column} is not FLOAT or DOUBLE"),
        }
    }

    /// The bytes of a string column, those of a long one as they are stored. NULL gives an empty
    /// string.
    ///
    /// # Panics
    /// If it is not a string.
    #[inline]
    #[must_use]
    pub fn bytes(&self, column: usize) -> &'a [u8] {
        match self.layout.columns[column].place {
            Place::Var { item } => self.layout.shape.var_item(self.record, usize::from(item)),
            _ => panic!("column {column} is not a string"),
        }
    }
}

#[inline]
fn take<const N: usize>(bytes: &[u8]) -> [u8; N] {
    *bytes
        .first_chunk()
        .expect("V2: fixed columns lie inside the record")
}

#[cfg(test)]
mod tests;
