//! Arguments of JSON functions: documents, any values as JSON, paths, texts.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field};
use perigee_value::json::{Json, JsonError, JsonErrorKind, Number, Path};
use perigee_value::{ColumnType, Datum, format_value};

use crate::error::{Result, SqlError};
use crate::functions::text;
use crate::functions::types::{is_bytes, is_json, is_string};
use crate::values::Column;

/// An argument: a value for each row, or one for all.
pub(super) struct Argument {
    values: Values,
    constant: bool,
    /// A constant's document, once it was asked for.
    document: RefCell<Option<Rc<Json>>>,
    /// The path of the row before, and its text: it is nearly always the next one's.
    path: RefCell<Option<(String, Rc<Path>)>>,
}

enum Values {
    Null,
    Json(StringViewArray),
    Text(StringViewArray),
    Bytes(ArrayRef),
    Other(Column, ArrayRef),
}

impl Argument {
    pub fn new(array: &ArrayRef, field: &Field, constant: bool) -> Result<Self> {
        let texts = || text::as_view(array);
        let values = match array.data_type() {
            DataType::Null => Values::Null,
            ty if is_json(ty) => Values::Json(texts()?),
            ty if is_string(ty) => Values::Text(texts()?),
            ty if is_bytes(ty) => Values::Bytes(Arc::clone(array)),
            _ => Values::Other(Column::new(array, field)?, Arc::clone(array)),
        };
        Ok(Self {
            values,
            constant,
            document: RefCell::new(None),
            path: RefCell::new(None),
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match &self.values {
            Values::Null => true,
            Values::Json(texts) | Values::Text(texts) => texts.is_null(row),
            Values::Bytes(array) | Values::Other(_, array) => array.is_null(row),
        }
    }
}

/// A call of a function for one row.
pub(super) struct Call<'a> {
    /// Its name, for messages.
    pub function: &'a str,
    pub arguments: &'a [Argument],
    pub row: usize,
}

impl Call<'_> {
    /// Number of arguments.
    pub fn count(&self) -> usize {
        self.arguments.len()
    }

    fn at(&self, number: usize) -> (&Argument, usize) {
        let argument = &self.arguments[number];
        (argument, if argument.constant { 0 } else { self.row })
    }

    /// True if the argument is NULL.
    pub fn is_null(&self, number: usize) -> bool {
        let (argument, row) = self.at(number);
        argument.is_null(row)
    }

    /// True if the argument is a string, not a JSON value.
    pub fn is_text(&self, number: usize) -> bool {
        matches!(self.arguments[number].values, Values::Text(_))
    }

    /// True if the argument is a JSON value.
    pub fn is_json(&self, number: usize) -> bool {
        matches!(self.arguments[number].values, Values::Json(_))
    }

    /// A JSON document: a JSON value, or a text that is parsed.
    pub fn document(&self, number: usize) -> Result<Option<Rc<Json>>> {
        let (argument, row) = self.at(number);
        if argument.is_null(row) {
            return Ok(None);
        }
        if let Some(known) = &*argument.document.borrow() {
            return Ok(Some(known.clone()));
        }
        let document = match &argument.values {
            Values::Json(texts) => Json::read(texts.value(row)).map_err(SqlError::corrupt)?,
            Values::Text(texts) => {
                Json::parse(texts.value(row)).map_err(|error| self.invalid(number, error))?
            }
            Values::Bytes(_) => return Err(SqlError::json_of_binary("binary")),
            Values::Null | Values::Other(..) => {
                return Err(SqlError::invalid_json_type(number + 1, self.function));
            }
        };
        let document = Rc::new(document);
        if argument.constant {
            *argument.document.borrow_mut() = Some(document.clone());
        }
        Ok(Some(document))
    }

