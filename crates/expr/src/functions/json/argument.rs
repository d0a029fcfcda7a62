//! Arguments of JSON functions: documents, any values as JSON, paths, texts.

use std::sync::Arc;

use perigee_value::json::{Json, JsonError, JsonErrorKind, Number, Path};

use super::super::call::Call;
use super::super::value::{Value, ValueType};
use super::JsonFault;

/// What an argument or a function gives.
pub(super) type Result<T, E = JsonFault> = std::result::Result<T, E>;

/// What is kept of the arguments of the row before: they are nearly always the next one's.
#[derive(Default)]
pub(in crate::functions) struct Parsed {
    paths: Vec<Option<(String, Arc<Path>)>>,
    documents: Vec<Option<(String, Arc<Json>)>>,
}

/// The text that is written.
fn text_by(write: impl FnOnce(&mut String)) -> String {
    let mut text = String::new();
    write(&mut text);
    text
}

/// The place of an argument in a list that has one for each.
fn place<T>(list: &mut Vec<Option<T>>, number: usize) -> &mut Option<T> {
    if list.len() <= number {
        list.resize_with(number + 1, || None);
    }
    &mut list[number]
}

impl Call<'_> {
    /// True if the argument is a string, not a JSON value.
    pub(super) fn is_text(&self, number: usize) -> bool {
        self.types[number] == ValueType::Text
    }

    /// True if the argument is a JSON value.
    pub(super) fn is_json(&self, number: usize) -> bool {
        self.types[number] == ValueType::Json
    }

    /// A JSON document: a JSON value, or a text that is parsed. `None` is SQL's NULL.
    pub(super) fn document(&self, number: usize) -> Result<Option<Arc<Json>>> {
        let text = match &self.arguments[number] {
            Value::Null => return Ok(None),
            Value::Text(text) => text,
            Value::Bytes(_) => return Err(JsonFault::Binary),
            _ => {
                let (argument, function) = (number + 1, self.name);
                return Err(JsonFault::InvalidType { argument, function });
            }
        };
        if !self.constant[number] {
            return Ok(Some(Arc::new(self.parsed(number, text)?)));
        }
        let mut kept = self.memo.json();
        let last = place(&mut kept.documents, number);
        if let Some((known, document)) = last
            && known == text
        {
            return Ok(Some(Arc::clone(document)));
        }
        let document = Arc::new(self.parsed(number, text)?);
        *last = Some((text.to_string(), Arc::clone(&document)));
        Ok(Some(document))
    }

    fn parsed(&self, number: usize, text: &str) -> Result<Json> {
        match self.is_json(number) {
            true => Json::read(text).map_err(|error| JsonFault::Corrupt(error.to_string())),
            false => Json::parse(text).map_err(|error| self.invalid(number, error)),
        }
    }

    /// The error of an argument that is not a JSON text.
    pub(super) fn invalid(&self, number: usize, error: JsonError) -> JsonFault {
        match error.kind {
            JsonErrorKind::TooDeep => JsonFault::TooDeep,
            kind => JsonFault::InvalidText {
                argument: number + 1,
                function: match self.name {
                    "cast as json" => "cast_as_json",
                    name => name,
                },
                kind,
                at: error.at,
            },
        }
    }

    /// Any value as JSON: a text is a string. `None` is SQL's NULL.
    pub(super) fn value(&self, number: usize) -> Result<Option<Json>> {
        let ty = self.types[number];
        Ok(Some(match &self.arguments[number] {
            Value::Null => return Ok(None),
            Value::Text(_) if ty == ValueType::Json => {
                return Ok(self.document(number)?.map(Arc::unwrap_or_clone));
            }
            other => scalar(other)?,
        }))
    }

    /// Any value as JSON, where SQL's NULL is JSON's.
    pub(super) fn element(&self, number: usize) -> Result<Json> {
        Ok(self.value(number)?.unwrap_or(Json::Null))
    }

    /// The text of an argument, a number's as it is shown; not NULL.
    pub(super) fn shown(&self, number: usize) -> Result<String> {
        Ok(match &self.arguments[number] {
            Value::Null => String::new(),
            Value::Text(text) => text.to_string(),
            Value::Bytes(_) => return Err(JsonFault::Binary),
            value @ (Value::Date(_) | Value::DateTime(_) | Value::Time(_)) => {
                value.temporal_text(self.types[number].fsp())
            }
            Value::Bool(truth) => i64::from(*truth).to_string(),
            Value::Double(v) => text_by(|text| perigee_value::format_double(*v, text)),
            Value::Decimal(units, scale) => text_by(|text| units.format(*scale, text)),
            Value::Int(v) => v.to_string(),
            Value::UInt(v) => v.to_string(),
        })
    }

    /// A path; `None` for NULL.
    pub(super) fn path(&self, number: usize) -> Result<Option<Arc<Path>>> {
        let text = match &self.arguments[number] {
            Value::Null => return Ok(None),
            Value::Text(text) => text,
            _ => return Err(JsonFault::InvalidPath(1)),
        };
        let mut kept = self.memo.json();
        let last = place(&mut kept.paths, number);
        if let Some((known, path)) = last
            && known == text
        {
            return Ok(Some(Arc::clone(path)));
        }
        let path = Arc::new(Path::parse(text).map_err(JsonFault::InvalidPath)?);
        *last = Some((text.to_string(), Arc::clone(&path)));
        Ok(Some(path))
    }

    /// A path to one value; `None` for NULL.
    pub(super) fn single_path(&self, number: usize) -> Result<Option<Arc<Path>>> {
        let path = self.path(number)?;
        match path.as_ref().is_none_or(|path| path.is_single()) {
            true => Ok(path),
            false => Err(JsonFault::Wildcard),
        }
    }
}

/// A value of SQL that is not JSON as a JSON scalar: dates are strings with all digits of their fraction, as in MySQL.
///
/// # Errors
/// [`JsonFault::Binary`].
pub(super) fn scalar(value: &Value<'_>) -> Result<Json> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(truth) => Json::Bool(*truth),
        Value::Int(v) => Json::Number(Number::Int(*v)),
        Value::UInt(v) => Json::Number(Number::unsigned(*v)),
        Value::Double(v) => Json::Number(Number::double(*v)),
        Value::Decimal(units, scale) => {
            Json::Number(Number::exact(&text_by(|text| units.format(*scale, text))))
        }
        Value::Text(text) => Json::String(text.to_string()),
        Value::Bytes(_) => return Err(JsonFault::Binary),
        Value::Date(_) | Value::DateTime(_) | Value::Time(_) => {
            Json::String(value.temporal_text(6))
        }
    })
}
