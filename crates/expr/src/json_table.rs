//! JSON_TABLE: the rows of a JSON document.
//!
//! Each value that the path leads to is a row. A nested path gives a row for each value that it leads to from there; of
//! several nested paths beside each other each gives rows of its own, in which the columns of the others are NULL.

use perigee_value::json::{Json, Path};
use perigee_value::{ColumnType, ValueErrorKind, parse_text};

use crate::functions::{JsonFault, Value};
use crate::scalar::of_datum;

/// Rows of a path, perhaps below a row of another one.
#[derive(Clone, Debug)]
pub struct JsonTable {
    /// Where the rows are.
    pub path: Path,
    /// Their columns, those of nested paths among them, in order.
    pub columns: Vec<JsonColumn>,
}

/// A column, or several.
#[derive(Clone, Debug)]
pub enum JsonColumn {
    /// FOR ORDINALITY: the number of the row, from 1.
    Ordinality,
    /// EXISTS PATH: whether the path leads to something.
    Exists {
        /// The path.
        path: Path,
        /// The type of the column.
        ty: ColumnType,
    },
    /// What the path leads to.
    Value(Box<JsonValue>),
    /// NESTED PATH.
    Nested(JsonTable),
}

/// A column of values.
#[derive(Clone, Debug)]
pub struct JsonValue {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: ColumnType,
    /// Where the value is.
    pub path: Path,
    /// What there is if the path leads nowhere.
    pub on_empty: Otherwise,
    /// What there is if the value is not one of the type.
    pub on_error: Otherwise,
}

/// What stands in the place of a value.
#[derive(Clone, Debug)]
pub enum Otherwise {
    /// NULL.
    Null,
    /// An error.
    Error,
    /// DEFAULT.
    Default(Value<'static>),
}

/// A row.
pub type Row = Vec<Value<'static>>;

impl JsonTable {
    /// How many columns it has.
    #[must_use]
    pub fn width(&self) -> usize {
        let widths = self.columns.iter().map(|column| match column {
            JsonColumn::Nested(nested) => nested.width(),
            _ => 1,
        });
        widths.sum()
    }

    /// Gives out the rows of a document.
    ///
    /// # Errors
    /// Those of columns that say ERROR, and those of `give`.
    pub fn rows<E: From<JsonFault>>(
        &self,
        document: &Json,
        give: &mut dyn FnMut(Row) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut row = vec![Value::Null; self.width()];
        self.below(document, &mut row, 0, &mut |row: &mut Row| {
            give(row.clone())
        })
        .map(|_| ())
    }

    /// The rows below a value, of which the columns from `first` on are this table's. Gives how many there were.
    fn below<E: From<JsonFault>>(
        &self,
        value: &Json,
        row: &mut Row,
        first: usize,
        give: &mut dyn FnMut(&mut Row) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut count = 0;
        for found in self.path.select(value) {
            count += 1;
            let mut place = first;
            for column in &self.columns {
                match column {
                    JsonColumn::Ordinality => row[place] = Value::UInt(count),
                    JsonColumn::Exists { path, ty } => {
                        let exists = !path.select(found).is_empty();
                        let text = if exists { "1" } else { "0" };
                        row[place] = of_text(text, *ty).unwrap_or(Value::Null);
                    }
                    JsonColumn::Value(column) => row[place] = column.of(found)?,
                    JsonColumn::Nested(nested) => {
                        place += nested.width();
                        continue;
                    }
                }
                place += 1;
            }
            self.nested(found, row, first, give)?;
        }
        row[first..first + self.width()].fill(Value::Null);
        Ok(count)
    }

    /// The rows of the nested paths of a row, or else the row alone.
    fn nested<E: From<JsonFault>>(
        &self,
        found: &Json,
        row: &mut Row,
        first: usize,
        give: &mut dyn FnMut(&mut Row) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut place = first;
        let mut rows = 0;
        for column in &self.columns {
            match column {
                JsonColumn::Nested(nested) => {
                    rows += nested.below(found, row, place, give)?;
                    place += nested.width();
                }
                _ => place += 1,
            }
        }
        match rows {
            0 => give(row),
            _ => Ok(()),
        }
    }
}

impl JsonValue {
    fn of(&self, row: &Json) -> Result<Value<'static>, JsonFault> {
        let found = self.path.select(row);
        let value = match (&found[..], self.path.is_single()) {
            ([], _) => {
                let name = self.name.clone();
                return self.on_empty.value(JsonFault::TableMissing(name));
            }
            ([one], true) => stored(one, self.ty),
            // Several values are an array of them.
            (all, _) => {
                let all = all.iter().map(|one| (*one).clone()).collect();
                stored(&Json::Array(all), self.ty)
            }
        };
        value.or_else(|problem| self.on_error.value(problem.fault(&self.name)))
    }
}

impl Otherwise {
    fn value(&self, fault: JsonFault) -> Result<Value<'static>, JsonFault> {
        match self {
            Self::Null => Ok(Value::Null),
            Self::Error => Err(fault),
            Self::Default(value) => Ok(value.clone()),
        }
    }
}

