//! What each operation does to values: the one definition that the interpreter uses and that
//! compiled code calls for what it does not do inline.
//!
//! Operands have the types that validation found (E2); other combinations are a broken invariant
//! and panic. NULL operands are the caller's: the functions here see values only, except
//! [`compare`].

use std::cmp::Ordering;

use perigee_value::{ValueRef, date, decimal, string};

use crate::{Arithmetic, Comparison, DateField, EvalError, Type};

/// Result of an operation: a value or an error.
pub type Outcome<'a> = Result<ValueRef<'a>, EvalError>;

/// Order of two values of type `ty`, neither NULL.
///
/// # Panics
/// If the values are of different types.
#[inline]
#[must_use]
pub fn order_of(ty: Type, left: ValueRef<'_>, right: ValueRef<'_>) -> Ordering {
    match (ty, left, right) {
        (Type::Collated(collation), ValueRef::String(a), ValueRef::String(b)) => {
            collation.compare(a, b)
        }
        _ => order(left, right),
    }
}

/// Order of two values of one type other than Collated, neither NULL. Strings compare with PAD SPACE.
///
/// # Panics
/// If the values are of different types.
#[inline]
#[must_use]
pub fn order(left: ValueRef<'_>, right: ValueRef<'_>) -> Ordering {
    match (left, right) {
        (ValueRef::Int(a), ValueRef::Int(b)) => a.cmp(&b),
        (ValueRef::UInt(a), ValueRef::UInt(b)) => a.cmp(&b),
        (ValueRef::Decimal(a), ValueRef::Decimal(b)) => a.cmp(&b),
        // No SQL value is NaN; damaged ones may compare as they like.
        (ValueRef::Double(a), ValueRef::Double(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
        (ValueRef::Date(a), ValueRef::Date(b)) => a.cmp(&b),
        (ValueRef::DateTime(a), ValueRef::DateTime(b)) => a.cmp(&b),
        (ValueRef::Time(a), ValueRef::Time(b)) => a.cmp(&b),
        (ValueRef::String(a), ValueRef::String(b)) => string::compare(a, b),
        (ValueRef::Bool(a), ValueRef::Bool(b)) => a.cmp(&b),
        _ => panic!("E2: {left:?} and {right:?} are compared"),
    }
}

/// A comparison of values of type `ty`; operands may be NULL.
#[inline]
#[must_use]
pub fn compare<'a>(
    op: Comparison,
    ty: Type,
    left: ValueRef<'_>,
    right: ValueRef<'_>,
) -> ValueRef<'a> {
    if left.is_null() || right.is_null() {
        return match op {
            Comparison::NullSafeEqual => ValueRef::Bool(left.is_null() && right.is_null()),
            _ => ValueRef::Null,
        };
    }
    let order = order_of(ty, left, right);
    ValueRef::Bool(match op {
        Comparison::Equal | Comparison::NullSafeEqual => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    })
}

/// `+ - * / DIV %` of two values of types `types`; the result is of type `ty`.
#[inline]
pub fn arithmetic<'a>(
    op: Arithmetic,
    left: ValueRef<'_>,
    right: ValueRef<'_>,
    types: (Type, Type),
    ty: Type,
) -> Outcome<'a> {
    match (left, right) {
        (ValueRef::Int(a), ValueRef::Int(b)) => match ty {
            Type::Decimal { .. } => divide_exact(i128::from(a), i128::from(b), types, ty),
            _ => int_arithmetic(op, a, b),
        },
        (ValueRef::UInt(a), ValueRef::UInt(b)) => match ty {
            Type::Decimal { .. } => divide_exact(i128::from(a), i128::from(b), types, ty),
            _ => uint_arithmetic(op, a, b),
        },
        (ValueRef::Double(a), ValueRef::Double(b)) => double_arithmetic(op, a, b),
        (ValueRef::Decimal(a), ValueRef::Decimal(b)) => decimal_arithmetic(op, a, b, types, ty),
        _ => panic!("E2: arithmetic on {left:?} and {right:?}"),
    }
}

