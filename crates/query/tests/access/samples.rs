//! Samples: EXPLAIN says where an estimate comes from one, it is near the truth where statistics cannot be, and no
//! answer depends on it.

use perigee_page_store::Config;

use super::join_filters::set;
use super::*;

const ROWS: i64 = 80_000;

/// A table that is larger than the buffer pool; `a` and `b` are always the same, two in five notes have a needle.
async fn haystack(setup: Setup) -> (Fixture, Session) {
    let engine = EngineConfig {
        buffer_pool: 2 << 20,
        ..setup.engine
    };
    let fixture = Fixture::new(Setup { engine, ..setup }).await;
    let mut session = fixture.session();
    let create = "CREATE DATABASE test; USE test;
        CREATE TABLE hay (id INT NOT NULL PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, day DATE NOT NULL,
            note VARCHAR(300) NOT NULL, KEY by_a (a));
        CREATE TABLE kind (a INT NOT NULL PRIMARY KEY, name VARCHAR(20) NOT NULL)";
    fixture.run(&mut session, create).await.unwrap();
    let hay = (0..ROWS).map(|id| {
        let (a, month) = (id * 7 % 100, 1 + id % 12);
        let word = if id * 11 % 5 < 2 { "a needle" } else { "straw" };
        format!("{id}|{a}|{a}|2024-{month:02}-01|{word} {id:-<220}\n")
    });
    let kinds = (0..100).map(|a| format!("{a}|kind {a}\n"));
    let files: [(&str, String); 2] = [("hay", hay.collect()), ("kind", kinds.collect())];
    for (table, text) in files {
        let sql = format!("LOAD DATA LOCAL INFILE 'f' INTO TABLE {table} FIELDS TERMINATED BY '|'");
        let text = text.into_bytes();
        fixture.run_with(&mut session, &sql, text).await.unwrap();
    }
    // However busy the machine is.
    set(&fixture, &mut session, "optimizer_sample_time = 60000").await;
    (fixture, session)
}

/// Share of a table's rows that EXPLAIN expects, in per cent, and what else it says.
async fn expected(fixture: &Fixture, session: &mut Session, condition: &str) -> (f64, String) {
    let sql = format!("EXPLAIN SELECT COUNT(*), SUM(id) FROM hay WHERE {condition}");
    let rows = answer(fixture, session, &sql).await;
    let cells: Vec<&str> = rows[0].splitn(12, '|').collect();
    let (visited, filtered): (f64, f64) = (cells[9].parse().unwrap(), cells[10].parse().unwrap());
    (visited * filtered / ROWS as f64, cells[11].to_owned())
}

async fn samples(fixture: &Fixture, session: &mut Session) -> u64 {
    let counted = answer(fixture, session, "SHOW STATUS LIKE 'ndp_samples'").await;
    counted[0].rsplit('|').next().unwrap().parse().unwrap()
}

/// Conditions that statistics cannot tell of, with the share of rows that pass in per cent.
const UNCERTAIN: &[(&str, f64)] = &[
    ("note LIKE '%needle%'", 40.0),
    ("note NOT LIKE '%needle%'", 60.0),
    ("a < 10 AND b < 10", 10.0),
    ("a < 50 AND b >= 50", 0.0),
    ("MONTH(day) = 3", 100.0 / 12.0),
    ("a + b > 100", 49.0),
    ("a < 50 AND note LIKE '%needle%'", 20.0),
    ("a = b", 100.0),
    ("id < 40000 AND note LIKE '%needle%'", 20.0),
];

/// Others.
const CERTAIN: &[&str] = &[
    "a = 3",
    "a < 50 AND a > 10",
    "id = 7 AND note LIKE '%needle%'",
    "a IN (1, 2, 3)",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn estimates_are_near_the_truth() {
    let declining = |decline_every| Config {
        decline_every,
        ..Config::default()
    };
    let setups = [
        Setup::default(),
        Setup {
            pages: declining(Some(1)),
            ..Setup::default()
        },
        Setup {
            pages: declining(Some(3)),
            older_store: true,
            ..Setup::default()
        },
    ];
    for setup in setups {
        let (fixture, mut session) = haystack(setup).await;
        let session = &mut session;
        for mode in ["OFF", "ON"] {
            let set_mode = format!("ndp_mode = {mode}, optimizer_sample_pages = 64");
            set(&fixture, session, &set_mode).await;
            for (condition, truth) in UNCERTAIN {
                let (share, extra) = expected(&fixture, session, condition).await;
                assert!(
                    extra.contains("rows estimated from a sample of"),
                    "{condition}: {extra}"
                );
                assert!(
                    (share - truth).abs() < 6.0,
                    "{condition}: {share} of {truth}"
                );
            }
            for condition in CERTAIN {
                let (_, extra) = expected(&fixture, session, condition).await;
                assert!(!extra.contains("sample"), "{condition}: {extra}");
            }
        }
        // What is known is not asked again, until there are new statistics.
        let before = samples(&fixture, session).await;
        assert!(before > 0);
        expected(&fixture, session, UNCERTAIN[0].0).await;
        assert_eq!(samples(&fixture, session).await, before);
        fixture.run(session, "ANALYZE TABLE hay").await.unwrap();
        expected(&fixture, session, UNCERTAIN[0].0).await;
        assert_eq!(samples(&fixture, session).await, before + 1);
        set(&fixture, session, "optimizer_sample_pages = 0").await;
        let (_, extra) = expected(&fixture, session, UNCERTAIN[1].0).await;
        assert!(!extra.contains("sample"), "{extra}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_do_not_depend_on_samples() {
    let (fixture, mut session) = haystack(Setup::default()).await;
    let session = &mut session;
    let joined =
        "SELECT COUNT(*), SUM(id) FROM kind JOIN hay USING (a) JOIN kind k ON k.a = hay.b WHERE";
    let plain = "SELECT COUNT(*), SUM(id) FROM hay WHERE";
    for (condition, _) in UNCERTAIN {
        for select in [plain, joined] {
            let sql = format!("{select} hay.{condition}");
            let sql = sql
                .replace("hay.MONTH(", "MONTH(")
                .replace("AND b", "AND hay.b");
            let sql = sql.replace(" = b", " = hay.b");
            let mut answers = Vec::new();
            for variables in [
                "ndp_mode = OFF, optimizer_sample_pages = 0",
                "ndp_mode = OFF, optimizer_sample_pages = 64",
                "ndp_mode = ON, ndp_min_pages = 0, optimizer_sample_pages = 64",
                "ndp_mode = ON, ndp_min_pages = 0, optimizer_sample_pages = 0",
            ] {
                set(&fixture, session, variables).await;
                answers.push(answer(&fixture, session, &sql).await);
            }
            assert!(
                answers.iter().all(|answer| *answer == answers[0]),
                "{sql}: {answers:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_condition_that_fails_fails_when_it_is_run() {
    let (fixture, mut session) = haystack(Setup::default()).await;
    let session = &mut session;
    let condition = "id + 9223372036854775000 > 10 AND b < 90";
    let (_, extra) = expected(&fixture, session, condition).await;
    assert!(extra.contains("rows estimated from a sample of"), "{extra}");
    let sql = format!("SELECT COUNT(*) FROM hay WHERE {condition}");
    let outcome = fixture.run(session, &sql).await;
    assert_eq!(outcome.unwrap_err().errno, 1690);
    // Not over the rows that are not read.
    let sql = format!("SELECT COUNT(*) FROM hay WHERE id < 800 AND {condition}");
    assert_eq!(answer(&fixture, session, &sql).await, ["720"]);
}
