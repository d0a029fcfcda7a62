//! `+ - * / DIV %` and unary minus of two values.

use perigee_sql_type::{Number, SqlType};
use perigee_value::Units;

use super::cast::{double, exact};
use super::evaluate::{Failure, Outcome};
use crate::Arithmetic;
use crate::functions::Value;

/// `left op right`, computed as a number of type `to`; NULL for division by zero.
///
/// # Errors
/// [`Failure::OutOfRange`] for a result outside of its type.
pub(super) fn compute<'v>(
    op: Arithmetic,
    (left, left_type): (&Value<'_>, &SqlType),
    (right, right_type): (&Value<'_>, &SqlType),
    to: Number,
) -> Outcome<'v> {
    if left.is_null() || right.is_null() {
        return Ok(Value::Null);
    }
    if let (Value::Int(a), Value::Int(b), Number::Int(_)) = (left, right, to)
        && let Some(result) = integers(op, *a, *b)
    {
        return Ok(result);
    }
    let is_exact = |value: &Value<'_>, ty| exact(value, ty);
    match (
        to,
        is_exact(left, left_type).zip(is_exact(right, right_type)),
    ) {
        (Number::Double | Number::Null, _) => {
            doubles(op, double(left, left_type), double(right, right_type))
        }
        (to, Some((left, right))) => numbers(op, left, right, to),
        // DIV divides decimals.
        (to, None) if op == Arithmetic::IntDivide => {
            let both = decimal(left, left_type).zip(decimal(right, right_type));
            let (left, right) = both.ok_or_else(|| out_of_range(op, name(to)))?;
            numbers(op, left, right, to)
        }
        (_, None) => doubles(op, double(left, left_type), double(right, right_type)),
    }
}

/// The usual case; `None` to compute it with more digits, or to find that it is out of range.
fn integers<'v>(op: Arithmetic, a: i64, b: i64) -> Option<Value<'v>> {
    let value = match op {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Subtract => a.checked_sub(b),
        Arithmetic::Multiply => a.checked_mul(b),
        _ if b == 0 => return Some(Value::Null),
        Arithmetic::Modulo => Some(a.wrapping_rem(b)),
        Arithmetic::IntDivide => a.checked_div(b),
        Arithmetic::Divide => None,
    };
    value.map(Value::Int)
}

fn doubles<'v>(op: Arithmetic, a: f64, b: f64) -> Outcome<'v> {
    let value = match op {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        _ if b == 0.0 => return Ok(Value::Null),
        Arithmetic::Modulo => a % b,
        _ => a / b,
    };
    match value.is_finite() {
        true => Ok(Value::Double(value)),
        false => Err(out_of_range(op, "DOUBLE")),
    }
}

/// A number as a decimal of the most digits after the decimal point.
fn decimal(value: &Value<'_>, ty: &SqlType) -> Option<(Units, u8)> {
    exact(value, ty).or_else(|| {
        let units = Units::from_f64(double(value, ty), Number::MAX_SCALE)?;
        Some((units, Number::MAX_SCALE))
    })
}

/// Exact numbers, in units of their scales.
fn numbers<'v>(
    op: Arithmetic,
    (a, s1): (Units, u8),
    (b, s2): (Units, u8),
    to: Number,
) -> Outcome<'v> {
    if op.divides() && b.is_zero() {
        return Ok(Value::Null);
    }
    let scale = to.exact().map_or(0, |(_, scale)| scale);
    let common = s1.max(s2);
    let aligned = || Some((a.rescale(s1, common)?, b.rescale(s2, common)?));
    // Operands may have digits that are not shown.
    let shown = |value: Option<Units>, from: u8| match from == scale {
        true => value,
        false => value?.rescale(from, scale),
    };
    let value = match op {
        Arithmetic::Add => shown(aligned().and_then(|(a, b)| a.plus(b)), common),
        Arithmetic::Subtract => shown(aligned().and_then(|(a, b)| a.minus(b)), common),
        Arithmetic::Multiply => {
            let drop = (s1 + s2).saturating_sub(scale);
            shown(a.times(b, drop), s1 + s2 - drop)
        }
        Arithmetic::Divide => a.divide(b, (s1, s2), scale),
        Arithmetic::IntDivide => aligned().and_then(|(a, b)| a.quotient(b)),
        Arithmetic::Modulo => shown(aligned().and_then(|(a, b)| a.remainder(b)), common),
    };
    let fitting = value.and_then(|value| number(value, to));
    fitting.ok_or_else(|| out_of_range(op, name(to)))
}

/// Units as a number of a type, if it has them.
pub(super) fn number<'v>(units: Units, to: Number) -> Option<Value<'v>> {
    Some(match to {
        Number::UInt(_) => Value::UInt(u64::try_from(units.to_i128()?).ok()?),
        Number::Int(_) | Number::Null => Value::Int(i64::try_from(units.to_i128()?).ok()?),
        Number::Decimal(precision, scale) => {
            Value::Decimal(Some(units).filter(|units| units.fits(precision))?, scale)
        }
        Number::Double => Value::Double(units.to_f64(0)),
    })
}

/// `-x`; the result of a number without a sign has one.
///
/// # Errors
/// [`Failure::OutOfRange`].
pub(super) fn negated<'v>(value: &Value<'_>, ty: &SqlType) -> Outcome<'v> {
    let zero = (&Value::Int(0), &SqlType::int());
    let to = match value {
        Value::Null => return Ok(Value::Null),
        Value::Int(_) | Value::UInt(_) => Number::Int(19),
        Value::Decimal(_, scale) => Number::Decimal(perigee_sql_type::LONGEST_DECIMAL, *scale),
        _ => Number::Double,
    };
    compute(Arithmetic::Subtract, zero, (value, ty), to)
}

/// MySQL's name of a type, for messages.
fn name(to: Number) -> &'static str {
    match to {
        Number::Int(_) | Number::Null => "BIGINT",
        Number::UInt(_) => "BIGINT UNSIGNED",
        Number::Decimal(..) => "DECIMAL",
        Number::Double => "DOUBLE",
    }
}

fn out_of_range(op: Arithmetic, kind: &'static str) -> Failure {
    let expression = match op {
        Arithmetic::Add => "(… + …)",
        Arithmetic::Subtract => "(… - …)",
        Arithmetic::Multiply => "(… * …)",
        Arithmetic::Divide => "(… / …)",
        Arithmetic::IntDivide => "(… DIV …)",
        Arithmetic::Modulo => "(… % …)",
    };
    Failure::OutOfRange { kind, expression }
}
