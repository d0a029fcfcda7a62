//! What an import makes in the target around the rows: schemas and tables before them; foreign keys, views and procedures
//! behind them.

use mysql_async::Conn;

use crate::TransferError;
use crate::catalog::{Program, Schema};
use crate::connect::{execute, number, one, rows};
use crate::ddl::{self, Definition};
use crate::error::said;
use crate::names::{ident, literal, qualified};

/// A table to come.
#[derive(Clone, Debug)]
pub(crate) struct TargetTable {
    pub schema: String,
    pub name: String,
    pub definition: Definition,
}

/// Names in the target's schemas that the import would take: `table s.t` and so on.
pub(crate) async fn taken(
    conn: &mut Conn,
    schema: &str,
    wanted: &Schema,
) -> Result<Vec<Taken>, TransferError> {
    let name = literal(schema);
    let tables = format!(
        "SELECT TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = {name}"
    );
    let routines = format!(
        "SELECT ROUTINE_NAME, ROUTINE_TYPE FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = {name}"
    );
    let mut found = Vec::new();
    for (sql, programs) in [(tables, false), (routines, true)] {
        for row in rows(conn, &sql).await? {
            let text = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
            let (there, kind) = (text(0), text(1));
            let same = |name: &String| name.to_lowercase() == there.to_lowercase();
            let is_wanted = match programs {
                true => wanted.procedures.iter().map(|one| &one.name).any(same),
                false => {
                    let tables = wanted.tables.iter().map(|one| &one.name);
                    tables
                        .chain(wanted.views.iter().map(|one| &one.name))
                        .any(same)
                }
            };
            if is_wanted {
                let kind = match kind.as_str() {
                    "VIEW" => "VIEW",
                    "PROCEDURE" => "PROCEDURE",
                    _ => "TABLE",
                };
                found.push(Taken {
                    kind,
                    schema: schema.to_owned(),
                    name: there,
                });
            }
        }
    }
    Ok(found)
}

/// Something in the target that has the name of something that is imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    kind: &'static str,
    schema: String,
    name: String,
}

impl Taken {
    pub(crate) fn shown(&self) -> String {
        format!("{} {}.{}", self.kind.to_lowercase(), self.schema, self.name)
    }

    /// The statement that removes it.
    pub(crate) fn drop_sql(&self) -> String {
        format!(
            "DROP {} IF EXISTS {}",
            self.kind,
            qualified(&self.schema, &self.name)
        )
    }
}

/// Removes what is in the way. Tables may refer to each other.
pub(crate) async fn remove(conn: &mut Conn, taken: &[Taken]) -> Result<(), TransferError> {
    execute(conn, "SET foreign_key_checks = 0").await?;
    for one in taken {
        execute(conn, &one.drop_sql()).await?;
    }
    execute(conn, "SET foreign_key_checks = 1").await
}

/// Makes a table that is not there; says what had to be left out.
pub(crate) async fn create(
    conn: &mut Conn,
    table: &TargetTable,
) -> Result<Vec<String>, TransferError> {
    execute(conn, &format!("USE {}", ident(&table.schema))).await?;
    let place = format!("table {}.{}", table.schema, table.name);
    let refused = match execute(conn, &table.definition.create).await {
        Ok(()) => return Ok(Vec::new()),
        Err(error) => error,
    };
    match (&table.definition.unchecked, refused) {
        (Some((unchecked, checks)), TransferError::Server { cause, .. }) => {
            execute(conn, unchecked)
                .await
                .map_err(|e| e.within(&place))?;
            let why = said(&cause);
            Ok(vec![format!(
                "the CHECK constraints {} are left out: {why}",
                checks.join(", ")
            )])
        }
        (_, error) => Err(error.within(&place)),
    }
}

