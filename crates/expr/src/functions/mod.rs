//! MySQL's scalar functions, a row at a time: one entry each.
//!
//! An entry is all there is to a function: its names, its parameters, the type of its result, what NULL does to
//! it, and a body over the values of one row. Whoever calls it (today the adapter of the `query` crate) converts
//! the arguments to the kinds of the parameters and the result to its type; a body never sees a value of another
//! kind. `docs/functions.md` is generated from the entries.
//!
//! Bodies are pure but for what they ask of their [`Environment`].

mod bits;
mod calendar;
mod call;
mod clock;
mod date_format;
mod digest;
mod encode;
mod hash;
mod json;
mod list;
mod network;
mod number;
mod number_text;
mod random;
mod regexp;
mod str_to_date;
mod string;
mod string_more;
#[cfg(test)]
mod tests;
mod uuid;
mod value;

use std::collections::HashMap;
use std::sync::LazyLock;

use perigee_value::date::{ZERO_DAY, ZERO_MICROS};

pub use json::{JsonFault, Returned, json_scalar_text};
pub use number::leading_number;

pub use call::{Call, Environment, FunctionError, MAX_RESULT, Memo, Outcome};
pub use value::{Kind, Value, ValueType};

/// What a function does with NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// The result is NULL if an argument is; the body sees none.
    Strict,
    /// The body decides.
    Handled,
}

/// An argument as far as it is known before there are rows.
#[derive(Clone, Debug)]
pub struct Argument<'a> {
    /// Its type.
    pub ty: ValueType,
    /// Its text, if it is a constant text.
    pub constant: Option<&'a str>,
}

/// The type of a result.
pub type ResultType = fn(&[Argument<'_>]) -> ValueType;

/// What a function computes.
pub type Body = for<'a> fn(&Call<'a>) -> Outcome<'a>;

/// A function.
pub struct Function {
    /// MySQL's names for it, in lower case; the first one is shown.
    pub names: &'static [&'static str],
    /// Least and greatest number of arguments.
    pub arguments: (usize, usize),
    /// Kinds of parameters; the last one repeats.
    pub parameters: &'static [Kind],
    /// What NULL does.
    pub nulls: Nulls,
    /// True if equal arguments give equal results.
    pub deterministic: bool,
    /// True if the collation of the arguments matters.
    pub collates: bool,
    /// True if arguments beyond the least number come by two.
    pub pairs: bool,
    /// True if it is more than NULL for the date 0000-00-00.
    zero_dates: bool,
    /// What it gives, for `docs/functions.md`.
    pub about: &'static str,
    result: ResultType,
    body: Body,
}

/// No limit to the number of arguments.
const MANY: usize = usize::MAX;

/// The result types that most functions have.
const TEXT: ResultType = |_| ValueType::Text;
const BYTES: ResultType = |_| ValueType::Bytes;
const INT: ResultType = |_| ValueType::Int;
const UINT: ResultType = |_| ValueType::UInt;
const DOUBLE: ResultType = |_| ValueType::Double;
const JSON: ResultType = |_| ValueType::Json;
const DATE: ResultType = |_| ValueType::Date;

