//! Firing triggers: before and after each row that a statement inserts, updates or deletes.
//!
//! A statement lends its transaction to a trigger ([`Session::lend`]), whose statements run in it one by one. What they
//! did is undone with the statement.
//!
//! Invariants
//! - A trigger changes no table that a statement around it uses (1442), so triggers cannot fire each other without end.
//! - Nothing that a trigger does ends the transaction; if storage or a deadlock ends it, no handler runs.
//! - The statement goes on with the warnings, the view and the LAST_INSERT_ID() that it had.

use std::sync::Arc;

use perigee_accounts::Privileges;
use perigee_engine::catalog::{ColumnDef, RowEvent, Table, TableDef, Timing, TriggerDef};
use perigee_engine::scan::CancelToken;
use perigee_engine::{Engine, TableName};
use perigee_value::Datum;

use super::call::{self, Setting, check_nested};
use super::frame::Frame;
use super::run::Run;
use super::within::NoResults;
use crate::error::{Result, SqlError};
use crate::parse::{Program, RowColumn, RowOf, Statement};
use crate::session::Session;
use crate::session::transaction::Work;
use crate::session::warnings::Warnings;

/// A statement whose trigger runs.
pub(in crate::session) struct Firing {
    /// The tables that it uses.
    in_use: Arc<[TableName]>,
    /// When it began.
    pub now: i64,
}

/// The triggers of a table for one event.
pub(in crate::session) struct Triggers {
    table: Arc<Table>,
    before: Vec<Ready>,
    after: Vec<Ready>,
    in_use: Arc<[TableName]>,
    now: i64,
}

/// A trigger, ready to fire.
struct Ready {
    def: Arc<TriggerDef>,
    program: Arc<Program>,
    /// The columns that it names: their places, and themselves as variables.
    columns: Vec<(usize, Arc<ColumnDef>)>,
    /// What its definer needs.
    needed: Privileges,
}

/// The triggers that an INSERT or REPLACE may fire.
pub(in crate::session) struct RowTriggers {
    pub insert: Option<Triggers>,
    pub update: Option<Triggers>,
    pub delete: Option<Triggers>,
}

impl Ready {
    fn new(session: &Session, table: &TableDef, def: &Arc<TriggerDef>) -> Result<Self> {
        let frontend = &session.frontend;
        let programs = &frontend.programs;
        let program = programs.of_trigger(&table.schema, def, &frontend.memory)?;
        let columns = columns(&program, table)?;
        let mut needed = Privileges::TRIGGER;
        for column in &program.row {
            if column.read {
                needed = needed.with(Privileges::SELECT);
            }
            if column.assigned {
                needed = needed.with(Privileges::UPDATE);
            }
        }
        Ok(Self {
            def: def.clone(),
            program,
            columns,
            needed,
        })
    }
}

/// The columns that the program of a trigger names, which may be NULL while it runs.
///
/// # Errors
/// 1054; 3105 if it gives a generated column a value.
pub(super) fn columns(program: &Program, table: &TableDef) -> Result<Vec<(usize, Arc<ColumnDef>)>> {
    let column = |named: &RowColumn| {
        let place = table.column(&named.name);
        let place = place.ok_or_else(|| SqlError::unknown_column(&named.name, named.row.name()))?;
        let def = &table.columns[place];
        if named.assigned && def.generated.is_some() {
            return Err(SqlError::generated_value(&def.name, &table.name));
        }
        let nullable = true;
        let def = Arc::new(ColumnDef {
            nullable,
            ..def.clone()
        });
        Ok((place, def))
    };
    program.row.iter().map(column).collect()
}

