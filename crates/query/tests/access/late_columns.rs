//! Columns of the first rows of an order that are read when these rows are known: answers are those without, and few bytes come
//! from storage.

use super::join_filters::{set, setups};
use super::*;

const ROWS: i64 = 2500;

/// Queries with an order that ties nothing, and whether their columns can come late.
const QUERIES: &[(&str, bool)] = &[
    ("SELECT * FROM wide ORDER BY rank_of, id LIMIT 7", true),
    (
        "SELECT pad, rank_of + 1, id FROM wide WHERE grp < 500 ORDER BY rank_of DESC, id LIMIT 3, 5",
        true,
    ),
    (
        "SELECT CONCAT(note, pad) c, grp FROM wide ORDER BY grp % 10 DESC, rank_of, id LIMIT 20",
        true,
    ),
    // By what is computed of columns that are wanted, too.
    (
        "SELECT pad, LENGTH(note) l FROM wide ORDER BY l, id DESC LIMIT 5",
        true,
    ),
    // An index has what rows are sorted by.
    (
        "SELECT pad FROM wide WHERE grp BETWEEN 100 AND 700 ORDER BY rank_of, id LIMIT 6",
        true,
    ),
    (
        "SELECT pad FROM wide FORCE INDEX (by_grp) WHERE grp IN (7, 14, 21, 700) ORDER BY rank_of, id LIMIT 4",
        true,
    ),
    (
        "SELECT pad FROM wide WHERE grp > 100000 ORDER BY rank_of, id LIMIT 6",
        true,
    ),
    (
        "SELECT w.pad FROM (SELECT id, pad FROM wide ORDER BY rank_of, id LIMIT 10) w ORDER BY w.id",
        true,
    ),
    // A primary key of strings and decimals.
    (
        "SELECT a, b, pad FROM keyed ORDER BY n % 100, n LIMIT 9",
        true,
    ),
    // Values beside their rows.
    (
        "SELECT id, body FROM texts ORDER BY n % 50, id LIMIT 4",
        true,
    ),
    // All columns are needed for the order.
    (
        "SELECT id, rank_of FROM wide ORDER BY rank_of, id LIMIT 5",
        false,
    ),
    // No key to look up by.
    ("SELECT pad FROM bare ORDER BY n LIMIT 5", false),
    // The index delivers the order.
    (
        "SELECT pad FROM wide FORCE INDEX (by_grp) ORDER BY grp, rank_of, id LIMIT 5",
        false,
    ),
];

async fn with_tables(setup: Setup) -> (Fixture, Session) {
    let fixture = Fixture::new(setup).await;
    let mut session = fixture.session();
    let create = "CREATE DATABASE test; USE test;
        CREATE TABLE wide (id INT NOT NULL PRIMARY KEY, grp INT NOT NULL, rank_of INT, note VARCHAR(200) NOT NULL,
            pad VARCHAR(2000) NOT NULL, KEY by_grp (grp, rank_of));
        CREATE TABLE keyed (a VARCHAR(10) COLLATE utf8mb4_general_ci NOT NULL, b DECIMAL(8,2) NOT NULL, n INT NOT NULL,
            pad VARCHAR(2000) NOT NULL, PRIMARY KEY (b, a));
        CREATE TABLE texts (id BIGINT NOT NULL PRIMARY KEY, n INT NOT NULL, body TEXT NOT NULL);
        CREATE TABLE bare (n INT NOT NULL, pad VARCHAR(2000) NOT NULL)";
    fixture.run(&mut session, create).await.unwrap();
    let [mut wide, mut keyed, mut texts, mut bare] = [(); 4].map(|()| String::new());
    for id in 0..ROWS {
        let pad = format!("{id:x<1500}");
        let rank = match id % 13 {
            0 => "\\N".to_owned(),
            _ => (id * 7919 % 400).to_string(),
        };
        let note = "n".repeat((id * 31 % 97) as usize);
        wide += &format!("{id}|{}|{rank}|{note}|{pad}\n", id * 7 % 1000);
        if id < ROWS / 8 {
            keyed += &format!("Kä{id} |{}.5|{id}|{pad}\n", id % 90);
            texts += &format!("{id}|{}|{}\n", id * 7919 % 1000, pad.repeat(8));
            bare += &format!("{}|{pad}\n", id * 7919 % 100_003);
        }
    }
    for (table, text) in [
        ("wide", wide),
        ("keyed", keyed),
        ("texts", texts),
        ("bare", bare),
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
        // An open transaction sees its own rows.
        let change = "BEGIN; UPDATE wide SET rank_of = 0, pad = 'changed' WHERE id = 1111;
            DELETE FROM wide WHERE rank_of = 1; INSERT INTO wide VALUES (9999, 1, 0, 'new', 'new')";
        for changes in [None, Some(change)] {
            if let Some(change) = changes {
                fixture.run(session, change).await.unwrap();
            }
            for (sql, can_be_late) in QUERIES {
                let off = "ndp_mode = OFF, optimizer_late_columns = OFF";
                set(&fixture, session, off).await;
                let expected = answer(&fixture, session, sql).await;
                for (mode, key_batches) in [("OFF", "OFF"), ("ON", "ALWAYS"), ("ON", "OFF")] {
                    let on = format!(
                        "ndp_mode = {mode}, ndp_min_pages = 0, optimizer_late_columns = ALWAYS, \
                         ndp_key_batches = {key_batches}, parallel_default_dop = 2"
                    );
                    set(&fixture, session, &on).await;
                    let found = answer(&fixture, session, sql).await;
                    assert!(found == expected, "{name}, {mode}, {key_batches}: {sql}");
                }
                let (accesses, extra) = explain(&fixture, session, sql).await;
                let is_late = accesses.iter().any(|one| one.ends_with("eq_ref PRIMARY"));
                assert_eq!(is_late, *can_be_late, "{sql}: {accesses:?} {extra}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_bytes_are_shipped() {
    let [(_, setup), _] = setups();
    let (fixture, mut session) = with_tables(setup).await;
    let session = &mut session;
    let analyze = format!("EXPLAIN ANALYZE {}", QUERIES[0].0);
    let shipped = |text: &str| -> u64 {
        let lines = text.lines().map(str::trim);
        let values = lines.filter_map(|line| line.strip_prefix("bytes_shipped:"));
        values
            .map(|value| value.trim().parse::<u64>().unwrap())
            .sum()
    };
    set(&fixture, session, "ndp_mode = ON, ndp_min_pages = 0").await;
    let with = answer(&fixture, session, &analyze).await.join("\n");
    set(&fixture, session, "optimizer_late_columns = OFF").await;
    let without = answer(&fixture, session, &analyze).await.join("\n");
    assert!(10 * shipped(&with) < shipped(&without), "{with}\n{without}");
}
