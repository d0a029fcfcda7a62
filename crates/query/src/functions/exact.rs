//! ABS, SIGN, FLOOR, CEIL, ROUND and TRUNCATE, whose results have the type of their argument.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Float64Type, Int64Type,
};
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use perigee_value::{Units, decimal};

use super::types::{
    MAX_PRECISION, MAX_SCALE, Number, decimal_type, most_digits, mysql_name, number_of,
};
use super::{cast as casts, kernels, wide};
use crate::error::SqlError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Abs,
    Sign,
    Floor,
    Ceil,
    Round,
    Truncate,
}

/// One of the functions; the second argument of ROUND and TRUNCATE is a constant.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ExactFunction {
    kind: Kind,
    signature: Signature,
}

/// All of them.
pub fn all() -> impl Iterator<Item = ExactFunction> {
    [
        Kind::Abs,
        Kind::Sign,
        Kind::Floor,
        Kind::Ceil,
        Kind::Round,
        Kind::Truncate,
    ]
    .into_iter()
    .map(|kind| ExactFunction {
        kind,
        signature: Signature::variadic_any(Volatility::Immutable),
    })
}

/// Places a decimal keeps, by ROUND's second argument.
fn places(args: &[Option<&ScalarValue>]) -> DfResult<i64> {
    match args.get(1) {
        None => Ok(0),
        Some(Some(ScalarValue::Int64(Some(places)))) => Ok(*places),
        _ => Err(
            SqlError::not_supported("ROUND or TRUNCATE to a computed number of places").into_df(),
        ),
    }
}

impl ExactFunction {
    fn result_type(&self, from: &DataType, places: i64) -> DfResult<DataType> {
        let number = number_of(from).ok_or_else(|| {
            SqlError::not_supported(format!("{} of {}", self.name(), mysql_name(from))).into_df()
        })?;
        Ok(match (self.kind, number) {
            (Kind::Sign, _) => DataType::Int64,
            (_, Number::Double) => DataType::Float64,
            (_, Number::UInt(_)) => DataType::UInt64,
            (_, Number::Int(_) | Number::Null) => DataType::Int64,
            (Kind::Abs, Number::Decimal(p, s)) => decimal_type(p, s),
            (Kind::Floor | Kind::Ceil, Number::Decimal(p, s)) => {
                // MySQL gives a BIGINT where the digits surely fit.
                if p - s < 18 {
                    DataType::Int64
                } else {
                    decimal_type((p - s + 1).min(most_digits(p)), 0)
                }
            }
            (_, Number::Decimal(p, s)) => {
                let scale = places.clamp(0, i64::from(s.min(MAX_SCALE))) as u8;
                decimal_type((p - s + scale + 1).min(most_digits(p)), scale)
            }
        })
    }
}

impl ScalarUDFImpl for ExactFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Abs => "mysql_abs",
            Kind::Sign => "mysql_sign",
            Kind::Floor => "mysql_floor",
            Kind::Ceil => "mysql_ceil",
            Kind::Round => "mysql_round",
            Kind::Truncate => "mysql_truncate",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        self.result_type(&types[0], 0)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let places = places(args.scalar_arguments)?;
        let ty = self.result_type(args.arg_fields[0].data_type(), places)?;
        Ok(Arc::new(Field::new(
            self.name(),
            ty,
            args.arg_fields[0].is_nullable(),
        )))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let array = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        let digits = match args.args.get(1) {
            Some(ColumnarValue::Scalar(literal)) => places(&[None, Some(literal)])?,
            _ => 0,
        };
        let to = args.return_field.data_type();
        let array = match number_of(array.data_type()) {
            Some(Number::Double) => self.doubles(&array, digits, to)?,
            _ if wide::is_wide(array.data_type()) => self.wide(&array, digits, to)?,
            _ => self.units(&array, digits, to)?,
        };
        kernels::shape(array, scalar)
    }
}

impl ExactFunction {
    fn doubles(&self, array: &ArrayRef, digits: i64, to: &DataType) -> DfResult<ArrayRef> {
        let array = casts::convert(array, casts::Target::Double, 0)?;
        let power = 10f64.powi(digits.clamp(-308, 308) as i32);
        let kind = self.kind;
        let array = kernels::unary::<Float64Type, Float64Type>(&array, |v| {
            let scaled = v * power;
            Ok(Some(kernels::no_negative_zero(match kind {
                Kind::Abs => v.abs(),
                Kind::Sign => v.signum() * f64::from(u8::from(v != 0.0)),
                Kind::Floor => v.floor(),
                Kind::Ceil => v.ceil(),
                // Beyond the digits of a double there is nothing to round.
                _ if !scaled.is_finite() || scaled.abs() >= 9e15 => v,
                Kind::Round => scaled.round_ties_even() / power,
                Kind::Truncate => scaled.trunc() / power,
            })))
        })?;
        Ok(cast(&array, to)?)
    }