fn int_arithmetic<'a>(op: Arithmetic, a: i64, b: i64) -> Outcome<'a> {
    let value = match op {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Subtract => a.checked_sub(b),
        Arithmetic::Multiply => a.checked_mul(b),
        Arithmetic::IntDivide | Arithmetic::Modulo if b == 0 => return Ok(ValueRef::Null),
        Arithmetic::IntDivide => a.checked_div(b),
        // i64::MIN % -1 overflows in hardware, but is 0.
        Arithmetic::Modulo => Some(a.wrapping_rem(b)),
        Arithmetic::Divide => panic!("E2: the quotient of integers is a decimal"),
    };
    value
        .map(ValueRef::Int)
        .ok_or(EvalError::OutOfRange(Type::Int))
}

fn uint_arithmetic<'a>(op: Arithmetic, a: u64, b: u64) -> Outcome<'a> {
    let value = match op {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Subtract => a.checked_sub(b),
        Arithmetic::Multiply => a.checked_mul(b),
        Arithmetic::IntDivide | Arithmetic::Modulo if b == 0 => return Ok(ValueRef::Null),
        Arithmetic::IntDivide => a.checked_div(b),
        Arithmetic::Modulo => a.checked_rem(b),
        Arithmetic::Divide => panic!("E2: the quotient of integers is a decimal"),
    };
    value
        .map(ValueRef::UInt)
        .ok_or(EvalError::OutOfRange(Type::UInt))
}

fn double_arithmetic<'a>(op: Arithmetic, a: f64, b: f64) -> Outcome<'a> {
    let value = match op {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        Arithmetic::Divide | Arithmetic::Modulo if b == 0.0 => return Ok(ValueRef::Null),
        Arithmetic::Divide => a / b,
        Arithmetic::Modulo => a % b,
        Arithmetic::IntDivide => panic!("E2: DIV of doubles"),
    };
    double(value)
}

fn decimal_arithmetic<'a>(
    op: Arithmetic,
    a: i128,
    b: i128,
    types: (Type, Type),
    ty: Type,
) -> Outcome<'a> {
    let units = match op {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Subtract => a.checked_sub(b),
        Arithmetic::Multiply => {
            decimal::multiply(a, b, types.0.scale() + types.1.scale() - ty.scale())
        }
        Arithmetic::Divide => return divide_exact(a, b, types, ty),
        Arithmetic::IntDivide | Arithmetic::Modulo if b == 0 => return Ok(ValueRef::Null),
        // Of one scale, so units divide as the numbers do.
        Arithmetic::IntDivide => {
            return a
                .checked_div(b)
                .map_or(Err(EvalError::OutOfRange(ty)), |v| integer(v, ty));
        }
        Arithmetic::Modulo => Some(a.wrapping_rem(b)),
    };
    exact(units, ty)
}

fn divide_exact<'a>(a: i128, b: i128, types: (Type, Type), ty: Type) -> Outcome<'a> {
    if b == 0 {
        return Ok(ValueRef::Null);
    }
    exact(
        decimal::divide(a, b, (types.0.scale(), types.1.scale()), ty.scale()),
        ty,
    )
}

/// Unary minus.
#[inline]
pub fn negate<'a>(value: ValueRef<'_>, ty: Type) -> Outcome<'a> {
    match value {
        ValueRef::Int(v) => v
            .checked_neg()
            .map(ValueRef::Int)
            .ok_or(EvalError::OutOfRange(Type::Int)),
        ValueRef::Decimal(v) => exact(v.checked_neg(), ty),
        ValueRef::Double(v) => Ok(ValueRef::Double(-v)),
        _ => panic!("E2: minus {value:?}"),
    }
}

