//! Columns of a result as Arrow columns, and the texts of their values in CSV. The mapping loses nothing:
//!
//! | MySQL | Arrow |
//! |---|---|
//! | TINYINT … BIGINT | Int8, Int16, Int32, Int64; UNSIGNED UInt8 … UInt64 |
//! | DECIMAL(p, s) | Decimal128, of more than 38 digits Decimal256 |
//! | FLOAT, DOUBLE | Float32, Float64 |
//! | DATE | Date32; 0000-00-00 is the day before the year 0 |
//! | DATETIME, TIMESTAMP | Timestamp in microseconds, without a zone and in UTC; the zero date likewise |
//! | TIME | Duration in microseconds: a TIME may be negative or longer than a day |
//! | YEAR, BIT | UInt16, UInt64 |
//! | CHAR … LONGTEXT, ENUM, SET, JSON | Utf8 |
//! | BINARY … LONGBLOB | Binary |

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::*;
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, TimeUnit};
use mysql_async::consts::{ColumnFlags, ColumnType};
use mysql_async::{Column, Value};
use perigee_value::date::{Civil, DAY_MICROS, ZERO_DAY, ZERO_MICROS, format_day, format_micros};
use perigee_value::time::format_time;
use perigee_value::{bits, format_double};

/// Number of the character set of bytes.
const BINARY: u16 = 63;

/// A column of a result.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub name: String,
    pub ty: DataType,
    /// Digits of fractional seconds.
    digits: u8,
    is_year: bool,
    /// Bits of a BIT column.
    bits: Option<u8>,
}

impl Plan {
    /// What a column of a result is in a file.
    ///
    /// # Errors
    /// A text that names the type that there is none for.
    pub(crate) fn of(column: &Column) -> Result<Self, String> {
        let unsigned = column.flags().contains(ColumnFlags::UNSIGNED_FLAG);
        let int = |signed, without_sign| if unsigned { without_sign } else { signed };
        let name = column.name_str().into_owned();
        let ty = match column.column_type() {
            ColumnType::MYSQL_TYPE_TINY => int(DataType::Int8, DataType::UInt8),
            ColumnType::MYSQL_TYPE_SHORT => int(DataType::Int16, DataType::UInt16),
            ColumnType::MYSQL_TYPE_LONG | ColumnType::MYSQL_TYPE_INT24 => {
                int(DataType::Int32, DataType::UInt32)
            }
            ColumnType::MYSQL_TYPE_LONGLONG => int(DataType::Int64, DataType::UInt64),
            ColumnType::MYSQL_TYPE_FLOAT => DataType::Float32,
            ColumnType::MYSQL_TYPE_DOUBLE => DataType::Float64,
            ColumnType::MYSQL_TYPE_DECIMAL | ColumnType::MYSQL_TYPE_NEWDECIMAL => {
                let scale = column.decimals();
                // The length is that of the text, with a sign and a point.
                let signs = u32::from(!unsigned) + u32::from(scale > 0);
                let precision = column.column_length().saturating_sub(signs).clamp(1, 76) as u8;
                match precision {
                    ..=38 => DataType::Decimal128(precision, scale as i8),
                    _ => DataType::Decimal256(precision, scale as i8),
                }
            }
            ColumnType::MYSQL_TYPE_DATE | ColumnType::MYSQL_TYPE_NEWDATE => DataType::Date32,
            ColumnType::MYSQL_TYPE_DATETIME | ColumnType::MYSQL_TYPE_DATETIME2 => {
                DataType::Timestamp(TimeUnit::Microsecond, None)
            }
            ColumnType::MYSQL_TYPE_TIMESTAMP | ColumnType::MYSQL_TYPE_TIMESTAMP2 => {
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
            }
            ColumnType::MYSQL_TYPE_TIME | ColumnType::MYSQL_TYPE_TIME2 => {
                DataType::Duration(TimeUnit::Microsecond)
            }
            ColumnType::MYSQL_TYPE_YEAR => DataType::UInt16,
            ColumnType::MYSQL_TYPE_BIT => DataType::UInt64,
            ColumnType::MYSQL_TYPE_JSON | ColumnType::MYSQL_TYPE_NULL => DataType::Utf8,
            ColumnType::MYSQL_TYPE_VARCHAR
            | ColumnType::MYSQL_TYPE_VAR_STRING
            | ColumnType::MYSQL_TYPE_STRING
            | ColumnType::MYSQL_TYPE_ENUM
            | ColumnType::MYSQL_TYPE_SET
            | ColumnType::MYSQL_TYPE_TINY_BLOB
            | ColumnType::MYSQL_TYPE_MEDIUM_BLOB
            | ColumnType::MYSQL_TYPE_LONG_BLOB
            | ColumnType::MYSQL_TYPE_BLOB => match column.character_set() {
                BINARY => DataType::Binary,
                _ => DataType::Utf8,
            },
            other => {
                return Err(format!(
                    "column {name} has the type {other:?}, which no file has"
                ));
            }
        };
        let is_bit = column.column_type() == ColumnType::MYSQL_TYPE_BIT;
        Ok(Self {
            name,
            ty,
            digits: column.decimals().min(6),
            is_year: column.column_type() == ColumnType::MYSQL_TYPE_YEAR,
            bits: is_bit.then(|| column.column_length().min(64) as u8),
        })
    }

