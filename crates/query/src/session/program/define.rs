//! CREATE, ALTER and DROP PROCEDURE.

use perigee_accounts::{AccountName, Accounts, Level, Privileges, Records, RoutineKind};
use perigee_engine::TableName;
use perigee_engine::catalog::RoutineDef;
use sqlparser::ast::ObjectName;

use crate::error::{Result, SqlError};
use crate::parse::{AlterRoutine, CreateRoutine, Program, Step};
use crate::session::Session;
use crate::session::ddl::{Failed, definer, new_name, variable_definition};
use crate::session::variables::AUTOMATIC_PRIVILEGES;

const KIND: RoutineKind = RoutineKind::Procedure;

/// Makes a procedure.
pub(super) async fn create(session: &mut Session, statement: CreateRoutine) -> Result<()> {
    let name = new_name(session, &statement.name)?;
    if !session.has_schema(&name.schema) {
        return Err(SqlError::unknown_schema(&name.schema));
    }
    session.check_schema(Privileges::CREATE_ROUTINE, &name.schema)?;
    let definer = definer(session, statement.definer.as_ref())?;
    let database = session.frontend.engine.schema_collation(&name.schema);
    check_types(session, &statement.program, database)?;
    let own = &session.info.account;
    let own = || (own.user().to_owned(), own.host().to_owned());
    let said = &statement.characteristics;
    let now = session.now().utc;
    let def = RoutineDef {
        schema: name.schema.clone(),
        name: name.name.clone(),
        parameters: statement.parameters,
        body: statement.body,
        comment: said.comment.clone().unwrap_or_default(),
        deterministic: said.deterministic.unwrap_or_default(),
        access: said.access.unwrap_or_default(),
        invoker: said.invoker.unwrap_or_default(),
        definer: definer.unwrap_or_else(own),
        sql_mode: session
            .variables
            .get("sql_mode")?
            .unwrap_or_default()
            .to_owned(),
        connection: session.variables.collation(),
        database,
        created: now,
        altered: now,
    };
    let exists = SqlError::procedure_exists(&name.name);
    let mut note = None;
    let make = |old: Option<&RoutineDef>| match (old, statement.if_not_exists) {
        (None, _) => Ok(Some(def)),
        (Some(_), true) => {
            note = Some(exists);
            Ok(None)
        }
        (Some(_), false) => Err(Failed(exists)),
    };
    let engine = session.frontend.engine.clone();
    let maker = maker(session, &name);
    let with_accounts = |records: &Records| {
        let Some(maker) = maker else {
            return Ok(None);
        };
        let mut all = Accounts::decode(records).map_err(|e| Failed(SqlError::corrupt(e)))?;
        let level = Level::Routine(KIND, name.schema.clone(), name.name.clone());
        all.grant(&maker, &level, Privileges::OF_ROUTINES);
        Ok::<_, Failed>(Some(all.records()))
    };
    engine
        .put_routine(&name, make, with_accounts)
        .await
        .map_err(|Failed(e)| e)?;
    if let Some(note) = note {
        session.warn("Note", &note);
    }
    Ok(())
}

/// The account that gets EXECUTE and ALTER ROUTINE with a procedure that it makes: its own, if it does not have them
/// anyway.
fn maker(session: &Session, name: &TableName) -> Option<AccountName> {
    let grants = session.grants();
    let has = grants.on_routine(KIND, &name.schema, &name.name);
    let is_automatic = session.frontend.globals.read().is_on(AUTOMATIC_PRIVILEGES);
    let lacks = is_automatic && !has.has(Privileges::OF_ROUTINES);
    lacks.then(|| session.info.account.clone())
}

/// Checks the types of a program's variables.
fn check_types(
    session: &Session,
    program: &Program,
    collation: perigee_value::Collation,
) -> Result<()> {
    let zone = session.zone();
    for parameter in &program.parameters {
        variable_definition(&parameter.column, collation, zone)?;
    }
    let mut steps = vec![&program.body];
    while let Some(step) = steps.pop() {
        match step {
            Step::Block(block) => {
                let declared = block.variables.iter().flat_map(|d| &d.variables);
                for (_, column) in declared {
                    variable_definition(column, collation, zone)?;
                }
                steps.extend(block.handlers.iter().map(|handler| &handler.body));
                steps.extend(&block.steps);
            }
            Step::If {
                branches,
                otherwise,
            } => {
                steps.extend(branches.iter().flat_map(|(_, steps)| steps));
                steps.extend(otherwise.iter().flatten());
            }
            Step::Loop { steps: inner, .. } => steps.extend(inner),
            _ => {}
        }
    }
    Ok(())
}

/// Changes what is said of a procedure.
pub(super) async fn alter(session: &mut Session, statement: AlterRoutine) -> Result<()> {
    let name = checked(session, &statement.name)?;
    let said = statement.characteristics;
    let now = session.now().utc;
    let missing = || SqlError::no_such_procedure(&name);
    let make = |old: Option<&RoutineDef>| {
        let mut def = old.ok_or_else(|| Failed(missing()))?.clone();
        def.comment = said.comment.unwrap_or(def.comment);
        def.deterministic = said.deterministic.unwrap_or(def.deterministic);
        def.access = said.access.unwrap_or(def.access);
        def.invoker = said.invoker.unwrap_or(def.invoker);
        def.altered = now;
        Ok::<_, Failed>(Some(def))
    };
    let engine = session.frontend.engine.clone();
    let same_accounts = |_: &Records| Ok(None);
    let altered = engine.put_routine(&name, make, same_accounts).await;
    altered.map_err(|Failed(e)| e)
}

/// Drops a procedure.
pub(super) async fn drop(session: &mut Session, name: &ObjectName, if_exists: bool) -> Result<()> {
    let name = match checked(session, name) {
        Err(error) if if_exists && error.errno == SqlError::unknown_schema("").errno => {
            return Ok(());
        }
        name => name?,
    };
    let engine = session.frontend.engine.clone();
    let is_automatic = session.frontend.globals.read().is_on(AUTOMATIC_PRIVILEGES);
    let with_accounts = |records: &Records| {
        if !is_automatic {
            return Ok(None);
        }
        let mut all = Accounts::decode(records).map_err(|e| Failed(SqlError::corrupt(e)))?;
        all.forget_routine(KIND, &name.schema, &name.name);
        Ok::<_, Failed>(Some(all.records()))
    };
    let dropped = engine.drop_routine(&name, with_accounts).await;
    if dropped.map_err(|Failed(e)| e)? {
        return Ok(());
    }
    let missing = SqlError::no_such_procedure(&name);
    match if_exists {
        true => {
            session.warn("Note", &missing);
            Ok(())
        }
        false => Err(missing),
    }
}

/// The name of a procedure that may be changed.
fn checked(session: &Session, name: &ObjectName) -> Result<TableName> {
    let (schema, name) = session.resolve(name)?;
    session.check_own(&schema)?;
    let needed = Privileges::ALTER_ROUTINE;
    session.check_routine(needed, "alter routine", &schema, &name)?;
    Ok(TableName { schema, name })
}