impl Triggers {
    /// The triggers of a table for an event, for a statement that uses tables; `None` if there are none.
    ///
    /// # Errors
    /// 1054 if one names a column that is not there any more; 1038.
    pub fn of(
        session: &Session,
        table: &Arc<Table>,
        event: RowEvent,
        in_use: &Arc<[TableName]>,
    ) -> Result<Option<Self>> {
        let ready = |timing| {
            let own = table.def.triggers.iter();
            let own = own.filter(|def| def.event == event && def.timing == timing);
            own.map(|def| Ready::new(session, &table.def, def))
                .collect::<Result<Vec<_>>>()
        };
        let (before, after) = (ready(Timing::Before)?, ready(Timing::After)?);
        Ok((!before.is_empty() || !after.is_empty()).then(|| Self {
            table: table.clone(),
            before,
            after,
            in_use: in_use.clone(),
            now: session.now().utc,
        }))
    }

    /// True if there are triggers that may change a row before it is written.
    pub fn has_before(&self) -> bool {
        !self.before.is_empty()
    }

    /// A row with the long values that these triggers look at.
    pub async fn fetched(&self, engine: &Engine, row: &[Datum]) -> Result<Vec<Datum>> {
        let mut row = row.to_vec();
        let ready = self.before.iter().chain(&self.after);
        let named: Vec<_> = ready.flat_map(|ready| &ready.columns).collect();
        for (place, value) in row.iter_mut().enumerate() {
            let is_named = || named.iter().any(|(named, _)| *named == place);
            if matches!(value, Datum::Overflow(_)) && !is_named() {
                *value = Datum::Null;
            }
        }
        engine.fetch_long(&mut row).await?;
        Ok(row)
    }

    /// Fires those before a row is written. Columns that they give values are returned.
    ///
    /// # Errors
    /// Those that a trigger does not handle.
    pub async fn before(
        &self,
        session: &mut Session,
        work: &mut Work,
        (old, new): (&[Datum], &mut [Datum]),
        cancel: &CancelToken,
    ) -> Result<Vec<usize>> {
        let mut changed = Vec::new();
        for ready in &self.before {
            let rows = (old, &*new);
            let within = (&mut *session, &mut *work);
            let given = self.fire(ready, within, rows, cancel).await?;
            for (place, value) in given {
                new[place] = value;
                changed.push(place);
            }
        }
        Ok(changed)
    }

    /// Fires those after a row was written.
    ///
    /// # Errors
    /// Those that a trigger does not handle.
    pub async fn after(
        &self,
        session: &mut Session,
        work: &mut Work,
        rows: (&[Datum], &[Datum]),
        cancel: &CancelToken,
    ) -> Result<()> {
        for ready in &self.after {
            let within = (&mut *session, &mut *work);
            self.fire(ready, within, rows, cancel).await?;
        }
        Ok(())
    }

    /// Fires a trigger; returns the values that it gives to columns.
    async fn fire(
        &self,
        ready: &Ready,
        (session, work): (&mut Session, &mut Work),
        rows: (&[Datum], &[Datum]),
        cancel: &CancelToken,
    ) -> Result<Vec<(usize, Datum)>> {
        check_nested(session)?;
        let (warnings, diagnostics) = (
            std::mem::take(&mut session.warnings),
            session.diagnostics.clone(),
        );
        let last_insert_id = session.last_insert_id;
        let lent = session.lend(work);
        session.fired.push(Firing {
            in_use: self.in_use.clone(),
            now: self.now,
        });
        let outcome = self.run(ready, session, rows, cancel).await;
        session.fired.pop();
        session.take_back(work, lent);
        session.last_insert_id = last_insert_id;
        session.diagnostics = diagnostics;
        let own = std::mem::replace(&mut session.warnings, warnings);
        if outcome.is_ok() {
            session.warn_again(&own);
        }
        outcome
    }