    /// The error of an argument that is no JSON text.
    pub fn invalid(&self, number: usize, error: JsonError) -> SqlError {
        match error.kind {
            JsonErrorKind::TooDeep => SqlError::json_too_deep(),
            kind => SqlError::invalid_json_argument(number + 1, self.function, kind, error.at),
        }
    }

    /// Any value as JSON: a text is a string. `None` is SQL's NULL.
    pub fn value(&self, number: usize) -> Result<Option<Json>> {
        let (argument, row) = self.at(number);
        if argument.is_null(row) {
            return Ok(None);
        }
        Ok(Some(match &argument.values {
            Values::Json(_) => return Ok(self.document(number)?.map(Rc::unwrap_or_clone)),
            Values::Text(texts) => Json::String(texts.value(row).to_owned()),
            Values::Bytes(_) => return Err(SqlError::not_supported("bytes within JSON")),
            Values::Other(column, _) => scalar(&column.datum(row), column.ty()),
            Values::Null => Json::Null,
        }))
    }

    /// Any value as JSON, where SQL's NULL is JSON's.
    pub fn element(&self, number: usize) -> Result<Json> {
        Ok(self.value(number)?.unwrap_or(Json::Null))
    }

    /// The text of an argument, a number's as it is shown; not NULL.
    pub fn text(&self, number: usize) -> Result<String> {
        let (argument, row) = self.at(number);
        Ok(match &argument.values {
            Values::Json(texts) | Values::Text(texts) => texts.value(row).to_owned(),
            Values::Null => String::new(),
            Values::Bytes(_) => return Err(SqlError::not_supported("bytes within JSON")),
            Values::Other(column, _) => {
                let mut shown = String::new();
                format_value(column.ty(), column.datum(row).as_ref(), &mut shown);
                shown
            }
        })
    }

    /// A path; `None` for NULL.
    pub fn path(&self, number: usize) -> Result<Option<Rc<Path>>> {
        let (argument, row) = self.at(number);
        if argument.is_null(row) {
            return Ok(None);
        }
        let text = match &argument.values {
            Values::Text(texts) | Values::Json(texts) => texts.value(row),
            _ => return Err(SqlError::invalid_json_path(1)),
        };
        let mut last = argument.path.borrow_mut();
        if let Some((known, path)) = &*last
            && known == text
        {
            return Ok(Some(path.clone()));
        }
        let path = Rc::new(Path::parse(text).map_err(SqlError::invalid_json_path)?);
        *last = Some((text.to_owned(), path.clone()));
        Ok(Some(path))
    }

    /// A path to one value; `None` for NULL.
    pub fn single_path(&self, number: usize) -> Result<Option<Rc<Path>>> {
        let path = self.path(number)?;
        match path.as_ref().is_none_or(|path| path.is_single()) {
            true => Ok(path),
            false => Err(SqlError::json_path_wildcard()),
        }
    }
}

/// A value of SQL as a JSON scalar: dates are strings.
fn scalar(value: &Datum, ty: ColumnType) -> Json {
    let shown = |ty| {
        let mut shown = String::new();
        format_value(ty, value.as_ref(), &mut shown);
        shown
    };
    match value {
        Datum::Null | Datum::Overflow(_) => Json::Null,
        Datum::Bool(truth) => Json::Bool(*truth),
        Datum::Int(v) => Json::Number(Number::Int(*v)),
        Datum::UInt(v) => Json::Number(Number::unsigned(*v)),
        Datum::Double(v) => Json::Number(Number::double(*v)),
        Datum::Decimal(_) | Datum::Wide(_) => Json::Number(Number::exact(&shown(ty))),
        // Points in time have all digits, as in MySQL.
        Datum::DateTime(_) => Json::String(shown(ColumnType::DateTime { fsp: 6 })),
        Datum::Time(_) => Json::String(shown(ColumnType::Time { fsp: 6 })),
        Datum::Date(_) => Json::String(shown(ty)),
        Datum::String(text) => Json::String(String::from_utf8_lossy(text).into_owned()),
    }
}
