//! INSERT and REPLACE: rows from VALUES, SET or a query, converted strictly or with IGNORE, and what
//! becomes of those whose key exists.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Insert, InsertAliases, MysqlInsertPriority, ObjectName,
    OnInsert, Query, SetExpr, TableObject, UnaryOperator, Value,
};
use perigee_engine::EngineError;
use perigee_engine::catalog::{ColumnDef, Table};
use perigee_engine::scan::CancelToken;
use perigee_engine::txn::{DuplicateRow, LockMode, LockWait, RowLock, Written};
use perigee_value::{ColumnType, Datum, RowError, ValueError, ValueErrorKind, parse_text};

use super::auto_increment::Generator;
use super::dml::{Budget, Converter, OnDuplicate, implicit_default, row_of};
use super::locking::lock_mode;
use super::select::{self, Reading};
use super::transaction::Work;
use super::{Session, set};
use crate::error::{Result, SqlError};
use crate::parse::Piece;
use crate::plan::rewrite::Rewritten;
use crate::result::OkResult;
use crate::values::{self, Column};

/// Rows that are given to the engine at a time.
const ROWS: usize = 4096;

/// Runs an INSERT or REPLACE.
pub(super) async fn run(
    session: &mut Session,
    insert: Insert,
    piece: Piece<'_>,
    cancel: &CancelToken,
) -> Result<OkResult> {
    let statement = Statement::new(session, insert, piece)?;
    let mut work = session.begin_work(cancel);
    let outcome = loop {
        match statement.attempt(session, &mut work, piece, cancel).await {
            Err(error) if work.may_restart(&error) => {
                if let Err(error) = work.restart().await {
                    break Err(error);
                }
            }
            outcome => break outcome,
        }
    };
    let (counts, converter, mut generator) = session.end_work(work, outcome).await?;
    let warnings = converter.report(session);
    let ok = statement.result(&counts, warnings, session.info.found_rows);
    Ok(OkResult {
        last_insert_id: session.note_numbers(&mut generator),
        ..ok
    })
}

/// An INSERT or REPLACE.
struct Statement {
    name: ObjectName,
    table: Arc<Table>,
    targets: Targets,
    source: Rows,
    on_duplicate: Duplicates,
    ignore: bool,
}

/// Where the rows come from.
enum Rows {
    Values(Vec<Vec<Expr>>),
    Query(Box<Rewritten>),
}

/// What becomes of a row whose key exists.
enum Duplicates {
    /// An error, or with IGNORE a warning.
    Refused,
    /// It takes the place of the other.
    Replace,
    /// It changes the other.
    Update(Vec<Assignment>, Option<InsertAliases>),
}

/// What a statement did.
#[derive(Debug, Default)]
struct Counts {
    /// Rows given.
    records: u64,
    inserted: u64,
    /// Rows that REPLACE removed.
    deleted: u64,
    /// Rows that ON DUPLICATE KEY UPDATE changed.
    updated: u64,
    /// Rows that it found and left as they were.
    same: u64,
}

impl Statement {
    fn new(session: &Session, insert: Insert, piece: Piece<'_>) -> Result<Self> {
        check(&insert)?;
        let TableObject::TableName(name) = insert.table else {
            return Err(SqlError::not_supported("INSERT into this kind of table"));
        };
        let table = session.named_table(&name)?;
        let (columns, source) = match insert.source {
            Some(source) => (insert.columns, rows(session, source, piece)?),
            None if insert.assignments.is_empty() => {
                return Err(SqlError::not_supported("INSERT without VALUES"));
            }
            None => set_form(insert.assignments)?,
        };
        let targets = Targets::new(&table, &columns, insert.ignore)?;
        let on_duplicate = match insert.on {
            _ if insert.replace_into => Duplicates::Replace,
            None => Duplicates::Refused,
            Some(OnInsert::DuplicateKeyUpdate(assignments)) => {
                Duplicates::Update(assignments, insert.insert_alias)
            }
            Some(_) => return Err(SqlError::not_supported("ON CONFLICT")),
        };
        Ok(Self {
            name,
            table,
            targets,
            source,
            on_duplicate,
            ignore: insert.ignore,
        })
    }

