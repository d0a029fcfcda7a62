//! What the binder asks of a session.

use std::time::{SystemTime, UNIX_EPOCH};

use perigee_engine::EngineError;
use perigee_engine::catalog::{Table, TableDef, is_temporary_schema};
use perigee_sql_bind::Modes;
use perigee_value::{Collation, Now, Zone};
use sqlparser::ast::{Expr, ObjectName, UnaryOperator, Value};
use std::sync::Arc;

use super::Session;
use super::variables::TIMESTAMP;
use crate::error::{Result, SqlError};

fn string(text: impl Into<String>) -> Expr {
    Expr::value(Value::SingleQuotedString(text.into()))
}

fn number(v: u64) -> Expr {
    Expr::value(Value::Number(v.to_string(), false))
}

fn signed(v: i64) -> Expr {
    let magnitude = number(v.unsigned_abs());
    match v < 0 {
        true => Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(magnitude),
        },
        false => magnitude,
    }
}

impl Session {
    /// The value of a system variable as a literal; the scope is `global`, `session` or none.
    ///
    /// # Errors
    /// 1193.
    pub(super) fn variable(&self, scope: Option<&str>, name: &str) -> Result<Expr> {
        match (scope, name) {
            (None, "warning_count") => Ok(number(self.warnings.count())),
            (None, "error_count") => Ok(number(self.warnings.errors())),
            (None | Some("session"), "last_insert_id" | "identity") => {
                Ok(number(self.last_insert_id))
            }
            (None | Some("session"), "collation_database") => {
                Ok(string(self.schema_collation().name()))
            }
            (None | Some("session"), "character_set_database") => {
                Ok(string(self.schema_collation().charset().name()))
            }
            (None | Some("session"), TIMESTAMP) => {
                let now = self.now().utc;
                let (seconds, micros) = (now / 1_000_000, now % 1_000_000);
                let text = format!("{seconds}.{micros:06}");
                Ok(Expr::value(Value::Number(text, false)))
            }
            (Some("global"), TIMESTAMP) => Err(SqlError::session_variable(TIMESTAMP)),
            (Some("global"), name) => self.frontend.globals.read().literal(name),
            (_, name) => self.variables.literal(name),
        }
    }

    /// The collation of tables that the session's schema is to get; without a schema the server's.
    fn schema_collation(&self) -> Collation {
        match &self.schema {
            Some(schema) => self.frontend.engine.schema_collation(schema),
            None => self.variables.collation_of("collation_server"),
        }
    }

    /// True if a column that the groups do not decide is an error.
    pub(super) fn only_full_group_by(&self) -> bool {
        self.modes().has(Modes::ONLY_FULL_GROUP_BY)
    }

    /// When a statement begins that begins now: at the time that SET timestamp said, or the clock's. In a trigger it is
    /// when the statement began that fires it.
    pub(super) fn now(&self) -> Now {
        let fired = self.fired.last().map(|firing| firing.now);
        let time = fired.or_else(|| self.variables.fixed_time());
        Now {
            utc: time.unwrap_or_else(micros_now),
            zone: self.zone(),
        }
    }

    /// The session's time zone.
    pub(super) fn zone(&self) -> Zone {
        self.variables.zone()
    }

    /// True if 0000-00-00 is a date.
    pub(super) fn zero_dates(&self) -> bool {
        !self.modes().has(Modes::NO_ZERO_DATE)
    }

    /// The modes of `sql_mode` for the statements that begin now.
    pub(super) fn modes(&self) -> Modes {
        self.variables.modes()
    }

