//! [`Writer`]: an INSERT or REPLACE that runs: values become rows, and rows go to the engine.

use std::sync::Arc;

use futures::{Stream, StreamExt};
use perigee_engine::catalog::ColumnDef;
use perigee_engine::scan::CancelToken;
use perigee_engine::txn::{DuplicateRow, LockMode, LockWait, RowLock, Written};
use perigee_expr::scalar::to_datum;
use perigee_sql_bind::query;
use perigee_value::{ColumnType, Datum, Now};
use sqlparser::ast::Expr;

use super::literal::{Simple, simple_literal};
use super::{Counts, Duplicates, RowBlock, Statement, Targets, duplicate_error, engine_error};
use crate::error::{Result, SqlError};
use crate::interrupt;
use crate::parse::{Footprint, Piece};
use crate::session::auto_increment::Generator;
use crate::session::dml::{Budget, Converter, OnDuplicate, assign, implicit_default, row_of};
use crate::session::generated::{self, GeneratedColumns};
use crate::session::locking::mode_of;
use crate::session::select::{self, Reading};
use crate::session::transaction::Work;
use crate::session::{Session, bound, scalars, set};
use crate::values::{self, Column};

/// Rows that are given to the engine at a time.
const ROWS: usize = 4096;

/// Bytes of rows that are given to the engine at a time.
const BYTES: usize = 16 << 20;

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
pub(super) struct Writer<'a> {
    pub(super) statement: &'a Statement,
    pub(super) session: &'a mut Session,
    pub(super) work: &'a mut Work,
    pub(super) cancel: &'a CancelToken,
    pub(super) on_duplicate: Option<OnDuplicate>,
    pub(super) converter: Converter,
    pub(super) counts: Counts,
    pub(super) generator: Generator,
    /// When the statement began.
    pub(super) now: Now,
}

impl Writer<'_> {
    /// The rows of VALUES: those of the syntax tree, and those that are parsed now.
    pub(super) async fn all_values(
        &mut self,
        values: &[Vec<Expr>],
        piece: Piece<'_>,
    ) -> Result<()> {
        let mut rows = Waiting::default();
        self.values(values, piece, &mut rows).await?;
        let mut more = piece.more_rows;
        let mut charge = self.session.frontend.memory.charge(0)?;
        loop {
            let waiting = rows.bytes;
            let session = &*self.session;
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

    /// Rows that come a block at a time.
    pub(super) async fn blocks(
        &mut self,
        blocks: &mut (dyn Stream<Item = Result<RowBlock>> + Send + Unpin),
        piece: Piece<'_>,
    ) -> Result<()> {
        let mut waiting = Waiting::default();
        while let Some(block) = blocks.next().await {
            let RowBlock { rows, warnings } = block?;
            self.converter.warnings.extend(warnings);
            self.values(&rows, piece, &mut waiting).await?;
            interrupt::check()?;
            tokio::task::yield_now().await;
        }
        self.insert(&mut waiting.rows).await
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
            if waiting.rows.len() == self.most() || waiting.bytes > BYTES {
                self.insert(&mut waiting.rows).await?;
                waiting.bytes = 0;
            }
        }
        Ok(())
    }

    /// How many rows are given to the engine at a time. A trigger may see, and change, what the next row is made of.
    fn most(&self) -> usize {
        match self.statement.triggers.are_any() {
            true => 1,
            false => ROWS,
        }
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
                Some(literal) => match literal.number(def) {
                    Some((value, from)) => self.converter.value(value, from, def, number)?,
                    None => self.converter.text(&literal.text(def), def, number)?,
                },
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
                self.session.keep_variables(&bound)?;
                let column = Column::new(batch.column(0), prepared.schema.field(0))?;
                return Ok((column.datum(0), column.ty()));
            }
        }
        Err(SqlError::unknown("Q7: an expression without a value"))
    }

    /// The rows of INSERT … SELECT: as they come, or if the query reads the table, when it has ended.
    pub(super) async fn query(&mut self, query: &Arc<query::Query>) -> Result<()> {
        let mut reading = self.work.reading(self.cancel).await;
        if let Some(lock) = query.locks.first() {
            let mode = mode_of(lock.strength);
            reading.locker = Some(self.work.locker(mode));
        }
        let mut prepared = select::plan(self.session, query, reading).await?;
        prepared.changed = self.statement.changed();
        self.session.observe(&prepared);
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
            .any(|table| table.stored_schema() == def.schema && *table.name == *def.name);
        // Nothing is read any more while triggers run.
        let waits = meets_itself || self.statement.triggers.are_any();
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
                if waits {
                    budget.take(size)?;
                }
                bytes += size;
                rows.push(row);
                if (rows.len() == ROWS || bytes > BYTES) && !waits {
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
        let plain = matches!(on_duplicate, Duplicates::Refused)
            && !ignore
            && !self.statement.triggers.are_any();
        for rows in rows.chunks_mut(if plain { ROWS } else { 1 }) {
            if self.cancel.is_cancelled() {
                return Err(SqlError::interrupted());
            }
            let first = self.counts.records;
            self.counts.records += rows.len() as u64;
            for (number, row) in rows.iter_mut().enumerate() {
                let number = first + number as u64 + 1;
                self.before_insert(row, number).await?;
                self.generator.fill(row)?;
                self.compute(row, number)?;
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
    pub(super) fn compute(&mut self, row: &mut [Datum], number: u64) -> Result<()> {
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
                return self.after_insert(own).await;
            };
            let done = match self.statement.on_duplicate {
                Duplicates::Refused => {
                    self.converter.refused(duplicate_error(table, &other))?;
                    true
                }
                Duplicates::Replace => {
                    let replaced = self.replace(own, &other).await?;
                    if replaced {
                        self.after_insert(own).await?;
                    }
                    replaced
                }
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
        let fires = self.statement.triggers.delete.is_some();
        if last == Some(other.index) && !fires && !transaction.is_referenced(table) {
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
        self.delete(other).await?;
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
        self.follow((&existing, &mut changed), number).await?;
        self.before_update((&existing, &mut changed), number)
            .await?;
        if let Some(checks) = &self.statement.checks {
            let engine = &self.session.frontend.engine;
            let violated = checks.stored_violates(engine, table, &changed, self.cancel);
            if let Some(violation) = violated.await? {
                self.converter.refused(violation)?;
                return Ok(true);
            }
        }
        let transaction = self.work.transaction();
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
                return Ok(true);
            }
        }
        self.after_update(&existing, &changed).await?;
        Ok(true)
    }

    /// Computes the generated columns of a row that changes which follow from columns that changed.
    pub(super) async fn follow(
        &mut self,
        rows: (&[Datum], &mut [Datum]),
        number: u64,
    ) -> Result<()> {
        let Some(generated) = &self.statement.generated else {
            return Ok(());
        };
        let converter = &mut self.converter;
        let mut convert = |value: Datum, ty: ColumnType, column: &ColumnDef| {
            converter.value(value, ty, column, number)
        };
        let engine = &*self.session.frontend.engine;
        let place = (engine, &*self.statement.table);
        generated
            .follow(place, rows, &mut convert, self.cancel)
            .await
    }
}
