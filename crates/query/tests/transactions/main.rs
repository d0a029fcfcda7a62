//! Transactions of several sessions beside each other: who waits for whom, what each isolation level
//! shows and forbids, and how statements and transactions end that cannot go on.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

mod ambiguous;
#[path = "../common/mod.rs"]
mod common;
mod definitions;
mod errors;
mod large;
mod restarts;
mod stopped;
mod table_locks;
mod taken_over;
mod temporary;

use std::time::Duration;

use common::{Fixture, Setup, rows_of};
use perigee_engine::EngineConfig;
use perigee_engine::scan::CancelToken;
use perigee_query::{Collected, Collector, NoFile, Session, SqlError};
use tokio::task::JoinHandle;

/// Long enough to see that a statement waits.
const A_WHILE: Duration = Duration::from_millis(300);

/// Longer than any statement takes that does not wait.
const LONG: Duration = Duration::from_secs(20);

type Outcome = Result<Vec<Collected>, SqlError>;

async fn run(session: &mut Session, sql: &str, cancel: &CancelToken) -> Outcome {
    let mut out = Collector::default();
    session
        .execute(sql, true, &mut out, &mut NoFile, cancel)
        .await?;
    Ok(out.results)
}

/// A connection.
struct Client(Session);

impl Client {
    async fn run(&mut self, sql: &str) -> Outcome {
        let cancel = CancelToken::new();
        let ran = tokio::time::timeout(LONG, run(&mut self.0, sql, &cancel));
        ran.await.unwrap_or_else(|_| panic!("it waits: {sql}"))
    }

    async fn ok(&mut self, sql: &str) {
        if let Err(error) = self.run(sql).await {
            panic!("{sql}: {error}");
        }
    }

    /// The rows of a query, joined by blanks.
    async fn rows(&mut self, sql: &str) -> String {
        let results = self.run(sql).await;
        let results = results.unwrap_or_else(|error| panic!("{sql}: {error}"));
        rows_of(results.last().unwrap()).join(" ")
    }

    async fn errno(&mut self, sql: &str) -> u16 {
        self.run(sql).await.expect_err(sql).errno
    }

    /// Begins a statement that is expected to wait.
    async fn waits(self, sql: &'static str) -> Waiting {
        let cancel = CancelToken::new();
        let token = cancel.clone();
        let task = tokio::spawn(async move {
            let Self(mut session) = self;
            let outcome = run(&mut session, sql, &token).await;
            (Self(session), outcome)
        });
        tokio::time::sleep(A_WHILE).await;
        assert!(!task.is_finished(), "it does not wait: {sql}");
        Waiting { task, cancel }
    }
}

struct Waiting {
    task: JoinHandle<(Client, Outcome)>,
    cancel: CancelToken,
}

impl Waiting {
    async fn ends(self) -> (Client, Outcome) {
        let ended = tokio::time::timeout(LONG, self.task).await;
        ended.expect("it still waits").unwrap()
    }

    async fn succeeds(self) -> Client {
        let (client, outcome) = self.ends().await;
        outcome.unwrap();
        client
    }

    async fn fails(self) -> (Client, u16) {
        let (client, outcome) = self.ends().await;
        (client, outcome.expect_err("it fails").errno)
    }
}

/// Two connections to a database with `t (id, a, b)` of the rows 1 to 4, a = 10 * id, b = 0.
async fn pair(level: &str) -> (Fixture, Client, Client) {
    let fixture = Fixture::new(Setup::default()).await;
    let mut one = fixture.session();
    fixture.run(&mut one, "CREATE DATABASE test").await.unwrap();
    let mut clients = [Client(one), Client(fixture.session())];
    for client in &mut clients {
        client
            .ok(&format!(
                "USE test; SET ndp_min_pages = 0; SET SESSION TRANSACTION ISOLATION LEVEL {level}"
            ))
            .await;
    }
    let [mut one, two] = clients;
    one.ok("CREATE TABLE t (id INT NOT NULL PRIMARY KEY, a INT, b INT, KEY ka (a))")
        .await;
    one.ok("INSERT INTO t VALUES (1, 10, 0), (2, 20, 0), (3, 30, 0), (4, 40, 0)")
        .await;
    (fixture, one, two)
}

