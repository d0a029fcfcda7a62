//! The fast path against the ordinary way: for random statements that it runs and others, the same
//! results, metadata and errors.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

mod changes;
#[path = "../common/mod.rs"]
mod common;
mod prepared;
mod selects;

use std::sync::Arc;

use common::{Fixture, Setup, rows_of};
use perigee_query::{
    Collected, Frontend, FrontendConfig, NoStatus, Session, SessionInfo, SqlError,
};
use perigee_testkit::Rng;

/// Random statements; `PERIGEE_FAST_STATEMENTS` says otherwise.
const STATEMENTS: usize = 400;

fn statements() -> usize {
    let given = std::env::var("PERIGEE_FAST_STATEMENTS").ok();
    given.map_or(STATEMENTS, |n| n.parse().unwrap())
}

/// A session over the fixture's engine that has no fast path.
fn ordinary(fixture: &Fixture) -> Session {
    let config = FrontendConfig {
        fast_path: false,
        ..FrontendConfig::default()
    };
    let engine = fixture.frontend.engine().clone();
    let frontend = Frontend::new(engine, config, Arc::new(NoStatus)).unwrap();
    Session::new(Arc::new(frontend), SessionInfo::default())
}

async fn fixture() -> Fixture {
    let fixture = Fixture::new(Setup::default()).await;
    let mut session = fixture.session();
    let create = format!("CREATE DATABASE test; USE test; {}", selects::TABLES);
    fixture.run(&mut session, &create).await.unwrap();
    for sql in selects::rows(&mut Rng(7)) {
        fixture.run(&mut session, &sql).await.unwrap();
    }
    fixture
}

/// How many statements the fast path ran.
async fn fast_statements(fixture: &Fixture, session: &mut Session) -> u64 {
    let sql = "SHOW STATUS LIKE 'perigee_fast_statements'";
    let shown = fixture.run(session, sql).await.unwrap();
    let (_, count) = rows_of(&shown[0])[0]
        .split_once('|')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    count.parse().unwrap()
}

/// Everything a client is told of a result.
type Told = Result<(Collected, Vec<String>), SqlError>;

fn told(results: Result<Vec<Collected>, SqlError>, in_order: bool) -> Told {
    let mut results = results?;
    assert_eq!(results.len(), 1);
    let result = results.remove(0);
    let mut rows = rows_of(&result);
    if !in_order {
        rows.sort();
    }
    Ok((result, rows))
}

fn assert_same(sql: &str, fast: Told, ordinary: Told) {
    match (fast, ordinary) {
        (Ok((fast, fast_rows)), Ok((ordinary, ordinary_rows))) => {
            assert_eq!(fast.columns, ordinary.columns, "{sql}");
            assert_eq!(fast.ok, ordinary.ok, "{sql}");
            assert_eq!(fast_rows, ordinary_rows, "{sql}");
            let types = |result: &Collected| {
                let batch = result.batches.first();
                batch.map(|batch| {
                    let fields = batch.schema().fields().clone();
                    fields
                        .iter()
                        .map(|f| f.data_type().clone())
                        .collect::<Vec<_>>()
                })
            };
            assert_eq!(types(&fast), types(&ordinary), "{sql}");
        }
        (fast, ordinary) => assert_eq!(
            fast.map(|(_, rows)| rows),
            ordinary.map(|(_, rows)| rows),
            "{sql}"
        ),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn selects_are_answered_as_the_ordinary_way_does() {
    let fixture = fixture().await;
    let (mut fast, mut slow) = (fixture.session(), ordinary(&fixture));
    for session in [&mut fast, &mut slow] {
        fixture.run(session, "USE test").await.unwrap();
    }
    let mut rng = Rng(1);
    let count = statements();
    let before = fast_statements(&fixture, &mut fast).await;
    for _ in 0..count {
        let (sql, in_order) = selects::select(&mut rng);
        let answer = told(fixture.run(&mut fast, &sql).await, in_order);
        let expected = told(fixture.run(&mut slow, &sql).await, in_order);
        assert_same(&sql, answer, expected);
        assert_eq!(fast.warning_count(), slow.warning_count(), "{sql}");
    }
    let run = fast_statements(&fixture, &mut fast).await - before;
    eprintln!("{run} of {count} statements were fast");
    assert!(
        run > count as u64 / 2,
        "{run} of {count} statements were fast"
    );
    assert_eq!(fast_statements(&fixture, &mut slow).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_changed_as_the_ordinary_way_does() {
    let fixtures = [fixture().await, fixture().await];
    let (mut fast, mut slow) = (fixtures[0].session(), ordinary(&fixtures[1]));
    fixtures[0].run(&mut fast, "USE test").await.unwrap();
    fixtures[1].run(&mut slow, "USE test").await.unwrap();
    let mut rng = Rng(2);
    let count = statements();
    let before = fast_statements(&fixtures[0], &mut fast).await;
    for number in 1..=count {
        let mut sqls = vec![changes::change(&mut rng)];
        if number % 100 == 0 || number == count {
            sqls.push("SELECT * FROM a WHERE id < 60 ORDER BY id".to_owned());
            sqls.push("SELECT * FROM a WHERE k < 300 ORDER BY id".to_owned());
            sqls.push("SELECT id FROM a ORDER BY c".to_owned());
            sqls.push("SELECT * FROM b ORDER BY x, y, z".to_owned());
        }
        for sql in sqls {
            let answer = told(fixtures[0].run(&mut fast, &sql).await, true);
            let expected = told(fixtures[1].run(&mut slow, &sql).await, true);
            assert_same(&sql, answer, expected);
            assert_eq!(fast.warning_count(), slow.warning_count(), "{sql}");
            assert_eq!(fast.in_transaction(), slow.in_transaction(), "{sql}");
        }
    }
    let run = fast_statements(&fixtures[0], &mut fast).await - before;
    eprintln!("{run} of {count} changes were fast");
    assert!(run > count as u64 / 3, "{run} of {count} changes were fast");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_definitions_are_noticed() {
    let fixture = Fixture::new(Setup::default()).await;
    let mut session = fixture.session();
    let create = "CREATE DATABASE test; CREATE DATABASE other; USE test;
        CREATE TABLE t (id INT NOT NULL PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 2);
        CREATE TABLE other.t (id INT NOT NULL PRIMARY KEY, w INT); INSERT INTO other.t VALUES (1, 3)";
    fixture.run(&mut session, create).await.unwrap();
    let sql = "SELECT * FROM t WHERE id = 1";
    for (change, expected) in [
        ("SELECT 1", "1|2"),
        ("USE other", "1|3"),
        ("USE test", "1|2"),
        ("ALTER TABLE t ADD COLUMN x INT DEFAULT 5", "1|2|5"),
        (
            "DROP TABLE t; CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)",
            "1",
        ),
    ] {
        fixture.run(&mut session, change).await.unwrap();
        for _ in 0..2 {
            let before = fast_statements(&fixture, &mut session).await;
            let shown = fixture.run(&mut session, sql).await.unwrap();
            assert_eq!(rows_of(&shown[0]), [expected], "after {change}");
            assert_eq!(fast_statements(&fixture, &mut session).await, before + 1);
        }
    }
    fixture.run(&mut session, "DROP TABLE t").await.unwrap();
    assert_eq!(
        fixture.run(&mut session, sql).await.unwrap_err().errno,
        1146
    );
}
