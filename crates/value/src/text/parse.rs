//! Text to value, in strict mode: what does not fit is an error, never a changed value. Extra
//! digits behind the point are rounded and spaces beyond a string's length dropped, as in MySQL.

use super::datetime;
use super::number::{Number, Whole};
use super::time;
use crate::date::{self, round_micros};
use crate::string::{char_count, trim_end};
use crate::time::{is_valid_time, round_time};
use crate::{
    Collation, ColumnType, Datum, Units, ValueError, ValueErrorKind, ValueRef, bits, decimal, json,
};

/// The value of type `ty` that `text` spells.
pub fn parse_text(ty: ColumnType, text: &[u8]) -> Result<Datum, ValueError> {
    if ty == ColumnType::Json {
        let form = json::normalise(text)
            .map_err(|error| ValueError::new(ValueErrorKind::Json(error), ty, text))?;
        return Ok(Datum::String(form.into_bytes()));
    }
    parse_text_ref(ty, text).map(ValueRef::to_datum)
}

/// As [`parse_text`]; strings are borrowed from `text`. JSON, of which the text is another one than
/// what is stored, must be in normal form already.
#[inline]
pub fn parse_text_ref(ty: ColumnType, text: &[u8]) -> Result<ValueRef<'_>, ValueError> {
    match ty {
        ColumnType::Int { bytes, unsigned } => parse_int(ty, bytes, unsigned, text),
        ColumnType::Decimal { precision, scale } if ty.is_wide() => {
            let units = match parse_plain_decimal(text, scale) {
                Some(units) => Units::from(units),
                None => parse_number(ty, scale, text)?,
            };
            match units.to_wide(precision) {
                Some(wide) => Ok(ValueRef::Wide(wide)),
                None => Err(ValueError::new(ValueErrorKind::OutOfRange, ty, text)),
            }
        }
        ColumnType::Decimal { precision, scale } => {
            let units = match parse_plain_decimal(text, scale) {
                Some(units) => units,
                None => parse_number(ty, scale, text)?,
            };
            if !decimal::fits(units, precision) {
                return Err(ValueError::new(ValueErrorKind::OutOfRange, ty, text));
            }
            Ok(ValueRef::Decimal(units))
        }
        ColumnType::Float | ColumnType::Double => parse_double(ty, text),
        ColumnType::Date => match datetime::parse(text) {
            Some(micros) => Ok(ValueRef::Date(date::split_micros(micros).0)),
            None => Err(ValueError::new(ValueErrorKind::Incorrect, ty, text)),
        },
        ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => {
            let micros = datetime::parse(text).map(|micros| round_micros(micros, fsp));
            match micros.filter(|micros| ty.has_micros(*micros)) {
                Some(micros) => Ok(ValueRef::DateTime(micros)),
                None => Err(ValueError::new(ValueErrorKind::Incorrect, ty, text)),
            }
        }
        ColumnType::Time { fsp } => match fit_time(time::parse(text), fsp) {
            Ok(micros) => Ok(ValueRef::Time(micros)),
            Err(kind) => Err(ValueError::new(kind, ty, text)),
        },
        ColumnType::Year => parse_year(ty, text),
        ColumnType::Bit { bits } => bits::of_bytes(ty, bits, text).map(ValueRef::UInt),
        ColumnType::Char { .. }
        | ColumnType::Varchar { .. }
        | ColumnType::Long { .. }
        | ColumnType::Json => check_text(ty, text).map(ValueRef::String),
    }
}

/// Checks encoding and length of a string; gives the part to store.
pub(crate) fn check_text(ty: ColumnType, text: &[u8]) -> Result<&[u8], ValueError> {
    let (chars, collation, text) = match ty {
        ColumnType::Char { chars, collation } => (chars, collation, trim_end(text)),
        ColumnType::Varchar { chars, collation } => (chars, collation, text),
        ColumnType::Long { prefix, collation } => return check_long(ty, prefix, collation, text),
        ColumnType::Json => return check_long(ty, 4, Collation::UTF8MB4_BIN, text),
        _ => unreachable!("the caller asks for string types only"),
    };
    let most = usize::from(chars);
    let binary = collation == Collation::BINARY;
    check_characters(ty, collation, text)?;
    if text.len() <= most || (!binary && char_count(text) <= most) {
        return Ok(text);
    }
    if binary {
        return Err(ValueError::new(ValueErrorKind::TooLong, ty, text));
    }
    // Only spaces may lie beyond the length.
    let kept = crate::string::substring(text, 1, Some(i64::from(chars)));
    if trim_end(text).len() <= kept.len() {
        Ok(kept)
    } else {
        Err(ValueError::new(ValueErrorKind::TooLong, ty, text))
    }
}

/// Checks that a string is a text of its character set.
fn check_characters(ty: ColumnType, collation: Collation, text: &[u8]) -> Result<(), ValueError> {
    if collation == Collation::BINARY || text.is_ascii() {
        return Ok(());
    }
    match std::str::from_utf8(text) {
        Ok(text) if collation.charset().has(text) => Ok(()),
        _ => Err(ValueError::new(ValueErrorKind::Incorrect, ty, text)),
    }
}

