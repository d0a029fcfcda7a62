//! INSERT and REPLACE: rows from VALUES, SET or a query, converted strictly or with IGNORE, and what
//! becomes of those whose key exists.

mod destination;
mod errors;
mod literal;
mod query_columns;
mod targets;

use std::sync::Arc;

use destination::Destination;
pub(super) use errors::{duplicate_error, engine_error, row_error, value_error};
use futures::{Stream, StreamExt};
use literal::{Simple, simple_literal};
pub(super) use literal::{literal_datum, number_for};
pub(super) use targets::Targets;

use perigee_accounts::Privileges;
use perigee_engine::catalog::{ColumnDef, Table};
use perigee_engine::scan::CancelToken;
use perigee_engine::txn::{DuplicateRow, LockMode, LockWait, RowLock, Written};
use perigee_expr::scalar::to_datum;
use perigee_sql_bind::query;
use perigee_value::{ColumnType, Datum, Now};
use sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Insert, InsertAliases, MysqlInsertPriority, ObjectName,
    OnInsert, Query, SetExpr, TableObject,
};

use super::auto_increment::Generator;
use super::checks::Checks;
use super::dml::{Budget, Converter, OnDuplicate, Strictness, assign, implicit_default, row_of};
use super::generated::{self, GeneratedColumns};
use super::locking::mode_of;
use super::select::{self, Reading};
use super::transaction::Work;
use super::{Session, bound, read_columns, scalars, set};
use crate::error::{Result, SqlError};
use crate::interrupt;
use crate::parse::{Footprint, Piece};
use crate::result::OkResult;
use crate::values::{self, Column};

/// Rows that are given to the engine at a time.
const ROWS: usize = 4096;

/// Bytes of rows that are given to the engine at a time.
const BYTES: usize = 16 << 20;

/// Runs an INSERT or REPLACE.
pub(super) async fn run(
    session: &mut Session,
    insert: Insert,
    piece: Piece<'_>,
    cancel: &CancelToken,
) -> Result<OkResult> {
    let statement = Statement::new(session, insert, piece)?;
    let mut warnings = 0;
    if let Rows::Query(query) = &statement.source {
        bound::warn(session, query);
        warnings = query.warnings.len();
    }
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
    warnings += converter.report(session);
    let ok = statement.result(&counts, warnings, session.info.found_rows);
    Ok(OkResult {
        last_insert_id: session.note_numbers(&mut generator),
        ..ok
    })
}

/// Rows that do not stand in the statement's text.
pub(super) struct RowBlock {
    /// Their values, for the columns that the statement names.
    pub rows: Vec<Vec<Expr>>,
    /// What is to be said of them.
    pub warnings: Vec<SqlError>,
}

/// What a statement with such rows did.
pub(super) struct Loaded {
    pub records: u64,
    pub inserted: u64,
    pub deleted: u64,
    pub warnings: usize,
    pub last_insert_id: u64,
}

/// Runs an INSERT or REPLACE with rows that come a block at a time; those of its VALUES come first.
///
/// # Errors
/// As an INSERT. The statement has changed nothing then.
pub(super) async fn run_blocks(
    session: &mut Session,
    insert: Insert,
    blocks: &mut (dyn Stream<Item = Result<RowBlock>> + Send + Unpin),
    piece: Piece<'_>,
    cancel: &CancelToken,
) -> Result<Loaded> {
    let statement = Statement::new(session, insert, piece)?;
    let mut work = session.begin_work(cancel);
    let outcome = statement
        .load(session, &mut work, blocks, piece, cancel)
        .await;
    let (counts, converter, mut generator) = session.end_work(work, outcome).await?;
    Ok(Loaded {
        records: counts.records,
        inserted: counts.inserted,
        deleted: counts.deleted,
        warnings: converter.report(session),
        last_insert_id: session.note_numbers(&mut generator),
    })
}

/// An INSERT or REPLACE.
struct Statement {
    name: ObjectName,
    table: Arc<Table>,
    targets: Targets,
    source: Rows,
    /// What the query delivers behind the values for ON DUPLICATE KEY UPDATE.
    brought: Vec<ColumnDef>,
    on_duplicate: Duplicates,
    ignore: bool,
    strictness: Strictness,
    checks: Option<Checks>,
    generated: Option<GeneratedColumns>,
}

