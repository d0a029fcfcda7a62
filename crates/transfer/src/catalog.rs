//! What a server has: tables with their columns and keys, views, procedures.

use std::collections::HashMap;

use mysql_async::Conn;

use crate::TransferError;
use crate::connect::{Cell, rows};
use crate::kind::Kind;
use crate::names::{ident, literal, qualified};

/// A column of a table.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub name: String,
    pub kind: Kind,
    /// Its type, as `information_schema` writes it.
    pub ty: String,
    /// Computed from others; rows are given without it.
    pub generated: bool,
    /// The collation of a column of texts.
    pub collation: Option<String>,
}

/// A table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub schema: String,
    pub name: String,
    /// Estimates of the server.
    pub rows: u64,
    pub bytes: u64,
    /// Its rows are part of a transaction's snapshot.
    pub transactional: bool,
    pub collation: Option<String>,
    pub columns: Vec<Column>,
    /// Columns of the primary key, without those of which it has a prefix only and all behind them.
    pub primary: Vec<String>,
    /// What SHOW CREATE TABLE says.
    pub create: String,
}

impl Table {
    /// Its name with its schema, for messages.
    pub(crate) fn shown(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    /// What selects its columns without loss.
    pub(crate) fn selected(&self) -> String {
        selected(&self.columns)
    }

    /// The first column of the primary key, if it has integers: ranges of rows are ranges of its values.
    pub(crate) fn ranged(&self) -> Option<&str> {
        let first = self.primary.first()?;
        let column = self.columns.iter().find(|column| column.name == *first)?;
        let is_int = column.ty.to_ascii_lowercase().contains("int");
        (is_int && matches!(column.kind, Kind::Number(_))).then_some(first.as_str())
    }
}

/// What selects columns without loss.
pub(crate) fn selected(columns: &[Column]) -> String {
    let columns = columns
        .iter()
        .map(|column| column.kind.selected(&column.name));
    columns.collect::<Vec<_>>().join(", ")
}

/// A view or a procedure: its name and the statement that makes it.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub name: String,
    pub create: String,
    /// The `sql_mode` in which it was made, of a procedure.
    pub modes: String,
}

/// What a schema has.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    pub name: String,
    pub collation: String,
    pub tables: Vec<Table>,
    pub views: Vec<Program>,
    pub procedures: Vec<Program>,
    /// What no import takes over, with its kind: `trigger t`.
    pub others: Vec<String>,
}

/// Looks at a schema.
///
/// # Errors
/// If there is none with this name, or a query fails.
pub(crate) async fn schema(conn: &mut Conn, name: &str) -> Result<Schema, TransferError> {
    let sql = format!(
        "SELECT DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = {}",
        literal(name)
    );
    let Some(found) = rows(conn, &sql).await?.into_iter().next() else {
        let text = format!("there is no schema {name}, or the account may not see it");
        return Err(TransferError::Usage(text));
    };
    let mut schema = Schema {
        name: name.to_owned(),
        collation: text(&found, 0),
        tables: Vec::new(),
        views: Vec::new(),
        procedures: Vec::new(),
        others: Vec::new(),
    };
    let mut columns = columns(conn, name).await?;
    let mut keys = primary_keys(conn, name).await?;
    let sql = format!(
        "SELECT TABLE_NAME, TABLE_TYPE, TABLE_ROWS, DATA_LENGTH, ENGINE, TABLE_COLLATION FROM information_schema.TABLES \
         WHERE TABLE_SCHEMA = {} ORDER BY TABLE_NAME",
        literal(name)
    );
    for row in rows(conn, &sql).await? {
        let (table, kind) = (text(&row, 0), text(&row, 1));
        match kind.as_str() {
            "BASE TABLE" | "SYSTEM VERSIONED" => {
                let sql = format!("SHOW CREATE TABLE {}", qualified(name, &table));
                schema.tables.push(Table {
                    schema: name.to_owned(),
                    rows: number(&row, 2),
                    bytes: number(&row, 3),
                    transactional: ["InnoDB", "PERIGEE", "ROCKSDB"]
                        .iter()
                        .any(|engine| text(&row, 4).eq_ignore_ascii_case(engine)),
                    collation: row[5].clone(),
                    columns: columns.remove(&table).unwrap_or_default(),
                    primary: keys.remove(&table).unwrap_or_default(),
                    create: second(conn, &sql, 1).await?,
                    name: table,
                });
            }
            "VIEW" => {
                let sql = format!("SHOW CREATE VIEW {}", qualified(name, &table));
                schema.views.push(Program {
                    create: second(conn, &sql, 1).await?,
                    name: table,
                    modes: String::new(),
                });
            }
            other => schema
                .others
                .push(format!("{} {table}", other.to_lowercase())),
        }
    }
    programs(conn, &mut schema).await?;
    Ok(schema)
}

