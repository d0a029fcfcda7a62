//! Clients that vanish or are killed in a transaction, between statements and while one waits for a row:
//! what they did is rolled back and their locks are gone, however they ran their statements.

use std::time::{Duration, Instant};

use perigee_workload::Client;

use crate::Served;

/// How soon the locks of a client that has gone are free.
const SOON: Duration = Duration::from_secs(5);

/// Long enough for a statement to come to its wait.
const A_WHILE: Duration = Duration::from_millis(500);

async fn connect(served: &Served) -> Client {
    served.server.client(None).await.unwrap()
}

async fn in_schema(served: &Served) -> Client {
    let mut client = connect(served).await;
    client.execute("USE v").await.unwrap();
    client
}

/// A row of the table, once its lock is to be had; that must be soon.
async fn locked_soon(client: &mut Client, id: u32) -> Option<String> {
    let begun = Instant::now();
    let sql = format!("SELECT b FROM t WHERE id = {id} FOR UPDATE NOWAIT");
    loop {
        match client.query(&sql).await {
            Ok(rows) => return rows[0][0].clone(),
            Err(error) => assert!(error.to_string().contains("3572"), "{error}"),
        }
        assert!(begun.elapsed() < SOON, "row {id} is still locked");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Statements that wait for row 3; the last one is prepared over the protocol.
const WAITS: [&str; 5] = [
    "UPDATE t SET b = 9 WHERE id = 3",
    "UPDATE t SET b = 9 WHERE id > 1 ORDER BY id",
    "SELECT b FROM t WHERE id >= 2 FOR UPDATE",
    "EXECUTE p USING @b",
    "UPDATE t SET b = ? WHERE id = 3",
];

async fn run(client: &mut Client, sql: &str) -> Result<(), String> {
    let outcome = match sql.contains('?') {
        true => client.prepared(sql, &[9]).await.map(drop),
        false => client.query(sql).await.map(drop),
    };
    outcome.map_err(|error| error.to_string())
}

/// How a client ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// Its connection breaks.
    Vanishes,
    /// KILL.
    Killed,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_in_a_transaction_leaves_nothing() {
    let served = Served::start();
    let mut holder = connect(&served).await;
    let mut other = connect(&served).await;
    for sql in [
        "CREATE DATABASE v",
        "USE v",
        "CREATE TABLE t (id INT PRIMARY KEY, b INT)",
        "INSERT INTO t VALUES (1, 0), (2, 0), (3, 0), (4, 0)",
    ] {
        holder.execute(sql).await.unwrap();
    }
    other.execute("USE v").await.unwrap();
    for end in [End::Vanishes, End::Killed] {
        idle(&served, &mut other, end).await;
        for sql in WAITS {
            waiting(&served, (&mut holder, &mut other), sql, end).await;
        }
    }
    let sum = other.number("SELECT SUM(b) FROM t").await.unwrap();
    assert_eq!(sum, 0.0);
}

/// It goes between two statements.
async fn idle(served: &Served, other: &mut Client, end: End) {
    let mut victim = in_schema(served).await;
    let id = victim.number("SELECT CONNECTION_ID()").await.unwrap();
    victim.execute("BEGIN").await.unwrap();
    victim.execute("UPDATE t SET b = 7").await.unwrap();
    victim.execute("INSERT INTO t VALUES (9, 9)").await.unwrap();
    other.execute("BEGIN").await.unwrap();
    let locked = other.query("SELECT b FROM t WHERE id = 1 FOR UPDATE NOWAIT");
    assert!(locked.await.unwrap_err().to_string().contains("3572"));
    other.execute("ROLLBACK").await.unwrap();
    match end {
        End::Vanishes => drop(victim),
        End::Killed => drop(other.execute(&format!("KILL {id}")).await.unwrap()),
    }
    other.execute("BEGIN").await.unwrap();
    assert_eq!(locked_soon(other, 1).await.as_deref(), Some("0"));
    let rows = other.number("SELECT COUNT(*) FROM t").await.unwrap();
    assert_eq!(rows, 4.0, "{end:?}");
    other.execute("ROLLBACK").await.unwrap();
}

/// It goes while a statement waits for a row.
async fn waiting(
    served: &Served,
    (holder, other): (&mut Client, &mut Client),
    sql: &'static str,
    end: End,
) {
    let what = format!("{end:?}: {sql}");
    holder.execute("BEGIN").await.unwrap();
    holder
        .execute("UPDATE t SET b = 5 WHERE id = 3")
        .await
        .unwrap();
    let mut victim = in_schema(served).await;
    let id = victim.number("SELECT CONNECTION_ID()").await.unwrap();
    for before in [
        "PREPARE p FROM 'UPDATE t SET b = ? WHERE id = 3'",
        "SET @b = 9",
        "BEGIN",
        "UPDATE t SET b = 8 WHERE id = 1",
    ] {
        victim.execute(before).await.unwrap();
    }
    let task = tokio::spawn(async move { run(&mut victim, sql).await });
    tokio::time::sleep(A_WHILE).await;
    assert!(!task.is_finished(), "it does not wait: {what}");
    match end {
        End::Vanishes => {
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
        }
        End::Killed => {
            other.execute(&format!("KILL {id}")).await.unwrap();
            let told = tokio::time::timeout(Duration::from_secs(2), task).await;
            assert!(told.expect("it is told").unwrap().is_err(), "{what}");
        }
    }
    // Rows 1 and 2 are free while 3 is still held.
    other.execute("BEGIN").await.unwrap();
    for id in [1, 2, 4] {
        let b = locked_soon(other, id).await;
        assert_eq!(b.as_deref(), Some("0"), "{what}");
    }
    other.execute("ROLLBACK").await.unwrap();
    holder.execute("ROLLBACK").await.unwrap();
    other.execute("BEGIN").await.unwrap();
    assert_eq!(locked_soon(other, 3).await.as_deref(), Some("0"), "{what}");
    other.execute("ROLLBACK").await.unwrap();
}
