//! Estimates beside the truth, on data that is not spread evenly; statistics that are gathered by
//! themselves.

use std::time::Duration;

use super::*;

const MANY: i64 = 20_000;

/// A table of skewed columns: `skew` is 1 for half of the rows, 2 for a quarter and so on, up to 14,
/// `word` begins with `common` for three quarters of the rows, `n` is NULL for a fifth.
fn skewed_lines() -> String {
    (0..MANY)
        .map(|id| {
            let mixed = id * 7919 % MANY;
            let skew = 1 + (mixed + 1).trailing_zeros();
            let word = match mixed % 4 {
                3 => format!("rare{:05}", mixed),
                _ => format!("common{:05}", mixed),
            };
            let day = mixed * mixed / MANY; // more and more seldom
            let date = format!(
                "{}-{:02}-{:02}",
                2000 + day / 336,
                1 + day / 28 % 12,
                1 + day % 28
            );
            let n = match mixed % 5 {
                0 => "\\N".to_owned(),
                _ => (mixed % 1000).to_string(),
            };
            let price = format!("{}.{:02}", mixed % 100 * (mixed % 100) / 100, mixed % 100);
            format!(
                "{id}|{skew}|{word}|{date}|{n}|{price}|{}\n",
                mixed as f64 / 3.0
            )
        })
        .collect()
}

const SKEWED: &str = "CREATE DATABASE test; USE test;
    CREATE TABLE s (id INT NOT NULL PRIMARY KEY, skew INT NOT NULL, word VARCHAR(30) NOT NULL,
        d DATE NOT NULL, n INT, price DECIMAL(10,2) NOT NULL, x DOUBLE NOT NULL, KEY by_skew (skew))";

async fn skewed() -> (Fixture, Session) {
    let fixture = Fixture::new(Setup::default()).await;
    let mut session = fixture.session();
    fixture.run(&mut session, SKEWED).await.unwrap();
    let load = "LOAD DATA LOCAL INFILE 'f' INTO TABLE s FIELDS TERMINATED BY '|'";
    let lines = skewed_lines().into_bytes();
    fixture.run_with(&mut session, load, lines).await.unwrap();
    (fixture, session)
}

/// Rows that EXPLAIN expects a condition to let through.
async fn expected(fixture: &Fixture, session: &mut Session, condition: &str) -> f64 {
    let sql = format!("EXPLAIN SELECT id FROM s WHERE {condition}");
    let results = fixture.run(session, &sql).await.unwrap();
    let row = rows_of(&results[0]).remove(0);
    let cells: Vec<&str> = row.splitn(12, '|').collect();
    let (rows, filtered): (f64, f64) = (cells[9].parse().unwrap(), cells[10].parse().unwrap());
    rows * filtered / 100.0
}

async fn truth(fixture: &Fixture, session: &mut Session, condition: &str) -> f64 {
    let sql = format!("SELECT COUNT(*) FROM s WHERE {condition}");
    answer(fixture, session, &sql).await[0].parse().unwrap()
}

const CONDITIONS: [&str; 24] = [
    "skew = 1",
    "skew = 3",
    "skew = 9",
    "skew <> 1",
    "skew < 3",
    "skew >= 4",
    "NOT (skew = 1)",
    "skew IN (1, 4, 6)",
    "skew NOT IN (1, 2)",
    "skew = 2 OR skew = 5",
    "skew BETWEEN 2 AND 4",
    "word LIKE 'common%'",
    "word LIKE 'rare%'",
    "word LIKE 'common1%'",
    "word >= 'rare'",
    "word < 'common05'",
    "word BETWEEN 'common1' AND 'common2'",
    "d < DATE '2001-01-01'",
    "d >= DATE '2040-01-01' AND d < DATE '2050-01-01'",
    "n IS NULL",
    "n < 500",
    "n >= 100 AND n < 200",
    "price < 10.50",
    "x > 5000",
];

/// By so much of the table an estimate may be wrong after ANALYZE: two buckets.
const TOLERANCE: f64 = 0.03;

/// After a load: one thread's sample has 1,024 values or more, so that a share of them is off by 1.6 % (one
/// standard deviation, at most). This is four of them and a bucket's error.
const TOLERANCE_OF_LOADS: f64 = 0.08;

