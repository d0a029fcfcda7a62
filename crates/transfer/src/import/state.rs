//! What an import has finished, in the schema `perigee_import` of the target.
//!
//! The notes are kept there and not in a file, because they belong to the rows: they are as durable as these, the import can
//! be resumed from another machine, and restoring or dropping the target takes both along.
//!
//! A *unit* (a table, or a range of a large one) is one LOAD DATA, which the target commits as a whole, and whose rows no other
//! unit has. So its rows tell by themselves whether it is done, and resuming is exact although the note follows the commit: of
//! a unit without a note the target has all rows or none. LOAD DATA inside a transaction, which could have the note with it,
//! inserts row by row and takes several times as long.

use std::time::{Duration, Instant};

use mysql_async::Conn;

use super::range::Range;
use crate::connect::{execute, number, one, rows};
use crate::error::code;
use crate::names::literal;
use crate::progress::tell;
use crate::{Endpoint, TransferError};

/// How long a LOAD DATA of a run that was killed may take to end.
const END_LIMIT: Duration = Duration::from_secs(600);

const TABLES: [&str; 3] = [
    "CREATE DATABASE IF NOT EXISTS perigee_import",
    "CREATE TABLE IF NOT EXISTS perigee_import.runs (id CHAR(16) NOT NULL PRIMARY KEY, command TEXT NOT NULL, \
     started TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP)",
    "CREATE TABLE IF NOT EXISTS perigee_import.units (run CHAR(16) NOT NULL, table_schema VARCHAR(64) NOT NULL, \
     table_name VARCHAR(64) NOT NULL, unit INT UNSIGNED NOT NULL, from_key DECIMAL(30,0), below_key DECIMAL(30,0), \
     rows_before BIGINT UNSIGNED NOT NULL, done BOOLEAN NOT NULL, \
     PRIMARY KEY (run, table_schema, table_name, unit))",
];

/// A unit as it is noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    pub schema: String,
    pub table: String,
    pub unit: u32,
    pub range: Range,
    /// Rows that the table had before the import.
    pub rows_before: u64,
    pub done: bool,
}

/// The notes of one import, which no other process has at the same time.
pub(crate) struct State {
    id: String,
    /// Holds the lock of the run's row.
    lock: Conn,
}

impl State {
    /// Opens the notes of the import that `command` describes: the same command has the same notes.
    ///
    /// # Errors
    /// If another process runs it, or the target fails.
    pub(crate) async fn open(
        target: &Endpoint,
        mut conn: Conn,
        command: &str,
    ) -> Result<Self, TransferError> {
        let id = id(command);
        for sql in TABLES {
            execute(&mut conn, sql).await?;
        }
        execute(&mut conn, "SET innodb_lock_wait_timeout = 15").await?;
        match lock(&mut conn, &id, command).await {
            Ok(()) => {}
            Err(TransferError::Server { cause, .. }) if code(&cause) == Some(1205) => {
                let text = format!(
                    "another process runs this import into {}; wait for its end",
                    target.place()
                );
                return Err(TransferError::Usage(text));
            }
            Err(error) => return Err(error),
        }
        Ok(Self { id, lock: conn })
    }

    /// What a LOAD DATA of this import calls its file.
    pub(crate) fn mark(&self, table: &str, unit: u32) -> String {
        format!("perigee import {}: {table}, unit {unit}", self.id)
    }

    /// What an earlier run noted, unless the import begins again; nothing if there was none.
    pub(crate) async fn known(
        &self,
        conn: &mut Conn,
        restart: bool,
    ) -> Result<Vec<Noted>, TransferError> {
        if restart {
            self.settle(conn).await?;
            self.forget(conn).await?;
        }
        let units = self.units(conn).await?;
        if !units.is_empty() {
            tell("an earlier run of this command was not finished: it goes on");
        }
        Ok(units)
    }

    async fn units(&self, conn: &mut Conn) -> Result<Vec<Noted>, TransferError> {
        let sql = format!(
            "SELECT table_schema, table_name, unit, from_key, below_key, rows_before, done FROM perigee_import.units \
             WHERE run = {} ORDER BY table_schema, table_name, unit",
            literal(&self.id)
        );
        let mut found = Vec::new();
        for row in rows(conn, &sql).await? {
            let text = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
            let key = |at: usize| text(at).parse::<i128>().ok();
            found.push(Noted {
                schema: text(0),
                table: text(1),
                unit: text(2).parse().unwrap_or(0),
                range: Range {
                    from: key(3),
                    below: key(4),
                },
                rows_before: text(5).parse().unwrap_or(0),
                done: text(6) == "1",
            });
        }
        Ok(found)
    }

