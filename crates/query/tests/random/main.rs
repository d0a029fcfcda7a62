//! Random queries through a session have MariaDB's answers, with near-data processing off and on.
//!
//! `PERIGEE_QUERIES=n` runs n of them. A query that is refused is left out, and one for which MariaDB is known to
//! give another answer.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

#[path = "../common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{Fixture, Setup, explained_in_all_forms, rows_of};
use perigee_query::Session;
use perigee_testkit::{MariaDb, QUERY_TABLES, QueryGenerator};

/// Longest time for one query.
const LIMIT: Duration = Duration::from_secs(60);

/// Statements before the queries of a session.
const MODES: [&str; 2] = [
    "SET ndp_mode = OFF",
    "SET ndp_mode = ON, ndp_min_pages = 0, ndp_max_filter_factor = 1",
];

/// Why an answer may be another one than MariaDB's.
fn differs(sql: &str) -> Option<&'static str> {
    let has = |parts: &[&str]| parts.iter().any(|part| sql.contains(part));
    match () {
        () if has(&["0 + COUNT", "0 + SUM", "0 + AVG", "0 + MAX", "0 + ("]) => {
            Some("MariaDB drops the order of a subquery with the aggregate functions in it")
        }
        () if has(&[">= ALL"]) && has(&["'x'", ".v", ".w"]) => {
            Some("MariaDB compares with the greatest text, whatever the operand is")
        }
        () if has(&["EXISTS"]) && has(&["INTERSECT", "EXCEPT"]) => {
            Some("MariaDB loses rows of a correlated INTERSECT")
        }
        () => None,
    }
}

/// True if MariaDB keeps constants of a derived table for a group of no rows, where NULL is the answer.
fn keeps_constants(ours: &[String], theirs: &[String]) -> bool {
    let ([ours], [theirs]) = (ours, theirs) else {
        return false;
    };
    let (ours, theirs) = (ours.split('|'), theirs.split('|'));
    ours.clone().count() == theirs.clone().count()
        && ours
            .zip(theirs)
            .all(|(own, other)| own == other || own == "NULL")
}

/// The rows of a query in an order, or the number of its error.
async fn rows(fixture: &Fixture, session: &mut Session, sql: &str) -> Result<Vec<String>, u16> {
    let run = tokio::time::timeout(LIMIT, fixture.run(session, sql));
    let results = run.await.map_err(|_| 0_u16)?;
    let results = results.map_err(|error| {
        // What has no number of its own is a fault.
        match error.errno {
            1105 => panic!("{sql}\n{error}"),
            errno => errno,
        }
    })?;
    let mut rows = rows_of(&results[0]);
    rows.sort();
    Ok(rows)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_queries_have_mariadbs_answers() {
    let dir = tempfile::tempdir().unwrap();
    let mariadb = MariaDb::start(dir.path(), &["--innodb-buffer-pool-size=32M"]);
    let mariadb = mariadb.expect("MariaDB is needed for this test");
    mariadb.query("mysql", QUERY_TABLES).unwrap();
    let fixture = Fixture::new(Setup::default()).await;
    let mut sessions = MODES.map(|_| fixture.session());
    let [first, ..] = &mut sessions;
    fixture.run(first, QUERY_TABLES).await.unwrap();
    for (session, mode) in sessions.iter_mut().zip(MODES) {
        let set = format!("USE test; SET sql_mode = ''; {mode}");
        fixture.run(session, &set).await.unwrap();
    }
    let mut strict = fixture.session();
    let set = "USE test; SET sql_mode = 'ONLY_FULL_GROUP_BY'";
    fixture.run(&mut strict, set).await.unwrap();
    let count = std::env::var("PERIGEE_QUERIES").ok();
    let count: u64 = count.and_then(|n| n.parse().ok()).unwrap_or(150);
    let (mut equal, mut refused, mut wrong) = (0, BTreeMap::new(), Vec::new());
    for seed in 0..count {
        let sql = QueryGenerator::new(seed, true).query(2, 2);
        let mut answers = Vec::new();
        for session in &mut sessions {
            answers.push(rows(&fixture, session, &sql).await);
        }
        let theirs = mariadb.query("test", &format!("SET sql_mode = ''; {sql}"));
        if answers[0] != answers[1] {
            wrong.push(format!("seed {seed}: {sql}\noff and on {answers:?}"));
            continue;
        }
        if answers[0].is_ok() {
            explained_in_all_forms(&fixture, &mut sessions[1], &sql).await;
        }
        let ours = match (answers.swap_remove(0), &theirs) {
            (Ok(rows), Ok(_)) => rows,
            (Err(0 | 1815), _) => {
                wrong.push(format!("seed {seed}: {sql}\nno answer"));
                continue;
            }
            (Err(errno), _) => {
                *refused.entry(errno).or_insert(0) += 1;
                continue;
            }
            (Ok(_), Err(_)) => continue,
        };
        let mut theirs: Vec<_> = theirs
            .unwrap()
            .lines()
            .map(|row| row.replace('\t', "|"))
            .collect();
        theirs.sort_unstable();
        match ours == theirs {
            true => equal += 1,
            false if differs(&sql).is_some() || keeps_constants(&ours, &theirs) => {
                *refused.entry(0).or_insert(0) += 1
            }
            // A value of a group that its keys do not decide.
            false if matches!(rows(&fixture, &mut strict, &sql).await, Err(1055 | 1140)) => {
                *refused.entry(0).or_insert(0) += 1;
            }
            false => wrong.push(format!(
                "seed {seed}: {sql}\nhere {ours:?}\nthere {theirs:?}"
            )),
        }
    }
    println!("{equal} equal, {} differ; refused {refused:?}", wrong.len());
    wrong.sort_by_key(String::len);
    assert!(
        wrong.is_empty(),
        "{}",
        wrong[..wrong.len().min(8)].join("\n\n")
    );
    assert!(equal > count / 5, "most queries are answered");
}
