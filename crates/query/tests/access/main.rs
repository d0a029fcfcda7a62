//! Access paths chosen from the statistics that a load leaves: what EXPLAIN says, and that the
//! answers are the same by each path, with near-data processing off and on.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

mod collations;
#[path = "../common/mod.rs"]
mod common;
mod decisions;
mod entries;
mod enums;
mod generated;
mod grouping;
mod join_filters;
mod join_orders;
mod join_tables;
mod late_columns;
mod limits;
mod long_lists;
mod memory;
mod ranges;
mod rewrites;
mod samples;
mod statistics;
mod top_filters;

use common::{Fixture, Setup, rows_of};
use perigee_engine::EngineConfig;
use perigee_query::Session;

/// Rows of the large table: ids from 0, ten to a group.
const ROWS: i64 = 20_000;

const GROUP: i64 = 10;

/// A row of the large table: id, grp, code, amount, note.
fn row(id: i64) -> (i64, i64, String, i64, String) {
    let grp = id * 7 % ROWS / GROUP;
    (
        id,
        grp,
        format!("c{id:05}"),
        id * 13 % 1000,
        format!("{:=<120}", format!("note {id} ")),
    )
}

async fn loaded(setup: Setup) -> (Fixture, Session) {
    let fixture = Fixture::new(setup).await;
    let mut session = fixture.session();
    let create = "CREATE DATABASE test; USE test;
        CREATE TABLE large (id INT NOT NULL PRIMARY KEY, grp INT NOT NULL, code CHAR(6) NOT NULL,
            amount INT, note VARCHAR(150) NOT NULL,
            KEY by_grp (grp), UNIQUE KEY by_code (code), KEY by_grp_amount (grp, amount));
        CREATE TABLE small (id INT NOT NULL PRIMARY KEY, grp INT NOT NULL, other INT NOT NULL)";
    fixture.run(&mut session, create).await.unwrap();
    let mut large = String::new();
    for id in 0..ROWS {
        let (id, grp, code, amount, note) = row(id);
        let amount = if amount == 0 {
            "\\N".to_owned()
        } else {
            amount.to_string()
        };
        large += &format!("{id}|{grp}|{code}|{amount}|{note}\n");
    }
    let small: String = (0..5)
        .map(|id| format!("{id}|{}|{}\n", id * 100, id * 3000))
        .collect();
    for (table, text) in [("large", large), ("small", small)] {
        let sql = format!("LOAD DATA LOCAL INFILE 'f' INTO TABLE {table} FIELDS TERMINATED BY '|'");
        fixture
            .run_with(&mut session, &sql, text.into_bytes())
            .await
            .unwrap();
    }
    (fixture, session)
}

/// A database in which storage reduces pages though they are in the buffer pool: tables are small.
async fn past_pool() -> Fixture {
    let engine = EngineConfig {
        past_pool: true,
        ..EngineConfig::default()
    };
    Fixture::new(Setup {
        engine,
        ..Setup::default()
    })
    .await
}

const CONDITION: &str = "Using pushed NDP condition";
const AGGREGATE: &str = "Using pushed NDP aggregate";

/// Checks that a query has these rows with NDP off and on, and that EXPLAIN says that all of its condition
/// is pushed.
async fn check_pushed(
    fixture: &Fixture,
    session: &mut Session,
    (sql, pushed): (&str, &str),
    rows: &[impl AsRef<str> + std::fmt::Debug],
) {
    for (mode, said) in [("OFF", "ndp_mode is OFF"), ("ON", pushed)] {
        let set = format!("SET ndp_mode = {mode}, ndp_min_pages = 0");
        fixture.run(session, &set).await.unwrap();
        let (_, extra) = explain(fixture, session, sql).await;
        assert!(extra.contains(said), "{sql}: {extra}");
        assert!(!extra.contains("condition on"), "{sql}: {extra}");
        let answer = answer(fixture, session, sql).await;
        let same = answer.iter().eq(rows.iter().map(AsRef::as_ref));
        assert!(same, "{sql}: {answer:?}, not {rows:?}");
    }
}

/// What EXPLAIN says of each table: `table type key`, and its extra information.
async fn explain(fixture: &Fixture, session: &mut Session, sql: &str) -> (Vec<String>, String) {
    let results = fixture
        .run(session, &format!("EXPLAIN {sql}"))
        .await
        .unwrap();
    let (mut accesses, mut extras) = (Vec::new(), String::new());
    for row in rows_of(&results[0]) {
        let cells: Vec<&str> = row.splitn(12, '|').collect();
        accesses.push(format!("{} {} {}", cells[2], cells[4], cells[6]));
        extras += cells[11];
        extras.push('\n');
    }
    (accesses, extras)
}

