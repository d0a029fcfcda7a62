//! Why an expression means nothing.

use perigee_sql_type::MixOfCollations;
use perigee_value::{Charset, Collation, ColumnType};

/// What binding gives.
pub type Result<T> = std::result::Result<T, BindError>;

/// An expression that has no meaning, or none here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// What MySQL does and this crate does not (MySQL 1235).
    #[error("{0} is not supported")]
    NotSupported(String),
    /// A name that is that of no column (MySQL 1054).
    #[error("unknown column {0}")]
    UnknownColumn(String),
    /// A name that is that of no system variable (MySQL 1193).
    #[error("unknown system variable {0}")]
    UnknownVariable(String),
    /// A function that does not take so many arguments (MySQL 1582).
    #[error("wrong arguments to {0}")]
    WrongArguments(String),
    /// A row where a value is wanted, or rows of different lengths (MySQL 1241).
    #[error("operand should contain {0} columns")]
    OperandColumns(usize),
    /// Strings of collations that have none in common (MySQL 1267).
    #[error("illegal mix of collations")]
    MixOfCollations(MixOfCollations),
    /// A name that is that of no collation (MySQL 1273).
    #[error("unknown collation {0}")]
    UnknownCollation(String),
    /// A name that is that of no character set (MySQL 1115).
    #[error("unknown character set {0}")]
    UnknownCharset(String),
    /// Bytes that are no text of a character set (MySQL 1300).
    #[error("no text in {}", .0.name())]
    InvalidText(Charset),
    /// A collation of another character set than that of the string (MySQL 1253).
    #[error("collation {} of {}", .0.name(), .1.name())]
    CollationOfCharset(Collation, Charset),
    /// A constant beside a date or time that is none (MySQL 1525).
    #[error("incorrect {kind} value: {value}")]
    IncorrectLiteral {
        /// What it should be.
        kind: &'static str,
        /// The constant.
        value: String,
    },
    /// CAST to a DECIMAL that is none (MySQL 1425, 1426, 1427).
    #[error("no DECIMAL has such digits: {0:?}")]
    Digits(Digits),
    /// No type has the values of both.
    #[error("one value of {0} or {1}")]
    NoCommonType(ColumnType, ColumnType),
    /// The statement is to stop, or is nested too deeply; the environment says which.
    #[error("the statement is to stop")]
    Stopped,
    /// A query that has no meaning.
    #[error(transparent)]
    Query(#[from] crate::query::QueryError),
}

/// What is wrong with the digits of a DECIMAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits {
    /// Too many of them behind the point.
    Scale(i64),
    /// Too many in all.
    Precision(u64),
    /// More behind the point than in all.
    ScaleAbovePrecision,
}

impl From<MixOfCollations> for BindError {
    fn from(mix: MixOfCollations) -> Self {
        Self::MixOfCollations(mix)
    }
}

impl From<perigee_sql_type::unify::Clash> for BindError {
    fn from(clash: perigee_sql_type::unify::Clash) -> Self {
        Self::NoCommonType(clash.0, clash.1)
    }
}

/// [`BindError::NotSupported`].
pub(crate) fn unsupported<T>(what: impl std::fmt::Display) -> Result<T> {
    Err(BindError::NotSupported(what.to_string()))
}