    fn wide(&self, array: &ArrayRef, digits: i64, to: &DataType) -> DfResult<ArrayRef> {
        let (from, kind) = (wide::scale_of(array.data_type()), self.kind);
        let to_scale = wide::scale_of(to);
        let numbers = wide::numbers(array)?.into_iter().map(|number| {
            let number = number?;
            Some(match kind {
                Kind::Abs => number.abs(),
                Kind::Sign => i128::from(number.cmp(&Units::ZERO) as i8).into(),
                Kind::Floor | Kind::Ceil => whole(number, from, kind),
                Kind::Round | Kind::Truncate => wide_round(number, (from, to_scale), digits, kind),
            })
        });
        match to {
            DataType::Decimal128(p, _) | DataType::Decimal256(p, _) => {
                wide::array(numbers, (*p, to_scale))
            }
            _ => {
                let integers = wide::array(numbers, (MAX_PRECISION, 0))?;
                Ok(cast(&integers, to)?)
            }
        }
    }

    fn units(&self, array: &ArrayRef, digits: i64, to: &DataType) -> DfResult<ArrayRef> {
        let scale = match array.data_type() {
            DataType::Decimal128(_, s) => *s as u8,
            _ => 0,
        };
        let units = match array.data_type() {
            DataType::Decimal128(..) => Arc::clone(array),
            DataType::Boolean => cast(
                &cast(array, &DataType::Int64)?,
                &DataType::Decimal128(20, 0),
            )?,
            _ => cast(array, &DataType::Decimal128(20, 0))?,
        };
        let to_scale = match to {
            DataType::Decimal128(_, s) => *s as u8,
            _ => 0,
        };
        let kind = self.kind;
        let units = kernels::unary::<Decimal128Type, Decimal128Type>(&units, |v| {
            Ok(match kind {
                Kind::Abs => v.checked_abs(),
                Kind::Sign => Some(v.signum()),
                Kind::Floor => Some(v.div_euclid(decimal::pow10(scale))),
                Kind::Ceil => Some(-(-v).div_euclid(decimal::pow10(scale))),
                Kind::Round | Kind::Truncate => round(v, (scale, to_scale), digits, kind),
            })
        })?;
        let units = units.as_primitive::<Decimal128Type>().clone();
        match to {
            DataType::Decimal128(p, s) => Ok(Arc::new(units.with_precision_and_scale(*p, *s)?)),
            DataType::Int64 => {
                kernels::unary::<Decimal128Type, Int64Type>(&(Arc::new(units) as ArrayRef), |v| {
                    match i64::try_from(v) {
                        Ok(v) => Ok(Some(v)),
                        Err(_) => Err(range_error()),
                    }
                })
            }
            _ => Ok(cast(&units.with_precision_and_scale(20, 0)?, to)?),
        }
    }
}

fn range_error() -> datafusion::arrow::error::ArrowError {
    let error = SqlError::numeric_range("BIGINT", "ABS or ROUND");
    datafusion::arrow::error::ArrowError::ExternalError(Box::new(error))
}

/// FLOOR and CEIL of units of `scale`.
fn whole(number: Units, scale: u8, kind: Kind) -> Units {
    let power = Units::pow10(usize::from(scale)).expect("a scale is at most 30");
    let cut = number.quotient(power).expect("it is not zero");
    let rest = number.remainder(power).expect("it is not zero");
    let away = match (kind, rest.cmp(&Units::ZERO)) {
        (Kind::Floor, Ordering::Less) => -1,
        (Kind::Ceil, Ordering::Greater) => 1,
        _ => 0,
    };
    cut.plus(away.into()).expect("shorter than the number")
}

/// As [`round`], for wide decimals.
fn wide_round(number: Units, (scale, to_scale): (u8, u8), digits: i64, kind: Kind) -> Units {
    let drop = usize::try_from(i64::from(scale) - digits).unwrap_or(0);
    if drop > usize::from(wide::ARROW_PRECISION) {
        return Units::ZERO;
    }
    let power = Units::pow10(drop).expect("76 digits are few");
    let kept = match kind {
        Kind::Round => number.divide_round(power),
        _ => number.quotient(power),
    };
    let same = kept.and_then(|kept| kept.times(power, 0));
    let same = same.expect("hardly longer than the number");
    same.rescale(scale, to_scale).expect("30 digits more")
}

/// Rounds or cuts units of `scale` to `digits` places, as units of `to_scale`.
fn round(units: i128, (scale, to_scale): (u8, u8), digits: i64, kind: Kind) -> Option<i128> {
    let drop = (i64::from(scale) - digits).max(0);
    if drop > i64::from(MAX_PRECISION) {
        return Some(0);
    }
    let power = decimal::pow10(drop as u8);
    let kept = match kind {
        Kind::Round => decimal::divide_round(units, power)?,
        _ => units / power,
    };
    // `kept` has `scale - drop` places, which is negative for ROUND(x, -2).
    let grow = i64::from(to_scale) - (i64::from(scale) - drop);
    kept.checked_mul(decimal::pow10(u8::try_from(grow).ok()?))
}
