//! Values of expressions as texts, and as values that columns store.

use std::borrow::Cow;

use perigee_sql_type::SqlType;
use perigee_value::{ColumnType, Datum, Units, ValueRef, Wide, decimal, format_value};

use crate::functions::Value;

/// BIGINT.
pub(super) const BIGINT: ColumnType = ColumnType::Int {
    bytes: 8,
    unsigned: false,
};

/// BIGINT UNSIGNED.
const UNSIGNED: ColumnType = ColumnType::Int {
    bytes: 8,
    unsigned: true,
};

/// A value as it is shown; `None` for NULL and for bytes that are no text.
#[must_use]
pub fn to_text<'v>(value: &'v Value<'_>, ty: &SqlType) -> Option<Cow<'v, str>> {
    let shown = |value: ValueRef<'_>, column: ColumnType| {
        let mut text = String::new();
        format_value(column, value, &mut text);
        Some(Cow::Owned(text))
    };
    let fsp = ty.column.and_then(ColumnType::fsp).unwrap_or(0);
    match value {
        Value::Null => None,
        Value::Text(text) => Some(Cow::Borrowed(text)),
        Value::Bytes(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
        Value::Bool(v) => shown(ValueRef::Int((*v).into()), BIGINT),
        Value::Int(v) => shown(ValueRef::Int(*v), BIGINT),
        Value::UInt(v) if ty.column == Some(ColumnType::Year) => {
            shown(ValueRef::UInt(*v), ColumnType::Year)
        }
        Value::UInt(v) => shown(ValueRef::UInt(*v), UNSIGNED),
        Value::Double(v) => {
            let is_float = ty.column == Some(ColumnType::Float);
            let column = if is_float {
                ColumnType::Float
            } else {
                ColumnType::Double
            };
            shown(ValueRef::Double(*v), column)
        }
        Value::Decimal(units, scale) => {
            let mut text = String::new();
            units.format(*scale, &mut text);
            Some(Cow::Owned(text))
        }
        Value::Date(_) | Value::DateTime(_) | Value::Time(_) => {
            Some(Cow::Owned(value.temporal_text(fsp)))
        }
    }
}

/// A value as one that a column of a type stores: that type, and the value.
///
/// A decimal of more digits than any column has becomes the longest one, which is out of range of all of them.
#[must_use]
pub fn to_datum(value: Value<'_>, ty: &SqlType) -> (Datum, ColumnType) {
    let fsp = ty.column.and_then(ColumnType::fsp).unwrap_or(6);
    match value {
        Value::Null => (Datum::Null, ty.column.unwrap_or(BIGINT)),
        Value::Bool(v) => (Datum::Int(v.into()), BIGINT),
        Value::Int(v) => (Datum::Int(v), BIGINT),
        Value::UInt(v) if ty.column == Some(ColumnType::Year) => (Datum::UInt(v), ColumnType::Year),
        Value::UInt(v) => (Datum::UInt(v), UNSIGNED),
        Value::Double(v) => {
            let is_float = ty.column == Some(ColumnType::Float);
            let column = if is_float {
                ColumnType::Float
            } else {
                ColumnType::Double
            };
            (Datum::Double(v), column)
        }
        Value::Decimal(units, scale) => decimal_datum(units, scale),
        Value::Text(text) => (Datum::String(text.into_owned().into_bytes()), text_type(ty)),
        Value::Bytes(bytes) => (Datum::String(bytes.into_owned()), text_type(ty)),
        Value::Date(v) => (Datum::Date(v), ColumnType::Date),
        Value::DateTime(v) => {
            let stamp = ty.column.filter(|column| column.is_timestamp());
            let column = stamp.unwrap_or(ColumnType::DateTime { fsp });
            (Datum::DateTime(v), column)
        }
        Value::Time(v) => (Datum::Time(v), ColumnType::Time { fsp }),
    }
}

fn text_type(ty: &SqlType) -> ColumnType {
    ty.column
        .filter(|column| column.is_string())
        .unwrap_or(BIGINT)
}

fn decimal_datum(units: Units, scale: u8) -> (Datum, ColumnType) {
    let of = |precision| ColumnType::Decimal { precision, scale };
    if let Some(v) = units
        .to_i128()
        .filter(|v| decimal::fits(*v, decimal::MAX_PRECISION))
    {
        return (Datum::Decimal(v), of(decimal::MAX_PRECISION.max(scale)));
    }
    let longest = if units.is_negative() { 0 } else { 0xff };
    let wide = units.to_wide(ColumnType::MAX_PRECISION);
    let wide = wide.unwrap_or(Wide::from_bytes([longest; Wide::WIDTH]));
    (Datum::Wide(wide), of(ColumnType::MAX_PRECISION))
}

/// A stored value of a column as a value of expressions. Texts must be UTF-8; others are bytes.
///
/// # Panics
/// Of a long value that lies outside of its row: the caller reads it before.
#[must_use]
pub fn of_datum<'v>(value: ValueRef<'v>, column: ColumnType) -> Value<'v> {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Int(v) => Value::Int(v),
        ValueRef::UInt(v) => Value::UInt(v),
        ValueRef::Bool(v) => Value::truth(v),
        ValueRef::Decimal(v) => Value::Decimal(Units::from(v), column.scale()),
        ValueRef::Wide(v) => Value::Decimal(v.units(), column.scale()),
        ValueRef::Double(v) => Value::Double(v),
        ValueRef::Date(v) => Value::Date(v),
        ValueRef::DateTime(v) => Value::DateTime(v),
        ValueRef::Time(v) => Value::Time(v),
        ValueRef::String(bytes) => match (column.collation(), std::str::from_utf8(bytes)) {
            (Some(collation), Ok(text)) if collation.is_text() => Value::text(text),
            _ => Value::bytes(bytes),
        },
        ValueRef::Overflow(_) => panic!("F2: a long value is read before it is computed with"),
    }
}

/// A value of type `from` as a column of type `to` holds it; NULL if the column cannot.
pub(super) fn stored(value: Value<'_>, from: &SqlType, to: &SqlType) -> Value<'static> {
    let Some(column) = to.column else {
        return Value::Null;
    };
    let (datum, from) = to_datum(value, from);
    let held = match &to.members {
        Some(members) => members.coerce(datum, from),
        None => column.coerce(datum, from),
    };
    match (held, &to.members) {
        (Err(_), _) => Value::Null,
        (Ok(Datum::UInt(number)), Some(members)) => {
            let text = members.text(number).unwrap_or_default();
            Value::text(text.into_owned())
        }
        (Ok(held), _) => of_datum(held.as_ref(), column).into_owned(),
    }
}

/// The number of units of 10^-scale that an exact number is.
#[must_use]
pub(super) fn units_of(value: &Value<'_>) -> Option<(Units, u8)> {
    match value {
        Value::Int(v) => Some((i128::from(*v).into(), 0)),
        Value::UInt(v) => Some((i128::from(*v).into(), 0)),
        Value::Decimal(units, scale) => Some((*units, *scale)),
        _ => None,
    }
}
