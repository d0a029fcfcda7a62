//! Conditions on the entries of a secondary index before rows are fetched: answers are those without, EXPLAIN shows both
//! accesses, and few pages are read.

use super::join_filters::{set, setups, sorted};
use super::*;

const ROWS: i64 = 2500;

/// Queries, and the access to the entries if there has to be one.
const QUERIES: &[(&str, Option<&str>)] = &[
    (
        "SELECT id, pad FROM wide FORCE INDEX (by_code) WHERE code LIKE '%777%'",
        Some("index by_code"),
    ),
    // What is left is for the rows.
    (
        "SELECT id, pad FROM wide FORCE INDEX (by_code) WHERE code LIKE '%77%' AND pad LIKE '%9%'",
        None,
    ),
    // A part of an index, and what is said of its other columns.
    (
        "SELECT id, pad FROM wide FORCE INDEX (by_grp_amount) WHERE grp < 300 AND amount = 5",
        Some("range by_grp_amount"),
    ),
    (
        "SELECT id, LENGTH(pad) FROM wide FORCE INDEX (by_grp_amount) WHERE grp BETWEEN 100 AND 500 AND (amount IS NULL OR amount = 9) AND grp % 7 = 2",
        None,
    ),
    (
        "SELECT w.id, w.pad, s.id FROM wide w FORCE INDEX (by_code) JOIN small s ON w.id = s.id WHERE w.code LIKE '%777%'",
        None,
    ),
    (
        "SELECT s.id, w.pad FROM small s LEFT JOIN wide w FORCE INDEX (by_code) ON w.id = s.id AND w.code LIKE '%1%' WHERE s.id < 700",
        None,
    ),
    (
        "SELECT LENGTH(pad) l, COUNT(*) FROM wide FORCE INDEX (by_code) WHERE code LIKE '%77' GROUP BY l",
        None,
    ),
    (
        "SELECT pad FROM wide FORCE INDEX (by_code) WHERE code LIKE '%nothing%'",
        None,
    ),
    (
        "SELECT pad FROM wide FORCE INDEX (by_code) WHERE code LIKE '%777%' ORDER BY pad DESC LIMIT 3",
        None,
    ),
    // Keys of several columns, of strings.
    (
        "SELECT a, b, pad FROM keyed FORCE INDEX (by_code) WHERE code LIKE '%777%'",
        Some("index by_code"),
    ),
    (
        "SELECT k.a, w.pad FROM keyed k FORCE INDEX (by_code) JOIN wide w FORCE INDEX (by_code) ON k.n = w.id WHERE k.code LIKE '%55%' AND w.code LIKE '%5%'",
        None,
    ),
    (
        "SELECT pad FROM bare FORCE INDEX (by_code) WHERE code LIKE '%777%'",
        None,
    ),
    // A sort by a column that is not where it is among those of the entries.
    (
        "SELECT pad FROM wide FORCE INDEX (by_grp_amount) WHERE grp = -0.5 OR amount + 1 = 5 ORDER BY id DESC",
        None,
    ),
];

