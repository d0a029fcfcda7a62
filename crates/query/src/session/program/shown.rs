//! Procedures as SHOW writes them.

use std::sync::Arc;

use perigee_accounts::{AccountName, Privileges, RoutineKind};
use perigee_catalog_views::RoutineFacts;
use perigee_engine::catalog::{RoutineDef, SqlAccess, TableDef};
use perigee_sql_bind::query::quoted;
use perigee_value::{Charset, ColumnType, Datum};
use sqlparser::ast::ObjectName;

use super::text_of;
use crate::error::{Result, SqlError};
use crate::interrupt;
use crate::parse::Filter;
use crate::session::Session;
use crate::session::ddl::{quoted as quoted_text, variable_definition};
use crate::session::rowset::{Rowset, text};

/// The statement that makes a procedure.
fn statement(routine: &RoutineDef) -> String {
    let definer = AccountName::new(&routine.definer.0, &routine.definer.1).in_backticks();
    let (name, parameters) = (quoted(&routine.name), &routine.parameters);
    let mut out = format!("CREATE DEFINER={definer} PROCEDURE {name}({parameters})\n");
    out.push_str(match routine.access {
        SqlAccess::Contains => "",
        SqlAccess::None => "    NO SQL\n",
        SqlAccess::Reads => "    READS SQL DATA\n",
        SqlAccess::Modifies => "    MODIFIES SQL DATA\n",
    });
    if routine.deterministic {
        out.push_str("    DETERMINISTIC\n");
    }
    if routine.invoker {
        out.push_str("    SQL SECURITY INVOKER\n");
    }
    if !routine.comment.is_empty() {
        out.push_str(&format!("    COMMENT {}\n", quoted_text(&routine.comment)));
    }
    out + &routine.body
}

/// SHOW CREATE PROCEDURE.
///
/// # Errors
/// 1305, also for a procedure that may not be seen.
pub(in crate::session) fn create_procedure(session: &Session, name: &ObjectName) -> Result<Rowset> {
    let (schema, name) = session.resolve(name)?;
    let routine = session.frontend.engine.routine(&schema, &name);
    let routine = routine.filter(|routine| session.sees_routine(routine));
    let routine = routine.ok_or_else(|| SqlError::no_such_procedure(&name))?;
    let mut rows = Rowset::new(&[
        "Procedure",
        "sql_mode",
        "Create Procedure",
        "character_set_client",
        "collation_connection",
        "Database Collation",
    ]);
    rows.push(vec![
        text(&routine.name),
        text(&routine.sql_mode),
        text(statement(&routine)),
        text(Charset::Utf8mb4.name()),
        text(routine.connection.name()),
        text(routine.database.name()),
    ]);
    Ok(rows)
}

/// SHOW PROCEDURE STATUS.
pub(in crate::session) fn procedures(
    session: &Session,
    columns: &[&str],
    filter: Option<&Filter>,
) -> Result<Rowset> {
    let mut rows = Rowset::new(columns);
    let engine = &session.frontend.engine;
    for schema in engine.schemas() {
        for routine in engine.routines(&schema) {
            if !session.sees_routine(&routine) {
                continue;
            }
            let moment = |utc: i64| {
                let local =
                    Datum::DateTime(utc - utc.rem_euclid(1_000_000)).local_in(session.zone());
                text_of(&(local, ColumnType::DateTime { fsp: 0 }))
            };
            rows.push(vec![
                text(&routine.schema),
                text(&routine.name),
                text("PROCEDURE"),
                text("SQL"),
                text(format!("{}@{}", routine.definer.0, routine.definer.1)),
                moment(routine.altered),
                moment(routine.created),
                text(if routine.invoker {
                    "INVOKER"
                } else {
                    "DEFINER"
                }),
                text(&routine.comment),
                text(Charset::Utf8mb4.name()),
                text(routine.connection.name()),
                text(routine.database.name()),
            ]);
        }
    }
    rows.filter_by(1, filter)?;
    Ok(rows)
}

/// The procedures that the session may see, for `information_schema`.
///
/// # Errors
/// If the text of one does not parse, which it did.
pub(in crate::session) fn facts(session: &Session) -> Result<Vec<RoutineFacts>> {
    let engine = &session.frontend.engine;
    let mut facts = Vec::new();
    for schema in engine.schemas() {
        for def in engine.routines(&schema) {
            if !session.sees_routine(&def) {
                continue;
            }
            interrupt::check()?;
            let frontend = &session.frontend;
            let program = frontend.programs.of(&def, &frontend.memory)?;
            let parameters = program.parameters.iter();
            let columns = parameters
                .clone()
                .map(|own| variable_definition(&own.column, def.database, session.zone()));
            facts.push(RoutineFacts {
                modes: parameters.map(|own| own.mode.name()).collect(),
                parameters: Arc::new(TableDef {
                    columns: columns.collect::<Result<_>>()?,
                    ..TableDef::default()
                }),
                zone: session.zone(),
                def,
            });
        }
    }
    Ok(facts)
}

impl Session {
    /// Checks that a procedure may be used so.
    ///
    /// # Errors
    /// 1370.
    pub(super) fn check_routine(
        &self,
        needed: Privileges,
        command: &str,
        schema: &str,
        name: &str,
    ) -> Result<()> {
        let kind = RoutineKind::Procedure;
        match self.grants().on_routine(kind, schema, name).has(needed) {
            true => Ok(()),
            false => Err(self.routine_denied(command, format!("{schema}.{name}"))),
        }
    }

    /// Error 1370.
    pub(in crate::session) fn routine_denied(&self, command: &str, name: String) -> SqlError {
        let (user, host) = (self.info.account.user(), &self.info.host);
        SqlError::routine_access_denied(command, user, host, name)
    }

    /// True if a procedure may be seen: its definer sees it, whatever is granted.
    pub(super) fn sees_routine(&self, routine: &RoutineDef) -> bool {
        let definer = AccountName::new(&routine.definer.0, &routine.definer.1);
        let any = Privileges::OF_ROUTINES.with(Privileges::CREATE_ROUTINE);
        let grants = self.grants();
        let kind = RoutineKind::Procedure;
        grants.global().has(Privileges::SELECT)
            || definer == self.info.account
            || grants
                .on_routine(kind, &routine.schema, &routine.name)
                .has_any(any)
    }
}