/// As [`check_text`], for a long type: its length counts in bytes.
fn check_long(
    ty: ColumnType,
    prefix: u8,
    collation: Collation,
    text: &[u8],
) -> Result<&[u8], ValueError> {
    let most = ColumnType::long_limit(prefix) as usize;
    let binary = collation == Collation::BINARY;
    check_characters(ty, collation, text)?;
    if text.len() <= most {
        return Ok(text);
    }
    if !binary && trim_end(text).len() <= most {
        return Ok(&text[..most]);
    }
    Err(ValueError::new(ValueErrorKind::TooLong, ty, text))
}

/// A day from an integer such as 19940131.
pub(crate) fn day_from_number(number: i128) -> Option<i32> {
    datetime::from_number(number).map(|micros| date::split_micros(micros).0)
}

/// A point in time from an integer such as 19940131235959.
pub(crate) fn micros_from_number(number: i128) -> Option<i64> {
    datetime::from_number(number)
}

/// A time from an integer such as 235959, perhaps one longer than a TIME is.
pub(crate) fn time_from_number(number: i128) -> Option<i64> {
    time::from_number(number)
}

/// What a column TIME(fsp) keeps of microseconds; `None` is what is no time.
pub(crate) fn fit_time(micros: Option<i64>, fsp: u8) -> Result<i64, ValueErrorKind> {
    match micros {
        Some(micros) if is_valid_time(micros) => Ok(round_time(micros, fsp)),
        Some(_) => Err(ValueErrorKind::OutOfRange),
        None => Err(ValueErrorKind::Incorrect),
    }
}

/// A year from an integer: of one or two digits, 0 apart, it is one of 1970 to 2069.
pub(crate) fn year_from_number(number: i128) -> Option<u64> {
    let year = match u32::try_from(number).ok()? {
        year @ 1..=99 => datetime::full_year(year),
        year => year,
    };
    Some(year.into()).filter(|year| date::is_valid_year(*year))
}

/// As [`year_from_number`], but that a text which is zero and not of four characters is the year
/// 2000.
fn parse_year(ty: ColumnType, text: &[u8]) -> Result<ValueRef<'_>, ValueError> {
    let year = match parse_number(ty, 0, text)? {
        0 if text.len() != 4 => Some(2000),
        number => year_from_number(number),
    };
    year.map(ValueRef::UInt)
        .ok_or_else(|| ValueError::new(ValueErrorKind::OutOfRange, ty, text))
}

#[inline]
fn parse_int(
    ty: ColumnType,
    bytes: u8,
    unsigned: bool,
    text: &[u8],
) -> Result<ValueRef<'_>, ValueError> {
    let value = match parse_plain(text) {
        Some(value) => i128::from(value),
        None => parse_number(ty, 0, text)?,
    };
    let (least, greatest) = ColumnType::int_range(bytes, unsigned);
    if value < least || value > greatest {
        return Err(ValueError::new(ValueErrorKind::OutOfRange, ty, text));
    }
    Ok(if unsigned {
        ValueRef::UInt(value as u64)
    } else {
        ValueRef::Int(value as i64)
    })
}

/// The usual case: up to 18 digits and perhaps a minus.
#[inline]
fn parse_plain(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut value = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(if negative { -value } else { value })
}

/// The usual case: up to 18 digits, at most `scale` of them behind a point, and perhaps a minus.
#[inline]
fn parse_plain_decimal(text: &[u8], scale: u8) -> Option<i128> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let (mut value, mut count, mut point) = (0i64, 0, None);
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            value = value.wrapping_mul(10).wrapping_add(i64::from(digit));
            count += 1;
        } else if *byte == b'.' && point.is_none() {
            point = Some(count);
        } else {
            return None;
        }
    }
    let fraction = count - point.unwrap_or(count);
    if count == 0 || count > 18 || fraction > usize::from(scale) {
        return None;
    }
    let units = i128::from(value).checked_mul(decimal::pow10(scale - fraction as u8))?;
    Some(if negative { -units } else { units })
}

/// A number with nothing but white space around it, in units of 10^-`scale`.
fn parse_number<T: Whole>(ty: ColumnType, scale: u8, text: &[u8]) -> Result<T, ValueError> {
    let error = |kind| ValueError::new(kind, ty, text);
    let trimmed = text.trim_ascii();
    let (number, len) = Number::scan(trimmed).ok_or_else(|| error(ValueErrorKind::Incorrect))?;
    if len < trimmed.len() {
        return Err(error(ValueErrorKind::Truncated));
    }
    number
        .to_units(scale)
        .ok_or_else(|| error(ValueErrorKind::OutOfRange))
}

fn parse_double(ty: ColumnType, text: &[u8]) -> Result<ValueRef<'_>, ValueError> {
    let error = |kind| ValueError::new(kind, ty, text);
    let trimmed = text.trim_ascii();
    let (_, len) = Number::scan(trimmed).ok_or_else(|| error(ValueErrorKind::Incorrect))?;
    if len < trimmed.len() {
        return Err(error(ValueErrorKind::Truncated));
    }
    // What `Number` scans is a subset of what `f64` reads.
    let value: f64 = std::str::from_utf8(trimmed)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| error(ValueErrorKind::Incorrect))?;
    let value = if ty == ColumnType::Float {
        f64::from(value as f32)
    } else {
        value
    };
    if value.is_finite() {
        Ok(ValueRef::Double(value))
    } else {
        Err(error(ValueErrorKind::OutOfRange))
    }
}
