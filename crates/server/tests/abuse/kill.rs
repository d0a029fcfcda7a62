//! KILL QUERY and `max_execution_time` reach a statement at any moment, while it is planned too.

use std::time::{Duration, Instant};

use super::start;

/// A statement whose planning alone takes a good while.
fn long() -> String {
    let terms = " OR CONCAT(s, 'x') = 'abc' AND a + 3 < b".repeat(1500);
    format!("SELECT COUNT(*) FROM t WHERE a = 7{terms}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_is_killed_while_it_is_planned() {
    let (mut server, _dir, mut other) = start().await;
    let mut client = server.client(Some("q")).await.unwrap();
    let id = client.number("SELECT CONNECTION_ID()").await.unwrap();
    let begun = Instant::now();
    client.query(&long()).await.unwrap();
    let whole = begun.elapsed();
    // At several moments of its life.
    for part in 1..4 {
        let delay = whole * part / 6;
        let sql = long();
        let running = tokio::spawn(async move {
            let outcome = client.query(&sql).await;
            (client, outcome.map(drop), Instant::now())
        });
        tokio::time::sleep(delay).await;
        let killed = Instant::now();
        other.execute(&format!("KILL QUERY {id}")).await.unwrap();
        let outcome;
        let ended;
        (client, outcome, ended) = running.await.unwrap();
        let took = ended.saturating_duration_since(killed);
        println!("killed after {delay:.1?} of {whole:.1?}: ended within {took:.1?}");
        if let Err(error) = outcome {
            assert!(error.to_string().contains("1317"), "{error}");
            assert!(took < Duration::from_secs(3), "it ended after {took:.1?}");
        }
    }
    client.close().await.unwrap();
    other.close().await.unwrap();
    server.stop().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn max_execution_time_ends_a_select() {
    let (mut server, _dir, mut client) = start().await;
    let endless = "SELECT COUNT(*) FROM t a, t b, t c, t d, t e, t f, t g, t h, t i, t j, t k, t l, t m, t n, t o \
        WHERE a.a + b.a + c.a + d.a > e.a + f.a + g.a + o.a";
    let hinted = endless.replace("SELECT", "SELECT /*+ MAX_EXECUTION_TIME(50) */");
    let planned = long();
    for (before, sql) in [
        ("SET max_execution_time = 50", endless),
        ("SET max_execution_time = 10", &planned),
        ("SET max_execution_time = 0", &hinted),
    ] {
        client.execute(before).await.unwrap();
        let begun = Instant::now();
        let error = client.query(sql).await.unwrap_err().to_string();
        let took = begun.elapsed();
        println!("{before}: {took:.1?}: {error}");
        assert!(error.contains("3024"), "{error}");
        assert!(took < Duration::from_secs(5), "it took {took:.1?}");
    }
    // Statements that are in time, and those that change rows, are not touched.
    client
        .execute("SET max_execution_time = 60000")
        .await
        .unwrap();
    assert_eq!(client.number("SELECT COUNT(*) FROM t").await.unwrap(), 3.0);
    client
        .execute("UPDATE t SET a = 5 WHERE id = 3")
        .await
        .unwrap();
    client.close().await.unwrap();
    server.stop().unwrap();
}
