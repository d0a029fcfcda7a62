//! What a restart finds, after an end in good order and after a crash: where AUTO_INCREMENT goes on, and
//! the statistics of tables that were filled by INSERT.

use std::path::Path;

use super::*;

/// How a life of the database ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Order,
    Crash,
}

/// One life of the process: when this returns, nothing of it is left.
fn live<T>(dir: &Path, end: End, life: impl AsyncFnOnce(&mut Client) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let fixture = Fixture::at(dir, Setup::default()).await;
        let mut client = Client(fixture.session());
        client
            .ok("CREATE DATABASE IF NOT EXISTS test; USE test")
            .await;
        let outcome = life(&mut client).await;
        if end == End::Order {
            drop(client);
            fixture.frontend.engine().shutdown().await.unwrap();
        }
        outcome
    })
}

/// The number that the next row of a table gets.
async fn next(client: &mut Client, table: &str) -> u64 {
    client
        .ok(&format!("INSERT INTO {table} (v) VALUES (0)"))
        .await;
    client
        .rows("SELECT LAST_INSERT_ID()")
        .await
        .parse()
        .unwrap()
}

#[test]
fn numbering_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    live(dir.path(), End::Order, async |client: &mut Client| {
        for table in [
            "plain", "given", "raised", "emptied", "marked", "renamed", "rebuilt",
        ] {
            client
                .ok(&format!(
                    "CREATE TABLE {table} (id INT AUTO_INCREMENT PRIMARY KEY, v INT); \
                     INSERT INTO {table} (v) VALUES (1), (2), (3)"
                ))
                .await;
        }
        client
            .ok("CREATE TABLE tiny (id TINYINT AUTO_INCREMENT PRIMARY KEY, v INT)")
            .await;
        client.ok("INSERT INTO tiny (v) VALUES (1), (2), (3)").await;
        // The greatest number is gone, and one more went with a rollback.
        client
            .ok("DELETE FROM plain WHERE id = 3; BEGIN; INSERT INTO plain (v) VALUES (4); ROLLBACK")
            .await;
        client
            .ok("INSERT INTO given VALUES (5000, 0); DELETE FROM given WHERE id > 1")
            .await;
        client
            .ok("UPDATE raised SET id = 7000 WHERE id = 2; DELETE FROM raised")
            .await;
        client.ok("TRUNCATE TABLE emptied").await;
        client
            .ok("DELETE FROM marked WHERE id > 1; ALTER TABLE marked AUTO_INCREMENT = 50")
            .await;
        client
            .ok("DELETE FROM renamed; RENAME TABLE renamed TO other")
            .await;
        client
            .ok("DELETE FROM rebuilt WHERE id > 1; ALTER TABLE rebuilt ADD COLUMN w INT FIRST")
            .await;
        client
            .ok("CREATE TABLE made (id INT AUTO_INCREMENT PRIMARY KEY) SELECT v FROM plain")
            .await;
        client.ok("DELETE FROM made").await;
    });
    live(dir.path(), End::Crash, async |client: &mut Client| {
        for (table, number) in [
            ("plain", 5),
            ("given", 5001),
            ("raised", 7001),
            ("emptied", 1),
            ("marked", 50),
            ("other", 4),
            ("rebuilt", 4),
            ("made", 3),
            ("tiny", 4),
        ] {
            assert_eq!(next(client, table).await, number, "{table}");
        }
    });
    // The numbers above were handed out by a process that crashed: none comes again.
    live(dir.path(), End::Order, async |client: &mut Client| {
        for (table, number) in [("plain", 5), ("given", 5001), ("raised", 7001), ("made", 3)] {
            let next = next(client, table).await;
            assert!(next > number && next <= number + 1001, "{table}: {next}");
        }
        assert_eq!(next(client, "tiny").await, 5, "few numbers are not wasted");
    });
}

