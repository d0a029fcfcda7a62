//! Arrow arrays as the values of a result column: looked at once for each batch, so that a row is
//! encoded without asking for types again. Both row encodings, text and binary, begin here.

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
    Decimal256Type, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, BinaryArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, LargeBinaryArray,
    LargeStringArray, StringArray, StringViewArray,
};
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::{DataType, TimeUnit};

use crate::column::{Column, SqlType};
use crate::errors::{NOT_SUPPORTED_YET, SqlError};

/// The values of one column in a batch.
pub(crate) struct Cells<'a> {
    /// The values; those under a null mean nothing.
    pub(crate) values: Values<'a>,
    nulls: Option<&'a NullBuffer>,
}

/// Values by the way they are written.
pub(crate) enum Values<'a> {
    /// Nothing but NULL.
    Null,
    /// Integers and truth values.
    Int(Ints<'a>),
    /// Years.
    Year(Ints<'a>),
    /// Bit strings held as numbers, `bytes` long.
    Bit {
        /// The bits.
        bits: Ints<'a>,
        /// Length of the text in bytes.
        bytes: usize,
    },
    /// FLOAT.
    F32(&'a [f32], Option<u8>),
    /// DOUBLE.
    F64(&'a [f64], Option<u8>),
    /// DECIMAL.
    Decimal(Decimals<'a>, i8),
    /// DATE.
    Date(Days<'a>),
    /// DATETIME and TIMESTAMP.
    DateTime(Micros<'a>, u8),
    /// TIME.
    Time(Micros<'a>, u8),
    /// Text and bytes.
    Bytes(Strings<'a>),
}

/// Integers of any width.
pub(crate) enum Ints<'a> {
    Bool(&'a BooleanArray),
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
}

/// Unscaled decimals of any width.
pub(crate) enum Decimals<'a> {
    D32(&'a [i32]),
    D64(&'a [i64]),
    D128(&'a [i128]),
    D256(&'a [i256]),
}

/// Days since 1970-01-01.
pub(crate) enum Days<'a> {
    Days(&'a [i32]),
    Millis(&'a [i64]),
}

/// Points or spans of time in some unit.
pub(crate) enum Micros<'a> {
    /// 32-bit values and how many microseconds one is.
    Small(&'a [i32], i64),
    /// 64-bit values and how many microseconds one is.
    Large(&'a [i64], i64),
    /// Nanoseconds; what is below a microsecond is cut off.
    Nanos(&'a [i64]),
}

/// Strings in any of Arrow's layouts.
pub(crate) enum Strings<'a> {
    Utf8(&'a StringArray),
    LargeUtf8(&'a LargeStringArray),
    Utf8View(&'a StringViewArray),
    Binary(&'a BinaryArray),
    LargeBinary(&'a LargeBinaryArray),
    BinaryView(&'a BinaryViewArray),
    Fixed(&'a FixedSizeBinaryArray),
}

impl<'a> Cells<'a> {
    /// The values of `column` in `array`; error 1235 if such an array cannot be shown as the
    /// column's type.
    pub(crate) fn new(column: &Column, array: &'a dyn Array) -> Result<Self, SqlError> {
        let values = values(column, array).ok_or_else(|| {
            let wanted = format!("{:?}", column.sql_type);
            let what = format!(
                "column '{}': {wanted} from {}",
                column.name,
                array.data_type()
            );
            NOT_SUPPORTED_YET.with(&[&what])
        })?;
        Ok(Self {
            values,
            nulls: array.nulls(),
        })
    }

    /// True if the value in `row` is NULL.
    pub(crate) fn is_null(&self, row: usize) -> bool {
        matches!(self.values, Values::Null) || self.nulls.is_some_and(|nulls| nulls.is_null(row))
    }
}

fn values<'a>(column: &Column, array: &'a dyn Array) -> Option<Values<'a>> {
    if array.data_type() == &DataType::Null {
        return Some(Values::Null);
    }
    match column.sql_type {
        SqlType::Null => None,
        SqlType::TinyInt { .. }
        | SqlType::SmallInt { .. }
        | SqlType::MediumInt { .. }
        | SqlType::Int { .. }
        | SqlType::BigInt { .. } => ints(array).map(Values::Int),
        SqlType::Year => ints(array).map(Values::Year),
        SqlType::Bit { width } => bits(width, array),
        SqlType::Float => {
            let floats = array.as_primitive_opt::<Float32Type>()?;
            Some(Values::F32(floats.values(), column.fixed_decimals))
        }
        SqlType::Double => {
            let doubles = array.as_primitive_opt::<Float64Type>()?;
            Some(Values::F64(doubles.values(), column.fixed_decimals))
        }
        SqlType::Decimal { scale, .. } => decimals(scale, array),
        SqlType::Date => days(array).map(Values::Date),
        SqlType::DateTime { fsp } | SqlType::Timestamp { fsp } => {
            points(array).map(|micros| Values::DateTime(micros, fsp))
        }
        SqlType::Time { fsp } => spans(array).map(|micros| Values::Time(micros, fsp)),
        SqlType::Char { .. }
        | SqlType::Enum { .. }
        | SqlType::Set { .. }
        | SqlType::VarChar { .. }
        | SqlType::Text { .. }
        | SqlType::Binary { .. }
        | SqlType::VarBinary { .. }
        | SqlType::Blob { .. }
        | SqlType::Json => strings(array).map(Values::Bytes),
    }
}

/// The numbers of a primitive array of type `T`.
fn primitive<T: ArrowPrimitiveType>(array: &dyn Array) -> Option<&[T::Native]> {
    Some(array.as_primitive_opt::<T>()?.values())
}

fn ints(array: &dyn Array) -> Option<Ints<'_>> {
    Some(match array.data_type() {
        DataType::Boolean => Ints::Bool(array.as_boolean_opt()?),
        DataType::Int8 => Ints::I8(primitive::<Int8Type>(array)?),
        DataType::Int16 => Ints::I16(primitive::<Int16Type>(array)?),
        DataType::Int32 => Ints::I32(primitive::<Int32Type>(array)?),
        DataType::Int64 => Ints::I64(primitive::<Int64Type>(array)?),
        DataType::UInt8 => Ints::U8(primitive::<UInt8Type>(array)?),
        DataType::UInt16 => Ints::U16(primitive::<UInt16Type>(array)?),
        DataType::UInt32 => Ints::U32(primitive::<UInt32Type>(array)?),
        DataType::UInt64 => Ints::U64(primitive::<UInt64Type>(array)?),
        _ => return None,
    })
}

fn bits(width: u8, array: &dyn Array) -> Option<Values<'_>> {
    match ints(array) {
        Some(bits) => Some(Values::Bit {
            bits,
            bytes: usize::from(width).div_ceil(8).clamp(1, 8),
        }),
        None => strings(array).map(Values::Bytes),
    }
}

fn decimals(column_scale: u8, array: &dyn Array) -> Option<Values<'_>> {
    Some(match *array.data_type() {
        DataType::Decimal32(_, scale) => {
            Values::Decimal(Decimals::D32(primitive::<Decimal32Type>(array)?), scale)
        }
        DataType::Decimal64(_, scale) => {
            Values::Decimal(Decimals::D64(primitive::<Decimal64Type>(array)?), scale)
        }
        DataType::Decimal128(_, scale) => {
            Values::Decimal(Decimals::D128(primitive::<Decimal128Type>(array)?), scale)
        }
        DataType::Decimal256(_, scale) => {
            Values::Decimal(Decimals::D256(primitive::<Decimal256Type>(array)?), scale)
        }
        _ if column_scale == 0 => Values::Int(ints(array)?),
        _ => return None,
    })
}

fn days(array: &dyn Array) -> Option<Days<'_>> {
    Some(match array.data_type() {
        DataType::Date32 => Days::Days(primitive::<Date32Type>(array)?),
        DataType::Date64 => Days::Millis(primitive::<Date64Type>(array)?),
        _ => return None,
    })
}

fn points(array: &dyn Array) -> Option<Micros<'_>> {
    let DataType::Timestamp(unit, _) = array.data_type() else {
        return None;
    };
    Some(match unit {
        TimeUnit::Second => Micros::Large(primitive::<TimestampSecondType>(array)?, 1_000_000),
        TimeUnit::Millisecond => {
            Micros::Large(primitive::<TimestampMillisecondType>(array)?, 1_000)
        }
        TimeUnit::Microsecond => Micros::Large(primitive::<TimestampMicrosecondType>(array)?, 1),
        TimeUnit::Nanosecond => Micros::Nanos(primitive::<TimestampNanosecondType>(array)?),
    })
}

fn spans(array: &dyn Array) -> Option<Micros<'_>> {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    Some(match array.data_type() {
        DataType::Duration(Second) => {
            Micros::Large(primitive::<DurationSecondType>(array)?, 1_000_000)
        }
        DataType::Duration(Millisecond) => {
            Micros::Large(primitive::<DurationMillisecondType>(array)?, 1_000)
        }
        DataType::Duration(Microsecond) => {
            Micros::Large(primitive::<DurationMicrosecondType>(array)?, 1)
        }
        DataType::Duration(Nanosecond) => {
            Micros::Nanos(primitive::<DurationNanosecondType>(array)?)
        }
        DataType::Time32(Second) => Micros::Small(primitive::<Time32SecondType>(array)?, 1_000_000),
        DataType::Time32(Millisecond) => {
            Micros::Small(primitive::<Time32MillisecondType>(array)?, 1_000)
        }
        DataType::Time64(Microsecond) => {
            Micros::Large(primitive::<Time64MicrosecondType>(array)?, 1)
        }
        DataType::Time64(Nanosecond) => Micros::Nanos(primitive::<Time64NanosecondType>(array)?),
        // Microseconds without a type of their own.
        DataType::Int64 => Micros::Large(primitive::<Int64Type>(array)?, 1),
        _ => return None,
    })
}

fn strings(array: &dyn Array) -> Option<Strings<'_>> {
    Some(match array.data_type() {
        DataType::Utf8 => Strings::Utf8(array.as_string_opt()?),
        DataType::LargeUtf8 => Strings::LargeUtf8(array.as_string_opt()?),
        DataType::Utf8View => Strings::Utf8View(array.as_string_view_opt()?),
        DataType::Binary => Strings::Binary(array.as_binary_opt()?),
        DataType::LargeBinary => Strings::LargeBinary(array.as_binary_opt()?),
        DataType::BinaryView => Strings::BinaryView(array.as_binary_view_opt()?),
        DataType::FixedSizeBinary(_) => Strings::Fixed(array.as_fixed_size_binary_opt()?),
        _ => return None,
    })
}

impl Ints<'_> {
    /// True if the number is negative, and its magnitude.
    #[inline]
    pub(crate) fn at(&self, row: usize) -> (bool, u64) {
        match self {
            Self::Bool(values) => (false, u64::from(values.value(row))),
            Self::I8(values) => (values[row] < 0, u64::from(values[row].unsigned_abs())),
            Self::I16(values) => (values[row] < 0, u64::from(values[row].unsigned_abs())),
            Self::I32(values) => (values[row] < 0, u64::from(values[row].unsigned_abs())),
            Self::I64(values) => (values[row] < 0, values[row].unsigned_abs()),
            Self::U8(values) => (false, u64::from(values[row])),
            Self::U16(values) => (false, u64::from(values[row])),
            Self::U32(values) => (false, u64::from(values[row])),
            Self::U64(values) => (false, values[row]),
        }
    }
}

impl Days<'_> {
    /// The day's number.
    pub(crate) fn at(&self, row: usize) -> i64 {
        const MILLIS_PER_DAY: i64 = 86_400_000;
        match self {
            Self::Days(values) => i64::from(values[row]),
            Self::Millis(values) => values[row].div_euclid(MILLIS_PER_DAY),
        }
    }
}

impl Micros<'_> {
    /// Microseconds; `None` if they do not fit 64 bits.
    pub(crate) fn at(&self, row: usize) -> Option<i64> {
        match self {
            Self::Small(values, micros) => i64::from(values[row]).checked_mul(*micros),
            Self::Large(values, micros) => values[row].checked_mul(*micros),
            Self::Nanos(values) => Some(values[row].div_euclid(1_000)),
        }
    }
}

impl Strings<'_> {
    /// The string's bytes.
    #[inline]
    pub(crate) fn at(&self, row: usize) -> &[u8] {
        match self {
            Self::Utf8(values) => values.value(row).as_bytes(),
            Self::LargeUtf8(values) => values.value(row).as_bytes(),
            Self::Utf8View(values) => values.value(row).as_bytes(),
            Self::Binary(values) => values.value(row),
            Self::LargeBinary(values) => values.value(row),
            Self::BinaryView(values) => values.value(row),
            Self::Fixed(values) => values.value(row),
        }
    }
}