    /// Inserts all rows.
    async fn attempt(
        &self,
        session: &Session,
        work: &mut Work,
        piece: Piece<'_>,
        cancel: &CancelToken,
    ) -> Result<(Counts, Converter, Generator)> {
        work.check_writable()?;
        let on_duplicate = match &self.on_duplicate {
            Duplicates::Update(assignments, alias) => {
                let what = (assignments.clone(), alias.as_ref());
                let (to, from) = ((&self.table, &self.name), (piece, cancel));
                let columns = self.targets.columns();
                Some(OnDuplicate::new(session, work, to, what, from, columns).await?)
            }
            _ => None,
        };
        let mut writer = Writer {
            statement: self,
            session,
            work,
            cancel,
            on_duplicate,
            converter: Converter::new(self.ignore),
            counts: Counts::default(),
            generator: Generator::new(session, &self.table).await?,
        };
        writer.converter.warnings.extend(self.targets.warnings());
        match &self.source {
            Rows::Values(values) => writer.values(values, piece).await?,
            Rows::Query(query) => writer.query(query).await?,
        }
        Ok((writer.counts, writer.converter, writer.generator))
    }

    fn result(&self, counts: &Counts, warnings: usize, found_rows: bool) -> OkResult {
        let Counts {
            records,
            inserted,
            deleted,
            updated,
            same,
        } = *counts;
        let duplicates = match self.on_duplicate {
            Duplicates::Refused => records - inserted,
            Duplicates::Replace => deleted,
            Duplicates::Update(..) => updated,
        };
        let many = records > 1 || matches!(self.source, Rows::Query(_));
        let info = match many {
            true => format!("Records: {records}  Duplicates: {duplicates}  Warnings: {warnings}"),
            false => String::new(),
        };
        OkResult {
            affected_rows: inserted + deleted + 2 * updated + if found_rows { same } else { 0 },
            info,
            ..OkResult::default()
        }
    }
}

fn rows(session: &Session, source: Box<Query>, piece: Piece<'_>) -> Result<Rows> {
    let plain = source.with.is_none()
        && source.order_by.is_none()
        && source.limit_clause.is_none()
        && source.locks.is_empty();
    match *source.body {
        SetExpr::Values(values) if plain => {
            let rows = values.rows.into_iter().map(|row| row.content);
            Ok(Rows::Values(rows.collect()))
        }
        _ => {
            let rewritten = select::rewritten(session, source, piece)?;
            Ok(Rows::Query(Box::new(rewritten)))
        }
    }
}

/// `INSERT … SET a = 1, b = 2`.
fn set_form(assignments: Vec<Assignment>) -> Result<(Vec<ObjectName>, Rows)> {
    let (mut columns, mut values) = (Vec::new(), Vec::new());
    for Assignment { target, value } in assignments {
        let AssignmentTarget::ColumnName(name) = target else {
            return Err(SqlError::not_supported("an assignment to several columns"));
        };
        columns.push(name);
        values.push(value);
    }
    Ok((columns, Rows::Values(vec![values])))
}

/// An INSERT that runs.
struct Writer<'a> {
    statement: &'a Statement,
    session: &'a Session,
    work: &'a mut Work,
    cancel: &'a CancelToken,
    on_duplicate: Option<OnDuplicate>,
    converter: Converter,
    counts: Counts,
    generator: Generator,
}

