//! What the engine and values say of rows, as MySQL says it: with names and row numbers.

use perigee_engine::EngineError;
use perigee_engine::catalog::Table;
use perigee_engine::txn::DuplicateRow;
use perigee_value::json::JsonErrorKind;
use perigee_value::{ColumnType, RowError, ValueError, ValueErrorKind};

use crate::error::SqlError;

/// The error about a row whose key exists.
pub(in crate::session) fn duplicate_error(table: &Table, other: &DuplicateRow) -> SqlError {
    let index = &table.indexes[other.index].name;
    SqlError::duplicate_entry(&other.value, format!("{}.{index}", table.def.name))
}

/// An engine's error with names and row numbers; `first` rows of the statement came before.
pub(in crate::session) fn engine_error(error: EngineError, table: &Table, first: u64) -> SqlError {
    match error {
        EngineError::Row { number, error } => row_error(&error, table, first + number + 1),
        EngineError::DuplicateKey { index, value } => {
            // MySQL names the key with its table.
            let key = match index.contains('.') {
                true => index,
                false => format!("{}.{index}", table.def.name),
            };
            SqlError::duplicate_entry(value, key)
        }
        other => other.into(),
    }
}

/// A row that cannot be stored.
pub(in crate::session) fn row_error(error: &RowError, table: &Table, row: u64) -> SqlError {
    match error {
        RowError::Column { column, error } => {
            let name = table
                .def
                .columns
                .get(usize::from(*column))
                .map_or("", |c| &c.name);
            value_error(error, name, row)
        }
        RowError::ColumnCount { .. } => SqlError::value_count(row),
        RowError::RowTooLong(_) => SqlError::row_too_long(perigee_value::MAX_RECORD_LEN),
        RowError::KeyTooLong(_) => SqlError::key_too_long(perigee_value::MAX_KEY_LEN),
    }
}

/// A value that does not fit its column.
pub(in crate::session) fn value_error(error: &ValueError, column: &str, row: u64) -> SqlError {
    let kind = match error.ty {
        ColumnType::Int { .. } | ColumnType::Year => "integer",
        ColumnType::Bit { .. } => "bit",
        ColumnType::Decimal { .. } => "decimal",
        ColumnType::Float | ColumnType::Double => "double",
        ColumnType::Date => "date",
        ColumnType::DateTime { .. } | ColumnType::Timestamp { .. } => "datetime",
        ColumnType::Time { .. } => "time",
        ColumnType::Char { .. } | ColumnType::Varchar { .. } | ColumnType::Long { .. } => "string",
        ColumnType::Json => "json",
    };
    match error.kind {
        ValueErrorKind::OutOfRange if kind == "time" => {
            SqlError::incorrect_temporal_for_column(kind, &error.value, column, row)
        }
        ValueErrorKind::OutOfRange => SqlError::out_of_range(column, row),
        ValueErrorKind::Truncated => SqlError::data_truncated(column, row),
        ValueErrorKind::Incorrect if matches!(kind, "date" | "datetime" | "time") => {
            SqlError::incorrect_temporal_for_column(kind, &error.value, column, row)
        }
        ValueErrorKind::Incorrect => SqlError::incorrect_value(kind, &error.value, column, row),
        ValueErrorKind::TooLong => SqlError::data_too_long(column, row),
        ValueErrorKind::NullNotAllowed => SqlError::null_not_allowed(column),
        ValueErrorKind::Json(error) if error.kind == JsonErrorKind::TooDeep => {
            SqlError::json_too_deep()
        }
        ValueErrorKind::Json(error) => SqlError::invalid_json_text(error.kind, error.at, column),
        ValueErrorKind::Corrupt => SqlError::corrupt(error),
    }
}
