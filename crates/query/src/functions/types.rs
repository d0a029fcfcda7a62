//! MySQL's numeric types of expressions, over Arrow types.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
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

/// What an operand counts as in arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Signed integer of so many digits.
    Int(u8),
    /// Unsigned integer of so many digits.
    UInt(u8),
    /// Exact decimal.
    Decimal(u8, u8),
    /// DOUBLE; strings count as such.
    Double,
    /// The literal NULL.
    Null,
}

impl Number {
    /// What a value of an Arrow type counts as; `None` for dates, which MySQL would turn into
    /// numbers such as 19940131.
    #[must_use]
    pub fn of(ty: &DataType) -> Option<Self> {
        Some(match ty {
            DataType::Boolean => Self::Int(1),
            DataType::Int8 => Self::Int(3),
            DataType::Int16 => Self::Int(5),
            DataType::Int32 => Self::Int(10),
            DataType::Int64 => Self::Int(19),
            DataType::UInt8 => Self::UInt(3),
            DataType::UInt16 => Self::UInt(5),
            DataType::UInt32 => Self::UInt(10),
            DataType::UInt64 => Self::UInt(20),
            DataType::Decimal128(p, s) => Self::Decimal(*p, u8::try_from(*s).ok()?),
            // Arrow's sums have digits that no number uses.
            DataType::Decimal256(p, s) => {
                Self::Decimal((*p).min(MAX_WIDE_PRECISION), u8::try_from(*s).ok()?)
            }
            DataType::Float32 | DataType::Float64 => Self::Double,
            DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => Self::Double,
            DataType::Null => Self::Null,
            _ => return None,
        })
    }

    /// As [`Number::of`]; an integer literal has the digits of its value.
    #[must_use]
    pub fn of_operand(ty: &DataType, literal: Option<&ScalarValue>) -> Option<Self> {
        let digits = |v: u64| v.checked_ilog10().unwrap_or(0) as u8 + 1;
        match (Self::of(ty)?, literal) {
            (Self::Int(_), Some(ScalarValue::Int64(Some(v)))) => {
                Some(Self::Int(digits(v.unsigned_abs())))
            }
            (Self::UInt(_), Some(ScalarValue::UInt64(Some(v)))) => Some(Self::UInt(digits(*v))),
            (number, _) => Some(number),
        }
    }

    /// Precision and scale as an exact number; `None` for DOUBLE.
    #[must_use]
    pub fn exact(self) -> Option<(u8, u8)> {
        match self {
            Self::Int(digits) | Self::UInt(digits) => Some((digits, 0)),
            Self::Decimal(p, s) => Some((p, s)),
            Self::Null => Some((1, 0)),
            Self::Double => None,
        }
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