async fn answer(fixture: &Fixture, session: &mut Session, sql: &str) -> Vec<String> {
    rows_of(&fixture.run(session, sql).await.unwrap()[0])
}

struct Case {
    sql: &'static str,
    /// `table type key` of each access.
    plan: &'static [&'static str],
    /// A part of the extra information.
    extra: &'static str,
    /// The answer; in any order if it is not sorted.
    rows: Vec<String>,
    sorted: bool,
}

type Row = (i64, i64, String, i64, String);

fn select(keep: impl Fn(&Row) -> bool, show: impl Fn(&Row) -> String) -> Vec<String> {
    (0..ROWS).map(row).filter(keep).map(|r| show(&r)).collect()
}

/// The first `limit` rows in the order of a key, which has no duplicates.
fn first<K: Ord>(
    limit: usize,
    by: impl Fn(&Row) -> K,
    show: impl Fn(&Row) -> String,
) -> Vec<String> {
    let mut rows: Vec<Row> = (0..ROWS).map(row).collect();
    rows.sort_by_key(by);
    rows.iter().take(limit).map(show).collect()
}

fn points_and_ranges() -> Vec<Case> {
    let note = |r: &Row| r.4.clone();
    let case = |sql, plan, extra, rows| Case {
        sql,
        plan,
        extra,
        rows,
        sorted: false,
    };
    vec![
        case(
            "SELECT note FROM large WHERE id = 77",
            &["large const PRIMARY"],
            "",
            select(|r| r.0 == 77, note),
        ),
        case(
            "SELECT note FROM large WHERE id BETWEEN 100 AND 199",
            &["large range PRIMARY"],
            "",
            select(|r| (100..200).contains(&r.0), note),
        ),
        case(
            "SELECT note FROM large WHERE code = 'c00123'",
            &["large const by_code"],
            "",
            select(|r| r.0 == 123, note),
        ),
        case(
            "SELECT note FROM large WHERE grp = 5 AND id > 3",
            &["large ref by_grp"],
            "",
            select(|r| r.1 == 5 && r.0 > 3, note),
        ),
        case(
            "SELECT note FROM large WHERE grp >= 5 AND grp < 8",
            &["large range by_grp"],
            "",
            select(|r| (5..8).contains(&r.1), note),
        ),
        case(
            "SELECT id, grp FROM large WHERE grp = 5",
            &["large ref by_grp"],
            "Using index",
            select(|r| r.1 == 5, |r| format!("{}|{}", r.0, r.1)),
        ),
        case(
            "SELECT id FROM large WHERE grp = 5 AND amount > 500",
            &["large range by_grp_amount"],
            "Using index",
            select(|r| r.1 == 5 && r.3 > 500, |r| r.0.to_string()),
        ),
        case(
            "SELECT COUNT(*), SUM(grp) FROM large",
            &["large index by_grp"],
            "Using index",
            vec![format!(
                "{ROWS}|{}",
                (0..ROWS).map(|id| row(id).1).sum::<i64>()
            )],
        ),
        case(
            "SELECT note FROM large WHERE grp > 3",
            &["large ALL NULL"],
            "",
            select(|r| r.1 > 3, note),
        ),
    ]
}

fn orders() -> Vec<Case> {
    let id = |r: &Row| r.0.to_string();
    let note = |r: &Row| r.4.clone();
    let case = |sql, plan, extra, rows| Case {
        sql,
        plan,
        extra,
        rows,
        sorted: true,
    };
    vec![
        case(
            "SELECT note FROM large ORDER BY id LIMIT 3",
            &["large index PRIMARY"],
            "",
            first(3, |r| r.0, note),
        ),
        case(
            "SELECT id FROM large ORDER BY id DESC LIMIT 4",
            &["large index PRIMARY"],
            "Backward index scan",
            first(4, |r| -r.0, id),
        ),
        case(
            "SELECT note FROM large ORDER BY grp, id LIMIT 25",
            &["large index by_grp"],
            "",
            first(25, |r| (r.1, r.0), note),
        ),
        case(
            "SELECT note FROM large ORDER BY grp DESC, id DESC LIMIT 25",
            &["large index by_grp"],
            "Backward index scan",
            first(25, |r| (-r.1, -r.0), note),
        ),
        case(
            "SELECT note FROM large WHERE amount > 900 ORDER BY grp, id LIMIT 2",
            &["large index by_grp"],
            "",
            {
                let few: Vec<Row> = (0..ROWS).map(row).filter(|r| r.3 > 900).collect();
                let mut few: Vec<_> = few.iter().map(|r| (r.1, r.0, r.4.clone())).collect();
                few.sort();
                few.into_iter().take(2).map(|r| r.2).collect()
            },
        ),
        case(
            "SELECT id FROM large WHERE grp = 5 ORDER BY amount DESC LIMIT 3",
            &["large ref by_grp_amount"],
            "Backward index scan",
            {
                let mut group: Vec<_> = (0..ROWS).map(row).filter(|r| r.1 == 5).collect();
                group.sort_by_key(|r| -r.3);
                group.iter().take(3).map(id).collect()
            },
        ),
        case(
            "SELECT id FROM large ORDER BY note LIMIT 3",
            &["large ALL NULL"],
            "",
            first(3, |r| r.4.clone(), id),
        ),
        // Most of the table is sorted anyway.
        case(
            "SELECT note FROM large ORDER BY grp, id LIMIT 15000",
            &["large ALL NULL"],
            "",
            first(15_000, |r| (r.1, r.0), note),
        ),
    ]
}

