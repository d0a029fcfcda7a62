//! What can be wrong with a value, a row or a layout.

use crate::date::{ZERO_DAY, ZERO_MICROS};
use crate::json::JsonError;
use crate::{ColumnType, ValueRef, format_value};

/// How a value fails to become a value of a type. SQL layers map it to MySQL's error numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueErrorKind {
    /// The type cannot hold a value this large or this small (MySQL 1264).
    OutOfRange,
    /// A valid prefix is followed by something else, as in `12abc` for an INT (MySQL 1265).
    Truncated,
    /// Not a value of the type at all (MySQL 1366; 1292 for dates).
    Incorrect,
    /// A string of more characters than the column takes (MySQL 1406).
    TooLong,
    /// NULL where the column is NOT NULL (MySQL 1048).
    NullNotAllowed,
    /// No JSON text (MySQL 3140, 3157).
    Json(JsonError),
    /// The stored bytes of a record do not form a value of the column's type.
    Corrupt,
}

/// A value does not fit a type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} for {ty}: '{value}'", kind.describe())]
pub struct ValueError {
    /// What is wrong.
    pub kind: ValueErrorKind,
    /// The type that was asked for.
    pub ty: ColumnType,
    /// The value as text, shortened.
    pub value: String,
}

impl ValueErrorKind {
    fn describe(self) -> &'static str {
        match self {
            Self::OutOfRange => "out of range value",
            Self::Truncated => "data truncated",
            Self::Incorrect => "incorrect value",
            Self::TooLong => "data too long",
            Self::NullNotAllowed => "NULL not allowed",
            Self::Json(_) => "invalid JSON text",
            Self::Corrupt => "corrupt value",
        }
    }
}

impl ValueError {
    /// Bytes of the offending value that a message shows.
    const SHOWN: usize = 64;

    /// An error about a value given as text.
    #[must_use]
    pub fn new(kind: ValueErrorKind, ty: ColumnType, value: &[u8]) -> Self {
        let shown = &value[..value.len().min(Self::SHOWN)];
        Self {
            kind,
            ty,
            value: String::from_utf8_lossy(shown).into_owned(),
        }
    }

    /// An error about 0000-00-00 where it is no date.
    #[must_use]
    pub fn zero_date(ty: ColumnType) -> Self {
        let mut shown = String::new();
        let zero = match ty {
            ColumnType::Date => ValueRef::Date(ZERO_DAY),
            _ => ValueRef::DateTime(ZERO_MICROS),
        };
        format_value(ty, zero, &mut shown);
        Self::new(ValueErrorKind::Incorrect, ty, shown.as_bytes())
    }
}

/// A row cannot become a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// One of its values does not fit its column.
    #[error("column {column}: {error}")]
    Column {
        /// Index in the layout.
        column: u16,
        /// What is wrong.
        error: ValueError,
    },
    /// It has not as many values as the layout has columns.
    #[error("{got} values for {expected} columns")]
    ColumnCount {
        /// Columns of the layout.
        expected: usize,
        /// Values given.
        got: usize,
    },
    /// It is longer than [`crate::MAX_RECORD_LEN`] (MySQL 1118).
    #[error("row of {0} bytes is too long")]
    RowTooLong(usize),
    /// Its key is longer than [`crate::MAX_KEY_LEN`] (MySQL 1071).
    #[error("key of {0} bytes is too long")]
    KeyTooLong(usize),
}

/// Columns and key do not make a layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// More than [`crate::MAX_COLUMNS`] columns, or none.
    #[error("{0} columns")]
    ColumnCount(usize),
    /// More than 254 string columns.
    #[error("{0} columns of variable length")]
    StringCount(usize),
    /// A type with impossible parameters.
    #[error("column {column}: {what}")]
    Type {
        /// Index in the layout.
        column: u16,
        /// What is wrong.
        what: &'static str,
    },
    /// The key is empty, repeats a column or names one that does not exist.
    #[error("key: {0}")]
    Key(&'static str),
    /// The fixed part alone is longer than [`crate::MAX_RECORD_LEN`].
    #[error("row of {0} bytes is too long")]
    RowTooLong(usize),
    /// A fixed-width key is longer than [`crate::MAX_KEY_LEN`].
    #[error("key of {0} bytes is too long")]
    KeyTooLong(usize),
}
