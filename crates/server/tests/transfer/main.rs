//! `perigee import` and `perigee export`, as commands: from MariaDB, from files, to files; killed, resumed, with what is wrong.
#![allow(clippy::unwrap_used, reason = "test code")]

mod files;
mod resume;
mod server;
#[path = "../support/mod.rs"]
mod support;
mod wrong;

use std::path::Path;
use std::process::{Command, Output};

use perigee_testkit::MariaDb;
use perigee_workload::{Client, Embedded};

use support::{binary, stderr, stdout};

/// The URL of schemas of a MariaDB server.
fn url(server: &MariaDb, account: &str, schemas: &str) -> String {
    let socket = server.socket().display().to_string().replace('/', "%2F");
    format!("mysql://{account}@localhost/{schemas}?socket={socket}")
}

/// The URL of a schema of Perigee, or of the server.
fn into(server: &Embedded, schema: &str) -> String {
    format!("mysql://root@{}/{schema}", server.address())
}

fn mariadb(dir: &Path) -> MariaDb {
    let args = ["--innodb-buffer-pool-size=32M", "--max-allowed-packet=64M"];
    MariaDb::start(dir, &args).unwrap()
}

fn serve(dir: &Path) -> Embedded {
    Embedded::start(&binary(), dir, &[]).unwrap()
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(args);
    command
}

/// Runs a command that has to succeed; returns what it prints.
fn run(args: &[&str]) -> String {
    let output = command(args).output().unwrap();
    assert!(
        output.status.success(),
        "{args:?}: {}{}",
        stdout(&output),
        stderr(&output)
    );
    stdout(&output)
}

/// Runs a command that has to fail; returns what it prints and says.
fn fail(args: &[&str]) -> String {
    said(&command(args).output().unwrap(), args)
}

fn said(output: &Output, what: &[&str]) -> String {
    let text = format!("{}{}", stdout(output), stderr(output));
    assert!(!output.status.success(), "{what:?} succeeds: {text}");
    text
}

/// All rows of a table, each value in hexadecimal digits of its text: what is compared here is not what the tool compares.
async fn rows(client: &mut Client, schema: &str, table: &str) -> Vec<String> {
    let sql = format!(
        "SELECT COLUMN_NAME, DATA_TYPE, CHARACTER_SET_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '{schema}' \
         AND TABLE_NAME = '{table}' ORDER BY ORDINAL_POSITION"
    );
    let columns = client.query(&sql).await.unwrap();
    assert!(!columns.is_empty(), "{schema}.{table} is missing");
    let value = |row: &Vec<Option<String>>| {
        let name = row[0].as_ref().unwrap().replace('`', "``");
        match row[1].as_deref().unwrap() {
            // Its own text has six digits.
            "float" => format!("HEX(CONCAT(`{name}` + 0e0))"),
            // ZEROFILL is left out; the year 0 has another text in CONCAT.
            "int" | "year" => format!("HEX(CONCAT(`{name}` + 0))"),
            _ if row[2].as_deref() == Some("utf16") => {
                format!("HEX(CONVERT(`{name}` USING utf8mb4))")
            }
            _ => format!("HEX(CONCAT(`{name}`))"),
        }
    };
    let values: Vec<_> = columns.iter().map(value).collect();
    let place = table.replace('`', "``");
    let sql = format!("SELECT {} FROM `{schema}`.`{place}`", values.join(", "));
    let found = client.query(&sql).await.unwrap();
    let line = |row: &Vec<Option<String>>| {
        let cells = row.iter().map(|cell| cell.as_deref().unwrap_or("NULL"));
        cells.collect::<Vec<_>>().join("|")
    };
    let mut lines: Vec<_> = found.iter().map(line).collect();
    lines.sort();
    lines
}

/// No note of an import is left in a target.
async fn nothing_noted(client: &mut Client) {
    for table in ["runs", "units"] {
        let sql = format!("SELECT COUNT(*) FROM perigee_import.{table}");
        assert_eq!(client.number(&sql).await.unwrap(), 0.0, "{table}");
    }
}
