//! Every pair of column types in CASE, IF, IFNULL, COALESCE, UNION, `=`, `<`, `<=>`, IN and BETWEEN, in SELECT and in
//! CREATE TABLE … SELECT, and in joins of all types, by ON, USING and WHERE, in SELECT, DELETE, UPDATE, INSERT … SELECT
//! and CREATE TABLE … SELECT, against MariaDB, with near-data processing off and on.
//!
//! `PERIGEE_MATRIX=all` runs everything, `PERIGEE_MATRIX=d,v` the pairs that columns `d` and `v` are in; otherwise some
//! pairs, and of their joins some, other ones with another `PERIGEE_SEED`.
#![allow(clippy::unwrap_used, reason = "test code")]

mod matrix {
    pub mod columns;
    pub mod forms;
    pub mod joins;
}

use matrix::columns;
use matrix::forms::{Case, cases, pairs};
use matrix::joins;
use perigee_testkit::{MariaDb, Rng, tested_binary};
use perigee_workload::{Client, Embedded, Rows, WorkloadError};

/// Pairs of a run that is not of all.
const PAIRS: usize = 20;

/// Of so many joins such a run takes one.
const JOINS: usize = 8;

/// Failures that are shown.
const SHOWN: usize = 200;

/// MySQL's error for what a server does not do.
const NOT_SUPPORTED: &str = "ERROR 1235";

/// An answer in a form that is compared: rows in an order of their own, doubles to nine digits, errors by number.
fn normal(answer: &Result<Rows, WorkloadError>, is_float: bool) -> Result<Rows, String> {
    let cell = |cell: &Option<String>| {
        let text = cell.as_ref()?;
        Some(match text.parse::<f64>() {
            Ok(v) if is_float && v == 0.0 => "0".to_owned(),
            Ok(v) if is_float => format!("{v:.8e}"),
            _ => text.clone(),
        })
    };
    match answer {
        Ok(rows) => {
            let mut rows: Rows = rows
                .iter()
                .map(|row| row.iter().map(cell).collect())
                .collect();
            rows.sort();
            Ok(rows)
        }
        Err(error) => {
            let text = error.to_string();
            let at = text.find("ERROR ").unwrap_or(0);
            Err(text[at..].chars().take(NOT_SUPPORTED.len()).collect())
        }
    }
}

/// The rows of an answer that another one does not have.
fn without(answer: &Result<Rows, String>, other: &Result<Rows, String>) -> Result<Rows, String> {
    let (Ok(rows), Ok(others)) = (answer, other) else {
        return answer.clone();
    };
    let rows = rows.iter().filter(|row| !others.contains(row));
    Ok(rows.cloned().collect())
}

async fn answer(client: &mut Client, case: &Case) -> Result<Rows, WorkloadError> {
    let answer = before(client, case).await;
    let answer = match answer {
        Ok(()) => client.query(&case.sql).await,
        Err(error) => Err(error),
    };
    for sql in &case.after {
        client.execute(sql).await?;
    }
    answer
}

async fn before(client: &mut Client, case: &Case) -> Result<(), WorkloadError> {
    for before in &case.before {
        if before.starts_with("CREATE OR REPLACE") {
            client.execute("DROP TABLE IF EXISTS made").await?;
        }
        let sql = before.replace("CREATE OR REPLACE", "CREATE");
        client.execute(&sql).await?;
    }
    Ok(())
}

/// Sets the mode in which MariaDB runs a case.
async fn set_mode(client: &mut Client, case: &Case) {
    let mode = match case.is_lenient {
        true => "",
        false => "STRICT_TRANS_TABLES",
    };
    let set = format!("SET SESSION sql_mode = '{mode}'");
    client.execute(&set).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_pair_of_types_means_what_it_means_in_mariadb() {
    let dir = tempfile::tempdir().unwrap();
    let mariadb = MariaDb::start(
        &dir.path().join("mariadb"),
        &["--innodb-buffer-pool-size=32M"],
    )
    .expect("MariaDB is needed for this test");
    let mut theirs = Client::connect_socket(&mariadb.socket(), None)
        .await
        .unwrap();
    for set in [
        "SET SESSION sql_mode = 'STRICT_TRANS_TABLES', time_zone = '+00:00'",
        "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
        "CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "USE d",
    ] {
        theirs.execute(set).await.unwrap();
    }
    let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
    let mut server = Embedded::start(&binary, &dir.path().join("plain"), &[]).unwrap();
    let mut ours = server.client(None).await.unwrap();
    for set in ["CREATE DATABASE d", "USE d"] {
        ours.execute(set).await.unwrap();
    }
    for statement in columns::create() {
        theirs.execute(&statement).await.unwrap();
        ours.execute(&statement).await.unwrap();
    }
    let mut pairs = pairs();
    let wanted = std::env::var("PERIGEE_MATRIX").ok();
    let all = wanted.is_some();
    if let Some(names) = wanted.filter(|names| names != "all") {
        let is_named = |column: &str| names.split(',').any(|name| name == column);
        pairs.retain(|(a, b)| is_named(a.name) || is_named(b.name));
        assert!(!pairs.is_empty(), "no column is named {names}");
    }
    if !all {
        let seed = std::env::var("PERIGEE_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let mut rng = Rng(seed.unwrap_or(1));
        for at in (1..pairs.len()).rev() {
            pairs.swap(at, rng.between(0, at as i64) as usize);
        }
        pairs.truncate(PAIRS);
    }
    let (mut equal, mut refused, mut wrong) = (0, 0, Vec::new());
    for (number, (a, b)) in pairs.into_iter().enumerate() {
        let joins = joins::cases(a, b).into_iter().enumerate();
        // What a join compares of a BIT is compared above.
        let joins = joins.filter(|_| !a.is_bit() && !b.is_bit());
        let joins = joins.filter(|(at, _)| all || (at + number).is_multiple_of(JOINS));
        for case in cases(a, b).into_iter().chain(joins.map(|(_, case)| case)) {
            set_mode(&mut theirs, &case).await;
            let expected = normal(&answer(&mut theirs, &case).await, case.is_float);
            for ndp in ["SET ndp_mode = OFF", "SET ndp_mode = ON, ndp_min_pages = 0"] {
                ours.execute(ndp).await.unwrap();
                match normal(&answer(&mut ours, &case).await, case.is_float) {
                    got if got == expected => equal += 1,
                    Err(error) if error == NOT_SUPPORTED => refused += 1,
                    got => wrong.push((
                        case.before.last().unwrap_or(&case.sql).clone(),
                        got,
                        expected.clone(),
                    )),
                }
            }
        }
    }
    println!(
        "{equal} answers equal, {refused} refused, {} wrong",
        wrong.len()
    );
    for (sql, got, expected) in wrong.iter().take(SHOWN) {
        let (here, there) = (without(got, expected), without(expected, got));
        println!("\n{sql}\n  only here:  {here:?}\n  only there: {there:?}");
    }
    ours.close().await.unwrap();
    server.stop().unwrap();
    assert!(wrong.is_empty(), "{} answers differ", wrong.len());
    assert!(equal > 2 * refused, "most pairs can be compared");
}
