//! INSERT: values converted in strict mode, one transaction a statement.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::sql::sqlparser::ast::{
    Expr, Insert, ObjectName, SetExpr, TableObject, UnaryOperator, Value,
};
use perigee_engine::EngineError;
use perigee_engine::catalog::Table;
use perigee_engine::scan::CancelToken;
use perigee_value::{ColumnType, Datum, RowError, ValueError, ValueErrorKind, parse_text};
use std::sync::Arc;

use super::{Session, select, set};
use crate::access::constant;
use crate::error::{Result, SqlError};
use crate::parse::{Piece, Script};
use crate::result::OkResult;

/// Rows that are given to the engine at a time.
const ROWS: usize = 4096;

/// Runs an INSERT.
pub(super) async fn run(
    session: &mut Session,
    insert: Insert,
    cancel: &CancelToken,
) -> Result<OkResult> {
    check(&insert)?;
    let TableObject::TableName(name) = &insert.table else {
        return Err(SqlError::not_supported("INSERT into this kind of table"));
    };
    let table = session.named_table(name)?;
    let targets = Targets::new(&table, &insert.columns)?;
    let Some(source) = insert.source else {
        return Err(SqlError::not_supported("INSERT without VALUES"));
    };
    let mut transaction = session
        .frontend
        .engine
        .begin(perigee_engine::txn::TransactionOptions::default());
    let outcome = match *source.body {
        SetExpr::Values(values) => {
            let plain =
                source.with.is_none() && source.order_by.is_none() && source.limit_clause.is_none();
            if !plain || values.explicit_row {
                return Err(SqlError::not_supported(
                    "VALUES with ROW, WITH, ORDER BY or LIMIT",
                ));
            }
            let mut count = 0;
            let mut rows = Vec::new();
            let mut outcome = Ok(());
            let total = values.rows.len();
            for (i, row) in values.rows.into_iter().enumerate() {
                match targets
                    .row(session, row.content, i as u64 + 1, cancel)
                    .await
                {
                    Ok(row) => rows.push(row),
                    Err(error) => {
                        outcome = Err(error);
                        break;
                    }
                }
                if rows.len() == ROWS || i + 1 == total {
                    let first = i as u64 + 1 - rows.len() as u64;
                    if cancel.is_cancelled() {
                        outcome = Err(SqlError::interrupted());
                        break;
                    }
                    match transaction.insert(&table, &rows).await {
                        Ok(inserted) => count += inserted,
                        Err(error) => {
                            outcome = Err(engine_error(error, &table, first));
                            break;
                        }
                    }
                    rows.clear();
                }
            }
            outcome.map(|()| count)
        }
        _ => return Err(SqlError::not_supported("INSERT … SELECT")),
    };
    match outcome {
        Ok(count) => {
            transaction.commit().await?;
            session.note_change();
            let info = if count > 1 {
                format!("Records: {count}  Duplicates: 0  Warnings: 0")
            } else {
                String::new()
            };
            Ok(OkResult {
                affected_rows: count,
                info,
                ..OkResult::default()
            })
        }
        Err(error) => {
            transaction.rollback().await?;
            Err(error)
        }
    }
}

fn check(insert: &Insert) -> Result<()> {
    let refuse = |present: bool, feature: &str| {
        if present {
            Err(SqlError::not_supported(feature))
        } else {
            Ok(())
        }
    };
    refuse(insert.replace_into, "REPLACE")?;
    refuse(insert.ignore, "INSERT IGNORE")?;
    refuse(insert.on.is_some(), "ON DUPLICATE KEY UPDATE")?;
    refuse(!insert.assignments.is_empty(), "INSERT … SET")?;
    refuse(insert.partitioned.is_some(), "PARTITION")?;
    refuse(
        insert.returning.is_some() || insert.output.is_some(),
        "RETURNING",
    )?;
    refuse(
        insert.priority.is_some(),
        "LOW_PRIORITY, DELAYED, HIGH_PRIORITY",
    )?;
    refuse(
        insert.insert_alias.is_some() || insert.table_alias.is_some(),
        "an alias in INSERT",
    )?;
    refuse(!insert.optimizer_hints.is_empty(), "hints in INSERT")?;
    refuse(
        insert.overwrite || insert.or.is_some(),
        "this form of INSERT",
    )
}

