//! ABS, SIGN, FLOOR, CEIL, ROUND and TRUNCATE, whose results have the type of their argument.

use std::cmp::Ordering;

use perigee_sql_type::{LONGEST_DECIMAL, Number, SqlType};
use perigee_value::Units;

use super::cast::{double, exact};
use super::computed::number;
use super::evaluate::{Failure, Outcome};
use crate::functions::Value;

/// One of the functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// ABS.
    Abs,
    /// SIGN.
    Sign,
    /// FLOOR.
    Floor,
    /// CEIL.
    Ceil,
    /// ROUND.
    Round,
    /// TRUNCATE.
    Truncate,
}

/// The type of the result.
#[must_use]
pub fn rounded_type(kind: Rounding, from: Number, places: i64) -> Number {
    match (kind, from) {
        (Rounding::Sign, _) => Number::Int(19),
        (_, Number::Double) => Number::Double,
        (_, Number::UInt(_)) => Number::UInt(20),
        (_, Number::Int(_) | Number::Null) => Number::Int(19),
        (Rounding::Abs, Number::Decimal(p, s)) => Number::Decimal(p, s),
        (Rounding::Floor | Rounding::Ceil, Number::Decimal(p, s)) => {
            // MySQL gives a BIGINT where the digits surely fit.
            if p - s < 18 {
                Number::Int(19)
            } else {
                Number::Decimal((p - s + 1).min(Number::most_digits(p)), 0)
            }
        }
        (_, Number::Decimal(p, s)) => {
            let scale = places.clamp(0, i64::from(s.min(Number::MAX_SCALE))) as u8;
            Number::Decimal((p - s + scale + 1).min(Number::most_digits(p)), scale)
        }
    }
}

/// The value of a function.
///
/// # Errors
/// [`Failure::OutOfRange`].
pub(super) fn rounded<'v>(
    kind: Rounding,
    value: &Value<'_>,
    from: &SqlType,
    places: i64,
    to: Number,
) -> Outcome<'v> {
    if value.is_null() {
        return Ok(Value::Null);
    }
    let is_exact = exact(value, from).filter(|_| Number::of(from) != Number::Double);
    let Some((units, scale)) = is_exact else {
        let v = rounded_double(kind, double(value, from), places);
        return Ok(match to {
            Number::Int(_) => Value::Int(v as i64),
            _ => Value::Double(v),
        });
    };
    let to_scale = to.exact().map_or(0, |(_, scale)| scale);
    let units = match kind {
        Rounding::Abs => units.abs().rescale(scale, to_scale),
        Rounding::Sign => Some(i128::from(units.cmp(&Units::ZERO) as i8).into()),
        Rounding::Floor | Rounding::Ceil => Some(whole(units, scale, kind)),
        Rounding::Round | Rounding::Truncate => kept(units, (scale, to_scale), places, kind),
    };
    let fitting = units.and_then(|units| number(units, to));
    fitting.ok_or(Failure::OutOfRange {
        kind: "BIGINT",
        expression: "ABS or ROUND",
    })
}

fn rounded_double(kind: Rounding, v: f64, places: i64) -> f64 {
    let power = 10f64.powi(places.clamp(-308, 308) as i32);
    let scaled = v * power;
    match kind {
        Rounding::Abs => v.abs(),
        Rounding::Sign => v.signum() * f64::from(u8::from(v != 0.0)),
        Rounding::Floor => v.floor(),
        Rounding::Ceil => v.ceil(),
        // Beyond the digits of a double there is nothing to round.
        _ if !scaled.is_finite() || scaled.abs() >= 9e15 => v,
        Rounding::Round => scaled.round_ties_even() / power,
        Rounding::Truncate => scaled.trunc() / power,
    }
}

/// FLOOR and CEIL of units of `scale`.
fn whole(number: Units, scale: u8, kind: Rounding) -> Units {
    let power = Units::pow10(usize::from(scale)).expect("a scale is at most 30");
    let cut = number.quotient(power).expect("it is not zero");
    let rest = number.remainder(power).expect("it is not zero");
    let away = match (kind, rest.cmp(&Units::ZERO)) {
        (Rounding::Floor, Ordering::Less) => -1,
        (Rounding::Ceil, Ordering::Greater) => 1,
        _ => 0,
    };
    cut.plus(away.into()).expect("shorter than the number")
}

/// Rounds or cuts units of `scale` to some places, as units of `to_scale`.
fn kept(number: Units, (scale, to_scale): (u8, u8), places: i64, kind: Rounding) -> Option<Units> {
    let drop = usize::try_from(i64::from(scale).saturating_sub(places)).unwrap_or(0);
    if drop > usize::from(LONGEST_DECIMAL) {
        return Some(Units::ZERO);
    }
    let power = Units::pow10(drop)?;
    let kept = match kind {
        Rounding::Round => number.divide_round(power)?,
        _ => number.quotient(power)?,
    };
    kept.times(power, 0)?.rescale(scale, to_scale)
}