fn joins() -> Vec<Case> {
    let case = |sql, plan, extra, rows| Case {
        sql,
        plan,
        extra,
        rows,
        sorted: false,
    };
    let of_small = |of: fn(&(i64, i64, i64), &Row) -> Option<String>| {
        let small: Vec<_> = (0..5).map(|id| (id, id * 100, id * 3000)).collect();
        let rows: Vec<Row> = (0..ROWS).map(row).collect();
        let pairs = small.iter().flat_map(|s| rows.iter().map(move |r| (s, r)));
        pairs.filter_map(|(s, r)| of(s, r)).collect::<Vec<_>>()
    };
    vec![
        case(
            "SELECT s.id, l.note FROM small s JOIN large l ON l.id = s.other",
            &["s ALL NULL", "l eq_ref PRIMARY"],
            "",
            of_small(|s, r| (s.2 == r.0).then(|| format!("{}|{}", s.0, r.4))),
        ),
        case(
            "SELECT s.id, l.note FROM large l JOIN small s ON l.grp = s.grp",
            &["s ALL NULL", "l ref by_grp"],
            "",
            of_small(|s, r| (s.1 == r.1).then(|| format!("{}|{}", s.0, r.4))),
        ),
        case(
            "SELECT s.id, l.id FROM small s JOIN large l ON l.grp = s.grp",
            &["s ALL NULL", "l ref by_grp"],
            "Using index",
            of_small(|s, r| (s.1 == r.1).then(|| format!("{}|{}", s.0, r.0))),
        ),
        case(
            "SELECT COUNT(*) FROM large a JOIN large b ON a.id = b.id",
            &["a index by_grp", "b index by_grp"],
            "Using index",
            vec![ROWS.to_string()],
        ),
    ]
}