    /// The column of a Parquet file.
    pub(crate) fn field(&self) -> Field {
        Field::new(&self.name, self.ty.clone(), true)
    }

    /// Appends the text of a value to `out`; false for NULL.
    ///
    /// # Errors
    /// If the server sent a value of another type than it announced.
    pub(crate) fn text(&self, value: &Value, out: &mut Vec<u8>) -> Result<bool, String> {
        let mut digits = String::new();
        match (value, &self.ty) {
            (Value::NULL, _) => return Ok(false),
            (Value::Bytes(bytes), _) => out.extend_from_slice(bytes),
            (Value::Int(number), _) if self.is_year => digits = format!("{number:04}"),
            (Value::UInt(number), _) if self.is_year => digits = format!("{number:04}"),
            (Value::Int(number), _) => digits = number.to_string(),
            (Value::UInt(number), _) => digits = number.to_string(),
            (Value::Float(number), _) => format_double((*number).into(), &mut digits),
            (Value::Double(number), _) => format_double(*number, &mut digits),
            (Value::Date(..), DataType::Date32) => format_day(day(value)?, &mut digits),
            (Value::Date(..), _) => format_micros(moment(value)?, self.digits, &mut digits),
            (Value::Time(..), _) => format_time(time(value)?, self.digits, &mut digits),
        }
        out.extend_from_slice(digits.as_bytes());
        Ok(true)
    }

    /// Something that gathers its values.
    pub(crate) fn builder(&self) -> Builder {
        match &self.ty {
            DataType::Int8 => Builder::Int8(Int8Builder::new()),
            DataType::Int16 => Builder::Int16(Int16Builder::new()),
            DataType::Int32 => Builder::Int32(Int32Builder::new()),
            DataType::Int64 => Builder::Int64(Int64Builder::new()),
            DataType::UInt8 => Builder::UInt8(UInt8Builder::new()),
            DataType::UInt16 => Builder::UInt16(UInt16Builder::new()),
            DataType::UInt32 => Builder::UInt32(UInt32Builder::new()),
            DataType::UInt64 => Builder::UInt64(UInt64Builder::new()),
            DataType::Float32 => Builder::Float32(Float32Builder::new()),
            DataType::Float64 => Builder::Float64(Float64Builder::new()),
            DataType::Decimal128(_, scale) => Builder::Decimal128(
                Decimal128Builder::new().with_data_type(self.ty.clone()),
                *scale,
            ),
            DataType::Decimal256(_, scale) => Builder::Decimal256(
                Decimal256Builder::new().with_data_type(self.ty.clone()),
                *scale,
            ),
            DataType::Date32 => Builder::Date(Date32Builder::new()),
            DataType::Timestamp(..) => {
                Builder::Moment(TimestampMicrosecondBuilder::new().with_data_type(self.ty.clone()))
            }
            DataType::Duration(_) => Builder::Time(DurationMicrosecondBuilder::new()),
            DataType::Binary => Builder::Bytes(BinaryBuilder::new()),
            _ => Builder::Text(StringBuilder::new()),
        }
    }