/// Conversion of a value of type `from` to type `to`.
#[inline]
pub fn cast(value: ValueRef<'_>, from: Type, to: Type) -> Outcome<'_> {
    match (value, to) {
        (ValueRef::Bool(v), Type::Int) => Ok(ValueRef::Int(i64::from(v))),
        (ValueRef::String(v), Type::String | Type::Collated(_)) => Ok(ValueRef::String(v)),
        (ValueRef::Date(v), Type::DateTime) => Ok(ValueRef::DateTime(date::day_to_micros(v))),
        (ValueRef::Int(v), Type::Double) => Ok(ValueRef::Double(v as f64)),
        (ValueRef::UInt(v), Type::Double) => Ok(ValueRef::Double(v as f64)),
        (ValueRef::Int(v), _) => number(i128::from(v), 0, to),
        (ValueRef::UInt(v), _) => number(i128::from(v), 0, to),
        (ValueRef::Decimal(v), Type::Double) => {
            Ok(ValueRef::Double(decimal::to_f64(v, from.scale())))
        }
        (ValueRef::Decimal(v), _) => number(v, from.scale(), to),
        (ValueRef::Double(v), Type::Decimal { scale, .. }) => {
            exact(decimal::from_f64(v, scale), to)
        }
        (ValueRef::Double(v), Type::Int | Type::UInt) => {
            // Saturates at i128, far outside of both types; NaN of a damaged record becomes 0.
            integer(v.round_ties_even() as i128, to)
        }
        _ => panic!("E2: {value:?} to {to}"),
    }
}

/// An exact number of units of 10^-`scale` as a value of an exact type.
fn number<'a>(units: i128, scale: u8, to: Type) -> Outcome<'a> {
    let units = decimal::rescale(units, scale, to.scale());
    match to {
        Type::Decimal { .. } => exact(units, to),
        _ => units.map_or(Err(EvalError::OutOfRange(to)), |units| integer(units, to)),
    }
}

/// Units as a decimal of type `ty`, if it holds them.
#[inline]
fn exact<'a>(units: Option<i128>, ty: Type) -> Outcome<'a> {
    let Type::Decimal { precision, .. } = ty else {
        panic!("E2: {ty} is not a decimal");
    };
    match units {
        Some(units) if decimal::fits(units, precision) => Ok(ValueRef::Decimal(units)),
        _ => Err(EvalError::OutOfRange(ty)),
    }
}

/// An integer as a value of type Int or UInt, if it holds it.
fn integer<'a>(value: i128, ty: Type) -> Outcome<'a> {
    let converted = match ty {
        Type::UInt => u64::try_from(value).ok().map(ValueRef::UInt),
        _ => i64::try_from(value).ok().map(ValueRef::Int),
    };
    converted.ok_or(EvalError::OutOfRange(ty))
}

fn double<'a>(value: f64) -> Outcome<'a> {
    if value.is_finite() {
        Ok(ValueRef::Double(value))
    } else {
        Err(EvalError::OutOfRange(Type::Double))
    }
}

/// A field of a Date or DateTime; the time of a Date is midnight.
///
/// # Panics
/// If the value is neither.
#[inline]
#[must_use]
pub fn extract(field: DateField, value: ValueRef<'_>) -> i64 {
    let (days, time) = match value {
        ValueRef::Date(days) => (days, None),
        ValueRef::DateTime(micros) => {
            let (days, time) = date::split_micros(micros);
            (days, Some(time))
        }
        _ => panic!("E2: {field:?} of {value:?}"),
    };
    let civil = || date::Civil::from_days(days);
    match field {
        DateField::Year => i64::from(civil().year),
        DateField::Quarter => i64::from(civil().month.div_ceil(3)),
        DateField::Month => i64::from(civil().month),
        DateField::Day => i64::from(civil().day),
        DateField::Hour => time.map_or(0, |time| i64::from(time.hour)),
        DateField::Minute => time.map_or(0, |time| i64::from(time.minute)),
        DateField::Second => time.map_or(0, |time| i64::from(time.second)),
    }
}
