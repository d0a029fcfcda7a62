//! `CAST(x AS …)` of one value.

use std::borrow::Cow;

use perigee_sql_type::SqlType;
use perigee_value::time::{round_time, time_number};
use perigee_value::{Collation, ColumnType, Datum, Units, ValueRef, parse_text_ref};

use super::values::{to_datum, to_text, units_of};
use crate::functions::{Value, json_scalar_text, leading_number};

/// What CAST can make of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// SIGNED.
    Signed,
    /// UNSIGNED.
    Unsigned,
    /// DECIMAL(precision, scale).
    Decimal(u8, u8),
    /// DOUBLE.
    Double,
    /// FLOAT.
    Float,
    /// CHAR, perhaps cut to a number of characters.
    Char(Option<u32>),
    /// BINARY, perhaps cut or filled up to a number of bytes.
    Binary(Option<u32>),
    /// DATE.
    Date,
    /// DATETIME(fsp).
    DateTime(u8),
    /// TIME(fsp).
    Time(u8),
    /// YEAR.
    Year,
    /// A number of seconds in microseconds: an integer.
    Micros,
}

/// True if values of a type can be made values of a target by [`cast`].
#[must_use]
pub fn is_castable(from: &SqlType, target: Target) -> bool {
    let is_time_as_date = from.is_time() && matches!(target, Target::Date | Target::DateTime(_));
    !is_time_as_date
}

/// A value as one of a target, by the rules of CAST: what has no place in the target is its least or greatest value,
/// what is no date is NULL.
#[must_use]
pub fn cast<'v>(value: Value<'v>, from: &SqlType, target: Target) -> Value<'v> {
    if value.is_null() {
        return Value::Null;
    }
    if let Value::Bytes(bytes) = &value
        && !matches!(target, Target::Char(_) | Target::Binary(_))
    {
        let text = std::str::from_utf8(bytes).ok().map(str::to_owned);
        return match text {
            Some(text) => cast(Value::text(text), from, target),
            None => Value::Null,
        };
    }
    if let Value::Text(text) = &value
        && from.is_json()
        && !matches!(target, Target::Char(_) | Target::Binary(_))
    {
        let text = json_text(text, target);
        let scalar = SqlType::text(Collation::UTF8MB4_BIN);
        return text.map_or(Value::Null, |text| cast(Value::text(text), &scalar, target));
    }
    match target {
        Target::Signed => Value::Int(signed(&value, from)),
        Target::Unsigned => Value::UInt(unsigned(&value, from)),
        Target::Decimal(precision, scale) => {
            Value::Decimal(decimal(&value, from, precision, scale), scale)
        }
        Target::Double => Value::Double(double(&value, from)),
        Target::Float => Value::Double(f64::from(double(&value, from) as f32)),
        Target::Char(chars) => text(value, from, chars),
        Target::Binary(length) => bytes(value, from, length),
        Target::Date => temporal(value, from, ColumnType::Date),
        Target::DateTime(fsp) => temporal(value, from, ColumnType::DateTime { fsp }),
        Target::Time(fsp) => temporal(value, from, ColumnType::Time { fsp }),
        Target::Year => temporal(value, from, ColumnType::Year),
        Target::Micros => Value::Int(micros(&value, from)),
    }
}

/// The text that counts as a JSON value where a number or a date is wanted. An array, an object or null is 0 as a
/// number and is not a date.
fn json_text(text: &str, target: Target) -> Option<String> {
    let is_temporal = matches!(
        target,
        Target::Date | Target::DateTime(_) | Target::Time(_) | Target::Year
    );
    let to_integer = matches!(target, Target::Signed | Target::Unsigned);
    let scalar = json_scalar_text(text, to_integer).ok().flatten();
    scalar.or_else(|| (!is_temporal).then(|| "0".to_owned()))
}

/// A number that counts as the value: dates as 20200131, times as 235959 with their fraction, texts as what they begin
/// with.
pub(super) fn double(value: &Value<'_>, from: &SqlType) -> f64 {
    match value {
        Value::Double(v) => *v,
        Value::Text(text) => leading_number(text),
        Value::Bytes(bytes) => leading_number(&String::from_utf8_lossy(bytes)),
        _ => match exact(value, from) {
            Some((units, scale)) => units.to_f64(scale),
            None => 0.0,
        },
    }
}

/// The exact number that a number, a date or a time is.
pub(super) fn exact(value: &Value<'_>, from: &SqlType) -> Option<(Units, u8)> {
    const MICROS: i128 = 1_000_000;
    let fsp = from.column.and_then(ColumnType::fsp).unwrap_or(0);
    let with_fraction = |whole: i64, micros: i64| {
        let units = i128::from(whole) * MICROS + i128::from(micros);
        Some((Units::from(units).rescale(6, fsp)?, fsp))
    };
    match value {
        Value::Time(v) if fsp == 0 => Some((i128::from(time_number(round_time(*v, 0))).into(), 0)),
        Value::Time(v) => with_fraction(time_number(*v), v % MICROS as i64),
        Value::DateTime(v) => {
            let whole = integer_datum(Datum::DateTime(v - v.rem_euclid(MICROS as i64)))?;
            with_fraction(whole, v.rem_euclid(MICROS as i64))
        }
        Value::Date(v) => Some((i128::from(integer_datum(Datum::Date(*v))?).into(), 0)),
        _ => units_of(value),
    }
}

/// A date as a number.
fn integer_datum(value: Datum) -> Option<i64> {
    let from = match value {
        Datum::Date(_) => ColumnType::Date,
        _ => ColumnType::DateTime { fsp: 0 },
    };
    match super::values::BIGINT.coerce(value, from) {
        Ok(Datum::Int(v)) => Some(v),
        _ => None,
    }
}