/// Where the rows come from.
enum Rows {
    Values(Vec<Vec<Expr>>),
    Query(Arc<query::Query>),
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

/// What an INSERT or REPLACE needs of its table.
fn needed(replaces: bool, updates: bool) -> Privileges {
    match (replaces, updates) {
        (true, _) => Privileges::INSERT.with(Privileges::DELETE),
        (false, true) => Privileges::INSERT.with(Privileges::UPDATE),
        (false, false) => Privileges::INSERT,
    }
}

impl Statement {
    fn new(session: &Session, mut insert: Insert, piece: Piece<'_>) -> Result<Self> {
        check(&insert)?;
        let TableObject::TableName(name) = insert.table else {
            return Err(SqlError::not_supported("INSERT into this kind of table"));
        };
        let needed = needed(insert.replace_into, insert.on.is_some());
        session.check_named(needed, &name)?;
        let (columns, set) = match insert.assignments.is_empty() {
            true => (insert.columns, None),
            false => {
                let (columns, values) = set_form(insert.assignments)?;
                (columns, Some(values))
            }
        };
        let statement = match insert.replace_into {
            true => "REPLACE",
            false => "INSERT",
        };
        let to = Destination::new(session, name, columns, (needed, statement))?;
        session.check_locked(&to.table, true)?;
        if let Some(OnInsert::DuplicateKeyUpdate(assignments)) = &mut insert.on {
            to.name_table(assignments);
        }
        let mut named = 0;
        let source = match (set, insert.source) {
            (Some(values), _) => values,
            (None, Some(mut query)) => {
                if let (Some(OnInsert::DuplicateKeyUpdate(assignments)), None) =
                    (&mut insert.on, &insert.insert_alias)
                {
                    named = query_columns::bring_along(&mut query, assignments, &to.table.def)?;
                }
                rows(session, query, piece)?
            }
            (None, None) => return Err(SqlError::not_supported("INSERT without VALUES")),
        };
        let brought = match &source {
            Rows::Query(query) => query_columns::brought(query, named),
            Rows::Values(_) => Vec::new(),
        };
        let strictness = Strictness::new(session, insert.ignore);
        let is_one_row = matches!(&source, Rows::Values(rows) if rows.len() == 1);
        let strictness = match is_one_row && piece.more_rows.is_empty() {
            true => strictness.of_one_row(),
            false => strictness,
        };
        let on = (insert.on, insert.insert_alias);
        Ok(Self {
            targets: to.targets(strictness.adjusts())?,
            on_duplicate: Self::duplicates(session, &to, insert.replace_into, on)?,
            checks: Checks::through(to.view(), &to.table.def, session.zone())?,
            generated: GeneratedColumns::of(&to.table.def, session.zone())?,
            name: to.name,
            table: to.table,
            source,
            brought,
            ignore: insert.ignore,
            strictness,
        })
    }

    /// What becomes of rows whose keys exist.
    fn duplicates(
        session: &Session,
        to: &Destination,
        replaces: bool,
        (on, alias): (Option<OnInsert>, Option<InsertAliases>),
    ) -> Result<Duplicates> {
        match on {
            _ if replaces => Ok(Duplicates::Replace),
            None => Ok(Duplicates::Refused),
            Some(OnInsert::DuplicateKeyUpdate(assignments)) => {
                to.check_assignments(&assignments)?;
                let read = read_columns::of_duplicate(&assignments, alias.as_ref());
                if let Some(column) = read {
                    to.check_column(session, &column)?;
                }
                Ok(Duplicates::Update(assignments, alias))
            }
            Some(_) => Err(SqlError::not_supported("ON CONFLICT")),
        }
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
        let now = session.now();
        let on_duplicate = match &self.on_duplicate {
            Duplicates::Update(assignments, alias) => {
                let what = (assignments.clone(), alias.as_ref());
                let (to, from) = ((&self.table, &self.name), (piece, cancel, now));
                let columns = (self.targets.columns(), &self.brought[..]);
                Some(OnDuplicate::new(session, work, to, what, from, columns).await?)
            }
            _ => None,
        };
        let mut writer = Writer {
            on_duplicate,
            ..self.writer(session, work, cancel).await?
        };
        match &self.source {
            Rows::Values(values) => writer.all_values(values, piece).await?,
            Rows::Query(query) => writer.query(query).await?,
        }
        Ok((writer.counts, writer.converter, writer.generator))
    }

