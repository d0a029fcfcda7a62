//! Nobody is left with a reference to a row that is not there, whatever other connections do at the same time.

use perigee_testkit::{Rng, tested_binary};
use perigee_workload::{Client, Embedded};

use super::random::{errno, number_of};

/// Rows that are referred to, at most.
const PARENTS: i64 = 6;

/// Connections that work at once.
const CONNECTIONS: u64 = 6;

/// Errors that end a transaction or a statement by right: duplicate key, rows that are referred to or missing,
/// waits and deadlocks, and with snapshot isolation rows that changed.
const EXPECTED: &[u16] = &[1062, 1451, 1452, 1205, 1213, 1020];

/// What a connection does: each statement by itself, or some of them in a transaction.
async fn work(mut client: Client, level: &'static str, seed: u64, count: usize) -> usize {
    let mut rng = Rng(seed);
    let set = format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}");
    client.execute(&set).await.unwrap();
    client
        .execute("SET SESSION innodb_lock_wait_timeout = 20")
        .await
        .unwrap();
    if rng.chance(2) {
        client
            .execute("SET SESSION innodb_snapshot_isolation = ON")
            .await
            .unwrap();
    }
    let mut done = 0;
    for _ in 0..count {
        let statements = rng.between(1, 4);
        let whole = rng.chance(2);
        if whole {
            client.execute("BEGIN").await.unwrap();
        }
        for _ in 0..statements {
            let sql = statement(&mut rng);
            match client.execute(&sql).await {
                Ok(_) => done += 1,
                Err(error) => {
                    let number = errno(&error);
                    assert!(EXPECTED.contains(&number), "{level}: {sql}: {error}");
                    // Those roll back the transaction.
                    if number == 1213 || number == 1020 {
                        break;
                    }
                }
            }
        }
        if whole {
            let end = *rng.choose(&["COMMIT", "COMMIT", "ROLLBACK"]);
            client.execute(end).await.unwrap();
        }
    }
    done
}

fn statement(rng: &mut Rng) -> String {
    let parent = rng.between(1, PARENTS);
    let (id, other) = (rng.between(1, 60), rng.between(1, PARENTS));
    let child = *rng.choose(&["restricted", "cascaded", "nulled"]);
    match rng.between(0, 9) {
        0 | 1 => format!("INSERT IGNORE INTO parent VALUES ({parent}, {parent}, 0)"),
        2 => format!("DELETE FROM parent WHERE id = {parent}"),
        3 => format!("UPDATE parent SET code = {other} + 100 WHERE id = {parent}"),
        4 => format!("UPDATE parent SET code = {parent} WHERE id = {parent}"),
        5 | 6 => format!(
            "INSERT INTO {child} VALUES ({id}, {parent}) ON DUPLICATE KEY UPDATE code = {other}"
        ),
        7 => format!("REPLACE INTO {child} VALUES ({id}, {parent})"),
        8 => format!("UPDATE {child} SET code = {other} WHERE id = {id}"),
        _ => format!("DELETE FROM {child} WHERE id = {id}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reference_is_left_without_its_row() {
    let dir = tempfile::tempdir().unwrap();
    let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
    let server = Embedded::start(&binary, dir.path(), &[]).unwrap();
    let count = number_of("PERIGEE_ORPHANS", 60);
    let mut client = server.client(None).await.unwrap();
    client.execute("CREATE DATABASE o").await.unwrap();
    client.execute("USE o").await.unwrap();
    let parent = "CREATE TABLE parent (id INT PRIMARY KEY, code INT NOT NULL UNIQUE, n INT)";
    client.execute(parent).await.unwrap();
    for (child, actions) in [
        ("restricted", ""),
        ("cascaded", "ON DELETE CASCADE ON UPDATE CASCADE"),
        ("nulled", "ON DELETE SET NULL ON UPDATE SET NULL"),
    ] {
        let sql = format!(
            "CREATE TABLE {child} (id INT PRIMARY KEY, code INT, \
             FOREIGN KEY (code) REFERENCES parent (code) {actions})"
        );
        client.execute(&sql).await.unwrap();
    }
    let levels = [
        ["READ COMMITTED"; 3],
        ["REPEATABLE READ"; 3],
        ["SERIALIZABLE"; 3],
        ["READ COMMITTED", "SERIALIZABLE", "REPEATABLE READ"],
    ];
    for (round, levels) in levels.iter().enumerate() {
        let mut works = Vec::new();
        for connection in 0..CONNECTIONS {
            let client = server.client(Some("o")).await.unwrap();
            let level = levels[connection as usize % levels.len()];
            let seed = 1 + connection + 100 * round as u64;
            works.push(tokio::spawn(work(client, level, seed, count)));
        }
        let mut done = 0;
        for work in works {
            done += work.await.unwrap();
        }
        println!("{levels:?}: {done} statements");
        assert!(done > count, "most of them take place");
        for child in ["restricted", "cascaded", "nulled"] {
            for index in ["PRIMARY", "code"] {
                let sql = format!(
                    "SELECT * FROM {child} FORCE INDEX ({index}) WHERE code IS NOT NULL \
                     AND code NOT IN (SELECT code FROM parent)"
                );
                let orphans = client.query(&sql).await.unwrap();
                assert!(orphans.is_empty(), "{levels:?}: {child} has {orphans:?}");
            }
        }
    }
}
