//! What GRANT and REVOKE of privileges mean: their levels, and what they need.

use perigee_accounts::{Level, Privileges, RoutineKind, Scope};

use super::Session;
use crate::error::{Result, SqlError};
use crate::parse::{Grant, Granted, On};

/// Who grants or revokes needs what is granted, and GRANT OPTION, at that level.
pub(super) fn check(session: &Session, grant: &Grant) -> Result<()> {
    let scope = grant.on.scope();
    let privileges = match grant.privileges {
        Granted::All => Privileges::all_at(scope),
        Granted::Some(privileges) => privileges,
    };
    check_scope(scope, privileges)?;
    let needed = privileges.with(Privileges::GRANT_OPTION);
    let (grants, account) = (session.grants(), &session.info.account);
    match level_of(session, &grant.on)? {
        Level::Global if !grants.global().has(needed) => Err(SqlError::access_denied(
            account.user(),
            account.host(),
            session.password_was_given()?,
        )),
        Level::Schema(schema) if !grants.on_schema(&schema).has(needed) => {
            Err(session.schema_denied(&schema))
        }
        Level::Table(schema, table) => {
            let own = grants.on_table(&schema, &table);
            let is_missing = |(column, privileges): &&(String, Privileges)| {
                !grants.on_column(&schema, &table, column).has(*privileges)
            };
            let missing = match own.has(needed) {
                true => grant.columns.iter().find(is_missing).map(|(_, own)| *own),
                false => Some(privileges.without(own)),
            };
            let Some(missing) = missing else {
                return Ok(());
            };
            Err(SqlError::table_access_denied(
                missing.names().next().unwrap_or("GRANT"),
                account.user(),
                &session.info.host,
                &table,
            ))
        }
        Level::Routine(kind, schema, name) => {
            let missing = needed.without(grants.on_routine(kind, &schema, &name));
            let command = match missing {
                Privileges::NONE => return Ok(()),
                missing if missing.has(Privileges::EXECUTE) => "execute",
                missing if missing.has(Privileges::ALTER_ROUTINE) => "alter routine",
                _ => "grant",
            };
            let name = format!("{schema}.{name}");
            Err(session.routine_denied(command, name))
        }
        _ => Ok(()),
    }
}

/// Checks that privileges can be granted at a level.
fn check_scope(scope: Scope, privileges: Privileges) -> Result<()> {
    let foreign = privileges.foreign_to(scope);
    if foreign.is_none() {
        return Ok(());
    }
    let dynamic = foreign.dynamic();
    if !dynamic.is_none() {
        let names: Vec<_> = dynamic.names().collect();
        return Err(SqlError::illegal_privilege_level(names.join(", ")));
    }
    match scope {
        Scope::Table | Scope::Routine => Err(SqlError::illegal_grant()),
        _ => Err(SqlError::wrong_usage("DB GRANT", "GLOBAL PRIVILEGES")),
    }
}

/// A table must exist, unless the account is to be allowed to make it; so must a routine.
pub(super) fn check_exists(session: &Session, on: Option<&Level>, grant: &Grant) -> Result<()> {
    let creates = match grant.privileges {
        Granted::All => true,
        Granted::Some(privileges) => privileges.has(Privileges::CREATE),
    };
    match on {
        Some(Level::Table(schema, table)) if !creates || !grant.columns.is_empty() => {
            let def = session.definition(schema, table)?;
            let known = |name: &str| {
                let mut columns = def.columns.iter();
                columns.any(|own| own.hidden.is_none() && own.name.to_lowercase() == name)
            };
            let mut columns = grant.columns.iter();
            match columns.find(|(name, _)| !known(name)) {
                Some((name, _)) => Err(SqlError::unknown_column(name, table)),
                None => Ok(()),
            }
        }
        Some(Level::Routine(kind, schema, name)) => {
            let routine = match kind {
                RoutineKind::Procedure => session.frontend.engine.routine(schema, name),
                RoutineKind::Function => None,
            };
            match (routine, kind) {
                (Some(_), _) => Ok(()),
                (None, RoutineKind::Procedure) => {
                    Err(SqlError::no_such_procedure(format!("{schema}.{name}")))
                }
                (None, RoutineKind::Function) => {
                    Err(SqlError::unknown_function(format!("{schema}.{name}")))
                }
            }
        }
        _ => Ok(()),
    }
}

/// The level that is meant.
pub(super) fn level_of(session: &Session, on: &On) -> Result<Level> {
    let current = || {
        let schema = session.schema().map(str::to_owned);
        schema.ok_or_else(SqlError::no_schema_selected)
    };
    Ok(match on {
        On::Level(level) => level.clone(),
        On::CurrentSchema => Level::Schema(current()?),
        On::CurrentTable(table) => Level::Table(current()?, table.clone()),
        On::CurrentRoutine(kind, name) => Level::Routine(*kind, current()?, name.clone()),
    })
}

/// What a statement says of columns, level by level.
pub(super) fn levels_of_columns(on: &Level, grant: &Grant) -> Vec<(Level, Privileges)> {
    let Level::Table(schema, table) = on else {
        return Vec::new();
    };
    let level = |(column, privileges): &(String, Privileges)| {
        let level = Level::Column(schema.clone(), table.clone(), column.clone());
        (level, *privileges)
    };
    grant.columns.iter().map(level).collect()
}

/// What is granted at a level.
pub(super) fn of_level(granted: Granted, level: &Level) -> Privileges {
    match granted {
        Granted::All => Privileges::all_at(level.scope()),
        Granted::Some(privileges) => privileges,
    }
}