/// The value as a whole number, rounded.
fn whole(value: &Value<'_>, from: &SqlType) -> i128 {
    match value {
        Value::Double(v) => v.round_ties_even() as i128,
        Value::Text(text) => leading_integer(text),
        _ => match exact(value, from) {
            Some((units, scale)) => {
                let rounded = units.rescale(scale, 0).and_then(Units::to_i128);
                let end = if units.is_negative() {
                    i128::MIN
                } else {
                    i128::MAX
                };
                rounded.unwrap_or(end)
            }
            None => 0,
        },
    }
}

/// An integer that is too long is the one with its 64 bits, of a text too; any other number the greatest.
fn signed(value: &Value<'_>, from: &SqlType) -> i64 {
    let number = whole(value, from);
    match value {
        Value::UInt(v) => *v as i64,
        Value::Text(_) if number > i64::MAX.into() => number.min(u64::MAX.into()) as u64 as i64,
        _ => number.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
    }
}

/// A negative number is its two's complement.
fn unsigned(value: &Value<'_>, from: &SqlType) -> u64 {
    let number = whole(value, from);
    match number < 0 {
        true => number.max(i64::MIN.into()) as i64 as u64,
        false => number.min(u64::MAX.into()) as u64,
    }
}

/// The integer a text begins with.
#[must_use]
pub fn leading_integer(text: &str) -> i128 {
    let text = text.trim_start();
    let sign = usize::from(text.starts_with(['+', '-']));
    let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
    let magnitude: i128 = match text[sign..sign + digits].parse() {
        Ok(v) => v,
        Err(_) if digits == 0 => 0,
        Err(_) => i128::MAX,
    };
    if text.starts_with('-') {
        -magnitude
    } else {
        magnitude
    }
}

/// A decimal; what is too long is the least or greatest of its type.
fn decimal(value: &Value<'_>, from: &SqlType, precision: u8, scale: u8) -> Units {
    let power = Units::pow10(usize::from(precision));
    let most = power.and_then(|power| power.minus(Units::from(1)));
    let most = most.expect("a precision is no more than 65");
    let clamped = |number: Option<Units>, negative: bool| match (number, negative) {
        (Some(number), _) => number.clamp(-most, most),
        (None, true) => -most,
        (None, false) => most,
    };
    match value {
        Value::Double(v) => clamped(Units::from_f64(*v, scale), *v < 0.0),
        Value::Text(text) => {
            let ty = ColumnType::Decimal { precision, scale };
            match parse_text_ref(ty, text.trim().as_bytes()) {
                Ok(ValueRef::Decimal(v)) => Units::from(v),
                Ok(ValueRef::Wide(v)) => v.units(),
                _ => {
                    let number = leading_number(text);
                    clamped(Units::from_f64(number, scale), number < 0.0)
                }
            }
        }
        _ => match exact(value, from) {
            Some((units, own)) => clamped(units.rescale(own, scale), units.is_negative()),
            None => Units::ZERO,
        },
    }
}

/// A number of seconds in microseconds.
fn micros(value: &Value<'_>, from: &SqlType) -> i64 {
    let number = match from.is_number() || from.is_moment() || from.is_time() {
        true => value.clone(),
        false => Value::Double(double(value, from)),
    };
    // Microseconds of 10,000 years have 18 digits.
    let units = decimal(&number, from, 25, 6).to_i128().unwrap_or(i128::MAX);
    units.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// Each byte of a string as the character with its number: what functions of characters do with such a text, they do
/// with the bytes.
pub(super) fn latin<'v>(value: Value<'v>, from: &SqlType) -> Value<'v> {
    match bytes(value, from, None) {
        Value::Bytes(bytes) => {
            Value::text(bytes.iter().copied().map(char::from).collect::<String>())
        }
        other => other,
    }
}

/// The value as it is shown, cut to a number of characters.
fn text<'v>(value: Value<'v>, from: &SqlType, chars: Option<u32>) -> Value<'v> {
    let text: Cow<'v, str> = match value {
        Value::Text(text) => text,
        other => match to_text(&other, from) {
            Some(text) => Cow::Owned(text.into_owned()),
            None => return Value::Null,
        },
    };
    let end = chars.and_then(|chars| text.char_indices().nth(chars as usize));
    match end {
        Some((end, _)) => Value::text(text[..end].to_owned()),
        None => Value::Text(text),
    }
}

/// The bytes of the value as it is shown, cut or filled up with zeros to a length.
fn bytes<'v>(value: Value<'v>, from: &SqlType, length: Option<u32>) -> Value<'v> {
    let mut bytes = match value {
        Value::Null => return Value::Null,
        Value::Bytes(bytes) => bytes.into_owned(),
        other => match to_text(&other, from) {
            Some(text) => text.into_owned().into_bytes(),
            None => return Value::Null,
        },
    };
    if let Some(length) = length {
        bytes.resize(length as usize, 0);
    }
    Value::bytes(bytes)
}

/// A date, a point in time, a time or a year; NULL of what is none.
fn temporal<'v>(value: Value<'v>, from: &SqlType, to: ColumnType) -> Value<'v> {
    let is_moment = matches!(value, Value::Date(_) | Value::DateTime(_));
    let (datum, from) = to_datum(value, from);
    match to.coerce(datum, from) {
        // A zero date comes from a column; texts and numbers that say one are none.
        Ok(datum) if datum.is_zero_date() && !is_moment => Value::Null,
        Ok(Datum::Date(v)) => Value::Date(v),
        Ok(Datum::DateTime(v)) => Value::DateTime(v),
        Ok(Datum::Time(v)) => Value::Time(v),
        Ok(Datum::UInt(v)) => Value::UInt(v),
        _ => Value::Null,
    }
}
