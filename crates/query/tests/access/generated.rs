//! Generated columns: rows contain their values, so storage looks at them as at any other, and indexes have them.

use super::*;

const ROWS: usize = 4000;

async fn with_table() -> (Fixture, Session) {
    let fixture = past_pool().await;
    let mut session = fixture.session();
    let create = "CREATE DATABASE test; USE test;
        CREATE TABLE g (id INT NOT NULL PRIMARY KEY, doc JSON, n INT AS (doc->>'$.n'),
            half INT AS (n DIV 2) STORED, note VARCHAR(100) NOT NULL, KEY by_half (half))";
    fixture.run(&mut session, create).await.unwrap();
    let half = ROWS / 2;
    // With fields for the columns, which nobody looks at, and without.
    let load = "LOAD DATA LOCAL INFILE 'f' INTO TABLE g FIELDS TERMINATED BY '|'";
    for (sql, ids, fields) in [
        (load.to_owned(), 0..half, "|what|ever"),
        (format!("{load} (id, doc, note)"), half..ROWS, ""),
    ] {
        let line = |id: usize| format!("{id}|{{\"n\": {}}}{fields}|{id:=<80}\n", id % 100);
        let rows: String = ids.map(line).collect();
        let loaded = fixture.run_with(&mut session, &sql, rows.into_bytes());
        loaded.await.unwrap();
    }
    (fixture, session)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn storage_looks_at_them() {
    let (fixture, mut session) = with_table().await;
    for (sql, pushed, rows) in [
        (
            "SELECT COUNT(note), SUM(id) FROM g WHERE n < 10",
            CONDITION,
            &["400|781800"][..],
        ),
        (
            "SELECT COUNT(note), MAX(half), MIN(n) FROM g WHERE half > 2",
            AGGREGATE,
            &["3760|49|6"],
        ),
    ] {
        check_pushed(&fixture, &mut session, (sql, pushed), rows).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indexes_have_them() {
    let (fixture, mut session) = with_table().await;
    let change = "UPDATE g SET doc = '{\"n\": 1000}' WHERE half = 7 AND id < 100";
    fixture.run(&mut session, change).await.unwrap();
    let sql = "SELECT id, n FROM g WHERE half = 500 ORDER BY id";
    let (accesses, extra) = explain(&fixture, &mut session, sql).await;
    let found = accesses.iter().any(|access| access == "g ref by_half");
    assert!(found, "{accesses:?} {extra}");
    let rows = answer(&fixture, &mut session, sql).await;
    assert_eq!(rows, ["14|1000", "15|1000"]);
}
