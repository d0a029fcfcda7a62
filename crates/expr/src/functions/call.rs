//! A call of a function for one row, and how it can fail.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use perigee_value::Collation;

use super::json::{JsonFault, Parsed};
use super::random::Sequence;
use super::regexp::Compiled;
use super::value::{Value, ValueType};

/// What a body gives.
pub type Outcome<'a> = Result<Value<'a>, FunctionError>;

/// Evaluation of a function failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FunctionError {
    /// The result is outside of its type (MySQL 1690).
    #[error("{kind} value is out of range in '{function}(…)'")]
    OutOfRange {
        /// MySQL's name of the type.
        kind: &'static str,
        /// The function.
        function: &'static str,
    },
    /// An argument has a value that the function does not take (MySQL 1411).
    #[error("Incorrect {kind} value: '{value}' for function {function}")]
    IncorrectValue {
        /// What was expected.
        kind: &'static str,
        /// The argument as text.
        value: String,
        /// The function.
        function: &'static str,
    },
    /// An argument that is never right (MySQL 1210).
    #[error("Incorrect arguments to {0}")]
    IncorrectArguments(&'static str),
    /// A regular expression that is none, or is too large.
    #[error("{message}")]
    Regex {
        /// MySQL's number, 3684 to 3701.
        errno: u16,
        /// MySQL's text.
        message: String,
    },
    /// A function of JSON failed.
    #[error(transparent)]
    Json(#[from] JsonFault),
    /// A statement that cannot be split into tokens (MySQL 3676).
    #[error("Could not parse argument to digest function: \"{0}\".")]
    Digest(String),
    /// What MySQL does and this library does not (MySQL 1235).
    #[error("{0}")]
    NotSupported(String),
    /// A division by zero where that is an error (MySQL 1365).
    #[error("Division by 0")]
    DivisionByZero,
    /// The statement was stopped (MySQL 1317).
    #[error("Query execution was interrupted")]
    Interrupted,
}

/// What functions know of the session beside their arguments.
pub trait Environment {
    /// Longest result in bytes (`max_allowed_packet`); longer ones are NULL with warning 1301.
    fn max_result(&self) -> usize {
        MAX_RESULT
    }

    /// Microseconds since 1970.
    fn now(&self) -> i64;

    /// 64 random bits.
    fn random(&self) -> u64;

    /// True if the statement is to stop.
    fn is_stopped(&self) -> bool;

    /// A value was divided by zero; the result is NULL.
    ///
    /// # Errors
    /// [`FunctionError::DivisionByZero`] where that is an error.
    fn divided_by_zero(&self) -> Result<(), FunctionError> {
        Ok(())
    }

    /// Lets a short time pass.
    fn wait(&self, time: Duration);
}

/// MySQL's default of `max_allowed_packet`.
pub const MAX_RESULT: usize = 64 << 20;

/// What a place in a statement keeps from row to row: things that are made of constant arguments once.
#[derive(Default)]
pub struct Memo {
    regex: Mutex<Option<Compiled>>,
    sequence: Mutex<Option<Sequence>>,
    json: Mutex<Parsed>,
}

impl Memo {
    /// The regular expression of the last row.
    pub(super) fn regex(&self) -> MutexGuard<'_, Option<Compiled>> {
        self.regex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Paths and documents of the last row.
    pub(super) fn json(&self) -> MutexGuard<'_, Parsed> {
        self.json.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sequence of random numbers of a constant seed.
    pub(super) fn sequence(&self) -> MutexGuard<'_, Option<Sequence>> {
        self.sequence.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call of a function for one row.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The function's first name.
    pub name: &'static str,
    /// Its arguments, converted to the kinds of its parameters.
    pub arguments: &'a [Value<'a>],
    /// Their types before that.
    pub types: &'a [ValueType],
    /// True for the arguments that are the same in each row.
    pub constant: &'a [bool],
    /// The collation in which strings compare.
    pub collation: Collation,
    /// True if texts are bytes: then each byte is the character with its number.
    pub over_bytes: bool,
    /// The session.
    pub environment: &'a dyn Environment,
    /// What is kept from row to row.
    pub memo: &'a Memo,
}

impl<'a> Call<'a> {
    /// Number of arguments.
    #[must_use]
    pub fn count(&self) -> usize {
        self.arguments.len()
    }

    /// True if there is such an argument.
    #[must_use]
    pub fn has(&self, number: usize) -> bool {
        number < self.arguments.len()
    }

    /// True if an argument is NULL.
    #[must_use]
    pub fn is_null(&self, number: usize) -> bool {
        self.arguments[number].is_null()
    }

    /// The characters of an argument of kind Text.
    ///
    /// # Panics
    /// As the other accessors: if the caller did not convert the argument to the parameter's kind.
    #[must_use]
    pub fn text(&self, number: usize) -> &'a str {
        match &self.arguments[number] {
            Value::Text(text) => text,
            other => self.wrong(number, other),
        }
    }

    /// The bytes of an argument of kind Bytes.
    #[must_use]
    pub fn bytes(&self, number: usize) -> &'a [u8] {
        match &self.arguments[number] {
            Value::Bytes(bytes) => bytes,
            other => self.wrong(number, other),
        }
    }

    /// An argument of kind Int or Seconds.
    #[must_use]
    pub fn int(&self, number: usize) -> i64 {
        match &self.arguments[number] {
            Value::Int(v) => *v,
            other => self.wrong(number, other),
        }
    }

    /// An argument of kind Bits.
    #[must_use]
    pub fn bits(&self, number: usize) -> u64 {
        match &self.arguments[number] {
            Value::UInt(v) => *v,
            other => self.wrong(number, other),
        }
    }

    /// An argument of kind Double.
    #[must_use]
    pub fn double(&self, number: usize) -> f64 {
        match &self.arguments[number] {
            Value::Double(v) => *v,
            other => self.wrong(number, other),
        }
    }

    /// An argument of kind Date, as days since 1970-01-01.
    #[must_use]
    pub fn date(&self, number: usize) -> i32 {
        match &self.arguments[number] {
            Value::Date(v) => *v,
            other => self.wrong(number, other),
        }
    }

    /// An argument of kind DateTime or Time, in microseconds.
    #[must_use]
    pub fn micros(&self, number: usize) -> i64 {
        match &self.arguments[number] {
            Value::DateTime(v) | Value::Time(v) => *v,
            other => self.wrong(number, other),
        }
    }

    fn wrong(&self, number: usize, value: &Value<'_>) -> ! {
        let name = self.name;
        panic!("F1: argument {number} of {name} has the kind of its parameter, not {value:?}")
    }

    /// False if a result of so many bytes is too long, and therefore NULL.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        bytes <= self.environment.max_result()
    }

    /// A DOUBLE, or error 1690 if it is none.
    ///
    /// # Errors
    /// [`FunctionError::OutOfRange`].
    pub fn checked(&self, value: f64) -> Outcome<'a> {
        match value.is_finite() {
            true => Ok(Value::Double(value)),
            false => Err(self.out_of_range("DOUBLE")),
        }
    }

    /// Error 1690.
    #[must_use]
    pub fn out_of_range(&self, kind: &'static str) -> FunctionError {
        let function = self.name;
        FunctionError::OutOfRange { kind, function }
    }
}