    /// The value of a function of the session such as `DATABASE()` as a literal; `None` for other names.
    pub(super) fn session_function(&self, name: &str) -> Option<Expr> {
        Some(match name {
            "database" | "schema" => match &self.schema {
                Some(schema) => string(schema.clone()),
                None => Expr::value(Value::Null),
            },
            "version" => string(super::SERVER_VERSION),
            "user" | "session_user" | "system_user" => {
                string(format!("{}@{}", self.info.user, self.info.host))
            }
            "current_user" => {
                let account = &self.info.account;
                string(format!("{}@{}", account.user(), account.host()))
            }
            "current_role" => string(super::roles::shown(self.active_roles())),
            "connection_id" => number(self.info.connection_id),
            "last_insert_id" => number(self.last_insert_id),
            "row_count" => signed(self.row_count.last()),
            _ => return None,
        })
    }
}

/// Microseconds since 1970.
pub(super) fn micros_now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_micros() as i64)
}

impl Session {
    /// What a table of a user or a view of the server looks like, by its names in lower case.
    pub(super) fn definition(&self, schema: &str, table: &str) -> Result<TableDef> {
        if let Some(view) = perigee_catalog_views::find(schema, table) {
            return Ok(view.definition());
        }
        if let Some(view) = self.named_view(schema, table) {
            return self.view_columns(&view);
        }
        Ok(self.table(schema, table)?.def.clone())
    }

    /// An error for a schema, in lower case, that the server makes of what it knows: nobody changes it.
    pub(super) fn check_own(&self, schema: &str) -> Result<()> {
        match perigee_catalog_views::is_schema(schema) {
            true => Err(self.schema_denied(schema)),
            false => Ok(()),
        }
    }

    /// The table of a user that a statement means by its names in lower case. What the server makes of what it knows
    /// nobody changes.
    pub(super) fn table(&self, schema: &str, table: &str) -> Result<Arc<Table>> {
        match self.temporary(schema, table) {
            Some(table) => Ok(table),
            None => self.base_table(schema, table),
        }
    }

    /// As [`Session::table`], for names that do not mean temporary tables.
    pub(super) fn base_table(&self, schema: &str, table: &str) -> Result<Arc<Table>> {
        if is_temporary_schema(schema) {
            return Err(SqlError::unknown_schema(schema));
        }
        self.frontend
            .engine
            .table(schema, table)
            .map_err(|e| match e {
                EngineError::NoSuchSchema(_) | EngineError::NoSuchTable(_) => {
                    if perigee_catalog_views::find(schema, table).is_some()
                        && let Err(denied) = self.check_own(schema)
                    {
                        denied
                    } else if self.has_schema(schema) {
                        self.no_table(schema, table)
                    } else {
                        SqlError::unknown_schema(schema)
                    }
                }
                other => other.into(),
            })
    }

    /// The error for a name, in lower case, that is none of a table.
    pub(super) fn no_table(&self, schema: &str, name: &str) -> SqlError {
        match self.stored_view(schema, name) {
            Some(_) => SqlError::wrong_object(schema, name, "BASE TABLE"),
            None => SqlError::no_such_table(schema, name),
        }
    }

    /// Schema and table of a name, in lower case.
    pub(super) fn resolve(&self, name: &ObjectName) -> Result<(String, String)> {
        let parts: Vec<String> = name
            .0
            .iter()
            .map(|part| match part.as_ident() {
                Some(ident) => Ok(ident.value.to_lowercase()),
                None => Err(SqlError::not_supported("a function as a name")),
            })
            .collect::<Result<_>>()?;
        match &parts[..] {
            [table] => match &self.schema {
                Some(schema) => Ok((schema.clone(), table.clone())),
                None => Err(SqlError::no_schema_selected()),
            },
            [schema, _] if is_temporary_schema(schema) => Err(SqlError::unknown_schema(schema)),
            [schema, table] => Ok((schema.clone(), table.clone())),
            _ => Err(SqlError::not_supported("names of three parts")),
        }
    }

    /// The table of a name.
    pub(super) fn named_table(&self, name: &ObjectName) -> Result<Arc<Table>> {
        let (schema, table) = self.resolve(name)?;
        self.table(&schema, &table)
    }
}