async fn check(cases: Vec<Case>) {
    let past_pool = Setup {
        engine: EngineConfig {
            past_pool: true,
            split_behind_scans: true,
            ..EngineConfig::default()
        },
        ..Setup::default()
    };
    // Where the buffer pool is passed by, the costs it is part of are not what they seem.
    let modes = [
        ("SET ndp_mode = OFF", Setup::default(), true),
        ("SET ndp_mode = ON", Setup::default(), true),
        ("SET ndp_mode = ON, ndp_min_pages = 0", past_pool, false),
    ];
    let mut failures = String::new();
    for (set, setup, check_plan) in modes {
        let (fixture, mut session) = loaded(setup).await;
        fixture.run(&mut session, set).await.unwrap();
        for case in &cases {
            let (plan, extras) = explain(&fixture, &mut session, case.sql).await;
            let mut rows = answer(&fixture, &mut session, case.sql).await;
            let mut expected = case.rows.clone();
            assert!(!expected.is_empty(), "{}", case.sql);
            if !case.sorted {
                rows.sort();
                expected.sort();
            }
            let sql = case.sql;
            let as_planned = plan == case.plan && extras.contains(case.extra);
            if check_plan && !as_planned {
                failures += &format!("{set}: {sql}\n  {plan:?}, not {:?}\n  {extras}", case.plan);
            }
            if rows != expected {
                let (got, wanted) = (rows.len(), expected.len());
                let at = rows.iter().zip(&expected).find(|(a, b)| a != b);
                failures += &format!("{set}: {sql}\n  {got} rows for {wanted}, {at:?}\n");
            }
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn points_and_ranges_use_the_narrowest_index() {
    check(points_and_ranges()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_rows_in_order_come_from_an_index() {
    check(orders()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_rows_are_joined_by_lookups_and_many_by_hashing() {
    check(joins()).await;
}

/// Without a load nothing is known but the number of rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inserted_rows_are_found_by_their_keys_too() {
    let fixture = Fixture::new(Setup::default()).await;
    let mut session = fixture.session();
    let create = "CREATE DATABASE test; USE test;
        CREATE TABLE t (id INT NOT NULL PRIMARY KEY, code CHAR(6), n INT, UNIQUE KEY by_code (code))";
    fixture.run(&mut session, create).await.unwrap();
    for first in (0..3000).step_by(500) {
        let rows: Vec<_> = (first..first + 500)
            .map(|id| format!("({id}, 'c{id:05}', {})", id % 9))
            .collect();
        let sql = format!("INSERT INTO t VALUES {}", rows.join(","));
        fixture.run(&mut session, &sql).await.unwrap();
    }
    for (sql, access, rows) in [
        ("SELECT n FROM t WHERE id = 1234", "t const PRIMARY", "1"),
        (
            "SELECT n FROM t WHERE code = 'c02345'",
            "t const by_code",
            "5",
        ),
        ("SELECT SUM(n) FROM t WHERE n > 7", "t ALL NULL", "2664"),
    ] {
        assert_eq!(
            explain(&fixture, &mut session, sql).await.0,
            [access],
            "{sql}"
        );
        assert_eq!(answer(&fixture, &mut session, sql).await, [rows], "{sql}");
    }
}

/// Conditions on long values stay above the access and EXPLAIN says why; what else there is, is pushed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_on_long_values_are_not_pushed() {
    let fixture = past_pool().await;
    let mut session = fixture.session();
    let create = "CREATE DATABASE test; USE test; SET ndp_mode = ON, ndp_min_pages = 0;
        CREATE TABLE t (id INT PRIMARY KEY, n INT, words TEXT, bytes LONGBLOB)";
    fixture.run(&mut session, create).await.unwrap();
    let lines: String = (0..100)
        .map(|id| {
            let words = format!("{id}").repeat(if id % 9 == 0 { 10_000 } else { 10 });
            format!("{id}|{}|{words}|{}\n", id % 10, "b".repeat(id * 200))
        })
        .collect();
    let load = "LOAD DATA LOCAL INFILE 'f' INTO TABLE t FIELDS TERMINATED BY '|'";
    let loaded = fixture
        .run_with(&mut session, load, lines.into_bytes())
        .await;
    assert_eq!(loaded.unwrap()[0].ok.clone().unwrap().affected_rows, 100);
    let reason = "condition on words not pushed: long values may lie outside of their rows";
    let sql = "SELECT id, LENGTH(words), LENGTH(bytes) FROM t \
               WHERE n = 9 AND words LIKE '%99' AND bytes IS NOT NULL ORDER BY id";
    let (_, extra) = explain(&fixture, &mut session, sql).await;
    assert!(
        extra.contains("Using pushed NDP condition (test.t.n = 9)"),
        "{extra}"
    );
    assert!(
        extra.contains("condition on words, bytes not pushed"),
        "{extra}"
    );
    let expected = ["9|10000|1800", "99|20000|19800"];
    assert_eq!(answer(&fixture, &mut session, sql).await, expected);
    let sql = "SELECT COUNT(*) FROM t WHERE words = '11111111111111111111'";
    let (_, extra) = explain(&fixture, &mut session, sql).await;
    assert!(extra.contains(reason), "{extra}");
    assert_eq!(answer(&fixture, &mut session, sql).await, ["1"]);
    let sql = "SELECT COUNT(*), SUM(n) FROM t WHERE n > 4";
    let (_, extra) = explain(&fixture, &mut session, sql).await;
    assert!(!extra.contains("not pushed"), "{extra}");
    assert_eq!(answer(&fixture, &mut session, sql).await, ["50|350"]);
}

/// Conditions on decimals of more than 38 digits stay above the access and EXPLAIN says why; what else
/// there is, is pushed, and storage delivers the column.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_on_wide_decimals_are_not_pushed() {
    let fixture = past_pool().await;
    let mut session = fixture.session();
    let create = "CREATE DATABASE test; USE test; SET ndp_mode = ON, ndp_min_pages = 0;
        CREATE TABLE t (id INT PRIMARY KEY, n INT, d DECIMAL(38,10), w DECIMAL(39,10), s CHAR(20))";
    fixture.run(&mut session, create).await.unwrap();
    let nines = "9".repeat(25);
    let lines: String = (0..100)
        .map(|id| format!("{id}|{}|{id}.5|-{id}{nines}.25|x\n", id % 10))
        .collect();
    let load = "LOAD DATA LOCAL INFILE 'f' INTO TABLE t FIELDS TERMINATED BY '|'";
    let loaded = fixture
        .run_with(&mut session, load, lines.into_bytes())
        .await;
    assert_eq!(loaded.unwrap()[0].ok.clone().unwrap().affected_rows, 100);
    let reason = "condition on w not pushed: storage computes with decimals of up to 38 digits";
    let sql = format!("SELECT id, w FROM t WHERE n = 9 AND w < -98{nines} ORDER BY id");
    let (_, extra) = explain(&fixture, &mut session, &sql).await;
    let pushed = "Using pushed NDP condition (test.t.n = 9)";
    assert!(extra.contains(pushed) && extra.contains(reason), "{extra}");
    assert!(extra.contains("Using pushed NDP columns"), "{extra}");
    let expected = [format!("99|-99{nines}.2500000000")];
    assert_eq!(answer(&fixture, &mut session, &sql).await, expected);
    // The same of a column that storage can compute with.
    let sql = "SELECT id FROM t WHERE n = 9 AND d > 98.25";
    let (_, extra) = explain(&fixture, &mut session, sql).await;
    assert!(!extra.contains("not pushed"), "{extra}");
    assert_eq!(answer(&fixture, &mut session, sql).await, ["99"]);
    // Sums stay above, groups too; rows are counted in storage.
    for (sql, rows) in [
        ("SELECT SUM(w) FROM t WHERE n = 1", "-4699999"),
        ("SELECT COUNT(*) FROM (SELECT w FROM t GROUP BY w) q", "100"),
    ] {
        let (_, extra) = explain(&fixture, &mut session, sql).await;
        assert!(!extra.contains("Using pushed NDP aggregate"), "{extra}");
        let answer = answer(&fixture, &mut session, sql).await;
        assert!(answer[0].starts_with(rows), "{answer:?}");
    }
    let (_, extra) = explain(&fixture, &mut session, "SELECT COUNT(*), SUM(d) FROM t").await;
    assert!(extra.contains("Using pushed NDP aggregate"), "{extra}");
}

/// As for other long values: the rest of the condition, and the columns, are pushed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_on_json_are_not_pushed() {
    let fixture = past_pool().await;
    let mut session = fixture.session();
    let create = "CREATE DATABASE test; USE test; SET ndp_mode = ON, ndp_min_pages = 0;
        CREATE TABLE t (id INT PRIMARY KEY, n INT, j JSON, note VARCHAR(100))";
    fixture.run(&mut session, create).await.unwrap();
    let lines: String = (0..100)
        .map(|id| {
            let long = "x".repeat(if id % 9 == 0 { 10_000 } else { 10 });
            let json = format!("{{\"long\":\"{long}\",\"a\":{}}}", id % 7);
            format!("{id}|{}|{json}|{}\n", id % 10, "-".repeat(100))
        })
        .collect();
    let load = "LOAD DATA LOCAL INFILE 'f' INTO TABLE t FIELDS TERMINATED BY '|'";
    let loaded = fixture
        .run_with(&mut session, load, lines.into_bytes())
        .await;
    assert_eq!(loaded.unwrap()[0].ok.clone().unwrap().affected_rows, 100);
    let reason = "condition on j not pushed: long values may lie outside of their rows";
    for condition in [
        "j->'$.a' = 2",
        "JSON_CONTAINS(j, '2', '$.a')",
        "2 MEMBER OF(j->'$.a')",
        "j->>'$.a' = '2'",
    ] {
        let sql = format!(
            "SELECT id, n + 10, JSON_LENGTH(j) FROM t WHERE n = 9 AND {condition} ORDER BY id"
        );
        let (_, extra) = explain(&fixture, &mut session, &sql).await;
        for part in [
            "Using pushed NDP condition (test.t.n = 9)",
            "columns",
            reason,
        ] {
            assert!(extra.contains(part), "{part} in {extra}");
        }
        let expected = ["9|19|2", "79|19|2"];
        assert_eq!(answer(&fixture, &mut session, &sql).await, expected);
    }
    let sql = "SELECT COUNT(*), SUM(n) FROM t WHERE n > 4";
    let (_, extra) = explain(&fixture, &mut session, sql).await;
    assert!(!extra.contains("not pushed"), "{extra}");
}
