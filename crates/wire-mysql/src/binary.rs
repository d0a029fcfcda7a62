//! Rows of the binary protocol, in which prepared statements answer: a bitmap of the NULLs, then
//! each other value in the form of its column's type.
//!
//! What a column's type cannot hold is an error and never cut: the client would take it for another
//! value. Times are cut at the column's digits of a second, as in their text.

use bytes::{BufMut, BytesMut};

use crate::cells::{Cells, Values};
use crate::codec::put_lenenc_bytes;
use crate::column::{Column, SqlType};
use crate::digits::Digits;
use crate::temporal::{Clock, OutOfRange, ZERO_DAY, civil, day_and_clock};
use crate::text::put_decimal;

/// Bits of the bitmap that stand before the first column's.
const BITMAP_OFFSET: usize = 2;

/// Appends one row. On an error gives the index of the column whose value cannot be sent; what was
/// appended before it stays.
pub(crate) fn put_row(
    out: &mut BytesMut,
    columns: &[Column],
    cells: &[Cells<'_>],
    row: usize,
) -> Result<(), usize> {
    out.put_u8(0);
    let bitmap = out.len();
    out.put_bytes(0, (cells.len() + BITMAP_OFFSET).div_ceil(8));
    for (index, (column, cells)) in columns.iter().zip(cells).enumerate() {
        if cells.is_null(row) {
            let bit = index + BITMAP_OFFSET;
            out[bitmap + bit / 8] |= 1 << (bit % 8);
        } else {
            put_value(out, column.sql_type, &cells.values, row).map_err(|OutOfRange| index)?;
        }
    }
    Ok(())
}

fn put_value(
    out: &mut BytesMut,
    sql_type: SqlType,
    values: &Values<'_>,
    row: usize,
) -> Result<(), OutOfRange> {
    match values {
        // Never asked for: the bitmap says all.
        Values::Null => {}
        Values::Bytes(strings) => put_lenenc_bytes(out, strings.at(row)),
        Values::Int(ints) => return put_int(out, sql_type, ints.at(row)),
        Values::Year(years) => {
            out.put_u16_le(u16::try_from(years.at(row).1).map_err(|_| OutOfRange)?);
        }
        Values::Bit { bits, bytes } => {
            put_lenenc_bytes(out, &bits.at(row).1.to_be_bytes()[8 - bytes..]);
        }
        Values::F32(values, _) if !values[row].is_finite() => return Err(OutOfRange),
        Values::F32(values, _) => out.put_f32_le(values[row]),
        Values::F64(values, _) if !values[row].is_finite() => return Err(OutOfRange),
        Values::F64(values, _) => out.put_f64_le(values[row]),
        Values::Decimal(decimals, scale) => {
            let mut digits = Digits::new();
            put_decimal(&mut digits, decimals, *scale, row);
            put_lenenc_bytes(out, digits.as_bytes());
        }
        Values::Date(days) => {
            // 0000-00-00 has no bytes.
            match days.at(row) {
                ZERO_DAY => out.put_u8(0),
                days => {
                    out.put_u8(4);
                    put_day(out, days)?;
                }
            }
        }
        Values::DateTime(points, fsp) => {
            put_datetime(out, points.at(row).ok_or(OutOfRange)?, *fsp)?;
        }
        Values::Time(spans, fsp) => put_time(out, spans.at(row).ok_or(OutOfRange)?, *fsp)?,
    }
    Ok(())
}

/// An integer given as its sign and magnitude, in the width of its column.
fn put_int(
    out: &mut BytesMut,
    sql_type: SqlType,
    (negative, magnitude): (bool, u64),
) -> Result<(), OutOfRange> {
    let (width, unsigned) = match sql_type {
        SqlType::TinyInt { unsigned } => (1, unsigned),
        SqlType::SmallInt { unsigned } => (2, unsigned),
        SqlType::MediumInt { unsigned } | SqlType::Int { unsigned } => (4, unsigned),
        SqlType::BigInt { unsigned } => (8, unsigned),
        // A DECIMAL without digits behind the point may come as integers.
        _ => {
            let mut digits = Digits::new();
            if negative {
                digits.push(b'-');
            }
            digits.u64(magnitude);
            put_lenenc_bytes(out, digits.as_bytes());
            return Ok(());
        }
    };
    let greatest = u64::MAX >> (64 - 8 * width) >> u32::from(!unsigned);
    // The least number of a signed type is one further from zero than its greatest.
    let least = if unsigned { 0 } else { greatest + 1 };
    if magnitude > if negative { least } else { greatest } {
        return Err(OutOfRange);
    }
    let bits = if negative {
        magnitude.wrapping_neg()
    } else {
        magnitude
    };
    out.extend_from_slice(&bits.to_le_bytes()[..width]);
    Ok(())
}

fn put_day(out: &mut BytesMut, days: i64) -> Result<(), OutOfRange> {
    let (year, month, day) = civil(days)?;
    out.put_u16_le(year as u16);
    out.put_u8(month as u8);
    out.put_u8(day as u8);
    Ok(())
}

/// Length, day, and of the time as much as is not zero at its end.
fn put_datetime(out: &mut BytesMut, micros: i64, fsp: u8) -> Result<(), OutOfRange> {
    let (days, clock) = day_and_clock(micros, fsp);
    let length = match clock {
        _ if days == ZERO_DAY => {
            out.put_u8(0);
            return Ok(());
        }
        Clock { micros: 1.., .. } => 11,
        Clock {
            hours: 0,
            minutes: 0,
            seconds: 0,
            ..
        } => 4,
        _ => 7,
    };
    out.put_u8(length);
    put_day(out, days)?;
    if length > 4 {
        put_clock(out, clock);
    }
    Ok(())
}

/// Length, sign, days, and of the time as much as is not zero at its end.
fn put_time(out: &mut BytesMut, micros: i64, fsp: u8) -> Result<(), OutOfRange> {
    let clock = Clock::new(micros.unsigned_abs(), fsp);
    if clock == Clock::ZERO {
        out.put_u8(0);
        return Ok(());
    }
    out.put_u8(if clock.micros > 0 { 12 } else { 8 });
    out.put_u8(u8::from(micros < 0));
    out.put_u32_le(u32::try_from(clock.hours / 24).map_err(|_| OutOfRange)?);
    let in_day = Clock {
        hours: clock.hours % 24,
        ..clock
    };
    put_clock(out, in_day);
    Ok(())
}

fn put_clock(out: &mut BytesMut, clock: Clock) {
    out.put_u8(clock.hours as u8);
    out.put_u8(clock.minutes as u8);
    out.put_u8(clock.seconds as u8);
    if clock.micros > 0 {
        out.put_u32_le(clock.micros as u32);
    }
}

#[cfg(test)]
mod tests;
