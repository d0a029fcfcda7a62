//! Rows of the text protocol: each value as MySQL writes it, behind its length; 0xFB for NULL.
//!
//! No allocation for a value: numbers are made on the stack, strings are copied from the array.

use bytes::{BufMut, BytesMut};

use crate::cells::{Cells, Decimals, Values};
use crate::codec::{NULL_MARK, put_lenenc_bytes};
use crate::digits::Digits;
use crate::temporal::{OutOfRange, put_date, put_datetime, put_time};

/// Appends one row. On an error gives the index of the column whose value has no text; what was
/// appended before it stays.
pub(crate) fn put_row(out: &mut BytesMut, cells: &[Cells<'_>], row: usize) -> Result<(), usize> {
    let mut digits = Digits::new();
    for (index, column) in cells.iter().enumerate() {
        if column.is_null(row) {
            out.put_u8(NULL_MARK);
        } else {
            put_value(out, &column.values, row, &mut digits).map_err(|OutOfRange| index)?;
        }
    }
    Ok(())
}

fn put_value(
    out: &mut BytesMut,
    values: &Values<'_>,
    row: usize,
    digits: &mut Digits,
) -> Result<(), OutOfRange> {
    digits.clear();
    match values {
        Values::Null => {
            out.put_u8(NULL_MARK);
            return Ok(());
        }
        Values::Bytes(strings) => {
            put_lenenc_bytes(out, strings.at(row));
            return Ok(());
        }
        Values::Int(ints) => {
            let (negative, magnitude) = ints.at(row);
            if negative {
                digits.push(b'-');
            }
            digits.u64(magnitude);
        }
        Values::Year(years) => digits.padded(years.at(row).1, 4),
        Values::Bit { bits, bytes } => {
            digits.extend(&bits.at(row).1.to_be_bytes()[8 - bytes..]);
        }
        Values::F32(values, fixed) => put_real(digits, f64::from(values[row]), *fixed, |d| {
            d.f32(values[row]);
        })?,
        Values::F64(values, fixed) => put_real(digits, values[row], *fixed, |d| {
            d.f64(values[row]);
        })?,
        Values::Decimal(decimals, scale) => put_decimal(digits, decimals, *scale, row),
        Values::Date(days) => put_date(digits, days.at(row))?,
        Values::DateTime(points, fsp) => {
            put_datetime(digits, points.at(row).ok_or(OutOfRange)?, *fsp)?;
        }
        Values::Time(spans, fsp) => put_time(digits, spans.at(row).ok_or(OutOfRange)?, *fsp),
    }
    put_lenenc_bytes(out, digits.as_bytes());
    Ok(())
}

fn put_real(
    digits: &mut Digits,
    value: f64,
    fixed: Option<u8>,
    shortest: impl FnOnce(&mut Digits),
) -> Result<(), OutOfRange> {
    if !value.is_finite() {
        return Err(OutOfRange);
    }
    match fixed {
        Some(decimals) => digits.fixed(value, decimals),
        None => shortest(digits),
    }
    Ok(())
}

/// Appends the text of a decimal.
pub(crate) fn put_decimal(digits: &mut Digits, decimals: &Decimals<'_>, scale: i8, row: usize) {
    match decimals {
        Decimals::D32(values) => digits.decimal(i128::from(values[row]), scale),
        Decimals::D64(values) => digits.decimal(i128::from(values[row]), scale),
        Decimals::D128(values) => digits.decimal(values[row], scale),
        // Rare and wide (more than 38 digits): the one case that allocates.
        Decimals::D256(values) => digits.decimal_text(&values[row].to_string(), scale),
    }
}

#[cfg(test)]
mod tests;
