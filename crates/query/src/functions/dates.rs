//! Dates: EXTRACT and its relatives, and `DATE ± INTERVAL`.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Field, FieldRef, Int64Type,
    TimestampMicrosecondType,
};
use datafusion::common::{Result as DfResult, ScalarValue, internal_datafusion_err};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use perigee_expr::DateField;
use perigee_value::date;
use perigee_value::time::split_time;

use super::cast::{Target, convert};
use super::types::{datetime, is_string, is_temporal, is_time, mysql_name};
use super::{kernels, text};
use crate::error::SqlError;

/// `mysql_extract('field', x)`: a BIGINT.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Extract {
    signature: Signature,
}

/// Name of [`Extract`].
pub const EXTRACT: &str = "mysql_extract";

impl Default for Extract {
    fn default() -> Self {
        Self {
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

/// The field of a name.
#[must_use]
pub fn field_named(name: &str) -> Option<DateField> {
    Some(match name.to_ascii_lowercase().as_str() {
        "year" => DateField::Year,
        "quarter" => DateField::Quarter,
        "month" => DateField::Month,
        "day" => DateField::Day,
        "hour" => DateField::Hour,
        "minute" => DateField::Minute,
        "second" => DateField::Second,
        _ => return None,
    })
}

impl ScalarUDFImpl for Extract {
    fn name(&self) -> &str {
        EXTRACT
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        if !is_time(&types[1]) {
            check_temporal(&types[1], "EXTRACT")?;
        }
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let [field, value] = kernels::two(args.args)?;
        let field = literal(&field).and_then(|name| field_named(&name));
        let field = field.ok_or_else(|| internal_datafusion_err!("{EXTRACT} of no field"))?;
        let scalar = matches!(value, ColumnarValue::Scalar(_));
        let array = value.to_array(1.max(if scalar { 1 } else { args.number_rows }))?;
        let array = match array.data_type() {
            DataType::Date32 => kernels::unary::<Date32Type, Int64Type>(&array, |days| {
                Ok(Some(extract(field, date::day_to_micros(days))))
            })?,
            DataType::Duration(..) => {
                if !field_of_time(field) {
                    return Err(SqlError::not_supported("the date of a TIME").into_df());
                }
                kernels::unary::<DurationMicrosecondType, Int64Type>(&array, |micros| {
                    Ok(Some(extract_of_time(field, micros)))
                })?
            }
            // The time of day of a text is that of a time, perhaps behind a date.
            ty if is_string(ty) && field_of_time(field) => {
                let array = convert(&array, Target::Time(6), 6)?;
                kernels::unary::<DurationMicrosecondType, Int64Type>(&array, |micros| {
                    Ok(Some(extract_of_time(field, micros)))
                })?
            }
            _ => {
                let array = convert(&array, Target::DateTime(6), 6)?;
                kernels::unary::<TimestampMicrosecondType, Int64Type>(&array, |micros| {
                    Ok(Some(extract(field, micros)))
                })?
            }
        };
        kernels::shape(array, scalar)
    }

    /// `YEAR(d) = 1994` is a range of `d`, which indexes and storage know to use.
    fn preimage(
        &self,
        args: &[Expr],
        value: &Expr,
        context: &SimplifyContext,
    ) -> DfResult<PreimageResult> {
        let [Expr::Literal(field, _), expr] = args else {
            return Ok(PreimageResult::None);
        };
        let field = field.try_as_str().flatten().and_then(field_named);
        let (Some(DateField::Year), Expr::Literal(ScalarValue::Int64(Some(year)), _)) =
            (field, value)
        else {
            return Ok(PreimageResult::None);
        };
        let ty = context.get_data_type(expr)?;
        let (Some(from), Some(to)) = (
            start_of_year(*year, &ty),
            start_of_year(year.saturating_add(1), &ty),
        ) else {
            return Ok(PreimageResult::None);
        };
        Ok(PreimageResult::Range {
            expr: expr.clone(),
            interval: Box::new(Interval::try_new(from, to)?),
        })
    }
}

/// The first value of a type that lies in a year, if both are of those that dates have.
fn start_of_year(year: i64, ty: &DataType) -> Option<ScalarValue> {
    let first = date::Civil {
        year: i32::try_from(year).ok()?,
        month: 1,
        day: 1,
    };
    let days = first.to_days()?;
    if *ty == DataType::Date32 {
        return Some(ScalarValue::Date32(Some(days)));
    }
    let micros = date::day_to_micros(days);
    (*ty == datetime()).then_some(ScalarValue::TimestampMicrosecond(Some(micros), None))
}

fn extract(field: DateField, micros: i64) -> i64 {
    let (days, time) = date::split_micros(micros);
    let civil = date::Civil::from_days(days);
    match field {
        DateField::Year => i64::from(civil.year),
        DateField::Quarter => i64::from(civil.month.div_ceil(3)),
        DateField::Month => i64::from(civil.month),
        DateField::Day => i64::from(civil.day),
        DateField::Hour => i64::from(time.hour),
        DateField::Minute => i64::from(time.minute),
        DateField::Second => i64::from(time.second),
    }
}

/// True for fields that a time has.
fn field_of_time(field: DateField) -> bool {
    matches!(
        field,
        DateField::Hour | DateField::Minute | DateField::Second
    )
}

/// A field of a time, whatever its sign.
fn extract_of_time(field: DateField, micros: i64) -> i64 {
    let fields = split_time(micros);
    match field {
        DateField::Hour => i64::from(fields.hours),
        DateField::Minute => i64::from(fields.minute),
        _ => i64::from(fields.second),
    }
}

fn literal(value: &ColumnarValue) -> Option<String> {
    match value {
        ColumnarValue::Scalar(scalar) => scalar.try_as_str().flatten().map(str::to_owned),
        ColumnarValue::Array(_) => None,
    }
}

fn check_temporal(ty: &DataType, what: &str) -> DfResult<()> {
    if is_temporal(ty) || is_string(ty) || *ty == DataType::Null {
        return Ok(());
    }
    Err(SqlError::not_supported(format!("{what} of {}", mysql_name(ty))).into_df())
}

/// `mysql_date_add(x, count, 'unit')`: a DATE if `x` is one and the unit is a day or longer, else a
/// DATETIME. Outside of the years 1 to 9999 it is NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct DateAdd {
    signature: Signature,
}

/// Name of [`DateAdd`].
pub const DATE_ADD: &str = "mysql_date_add";

impl Default for DateAdd {
    fn default() -> Self {
        Self {
            signature: Signature::any(3, Volatility::Immutable),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Days(i64),
    Months(i64),
    Micros(i64),
}

/// Microseconds of a second.
const SECOND: i64 = 1_000_000;

fn unit_named(name: &str) -> Option<Unit> {
    Some(match name {
        "day" => Unit::Days(1),
        "week" => Unit::Days(7),
        "month" => Unit::Months(1),
        "quarter" => Unit::Months(3),
        "year" => Unit::Months(12),
        "hour" => Unit::Micros(3_600_000_000),
        "minute" => Unit::Micros(60_000_000),
        "second" => Unit::Micros(SECOND),
        "microsecond" => Unit::Micros(1),
        _ => return None,
    })
}

impl ScalarUDFImpl for DateAdd {
    fn name(&self) -> &str {
        DATE_ADD
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Err(internal_datafusion_err!("{DATE_ADD} has a return field"))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let from = &args.arg_fields[0];
        check_temporal(from.data_type(), "INTERVAL arithmetic")?;
        let unit = args.scalar_arguments[2]
            .and_then(|l| l.try_as_str())
            .flatten();
        let unit = unit.and_then(unit_named);
        let long = !matches!(unit, Some(Unit::Micros(_)) | None);
        let by_day = long
            && match from.data_type() {
                DataType::Date32 => true,
                // The result of a text has the form of the text.
                ty if is_string(ty) => {
                    let text = args.scalar_arguments[0]
                        .and_then(|l| l.try_as_str())
                        .flatten();
                    let Some(text) = text else {
                        let what = "INTERVAL arithmetic with a string expression";
                        return Err(SqlError::not_supported(what).into_df());
                    };
                    !text.trim().contains([' ', 'T', ':'])
                }
                _ => false,
            };
        let ty = if by_day { DataType::Date32 } else { datetime() };
        let mut field = Field::new(DATE_ADD, ty, true);
        if !by_day {
            let fsp = match unit {
                Some(Unit::Micros(1)) => 6,
                Some(unit) => {
                    super::cast::fsp_of(from).max(fraction(unit, args.arg_fields[1].data_type()))
                }
                None => super::cast::fsp_of(from),
            };
            field = field.with_metadata([(text::FSP_KEY.to_owned(), fsp.to_string())].into());
        }
        Ok(Arc::new(field))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = args
            .args
            .iter()
            .all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let unit = literal(&args.args[2]).and_then(|name| unit_named(&name));
        let unit = unit.ok_or_else(|| internal_datafusion_err!("{DATE_ADD} of no unit"))?;
        let value = args.args[0].to_array(rows)?;
        let count = args.args[1].to_array(rows)?;
        let (count, unit) = match fraction(unit, count.data_type()) {
            0 => (convert(&count, Target::Signed, 0)?, unit),
            _ => (micros_of(&count)?, Unit::Micros(1)),
        };
        let array: ArrayRef = if *args.return_field.data_type() == DataType::Date32 {
            let days = kernels::Operand::Array(
                convert(&value, Target::Date, 0)?
                    .as_primitive::<Date32Type>()
                    .clone(),
            );
            let count = kernels::Operand::Array(count.as_primitive::<Int64Type>().clone());
            Arc::new(kernels::binary::<_, Int64Type, Date32Type>(
                &days,
                &count,
                rows,
                |d, n| Ok(add_to_day(d, n, unit)),
            )?)
        } else {
            let micros = convert(&cast_nanos(value)?, Target::DateTime(6), 6)?;
            let micros =
                kernels::Operand::Array(micros.as_primitive::<TimestampMicrosecondType>().clone());
            let count = kernels::Operand::Array(count.as_primitive::<Int64Type>().clone());
            type Micros = TimestampMicrosecondType;
            Arc::new(kernels::binary::<_, Int64Type, Micros>(
                &micros,
                &count,
                rows,
                |m, n| Ok(add_to_micros(m, n, unit)),
            )?)
        };
        kernels::shape(array, scalar)
    }
}

/// Digits of fractional seconds that an interval of so many units adds: only seconds have some.
fn fraction(unit: Unit, count: &DataType) -> u8 {
    match count {
        _ if unit != Unit::Micros(SECOND) => 0,
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => {
            u8::try_from(*scale).unwrap_or(0).min(6)
        }
        DataType::Float32 | DataType::Float64 => 6,
        ty if is_string(ty) => 6,
        _ => 0,
    }
}

/// Numbers of seconds as numbers of microseconds.
pub(super) fn micros_of(seconds: &ArrayRef) -> DfResult<ArrayRef> {
    let seconds = match is_string(seconds.data_type()) {
        true => convert(seconds, Target::Double, 0)?,
        false => Arc::clone(seconds),
    };
    // Microseconds of 10,000 years have 18 digits.
    let units = convert(&seconds, Target::Decimal(25, 6), 0)?;
    kernels::unary::<Decimal128Type, Int64Type>(&units, |micros| {
        Ok(Some(micros.clamp(i64::MIN.into(), i64::MAX.into()) as i64))
    })
}

fn cast_nanos(array: ArrayRef) -> DfResult<ArrayRef> {
    match array.data_type() {
        DataType::Timestamp(..) => Ok(cast(&array, &datetime())?),
        _ => Ok(array),
    }
}

fn add_to_day(days: i32, count: i64, unit: Unit) -> Option<i32> {
    match unit {
        Unit::Days(n) => date::add_days(days, count.checked_mul(n)?),
        Unit::Months(n) => date::add_months(days, count.checked_mul(n)?),
        Unit::Micros(_) => None,
    }
}

fn add_to_micros(micros: i64, count: i64, unit: Unit) -> Option<i64> {
    let sum = match unit {
        Unit::Micros(_) if micros == date::ZERO_MICROS => return None,
        Unit::Micros(n) => micros.checked_add(count.checked_mul(n)?)?,
        _ => {
            let (days, _) = date::split_micros(micros);
            let time = micros - date::day_to_micros(days);
            date::day_to_micros(add_to_day(days, count, unit)?) + time
        }
    };
    date::is_valid_micros(sum).then_some(sum)
}
