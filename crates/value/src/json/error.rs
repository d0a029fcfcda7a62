//! What can be wrong with a JSON text, in MySQL's words.

use std::fmt;

/// A text that is no JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{kind} at position {at}")]
pub struct JsonError {
    /// What is wrong.
    pub kind: JsonErrorKind,
    /// The byte where that was noticed.
    pub at: usize,
}

/// What is wrong with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JsonErrorKind {
    /// There is nothing but white space.
    Empty,
    /// Something follows the value.
    NotSingular,
    /// No value begins here.
    InvalidValue,
    /// A member does not begin with a string.
    MissingName,
    /// No colon behind a member's name.
    MissingColon,
    /// An object neither goes on nor ends.
    MissingBrace,
    /// An array neither goes on nor ends.
    MissingBracket,
    /// `\u` without four hexadecimal digits.
    InvalidHex,
    /// Half of a surrogate pair.
    InvalidSurrogate,
    /// A backslash before anything that needs none.
    InvalidEscape,
    /// A string without end.
    MissingQuote,
    /// A control character in a string, or no UTF-8.
    InvalidEncoding,
    /// A number beyond DOUBLE.
    NumberTooBig,
    /// No digit behind the point.
    MissingFraction,
    /// No digit in the exponent.
    MissingExponent,
    /// A value of SQL that is no text.
    NotText,
    /// More than [`super::MAX_DEPTH`] arrays and objects within each other (MySQL 3157).
    TooDeep,
}

impl JsonErrorKind {
    /// The error of this kind at a byte of the text.
    #[must_use]
    pub const fn at(self, at: usize) -> JsonError {
        JsonError { kind: self, at }
    }
}

impl fmt::Display for JsonErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "The document is empty.",
            Self::NotSingular => "The document root must not be followed by other values.",
            Self::InvalidValue => "Invalid value.",
            Self::MissingName => "Missing a name for object member.",
            Self::MissingColon => "Missing a colon after a name of object member.",
            Self::MissingBrace => "Missing a comma or } after an object member.",
            Self::MissingBracket => "Missing a comma or ] after an array element.",
            Self::InvalidHex => "Incorrect hex digit after \\u escape in string.",
            Self::InvalidSurrogate => "The surrogate pair in string is invalid.",
            Self::InvalidEscape => "Invalid escape character in string.",
            Self::MissingQuote => "Missing a closing quotation mark in string.",
            Self::InvalidEncoding => "Invalid encoding in string.",
            Self::NumberTooBig => "Number too big to be stored in double.",
            Self::MissingFraction => "Miss fraction part in number.",
            Self::MissingExponent => "Miss exponent in number.",
            Self::NotText => "not a JSON text, may need CAST",
            Self::TooDeep => "The JSON document exceeds the maximum depth.",
        })
    }
}