impl Writer<'_> {
    async fn values(&mut self, values: &[Vec<Expr>], piece: Piece<'_>) -> Result<()> {
        let mut rows = Vec::new();
        for (i, row) in values.iter().enumerate() {
            let number = i as u64 + 1;
            rows.push(self.row(row, number, piece).await?);
            if rows.len() == ROWS || i + 1 == values.len() {
                self.insert(&mut rows).await?;
            }
        }
        Ok(())
    }

    /// A row of VALUES.
    async fn row(&mut self, values: &[Expr], number: u64, piece: Piece<'_>) -> Result<Vec<Datum>> {
        let targets = &self.statement.targets;
        let Targets { table, columns, .. } = targets;
        let mut row = self.statement.targets.defaults();
        // `VALUES ()` is a row of defaults.
        if values.is_empty() && columns.len() == table.def.columns.len() {
            for (column, value) in row.iter_mut().enumerate() {
                let column = targets.column(column);
                if column.default.is_none() && !column.nullable {
                    *value = self.missing(column)?;
                }
            }
            return Ok(row);
        }
        if values.len() != columns.len() {
            return Err(SqlError::value_count(number));
        }
        for (value, column) in values.iter().zip(columns) {
            let def = targets.column(*column);
            row[*column] = match simple_literal(value) {
                Some(Simple::Default) if def.default.is_none() && !def.nullable => {
                    self.missing(def)?
                }
                Some(Simple::Default) => continue,
                Some(Simple::Null) => self.converter.not_null(Datum::Null, def)?,
                Some(literal) => {
                    let text = literal.text();
                    self.converter.text(text.as_bytes(), def, number)?
                }
                None => {
                    let (value, from) = self.evaluate(value, piece).await?;
                    self.converter.value(value, from, def, number)?
                }
            };
        }
        Ok(row)
    }

    /// What a column gets that has no default.
    fn missing(&mut self, column: &ColumnDef) -> Result<Datum> {
        let error = SqlError::no_default(&column.name);
        match implicit_default(column.ty).filter(|_| self.statement.ignore) {
            Some(value) => {
                self.converter.warnings.push(error);
                Ok(value)
            }
            None => Err(error),
        }
    }

    /// The value of an expression without columns.
    async fn evaluate(&mut self, expr: &Expr, piece: Piece<'_>) -> Result<(Datum, ColumnType)> {
        let query = set::query_of(vec![expr.clone()])?;
        let rewritten = select::rewritten(self.session, query, piece)?;
        let reading = match rewritten.accesses.is_empty() {
            true => Reading::snapshot(self.session.frontend.engine.read_view(), self.cancel),
            false => self.work.reading(self.cancel).await,
        };
        let prepared = select::plan(self.session, rewritten, reading).await?;
        let mut stream = self.session.frontend.start(&prepared);
        while let Some(batch) = select::guarded(&mut stream, self.cancel).await? {
            if batch.num_rows() > 0 {
                let column = Column::new(batch.column(0), prepared.schema.field(0))?;
                return Ok((column.datum(0), column.ty()));
            }
        }
        Err(SqlError::unknown("Q7: an expression without a value"))
    }

    /// The rows of INSERT … SELECT: as they come, or if the query reads the table, when it has ended.
    async fn query(&mut self, query: &Rewritten) -> Result<()> {
        let mut reading = self.work.reading(self.cancel).await;
        if let Some(clause) = query.locks.first() {
            reading.locker = Some(self.work.locker(lock_mode(clause)));
        }
        let prepared = select::plan(self.session, query.clone(), reading).await?;
        let columns = self.statement.targets.columns();
        if prepared.schema.fields().len() != columns.len() {
            return Err(SqlError::value_count(1));
        }
        let def = &self.statement.table.def;
        let meets_itself = query
            .accesses
            .iter()
            .any(|a| a.schema == def.schema && a.table == def.name);
        let mut budget = Budget::new(self.session);
        let mut stream = self.session.frontend.start(&prepared);
        let (mut rows, mut number) = (Vec::new(), 0);
        while let Some(batch) = select::guarded(&mut stream, self.cancel).await? {
            let fields = prepared.schema.fields();
            let values = batch.columns().iter().zip(fields);
            let values = values
                .map(|(array, field)| Column::new(array, field))
                .collect::<Result<Vec<_>>>()?;
            for at in 0..batch.num_rows() {
                number += 1;
                let mut row = self.statement.targets.defaults();
                for (value, column) in values.iter().zip(columns) {
                    let def = self.statement.targets.column(*column);
                    let converted =
                        self.converter
                            .value(value.datum(at), value.ty(), def, number)?;
                    row[*column] = converted;
                }
                if meets_itself {
                    budget.take(row.iter().map(values::size).sum())?;
                }
                rows.push(row);
                if rows.len() == ROWS && !meets_itself {
                    self.insert(&mut rows).await?;
                }
            }
        }
        self.insert(&mut rows).await
    }

    /// Inserts some rows.
    async fn insert(&mut self, rows: &mut Vec<Vec<Datum>>) -> Result<()> {
        let Statement {
            table,
            on_duplicate,
            ignore,
            ..
        } = self.statement;
        let plain = matches!(on_duplicate, Duplicates::Refused) && !ignore;
        for rows in rows.chunks_mut(if plain { ROWS } else { 1 }) {
            if self.cancel.is_cancelled() {
                return Err(SqlError::interrupted());
            }
            let first = self.counts.records;
            self.counts.records += rows.len() as u64;
            for row in rows.iter_mut() {
                self.generator.fill(row)?;
            }
            let before = self.counts.inserted;
            if plain {
                let inserted = self.work.transaction().insert(table, rows).await;
                self.counts.inserted += inserted.map_err(|e| engine_error(e, table, first))?;
            } else {
                self.insert_row(&rows[0]).await?;
            }
            self.generator.done(self.counts.inserted > before);
        }
        rows.clear();
        Ok(())
    }

    /// Inserts a row that may meet another one.
    async fn insert_row(&mut self, row: &[Datum]) -> Result<()> {
        let table = &self.statement.table;
        let number = self.counts.records;
        let error = |e| engine_error(e, table, number - 1);
        loop {
            let transaction = self.work.transaction();
            let written = transaction.insert_row(table, row).await;
            let Written::Duplicate(other) = written.map_err(error)? else {
                self.counts.inserted += 1;
                return Ok(());
            };
            let done = match self.statement.on_duplicate {
                Duplicates::Refused => {
                    self.converter.duplicate(duplicate_error(table, &other))?;
                    true
                }
                Duplicates::Replace => self.replace(row, &other).await?,
                Duplicates::Update(..) => self.update(row, &other).await?,
            };
            if done {
                return Ok(());
            }
        }
    }

    /// Puts a row in the place of another one; false if it is to be inserted again.
    async fn replace(&mut self, row: &[Datum], other: &DuplicateRow) -> Result<bool> {
        let table = &self.statement.table;
        let error = |e| engine_error(e, table, self.counts.records - 1);
        let transaction = self.work.transaction();
        // With the last unique key no other row can be in the way, so one change does.
        if table.indexes.iter().rposition(|index| index.unique) == Some(other.index) {
            let written = transaction.update_row(table, &other.key, row).await;
            match written.map_err(error)? {
                Written::Done => {
                    self.counts.deleted += 1;
                    self.counts.inserted += 1;
                    return Ok(true);
                }
                Written::Unchanged => {
                    self.counts.inserted += 1;
                    return Ok(true);
                }
                Written::Missing => return Ok(false),
                Written::Duplicate(_) => {}
            }
        }
        let deleted = transaction.delete_row(table, &other.key).await;
        if matches!(deleted.map_err(error)?, Written::Done) {
            self.counts.deleted += 1;
        }
        Ok(false)
    }

    /// ON DUPLICATE KEY UPDATE of the row in the way; false if it went and the row is to be inserted
    /// again.
    async fn update(&mut self, row: &[Datum], other: &DuplicateRow) -> Result<bool> {
        let table = &self.statement.table;
        let number = self.counts.records;
        let error = |e| engine_error(e, table, number - 1);
        let transaction = self.work.transaction();
        let lock = transaction.lock_row(table, &other.key, LockMode::Exclusive, LockWait::Wait);
        let RowLock::Locked(Some(record)) = lock.await.map_err(error)? else {
            return Ok(false);
        };
        let mut changed = row_of(table, &record);
        let on_duplicate = self.on_duplicate.as_mut().expect("it was planned before");
        let assigned = on_duplicate.values(
            self.session,
            (&changed, row),
            (number, &mut self.converter),
            self.cancel,
        );
        for (column, value) in assigned.await? {
            changed[column] = value;
        }
        let written = transaction.update_row(table, &other.key, &changed).await;
        match written.map_err(error)? {
            Written::Done => self.counts.updated += 1,
            Written::Unchanged => self.counts.same += 1,
            Written::Missing => return Ok(false),
            Written::Duplicate(third) => {
                self.converter.duplicate(duplicate_error(table, &third))?;
            }
        }
        Ok(true)
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
    refuse(insert.partitioned.is_some(), "PARTITION")?;
    refuse(
        insert.returning.is_some() || insert.output.is_some(),
        "RETURNING",
    )?;
    // LOW_PRIORITY and HIGH_PRIORITY have no meaning for tables with row locks.
    refuse(
        matches!(insert.priority, Some(MysqlInsertPriority::Delayed)),
        "DELAYED",
    )?;
    refuse(insert.table_alias.is_some(), "an alias in INSERT")?;
    refuse(
        insert.insert_alias.is_some() && insert.on.is_none(),
        "a row alias without ON DUPLICATE KEY UPDATE",
    )?;
    refuse(!insert.optimizer_hints.is_empty(), "hints in INSERT")?;
    refuse(
        insert.overwrite || insert.or.is_some(),
        "this form of INSERT",
    )
}

