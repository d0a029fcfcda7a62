//! `CAST(x AS …)` and `CONVERT(x, …)`: `mysql_cast(x, 'target', precision, scale)`.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, DurationMicrosecondArray, Float64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Field, FieldRef, Float64Type,
    Int64Type, TimestampMicrosecondType, UInt64Type,
};
use datafusion::common::{Result as DfResult, ScalarValue, internal_datafusion_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use perigee_expr::scalar::leading_integer;
use perigee_value::time::{round_time, time_number};
use perigee_value::{ColumnType, Datum, ValueRef, date, decimal, parse_text_ref};

use super::types::{
    self, MAX_PRECISION, datetime, decimal_type, is_bytes, is_json, is_string, is_time, mysql_name,
    number_of, time,
};
use super::{json, kernels, text, wide};
use crate::error::SqlError;
use crate::interrupt;

/// The function itself.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Cast {
    signature: Signature,
}

/// Its name.
pub const NAME: &str = "mysql_cast";

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
    /// CHAR, perhaps cut to a number of characters.
    Char(Option<u16>),
    /// DATE.
    Date,
    /// DATETIME(fsp).
    DateTime(u8),
    /// TIME(fsp).
    Time(u8),
    /// JSON.
    Json,
}

impl Target {
    /// Arrow type of the result.
    #[must_use]
    pub fn data_type(self) -> DataType {
        match self {
            Self::Signed => DataType::Int64,
            Self::Unsigned => DataType::UInt64,
            Self::Decimal(p, s) => decimal_type(p, s),
            Self::Double => DataType::Float64,
            Self::Char(_) => DataType::Utf8View,
            Self::Date => DataType::Date32,
            Self::DateTime(_) => datetime(),
            Self::Time(_) => time(),
            Self::Json => types::json(),
        }
    }

    /// Name and numbers, the arguments of the function.
    #[must_use]
    pub fn arguments(self) -> (&'static str, i64, i64) {
        match self {
            Self::Signed => ("signed", 0, 0),
            Self::Unsigned => ("unsigned", 0, 0),
            Self::Decimal(p, s) => ("decimal", i64::from(p), i64::from(s)),
            Self::Double => ("double", 0, 0),
            Self::Char(n) => ("char", n.map_or(-1, i64::from), 0),
            Self::Date => ("date", 0, 0),
            Self::DateTime(fsp) => ("datetime", i64::from(fsp), 0),
            Self::Time(fsp) => ("time", i64::from(fsp), 0),
            Self::Json => ("json", 0, 0),
        }
    }

    fn from_arguments(name: &str, a: i64, b: i64) -> Option<Self> {
        Some(match name {
            "signed" => Self::Signed,
            "unsigned" => Self::Unsigned,
            "decimal" => Self::Decimal(u8::try_from(a).ok()?, u8::try_from(b).ok()?),
            "double" => Self::Double,
            "char" => Self::Char(u16::try_from(a).ok()),
            "date" => Self::Date,
            "datetime" => Self::DateTime(u8::try_from(a).ok()?),
            "time" => Self::Time(u8::try_from(a).ok()?),
            "json" => Self::Json,
            _ => return None,
        })
    }
}