/// The columns that an INSERT or LOAD DATA gives values for.
pub(super) struct Targets {
    table: Arc<Table>,
    /// Table column of each value.
    columns: Vec<usize>,
}

impl Targets {
    pub(super) fn new(table: &Arc<Table>, columns: &[ObjectName]) -> Result<Self> {
        let mut names = Vec::new();
        for column in columns {
            let last = column.0.last().and_then(|part| part.as_ident());
            let ident = last.ok_or_else(|| SqlError::not_supported("a function as a name"))?;
            names.push(ident.value.as_str());
        }
        Self::named(table, &names)
    }

    pub(super) fn named(table: &Arc<Table>, names: &[&str]) -> Result<Self> {
        if names.is_empty() {
            let columns = (0..table.def.columns.len()).collect();
            return Ok(Self {
                table: table.clone(),
                columns,
            });
        }
        let mut columns = Vec::with_capacity(names.len());
        for name in names {
            let column = table
                .def
                .column(name)
                .ok_or_else(|| SqlError::unknown_column(name, "field list"))?;
            if columns.contains(&column) {
                return Err(SqlError::column_twice(name));
            }
            columns.push(column);
        }
        let targets = Self {
            table: table.clone(),
            columns,
        };
        for (i, column) in table.def.columns.iter().enumerate() {
            if !targets.columns.contains(&i) && column.default.is_none() && !column.nullable {
                return Err(SqlError::no_default(&column.name));
            }
        }
        Ok(targets)
    }

    /// Table columns in the order of the values.
    pub(super) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// A row with every column's default.
    pub(super) fn defaults(&self) -> Vec<Datum> {
        let default =
            |c: &perigee_engine::catalog::ColumnDef| c.default.clone().unwrap_or(Datum::Null);
        self.table.def.columns.iter().map(default).collect()
    }

    async fn row(
        &self,
        session: &Session,
        values: Vec<Expr>,
        number: u64,
        cancel: &CancelToken,
    ) -> Result<Vec<Datum>> {
        let mut row = self.defaults();
        // `VALUES ()` is a row of defaults.
        if values.is_empty() && self.columns.len() == self.table.def.columns.len() {
            for column in &self.table.def.columns {
                if column.default.is_none() && !column.nullable {
                    return Err(SqlError::no_default(&column.name));
                }
            }
            return Ok(row);
        }
        if values.len() != self.columns.len() {
            return Err(SqlError::value_count(number));
        }
        for (value, column) in values.into_iter().zip(&self.columns) {
            let def = &self.table.def.columns[*column];
            let datum = match simple_literal(&value) {
                Some(Simple::Default) => {
                    if def.default.is_none() && !def.nullable {
                        return Err(SqlError::no_default(&def.name));
                    }
                    continue;
                }
                Some(literal) => literal
                    .convert(def.ty)
                    .map_err(|e| value_error(&e, &def.name, number))?,
                None => evaluate(session, value, def.ty, &def.name, number, cancel).await?,
            };
            if datum.is_null() && !def.nullable {
                return Err(SqlError::null_not_allowed(&def.name));
            }
            row[*column] = datum;
        }
        Ok(row)
    }
}

/// A value that needs no evaluation.
enum Simple {
    Null,
    Default,
    /// A number as written, perhaps with a minus.
    Number(String),
    Text(String),
    Truth(bool),
}

impl Simple {
    fn convert(self, ty: ColumnType) -> std::result::Result<Datum, ValueError> {
        match self {
            Self::Null | Self::Default => Ok(Datum::Null),
            Self::Number(text) | Self::Text(text) => parse_text(ty, text.as_bytes()),
            Self::Truth(v) => parse_text(ty, if v { b"1" } else { b"0" }),
        }
    }
}

fn simple_literal(expr: &Expr) -> Option<Simple> {
    match expr {
        Expr::Nested(inner) => simple_literal(inner),
        Expr::Identifier(ident)
            if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("DEFAULT") =>
        {
            Some(Simple::Default)
        }
        Expr::Value(value) => match &value.value {
            Value::Null => Some(Simple::Null),
            Value::Number(text, _) => Some(Simple::Number(text.clone())),
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => {
                Some(Simple::Text(text.clone()))
            }
            Value::Boolean(v) => Some(Simple::Truth(*v)),
            _ => None,
        },
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => match simple_literal(expr)? {
            Simple::Number(text) => Some(Simple::Number(format!("-{text}"))),
            _ => None,
        },
        _ => None,
    }
}