const LEVELS: [&str; 4] = [
    "READ UNCOMMITTED",
    "READ COMMITTED",
    "REPEATABLE READ",
    "SERIALIZABLE",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_reads_what_is_not_committed() {
    for level in LEVELS {
        let (_fixture, mut one, mut two) = pair(level).await;
        one.ok("BEGIN; UPDATE t SET b = 1; INSERT INTO t VALUES (5, 50, 1); DELETE FROM t WHERE id = 1")
            .await;
        // Outside of transactions a read waits for nobody.
        assert_eq!(two.rows("SELECT COUNT(*), SUM(b) FROM t").await, "4|0");
        assert_eq!(two.rows("SELECT id FROM t WHERE a = 10").await, "1");
        assert_eq!(one.rows("SELECT COUNT(*), SUM(b) FROM t").await, "4|4");
        one.ok("ROLLBACK").await;
        assert_eq!(one.rows("SELECT COUNT(*), SUM(b) FROM t").await, "4|0");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_are_repeatable_from_repeatable_read_on() {
    let (_fixture, mut one, mut two) = pair("READ COMMITTED").await;
    one.ok("BEGIN").await;
    assert_eq!(one.rows("SELECT b FROM t WHERE id = 1").await, "0");
    two.ok("UPDATE t SET b = 1 WHERE id = 1; INSERT INTO t VALUES (5, 50, 0)")
        .await;
    assert_eq!(one.rows("SELECT b FROM t WHERE id = 1").await, "1");
    assert_eq!(one.rows("SELECT COUNT(*) FROM t").await, "5", "a phantom");

    let (_fixture, mut one, mut two) = pair("REPEATABLE READ").await;
    one.ok("BEGIN").await;
    assert_eq!(one.rows("SELECT b FROM t WHERE id = 1").await, "0");
    two.ok("UPDATE t SET b = 1 WHERE id = 1; INSERT INTO t VALUES (5, 50, 0)")
        .await;
    assert_eq!(one.rows("SELECT b FROM t WHERE id = 1").await, "0");
    assert_eq!(one.rows("SELECT COUNT(*) FROM t WHERE a > 0").await, "4");
    one.ok("COMMIT").await;
    assert_eq!(one.rows("SELECT COUNT(*), SUM(b) FROM t").await, "5|1");

    let (_fixture, mut one, two) = pair("SERIALIZABLE").await;
    one.ok("BEGIN").await;
    assert_eq!(one.rows("SELECT b FROM t WHERE id = 1").await, "0");
    assert_eq!(one.rows("SELECT COUNT(*) FROM t WHERE a > 30").await, "1");
    let waiting = two.waits("UPDATE t SET b = 1 WHERE id = 1").await;
    assert_eq!(one.rows("SELECT b FROM t WHERE id = 1").await, "0");
    one.ok("COMMIT").await;
    let two = waiting.succeeds().await;
    one.ok("BEGIN").await;
    assert_eq!(one.rows("SELECT COUNT(*) FROM t WHERE a > 30").await, "1");
    let waiting = two.waits("INSERT INTO t VALUES (5, 50, 0)").await;
    assert_eq!(one.rows("SELECT COUNT(*) FROM t WHERE a > 30").await, "1");
    one.ok("COMMIT").await;
    waiting.succeeds().await;
    assert_eq!(one.rows("SELECT COUNT(*) FROM t WHERE a > 30").await, "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consistent_snapshot_is_made_at_once() {
    let (_fixture, mut one, mut two) = pair("REPEATABLE READ").await;
    one.ok("START TRANSACTION WITH CONSISTENT SNAPSHOT").await;
    two.ok("UPDATE t SET b = 1").await;
    assert_eq!(one.rows("SELECT SUM(b) FROM t").await, "0");
    one.ok("COMMIT; BEGIN").await;
    two.ok("UPDATE t SET b = 2").await;
    assert_eq!(one.rows("SELECT SUM(b) FROM t").await, "8");
    one.ok("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; COMMIT")
        .await;
    one.ok("START TRANSACTION WITH CONSISTENT SNAPSHOT").await;
    assert!(one.rows("SHOW WARNINGS").await.starts_with("Warning|138|"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_update_is_lost() {
    // Each adds to what it finds when it is its turn.
    for level in ["READ COMMITTED", "REPEATABLE READ"] {
        let (_fixture, mut one, two) = pair(level).await;
        one.ok("BEGIN; UPDATE t SET b = b + 1 WHERE id = 1").await;
        let waiting = two.waits("UPDATE t SET b = b + 1 WHERE id = 1").await;
        one.ok("COMMIT").await;
        let two = waiting.succeeds().await;
        one.ok("BEGIN; UPDATE t SET b = b + 1").await;
        let waiting = two.waits("UPDATE t SET b = b + 1").await;
        one.ok("COMMIT").await;
        waiting.succeeds().await;
        assert_eq!(one.rows("SELECT SUM(b) FROM t").await, "10");
    }
    // With snapshot isolation, what was read before is not written over.
    let (_fixture, mut one, mut two) = pair("REPEATABLE READ").await;
    one.ok("SET innodb_snapshot_isolation = ON; BEGIN").await;
    assert_eq!(one.rows("SELECT b FROM t WHERE id = 1").await, "0");
    one.ok("UPDATE t SET b = 7 WHERE id = 2").await;
    two.ok("UPDATE t SET b = b + 1 WHERE id = 1").await;
    assert_eq!(one.errno("UPDATE t SET b = 0 + 1 WHERE id = 1").await, 1020);
    assert!(!one.0.in_transaction(), "all of it is rolled back");
    assert_eq!(one.rows("SELECT b FROM t WHERE id < 3").await, "1 0");
    for change in [
        "UPDATE t SET b = b + 1 WHERE a >= 10",
        "DELETE FROM t WHERE b < 100",
        "DELETE FROM t WHERE id = 1",
        "SELECT * FROM t WHERE id = 1 FOR UPDATE",
        "INSERT INTO t VALUES (1, 1, 1) ON DUPLICATE KEY UPDATE b = b + 1",
        "REPLACE INTO t VALUES (1, 1, 1)",
    ] {
        one.ok("BEGIN; SELECT * FROM t").await;
        two.ok("UPDATE t SET b = b + 1 WHERE id = 1").await;
        assert_eq!(one.errno(change).await, 1020, "{change}");
        assert!(!one.0.in_transaction());
    }
    assert_eq!(one.rows("SELECT COUNT(*), SUM(b) FROM t").await, "4|7");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_see_more_than_the_snapshot_without_snapshot_isolation() {
    let (_fixture, mut one, mut two) = pair("REPEATABLE READ").await;
    for (change, sum) in [
        ("UPDATE t SET b = b + 1 WHERE id = 1", "2"),
        ("UPDATE t SET b = b + 1 WHERE a = 10", "2"),
        ("UPDATE t SET b = b + 1 WHERE b = 1", "2"),
        (
            "UPDATE t, (SELECT MAX(b) AS m FROM t) d SET b = m + 1 WHERE id = 1",
            "2",
        ),
        (
            "INSERT INTO t VALUES (1, 1, 1) ON DUPLICATE KEY UPDATE b = b + 1",
            "2",
        ),
        ("REPLACE INTO t VALUES (1, 10, 5)", "5"),
        ("REPLACE INTO t SELECT id, a, b + 1 FROM t WHERE b = 1", "2"),
        ("DELETE FROM t WHERE b = 1", ""),
    ] {
        one.ok("BEGIN").await;
        assert_eq!(one.rows("SELECT SUM(b) FROM t").await, "0", "{change}");
        two.ok("UPDATE t SET b = 1 WHERE id = 1").await;
        assert_eq!(one.rows("SELECT SUM(b) FROM t").await, "0", "{change}");
        let locked = "SELECT b FROM t WHERE id < 3 ORDER BY id FOR UPDATE";
        assert_eq!(one.rows(locked).await, "1 0", "{change}");
        one.ok(change).await;
        let left = one.rows("SELECT b FROM t WHERE id = 1").await;
        assert_eq!(left, sum, "{change}: its own change is seen");
        one.ok("COMMIT").await;
        one.ok("REPLACE INTO t VALUES (1, 10, 0)").await;
    }
    // A statement that waited goes on with what it then finds.
    one.ok("BEGIN; SELECT * FROM t").await;
    two.ok("BEGIN; UPDATE t SET b = 3 WHERE id = 2").await;
    let waiting = one.waits("UPDATE t SET b = b + 1 WHERE b < 10").await;
    two.ok("COMMIT").await;
    let mut one = waiting.succeeds().await;
    one.ok("COMMIT").await;
    assert_eq!(one.rows("SELECT b FROM t ORDER BY id").await, "1 4 1 1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_skew_is_for_serializable_to_forbid() {
    let read = "SELECT SUM(b) FROM t WHERE id IN (1, 2)";
    for level in ["READ COMMITTED", "REPEATABLE READ"] {
        let (_fixture, mut one, mut two) = pair(level).await;
        one.ok("BEGIN").await;
        two.ok("BEGIN").await;
        assert_eq!(one.rows(read).await, "0");
        assert_eq!(two.rows(read).await, "0");
        one.ok("UPDATE t SET b = 1 WHERE id = 1").await;
        two.ok("UPDATE t SET b = 1 WHERE id = 2").await;
        one.ok("COMMIT").await;
        two.ok("COMMIT").await;
        assert_eq!(one.rows(read).await, "2");
    }
    let (_fixture, mut one, mut two) = pair("SERIALIZABLE").await;
    one.ok("BEGIN").await;
    two.ok("BEGIN").await;
    assert_eq!(one.rows(read).await, "0");
    assert_eq!(two.rows(read).await, "0");
    let waiting = one.waits("UPDATE t SET b = 1 WHERE id = 1").await;
    assert_eq!(two.errno("UPDATE t SET b = 1 WHERE id = 2").await, 1213);
    assert!(!two.0.in_transaction());
    let mut one = waiting.succeeds().await;
    one.ok("COMMIT").await;
    assert_eq!(two.rows(read).await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_skew_through_changing_statements_is_forbidden_too() {
    let (_fixture, mut one, mut two) = pair("SERIALIZABLE").await;
    one.ok("CREATE TABLE u (k INT NOT NULL PRIMARY KEY, n INT); INSERT INTO u VALUES (1, 0)")
        .await;
    one.ok("BEGIN; UPDATE u SET n = (SELECT SUM(b) FROM t) WHERE k = 1")
        .await;
    two.ok("BEGIN").await;
    let waiting = two.waits("UPDATE t SET b = 1 WHERE id = 4").await;
    one.ok("COMMIT").await;
    waiting.succeeds().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_begin_anew_if_their_rows_changed() {
    for level in ["READ COMMITTED", "REPEATABLE READ"] {
        let (_fixture, mut one, two) = pair(level).await;
        // The row that was found does not fit any more; another one does.
        one.ok("BEGIN; UPDATE t SET a = 11 WHERE id = 1; UPDATE t SET a = 10 WHERE id = 2")
            .await;
        let waiting = two.waits("UPDATE t SET b = 5 WHERE a = 10").await;
        one.ok("COMMIT").await;
        let two = waiting.succeeds().await;
        assert_eq!(one.rows("SELECT id FROM t WHERE b = 5").await, "2");

        one.ok("BEGIN; DELETE FROM t WHERE id = 3").await;
        let waiting = two.waits("DELETE FROM t WHERE b = 0").await;
        one.ok("COMMIT").await;
        let two = waiting.succeeds().await;
        assert_eq!(one.rows("SELECT id FROM t").await, "2");

        one.ok("BEGIN; UPDATE t SET b = 6").await;
        let waiting = two.waits("SELECT b FROM t ORDER BY b FOR UPDATE").await;
        one.ok("COMMIT").await;
        let (_, outcome) = waiting.ends().await;
        assert_eq!(rows_of(&outcome.unwrap()[0]), ["6"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_waited_too_long_is_undone_alone() {
    let (_fixture, mut one, mut two) = pair("REPEATABLE READ").await;
    one.ok("BEGIN; UPDATE t SET b = 1 WHERE id = 3").await;
    two.ok("SET innodb_lock_wait_timeout = 1; BEGIN; UPDATE t SET b = 9 WHERE id = 1")
        .await;
    assert_eq!(
        two.errno("UPDATE t SET b = 2 WHERE id > 1 ORDER BY id")
            .await,
        1205
    );
    assert!(two.0.in_transaction());
    assert_eq!(two.rows("SELECT b FROM t").await, "9 0 0 0");
    two.ok("COMMIT").await;
    one.ok("ROLLBACK").await;
    assert_eq!(one.rows("SELECT b FROM t").await, "9 0 0 0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_ends_one_transaction() {
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let (_fixture, mut one, mut two) = pair(level).await;
        one.ok("BEGIN; UPDATE t SET b = 1 WHERE id = 1").await;
        two.ok("BEGIN; UPDATE t SET b = 2 WHERE id = 2").await;
        let waiting = one.waits("UPDATE t SET b = 1 WHERE id = 2").await;
        let error = two
            .run("UPDATE t SET b = 2 WHERE id = 1")
            .await
            .unwrap_err();
        assert_eq!((error.errno, error.sqlstate.as_str()), (1213, "40001"));
        assert!(!two.0.in_transaction());
        let mut one = waiting.succeeds().await;
        one.ok("COMMIT").await;
        assert_eq!(two.rows("SELECT b FROM t").await, "1 1 0 0");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_rows_can_be_refused_or_skipped() {
    for level in ["READ COMMITTED", "REPEATABLE READ"] {
        let (_fixture, mut one, mut two) = pair(level).await;
        one.ok("BEGIN; SELECT * FROM t WHERE id = 2 FOR UPDATE")
            .await;
        two.ok("BEGIN").await;
        let error = two.run("SELECT * FROM t FOR UPDATE NOWAIT").await;
        assert_eq!(error.unwrap_err().errno, 3572);
        assert_eq!(
            two.errno("SELECT * FROM t WHERE id = 2 FOR SHARE NOWAIT")
                .await,
            3572
        );
        assert!(two.0.in_transaction());
        let skip = "SELECT id FROM t ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED";
        assert_eq!(two.rows(skip).await, "1 3");
        assert_eq!(one.rows(skip).await, "2 4");
        two.ok("UPDATE t SET b = 1 WHERE id IN (1, 3); COMMIT")
            .await;
        one.ok("DELETE FROM t WHERE id IN (2, 4); COMMIT").await;
        // Shared locks go together.
        one.ok("BEGIN; SELECT * FROM t WHERE id = 1 FOR SHARE")
            .await;
        two.ok("BEGIN; SELECT * FROM t WHERE id = 1 FOR SHARE NOWAIT")
            .await;
        assert_eq!(
            two.errno("SELECT * FROM t WHERE id = 1 FOR UPDATE NOWAIT")
                .await,
            3572
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_of_locking_reads_have_no_phantoms() {
    let (_fixture, mut one, two) = pair("REPEATABLE READ").await;
    one.ok("BEGIN; SELECT * FROM t WHERE a BETWEEN 20 AND 35 FOR UPDATE")
        .await;
    let waiting = two.waits("INSERT INTO t VALUES (5, 25, 0)").await;
    one.ok("COMMIT").await;
    let two = waiting.succeeds().await;
    // Rows cannot be told: the range is locked, at any level.
    one.ok("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        .await;
    one.ok("BEGIN; SELECT COUNT(*) FROM t WHERE a > 35 FOR SHARE")
        .await;
    let waiting = two.waits("INSERT INTO t VALUES (6, 45, 0)").await;
    one.ok("COMMIT").await;
    let mut two = waiting.succeeds().await;
    // READ COMMITTED locks rows only.
    one.ok("BEGIN; SELECT * FROM t WHERE a > 35 FOR UPDATE")
        .await;
    two.ok("INSERT INTO t VALUES (7, 46, 0)").await;
    assert_eq!(
        two.errno("SELECT * FROM t WHERE id = 6 FOR UPDATE NOWAIT")
            .await,
        3572
    );
    assert_eq!(one.rows("SELECT COUNT(*) FROM t WHERE a > 35").await, "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_goes_rolls_back() {
    let (_fixture, mut one, mut two) = pair("REPEATABLE READ").await;
    one.ok("BEGIN; UPDATE t SET b = 1; INSERT INTO t VALUES (9, 9, 9)")
        .await;
    drop(one);
    two.ok("UPDATE t SET b = b + 2").await;
    assert_eq!(two.rows("SELECT COUNT(*), SUM(b) FROM t").await, "4|8");
    two.ok("BEGIN; DELETE FROM t").await;
    two.0.reset().await.unwrap();
    assert!(!two.0.in_transaction());
    assert_eq!(two.rows("SELECT COUNT(*) FROM test.t").await, "4");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_is_killed_is_undone_alone() {
    let (_fixture, mut one, mut two) = pair("REPEATABLE READ").await;
    one.ok("BEGIN; UPDATE t SET b = 1 WHERE id = 4").await;
    two.ok("BEGIN; UPDATE t SET b = 3 WHERE id = 1").await;
    let waiting = two
        .waits("UPDATE t SET b = 2 WHERE id > 1 ORDER BY id")
        .await;
    waiting.cancel.cancel();
    let (mut two, errno) = waiting.fails().await;
    assert_eq!(errno, 1317);
    assert!(two.0.in_transaction());
    assert_eq!(two.rows("SELECT b FROM t").await, "3 0 0 0");
    two.ok("COMMIT").await;
    one.ok("COMMIT").await;
    assert_eq!(one.rows("SELECT b FROM t").await, "3 0 0 1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_duplicate_that_is_not_committed_is_waited_for() {
    let (_fixture, mut one, two) = pair("REPEATABLE READ").await;
    one.ok("BEGIN; INSERT INTO t VALUES (5, 50, 0)").await;
    let waiting = two.waits("INSERT INTO t VALUES (5, 51, 0)").await;
    one.ok("ROLLBACK").await;
    let two = waiting.succeeds().await;
    one.ok("BEGIN; INSERT INTO t VALUES (6, 60, 0)").await;
    let waiting = two.waits("INSERT INTO t VALUES (6, 61, 0)").await;
    one.ok("COMMIT").await;
    let (two, errno) = waiting.fails().await;
    assert_eq!(errno, 1062);
    one.ok("BEGIN; DELETE FROM t WHERE id = 6").await;
    let insert = "INSERT INTO t VALUES (6, 62, 1) ON DUPLICATE KEY UPDATE b = b + 10";
    let waiting = two.waits(insert).await;
    one.ok("COMMIT").await;
    let mut two = waiting.succeeds().await;
    assert_eq!(two.rows("SELECT a, b FROM t WHERE id = 6").await, "62|1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_sees_its_own_changes_in_any_scan() {
    let ambiguous = Setup {
        engine: EngineConfig {
            all_ambiguous: true,
            past_pool: true,
            ..EngineConfig::default()
        },
        ..Setup::default()
    };
    for setup in [Setup::default(), ambiguous] {
        let fixture = Fixture::new(setup).await;
        let mut one = Client(fixture.session());
        one.ok("CREATE DATABASE test; USE test; SET ndp_min_pages = 0")
            .await;
        one.ok("CREATE TABLE n (id INT NOT NULL PRIMARY KEY, a INT, b INT, KEY ka (a))")
            .await;
        one.ok("INSERT INTO n VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4)")
            .await;
        for _ in 0..8 {
            one.ok("INSERT INTO n SELECT id + (SELECT MAX(id) FROM n), a, b FROM n")
                .await;
        }
        let totals = "SELECT COUNT(*), SUM(b), MIN(a), MAX(b) FROM n";
        assert_eq!(one.rows(totals).await, "1024|2560|1|4");
        let mut two = Client(fixture.session());
        two.ok("USE test; SET ndp_min_pages = 0; BEGIN").await;
        two.ok("UPDATE n SET b = b + 100, a = a - 1 WHERE a = 2; DELETE FROM n WHERE a = 4")
            .await;
        assert_eq!(two.rows(totals).await, "768|27136|1|102");
        assert_eq!(two.rows("SELECT COUNT(*) FROM n WHERE a = 1").await, "512");
        assert_eq!(one.rows(totals).await, "1024|2560|1|4");
        assert_eq!(one.rows("SELECT COUNT(*) FROM n WHERE a = 4").await, "256");
        two.ok("COMMIT").await;
        assert_eq!(one.rows(totals).await, "768|27136|1|102");
    }
}

/// A session with a table `n` of 1024 rows of some hundred bytes.
async fn wide() -> (Fixture, Client) {
    let fixture = Fixture::new(Setup::default()).await;
    let mut one = Client(fixture.session());
    one.ok("CREATE DATABASE test; USE test; SET ndp_min_pages = 0")
        .await;
    one.ok("CREATE TABLE n (id INT NOT NULL PRIMARY KEY, a INT, s VARCHAR(2000))")
        .await;
    one.ok("INSERT INTO n VALUES (1, 1, RPAD('x', 400, 'y')), (2, 2, RPAD('z', 400, 'y'))")
        .await;
    for _ in 0..9 {
        one.ok("INSERT INTO n SELECT id + (SELECT MAX(id) FROM n), a, s FROM n")
            .await;
    }
    (fixture, one)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_to_change_are_kept_in_bounded_memory() {
    let (_fixture, mut one) = wide().await;
    one.ok("SET query_memory_limit = 1048576").await;
    for change in [
        "UPDATE n SET s = CONCAT(s, s, s)",
        "INSERT INTO n SELECT id + 2000, a, CONCAT(s, s, s) FROM n",
        "SELECT CONCAT(s, s, s) FROM n FOR UPDATE",
    ] {
        one.ok("BEGIN; UPDATE n SET a = 7 WHERE id = 1").await;
        assert_eq!(one.errno(change).await, 1038, "{change}");
        assert!(one.0.in_transaction());
        assert_eq!(
            one.rows("SELECT COUNT(*), SUM(a) FROM n").await,
            "1024|1542"
        );
        one.ok("ROLLBACK").await;
    }
    one.ok("UPDATE n SET a = a + 1; DELETE FROM n WHERE id > 1000")
        .await;
    assert_eq!(
        one.rows("SELECT COUNT(*), SUM(a) FROM n").await,
        "1000|2500"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_read_phase_of_a_change_is_pushed_like_any_read() {
    let (_fixture, mut one) = wide().await;
    for (statement, kind) in [
        ("UPDATE n SET s = 'short' WHERE a = 1", "UPDATE"),
        ("DELETE FROM n WHERE a = 1", "DELETE"),
        ("DELETE x FROM n AS x WHERE x.a = 1", "DELETE"),
        (
            "INSERT INTO n SELECT id + 5000, a, s FROM n WHERE a = 1",
            "SIMPLE",
        ),
        (
            "REPLACE INTO n SELECT id, a, 'x' FROM n WHERE a = 1",
            "SIMPLE",
        ),
    ] {
        let explained = one.rows(&format!("EXPLAIN {statement}")).await;
        assert!(explained.contains(&format!("1|{kind}|")), "{explained}");
        assert!(
            explained.contains("Using pushed NDP condition (test.n.a = 1)"),
            "{explained}"
        );
    }
    let explained = one.rows("EXPLAIN REPLACE INTO n SELECT * FROM n").await;
    assert!(explained.starts_with("1|REPLACE|n|"), "{explained}");
    assert_eq!(
        one.rows("SELECT COUNT(*) FROM n").await,
        "1024",
        "nothing is changed"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_transfers_keep_their_sum() {
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let (fixture, mut one, _two) = pair(level).await;
        one.ok("UPDATE t SET b = 100").await;
        let mut tasks = Vec::new();
        for number in 0..4_usize {
            let mut client = Client(fixture.session());
            client
                .ok(&format!(
                    "USE test; SET SESSION TRANSACTION ISOLATION LEVEL {level}"
                ))
                .await;
            tasks.push(tokio::spawn(async move {
                let mut done = 0;
                for i in 0..25_usize {
                    let (from, to) = ((number + i) % 4 + 1, (number * 3 + i * 2 + 1) % 4 + 1);
                    let transfer = format!(
                        "BEGIN; UPDATE t SET b = b - 1 WHERE a = {from}0; \
                         UPDATE t SET b = b + 1 WHERE id = {to}; COMMIT"
                    );
                    match client.run(&transfer).await {
                        Ok(_) => done += 1,
                        Err(error) => {
                            assert!([1213, 1020].contains(&error.errno), "{error}");
                            assert!(!client.0.in_transaction());
                        }
                    }
                    let sum = client.rows("SELECT SUM(b) FROM t").await;
                    assert_eq!(sum, "400", "each read sees whole transactions");
                }
                done
            }));
        }
        let mut done = 0;
        for task in tasks {
            done += task.await.unwrap();
        }
        assert!(done > 0);
        assert_eq!(one.rows("SELECT SUM(b) FROM t").await, "400");
    }
}
