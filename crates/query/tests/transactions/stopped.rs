//! Statements that are killed while they wait for a lock: whatever way they are run, they are undone
//! alone and their transaction goes on.

use perigee_query::{Parameter, Parameters};

use super::*;

/// How a statement is run.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// As a text.
    Text,
    /// By PREPARE and EXECUTE.
    Execute,
    /// By the protocol's prepared statements.
    Protocol,
}

/// Runs a statement, in whose text the number 77 stands for a parameter.
async fn run_by(client: &mut Client, way: Way, sql: &str, cancel: &CancelToken) -> Outcome {
    let session = &mut client.0;
    let template = sql.replace("77", "?");
    match way {
        Way::Text => run(session, sql, cancel).await,
        Way::Execute => {
            let none = CancelToken::new();
            let prepare = format!("PREPARE p FROM '{template}'; SET @v = 77");
            run(session, &prepare, &none).await?;
            let using = if template == sql { "" } else { " USING @v" };
            run(session, &format!("EXECUTE p{using}"), cancel).await
        }
        Way::Protocol => {
            let prepared = session.prepare(&template, &CancelToken::new()).await?;
            let mut parameters = Parameters::default();
            if template != sql {
                parameters.push(Parameter::int(77));
            }
            let mut out = Collector::default();
            let ran = session.execute_prepared(prepared.id, &parameters, &mut out, cancel);
            ran.await?;
            Ok(out.results)
        }
    }
}

async fn fast_statements(client: &mut Client) -> u64 {
    let shown = client.rows("SHOW STATUS LIKE 'perigee_fast_statements'");
    let shown = shown.await;
    shown.split_once('|').unwrap().1.parse().unwrap()
}

