//! Stored programs: procedures, triggers, and the statements that only make sense in them.
//!
//! A program's text is kept in the catalog and read once for each change of it. Its statements run one by one as those
//! of a client do, each with the values of variables as literals in it; their result sets go to the client, who gets
//! one answer more at the end. Those of a trigger run between the rows of a statement, in its transaction, and have no
//! result sets.
//!
//! Invariants
//! - A program begins and ends with the session as it was: schema, `sql_mode`, account. What it sets besides stays.
//! - What a program has in memory is charged to the process.

mod call;
mod define;
mod fire;
mod frame;
mod grown;
mod raise;
mod rows;
mod run;
mod shown;
mod trigger;
mod within;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use perigee_engine::TableName;
use perigee_engine::catalog::{RoutineDef, TriggerDef};
use perigee_engine::scan::CancelToken;
use perigee_sql_bind::Modes;
use perigee_value::format_value;
use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};

use super::Session;
use crate::error::{Result, SqlError};
use crate::memory::{Charge, ProcessMemory};
use crate::parse::{Call, Footprint, Information, Program, ProgramStatement, Signal};
use crate::result::{OkResult, ResultSink};
use frame::{Frame, Row1};
use run::Run;

pub(super) use fire::{Firing, RowTriggers, Triggers};
pub(super) use shown::{create_procedure, facts, procedures};
pub(super) use trigger::{create_trigger, trigger_facts, triggers};

/// The programs of procedures and triggers as they were last read.
#[derive(Default)]
pub(super) struct Programs {
    routines: Kept<RoutineDef>,
    triggers: Kept<TriggerDef>,
}

impl Programs {
    /// The program of a procedure.
    ///
    /// # Errors
    /// 1038; or if its text does not parse, which it did.
    fn of(&self, def: &Arc<RoutineDef>, memory: &Arc<ProcessMemory>) -> Result<Arc<Program>> {
        let name = (&*def.schema, &*def.name);
        self.routines.of(name, def, (&def.body, memory), || {
            Program::read(&def.parameters, &def.body, modes(&def.sql_mode)?)
        })
    }

    /// The program of a trigger of a schema.
    ///
    /// # Errors
    /// 1038; or if its text does not parse, which it did.
    fn of_trigger(
        &self,
        schema: &str,
        def: &Arc<TriggerDef>,
        memory: &Arc<ProcessMemory>,
    ) -> Result<Arc<Program>> {
        let name = (schema, &*def.name);
        self.triggers.of(name, def, (&def.body, memory), || {
            let when = (def.timing, def.event);
            Program::of_trigger(&def.body, when, modes(&def.sql_mode)?)
        })
    }
}

fn modes(sql_mode: &str) -> Result<Modes> {
    Modes::parse(sql_mode).map_err(|_| SqlError::corrupt("sql_mode of a program"))
}

/// Programs of definitions of one kind, by schema and name.
struct Kept<D>(Mutex<HashMap<(String, String), Known<D>>>);

/// A definition with its program.
struct Known<D> {
    def: Arc<D>,
    program: Arc<Program>,
    /// For as long as it is kept.
    _charge: Charge,
}

impl<D> Default for Kept<D> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<D> Kept<D> {
    /// The program of a definition, read from its text if it is not known.
    fn of(
        &self,
        (schema, name): (&str, &str),
        def: &Arc<D>,
        (text, memory): (&str, &Arc<ProcessMemory>),
        read: impl FnOnce() -> Result<Program>,
    ) -> Result<Arc<Program>> {
        let name = (schema.to_owned(), name.to_owned());
        if let Some(known) = self.0.lock().get(&name)
            && Arc::ptr_eq(&known.def, def)
        {
            return Ok(known.program.clone());
        }
        let footprint = Footprint::of(text);
        let mut charge = memory.charge(footprint.parsed())?;
        let program = Arc::new(read()?);
        charge.resize(footprint.kept())?;
        let known = Known {
            def: def.clone(),
            program: program.clone(),
            _charge: charge,
        };
        let mut programs = self.0.lock();
        // Nobody else has those that were dropped.
        programs.retain(|_, known| Arc::strong_count(&known.def) > 1);
        programs.insert(name, known);
        Ok(program)
    }
}

/// A value as it is shown.
fn text_of((value, ty): &Row1) -> Option<String> {
    match value {
        perigee_value::Datum::Null => None,
        perigee_value::Datum::String(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        value => {
            let mut text = String::new();
            format_value(*ty, value.as_ref(), &mut text);
            Some(text)
        }
    }
}

/// A name as a statement has it.
fn named(name: &TableName) -> ObjectName {
    let parts = [&name.schema, &name.name];
    let parts = parts.map(|part| ObjectNamePart::Identifier(Ident::with_quote('`', part)));
    ObjectName(parts.to_vec())
}

/// CREATE, ALTER or DROP of a procedure or trigger.
pub(super) async fn define(
    session: &mut Session,
    statement: ProgramStatement,
    cancel: &CancelToken,
) -> Result<()> {
    match statement {
        ProgramStatement::CreateTrigger(statement) => {
            trigger::create(session, *statement, cancel).await
        }
        ProgramStatement::DropTrigger { name, if_exists } => {
            trigger::drop(session, &name, if_exists, cancel).await
        }
        ProgramStatement::Create(routine) => define::create(session, *routine).await,
        ProgramStatement::Alter(routine) => define::alter(session, routine).await,
        ProgramStatement::Drop { name, if_exists } => define::drop(session, &name, if_exists).await,
    }
}

/// What runs a statement of a client as if it stood in a program without variables.
fn outside<'r>(
    session: &'r mut Session,
    out: &'r mut dyn ResultSink,
    cancel: &'r CancelToken,
) -> Result<Run<'r>> {
    let collation = session.variables.collation();
    let frame = Frame::new((0, 0), collation, &session.frontend.memory)?;
    Ok(Run::new(session, out, cancel, frame))
}

/// CALL of a client.
pub(super) async fn call(
    session: &mut Session,
    called: &Call,
    out: &mut dyn ResultSink,
    cancel: &CancelToken,
) -> Result<OkResult> {
    let ok = {
        let mut run = outside(session, out, cancel)?;
        call::nested(&mut run, called).await?;
        run.ok
    };
    Ok(OkResult {
        affected_rows: u64::try_from(session.row_count.last()).unwrap_or(0),
        ..ok
    })
}

/// SIGNAL or RESIGNAL of a client.
pub(super) async fn signal(
    session: &mut Session,
    signal: &Signal,
    out: &mut dyn ResultSink,
    cancel: &CancelToken,
) -> Result<()> {
    raise::signal(&mut outside(session, out, cancel)?, signal).await
}

/// GET DIAGNOSTICS of a client.
pub(super) async fn diagnostics(
    session: &mut Session,
    information: &Information,
    out: &mut dyn ResultSink,
    cancel: &CancelToken,
) -> Result<()> {
    raise::diagnostics(&mut outside(session, out, cancel)?, information).await
}

impl Session {
    /// The last warning of a statement, as what is raised.
    fn last_warning(&self) -> Option<SqlError> {
        let mut kept = self
            .warnings
            .kept()
            .filter(|warning| warning.level == "Warning");
        kept.next_back().map(super::warnings::Warning::raised)
    }
}
