//! DATE, DATETIME and TIME beside what is none: comparisons as points in time, and as times.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result as DfResult, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use perigee_value::{ColumnType, Datum, parse_text};

use super::operators::{BIGINT, call, is_number, mixed};
use crate::error::SqlError;
use crate::functions::cast as casts;
use crate::functions::moment::Moment;
use crate::functions::types::{datetime, is_bytes, is_json, is_string, is_time};
use crate::plan::metadata;

/// A DATE or DATETIME and what it is compared with, as points in time: a constant becomes one now, and it is an error
/// if it is none; a value of a text or a number that is none is before all of them (MariaDB's 0000-00-00).
pub(super) fn moments(
    temporal: Expr,
    other: Expr,
    other_type: &DataType,
    temporal_type: &DataType,
    schema: &DFSchema,
) -> DfResult<(Expr, Expr)> {
    if matches!(&other, Expr::Literal(value, _) if is_moment_literal(value)) {
        let other = temporal_literal(other, other_type, temporal_type)?;
        let is_moment = matches!(
            &other,
            Expr::Literal(ScalarValue::TimestampMicrosecond(..), _)
        );
        let temporal = match is_moment && *temporal_type == DataType::Date32 {
            true => cast(temporal, datetime()),
            false => temporal,
        };
        return Ok((temporal, other));
    }
    let is_comparable = is_string(other_type) || is_bytes(other_type) || is_number(other_type);
    if !is_comparable || is_json(other_type) || is_year(&other, schema)? {
        return Err(mixed(other_type, temporal_type));
    }
    let temporal = match *temporal_type == DataType::Date32 {
        true => cast(temporal, datetime()),
        false => temporal,
    };
    let moment = call(Moment::new(datetime()).into(), vec![other]);
    Ok((temporal, moment))
}

/// True for a YEAR, which beside a date is one without a month and a day.
fn is_year(expr: &Expr, schema: &DFSchema) -> DfResult<bool> {
    Ok(metadata::is_year(&expr.to_field(schema)?.1))
}

/// True for constants that MySQL turns into points in time before it compares.
fn is_moment_literal(value: &ScalarValue) -> bool {
    matches!(value, ScalarValue::Int64(Some(_))) || matches!(value.try_as_str(), Some(Some(_)))
}

/// What a TIME is compared with, as a TIME.
pub(super) fn as_time(
    expr: Expr,
    ty: &DataType,
    time: &DataType,
    schema: &DFSchema,
) -> DfResult<Expr> {
    if is_time(ty) {
        return Ok(expr);
    }
    let Expr::Literal(value, metadata) = &expr else {
        let is_text = (is_string(ty) && !is_json(ty)) || is_bytes(ty);
        return match is_text || (is_number(ty) && !is_year(&expr, schema)?) {
            true => Ok(call(Moment::new(time.clone()).into(), vec![expr])),
            false => Err(mixed(ty, time)),
        };
    };
    let column = ColumnType::Time { fsp: 6 };
    let micros = match (value, value.try_as_str()) {
        (_, Some(Some(text))) => casts::parse_time(text, 6),
        (ScalarValue::Int64(Some(number)), _) => match column.coerce(Datum::Int(*number), BIGINT) {
            Ok(Datum::Time(micros)) => Some(micros),
            _ => None,
        },
        _ if is_number(ty) => {
            return Ok(call(Moment::new(time.clone()).into(), vec![expr]));
        }
        _ => return Err(mixed(ty, time)),
    };
    match micros {
        Some(micros) => {
            let literal = ScalarValue::DurationMicrosecond(Some(micros));
            Ok(Expr::Literal(literal, metadata.clone()))
        }
        None => Err(SqlError::incorrect_literal("TIME", value).into_df()),
    }
}

/// A literal string or integer as a literal of the temporal type it is compared with.
fn temporal_literal(expr: Expr, ty: &DataType, temporal: &DataType) -> DfResult<Expr> {
    let Expr::Literal(value, metadata) = &expr else {
        return Err(mixed(ty, temporal));
    };
    let is_date = *temporal == DataType::Date32;
    let kind = if is_date { "DATE" } else { "DATETIME" };
    let micros = match value {
        ScalarValue::Int64(Some(number)) => {
            match (ColumnType::DateTime { fsp: 6 }).coerce(Datum::Int(*number), BIGINT) {
                Ok(Datum::DateTime(micros)) => Some(micros),
                _ => None,
            }
        }
        value => match value.try_as_str() {
            // The binder has looked whether 0000-00-00 may be one.
            Some(Some(text)) => {
                match parse_text(ColumnType::DateTime { fsp: 6 }, text.as_bytes()) {
                    Ok(Datum::DateTime(micros)) => Some(micros),
                    _ => None,
                }
            }
            _ => return Err(mixed(ty, temporal)),
        },
    };
    let Some(micros) = micros else {
        return Err(SqlError::incorrect_literal(kind, value).into_df());
    };
    let (days, _) = perigee_value::date::split_micros(micros);
    // A DATE is compared with a point in time as its midnight.
    let literal = if is_date && perigee_value::date::day_to_micros(days) == micros {
        ScalarValue::Date32(Some(days))
    } else {
        ScalarValue::Int64(Some(micros)).cast_to(&datetime())?
    };
    Ok(Expr::Literal(literal, metadata.clone()))
}
