//! CALL.

use std::sync::Arc;

use perigee_accounts::{AccountName, Privileges};
use perigee_engine::catalog::RoutineDef;
use perigee_value::Collation;
use sqlparser::ast::ObjectName;

use super::frame::{Frame, Row1};
use super::run::Run;
use crate::error::{Result, SqlError};
use crate::parse::{Argument, Call, Mode, Program};
use crate::session::Session;
use crate::session::rights::Rights;

/// Programs that may run within each other.
const MAX_NESTED: usize = 256;

/// What a program needs to be so in its session.
pub(super) struct Setting<'d> {
    /// The schema of names without one.
    pub schema: &'d str,
    /// User and host of the account whose rights count, if it is not the session's.
    pub definer: Option<&'d (String, String)>,
    pub sql_mode: &'d str,
    pub connection: Collation,
}

/// What a program changes of its session for as long as it runs.
pub(super) struct Before {
    schema: Option<String>,
    account: Option<(AccountName, Rights)>,
    sql_mode: Option<String>,
    collation: Option<String>,
}

/// Calls a procedure in a running program.
///
/// # Errors
/// 1305, 1370, 1318, 1414, 1456, and those that it does not handle.
pub(super) async fn nested(run: &mut Run<'_>, call: &Call) -> Result<()> {
    let def = known(run.session, &call.name)?;
    let frontend = run.session.frontend.clone();
    let program = frontend.programs.of(&def, &frontend.memory)?;
    check_arguments(&def, &program, &call.arguments)?;
    check_depth(run.session, &def)?;
    let mut given = Vec::with_capacity(call.arguments.len());
    for (parameter, argument) in program.parameters.iter().zip(&call.arguments) {
        given.push(match parameter.mode {
            Mode::Out => None,
            Mode::In | Mode::InOut => Some(run.value(&argument.value).await?),
        });
    }
    let setting = Setting {
        schema: &def.schema,
        definer: (!def.invoker).then_some(&def.definer),
        sql_mode: &def.sql_mode,
        connection: def.connection,
    };
    let before = enter(run.session, setting)?;
    run.session.running.push(def.clone());
    let outcome = within(run, &def, &program, given).await;
    run.session.running.pop();
    leave(run.session, before);
    let results = outcome?;
    let outs = program.parameters.iter().zip(&call.arguments);
    let outs = outs.filter(|(parameter, _)| parameter.mode != Mode::In);
    for ((_, argument), value) in outs.zip(results) {
        if let Some(target) = &argument.variable {
            run.give(target, value)?;
        }
    }
    Ok(())
}

/// Runs the program with what it is given; returns the values of the parameters that are not only IN.
async fn within(
    run: &mut Run<'_>,
    def: &RoutineDef,
    program: &Program,
    given: Vec<Option<Row1>>,
) -> Result<Vec<Row1>> {
    let counts = (program.variables, program.cursors);
    let memory = run.session.frontend.memory.clone();
    let zone = run.session.zone();
    let mut frame = Frame::new(counts, def.database, &memory)?;
    for (slot, (parameter, value)) in program.parameters.iter().zip(given).enumerate() {
        frame.declare(slot, &parameter.column, zone)?;
        if let Some(value) = value {
            frame.assign(slot, value, run.session)?;
        }
    }
    let mut inner = Run::new(run.session, run.out, run.cancel, frame);
    inner.program(program).await?;
    let zone = inner.session.zone();
    let parameters = program.parameters.iter().enumerate();
    let results = parameters.filter(|(_, parameter)| parameter.mode != Mode::In);
    let results = results.map(|(slot, _)| inner.frame.value(slot, zone));
    let results = results.collect::<Result<_>>()?;
    run.ok = inner.ok;
    Ok(results)
}

/// The procedure with a name.
///
/// # Errors
/// 1305, 1370.
fn known(session: &Session, name: &ObjectName) -> Result<Arc<RoutineDef>> {
    let (schema, name) = session.resolve(name)?;
    let routine = session.frontend.engine.routine(&schema, &name);
    session.check_routine(Privileges::EXECUTE, "execute", &schema, &name)?;
    routine.ok_or_else(|| SqlError::no_such_procedure(format!("{schema}.{name}")))
}

fn check_arguments(def: &RoutineDef, program: &Program, arguments: &[Argument]) -> Result<()> {
    let name = || format!("{}.{}", def.schema, def.name);
    let (expected, got) = (program.parameters.len(), arguments.len());
    if expected != got {
        return Err(SqlError::wrong_argument_count(name(), expected, got));
    }
    let pairs = program.parameters.iter().zip(arguments);
    for (number, (parameter, argument)) in pairs.enumerate() {
        if parameter.mode != Mode::In && argument.variable.is_none() {
            return Err(SqlError::argument_is_no_variable(number + 1, name()));
        }
    }
    Ok(())
}

/// Checks that a procedure may call itself, and how deep.
fn check_depth(session: &Session, def: &RoutineDef) -> Result<()> {
    let own = |running: &&Arc<RoutineDef>| running.schema == def.schema && running.name == def.name;
    let running = session.running.iter().filter(own).count() as u64;
    let limit = session.variables.integer("max_sp_recursion_depth");
    if running > limit {
        return Err(SqlError::recursion_limit(limit, &def.name));
    }
    check_nested(session)
}

/// Checks that one more program may run within those that are running.
///
/// # Errors
/// 1436.
pub(super) fn check_nested(session: &Session) -> Result<()> {
    match session.running.len() + session.fired.len() {
        MAX_NESTED.. => Err(SqlError::too_nested(MAX_NESTED)),
        _ => Ok(()),
    }
}

/// Makes the session one in which a program runs.
///
/// # Errors
/// 1449.
pub(super) fn enter(session: &mut Session, setting: Setting<'_>) -> Result<Before> {
    let text = |session: &Session, name: &str| -> Result<Option<String>> {
        Ok(session.variables.get(name)?.map(str::to_owned))
    };
    let sql_mode = text(session, "sql_mode")?;
    let collation = text(session, "collation_connection")?;
    let definer = setting.definer;
    let definer = definer.map(|(user, host)| AccountName::new(user, host));
    let account = match definer.filter(|definer| *definer != session.info.account) {
        None => None,
        Some(definer) => {
            let (_, accounts) = session.frontend.accounts_now()?;
            if accounts.get(&definer).is_none() {
                return Err(SqlError::no_such_definer(definer.user(), definer.host()));
            }
            let own = std::mem::replace(&mut session.info.account, definer);
            Some((own, std::mem::take(&mut session.rights)))
        }
    };
    let schema = session.schema.replace(setting.schema.to_owned());
    session
        .variables
        .set("sql_mode", Some(setting.sql_mode.to_owned()));
    let connection = setting.connection.name().to_owned();
    session
        .variables
        .set("collation_connection", Some(connection));
    let before = Before {
        schema,
        account,
        sql_mode,
        collation,
    };
    match session.renew_rights() {
        Ok(()) => Ok(before),
        Err(error) => {
            leave(session, before);
            Err(error)
        }
    }
}

/// Makes it what it was.
pub(super) fn leave(session: &mut Session, before: Before) {
    if let Some((account, rights)) = before.account {
        session.info.account = account;
        session.rights = rights;
    }
    session.schema = before.schema.filter(|schema| session.has_schema(schema));
    session.variables.set("sql_mode", before.sql_mode);
    session
        .variables
        .set("collation_connection", before.collation);
}