/// The query of INSERT … SELECT, for EXPLAIN; the table in any case.
pub(super) fn explained(
    session: &Session,
    insert: Insert,
    piece: Piece<'_>,
) -> Result<(Arc<Table>, Option<Rewritten>)> {
    let statement = Statement::new(session, insert, piece)?;
    let query = match statement.source {
        Rows::Query(query) => Some(*query),
        Rows::Values(_) => None,
    };
    Ok((statement.table, query))
}

/// The columns that an INSERT or LOAD DATA gives values for.
pub(super) struct Targets {
    table: Arc<Table>,
    /// Table column of each value.
    columns: Vec<usize>,
    /// The AUTO_INCREMENT column with its place: NULL asks for a number.
    numbered: Option<(usize, ColumnDef)>,
}

impl Targets {
    fn new(table: &Arc<Table>, columns: &[ObjectName], ignore: bool) -> Result<Self> {
        let mut names = Vec::new();
        for column in columns {
            let last = column.0.last().and_then(|part| part.as_ident());
            let ident = last.ok_or_else(|| SqlError::not_supported("a function as a name"))?;
            names.push(ident.value.as_str());
        }
        let targets = Self::found(table, &names)?;
        let wrong = |column: &&ColumnDef| !ignore || implicit_default(column.ty).is_none();
        let error = targets.missing().find(wrong);
        let error = error.map(|column| SqlError::no_default(&column.name));
        error.map_or(Ok(targets), Err)
    }