/// Procedures, and what is left out.
async fn programs(conn: &mut Conn, schema: &mut Schema) -> Result<(), TransferError> {
    let name = literal(&schema.name);
    let sql = format!(
        "SELECT ROUTINE_NAME, ROUTINE_TYPE FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = {name} \
         ORDER BY ROUTINE_NAME"
    );
    for row in rows(conn, &sql).await? {
        let (routine, kind) = (text(&row, 0), text(&row, 1));
        if kind != "PROCEDURE" {
            schema
                .others
                .push(format!("{} {routine}", kind.to_lowercase()));
            continue;
        }
        let sql = format!(
            "SHOW CREATE PROCEDURE {}",
            qualified(&schema.name, &routine)
        );
        let row = rows(conn, &sql)
            .await?
            .into_iter()
            .next()
            .unwrap_or_default();
        // Without the right to see it the text is NULL.
        let Some(Some(create)) = row.get(2) else {
            schema.others.push(format!(
                "procedure {routine} (the account may not see its text)"
            ));
            continue;
        };
        schema.procedures.push(Program {
            name: routine,
            create: create.clone(),
            modes: text(&row, 1),
        });
    }
    for (kind, view) in [("trigger", "TRIGGERS"), ("event", "EVENTS")] {
        let sql = format!(
            "SELECT {kind}_NAME FROM information_schema.{view} WHERE {kind}_SCHEMA = {name} ORDER BY {kind}_NAME"
        );
        let found = rows(conn, &sql).await?;
        let names = found.iter().map(|row| format!("{kind} {}", text(row, 0)));
        schema.others.extend(names);
    }
    Ok(())
}

async fn columns(
    conn: &mut Conn,
    schema: &str,
) -> Result<HashMap<String, Vec<Column>>, TransferError> {
    let sql = format!(
        "SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, EXTRA, COLLATION_NAME FROM information_schema.COLUMNS \
         WHERE TABLE_SCHEMA = {} ORDER BY TABLE_NAME, ORDINAL_POSITION",
        literal(schema)
    );
    let mut found: HashMap<String, Vec<Column>> = HashMap::new();
    for row in rows(conn, &sql).await? {
        let (ty, extra) = (text(&row, 2), text(&row, 3).to_ascii_uppercase());
        found.entry(text(&row, 0)).or_default().push(Column {
            name: text(&row, 1),
            kind: Kind::of(&ty),
            ty,
            generated: extra.contains("VIRTUAL GENERATED") || extra.contains("STORED GENERATED"),
            collation: row[4].clone(),
        });
    }
    Ok(found)
}

/// The columns of a table; none if there is no such table.
pub(crate) async fn columns_of(
    conn: &mut Conn,
    schema: &str,
    table: &str,
) -> Result<Vec<Column>, TransferError> {
    let mut all = columns(conn, schema).await?;
    let exact = all.remove(table);
    // Perigee keeps names in lower case.
    Ok(exact
        .or_else(|| all.remove(&table.to_lowercase()))
        .unwrap_or_default())
}

async fn primary_keys(
    conn: &mut Conn,
    schema: &str,
) -> Result<HashMap<String, Vec<String>>, TransferError> {
    let sql = format!(
        "SELECT TABLE_NAME, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = {} \
         AND INDEX_NAME = 'PRIMARY' ORDER BY TABLE_NAME, SEQ_IN_INDEX",
        literal(schema)
    );
    let mut found: HashMap<String, Vec<String>> = HashMap::new();
    let mut cut: Vec<String> = Vec::new();
    for row in rows(conn, &sql).await? {
        let table = text(&row, 0);
        if row[2].is_some() {
            cut.push(table.clone());
        }
        if !cut.contains(&table) {
            found.entry(table).or_default().push(text(&row, 1));
        }
    }
    Ok(found)
}

/// The columns of a table's primary key.
pub(crate) async fn primary_key(
    conn: &mut Conn,
    schema: &str,
    table: &str,
) -> Result<Vec<String>, TransferError> {
    Ok(primary_keys(conn, schema)
        .await?
        .remove(table)
        .unwrap_or_default())
}

/// A value of the only row of a SHOW CREATE.
async fn second(conn: &mut Conn, sql: &str, at: usize) -> Result<String, TransferError> {
    let row = rows(conn, sql)
        .await?
        .into_iter()
        .next()
        .unwrap_or_default();
    let value = row.into_iter().nth(at).flatten();
    value.ok_or_else(|| TransferError::Data(format!("{sql} shows nothing")))
}

/// The order in which rows of a table come by its primary key; nothing without one.
pub(crate) fn order(primary: &[String]) -> String {
    match primary {
        [] => String::new(),
        columns => {
            let columns: Vec<_> = columns.iter().map(|name| ident(name)).collect();
            format!(" ORDER BY {}", columns.join(", "))
        }
    }
}

fn text(row: &[Cell], at: usize) -> String {
    row.get(at).cloned().flatten().unwrap_or_default()
}

fn number(row: &[Cell], at: usize) -> u64 {
    text(row, at).parse().unwrap_or(0)
}