impl Function {
    const fn new(
        names: &'static [&'static str],
        arguments: (usize, usize),
        parameters: &'static [Kind],
        result: ResultType,
        about: &'static str,
        body: Body,
    ) -> Self {
        Self {
            names,
            arguments,
            parameters,
            nulls: Nulls::Strict,
            deterministic: true,
            collates: false,
            pairs: false,
            zero_dates: false,
            about,
            result,
            body,
        }
    }

    /// The same, with a body that sees NULL.
    const fn with_nulls(mut self) -> Self {
        self.nulls = Nulls::Handled;
        self
    }

    /// The same, with a body that sees the date 0000-00-00.
    const fn with_zero_dates(mut self) -> Self {
        self.zero_dates = true;
        self
    }

    /// The same, for a function whose result is another one each time.
    const fn changing(mut self) -> Self {
        self.deterministic = false;
        self
    }

    /// The same, for a function that compares strings.
    const fn by_collation(mut self) -> Self {
        self.collates = true;
        self
    }

    /// The same, for a function whose arguments beyond the least number come by two.
    const fn in_pairs(mut self) -> Self {
        self.pairs = true;
        self
    }

    /// Its first name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.names[0]
    }

    /// True if it takes so many arguments.
    #[must_use]
    pub fn accepts(&self, arguments: usize) -> bool {
        let (least, most) = self.arguments;
        let is_paired = || !self.pairs || (arguments - least).is_multiple_of(2);
        (least..=most).contains(&arguments) && is_paired()
    }

    /// The kind of a parameter.
    #[must_use]
    pub fn parameter(&self, number: usize) -> Kind {
        let last = self.parameters.len().saturating_sub(1);
        let kind = self.parameters.get(number.min(last));
        kind.copied().unwrap_or(Kind::Any)
    }

    /// True if its texts are bytes, because an argument for a text is.
    #[must_use]
    pub fn is_over_bytes(&self, types: impl IntoIterator<Item = ValueType>) -> bool {
        let mut types = types.into_iter().enumerate();
        types.any(|(i, ty)| ty == ValueType::Bytes && self.parameter(i) == Kind::Text)
    }

    /// The type of the result: bytes instead of a text if it is computed over bytes.
    #[must_use]
    pub fn result_type(&self, arguments: &[Argument<'_>]) -> ValueType {
        match (self.result)(arguments) {
            ValueType::Text if self.is_over_bytes(arguments.iter().map(|a| a.ty)) => {
                ValueType::Bytes
            }
            ty => ty,
        }
    }

    /// True for an argument 0000-00-00 where a date is expected.
    fn is_zero_date(&self, number: usize, value: &Value<'_>) -> bool {
        let last = self.parameters.len().saturating_sub(1);
        let is_date = matches!(
            self.parameters.get(number.min(last)),
            Some(Kind::Date | Kind::DateTime)
        );
        is_date
            && match value {
                Value::Date(days) => *days == ZERO_DAY,
                Value::DateTime(micros) => *micros == ZERO_MICROS,
                _ => false,
            }
    }

    /// The result for a row. It is NULL if it is longer than results may be.
    ///
    /// # Errors
    /// [`FunctionError`].
    pub fn evaluate<'a>(&self, call: &Call<'a>) -> Outcome<'a> {
        if self.nulls == Nulls::Strict && call.arguments.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        if !self.zero_dates
            && call
                .arguments
                .iter()
                .enumerate()
                .any(|(number, value)| self.is_zero_date(number, value))
        {
            return Ok(Value::Null);
        }
        let value = (self.body)(call)?;
        let length = match &value {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        Ok(if call.has_room(length) {
            value
        } else {
            Value::Null
        })
    }
}

/// The functions of one family.
pub struct Family {
    /// Its title in `docs/functions.md`.
    pub title: &'static str,
    /// The entries.
    pub functions: &'static [Function],
}

/// All functions.
pub static FAMILIES: &[Family] = &[
    Family {
        title: "Strings",
        functions: string::FUNCTIONS,
    },
    Family {
        title: "More strings",
        functions: string_more::FUNCTIONS,
    },
    Family {
        title: "Lists of values",
        functions: list::FUNCTIONS,
    },
    Family {
        title: "Encodings",
        functions: encode::FUNCTIONS,
    },
    Family {
        title: "Regular expressions",
        functions: regexp::FUNCTIONS,
    },
    Family {
        title: "Numbers",
        functions: number::FUNCTIONS,
    },
    Family {
        title: "Numbers as text",
        functions: number_text::FUNCTIONS,
    },
    Family {
        title: "Bits",
        functions: bits::FUNCTIONS,
    },
    Family {
        title: "Hashes and compression",
        functions: hash::FUNCTIONS,
    },
    Family {
        title: "Statements",
        functions: digest::FUNCTIONS,
    },
    Family {
        title: "Dates",
        functions: calendar::FUNCTIONS,
    },
    Family {
        title: "Times",
        functions: clock::FUNCTIONS,
    },
    Family {
        title: "Formats of dates and times",
        functions: date_format::FUNCTIONS,
    },
    Family {
        title: "Network addresses",
        functions: network::FUNCTIONS,
    },
    Family {
        title: "UUIDs",
        functions: uuid::FUNCTIONS,
    },
    Family {
        title: "Random numbers and waiting",
        functions: random::FUNCTIONS,
    },
    Family {
        title: "JSON",
        functions: json::FUNCTIONS,
    },
    Family {
        title: "JSON: strings and elements by their places",
        functions: json::PLACES,
    },
    Family {
        title: "JSON: JSON_VALUE",
        functions: json::VALUE,
    },
];

/// All functions, family by family.
pub fn all() -> impl Iterator<Item = &'static Function> {
    FAMILIES.iter().flat_map(|family| family.functions)
}

/// The function with this name, in lower case.
#[must_use]
pub fn named(name: &str) -> Option<&'static Function> {
    static NAMES: LazyLock<HashMap<&str, &Function>> = LazyLock::new(|| {
        let names =
            |function: &'static Function| function.names.iter().map(move |n| (*n, function));
        all().flat_map(names).collect()
    });
    NAMES.get(name).copied()
}