    pub(super) fn named(table: &Arc<Table>, names: &[&str]) -> Result<Self> {
        let targets = Self::found(table, names)?;
        let error = targets.warnings().next();
        error.map_or(Ok(targets), Err)
    }

    fn found(table: &Arc<Table>, names: &[&str]) -> Result<Self> {
        let numbered = table.def.auto_increment.map(|auto| {
            let column = usize::from(auto.column);
            let def = ColumnDef {
                nullable: true,
                ..table.def.columns[column].clone()
            };
            (column, def)
        });
        if names.is_empty() {
            let columns = (0..table.def.columns.len()).collect();
            return Ok(Self {
                table: table.clone(),
                columns,
                numbered,
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
        Ok(Self {
            table: table.clone(),
            columns,
            numbered,
        })
    }

    /// A column of the table as statements may give values for it.
    fn column(&self, column: usize) -> &ColumnDef {
        match &self.numbered {
            Some((numbered, def)) if *numbered == column => def,
            _ => &self.table.def.columns[column],
        }
    }

    /// Columns that need a value and get none.
    fn missing(&self) -> impl Iterator<Item = &ColumnDef> {
        let columns = (0..self.table.def.columns.len()).map(|i| (i, self.column(i)));
        columns
            .filter(|(i, column)| {
                !self.columns.contains(i) && column.default.is_none() && !column.nullable
            })
            .map(|(_, column)| column)
    }

    /// The errors about such columns, with IGNORE warnings.
    fn warnings(&self) -> impl Iterator<Item = SqlError> {
        self.missing()
            .map(|column| SqlError::no_default(&column.name))
    }

    /// Table columns in the order of the values.
    pub(super) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// A row with every column's default.
    pub(super) fn defaults(&self) -> Vec<Datum> {
        let mut row: Vec<Datum> = self
            .table
            .def
            .columns
            .iter()
            .map(|column| column.default.clone().unwrap_or(Datum::Null))
            .collect();
        for column in self.missing() {
            let at = self.table.def.column(&column.name);
            let value = implicit_default(column.ty).unwrap_or(Datum::Null);
            row[at.expect("it is the table's")] = value;
        }
        row
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
    /// Its text, from which columns parse it.
    fn text(self) -> String {
        match self {
            Self::Null | Self::Default => String::new(),
            Self::Number(text) | Self::Text(text) => text,
            Self::Truth(v) => if v { "1" } else { "0" }.to_owned(),
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
        Some(Simple::Null) => Ok(Datum::Null),
        Some(literal) => {
            parse_text(ty, literal.text().as_bytes()).map_err(|e| value_error(&e, "?", 1))
        }
    }
}

/// The error about a row whose key exists.
pub(super) fn duplicate_error(table: &Table, other: &DuplicateRow) -> SqlError {
    let index = &table.indexes[other.index].name;
    SqlError::duplicate_entry(&other.value, format!("{}.{index}", table.def.name))
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