    /// Notes all units before the first one begins, at once.
    pub(crate) async fn plan(&self, conn: &mut Conn, units: &[Noted]) -> Result<(), TransferError> {
        let key = |key: Option<i128>| key.map_or("NULL".to_owned(), |key| key.to_string());
        let row = |unit: &Noted| {
            format!(
                "({}, {}, {}, {}, {}, {}, {}, FALSE)",
                literal(&self.id),
                literal(&unit.schema),
                literal(&unit.table),
                unit.unit,
                key(unit.range.from),
                key(unit.range.below),
                unit.rows_before
            )
        };
        let values: Vec<_> = units.iter().map(row).collect();
        if values.is_empty() {
            return Ok(());
        }
        execute(
            conn,
            &format!(
                "INSERT INTO perigee_import.units VALUES {}",
                values.join(", ")
            ),
        )
        .await
    }

    /// Notes that a unit is done.
    pub(crate) async fn done(&self, conn: &mut Conn, unit: &Noted) -> Result<(), TransferError> {
        let sql = format!(
            "UPDATE perigee_import.units SET done = TRUE WHERE run = {} AND table_schema = {} AND table_name = {} \
             AND unit = {}",
            literal(&self.id),
            literal(&unit.schema),
            literal(&unit.table),
            unit.unit
        );
        execute(conn, &sql).await
    }

    /// Waits until the target has ended what a killed run left behind: a LOAD DATA whose file arrived as a whole commits
    /// although nobody waits for it.
    pub(crate) async fn settle(&self, conn: &mut Conn) -> Result<(), TransferError> {
        let begin = Instant::now();
        let sql = format!(
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE {}",
            literal(&format!(
                "LOAD DATA LOCAL INFILE 'perigee import {}:%",
                self.id
            ))
        );
        while number(conn, &sql).await? > 0 {
            if begin.elapsed() > END_LIMIT {
                let text = "a LOAD DATA of a run that was killed still goes on in the target (SHOW PROCESSLIST); KILL it, \
                            then run the command again";
                return Err(TransferError::Usage(text.to_owned()));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Forgets the notes: the import is over, or begins again.
    async fn forget(&self, conn: &mut Conn) -> Result<(), TransferError> {
        let sql = format!(
            "DELETE FROM perigee_import.units WHERE run = {}",
            literal(&self.id)
        );
        execute(conn, &sql).await
    }

    /// Ends the import. The schema stays, in which others may be at work.
    pub(crate) async fn close(mut self, conn: &mut Conn) -> Result<(), TransferError> {
        self.forget(conn).await?;
        let sql = format!(
            "DELETE FROM perigee_import.runs WHERE id = {}",
            literal(&self.id)
        );
        execute(&mut self.lock, &sql).await?;
        execute(&mut self.lock, "COMMIT").await?;
        Ok(())
    }
}

/// Takes the lock of the run's row, which a connection that breaks gives back.
async fn lock(conn: &mut Conn, id: &str, command: &str) -> Result<(), TransferError> {
    let sql = format!(
        "INSERT IGNORE INTO perigee_import.runs (id, command) VALUES ({}, {})",
        literal(id),
        literal(command)
    );
    execute(conn, &sql).await?;
    execute(
        conn,
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    )
    .await?;
    execute(conn, "START TRANSACTION").await?;
    let sql = format!(
        "SELECT id FROM perigee_import.runs WHERE id = {} FOR UPDATE",
        literal(id)
    );
    match one(conn, &sql).await? {
        Some(_) => Ok(()),
        None => {
            let text = "another process has just ended this import; run the command again";
            Err(TransferError::Usage(text.to_owned()))
        }
    }
}

/// Sixteen digits that stand for a command.
fn id(command: &str) -> String {
    let mut hash = crate::checksum::Tally::default();
    let mut row = crate::checksum::RowHash::new();
    row.value(Some(command.as_bytes()));
    hash.add(row);
    format!("{:016x}", hash.sum)
}
