//! JSON_VALUE: a scalar of a document as a value of SQL, with what is to become of a path that leads nowhere and of a
//! value that is not of the type.

use perigee_value::json::Json;
use perigee_value::{ColumnType, parse_text};

use super::super::value::ValueType;
use super::super::{Argument, Call, Function, FunctionError, Outcome, Value};
use super::{JsonFault, function, json};
use crate::scalar::of_datum;

/// The arguments: document, path, type, and twice what happens, and a default: if there is nothing, and on an error.
const TYPE: usize = 2;
const ON_EMPTY: usize = 3;
const ON_ERROR: usize = 5;

pub(in crate::functions) static FUNCTIONS: &[Function] = &[function(
    &["json_value"],
    (7, 7),
    |arguments: &[Argument<'_>]| match arguments[TYPE].constant.and_then(Returned::named) {
        Some(returned) => returned.value_type(),
        None => ValueType::Text,
    },
    "The scalar at the path: `JSON_VALUE(document, path [RETURNING type] [… ON EMPTY] [… ON ERROR])`.",
    json_value,
)];

/// A type behind RETURNING.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    /// JSON.
    Json,
    /// CHAR of so many characters at most.
    Text(usize),
    /// Any other one.
    Column(ColumnType),
}

impl Returned {
    /// The type of a name in lower case, as `decimal(10,2)`.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        let (name, digits) = match text.split_once('(') {
            Some((name, rest)) => (name.trim(), rest.strip_suffix(')')?),
            None => (text, ""),
        };
        let mut digits = digits
            .split(',')
            .map(|digits| digits.trim().parse::<usize>());
        let mut digit = || digits.next().and_then(Result::ok);
        let first = digit();
        let small = |digit: Option<usize>, most: u8| {
            let digit = u8::try_from(digit.unwrap_or(0)).ok();
            digit.filter(|digit| *digit <= most)
        };
        let int = |unsigned| Self::Column(ColumnType::Int { bytes: 8, unsigned });
        Some(match name {
            "json" => Self::Json,
            "char" => Self::Text(first?),
            "signed" | "signed integer" => int(false),
            "unsigned" | "unsigned integer" => int(true),
            "double" | "real" => Self::Column(ColumnType::Double),
            "date" => Self::Column(ColumnType::Date),
            "time" => Self::Column(ColumnType::Time {
                fsp: small(first, 6)?,
            }),
            "datetime" => Self::Column(ColumnType::DateTime {
                fsp: small(first, 6)?,
            }),
            "decimal" | "dec" => {
                let precision = small(first.or(Some(10)), ColumnType::MAX_PRECISION)?;
                let scale = small(digit(), 30)?;
                let is_one = precision > 0 && scale <= precision;
                is_one.then_some(Self::Column(ColumnType::Decimal { precision, scale }))?
            }
            _ => return None,
        })
    }

    fn value_type(self) -> ValueType {
        match self {
            Self::Json => ValueType::Json,
            Self::Text(_) => ValueType::Text,
            Self::Column(column) => match column {
                ColumnType::Int { unsigned: true, .. } => ValueType::UInt,
                ColumnType::Int { .. } => ValueType::Int,
                ColumnType::Double => ValueType::Double,
                ColumnType::Date => ValueType::Date,
                ColumnType::DateTime { fsp } => ValueType::DateTime { fsp },
                ColumnType::Time { fsp } => ValueType::Time { fsp },
                ColumnType::Decimal { precision, scale } => ValueType::Decimal { precision, scale },
                _ => ValueType::Text,
            },
        }
    }

    /// A JSON value as one of this type; `None` if it is none.
    #[must_use]
    pub fn of(self, value: &Json) -> Option<Value<'static>> {
        let column = match (self, value) {
            (Self::Json, _) => return Some(Value::text(value.to_string())),
            (_, Json::Null) => return Some(Value::Null),
            (Self::Text(most), Json::Bool(_) | Json::Number(_) | Json::String(_)) => {
                let text = value.clone().unquoted();
                return (text.chars().count() <= most).then(|| Value::text(text));
            }
            (Self::Text(_), _) => return None,
            (Self::Column(column), _) => column,
        };
        // Dates and times are strings.
        let is_temporal = column == ColumnType::Date || column.fsp().is_some();
        if is_temporal && !matches!(value, Json::String(_)) {
            return None;
        }
        let datum = parse_text(column, value.scalar_text()?.as_bytes()).ok()?;
        Some(of_datum(datum.as_ref(), column).into_owned())
    }
}

fn json_value<'a>(c: &Call<'a>) -> Outcome<'a> {
    let name = c.shown(TYPE)?;
    let Some(returned) = Returned::named(&name) else {
        let refused = format!("JSON_VALUE … RETURNING {name}");
        return Err(FunctionError::NotSupported(refused));
    };
    let Some(document) = c.document(0)? else {
        return Ok(Value::Null);
    };
    let Some(path) = c.single_path(1)? else {
        return Ok(Value::Null);
    };
    let found = path.select(&document).first().copied();
    let Some(value) = found else {
        return otherwise(c, returned, ON_EMPTY, JsonFault::MissingValue);
    };
    match returned.of(value) {
        Some(value) => Ok(value),
        None => otherwise(c, returned, ON_ERROR, JsonFault::InvalidCast),
    }
}

/// What a clause says: NULL, an error, or a default.
fn otherwise<'a>(c: &Call<'a>, returned: Returned, clause: usize, fault: JsonFault) -> Outcome<'a> {
    match c.shown(clause)?.as_str() {
        "error" => Err(fault.into()),
        "default" => {
            let value = match returned {
                // The text of a default is a document.
                Returned::Json => match c.document(clause + 1)? {
                    Some(value) => return json(&value),
                    None => Json::Null,
                },
                _ => c.element(clause + 1)?,
            };
            returned.of(&value).ok_or(JsonFault::InvalidDefault.into())
        }
        _ => Ok(Value::Null),
    }
}
