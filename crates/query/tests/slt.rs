//! Runs the text files in `tests/slt`: statements with the answers they must give, over real stores
//! on disk, once with near-data processing off and once on (with no threshold), with the same
//! answers.
//!
//! A file is a list of records separated by empty lines:
//!
//! ```text
//! ok                      error 1146 [text]       query [sort]
//! CREATE TABLE …          SELECT * FROM nope      SELECT …
//!                                                 ----
//!                                                 1|abc|NULL
//! ```
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

mod common;

use std::fmt::Write;

use common::{Fixture, rows_of};

struct Record<'a> {
    line: usize,
    head: &'a str,
    sql: String,
    expected: Vec<&'a str>,
}

fn records(text: &str) -> Vec<Record<'_>> {
    let mut records = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, head)) = lines.next() {
        if head.trim().is_empty() || head.starts_with('#') {
            continue;
        }
        let mut record = Record {
            line: number + 1,
            head,
            sql: String::new(),
            expected: Vec::new(),
        };
        let mut in_rows = false;
        while let Some((_, line)) = lines.next_if(|(_, line)| !line.is_empty()) {
            if line == "----" {
                in_rows = true;
            } else if in_rows {
                record.expected.push(line);
            } else {
                let _ = writeln!(record.sql, "{line}");
            }
        }
        records.push(record);
    }
    records
}

async fn run_file(name: &str, text: &str, setup: &str) {
    let fixture = Fixture::new().await;
    let mut session = fixture.session();
    fixture.run(&mut session, setup).await.unwrap();
    fixture
        .run(&mut session, "CREATE DATABASE test; USE test")
        .await
        .unwrap();
    let mut failures = String::new();
    for Record {
        line,
        head,
        sql,
        expected,
    } in records(text)
    {
        let outcome = fixture.run(&mut session, &sql).await;
        let got = match (&outcome, head.split_whitespace().next()) {
            (Ok(_), Some("ok")) => continue,
            (Err(e), Some("error")) => {
                let mut words = head.splitn(3, ' ').skip(1);
                let number = words.next().unwrap_or_default();
                let text = words.next().unwrap_or_default();
                if number == e.errno.to_string() && e.message.contains(text) {
                    continue;
                }
                format!("{e}")
            }
            (Err(e), _) => format!("{e}"),
            (Ok(results), _) => {
                let mut rows = rows_of(results.last().unwrap());
                let mut expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
                if head.ends_with("sort") {
                    rows.sort();
                    expected.sort();
                }
                if rows == expected && head.starts_with("query") {
                    continue;
                }
                rows.join("\n")
            }
        };
        let _ = writeln!(failures, "{name}:{line} ({setup}): {sql}{got}\n");
    }
    assert!(failures.is_empty(), "\n{failures}");
}

macro_rules! files {
    ($($name:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let text = include_str!(concat!("slt/", stringify!($name), ".slt"));
                run_file(stringify!($name), text, "SET ndp_mode = OFF").await;
                run_file(stringify!($name), text, "SET ndp_mode = ON, ndp_min_pages = 0").await;
            }
        )*
    };
}

files!(ddl, errors, insert, select, types, session, explain);