/// Why a value is none of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Problem {
    NotScalar,
    Range,
    Incorrect,
}

impl Problem {
    fn fault(self, column: &str) -> JsonFault {
        let column = column.to_owned();
        match self {
            Self::NotScalar => JsonFault::TableNotScalar(column),
            Self::Range => JsonFault::TableRange(column),
            Self::Incorrect => JsonFault::TableCast(column),
        }
    }
}

/// The default of a column; none if it is not one of the type.
#[must_use]
pub fn default_value(default: &Json, ty: ColumnType) -> Option<Value<'static>> {
    stored(default, ty).ok()
}

/// A JSON value as one of a column.
fn stored(value: &Json, ty: ColumnType) -> Result<Value<'static>, Problem> {
    let is_string = ty.is_string() && ty != ColumnType::Json;
    match value {
        _ if ty == ColumnType::Json => Ok(Value::text(value.to_string())),
        Json::Null => Ok(Value::Null),
        Json::Array(_) | Json::Object(_) => Err(Problem::NotScalar),
        _ if is_string => of_text(&value.clone().unquoted(), ty),
        // Dates and times are strings.
        Json::Bool(_) | Json::Number(_) if ty == ColumnType::Date || ty.fsp().is_some() => {
            Err(Problem::Incorrect)
        }
        _ => match value.scalar_text() {
            Some(text) => of_text(&text, ty),
            None => Err(Problem::NotScalar),
        },
    }
}

fn of_text(text: &str, ty: ColumnType) -> Result<Value<'static>, Problem> {
    match parse_text(ty, text.as_bytes()) {
        Ok(datum) => Ok(of_datum(datum.as_ref(), ty).into_owned()),
        Err(error) => match error.kind {
            ValueErrorKind::Incorrect | ValueErrorKind::Truncated => Err(Problem::Incorrect),
            _ => Err(Problem::Range),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    const INT: ColumnType = ColumnType::Int {
        bytes: 4,
        unsigned: false,
    };

    fn path(text: &str) -> Path {
        Path::parse(text).unwrap()
    }

    fn value(text: &str, otherwise: Otherwise) -> JsonColumn {
        JsonColumn::Value(Box::new(JsonValue {
            name: "c".to_owned(),
            ty: INT,
            path: path(text),
            on_empty: otherwise.clone(),
            on_error: otherwise,
        }))
    }

    fn rows(table: &JsonTable, document: &str) -> Result<Vec<String>, JsonFault> {
        let mut rows = Vec::new();
        table.rows(&Json::parse(document).unwrap(), &mut |row| {
            let cells = row.iter().map(|value| match value {
                Value::Null => "-".to_owned(),
                Value::Int(v) => v.to_string(),
                Value::UInt(v) => v.to_string(),
                other => format!("{other:?}"),
            });
            rows.push(cells.collect::<Vec<_>>().join(" "));
            Ok::<_, JsonFault>(())
        })?;
        Ok(rows)
    }

    #[test]
    fn nested_paths_give_rows_of_their_own() {
        let nested = |text| {
            JsonColumn::Nested(JsonTable {
                path: path(text),
                columns: vec![JsonColumn::Ordinality, value("$", Otherwise::Null)],
            })
        };
        let table = JsonTable {
            path: path("$[*]"),
            columns: vec![
                value("$.a", Otherwise::Null),
                nested("$.b[*]"),
                nested("$.c[*]"),
                JsonColumn::Ordinality,
            ],
        };
        let document = r#"[{"a": 1, "b": [2, "x"], "c": [4]}, {"a": "5"}, {"b": [], "c": [null]}]"#;
        assert_eq!(
            rows(&table, document).unwrap(),
            [
                "1 1 2 - - 1",
                "1 2 - - - 1",
                "1 - - 1 4 1",
                "5 - - - - 2",
                "- - - 1 - 3"
            ]
        );
        assert!(rows(&table, "{}").unwrap().is_empty());
    }

    #[test]
    fn columns_say_what_there_is_for_nothing_and_for_the_wrong_thing() {
        let table = |otherwise| JsonTable {
            path: path("$"),
            columns: vec![value("$.a", otherwise)],
        };
        let default = || table(Otherwise::Default(Value::Int(9)));
        assert_eq!(rows(&default(), "{}").unwrap(), ["9"]);
        assert_eq!(rows(&default(), r#"{"a": [1]}"#).unwrap(), ["9"]);
        assert_eq!(rows(&default(), r#"{"a": null}"#).unwrap(), ["-"]);
        let error = |document| rows(&table(Otherwise::Error), document).unwrap_err();
        let name = || "c".to_owned();
        assert_eq!(error("{}"), JsonFault::TableMissing(name()));
        assert_eq!(error(r#"{"a": {}}"#), JsonFault::TableNotScalar(name()));
        assert_eq!(error(r#"{"a": 3000000000}"#), JsonFault::TableRange(name()));
        assert_eq!(error(r#"{"a": "x"}"#), JsonFault::TableCast(name()));
    }
}
