//! Grouping in storage by hashing and by sorting, in little memory and in much: answers are those without
//! near-data processing, EXPLAIN says how, and less memory gives more partial rows.

use super::join_filters::{set, sorted, with_tables};
use super::*;

/// Queries whose aggregation storage does.
const QUERIES: &[&str] = &[
    "SELECT k, COUNT(*), SUM(id), MIN(pad) FROM fact GROUP BY k",
    "SELECT s, MIN(day), MAX(d), COUNT(k) FROM fact GROUP BY s",
    "SELECT d, day, SUM(big), MAX(id) FROM fact WHERE id > 77 GROUP BY d, day",
    "SELECT big % 7, COUNT(*) FROM fact GROUP BY big % 7",
    "SELECT k, SUM(x), AVG(x), SUM(f), COUNT(*) FROM m GROUP BY k",
    "SELECT x, COUNT(*) FROM m GROUP BY x",
    "SELECT SUM(x), AVG(f), SUM(x * 2) FROM m WHERE id % 3 = 0",
    "SELECT SUM(x) FROM m WHERE id < 0",
    "SELECT COUNT(DISTINCT k) FROM fact",
];

/// Queries that may be planned without a grouping by the distinct values.
const OTHERS: &[&str] = &[
    "SELECT COUNT(DISTINCT s) FROM fact",
    "SELECT SUM(DISTINCT d), AVG(DISTINCT d) FROM fact",
    "SELECT SUM(DISTINCT x), COUNT(DISTINCT x) FROM m",
    "SELECT day, COUNT(DISTINCT k) FROM fact GROUP BY day",
    "SELECT COUNT(DISTINCT k), SUM(id), COUNT(*) FROM fact",
];

async fn with_doubles(setup: Setup) -> (Fixture, Session) {
    let (fixture, mut session) = with_tables(setup).await;
    let create = "CREATE TABLE m (id INT NOT NULL PRIMARY KEY, k INT, x DOUBLE, f FLOAT NOT NULL)";
    fixture.run(&mut session, create).await.unwrap();
    let rows = (0..4000).map(|id| {
        // Terms of many magnitudes, whose sum in the order of the rows is another one.
        let x = f64::from(id % 97) * 10_f64.powi(id % 23 - 11) * [1.0, -1.0][id as usize % 2];
        let (k, x) = match id % 31 {
            0 => ("\\N".to_owned(), "\\N".to_owned()),
            _ => ((id % 200).to_string(), format!("{x:e}")),
        };
        format!("{id}|{k}|{x}|{}\n", id % 13)
    });
    let text: String = rows.collect();
    let sql = "LOAD DATA LOCAL INFILE 'f' INTO TABLE m FIELDS TERMINATED BY '|'";
    let loaded = fixture.run_with(&mut session, sql, text.into_bytes());
    loaded.await.unwrap();
    (fixture, session)
}

