//! Comparisons: each has a domain, of which both values are made.

use std::cmp::Ordering;

use perigee_sql_type::SqlType;
use perigee_value::{
    Collation, Units, compared_moment, compared_moment_of_number, compared_time,
    compared_time_of_number,
};

use super::cast::{double, exact};
use super::values::{to_text, units_of};
use crate::functions::Value;

/// As what values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// By all digits.
    Exact,
    /// As doubles.
    Double,
    /// As texts of a collation.
    Text(Collation),
    /// Byte by byte.
    Bytes,
    /// As points in time. A value that is no date is before all of them, MariaDB's 0000-00-00.
    Moment,
    /// As times; a value that is no time is 0.
    Time,
}

/// 0000-00-00, which is before every date.
pub const NO_DATE: i64 = perigee_value::date::ZERO_MICROS;

/// Digits of numbers after the decimal point that are looked at for a time.
const SCALE: u8 = 10;

/// A microsecond in units of such numbers.
const MICRO: i128 = 10_i128.pow(SCALE as u32 - 6);

/// Microseconds of a second.
const SECOND: i128 = 1_000_000;

/// A value, which is of type `from`, as one that is compared in a domain.
#[must_use]
pub(super) fn comparable<'v>(value: Value<'v>, from: &SqlType, domain: Domain) -> Value<'v> {
    if value.is_null() {
        return value;
    }
    match domain {
        Domain::Exact => exact(&value, from).map_or(Value::Null, |(units, scale)| match value {
            Value::Int(_) | Value::UInt(_) => value,
            _ => Value::Decimal(units, scale),
        }),
        Domain::Double => Value::Double(double(&value, from)),
        Domain::Text(_) => match value {
            Value::Text(_) => value,
            other => match to_text(&other, from) {
                Some(text) => Value::text(text.into_owned()),
                None => Value::Null,
            },
        },
        Domain::Bytes => match value {
            Value::Bytes(_) => value,
            Value::Text(text) => Value::bytes(text.into_owned().into_bytes()),
            other => match to_text(&other, from) {
                Some(text) => Value::bytes(text.into_owned().into_bytes()),
                None => Value::Null,
            },
        },
        Domain::Moment => Value::DateTime(moment(&value, from)),
        Domain::Time => Value::Time(time(&value, from)),
    }
}

fn moment(value: &Value<'_>, from: &SqlType) -> i64 {
    match value {
        Value::DateTime(v) => *v,
        Value::Date(v) => perigee_value::date::day_to_micros(*v),
        Value::Text(text) => compared_moment(text.as_bytes()).unwrap_or(NO_DATE),
        Value::Bytes(bytes) => compared_moment(bytes).unwrap_or(NO_DATE),
        number => moment_of(micros(number, from)),
    }
}

fn time(value: &Value<'_>, from: &SqlType) -> i64 {
    match value {
        Value::Time(v) => *v,
        Value::Text(text) => compared_time(text.as_bytes()),
        Value::Bytes(bytes) => compared_time(bytes),
        number => time_of(micros(number, from)),
    }
}

/// A number such as 20200101101112.5 in millionths; the seventh digit after the point and those behind it are cut off.
fn micros(value: &Value<'_>, from: &SqlType) -> i128 {
    let units = match value {
        Value::Double(v) => Units::from_f64(*v, SCALE),
        other => exact(other, from).and_then(|(units, scale)| units.rescale(scale, SCALE)),
    };
    let units = units.and_then(Units::to_i128);
    let limit = 10_i128.pow(38) - 1;
    units.map_or(limit, |units| units.clamp(-limit, limit)) / MICRO
}

/// A number such as 20200101101112.5, in millionths, as a point in time; one that is no date is before all of them.
#[must_use]
pub fn moment_of(micros: i128) -> i64 {
    match compared_moment_of_number(micros / SECOND).filter(|_| micros >= 0) {
        None => NO_DATE,
        // Before a date.
        Some(moment) if moment % SECOND as i64 != 0 => moment,
        Some(moment) => moment + (micros % SECOND) as i64,
    }
}

/// A number such as 101112.5, in millionths, as a time; 0 of one that is none.
#[must_use]
pub fn time_of(micros: i128) -> i64 {
    let (whole, fraction) = (micros / SECOND, (micros % SECOND) as i64);
    match compared_time_of_number(whole) {
        0 if whole != 0 => 0,
        time if time % SECOND as i64 != 0 => time,
        time => time + fraction,
    }
}

/// The order of two values of a domain; `None` with NULL.
///
/// # Panics
/// If the values are not of the domain.
#[must_use]
pub fn order(domain: Domain, left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    Some(match (domain, left, right) {
        (_, Value::Null, _) | (_, _, Value::Null) => return None,
        (Domain::Exact, Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Domain::Exact, a, b) => {
            let ((a, s), (b, t)) = units_of(a).zip(units_of(b)).expect("F2: exact numbers");
            let common = s.max(t);
            match (a.rescale(s, common), b.rescale(t, common)) {
                (Some(a), Some(b)) => a.cmp(&b),
                // Numbers of so many digits differ in the first ones.
                _ => a.to_f64(s).total_cmp(&b.to_f64(t)),
            }
        }
        (Domain::Double, Value::Double(a), Value::Double(b)) => a.partial_cmp(b)?,
        (Domain::Text(by), Value::Text(a), Value::Text(b)) => {
            by.compare(a.as_bytes(), b.as_bytes())
        }
        (Domain::Bytes, Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Domain::Moment, Value::DateTime(a), Value::DateTime(b))
        | (Domain::Time, Value::Time(a), Value::Time(b)) => a.cmp(b),
        (domain, a, b) => panic!("F2: {a:?} and {b:?} are compared as {domain:?}"),
    })
}
