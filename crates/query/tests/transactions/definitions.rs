//! DDL and transactions wait for each other: with time-outs, stopped by KILL, and out of circles.

use super::*;

/// A second table.
async fn with_u(client: &mut Client) {
    client
        .ok("CREATE TABLE u (id INT NOT NULL PRIMARY KEY, b INT); INSERT INTO u VALUES (1, 0), (2, 0)")
        .await;
}

const CHANGES: [&str; 7] = [
    "ALTER TABLE t ADD COLUMN c INT",
    "CREATE INDEX kb ON t (b)",
    "DROP INDEX ka ON t",
    "RENAME TABLE t TO v",
    "TRUNCATE TABLE t",
    "DROP TABLE t",
    "DROP DATABASE test",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_definitions_wait_for_transactions_only_so_long() {
    let (_fixture, mut one, mut two) = pair("REPEATABLE READ").await;
    one.ok("BEGIN; UPDATE t SET b = 1 WHERE id = 1").await;
    two.ok("SET lock_wait_timeout = 1").await;
    for change in CHANGES {
        let error = two.run(change).await.expect_err(change);
        assert_eq!(
            (error.errno, error.sqlstate.as_str()),
            (1205, "HY000"),
            "{change}"
        );
    }
    one.ok("COMMIT").await;
    assert_eq!(two.rows("SELECT COUNT(*), SUM(b) FROM t").await, "4|1");
    two.ok("DROP TABLE t").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_definitions_that_wait_can_be_killed() {
    let (_fixture, mut one, mut two) = pair("REPEATABLE READ").await;
    one.ok("BEGIN; UPDATE t SET b = 1 WHERE id = 1").await;
    for change in CHANGES {
        let waiting = two.waits(change).await;
        waiting.cancel.cancel();
        let errno;
        (two, errno) = waiting.fails().await;
        assert_eq!(errno, 1317, "{change}");
    }
    // Nobody waits for those that have gone.
    two.ok("SET lock_wait_timeout = 1; UPDATE t SET b = 2 WHERE id = 2")
        .await;
    one.ok("COMMIT").await;
    assert_eq!(two.rows("SELECT SUM(b) FROM t").await, "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_wait_for_changes_of_definitions_only_so_long() {
    let (fixture, mut one, two) = pair("REPEATABLE READ").await;
    let mut three = Client(fixture.session());
    three.ok("USE test; SET lock_wait_timeout = 1; BEGIN").await;
    with_u(&mut three).await;
    one.ok("BEGIN; UPDATE t SET b = 1 WHERE id = 1").await;
    let altering = two.waits("ALTER TABLE t ADD COLUMN c INT").await;
    // Who comes later waits for the change; who uses the table already does not.
    three.ok("BEGIN; UPDATE u SET b = 3 WHERE id = 1").await;
    for change in [
        "UPDATE t SET b = 2 WHERE id = 2",
        "UPDATE t SET b = 2",
        "INSERT INTO t VALUES (7, 7, 7)",
        "SELECT * FROM t FOR SHARE",
    ] {
        assert_eq!(three.errno(change).await, 1205, "{change}");
        assert!(three.0.in_transaction());
    }
    assert_eq!(
        three.rows("SELECT COUNT(*) FROM t").await,
        "4",
        "reads do not wait"
    );
    one.ok("UPDATE t SET b = 1 WHERE id = 2; COMMIT").await;
    let mut two = altering.succeeds().await;
    three.ok("COMMIT").await;
    assert_eq!(two.rows("SELECT SUM(b), COUNT(c) FROM t").await, "2|0");
    assert_eq!(two.rows("SELECT SUM(b) FROM u").await, "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_that_wait_for_a_change_of_a_definition_can_be_killed() {
    let (fixture, mut one, two) = pair("REPEATABLE READ").await;
    let mut three = Client(fixture.session());
    three.ok("USE test").await;
    with_u(&mut three).await;
    one.ok("BEGIN; UPDATE t SET b = 1 WHERE id = 1").await;
    let altering = two.waits("ALTER TABLE t DROP COLUMN a").await;
    three.ok("BEGIN; UPDATE u SET b = 3 WHERE id = 1").await;
    let waiting = three.waits("UPDATE t SET b = 2 WHERE id = 2").await;
    waiting.cancel.cancel();
    let (three, errno) = waiting.fails().await;
    assert_eq!(errno, 1317);
    assert!(three.0.in_transaction());
    let waiting = three.waits("UPDATE t SET b = 2 WHERE id = 2").await;
    one.ok("COMMIT").await;
    altering.succeeds().await;
    let mut three = waiting.succeeds().await;
    three.ok("COMMIT").await;
    assert_eq!(three.rows("SELECT * FROM t").await, "1|1 2|2 3|0 4|0");
    assert_eq!(three.rows("SELECT SUM(b) FROM u").await, "3");
}

/// A transaction waits for a row of another, which waits for a change of a definition, which waits for
/// the first one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_circle_through_a_row_and_a_definition_ends() {
    let (fixture, mut one, two) = pair("REPEATABLE READ").await;
    with_u(&mut one).await;
    let mut three = Client(fixture.session());
    three.ok("USE test").await;
    one.ok("BEGIN; UPDATE t SET b = 1 WHERE id = 1").await;
    three.ok("BEGIN; UPDATE u SET b = 3 WHERE id = 1").await;
    let altering = two.waits("ALTER TABLE t ADD COLUMN c INT").await;
    let waiting = three.waits("UPDATE t SET b = 3 WHERE id = 3").await;
    let error = one.run("UPDATE u SET b = 1 WHERE id = 1").await;
    let error = error.expect_err("it would close a circle");
    assert_eq!((error.errno, error.sqlstate.as_str()), (1213, "40001"));
    assert!(!one.0.in_transaction());
    altering.succeeds().await;
    let mut three = waiting.succeeds().await;
    three.ok("COMMIT").await;
    assert_eq!(
        one.rows("SELECT id, b, c FROM t").await,
        "1|0|NULL 2|0|NULL 3|3|NULL 4|0|NULL"
    );
    assert_eq!(one.rows("SELECT b FROM u").await, "3 0");
}

/// A statement that has locked one table waits for a transaction that wants this table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_circle_through_two_definitions_ends() {
    let (_fixture, mut one, two) = pair("REPEATABLE READ").await;
    with_u(&mut one).await;
    one.ok("BEGIN; UPDATE u SET b = 1 WHERE id = 1").await;
    let dropping = two.waits("DROP TABLE u, t").await;
    assert_eq!(one.errno("UPDATE t SET b = 1 WHERE id = 1").await, 1213);
    let mut two = dropping.succeeds().await;
    assert_eq!(two.errno("SELECT * FROM t").await, 1146);
    one.ok("CREATE TABLE t (id INT PRIMARY KEY)").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_does_not_show_what_was_built_after_it() {
    for rebuild in ["ALTER TABLE t ADD COLUMN c INT FIRST", "TRUNCATE TABLE t"] {
        let (_fixture, mut one, mut two) = pair("REPEATABLE READ").await;
        with_u(&mut two).await;
        one.ok("BEGIN; SELECT * FROM u; UPDATE u SET b = 1 WHERE id = 2")
            .await;
        two.ok(rebuild).await;
        let error = one.run("SELECT * FROM t").await.expect_err(rebuild);
        assert_eq!(
            (error.errno, error.sqlstate.as_str()),
            (1412, "HY000"),
            "{rebuild}"
        );
        // The transaction goes on; what it inserts needs no snapshot.
        assert!(one.0.in_transaction());
        assert_eq!(one.rows("SELECT b FROM u").await, "0 1");
        one.ok("INSERT INTO t (id) VALUES (9); COMMIT").await;
        assert_eq!(one.rows("SELECT COUNT(*) FROM t WHERE id = 9").await, "1");
        // Without an older snapshot there is nothing that could not be shown.
        one.ok("BEGIN; UPDATE u SET b = 2 WHERE id = 2").await;
        two.ok("ALTER TABLE t ADD COLUMN d INT").await;
        assert_eq!(one.rows("SELECT COUNT(d) FROM t").await, "0");
        one.ok("ROLLBACK").await;
    }
}

/// Statements begin anew if the definition changes under them, whatever way they are run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_definitions_disturb_nobody_who_began_later() {
    let (fixture, mut one, _two) = pair("REPEATABLE READ").await;
    let mut tasks = Vec::new();
    for statement in [
        "SELECT COUNT(*) FROM t",
        "SELECT id FROM t WHERE id = 2",
        "SELECT id FROM t WHERE a = 20 FOR UPDATE",
        "UPDATE t SET b = b + 1 WHERE id = 2",
        "UPDATE t SET b = b + 1 ORDER BY id",
        "BEGIN; SELECT MAX(a) FROM t; COMMIT",
        "BEGIN; UPDATE t SET b = b + 1 WHERE a = 10; COMMIT",
        "REPLACE INTO t (id, a, b) SELECT id, a, b FROM t WHERE id > 3",
    ] {
        let mut client = Client(fixture.session());
        client
            .ok("USE test; PREPARE p FROM 'SELECT SUM(a) FROM t'")
            .await;
        tasks.push(tokio::spawn(async move {
            let mut ran = 0;
            let begun = std::time::Instant::now();
            while begun.elapsed() < Duration::from_secs(5) {
                for sql in [statement, "EXECUTE p"] {
                    match client.run(sql).await {
                        Ok(_) => ran += 1,
                        // Of two changes the second has to be repeated, or is in a circle.
                        Err(error) => {
                            assert!([1020, 1213].contains(&error.errno), "{sql}: {error}");
                        }
                    }
                }
            }
            ran
        }));
    }
    let mut changes = 0;
    while !tasks.iter().any(JoinHandle::is_finished) {
        let change = match changes % 3 {
            0 => "ALTER TABLE t ADD COLUMN c INT FIRST",
            1 => "ALTER TABLE t DROP COLUMN c",
            _ => "ALTER TABLE t FORCE",
        };
        match one.run(change).await {
            Ok(_) => changes += 1,
            Err(error) => assert_eq!(error.errno, 1213, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for task in tasks {
        assert!(task.await.unwrap() > 0);
    }
    assert!(changes > 0);
    assert_eq!(one.rows("SELECT COUNT(*), SUM(a) FROM t").await, "4|100");
}