impl Default for Cast {
    fn default() -> Self {
        Self {
            signature: Signature::any(4, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Cast {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Err(internal_datafusion_err!("{NAME} has a return field"))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        interrupt::check_df()?;
        let target = target(args.scalar_arguments)?;
        let from = args.arg_fields[0].data_type();
        // Strings that are no dates become NULL.
        let may_fail = is_string(from) || is_bytes(from) || matches!(target, Target::Time(_));
        let nullable = args.arg_fields[0].is_nullable() || may_fail;
        let mut field = Field::new(NAME, target.data_type(), nullable);
        if let Target::DateTime(fsp) | Target::Time(fsp) = target {
            field = field.with_metadata([(text::FSP_KEY.to_owned(), fsp.to_string())].into());
        }
        Ok(Arc::new(field))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let literals: Vec<Option<&ScalarValue>> = args
            .args
            .iter()
            .map(|arg| match arg {
                ColumnarValue::Scalar(scalar) => Some(scalar),
                ColumnarValue::Array(_) => None,
            })
            .collect();
        let target = target(&literals)?;
        let fsp = fsp_of(&args.arg_fields[0]);
        match &args.args[0] {
            ColumnarValue::Array(array) => kernels::shape(convert(array, target, fsp)?, false),
            ColumnarValue::Scalar(scalar) => {
                kernels::shape(convert(&scalar.to_array()?, target, fsp)?, true)
            }
        }
    }
}

/// Digits of fractional seconds that a field's values show.
#[must_use]
pub fn fsp_of(field: &Field) -> u8 {
    field
        .metadata()
        .get(text::FSP_KEY)
        .and_then(|fsp| fsp.parse().ok())
        .unwrap_or(0)
}

fn target(literals: &[Option<&ScalarValue>]) -> DfResult<Target> {
    let int = |i: usize| match literals.get(i) {
        Some(Some(ScalarValue::Int64(Some(v)))) => Some(*v),
        _ => None,
    };
    let name = literals
        .get(1)
        .copied()
        .flatten()
        .and_then(|l| l.try_as_str())
        .flatten();
    name.zip(int(2))
        .zip(int(3))
        .and_then(|((name, a), b)| Target::from_arguments(name, a, b))
        .ok_or_else(|| internal_datafusion_err!("{NAME} without a target"))
}

/// Converts a column by the rules of CAST.
pub fn convert(array: &ArrayRef, target: Target, fsp: u8) -> DfResult<ArrayRef> {
    let from = array.data_type();
    if target == Target::Json {
        return json::cast(array, fsp);
    }
    if is_json(from) && !matches!(target, Target::Char(_)) {
        return convert(&json::scalars(array, target)?, target, fsp);
    }
    if *from == DataType::Boolean {
        return convert(&cast(array, &DataType::Int64)?, target, fsp);
    }
    if *from == DataType::Null {
        return Ok(cast(array, &target.data_type())?);
    }
    if is_bytes(from) && !matches!(target, Target::Char(_)) {
        let texts: ArrayRef = Arc::new(text::to_text(array, fsp)?);
        return convert(&texts, target, fsp);
    }
    if is_time(from) && !matches!(target, Target::Char(_) | Target::Time(_)) {
        return convert(&times_to_numbers(array, target)?, target, fsp);
    }
    match target {
        Target::Char(chars) => to_char(array, chars, fsp),
        Target::Double if is_string(from) => text::to_double(array),
        Target::Double => numbers_to_double(array),
        Target::Signed | Target::Unsigned => to_integer(array, target),
        Target::Decimal(precision, scale) => to_decimal(array, precision, scale),
        Target::Date | Target::DateTime(_) => to_temporal(array, target),
        Target::Time(fsp) => to_time(array, fsp),
        Target::Json => json::cast(array, fsp),
    }
}

/// Texts and numbers that are no times are NULL.
fn to_time(array: &ArrayRef, fsp: u8) -> DfResult<ArrayRef> {
    let column = ColumnType::Time { fsp };
    let coerced = |value, from| match column.coerce(value, from) {
        Ok(Datum::Time(micros)) => Some(micros),
        _ => None,
    };
    match array.data_type() {
        ty if is_time(ty) => {
            kernels::unary::<DurationMicrosecondType, DurationMicrosecondType>(array, |v| {
                Ok(coerced(Datum::Time(v), column))
            })
        }
        DataType::Date32 => kernels::unary::<Date32Type, DurationMicrosecondType>(array, |v| {
            Ok(coerced(Datum::Date(v), ColumnType::Date))
        }),
        DataType::Timestamp(..) => {
            let from = ColumnType::DateTime { fsp: 6 };
            let array = cast(array, &datetime())?;
            kernels::unary::<TimestampMicrosecondType, DurationMicrosecondType>(&array, |v| {
                Ok(coerced(Datum::DateTime(v), from))
            })
        }
        ty if is_string(ty) => {
            let texts = text::as_view(array)?;
            let spans: DurationMicrosecondArray = texts
                .iter()
                .map(|t| t.and_then(|t| parse_time(t, fsp)))
                .collect();
            Ok(Arc::new(spans))
        }
        ty if ty.is_integer() => {
            let array = cast(array, &DataType::Int64)?;
            kernels::unary::<Int64Type, DurationMicrosecondType>(&array, |v| {
                Ok(coerced(Datum::Int(v), text::BIGINT))
            })
        }
        DataType::Decimal128(precision, scale) => {
            let (precision, scale) = (*precision, *scale as u8);
            let from = ColumnType::Decimal { precision, scale };
            kernels::unary::<Decimal128Type, DurationMicrosecondType>(array, |v| {
                Ok(coerced(Datum::Decimal(v), from))
            })
        }
        DataType::Decimal256(..) => {
            let units = wide::to_decimal(array, (MAX_PRECISION, 6))?;
            to_time(&units, fsp)
        }
        DataType::Float32 | DataType::Float64 => {
            let doubles = cast(array, &DataType::Float64)?;
            kernels::unary::<Float64Type, DurationMicrosecondType>(&doubles, |v| {
                Ok(coerced(Datum::Double(v), ColumnType::Double))
            })
        }
        ty => Err(unsupported(ty, "TIME")),
    }
}

/// Microseconds of a text that is a time.
#[must_use]
pub fn parse_time(text: &str, fsp: u8) -> Option<i64> {
    match parse_text_ref(ColumnType::Time { fsp }, text.as_bytes()) {
        Ok(ValueRef::Time(micros)) => Some(micros),
        _ => None,
    }
}

/// Times as numbers such as 235959, with a fraction where the target has one.
fn times_to_numbers(array: &ArrayRef, target: Target) -> DfResult<ArrayRef> {
    match target {
        Target::Signed | Target::Unsigned => {
            kernels::unary::<DurationMicrosecondType, Int64Type>(array, |v| {
                Ok(Some(time_number(round_time(v, 0))))
            })
        }
        Target::Decimal(..) | Target::Double => {
            let units = kernels::unary::<DurationMicrosecondType, Decimal128Type>(array, |v| {
                let whole = i128::from(time_number(v)) * 1_000_000;
                Ok(Some(whole + i128::from(v % 1_000_000)))
            })?;
            let units = units.as_primitive::<Decimal128Type>().clone();
            Ok(Arc::new(units.with_precision_and_scale(13, 6)?))
        }
        // Of today, in MySQL.
        _ => Err(unsupported(array.data_type(), "DATE or DATETIME")),
    }
}

/// Numbers as doubles; decimals to the nearest one.
pub fn numbers_to_double(array: &ArrayRef) -> DfResult<ArrayRef> {
    if wide::is_wide(array.data_type()) {
        return Ok(wide::to_double(array));
    }
    let DataType::Decimal128(_, scale) = array.data_type() else {
        return Ok(cast(array, &DataType::Float64)?);
    };
    let scale = *scale as u8;
    let units = array.as_primitive::<Decimal128Type>();
    let doubles: Float64Array = units
        .iter()
        .map(|v| v.map(|v| decimal::to_f64(v, scale)))
        .collect();
    Ok(Arc::new(doubles))
}

fn to_char(array: &ArrayRef, chars: Option<u16>, fsp: u8) -> DfResult<ArrayRef> {
    let texts = text::to_text(array, fsp)?;
    let Some(chars) = chars else {
        return Ok(Arc::new(texts));
    };
    let cut = |text: &str| text.chars().take(usize::from(chars)).collect::<String>();
    let texts: datafusion::arrow::array::StringViewArray =
        texts.iter().map(|t| t.map(cut)).collect();
    Ok(Arc::new(texts))
}

fn unsupported(from: &DataType, to: &str) -> datafusion::error::DataFusionError {
    SqlError::not_supported(format!("CAST of {} AS {to}", mysql_name(from))).into_df()
}

/// Rounds; what is out of range becomes the type's least or greatest value, as in MySQL.
fn to_integer(array: &ArrayRef, target: Target) -> DfResult<ArrayRef> {
    let from = array.data_type();
    let (least, greatest) = match target {
        Target::Unsigned => (0, i128::from(u64::MAX)),
        _ => (i128::from(i64::MIN), i128::from(i64::MAX)),
    };
    let finish = |units: ArrayRef| match target {
        // A negative number AS UNSIGNED is its two's complement.
        Target::Unsigned => kernels::unary::<Decimal128Type, UInt64Type>(&units, |v| {
            Ok(Some(if v < 0 {
                v.max(i128::from(i64::MIN)) as i64 as u64
            } else {
                v.min(greatest) as u64
            }))
        }),
        _ => kernels::unary::<Decimal128Type, Int64Type>(&units, |v| {
            Ok(Some(v.clamp(least, greatest) as i64))
        }),
    };
    // An integer that is too long AS SIGNED is the one with its 64 bits, of a text too.
    let wrapped = |v: i128| match target {
        Target::Signed if v > greatest => i128::from(v.min(u64::MAX.into()) as u64 as i64),
        _ => v,
    };
    match from {
        DataType::Decimal128(_, scale) => {
            let scale = *scale as u8;
            let rounded = kernels::unary::<Decimal128Type, Decimal128Type>(array, |v| {
                Ok(decimal::rescale(v, scale, 0))
            })?;
            finish(rounded)
        }
        DataType::Decimal256(..) => finish(wide::to_integers(array)),
        DataType::Float32 | DataType::Float64 => {
            let doubles = cast(array, &DataType::Float64)?;
            finish(kernels::unary::<Float64Type, Decimal128Type>(
                &doubles,
                |v| Ok(Some(v.round_ties_even() as i128)),
            )?)
        }
        ty if is_string(ty) => {
            let texts = text::as_view(array)?;
            let units: datafusion::arrow::array::Decimal128Array = texts
                .iter()
                .map(|t| t.map(|t| wrapped(leading_integer(t))))
                .collect();
            finish(Arc::new(units))
        }
        DataType::UInt64 if target == Target::Signed => {
            kernels::unary::<UInt64Type, Int64Type>(array, |v| Ok(Some(v as i64)))
        }
        ty if ty.is_integer() => finish(cast(array, &DataType::Decimal128(20, 0))?),
        ty => Err(unsupported(ty, "SIGNED")),
    }
}

fn to_decimal(array: &ArrayRef, precision: u8, scale: u8) -> DfResult<ArrayRef> {
    let from = array.data_type().clone();
    if is_string(&from) {
        return strings_to_decimal(array, precision, scale);
    }
    if precision > MAX_PRECISION || wide::is_wide(&from) {
        return match number_of(&from) {
            Some(_) => wide::to_decimal(array, (precision, scale)),
            None => Err(unsupported(&from, "DECIMAL")),
        };
    }
    let limit = decimal::pow10(precision) - 1;
    let clamp = |v: Option<i128>, negative: bool| {
        let fallback = if negative { -limit } else { limit };
        Ok(Some(v.unwrap_or(fallback).clamp(-limit, limit)))
    };
    let units = match &from {
        DataType::Decimal128(_, s) => {
            let s = *s as u8;
            kernels::unary::<Decimal128Type, Decimal128Type>(array, |v| {
                clamp(decimal::rescale(v, s, scale), v < 0)
            })?
        }
        DataType::Float32 | DataType::Float64 => {
            let doubles = cast(array, &DataType::Float64)?;
            kernels::unary::<Float64Type, Decimal128Type>(&doubles, |v| {
                clamp(decimal::from_f64(v, scale), v < 0.0)
            })?
        }
        ty if ty.is_integer() => {
            let units = cast(array, &DataType::Decimal128(20, 0))?;
            kernels::unary::<Decimal128Type, Decimal128Type>(&units, |v| {
                clamp(decimal::rescale(v, 0, scale), v < 0)
            })?
        }
        ty => return Err(unsupported(ty, "DECIMAL")),
    };
    let units = units.as_primitive::<Decimal128Type>().clone();
    Ok(Arc::new(
        units.with_precision_and_scale(precision, scale as i8)?,
    ))
}

fn strings_to_decimal(array: &ArrayRef, precision: u8, scale: u8) -> DfResult<ArrayRef> {
    let no_number = || {
        let what = "DECIMAL of text that is no number in range";
        unsupported(array.data_type(), what)
    };
    if precision > MAX_PRECISION {
        return wide::of_texts(array, (precision, scale))?.ok_or_else(no_number);
    }
    let ty = ColumnType::Decimal { precision, scale };
    let texts = text::as_view(array)?;
    let mut out = datafusion::arrow::array::Decimal128Builder::with_capacity(texts.len());
    for item in &texts {
        out.append_option(
            match item.map(|t| parse_text_ref(ty, t.trim().as_bytes())) {
                None => None,
                Some(Ok(ValueRef::Decimal(units))) => Some(units),
                Some(_) => return Err(no_number()),
            },
        );
    }
    Ok(Arc::new(
        out.finish()
            .with_precision_and_scale(precision, scale as i8)?,
    ))
}

fn to_temporal(array: &ArrayRef, target: Target) -> DfResult<ArrayRef> {
    match (array.data_type(), target) {
        (DataType::Date32, Target::Date) => Ok(Arc::clone(array)),
        (DataType::Date32, _) => {
            kernels::unary::<Date32Type, TimestampMicrosecondType>(array, |v| {
                Ok(Some(date::day_to_micros(v)))
            })
        }
        (DataType::Timestamp(..), Target::Date) => {
            let array = cast(array, &datetime())?;
            kernels::unary::<TimestampMicrosecondType, Date32Type>(&array, |v| {
                Ok(Some(date::split_micros(v).0))
            })
        }
        (DataType::Timestamp(..), Target::DateTime(fsp)) => {
            let array = cast(array, &datetime())?;
            kernels::unary::<TimestampMicrosecondType, TimestampMicrosecondType>(&array, |v| {
                Ok(Some(date::round_micros(v, fsp)))
            })
        }
        (ty, Target::Date) if is_string(ty) => {
            let texts = text::as_view(array)?;
            let days: datafusion::arrow::array::Date32Array =
                texts.iter().map(|t| t.and_then(parse_date)).collect();
            Ok(Arc::new(days))
        }
        (ty, Target::DateTime(fsp)) if is_string(ty) => {
            let texts = text::as_view(array)?;
            let micros: datafusion::arrow::array::TimestampMicrosecondArray = texts
                .iter()
                .map(|t| t.and_then(|t| parse_datetime(t, fsp)))
                .collect();
            Ok(Arc::new(micros))
        }
        (ty, _) => Err(unsupported(ty, "DATE")),
    }
}

/// Days of a text that is a date (with or without a time of day); 0000-00-00 is none.
#[must_use]
pub fn parse_date(text: &str) -> Option<i32> {
    match parse_text_ref(ColumnType::Date, text.as_bytes()) {
        Ok(ValueRef::Date(days)) => Some(days).filter(|days| *days != date::ZERO_DAY),
        _ => None,
    }
}

/// Microseconds of a text that is a date or a point in time; 0000-00-00 is none.
#[must_use]
pub fn parse_datetime(text: &str, fsp: u8) -> Option<i64> {
    match parse_text_ref(ColumnType::DateTime { fsp }, text.as_bytes()) {
        Ok(ValueRef::DateTime(micros)) => Some(micros).filter(|v| *v != date::ZERO_MICROS),
        _ => None,
    }
}