fn past_pool_setup() -> Setup {
    Setup {
        engine: EngineConfig {
            past_pool: true,
            ..EngineConfig::default()
        },
        ..Setup::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_do_not_depend_on_how_storage_groups() {
    let hostile = Setup {
        engine: EngineConfig {
            past_pool: true,
            interpret: true,
            ..EngineConfig::default()
        },
        pages: perigee_page_store::Config {
            decline_every: Some(3),
            ndp_group_bytes: 100,
            ..Default::default()
        },
        ..Setup::default()
    };
    let older = Setup {
        older_store: true,
        ..past_pool_setup()
    };
    let setups = [
        ("plain", past_pool_setup()),
        ("hostile", hostile),
        ("older", older),
    ];
    for (name, setup) in setups {
        let (fixture, mut session) = with_doubles(setup).await;
        let session = &mut session;
        for sql in QUERIES.iter().chain(OTHERS) {
            set(&fixture, session, "ndp_mode = OFF").await;
            let expected = sorted(&fixture, session, sql).await;
            let on = "ndp_mode = ON, ndp_min_pages = 0, ndp_min_rows_per_group = 0";
            set(&fixture, session, on).await;
            for (method, memory) in [("HASH", 1024), ("SORT", 1024), ("SORT", 16 << 20)] {
                let how = format!("ndp_group_method = {method}, ndp_group_memory = {memory}");
                set(&fixture, session, &how).await;
                let found = sorted(&fixture, session, sql).await;
                assert_eq!(found, expected, "{name}, {how}: {sql}");
                let (_, extra) = explain(&fixture, session, sql).await;
                if OTHERS.contains(sql) {
                    continue;
                }
                if name == "older" {
                    assert!(!extra.contains("groups sorted"), "{sql}: {extra}");
                    continue;
                }
                assert!(extra.contains(AGGREGATE), "{sql}: {extra}");
                let sorts = method == "SORT" && (sql.contains("GROUP") || sql.contains("DISTINCT"));
                assert_eq!(extra.contains("groups sorted"), sorts, "{sql}: {extra}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_store_sums_no_doubles() {
    let setup = Setup {
        older_store: true,
        ..past_pool_setup()
    };
    let (fixture, mut session) = with_doubles(setup).await;
    let session = &mut session;
    set(&fixture, session, "ndp_mode = ON, ndp_min_pages = 0").await;
    let (_, extra) = explain(&fixture, session, "SELECT SUM(x) FROM m").await;
    assert!(
        extra.contains("SUM of doubles: a Page Store is of an older version"),
        "{extra}"
    );
    let (_, extra) = explain(&fixture, session, "SELECT SUM(k) FROM m").await;
    assert!(extra.contains(AGGREGATE), "{extra}");
}

/// Partial rows that the scan of a query delivered.
async fn partial_rows(fixture: &Fixture, session: &mut Session, sql: &str) -> u64 {
    let text = answer(fixture, session, &format!("EXPLAIN ANALYZE {sql}"))
        .await
        .join("\n");
    let rows = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("rows: "));
    rows.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn less_memory_gives_more_partial_rows_and_fewer_by_sorting() {
    let (fixture, mut session) = with_doubles(past_pool_setup()).await;
    let session = &mut session;
    set(
        &fixture,
        session,
        "ndp_mode = ON, ndp_min_pages = 0, ndp_min_rows_per_group = 0",
    )
    .await;
    let sql = "SELECT link % 300, COUNT(*) FROM fact GROUP BY link % 300";
    let mut rows = Vec::new();
    for (method, memory) in [("HASH", 1 << 24), ("HASH", 16 << 10), ("SORT", 16 << 10)] {
        let how = format!("ndp_group_method = {method}, ndp_group_memory = {memory}");
        set(&fixture, session, &how).await;
        rows.push(partial_rows(&fixture, session, sql).await);
    }
    assert!(rows[0] <= rows[2] && 3 * rows[2] < 2 * rows[1], "{rows:?}");
    // What pays is decided by the memory, too.
    set(
        &fixture,
        session,
        "ndp_group_method = AUTO, ndp_min_rows_per_group = 8",
    )
    .await;
    set(&fixture, session, "ndp_group_memory = 16777216").await;
    // Of many values there are few remainders.
    let by_remainder = "SELECT id % 7, COUNT(*) FROM fact GROUP BY id % 7";
    let (_, extra) = explain(&fixture, session, by_remainder).await;
    assert!(extra.contains(AGGREGATE), "{extra}");
    let by_key = "SELECT k, COUNT(*) FROM fact GROUP BY k";
    let (_, extra) = explain(&fixture, session, by_key).await;
    assert!(
        extra.contains(AGGREGATE) && !extra.contains("groups sorted"),
        "{extra}"
    );
    set(&fixture, session, "ndp_group_memory = 4096").await;
    let (_, extra) = explain(&fixture, session, by_key).await;
    assert!(
        extra.contains("below ndp_min_rows_per_group = 8"),
        "{extra}"
    );
}
