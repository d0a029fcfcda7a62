//! Text of values and values of text, over Arrow columns.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, Float64Array, PrimitiveArray, StringViewArray,
    StringViewBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type,
    Int64Type, TimestampMicrosecondType, UInt64Type,
};
use datafusion::common::Result as DfResult;
pub use perigee_expr::functions::leading_number;
use perigee_value::{ColumnType, Units, ValueRef, format_value};

use super::{kernels, wide};
use crate::error::SqlError;

/// Key of the field metadata that holds a DATETIME's digits of fractional seconds.
pub const FSP_KEY: &str = "mysql.fsp";

/// Numbers that strings begin with.
pub fn to_double(array: &ArrayRef) -> DfResult<ArrayRef> {
    let strings = as_view(array)?;
    let doubles: Float64Array = strings
        .iter()
        .map(|text| text.map(|text| kernels::no_negative_zero(leading_number(text))))
        .collect();
    Ok(Arc::new(doubles))
}

/// A string column as string views.
pub fn as_view(array: &ArrayRef) -> DfResult<StringViewArray> {
    Ok(cast(array, &DataType::Utf8View)?.as_string_view().clone())
}

/// A string column as its bytes.
pub fn as_bytes(array: &ArrayRef) -> DfResult<BinaryViewArray> {
    Ok(cast(array, &DataType::BinaryView)?.as_binary_view().clone())
}

/// Each byte of a string as the character with its number: what functions of characters do with such
/// a text, they do with the bytes.
pub fn to_latin(array: &ArrayRef, fsp: u8) -> DfResult<StringViewArray> {
    let bytes = match array.data_type() {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => as_bytes(array)?,
        _ => {
            let texts: ArrayRef = Arc::new(to_text(array, fsp)?);
            as_bytes(&texts)?
        }
    };
    let mut out = StringViewBuilder::with_capacity(bytes.len());
    for item in &bytes {
        let text = item.map(|item| item.iter().copied().map(char::from).collect::<String>());
        out.append_option(text);
    }
    Ok(out.finish())
}

/// The bytes that [`to_latin`] made a text of.
#[must_use]
pub fn from_latin(text: &str) -> Vec<u8> {
    text.chars().map(|c| c as u8).collect()
}

/// Values as text, as MySQL shows them. `fsp` counts for DATETIME and TIME only.
pub fn to_text(array: &ArrayRef, fsp: u8) -> DfResult<StringViewArray> {
    match array.data_type() {
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => as_view(array),
        DataType::Null => Ok(StringViewArray::new_null(array.len())),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let bytes = as_bytes(array)?;
            // Bytes that are no text have none.
            let texts = bytes.iter().map(|b| str::from_utf8(b?).ok());
            Ok(texts.collect())
        }
        DataType::Boolean | DataType::Int8 | DataType::Int16 | DataType::Int32 => {
            to_text(&cast(array, &DataType::Int64)?, fsp)
        }
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => {
            to_text(&cast(array, &DataType::UInt64)?, fsp)
        }
        DataType::Int64 => Ok(format_all(array.as_primitive::<Int64Type>(), BIGINT, |v| {
            ValueRef::Int(v)
        })),
        DataType::UInt64 => Ok(format_all(
            array.as_primitive::<UInt64Type>(),
            BIGINT,
            ValueRef::UInt,
        )),
        DataType::Decimal128(precision, scale) => {
            let ty = ColumnType::Decimal {
                precision: *precision,
                scale: *scale as u8,
            };
            Ok(format_all(
                array.as_primitive::<Decimal128Type>(),
                ty,
                ValueRef::Decimal,
            ))
        }
        DataType::Decimal256(..) => {
            let scale = wide::scale_of(array.data_type());
            let shown = |number: Units| {
                let mut text = String::new();
                number.format(scale, &mut text);
                text
            };
            let numbers = wide::numbers(array)?.into_iter();
            Ok(numbers.map(|number| number.map(shown)).collect())
        }
        DataType::Float64 => {
            let doubles = array.as_primitive::<Float64Type>();
            Ok(format_all(doubles, ColumnType::Double, ValueRef::Double))
        }
        DataType::Float32 => {
            let floats = array.as_primitive::<Float32Type>();
            Ok(format_all(floats, ColumnType::Float, |v| {
                ValueRef::Double(f64::from(v))
            }))
        }
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>();
            Ok(format_all(days, ColumnType::Date, ValueRef::Date))
        }
        DataType::Duration(..) => {
            let array = cast(array, &super::types::time())?;
            let spans = array.as_primitive::<DurationMicrosecondType>();
            Ok(format_all(spans, ColumnType::Time { fsp }, ValueRef::Time))
        }
        DataType::Timestamp(..) => {
            let array = cast(array, &super::types::datetime())?;
            let micros = array.as_primitive::<TimestampMicrosecondType>();
            Ok(format_all(
                micros,
                ColumnType::DateTime { fsp },
                ValueRef::DateTime,
            ))
        }
        other => Err(SqlError::not_supported(format!("text of {other}")).into_df()),
    }
}

pub(super) const BIGINT: ColumnType = ColumnType::Int {
    bytes: 8,
    unsigned: false,
};

fn format_all<T: datafusion::arrow::array::ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    ty: ColumnType,
    value: impl Fn(T::Native) -> ValueRef<'static>,
) -> StringViewArray {
    let mut out = StringViewBuilder::with_capacity(array.len());
    let mut text = String::new();
    for item in array {
        match item {
            Some(item) => {
                text.clear();
                format_value(ty, value(item), &mut text);
                out.append_value(&text);
            }
            None => out.append_null(),
        }
    }
    out.finish()
}
