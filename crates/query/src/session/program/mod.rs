//! Stored programs: procedures, and the statements that only make sense in them.
//!
//! A program's text is kept in the catalog and read once for each change of it. Its statements run one by one as those
//! of a client do, each with the values of variables as literals in it; their result sets go to the client, who gets
//! one answer more at the end.
//!
//! Invariants
//! - A program begins and ends with the session as it was: schema, `sql_mode`, account. What it sets besides stays.
//! - What a program has in memory is charged to the process.

mod call;
mod define;
mod frame;
mod grown;
mod raise;
mod rows;
mod run;
mod shown;
mod within;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use perigee_engine::catalog::RoutineDef;
use perigee_engine::scan::CancelToken;
use perigee_sql_bind::Modes;
use perigee_value::format_value;

use super::Session;
use crate::error::{Result, SqlError};
use crate::memory::{Charge, ProcessMemory};
use crate::parse::{Call, Footprint, Information, Program, ProgramStatement, Signal};
use crate::result::{OkResult, ResultSink};
use frame::{Frame, Row1};
use run::Run;

pub(super) use shown::{create_procedure, facts, procedures};

/// The programs of procedures as they were last read.
#[derive(Default)]
pub(super) struct Programs(Mutex<HashMap<(String, String), Known>>);

/// A procedure with its program.
struct Known {
    def: Arc<RoutineDef>,
    program: Arc<Program>,
    /// For as long as it is kept.
    _charge: Charge,
}

impl Programs {
    /// The program of a procedure.
    ///
    /// # Errors
    /// 1038; or if its text does not parse, which it did.
    fn of(&self, def: &Arc<RoutineDef>, memory: &Arc<ProcessMemory>) -> Result<Arc<Program>> {
        let name = (def.schema.clone(), def.name.clone());
        if let Some(known) = self.0.lock().get(&name)
            && Arc::ptr_eq(&known.def, def)
        {
            return Ok(known.program.clone());
        }
        let footprint = Footprint::of(&def.body);
        let mut charge = memory.charge(footprint.parsed())?;
        let modes = Modes::parse(&def.sql_mode);
        let modes = modes.map_err(|_| SqlError::corrupt("sql_mode of a procedure"))?;
        let program = Arc::new(Program::read(&def.parameters, &def.body, modes)?);
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

/// CREATE, ALTER or DROP PROCEDURE.
pub(super) async fn define(session: &mut Session, statement: ProgramStatement) -> Result<()> {
    match statement {
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