/// Statements that wait for a transaction that has changed row 3 and inserted row 9; whether the fast
/// path runs them; and the rows that they leave after it was rolled back.
const STATEMENTS: [(&str, bool, &str); 6] = [
    ("UPDATE t SET b = 77 WHERE id = 3", true, "1|5 2|0 3|77 4|0"),
    ("DELETE FROM t WHERE id = 3", true, "1|5 2|0 4|0"),
    (
        "UPDATE t SET b = 77 WHERE id > 1 ORDER BY id",
        false,
        "1|5 2|77 3|77 4|77",
    ),
    (
        "INSERT INTO t VALUES (8, 0, 77), (9, 0, 0)",
        true,
        "1|5 2|0 3|0 4|0 8|77 9|0",
    ),
    (
        "INSERT INTO t SELECT id + 5, 0, 77 FROM t WHERE id >= 3 ORDER BY id",
        false,
        "1|5 2|0 3|0 4|0 8|77 9|77",
    ),
    (
        "SELECT b FROM t WHERE id BETWEEN 2 AND 77 FOR UPDATE",
        false,
        "1|5 2|0 3|0 4|0",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_is_killed_while_it_waits_is_undone_alone() {
    for (sql, fast, after) in STATEMENTS {
        for way in [Way::Text, Way::Execute, Way::Protocol] {
            killed(sql, way, fast, after).await;
        }
    }
}

async fn killed(sql: &'static str, way: Way, fast: bool, after: &str) {
    let what = format!("{way:?}: {sql}");
    let (fixture, mut one, mut two) = pair("REPEATABLE READ").await;
    one.ok("BEGIN; UPDATE t SET b = 1 WHERE id = 3; INSERT INTO t VALUES (9, 1, 1)")
        .await;
    two.ok("BEGIN; UPDATE t SET b = 5 WHERE id = 1").await;
    let cancel = CancelToken::new();
    let token = cancel.clone();
    let task = tokio::spawn(async move {
        let outcome = run_by(&mut two, way, sql, &token).await;
        (two, outcome)
    });
    tokio::time::sleep(A_WHILE).await;
    assert!(!task.is_finished(), "it does not wait: {what}");
    cancel.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(1), task).await;
    let (mut two, outcome) = ended.expect("it is told within a second").unwrap();
    let error = outcome.expect_err(&what);
    assert_eq!(
        (error.errno, error.sqlstate.as_str()),
        (1317, "70100"),
        "{what}"
    );
    // What the transaction did before is there, and what the statement did is not.
    assert!(two.0.in_transaction(), "{what}");
    let rows = two.rows("SELECT id, b FROM t").await;
    assert_eq!(rows, "1|5 2|0 3|0 4|0", "{what}");
    let mut three = Client(fixture.session());
    three.ok("USE test").await;
    assert_eq!(
        three
            .errno("SELECT b FROM t WHERE id = 1 FOR UPDATE NOWAIT")
            .await,
        3572,
        "{what}: the transaction keeps its locks"
    );
    // It goes on, with the same statement.
    one.ok("ROLLBACK").await;
    let before = fast_statements(&mut two).await;
    let again = run_by(&mut two, way, sql, &CancelToken::new()).await;
    again.unwrap_or_else(|error| panic!("{what}: {error}"));
    if !matches!(way, Way::Execute) {
        let ran = fast_statements(&mut two).await - before;
        assert_eq!(ran > 0, fast, "{what}: {ran} by the fast path");
    }
    two.ok("COMMIT").await;
    assert_eq!(three.rows("SELECT id, b FROM t").await, after, "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_outside_of_transactions_that_is_killed_leaves_nothing() {
    let (_fixture, mut one, two) = pair("REPEATABLE READ").await;
    one.ok("BEGIN; UPDATE t SET b = 1 WHERE id = 3").await;
    let waiting = two.waits("UPDATE t SET b = 77 ORDER BY id").await;
    waiting.cancel.cancel();
    let (mut two, errno) = waiting.fails().await;
    assert_eq!(errno, 1317);
    assert!(!two.0.in_transaction());
    // Its locks are gone.
    one.ok("UPDATE t SET b = b + 1; COMMIT").await;
    assert_eq!(two.rows("SELECT b FROM t").await, "1 1 2 1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_procedure_that_is_killed_leaves_the_session_as_it_was() {
    let (_fixture, mut one, _two) = pair("REPEATABLE READ").await;
    one.ok("CREATE DATABASE other; USE other").await;
    one.ok("CREATE PROCEDURE endless() BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; l: LOOP ITERATE l; END LOOP; END")
        .await;
    one.ok("CREATE PROCEDURE waits() BEGIN SELECT SLEEP(100); END")
        .await;
    one.ok("USE test; SET sql_mode = 'ANSI_QUOTES'").await;
    for sql in ["CALL other.endless()", "CALL other.waits()"] {
        let cancel = CancelToken::new();
        let token = cancel.clone();
        let task = tokio::spawn(async move {
            let outcome = run(&mut one.0, sql, &token).await;
            (one, outcome)
        });
        tokio::time::sleep(A_WHILE).await;
        assert!(!task.is_finished(), "{sql}");
        cancel.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(1), task).await;
        let (back, outcome) = ended.expect("it is told within a second").unwrap();
        one = back;
        assert_eq!(outcome.expect_err(sql).errno, 1317, "{sql}");
        let state = "SELECT DATABASE(), @@sql_mode, CURRENT_USER()";
        assert_eq!(one.rows(state).await, "test|ANSI_QUOTES|root@localhost");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_is_killed_in_its_trigger_is_undone() {
    let (_fixture, mut one, mut two) = pair("REPEATABLE READ").await;
    one.ok("CREATE TABLE fires (id INT PRIMARY KEY); CREATE TABLE log (id INT)")
        .await;
    one.ok(
        "CREATE TRIGGER endless AFTER INSERT ON fires FOR EACH ROW BEGIN \
         DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; INSERT INTO log VALUES (NEW.id); \
         l: LOOP ITERATE l; END LOOP; END",
    )
    .await;
    for begin in ["DO 0", "BEGIN"] {
        one.ok(begin).await;
        let cancel = CancelToken::new();
        let token = cancel.clone();
        let task = tokio::spawn(async move {
            let outcome = run(&mut one.0, "INSERT INTO fires VALUES (1)", &token).await;
            (one, outcome)
        });
        tokio::time::sleep(A_WHILE).await;
        assert!(!task.is_finished());
        cancel.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(1), task).await;
        let (back, outcome) = ended.expect("it is told within a second").unwrap();
        one = back;
        assert_eq!(outcome.expect_err("it was stopped").errno, 1317);
        assert_eq!(one.0.in_transaction(), begin == "BEGIN");
        let both = "SELECT (SELECT COUNT(*) FROM fires), (SELECT COUNT(*) FROM log)";
        assert_eq!(one.rows(both).await, "0|0");
        one.ok("ROLLBACK").await;
    }
    two.ok("INSERT INTO log VALUES (2); DROP TRIGGER endless; INSERT INTO fires VALUES (1)")
        .await;
}

/// A deadlock in a trigger undoes the whole transaction; no handler of the trigger goes on in another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_in_a_trigger_ends_the_transaction() {
    let (_fixture, mut one, mut two) = pair("REPEATABLE READ").await;
    one.ok("CREATE TABLE fires (id INT PRIMARY KEY); CREATE TABLE log (id INT)")
        .await;
    one.ok(
        "CREATE TRIGGER writes AFTER INSERT ON fires FOR EACH ROW BEGIN \
         DECLARE CONTINUE HANDLER FOR SQLEXCEPTION INSERT INTO log VALUES (NEW.id); \
         UPDATE t SET b = b + 1 WHERE id = 2; END",
    )
    .await;
    one.ok("BEGIN; UPDATE t SET b = 10 WHERE id = 1").await;
    two.ok("BEGIN; UPDATE t SET b = 20 WHERE id = 2").await;
    let waiting = two.waits("UPDATE t SET b = 20 WHERE id = 1").await;
    let outcome = run(
        &mut one.0,
        "INSERT INTO fires VALUES (7)",
        &CancelToken::new(),
    )
    .await;
    // One of them is the victim.
    match outcome {
        Err(error) => {
            assert_eq!(error.errno, 1213);
            assert!(!one.0.in_transaction());
            let mut two = waiting.succeeds().await;
            two.ok("COMMIT").await;
        }
        Ok(_) => {
            let (_two, errno) = waiting.fails().await;
            assert_eq!(errno, 1213);
            one.ok("ROLLBACK").await;
        }
    }
    let both = "SELECT (SELECT COUNT(*) FROM fires), (SELECT COUNT(*) FROM log)";
    assert_eq!(one.rows(both).await, "0|0");
}
