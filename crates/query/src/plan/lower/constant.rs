//! Constants as literals.

use std::collections::HashMap;

use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::Expr;
use perigee_expr::functions::Value;
use perigee_sql_type::SqlType;
use perigee_value::{ColumnType, Units};

use crate::error::SqlError;
use crate::functions::types::{decimal_type, is_time};
use crate::functions::{text, wide};
use crate::plan::branches;

/// A constant of a type. Its value may be one of another type: a text that is compared with dates is a date.
pub(super) fn literal(value: &Value<'_>, ty: &SqlType) -> DfResult<Expr> {
    let scalar = match value {
        Value::Null => match ty.column {
            _ if ty.truth => ScalarValue::Boolean(None),
            Some(column) => ScalarValue::try_from(branches::data_type_of(column))?,
            None => ScalarValue::Null,
        },
        Value::Int(v) if ty.truth => ScalarValue::Boolean(Some(*v != 0)),
        Value::Int(v) => ScalarValue::Int64(Some(*v)),
        Value::Bool(v) => ScalarValue::Boolean(Some(*v)),
        Value::UInt(v) => ScalarValue::UInt64(Some(*v)),
        Value::Double(v) => ScalarValue::Float64(Some(*v)),
        Value::Decimal(units, scale) => decimal(*units, *scale, ty)?,
        Value::Text(text) if ty.is_json() => ScalarValue::LargeUtf8(Some(text.to_string())),
        Value::Text(text) => ScalarValue::Utf8(Some(text.to_string())),
        Value::Bytes(bytes) => ScalarValue::BinaryView(Some(bytes.to_vec())),
        Value::Date(days) => ScalarValue::Date32(Some(*days)),
        Value::DateTime(micros) => ScalarValue::TimestampMicrosecond(Some(*micros), None),
        Value::Time(micros) => ScalarValue::DurationMicrosecond(Some(*micros)),
    };
    let fsp = ty.column.and_then(ColumnType::fsp).unwrap_or(0);
    let is_temporal =
        matches!(scalar, ScalarValue::TimestampMicrosecond(..)) || is_time(&scalar.data_type());
    let metadata = (is_temporal && fsp > 0).then(|| {
        let map = HashMap::from([(text::FSP_KEY.to_owned(), fsp.to_string())]);
        FieldMetadata::from(map)
    });
    Ok(Expr::Literal(scalar, metadata))
}

fn decimal(units: Units, scale: u8, ty: &SqlType) -> DfResult<ScalarValue> {
    let precision = match ty.column {
        Some(ColumnType::Decimal { precision, .. }) => precision,
        _ => ColumnType::MAX_PRECISION,
    };
    let long = || SqlError::not_supported("a number of so many digits").into_df();
    match decimal_type(precision, scale) {
        datafusion::arrow::datatypes::DataType::Decimal128(precision, scale) => {
            let units = units.to_i128().ok_or_else(long)?;
            Ok(ScalarValue::Decimal128(Some(units), precision, scale))
        }
        _ => {
            let units = wide::native(units, precision).ok_or_else(long)?;
            Ok(ScalarValue::Decimal256(Some(units), precision, scale as i8))
        }
    }
}