async fn with_tables(setup: Setup) -> (Fixture, Session) {
    let fixture = Fixture::new(setup).await;
    let mut session = fixture.session();
    let create = "CREATE DATABASE test; USE test;
        CREATE TABLE wide (id INT NOT NULL PRIMARY KEY, grp INT NOT NULL, code VARCHAR(12) NOT NULL,
            amount INT, pad VARCHAR(2000) NOT NULL, KEY by_code (code), KEY by_grp_amount (grp, amount));
        CREATE TABLE keyed (a VARCHAR(10) COLLATE utf8mb4_general_ci NOT NULL, b DECIMAL(8,2) NOT NULL, n INT NOT NULL,
            code VARCHAR(12) COLLATE utf8mb4_general_ci, pad VARCHAR(2000) NOT NULL, PRIMARY KEY (b, a), KEY by_code (code));
        CREATE TABLE bare (code VARCHAR(12), pad VARCHAR(2000) NOT NULL, KEY by_code (code));
        CREATE TABLE small (id INT NOT NULL PRIMARY KEY)";
    fixture.run(&mut session, create).await.unwrap();
    let (mut wide, mut keyed, mut bare) = (String::new(), String::new(), String::new());
    for id in 0..ROWS {
        let (code, pad) = (id * 7919 % 100_000, format!("{id:x<1500}"));
        let amount = match id % 11 {
            0 => "\\N".to_owned(),
            _ => (id % 50).to_string(),
        };
        wide += &format!("{id}|{}|c{code}|{amount}|{pad}\n", id * 7 % 1000);
        keyed += &format!("Kä{id} |{}.5|{id}|C{code}|{pad}\n", id % 90);
        bare += &format!("c{code}|{pad}\n");
    }
    let small: String = (0..1000).map(|id| format!("{}\n", id * 2)).collect();
    for (table, text) in [
        ("wide", wide),
        ("keyed", keyed),
        ("bare", bare),
        ("small", small),
    ] {
        let sql = format!("LOAD DATA LOCAL INFILE 'f' INTO TABLE {table} FIELDS TERMINATED BY '|'");
        let text = text.into_bytes();
        fixture.run_with(&mut session, &sql, text).await.unwrap();
    }
    (fixture, session)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_the_same_with_and_without() {
    for (name, setup) in setups() {
        let (fixture, mut session) = with_tables(setup).await;
        let session = &mut session;
        for (sql, access) in QUERIES {
            let off = "ndp_mode = OFF, ndp_index_conditions = OFF";
            set(&fixture, session, off).await;
            let expected = sorted(&fixture, session, sql).await;
            for (mode, key_batches) in [("OFF", "OFF"), ("ON", "ALWAYS"), ("ON", "OFF")] {
                let on = format!(
                    "ndp_mode = {mode}, ndp_min_pages = 0, ndp_index_conditions = ON, ndp_key_batches = {key_batches}, \
                     parallel_default_dop = 2"
                );
                set(&fixture, session, &on).await;
                let found = sorted(&fixture, session, sql).await;
                assert!(found == expected, "{name}, {mode}, {key_batches}: {sql}");
            }
            let (accesses, extra) = explain(&fixture, session, sql).await;
            if let Some(access) = access {
                let both = accesses.iter().any(|one| one.ends_with(access))
                    && accesses.iter().any(|one| one.ends_with("eq_ref PRIMARY"));
                assert!(both, "{sql}: {accesses:?} {extra}");
                assert!(extra.contains(CONDITION), "{sql}: {extra}");
            }
        }
        // And to a transaction that changed rows itself, and to one that does not see it.
        let change =
            "BEGIN; UPDATE wide SET code = 'c7770' WHERE id < 3; DELETE FROM wide WHERE id = 777;
            INSERT INTO wide VALUES (9999, 1, 'x777x', 1, 'new')";
        fixture.run(session, change).await.unwrap();
        let mut other = fixture.session();
        fixture.run(&mut other, "USE test").await.unwrap();
        let sql = QUERIES[0].0;
        for session in [session, &mut other] {
            let mut found = Vec::new();
            for switches in [
                "ndp_index_conditions = OFF",
                "ndp_index_conditions = ON",
                "ndp_index_conditions = ON, ndp_key_batches = ALWAYS",
                "ndp_index_conditions = OFF, ndp_key_batches = ALWAYS",
            ] {
                set(&fixture, session, switches).await;
                found.push(sorted(&fixture, session, sql).await);
            }
            assert!(found[0].len() > 3, "{name}");
            assert!(found.iter().all(|rows| *rows == found[0]), "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_pages_are_read() {
    let [(_, setup), _] = setups();
    let (fixture, mut session) = with_tables(setup).await;
    let session = &mut session;
    let analyze = format!("EXPLAIN ANALYZE {}", QUERIES[0].0);
    let read = |text: &str| -> u64 {
        let lines = text.lines().map(str::trim);
        let values = lines.filter_map(|line| line.strip_prefix("bytes_read_in_storage:"));
        values
            .map(|value| value.trim().parse::<u64>().unwrap())
            .sum()
    };
    set(&fixture, session, "ndp_mode = ON, ndp_min_pages = 0").await;
    let with = answer(&fixture, session, &analyze).await.join("\n");
    set(&fixture, session, "ndp_index_conditions = OFF").await;
    let without = answer(&fixture, session, &analyze).await.join("\n");
    assert!(10 * read(&with) < read(&without), "{with}\n{without}");
}
