//! Statistics in DataFusion's terms. Always inexact: an exact count would let the planner answer
//! `COUNT(*)` from it, which is wrong under multi-versioning.

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use perigee_engine::catalog::TableStats;
use perigee_value::Datum;

use crate::functions::wide;

/// Statistics of `columns` of a table of which `factor` of the rows remain.
#[must_use]
pub fn table_statistics(
    stats: &TableStats,
    schema: &Schema,
    columns: &[usize],
    factor: f64,
) -> Statistics {
    let rows = ((stats.rows as f64 * factor).ceil() as usize).max(1);
    let mut width = 0.0;
    let column_statistics = columns
        .iter()
        .map(|&column| {
            let Some(known) = stats.columns.get(column) else {
                return ColumnStatistics::new_unknown();
            };
            width += f64::from(known.average_width);
            let ty = schema.field(column).data_type();
            let bound = |value: &Option<Datum>| match value.as_ref().and_then(|v| scalar(v, ty)) {
                Some(value) => Precision::Inexact(value),
                None => Precision::Absent,
            };
            ColumnStatistics {
                null_count: Precision::Inexact((known.nulls as f64 * factor) as usize),
                min_value: bound(&known.min),
                max_value: bound(&known.max),
                distinct_count: Precision::Inexact((known.distinct as usize).min(rows)),
                ..ColumnStatistics::new_unknown()
            }
        })
        .collect();
    Statistics {
        num_rows: Precision::Inexact(rows),
        total_byte_size: Precision::Inexact((rows as f64 * width.max(1.0)) as usize),
        column_statistics,
    }
}

/// A value as a scalar of an Arrow type.
fn scalar(value: &Datum, ty: &DataType) -> Option<ScalarValue> {
    match (value, ty) {
        (Datum::Decimal(v), DataType::Decimal128(p, s)) => {
            Some(ScalarValue::Decimal128(Some(*v), *p, *s))
        }
        (Datum::Wide(v), DataType::Decimal256(p, s)) => {
            Some(ScalarValue::Decimal256(Some(wide::of_stored(*v)), *p, *s))
        }
        (Datum::Int(v), _) => ScalarValue::Int64(Some(*v)).cast_to(ty).ok(),
        (Datum::UInt(v), _) => ScalarValue::UInt64(Some(*v)).cast_to(ty).ok(),
        (Datum::Double(v), _) => ScalarValue::Float64(Some(*v)).cast_to(ty).ok(),
        (Datum::Date(v), DataType::Date32) => Some(ScalarValue::Date32(Some(*v))),
        (Datum::DateTime(v), DataType::Timestamp(..)) => {
            Some(ScalarValue::TimestampMicrosecond(Some(*v), None))
        }
        (Datum::Time(v), DataType::Duration(..)) => {
            Some(ScalarValue::DurationMicrosecond(Some(*v)))
        }
        (Datum::String(v), DataType::Utf8View) => Some(ScalarValue::Utf8View(Some(
            String::from_utf8(v.clone()).ok()?,
        ))),
        _ => None,
    }
}
