//! Transactions that change more than the buffer pool holds.

use perigee_types::PAGE_SIZE;

use super::*;

/// Pages of the pool.
const POOL: usize = 32;

/// Number of rows; they and their undo take many times the pool.
const ROWS: u32 = 1 << 13;

/// What identifies the contents of the table, by the clustered index and by the other one.
async fn sums(client: &mut Client) -> [String; 2] {
    let whole = "SELECT COUNT(*), SUM(a), MIN(id), MAX(id), SUM(LENGTH(s)) FROM n";
    let by_index = "SELECT COUNT(*), SUM(a) FROM n WHERE a >= 0";
    [client.rows(whole).await, client.rows(by_index).await]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_larger_than_the_pool_commits_or_leaves_nothing() {
    let setup = Setup {
        engine: EngineConfig {
            buffer_pool: POOL * PAGE_SIZE,
            ..EngineConfig::default()
        },
        ..Setup::default()
    };
    let fixture = Fixture::new(setup).await;
    let (mut one, mut two) = (Client(fixture.session()), Client(fixture.session()));
    one.ok("CREATE DATABASE test; USE test").await;
    two.ok("USE test").await;
    one.ok("CREATE TABLE n (id INT NOT NULL PRIMARY KEY, a INT, s VARCHAR(2000), KEY ka (a))")
        .await;
    one.ok("BEGIN; INSERT INTO n VALUES (1, 1, RPAD('x', 400, 'y'))")
        .await;
    let mut rows = 1;
    while rows < ROWS {
        one.ok(&format!("INSERT INTO n SELECT id + {rows}, a, s FROM n"))
            .await;
        rows *= 2;
    }
    assert_eq!(two.rows("SELECT COUNT(*) FROM n").await, "0");
    one.ok("COMMIT").await;
    let before = sums(&mut two).await;
    let pages = fixture.frontend.engine().table("test", "n").unwrap();
    let pages = fixture
        .frontend
        .engine()
        .verify_table(&pages)
        .await
        .unwrap()[0]
        .leaf_pages;
    assert!(pages > 4 * POOL as u64, "only {pages} pages");

    let change = "UPDATE n SET a = a + id % 5, s = CONCAT(REVERSE(s), '!') WHERE id % 7 > 0; \
                  DELETE FROM n WHERE id % 3 = 0; \
                  INSERT INTO n SELECT id + 100000, a, s FROM n WHERE id % 3 = 1";
    for end in ["ROLLBACK", "ROLLBACK TO s; COMMIT"] {
        one.ok(&format!("BEGIN; SAVEPOINT s; {change}")).await;
        assert_ne!(sums(&mut one).await, before);
        assert_eq!(sums(&mut two).await, before);
        one.ok(end).await;
        assert_eq!(sums(&mut one).await, before, "{end}");
    }
    // A statement that fails late is undone alone.
    one.ok("BEGIN; UPDATE n SET s = 'z' WHERE id = 1").await;
    let failing =
        format!("INSERT INTO n SELECT IF(id = {ROWS}, 1, id + 200000), a, s FROM n ORDER BY id");
    assert_eq!(one.errno(&failing).await, 1062);
    assert_eq!(
        one.rows("SELECT COUNT(*), SUM(s = 'z') FROM n").await,
        format!("{ROWS}|1")
    );
    one.ok("ROLLBACK").await;
    assert_eq!(sums(&mut one).await, before);

    one.ok(&format!("BEGIN; {change}")).await;
    let changed = sums(&mut one).await;
    one.ok("COMMIT").await;
    assert_eq!(sums(&mut two).await, changed);
}
