//! LOCK TABLES and FLUSH TABLES WITH READ LOCK: who waits for whom, and how waits end.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_locked_for_writing_is_used_by_nobody_else() {
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        for sql in [
            "SELECT * FROM t WHERE id = 1",
            "SELECT SUM(a) FROM t",
            "SELECT * FROM t FOR UPDATE",
            "INSERT INTO t VALUES (9, 9, 9)",
            "UPDATE t SET b = 2 WHERE id = 2",
            "DELETE FROM t WHERE b = 7",
            "PREPARE s FROM 'SELECT id FROM t'",
            "ALTER TABLE t ADD c INT",
            "LOCK TABLES t READ",
            "FLUSH TABLES WITH READ LOCK",
        ] {
            let (_fixture, mut one, two) = pair(level).await;
            one.ok("LOCK TABLES t WRITE; UPDATE t SET b = 1").await;
            let waiting = two.waits(sql).await;
            assert_eq!(one.rows("SELECT SUM(b) FROM t").await, "4");
            one.ok("UPDATE t SET b = 5; UNLOCK TABLES").await;
            waiting.succeeds().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_half_done_under_a_lock_is_not_seen() {
    let (_fixture, mut one, mut two) = pair("REPEATABLE READ").await;
    one.ok("LOCK TABLES t WRITE; UPDATE t SET b = 1 WHERE id = 1")
        .await;
    two.ok("BEGIN").await;
    let waiting = two.waits("SELECT SUM(b) FROM t").await;
    one.ok("UPDATE t SET b = 1 WHERE id = 2; UNLOCK TABLES")
        .await;
    let mut two = waiting.succeeds().await;
    assert_eq!(two.rows("SELECT SUM(b) FROM t").await, "2");
    // Who has a snapshot from before goes on reading it.
    one.ok("LOCK TABLES t WRITE; UPDATE t SET b = 7").await;
    assert_eq!(two.rows("SELECT SUM(b) FROM t").await, "2");
    assert_eq!(two.rows("SELECT b FROM t WHERE id = 2").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_locked_for_reading_is_read_by_all() {
    let (fixture, mut one, mut two) = pair("REPEATABLE READ").await;
    let mut three = Client(fixture.session());
    three.ok("USE test").await;
    one.ok("LOCK TABLES t READ").await;
    assert_eq!(two.rows("SELECT COUNT(*) FROM t").await, "4");
    two.ok("LOCK TABLES t READ LOCAL").await;
    let waiting = three.waits("DELETE FROM t WHERE id = 1").await;
    one.ok("UNLOCK TABLES").await;
    assert_eq!(two.rows("SELECT COUNT(*) FROM t").await, "4");
    two.ok("UNLOCK TABLES").await;
    let mut three = waiting.succeeds().await;
    assert_eq!(three.rows("SELECT COUNT(*) FROM t").await, "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_wait_for_transactions_only_so_long_and_can_be_killed() {
    for lock in [
        "LOCK TABLES t READ",
        "LOCK TABLES t WRITE",
        "FLUSH TABLES WITH READ LOCK",
    ] {
        let (_fixture, mut one, mut two) = pair("REPEATABLE READ").await;
        one.ok("BEGIN; UPDATE t SET b = 1 WHERE id = 1").await;
        two.ok("SET lock_wait_timeout = 1").await;
        assert_eq!(two.errno(lock).await, 1205, "{lock}");
        two.ok("SET lock_wait_timeout = 100").await;
        let waiting = two.waits(lock).await;
        waiting.cancel.cancel();
        let (two, errno) = waiting.fails().await;
        assert_eq!(errno, 1317, "{lock}");
        let waiting = two.waits(lock).await;
        one.ok("COMMIT").await;
        let mut two = waiting.succeeds().await;
        one.ok("SET lock_wait_timeout = 1").await;
        assert_eq!(one.errno("UPDATE t SET b = 2").await, 1205, "{lock}");
        two.ok("UNLOCK TABLES").await;
        one.ok("UPDATE t SET b = 2").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_wait_only_so_long_and_can_be_killed() {
    let (_fixture, mut one, mut two) = pair("REPEATABLE READ").await;
    one.ok("LOCK TABLES t WRITE").await;
    two.ok("SET lock_wait_timeout = 1").await;
    assert_eq!(two.errno("SELECT * FROM t").await, 1205);
    two.ok("SET lock_wait_timeout = 100").await;
    let waiting = two.waits("SELECT * FROM t").await;
    waiting.cancel.cancel();
    let (two, errno) = waiting.fails().await;
    assert_eq!(errno, 1317);
    // The end of a connection unlocks.
    let waiting = two.waits("SELECT COUNT(*) FROM t").await;
    drop(one);
    waiting.succeeds().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_circle_through_locked_tables_is_a_deadlock() {
    // Each locks a table and waits for a row of the other one by a foreign key.
    let (_fixture, mut one, mut two) = pair("REPEATABLE READ").await;
    one.ok("CREATE TABLE u (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES t (id))")
        .await;
    one.ok("CREATE TABLE v (id INT PRIMARY KEY, u INT, FOREIGN KEY (u) REFERENCES u (id))")
        .await;
    one.ok("INSERT INTO u VALUES (1, 1); LOCK TABLES u WRITE")
        .await;
    two.ok("LOCK TABLES t WRITE, v WRITE").await;
    let waiting = one.waits("INSERT INTO u VALUES (2, 2)").await;
    let errno = two.errno("INSERT INTO v VALUES (1, 1)").await;
    assert_eq!(errno, 1213);
    two.ok("UNLOCK TABLES").await;
    waiting.succeeds().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_locked_without_deadlocks_in_whatever_order_they_are_named() {
    let (fixture, mut one, two) = pair("REPEATABLE READ").await;
    one.ok("CREATE TABLE u (id INT PRIMARY KEY); INSERT INTO u VALUES (1)")
        .await;
    drop(two);
    let each = |order: &'static str| {
        let session = fixture.session();
        tokio::spawn(async move {
            let mut client = Client(session);
            client.ok("USE test").await;
            for _ in 0..50 {
                client.ok(order).await;
                client
                    .ok("UPDATE t SET b = b + 1 WHERE id = 1; UNLOCK TABLES")
                    .await;
            }
        })
    };
    let tasks = [
        "LOCK TABLES t WRITE, u WRITE",
        "LOCK TABLES u WRITE, t WRITE",
        "LOCK TABLES u READ, t WRITE",
    ];
    for task in tasks.map(each) {
        task.await.unwrap();
    }
    assert_eq!(one.rows("SELECT b FROM t WHERE id = 1").await, "150");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_changes_under_a_read_lock_of_all_tables() {
    for change in [
        "INSERT INTO t VALUES (9, 9, 9)",
        "CREATE TABLE u (id INT)",
        "CREATE DATABASE other",
        "DROP TABLE t",
        "ALTER TABLE t ADD c INT",
        "LOCK TABLES t WRITE",
    ] {
        let (_fixture, mut one, mut two) = pair("REPEATABLE READ").await;
        one.ok("FLUSH TABLES WITH READ LOCK").await;
        assert_eq!(two.rows("SELECT COUNT(*) FROM t").await, "4");
        let waiting = two.waits(change).await;
        assert_eq!(one.rows("SELECT COUNT(*) FROM t").await, "4");
        one.ok("UNLOCK TABLES").await;
        waiting.succeeds().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_under_locks_are_those_of_whole_changes() {
    let (fixture, one, two) = pair("READ COMMITTED").await;
    let writers = [one, two].map(|mut client| {
        tokio::spawn(async move {
            for _ in 0..60 {
                client.ok("LOCK TABLES t WRITE").await;
                client.ok("UPDATE t SET a = a - 1 WHERE id = 1").await;
                client.ok("UPDATE t SET a = a + 1 WHERE id = 2").await;
                client.ok("UNLOCK TABLES").await;
            }
        })
    });
    let mut three = Client(fixture.session());
    three.ok("USE test; SET ndp_min_pages = 0").await;
    let mut looks = 0;
    while !writers.iter().all(JoinHandle::is_finished) {
        assert_eq!(three.rows("SELECT SUM(a) FROM t").await, "100");
        assert_eq!(
            three.rows("SELECT SUM(a) FROM t WHERE id IN (1, 2)").await,
            "30"
        );
        looks += 1;
    }
    assert!(looks > 1);
    for writer in writers {
        writer.await.unwrap();
    }
}
