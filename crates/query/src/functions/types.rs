//! MySQL's numeric types of expressions, over Arrow types.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
pub use perigee_sql_type::Number;
use perigee_value::{ColumnType, decimal};

/// Greatest precision of what is computed from decimals of no more digits. Only wide operands have
/// wide results, so that nothing becomes slower that storage can do.
pub const MAX_PRECISION: u8 = decimal::MAX_PRECISION;

/// Greatest precision of what is computed from wide decimals.
pub const MAX_WIDE_PRECISION: u8 = ColumnType::MAX_PRECISION;

/// Greatest scale of a decimal, as in MySQL.
pub const MAX_SCALE: u8 = 30;

/// The Arrow type of decimals of so many digits.
#[must_use]
pub fn decimal_type(precision: u8, scale: u8) -> DataType {
    if precision > MAX_PRECISION {
        DataType::Decimal256(precision, scale as i8)
    } else {
        DataType::Decimal128(precision, scale as i8)
    }
}

/// Greatest precision of what is computed from numbers of which one has so many digits.
#[must_use]
pub fn most_digits(precision: u8) -> u8 {
    if precision > MAX_PRECISION {
        MAX_WIDE_PRECISION
    } else {
        MAX_PRECISION
    }
}

/// What a value of an Arrow type counts as; `None` for dates, which MySQL would turn into
/// numbers such as 19940131.
#[must_use]
pub fn number_of(ty: &DataType) -> Option<Number> {
    Some(match ty {
        DataType::Boolean => Number::Int(1),
        DataType::Int8 => Number::Int(3),
        DataType::Int16 => Number::Int(5),
        DataType::Int32 => Number::Int(10),
        DataType::Int64 => Number::Int(19),
        DataType::UInt8 => Number::UInt(3),
        DataType::UInt16 => Number::UInt(5),
        DataType::UInt32 => Number::UInt(10),
        DataType::UInt64 => Number::UInt(20),
        DataType::Decimal128(p, s) => Number::Decimal(*p, u8::try_from(*s).ok()?),
        // Arrow's sums have digits that no number uses.
        DataType::Decimal256(p, s) => {
            Number::Decimal((*p).min(MAX_WIDE_PRECISION), u8::try_from(*s).ok()?)
        }
        DataType::Float32 | DataType::Float64 => Number::Double,
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => Number::Double,
        DataType::Null => Number::Null,
        _ => return None,
    })
}

/// As [`number_of`]; an integer literal has the digits of its value.
#[must_use]
pub fn number_of_operand(ty: &DataType, literal: Option<&ScalarValue>) -> Option<Number> {
    let digits = |v: u64| v.checked_ilog10().unwrap_or(0) as u8 + 1;
    match (number_of(ty)?, literal) {
        (Number::Int(_), Some(ScalarValue::Int64(Some(v)))) => {
            Some(Number::Int(digits(v.unsigned_abs())))
        }
        (Number::UInt(_), Some(ScalarValue::UInt64(Some(v)))) => Some(Number::UInt(digits(*v))),
        (number, _) => Some(number),
    }
}

/// True for the string types.
#[must_use]
pub fn is_string(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8
    )
}

/// True for JSON, which is a text, too: functions of texts take it as it is shown.
#[must_use]
pub fn is_json(ty: &DataType) -> bool {
    matches!(ty, DataType::LargeUtf8)
}

/// Arrow type of JSON, which nothing else has.
#[must_use]
pub fn json() -> DataType {
    DataType::LargeUtf8
}

/// True for strings of bytes.
#[must_use]
pub fn is_bytes(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView
    )
}

/// True for DATE and DATETIME.
#[must_use]
pub fn is_temporal(ty: &DataType) -> bool {
    matches!(ty, DataType::Date32 | DataType::Timestamp(..))
}

/// True for TIME.
#[must_use]
pub fn is_time(ty: &DataType) -> bool {
    matches!(ty, DataType::Duration(..))
}

/// Arrow type of TIME.
#[must_use]
pub fn time() -> DataType {
    DataType::Duration(TimeUnit::Microsecond)
}

/// Arrow type of DATETIME.
#[must_use]
pub fn datetime() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

/// MySQL's name of a type, for messages.
#[must_use]
pub fn mysql_name(ty: &DataType) -> &'static str {
    match ty {
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
            "BIGINT UNSIGNED"
        }
        DataType::Decimal128(..) | DataType::Decimal256(..) => "DECIMAL",
        DataType::Float32 | DataType::Float64 => "DOUBLE",
        DataType::Date32 => "DATE",
        DataType::Timestamp(..) => "DATETIME",
        DataType::Duration(..) => "TIME",
        ty if is_json(ty) => "JSON",
        ty if is_string(ty) => "CHAR",
        ty if is_bytes(ty) => "BINARY",
        _ => "BIGINT",
    }
}