async fn check_estimates(fixture: &Fixture, session: &mut Session, how: &str, tolerance: f64) {
    let mut failures = String::new();
    for condition in CONDITIONS {
        let expected = expected(fixture, session, condition).await;
        let truth = truth(fixture, session, condition).await;
        assert!(truth > 0.0, "{condition}");
        if (expected - truth).abs() > tolerance * MANY as f64 {
            failures += &format!("{condition}: {expected} rows are expected, {truth} come\n");
        }
    }
    assert!(failures.is_empty(), "after {how}\n{failures}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn estimates_are_near_the_truth_on_skewed_data() {
    let (fixture, mut session) = skewed().await;
    check_estimates(&fixture, &mut session, "a load", TOLERANCE_OF_LOADS).await;
    let rows = fixture.run(&mut session, "ANALYZE TABLE s").await.unwrap();
    assert_eq!(rows_of(&rows[0]), ["test.s|analyze|status|OK"]);
    check_estimates(&fixture, &mut session, "ANALYZE", TOLERANCE).await;
    // A value that is frequent is read by the table, one that is not by the index.
    let access = async |session: &mut Session, condition: &str| {
        let sql = format!("SELECT word FROM s WHERE {condition}");
        explain(&fixture, session, &sql).await.0.remove(0)
    };
    assert_eq!(access(&mut session, "skew = 1").await, "s ALL NULL");
    assert_eq!(access(&mut session, "skew = 13").await, "s ref by_skew");
    // Without histograms every value is as frequent as any other.
    let drop = "ANALYZE TABLE s DROP HISTOGRAM ON skew, word";
    fixture.run(&mut session, drop).await.unwrap();
    let blind = expected(&fixture, &mut session, "skew = 1").await;
    let known = truth(&fixture, &mut session, "skew = 1").await;
    assert!(blind < known / 3.0, "{blind} of {known}");
    let update = "ANALYZE TABLE s UPDATE HISTOGRAM ON skew WITH 32 BUCKETS";
    fixture.run(&mut session, update).await.unwrap();
    let known_again = expected(&fixture, &mut session, "skew = 1").await;
    assert!((known_again - known).abs() < TOLERANCE * MANY as f64);
}

/// The value of a status variable.
async fn status(fixture: &Fixture, session: &mut Session, name: &str) -> u64 {
    let sql = format!("SHOW GLOBAL STATUS LIKE '{name}'");
    let row = answer(fixture, session, &sql).await.remove(0);
    row.split_once('|').unwrap().1.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_that_are_filled_by_inserts_are_analyzed_by_themselves() {
    let engine = EngineConfig {
        statistics_interval: Duration::from_millis(5),
        ..EngineConfig::default()
    };
    let setup = Setup {
        engine,
        ..Setup::default()
    };
    let fixture = Fixture::new(setup).await;
    let mut session = fixture.session();
    fixture.run(&mut session, SKEWED).await.unwrap();
    let off = "SET GLOBAL innodb_stats_auto_recalc = OFF";
    fixture.run(&mut session, off).await.unwrap();
    for first in (0..2000).step_by(500) {
        let values: Vec<_> = (first..first + 500)
            .map(|id| {
                format!(
                    "({id}, {}, 'w', '2020-01-01', 1, 1, 1)",
                    i64::from(id >= 1900)
                )
            })
            .collect();
        let insert = format!("INSERT INTO s VALUES {}", values.join(","));
        fixture.run(&mut session, &insert).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let counter = "perigee_tables_analyzed_in_background";
    assert_eq!(status(&fixture, &mut session, counter).await, 0);
    let blind = expected(&fixture, &mut session, "skew = 0").await;
    assert!(blind < 1000.0, "{blind}");
    let on = "SET GLOBAL innodb_stats_auto_recalc = ON";
    fixture.run(&mut session, on).await.unwrap();
    let mut rounds = 0;
    while status(&fixture, &mut session, counter).await == 0 {
        assert!(rounds < 2000, "the table is not analyzed");
        rounds += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for (condition, rows) in [("skew = 0", 1900.0), ("skew = 1", 100.0), ("skew = 7", 0.0)] {
        let expected = expected(&fixture, &mut session, condition).await;
        assert!((expected - rows).abs() < 5.0, "{condition}: {expected}");
    }
}
