//! The values and types that functions work with.

use std::borrow::Cow;

use perigee_value::{ColumnType, Units, ValueRef, format_value};

/// One value of a row, as a body sees it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// SQL NULL.
    Null,
    /// A truth value, in arguments of kind Json only.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A DOUBLE.
    Double(f64),
    /// A DECIMAL: units and the digits after the decimal point.
    Decimal(Units, u8),
    /// Characters. Where a call is over bytes, each byte is the character with its number.
    Text(Cow<'a, str>),
    /// Bytes.
    Bytes(Cow<'a, [u8]>),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01 00:00:00.
    DateTime(i64),
    /// Microseconds of a TIME.
    Time(i64),
}

impl<'a> Value<'a> {
    /// A text, borrowed or owned.
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into())
    }

    /// Bytes, borrowed or owned.
    pub fn bytes(bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        Self::Bytes(bytes.into())
    }

    /// A truth value, which is the integer 0 or 1.
    #[must_use]
    pub fn truth(truth: bool) -> Self {
        Self::Int(i64::from(truth))
    }

    /// The value, or NULL for `None`.
    #[must_use]
    pub fn or_null(value: Option<Self>) -> Self {
        value.unwrap_or(Self::Null)
    }

    /// The same value, which owns its bytes.
    #[must_use]
    pub fn into_owned<'o>(self) -> Value<'o> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(v) => Value::Bool(v),
            Self::Int(v) => Value::Int(v),
            Self::UInt(v) => Value::UInt(v),
            Self::Double(v) => Value::Double(v),
            Self::Decimal(units, scale) => Value::Decimal(units, scale),
            Self::Text(text) => Value::text(text.into_owned()),
            Self::Bytes(bytes) => Value::bytes(bytes.into_owned()),
            Self::Date(v) => Value::Date(v),
            Self::DateTime(v) => Value::DateTime(v),
            Self::Time(v) => Value::Time(v),
        }
    }

    /// The text of a date or a time with so many digits of fractional seconds; empty for anything else.
    #[must_use]
    pub fn temporal_text(&self, fsp: u8) -> String {
        let mut text = String::new();
        match *self {
            Self::Date(v) => format_value(ColumnType::Date, ValueRef::Date(v), &mut text),
            Self::DateTime(v) => {
                format_value(
                    ColumnType::DateTime { fsp },
                    ValueRef::DateTime(v),
                    &mut text,
                );
            }
            Self::Time(v) => format_value(ColumnType::Time { fsp }, ValueRef::Time(v), &mut text),
            _ => {}
        }
        text
    }

    /// True for SQL NULL.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

/// The type of an argument or a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// The literal NULL.
    Null,
    /// BIGINT.
    Int,
    /// BIGINT UNSIGNED.
    UInt,
    /// DOUBLE.
    Double,
    /// DECIMAL.
    Decimal {
        /// Decimal digits.
        precision: u8,
        /// Digits after the decimal point.
        scale: u8,
    },
    /// A string of characters.
    Text,
    /// A string of bytes.
    Bytes,
    /// JSON, which functions take as its text.
    Json,
    /// DATE.
    Date,
    /// DATETIME or TIMESTAMP.
    DateTime {
        /// Digits of fractional seconds.
        fsp: u8,
    },
    /// TIME.
    Time {
        /// Digits of fractional seconds.
        fsp: u8,
    },
}

impl ValueType {
    /// Digits of fractional seconds that a value of this type may have.
    #[must_use]
    pub fn fsp(self) -> u8 {
        match self {
            Self::DateTime { fsp } | Self::Time { fsp } => fsp,
            Self::Decimal { scale, .. } => scale.min(6),
            Self::Double | Self::Text | Self::Bytes | Self::Json => 6,
            _ => 0,
        }
    }

    /// True for strings of characters or bytes.
    #[must_use]
    pub fn is_string(self) -> bool {
        matches!(self, Self::Text | Self::Bytes | Self::Json)
    }
}

/// What the caller converts an argument to, by the rules of CAST, before the body sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Characters: [`Value::Text`].
    Text,
    /// The bytes of a string: [`Value::Bytes`].
    Bytes,
    /// [`Value::Int`].
    Int,
    /// 64 bits, of negative numbers their two's complement: [`Value::UInt`].
    Bits,
    /// [`Value::Double`].
    Double,
    /// A number of seconds in microseconds: [`Value::Int`].
    Seconds,
    /// A number as it is, anything else as a DOUBLE: [`Value::Int`], [`Value::UInt`], [`Value::Decimal`],
    /// [`Value::Double`].
    Number,
    /// [`Value::Date`].
    Date,
    /// [`Value::DateTime`].
    DateTime,
    /// [`Value::Time`].
    Time,
    /// The value as it is, a truth value as [`Value::Bool`]; JSON is text.
    Json,
    /// The value as it is; JSON is text.
    Any,
}

impl Kind {
    /// The word for a parameter of this kind in `docs/functions.md`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::Int => "integer",
            Self::Bits => "bits",
            Self::Double => "double",
            Self::Seconds => "seconds",
            Self::Number => "number",
            Self::Date => "date",
            Self::DateTime => "datetime",
            Self::Time => "time",
            Self::Json => "json",
            Self::Any => "any",
        }
    }
}