    /// The number that a value of a BIT column is.
    fn bit(&self, value: &Value) -> Option<u64> {
        match (value, self.bits) {
            (Value::Bytes(bytes), Some(_)) => bits::number_of(bytes),
            _ => None,
        }
    }
}

/// Values of a column that become an array.
pub(crate) enum Builder {
    Int8(Int8Builder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    UInt8(UInt8Builder),
    UInt16(UInt16Builder),
    UInt32(UInt32Builder),
    UInt64(UInt64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Decimal128(Decimal128Builder, i8),
    Decimal256(Decimal256Builder, i8),
    Date(Date32Builder),
    Moment(TimestampMicrosecondBuilder),
    Time(DurationMicrosecondBuilder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
}

impl Builder {
    /// Appends a value; returns about how many bytes it takes.
    ///
    /// # Errors
    /// If it is no value of the column.
    pub(crate) fn append(&mut self, plan: &Plan, value: &Value) -> Result<usize, String> {
        let is_null = *value == Value::NULL;
        macro_rules! append {
            ($builder:expr, $value:expr) => {
                match is_null {
                    true => $builder.append_null(),
                    false => $builder.append_value($value),
                }
            };
        }
        match self {
            Self::Int8(builder) => append!(builder, integer(value)?),
            Self::Int16(builder) => append!(builder, integer(value)?),
            Self::Int32(builder) => append!(builder, integer(value)?),
            Self::Int64(builder) => append!(builder, integer(value)?),
            Self::UInt8(builder) => append!(builder, integer(value)?),
            Self::UInt16(builder) => append!(builder, integer(value)?),
            Self::UInt32(builder) => append!(builder, integer(value)?),
            Self::UInt64(builder) => append!(
                builder,
                match plan.bit(value) {
                    Some(number) => number,
                    None => integer(value)?,
                }
            ),
            Self::Float32(builder) => append!(builder, double(value)? as f32),
            Self::Float64(builder) => append!(builder, double(value)?),
            Self::Decimal128(builder, scale) => {
                let units = |units: i256| units.to_i128().ok_or_else(|| unexpected(value));
                append!(builder, units(decimal(value, *scale)?)?);
            }
            Self::Decimal256(builder, scale) => append!(builder, decimal(value, *scale)?),
            Self::Date(builder) => append!(builder, day(value)?),
            Self::Moment(builder) => append!(builder, moment(value)?),
            Self::Time(builder) => append!(builder, time(value)?),
            Self::Text(builder) => append!(
                builder,
                std::str::from_utf8(bytes(value)?)
                    .map_err(|_| format!("a text of column {} is not UTF-8", plan.name))?
            ),
            Self::Bytes(builder) => append!(builder, bytes(value)?),
        }
        Ok(match value {
            Value::Bytes(bytes) => 16 + bytes.len(),
            _ => 16,
        })
    }

    /// The array of all values; then it gathers anew.
    pub(crate) fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Int8(builder) => Arc::new(builder.finish()),
            Self::Int16(builder) => Arc::new(builder.finish()),
            Self::Int32(builder) => Arc::new(builder.finish()),
            Self::Int64(builder) => Arc::new(builder.finish()),
            Self::UInt8(builder) => Arc::new(builder.finish()),
            Self::UInt16(builder) => Arc::new(builder.finish()),
            Self::UInt32(builder) => Arc::new(builder.finish()),
            Self::UInt64(builder) => Arc::new(builder.finish()),
            Self::Float32(builder) => Arc::new(builder.finish()),
            Self::Float64(builder) => Arc::new(builder.finish()),
            Self::Decimal128(builder, _) => Arc::new(builder.finish()),
            Self::Decimal256(builder, _) => Arc::new(builder.finish()),
            Self::Date(builder) => Arc::new(builder.finish()),
            Self::Moment(builder) => Arc::new(builder.finish()),
            Self::Time(builder) => Arc::new(builder.finish()),
            Self::Text(builder) => Arc::new(builder.finish()),
            Self::Bytes(builder) => Arc::new(builder.finish()),
        }
    }
}

fn unexpected(value: &Value) -> String {
    format!(
        "the server sent {}, which its column does not have",
        value.as_sql(true)
    )
}

fn integer<T: TryFrom<i128>>(value: &Value) -> Result<T, String> {
    let number = match value {
        Value::NULL => 0,
        Value::Int(number) => i128::from(*number),
        Value::UInt(number) => i128::from(*number),
        other => return Err(unexpected(other)),
    };
    T::try_from(number).map_err(|_| unexpected(value))
}

fn double(value: &Value) -> Result<f64, String> {
    match value {
        Value::NULL => Ok(0.0),
        Value::Float(number) => Ok(f64::from(*number)),
        Value::Double(number) => Ok(*number),
        other => Err(unexpected(other)),
    }
}

fn bytes(value: &Value) -> Result<&[u8], String> {
    match value {
        Value::NULL => Ok(&[]),
        Value::Bytes(bytes) => Ok(bytes),
        other => Err(unexpected(other)),
    }
}

/// A decimal as a number of units of its scale.
fn decimal(value: &Value, scale: i8) -> Result<i256, String> {
    if *value == Value::NULL {
        return Ok(i256::ZERO);
    }
    let text = std::str::from_utf8(bytes(value)?).map_err(|_| unexpected(value))?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let missing = usize::try_from(scale)
        .ok()
        .and_then(|scale| scale.checked_sub(fraction.len()));
    let missing = missing.ok_or_else(|| unexpected(value))?;
    let digits = format!("{whole}{fraction}{}", "0".repeat(missing));
    i256::from_string(&digits).ok_or_else(|| unexpected(value))
}

fn day(value: &Value) -> Result<i32, String> {
    match value {
        Value::NULL | Value::Date(0, 0, 0, ..) => Ok(ZERO_DAY),
        Value::Date(year, month, day, ..) => {
            let civil = Civil {
                year: i32::from(*year),
                month: *month,
                day: *day,
            };
            civil.to_days().ok_or_else(|| unexpected(value))
        }
        other => Err(unexpected(other)),
    }
}

fn moment(value: &Value) -> Result<i64, String> {
    match value {
        Value::NULL | Value::Date(0, 0, 0, ..) => Ok(ZERO_MICROS),
        Value::Date(_, _, _, hour, minute, second, micros) => {
            let seconds = (i64::from(*hour) * 60 + i64::from(*minute)) * 60 + i64::from(*second);
            Ok(i64::from(day(value)?) * DAY_MICROS + seconds * 1_000_000 + i64::from(*micros))
        }
        other => Err(unexpected(other)),
    }
}

fn time(value: &Value) -> Result<i64, String> {
    match value {
        Value::NULL => Ok(0),
        Value::Time(negative, days, hours, minutes, seconds, micros) => {
            let hours = i64::from(*days) * 24 + i64::from(*hours);
            let seconds = (hours * 60 + i64::from(*minutes)) * 60 + i64::from(*seconds);
            let all = seconds * 1_000_000 + i64::from(*micros);
            Ok(if *negative { -all } else { all })
        }
        other => Err(unexpected(other)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]
    use super::*;

    #[test]
    fn values_are_numbers_of_units() {
        let decimal = |text: &str, scale| decimal(&Value::Bytes(text.as_bytes().to_vec()), scale);
        assert_eq!(decimal("-1.50", 2), Ok(i256::from_i128(-150)));
        assert_eq!(decimal("-0.05", 2), Ok(i256::from_i128(-5)));
        assert_eq!(decimal("7", 3), Ok(i256::from_i128(7000)));
        assert!(decimal("1.234", 2).is_err());
        assert_eq!(day(&Value::Date(1970, 1, 2, 0, 0, 0, 0)), Ok(1));
        assert_eq!(day(&Value::Date(0, 0, 0, 0, 0, 0, 0)), Ok(ZERO_DAY));
        assert_eq!(moment(&Value::Date(1970, 1, 1, 0, 0, 1, 5)), Ok(1_000_005));
        assert_eq!(time(&Value::Time(true, 1, 1, 0, 0, 1)), Ok(-90_000_000_001));
        assert_eq!(integer::<u8>(&Value::Int(255)), Ok(255));
        assert!(integer::<i8>(&Value::Int(128)).is_err());
    }
}