#[test]
fn no_number_comes_again_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let mut greatest = 0;
    for round in 0..4 {
        greatest = live(dir.path(), End::Crash, async |client: &mut Client| {
            client
                .ok("CREATE TABLE IF NOT EXISTS t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)")
                .await;
            let first = next(client, "t").await;
            assert!(first > greatest, "{first} after {greatest}");
            let values = vec!["(1)"; 700].join(", ");
            for _ in 0..round {
                client
                    .ok(&format!("INSERT INTO t (v) VALUES {values}"))
                    .await;
            }
            let last = next(client, "t").await;
            assert_eq!(last, first + 700 * round + 1);
            client.ok("DELETE FROM t").await;
            last
        });
    }
}

/// Rows that EXPLAIN expects of a scan of the table.
async fn explained(client: &mut Client) -> f64 {
    let plan = client.rows("EXPLAIN SELECT COUNT(b) FROM n").await;
    let rows = plan.split('|').nth(9);
    rows.and_then(|rows| rows.parse().ok())
        .unwrap_or_else(|| panic!("{plan}"))
}

#[test]
fn a_table_filled_by_inserts_has_statistics() {
    const ROWS: usize = 5000;
    let near = |rows: f64, expected: usize| (rows / expected as f64 - 1.0).abs() < 0.3;
    for end in [End::Order, End::Crash] {
        let dir = tempfile::tempdir().unwrap();
        live(dir.path(), end, async |client: &mut Client| {
            client
                .ok("CREATE TABLE n (id INT PRIMARY KEY, a INT, b VARCHAR(80), KEY (a))")
                .await;
            client.ok("CREATE TABLE blank (id INT PRIMARY KEY)").await;
            for first in (0..ROWS).step_by(500) {
                let row = |id| format!("({id}, {}, RPAD('', 60, 'x'))", id % 100);
                let rows: Vec<_> = (first..first + 500).map(row).collect();
                client
                    .ok(&format!("INSERT INTO n VALUES {}", rows.join(", ")))
                    .await;
            }
            assert_eq!(explained(client).await, ROWS as f64);
        });
        live(dir.path(), End::Order, async |client: &mut Client| {
            let rows = explained(client).await;
            assert!(near(rows, ROWS), "{rows} rows after {end:?}");
            client.ok("DELETE FROM n WHERE id >= 1000").await;
            let status = client.rows("SHOW TABLE STATUS LIKE 'n'").await;
            let cells: Vec<_> = status.split('|').collect();
            let rows: f64 = cells[4].parse().unwrap();
            assert!((0.0..ROWS as f64 / 2.0).contains(&rows), "{status}");
            let bytes: usize = cells[6].parse().unwrap();
            assert!(bytes > ROWS * 60 / 2, "{status}");
            let status = client.rows("SHOW TABLE STATUS LIKE 'blank'").await;
            assert_eq!(status.split('|').nth(4), Some("0"));
        });
        live(dir.path(), End::Order, async |client: &mut Client| {
            // Delete marks may still be in the way.
            let rows = explained(client).await;
            assert!(rows >= 700.0 && rows < 1.3 * ROWS as f64, "{rows}");
        });
    }
}

/// A trigger waits for another transaction, which meanwhile changes a row that the statement has found: the statement
/// finds out, although the trigger's own statements have seen more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_begin_anew_with_their_triggers() {
    for level in ["READ COMMITTED", "REPEATABLE READ"] {
        let (_fixture, mut one, mut two) = pair(level).await;
        one.ok("CREATE TABLE gate (id INT PRIMARY KEY, n INT); INSERT INTO gate VALUES (1, 0)")
            .await;
        one.ok("CREATE TRIGGER counts AFTER UPDATE ON t FOR EACH ROW UPDATE gate SET n = n + 1 WHERE id = 1")
            .await;
        two.ok("BEGIN; UPDATE gate SET n = 10 WHERE id = 1").await;
        let waiting = one.waits("UPDATE t SET a = a + 1").await;
        two.ok("UPDATE t SET a = 400 WHERE id = 4; COMMIT").await;
        let mut one = waiting.succeeds().await;
        // The other transaction fired it, too.
        assert_eq!(one.rows("SELECT n FROM gate").await, "15", "{level}");
        assert_eq!(
            one.rows("SELECT a FROM t ORDER BY id").await,
            "11 21 31 401",
            "{level}"
        );
    }
}