    /// Runs the program of a trigger.
    async fn run(
        &self,
        ready: &Ready,
        session: &mut Session,
        rows: (&[Datum], &[Datum]),
        cancel: &CancelToken,
    ) -> Result<Vec<(usize, Datum)>> {
        let (def, table) = (&ready.def, &self.table.def);
        let setting = Setting {
            schema: &table.schema,
            definer: Some(&def.definer),
            sql_mode: &def.sql_mode,
            connection: def.connection,
        };
        let before = call::enter(session, setting)?;
        let outcome = match session.check_table(ready.needed, &table.schema, &table.name) {
            Ok(()) => ran(ready, session, rows, cancel).await,
            Err(error) => Err(error),
        };
        call::leave(session, before);
        outcome
    }
}

/// Runs a program over rows.
async fn ran(
    ready: &Ready,
    session: &mut Session,
    (old, new): (&[Datum], &[Datum]),
    cancel: &CancelToken,
) -> Result<Vec<(usize, Datum)>> {
    let program = &*ready.program;
    let memory = session.frontend.memory.clone();
    let counts = (program.variables, program.cursors);
    let mut frame = Frame::new(counts, ready.def.database, &memory)?;
    let named = program.row.iter().zip(&ready.columns);
    for (slot, (named, (place, column))) in named.clone().enumerate() {
        let row = match named.row {
            RowOf::Old => old,
            RowOf::New => new,
        };
        frame.declare_of_row(slot, column.clone(), row[*place].clone())?;
    }
    let mut out = NoResults("trigger");
    let mut run = Run::new(session, &mut out, cancel, frame);
    run.program(program).await?;
    let given = named.enumerate().filter(|(_, (named, _))| named.assigned);
    let given = given.map(|(slot, (_, (place, _)))| Ok((*place, run.frame.stored(slot)?)));
    let mut given = given.collect::<Result<Vec<_>>>()?;
    given.retain(|(place, value)| new[*place] != *value);
    Ok(given)
}

impl RowTriggers {
    /// Those of a table that a statement inserts into, which uses these tables.
    ///
    /// # Errors
    /// As [`Triggers::of`].
    pub fn of(
        session: &Session,
        table: &Arc<Table>,
        (updates, replaces): (bool, bool),
        in_use: &Arc<[TableName]>,
    ) -> Result<Self> {
        let of = |event, fires: bool| match fires {
            true => Triggers::of(session, table, event, in_use),
            false => Ok(None),
        };
        Ok(Self {
            insert: of(RowEvent::Insert, true)?,
            update: of(RowEvent::Update, updates)?,
            delete: of(RowEvent::Delete, replaces)?,
        })
    }

    /// True if rows are written one by one.
    pub fn are_any(&self) -> bool {
        self.insert.is_some() || self.update.is_some() || self.delete.is_some()
    }

    /// True if a row may become another one before it is written.
    pub fn have_before(&self) -> bool {
        let both = [&self.insert, &self.update];
        both.into_iter().flatten().any(Triggers::has_before)
    }
}

impl Session {
    /// Checks that a statement may run now, if rows of another one are being changed.
    ///
    /// # Errors
    /// 1336, 1422, 1445.
    pub(in crate::session) fn check_within_rows(&self, statement: &Statement) -> Result<()> {
        match self.fired.is_empty() {
            true => Ok(()),
            false => statement.check_within_rows(),
        }
    }

    /// Checks that no statement around this one uses a table that it changes.
    ///
    /// # Errors
    /// 1442.
    pub(in crate::session) fn check_not_in_use(&self, table: &Table) -> Result<()> {
        let mut in_use = self.fired.iter().flat_map(|firing| &*firing.in_use);
        let is_it =
            |name: &TableName| name.schema == table.def.schema && name.name == table.def.name;
        match in_use.any(is_it) {
            true => Err(SqlError::table_in_use(&table.def.name)),
            false => Ok(()),
        }
    }

    /// Adds warnings to those that there are.
    fn warn_again(&mut self, warnings: &Warnings) {
        let mut kept = 0;
        for warning in warnings.kept() {
            self.warn(warning.level, &warning.raised());
            kept += 1;
        }
        self.warn_more((warnings.count() as usize).saturating_sub(kept));
    }
}