/// The value of a literal, for DEFAULT.
pub(super) fn literal_datum(expr: &Expr, ty: ColumnType) -> Result<Datum> {
    match simple_literal(expr) {
        Some(Simple::Default) | None => Err(SqlError::not_supported(format!("DEFAULT {expr}"))),
        Some(literal) => literal.convert(ty).map_err(|e| value_error(&e, "?", 1)),
    }
}

/// The value of an expression without columns.
async fn evaluate(
    session: &Session,
    expr: Expr,
    ty: ColumnType,
    column: &str,
    row: u64,
    cancel: &CancelToken,
) -> Result<Datum> {
    let query = set::query_of(vec![expr])?;
    let script = Script::new("SELECT 1")?;
    let Some(piece) = script.pieces().next() else {
        return Err(SqlError::unknown("Q7: a text without statement"));
    };
    let piece: Piece<'_> = piece;
    let prepared = select::prepare(session, query, piece, cancel).await?;
    let mut stream = session.frontend.start(&prepared);
    while let Some(batch) = select::guarded(&mut stream, cancel).await? {
        if batch.num_rows() > 0 {
            let batch = select::shown(&batch, &prepared.schema)?;
            let (value, from) = datum_at(batch.column(0), 0)?;
            return ty
                .coerce(value, from)
                .map_err(|e| value_error(&e, column, row));
        }
    }
    Ok(Datum::Null)
}

/// A value of an array with its type.
fn datum_at(array: &ArrayRef, row: usize) -> Result<(Datum, ColumnType)> {
    use datafusion::arrow::datatypes::DataType;
    let bigint = ColumnType::Int {
        bytes: 8,
        unsigned: false,
    };
    if array.is_null(row) {
        return Ok((Datum::Null, bigint));
    }
    let scalar = datafusion::common::ScalarValue::try_from_array(array, row)?;
    let (datum, _) = constant(&scalar)
        .ok_or_else(|| SqlError::not_supported(format!("INSERT of {}", array.data_type())))?;
    let ty = match array.data_type() {
        DataType::Decimal128(precision, scale) => ColumnType::Decimal {
            precision: *precision,
            scale: *scale as u8,
        },
        DataType::Float64 | DataType::Float32 => ColumnType::Double,
        DataType::Date32 => ColumnType::Date,
        DataType::Timestamp(..) => ColumnType::DateTime { fsp: 6 },
        _ => bigint,
    };
    Ok((datum, ty))
}

/// An engine's error with names and row numbers; `first` rows of the statement came before.
pub(super) fn engine_error(error: EngineError, table: &Table, first: u64) -> SqlError {
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
pub(super) fn row_error(error: &RowError, table: &Table, row: u64) -> SqlError {
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
pub(super) fn value_error(error: &ValueError, column: &str, row: u64) -> SqlError {
    let kind = match error.ty {
        ColumnType::Int { .. } => "integer",
        ColumnType::Decimal { .. } => "decimal",
        ColumnType::Float | ColumnType::Double => "double",
        ColumnType::Date => "date",
        ColumnType::DateTime { .. } => "datetime",
        ColumnType::Char { .. } | ColumnType::Varchar { .. } => "string",
    };
    match error.kind {
        ValueErrorKind::OutOfRange => SqlError::out_of_range(column, row),
        ValueErrorKind::Truncated => SqlError::data_truncated(column, row),
        ValueErrorKind::Incorrect if matches!(kind, "date" | "datetime") => {
            SqlError::incorrect_temporal_for_column(kind, &error.value, column, row)
        }
        ValueErrorKind::Incorrect => SqlError::incorrect_value(kind, &error.value, column, row),
        ValueErrorKind::TooLong => SqlError::data_too_long(column, row),
        ValueErrorKind::NullNotAllowed => SqlError::null_not_allowed(column),
        ValueErrorKind::Corrupt => SqlError::corrupt(error),
    }
}