    /// What inserts its rows, on no condition.
    async fn writer<'a>(
        &'a self,
        session: &'a Session,
        work: &'a mut Work,
        cancel: &'a CancelToken,
    ) -> Result<Writer<'a>> {
        let mut converter = Converter::new(self.strictness);
        converter.warnings.extend(self.targets.warnings());
        Ok(Writer {
            statement: self,
            session,
            work,
            cancel,
            on_duplicate: None,
            converter,
            counts: Counts::default(),
            generator: Generator::new(session, &self.table).await?,
            now: session.now(),
        })
    }

    /// Inserts rows that come a block at a time.
    async fn load(
        &self,
        session: &Session,
        work: &mut Work,
        blocks: &mut (dyn Stream<Item = Result<RowBlock>> + Send + Unpin),
        piece: Piece<'_>,
        cancel: &CancelToken,
    ) -> Result<(Counts, Converter, Generator)> {
        work.check_writable()?;
        let mut writer = self.writer(session, work, cancel).await?;
        let mut waiting = Waiting::default();
        while let Some(block) = blocks.next().await {
            let RowBlock { rows, warnings } = block?;
            writer.converter.warnings.extend(warnings);
            writer.values(&rows, piece, &mut waiting).await?;
            interrupt::check()?;
            // Other statements take their turns between two blocks.
            tokio::task::yield_now().await;
        }
        writer.insert(&mut waiting.rows).await?;
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
        // The text behind the rows was looked at before they were cut out of it.
        _ if !piece.more_rows.is_empty() => Err(SqlError::unknown("Q16: rows of no VALUES")),
        _ => {
            let query = bound::bound(session, &source, piece)?;
            Ok(Rows::Query(Arc::new(query)))
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

/// Rows of VALUES that are given to the engine together.
#[derive(Default)]
struct Waiting {
    rows: Vec<Vec<Datum>>,
    /// Bytes that they take.
    bytes: usize,
    /// Number of the last of them in the statement.
    number: u64,
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
    /// When the statement began.
    now: Now,
}

impl Writer<'_> {
    /// The rows of VALUES: those of the syntax tree, and those that are parsed now.
    async fn all_values(&mut self, values: &[Vec<Expr>], piece: Piece<'_>) -> Result<()> {
        let mut rows = Waiting::default();
        self.values(values, piece, &mut rows).await?;
        let mut more = piece.more_rows;
        let mut charge = self.session.frontend.memory.charge(0)?;
        let session = self.session;
        loop {
            let waiting = rows.bytes;
            let admit =
                |footprint: Footprint| session.admit(footprint.parsed() + waiting, &mut charge);
            let Some(block) = more.next_block(admit) else {
                break;
            };
            let block = block?;
            let done = self.values(&block.rows, block.piece(), &mut rows).await;
            if let Err(error) = done {
                // As if all had been parsed before the first was inserted.
                more.check()?;
                return Err(error);
            }
            interrupt::check()?;
            // Other statements take their turns between two blocks.
            tokio::task::yield_now().await;
        }
        self.insert(&mut rows.rows).await
    }

    async fn values(
        &mut self,
        values: &[Vec<Expr>],
        piece: Piece<'_>,
        waiting: &mut Waiting,
    ) -> Result<()> {
        for values in values {
            waiting.number += 1;
            let row = self.row(values, waiting.number, piece).await?;
            waiting.bytes += row.iter().map(values::size).sum::<usize>();
            waiting.rows.push(row);
            if waiting.rows.len() == ROWS || waiting.bytes > BYTES {
                self.insert(&mut waiting.rows).await?;
                waiting.bytes = 0;
            }
        }
        Ok(())
    }

    /// A row of VALUES.
    async fn row(&mut self, values: &[Expr], number: u64, piece: Piece<'_>) -> Result<Vec<Datum>> {
        let targets = &self.statement.targets;
        let Targets {
            table,
            columns,
            is_unnamed,
            ..
        } = targets;
        let mut row = self.statement.targets.defaults(self.now);
        // `VALUES ()` is a row of defaults.
        if values.is_empty() && *is_unnamed {
            for (column, value) in row.iter_mut().enumerate() {
                let column = targets.column(column);
                let is_computed = column.generated.is_some();
                if column.default_at(self.now).is_none() && !column.nullable && !is_computed {
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
                Some(Simple::Default) if def.generated.is_some() => continue,
                _ if def.generated.is_some() => return Err(generated::given(table, def)),
                Some(Simple::Default) if def.default_at(self.now).is_none() && !def.nullable => {
                    self.missing(def)?
                }
                Some(Simple::Default) => continue,
                Some(Simple::Null) => self.converter.not_null(Datum::Null, def)?,
                // No text, so it is refused.
                Some(Simple::Number(_) | Simple::Truth(_)) if def.ty == ColumnType::Json => self
                    .converter
                    .value(Datum::Bool(true), def.ty, def, number)?,
                Some(Simple::Number(text)) if def.members.is_some() => {
                    let ty = ColumnType::Double;
                    let value = Datum::Double(text.parse().unwrap_or_default());
                    self.converter.value(value, ty, def, number)?
                }
                Some(literal) => {
                    let text = literal.text(def);
                    self.converter.text(&text, def, number)?
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
        match implicit_default(column.ty).filter(|_| self.statement.strictness.adjusts()) {
            Some(value) => {
                self.converter.warnings.push(error);
                Ok(value)
            }
            None => Err(error),
        }
    }

    /// The value of an expression without columns.
    async fn evaluate(&mut self, expr: &Expr, piece: Piece<'_>) -> Result<(Datum, ColumnType)> {
        if let Some((value, ty)) = scalars::value_of(self.session, expr, self.now, self.cancel)? {
            return Ok(to_datum(value, &ty));
        }
        let query = set::query_of(vec![expr.clone()])?;
        let bound = Arc::new(bound::bound(self.session, &query, piece)?);
        let reading = match bound.tables.is_empty() {
            true => Reading::snapshot(self.session.current_view(), self.cancel),
            false => self.work.reading(self.cancel).await,
        };
        let prepared = select::plan(self.session, &bound, reading).await?;
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
    async fn query(&mut self, query: &Arc<query::Query>) -> Result<()> {
        let mut reading = self.work.reading(self.cancel).await;
        if let Some(lock) = query.locks.first() {
            let mode = mode_of(lock.strength);
            reading.locker = Some(self.work.locker(mode));
        }
        let prepared = select::plan(self.session, query, reading).await?;
        let columns = self.statement.targets.columns();
        let brought = &self.statement.brought;
        if prepared.schema.fields().len() != columns.len() + brought.len() {
            return Err(SqlError::value_count(1));
        }
        let def = &self.statement.table.def;
        if let Some(column) = GeneratedColumns::first_of(def, columns) {
            return Err(generated::given(&self.statement.table, column));
        }
        let meets_itself = query
            .tables
            .iter()
            .any(|table| *table.schema == *def.schema && *table.name == *def.name);
        let mut budget = Budget::new(self.session)?;
        let mut stream = self.session.frontend.start(&prepared);
        let (mut rows, mut number, mut bytes) = (Vec::new(), 0, 0);
        while let Some(batch) = select::guarded(&mut stream, self.cancel).await? {
            let fields = prepared.schema.fields();
            let values = batch.columns().iter().zip(fields);
            let values = values
                .map(|(array, field)| Column::new(array, field))
                .collect::<Result<Vec<_>>>()?;
            for at in 0..batch.num_rows() {
                number += 1;
                let mut row = self.statement.targets.defaults(self.now);
                for (value, column) in values.iter().zip(columns) {
                    let def = self.statement.targets.column(*column);
                    let converted =
                        self.converter
                            .value(value.datum(at), value.ty(), def, number)?;
                    row[*column] = converted;
                }
                for (value, def) in values[columns.len()..].iter().zip(brought) {
                    let converted =
                        self.converter
                            .value(value.datum(at), value.ty(), def, number)?;
                    row.push(converted);
                }
                let size = row.iter().map(values::size).sum();
                if meets_itself {
                    budget.take(size)?;
                }
                bytes += size;
                rows.push(row);
                if (rows.len() == ROWS || bytes > BYTES) && !meets_itself {
                    self.insert(&mut rows).await?;
                    bytes = 0;
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
            for (number, row) in rows.iter_mut().enumerate() {
                self.generator.fill(row)?;
                self.compute(row, first + number as u64 + 1)?;
            }
            let before = self.counts.inserted;
            let (kept, violation) = self.kept(rows)?;
            // What is wrong with the rows before it comes first.
            if plain && !kept.is_empty() {
                let inserted = self.work.transaction().insert(table, kept).await;
                self.counts.inserted += inserted.map_err(|e| engine_error(e, table, first))?;
            } else if let Some(row) = kept.first() {
                self.insert_row(row).await?;
            }
            if let Some(error) = violation {
                self.converter.refused(error)?;
            }
            self.generator.done(self.counts.inserted > before);
        }
        rows.clear();
        Ok(())
    }

    /// Gives a row, the one with this number, its generated columns.
    fn compute(&mut self, row: &mut [Datum], number: u64) -> Result<()> {
        let Some(generated) = &self.statement.generated else {
            return Ok(());
        };
        let converter = &mut self.converter;
        let mut convert = |value: Datum, ty: ColumnType, column: &ColumnDef| {
            converter.value(value, ty, column, number)
        };
        let def = &self.statement.table.def;
        generated.fill(def, row, &mut convert, self.cancel)
    }

    /// The first of some rows, as far as they meet the checks, and what is wrong with the next one.
    fn kept<'r>(&self, rows: &'r [Vec<Datum>]) -> Result<(&'r [Vec<Datum>], Option<SqlError>)> {
        let Some(checks) = &self.statement.checks else {
            return Ok((rows, None));
        };
        let def = &self.statement.table.def;
        for (number, row) in rows.iter().enumerate() {
            if let Some(violation) = checks.violated(def, row, self.cancel)? {
                return Ok((&rows[..number], Some(violation)));
            }
        }
        Ok((rows, None))
    }

    /// Inserts a row that may meet another one; what was brought along stands behind its values.
    async fn insert_row(&mut self, row: &[Datum]) -> Result<()> {
        let table = &self.statement.table;
        let own = &row[..table.def.columns.len()];
        let number = self.counts.records;
        let error = |e| engine_error(e, table, number - 1);
        loop {
            let transaction = self.work.transaction();
            let written = transaction.insert_row(table, own).await;
            let written = match self.converter.allowed(written) {
                Ok(Some(written)) => written,
                Ok(None) => return Ok(()),
                Err(e) => return Err(error(e)),
            };
            let Written::Duplicate(other) = written else {
                self.counts.inserted += 1;
                return Ok(());
            };
            let done = match self.statement.on_duplicate {
                Duplicates::Refused => {
                    self.converter.refused(duplicate_error(table, &other))?;
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
        // Rows that refer to the other one would not learn that it went.
        let last = table.indexes.iter().rposition(|index| index.unique);
        if last == Some(other.index) && !transaction.is_referenced(table) {
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
        let mut existing = changed.clone();
        if table.has_long() {
            let engine = &self.session.frontend.engine;
            engine.fetch_long(&mut existing).await.map_err(error)?;
        }
        let on_duplicate = self.on_duplicate.as_mut().expect("it was planned before");
        let assigned = on_duplicate.values(
            self.session,
            (&existing, row),
            (number, &mut self.converter),
            self.cancel,
        );
        let assigned = assigned.await?;
        assign(table, &mut changed, &assigned, &existing, self.now);
        if let Some(generated) = &self.statement.generated {
            let (place, converter) = (
                (&*self.session.frontend.engine, &**table),
                &mut self.converter,
            );
            let mut convert = |value: Datum, ty: ColumnType, column: &ColumnDef| {
                converter.value(value, ty, column, number)
            };
            let rows = (&existing[..], &mut changed[..]);
            let computed = generated.follow(place, rows, &mut convert, self.cancel);
            computed.await?;
        }
        if let Some(checks) = &self.statement.checks {
            let engine = &self.session.frontend.engine;
            let violated = checks.stored_violates(engine, table, &changed, self.cancel);
            if let Some(violation) = violated.await? {
                self.converter.refused(violation)?;
                return Ok(true);
            }
        }
        let written = transaction.update_row(table, &other.key, &changed).await;
        let written = match self.converter.allowed(written) {
            Ok(Some(written)) => written,
            Ok(None) => return Ok(true),
            Err(e) => return Err(error(e)),
        };
        match written {
            Written::Done => self.counts.updated += 1,
            Written::Unchanged => self.counts.same += 1,
            Written::Missing => return Ok(false),
            Written::Duplicate(third) => {
                self.converter.refused(duplicate_error(table, &third))?;
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
) -> Result<(Arc<Table>, Option<Arc<query::Query>>)> {
    let statement = Statement::new(session, insert, piece)?;
    let query = match statement.source {
        Rows::Query(query) => Some(query),
        Rows::Values(_) => None,
    };
    Ok((statement.table, query))
}
