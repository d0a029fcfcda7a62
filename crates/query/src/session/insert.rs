//! INSERT and REPLACE: rows from VALUES, SET or a query, converted strictly or with IGNORE, and what
//! becomes of those whose key exists.

mod destination;
mod errors;
mod firing;
mod literal;
mod query_columns;
mod targets;
mod writer;

use std::ops::ControlFlow;
use std::sync::Arc;

use destination::Destination;
pub(super) use errors::{duplicate_error, engine_error, row_error, value_error};
use futures::Stream;
pub(super) use literal::{literal_datum, number_for};
pub(super) use targets::Targets;
use writer::Writer;

use perigee_accounts::Privileges;
use perigee_engine::TableName;
use perigee_engine::catalog::{ColumnDef, Table};
use perigee_engine::scan::CancelToken;
use perigee_sql_bind::query;
use sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Insert, InsertAliases, MysqlInsertPriority, ObjectName,
    OnInsert, Query, SetExpr, TableObject, visit_relations,
};

use super::auto_increment::Generator;
use super::checks::Checks;
use super::dml::{Converter, OnDuplicate, Strictness, keep};
use super::generated::GeneratedColumns;
use super::program::RowTriggers;
use super::transaction::Work;
use super::{Session, bound, read_columns};
use crate::error::{Result, SqlError};
use crate::explain::Changed;
use crate::parse::Piece;
use crate::result::OkResult;

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
    let outcome = match &statement.source {
        Rows::Query(query) => keep(session, query, outcome),
        Rows::Values(_) => outcome,
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
    triggers: RowTriggers,
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

/// The column of a name.
fn last_part(name: &ObjectName) -> Option<String> {
    let last = name.0.last()?.as_ident()?;
    Some(last.value.clone())
}

/// Checks that ON DUPLICATE KEY UPDATE may change the columns that it assigns to.
///
/// # Errors
/// 1143.
fn check_assigned(session: &Session, own: &(String, String), on: Option<&OnInsert>) -> Result<()> {
    let Some(OnInsert::DuplicateKeyUpdate(assignments)) = on else {
        return Ok(());
    };
    let column = |assignment: &Assignment| match &assignment.target {
        AssignmentTarget::ColumnName(name) => last_part(name),
        AssignmentTarget::Tuple(_) => None,
    };
    let columns: Vec<String> = assignments.iter().filter_map(column).collect();
    let columns = columns.iter().map(String::as_str);
    session.check_columns(Privileges::UPDATE, (&own.0, &own.1), columns)
}

impl Statement {
    fn new(session: &Session, mut insert: Insert, piece: Piece<'_>) -> Result<Self> {
        check(&insert)?;
        let TableObject::TableName(name) = insert.table else {
            return Err(SqlError::not_supported("INSERT into this kind of table"));
        };
        let needed = needed(insert.replace_into, insert.on.is_some());
        let own = session.resolve(&name)?;
        session.check_somewhere(needed, &own.0, &own.1)?;
        let (columns, set) = match insert.assignments.is_empty() {
            true => (insert.columns, None),
            false => {
                let (columns, values) = set_form(insert.assignments)?;
                (columns, Some(values))
            }
        };
        let written: Vec<String> = columns.iter().filter_map(last_part).collect();
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
        let in_use = in_use(session, &to.table, (&source, &insert.on));
        let fires = (insert.on.is_some(), insert.replace_into);
        let triggers = RowTriggers::of(session, &to.table, fires, &in_use)?;
        let on = (insert.on, insert.insert_alias);
        let targets = to.targets(strictness.adjusts())?;
        let columns = written.iter().map(String::as_str);
        session.check_columns(Privileges::INSERT, (&own.0, &own.1), columns)?;
        check_assigned(session, &own, on.0.as_ref())?;
        Ok(Self {
            targets,
            on_duplicate: Self::duplicates(session, &to, insert.replace_into, on)?,
            checks: Checks::through(to.view(), &to.table.def, session.zone())?,
            generated: GeneratedColumns::of(&to.table.def, session.zone())?,
            name: to.name,
            table: to.table,
            triggers,
            source,
            brought,
            ignore: insert.ignore,
            strictness,
        })
    }

    /// What it changes, for EXPLAIN.
    fn changed(&self) -> Changed {
        let kind = match self.on_duplicate {
            Duplicates::Replace => "REPLACE",
            _ => "INSERT",
        };
        Changed::Inserted(kind, self.table.def.name.clone())
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
                to.check_columns(session, &read)?;
                Ok(Duplicates::Update(assignments, alias))
            }
            Some(_) => Err(SqlError::not_supported("ON CONFLICT")),
        }
    }

    /// Inserts all rows.
    async fn attempt(
        &self,
        session: &mut Session,
        work: &mut Work,
        piece: Piece<'_>,
        cancel: &CancelToken,
    ) -> Result<(Counts, Converter, Generator)> {
        work.check_writable(&self.table)?;
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
        session: &'a mut Session,
        work: &'a mut Work,
        cancel: &'a CancelToken,
    ) -> Result<Writer<'a>> {
        let mut converter = Converter::new(self.strictness);
        converter.warnings.extend(self.targets.warnings());
        converter.let_nulls_wait(self.triggers.have_before());
        let generator = Generator::new(session, &self.table).await?;
        let now = session.now();
        Ok(Writer {
            statement: self,
            session,
            work,
            cancel,
            on_duplicate: None,
            converter,
            counts: Counts::default(),
            generator,
            now,
        })
    }

    /// Inserts rows that come a block at a time.
    async fn load(
        &self,
        session: &mut Session,
        work: &mut Work,
        blocks: &mut (dyn Stream<Item = Result<RowBlock>> + Send + Unpin),
        piece: Piece<'_>,
        cancel: &CancelToken,
    ) -> Result<(Counts, Converter, Generator)> {
        work.check_writable(&self.table)?;
        let mut writer = self.writer(session, work, cancel).await?;
        writer.blocks(blocks, piece).await?;
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

/// The tables that an INSERT uses, as far as its triggers are concerned.
fn in_use(
    session: &Session,
    table: &Table,
    (source, on): (&Rows, &Option<OnInsert>),
) -> Arc<[TableName]> {
    let mut tables = vec![TableName::of(table)];
    if table.def.triggers.is_empty() {
        return tables.into();
    }
    let mut subqueries = |name: &ObjectName| {
        let named = session.resolve(name).ok();
        tables.extend(named.map(|(schema, name)| TableName { schema, name }));
        ControlFlow::<()>::Continue(())
    };
    let _ = visit_relations(on, &mut subqueries);
    match source {
        Rows::Values(rows) => {
            let _ = visit_relations(rows, &mut subqueries);
        }
        Rows::Query(query) => tables.extend(query.tables.iter().map(|table| TableName {
            schema: table.schema.to_string(),
            name: table.name.to_string(),
        })),
    }
    tables.into()
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
    refuse(
        insert.overwrite || insert.or.is_some(),
        "this form of INSERT",
    )
}

/// What an INSERT or REPLACE changes, and the query of INSERT … SELECT, for EXPLAIN.
pub(super) fn explained(
    session: &Session,
    insert: Insert,
    piece: Piece<'_>,
) -> Result<(Changed, Option<Arc<query::Query>>)> {
    let statement = Statement::new(session, insert, piece)?;
    let changed = statement.changed();
    let query = match statement.source {
        Rows::Query(query) => Some(query),
        Rows::Values(_) => None,
    };
    Ok((changed, query))
}