/// Adds the foreign keys that are not there yet. Returns those that are refused, with the reasons.
pub(crate) async fn foreign_keys(
    conn: &mut Conn,
    table: &TargetTable,
) -> Result<Vec<String>, TransferError> {
    execute(conn, &format!("USE {}", ident(&table.schema))).await?;
    let mut refused = Vec::new();
    for (name, add) in &table.definition.foreign_keys {
        let sql = format!(
            "SELECT COUNT(*) FROM information_schema.TABLE_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = {} AND TABLE_NAME = {} \
             AND CONSTRAINT_NAME = {}",
            literal(&table.schema),
            literal(&table.name),
            literal(name)
        );
        if number(conn, &sql).await? > 0 {
            continue;
        }
        match execute(conn, add).await {
            Ok(()) => {}
            Err(TransferError::Server { cause, .. }) => {
                refused.push(format!(
                    "foreign key {name} of {}.{}: {}",
                    table.schema,
                    table.name,
                    said(&cause)
                ));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(refused)
}

/// Makes views. One may need another one that comes later, so they are tried until none is left or none succeeds. Returns
/// those that are refused, with the reasons.
pub(crate) async fn views(
    conn: &mut Conn,
    schema: &str,
    views: &[Program],
) -> Result<Vec<String>, TransferError> {
    let mut left: Vec<&Program> = views.iter().collect();
    execute(conn, &format!("USE {}", ident(schema))).await?;
    loop {
        let before = left.len();
        let mut refused = Vec::new();
        let mut again = Vec::new();
        for view in left {
            let create = ddl::program(view).replacen("CREATE ", "CREATE OR REPLACE ", 1);
            match execute(conn, &create).await {
                Ok(()) => {}
                Err(TransferError::Server { cause, .. }) => {
                    refused.push(format!("view {schema}.{}: {}", view.name, said(&cause)));
                    again.push(view);
                }
                Err(error) => return Err(error),
            }
        }
        if again.is_empty() || again.len() == before {
            return Ok(refused);
        }
        left = again;
    }
}

/// Makes procedures, each in its `sql_mode`. Returns those that are refused, with the reasons.
pub(crate) async fn procedures(
    conn: &mut Conn,
    schema: &str,
    all: &[Program],
) -> Result<Vec<String>, TransferError> {
    let mut refused = Vec::new();
    let own = one(conn, "SELECT @@sql_mode").await?.unwrap_or_default();
    execute(conn, &format!("USE {}", ident(schema))).await?;
    for procedure in all {
        let drop = format!(
            "DROP PROCEDURE IF EXISTS {}",
            qualified(schema, &procedure.name)
        );
        execute(conn, &drop).await?;
        let modes = execute(
            conn,
            &format!("SET sql_mode = {}", literal(&modes(&procedure.modes))),
        )
        .await;
        let made = match modes {
            Ok(()) => execute(conn, &ddl::program(procedure)).await,
            Err(error) => Err(error),
        };
        match made {
            Ok(()) => {}
            Err(TransferError::Server { cause, .. }) => {
                refused.push(format!(
                    "procedure {schema}.{}: {}",
                    procedure.name,
                    said(&cause)
                ));
            }
            Err(error) => return Err(error),
        }
    }
    execute(conn, &format!("SET sql_mode = {}", literal(&own))).await?;
    Ok(refused)
}

/// The modes of a source without those that MySQL 8 does not have any more.
fn modes(modes: &str) -> String {
    const GONE: [&str; 9] = [
        "NO_AUTO_CREATE_USER",
        "NO_KEY_OPTIONS",
        "NO_TABLE_OPTIONS",
        "NO_FIELD_OPTIONS",
        "POSTGRESQL",
        "ORACLE",
        "MSSQL",
        "DB2",
        "MAXDB",
    ];
    let kept = modes.split(',').filter(|mode| !GONE.contains(mode));
    kept.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_that_are_gone_are_left_out() {
        let found = modes("STRICT_TRANS_TABLES,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION");
        assert_eq!(found, "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION");
        assert_eq!(modes(""), "");
    }
}
