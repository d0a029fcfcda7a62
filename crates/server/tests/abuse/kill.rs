//! KILL QUERY and `max_execution_time` reach a statement at any moment, while it is planned too.
//!
//! `PERIGEE_ABUSE_KILLS=n` kills each of the worst statements so often, and `PERIGEE_ABUSE_MILLIS` is the time within
//! which they must end.

use std::time::{Duration, Instant};

use perigee_testkit::Rng;
use perigee_workload::Client;

use super::{shapes, start, variable};

/// A statement whose planning alone takes a good while.
fn long() -> String {
    let terms = " OR CONCAT(s, 'x') = 'abc' AND a + 3 < b".repeat(1500);
    format!("SELECT COUNT(*) FROM t WHERE a = 7{terms}")
}

/// The statements that are planned longest, as a shape and how often its terms.
const WORST: [(&str, usize); 12] = [
    ("OR", 100),
    ("AND and OR", 100),
    ("UNION", 200),
    ("UNION ALL", 500),
    ("columns added", 10),
    ("comparisons of comparisons", 4),
    ("nested BETWEEN", 2),
    ("long CASE", 50),
    ("joins", 10),
    ("columns", 30),
    ("aggregates", 50),
    ("IN of several types", 100),
];

/// Kills a statement after some time. Gives how soon it ended then, if it had not ended before.
async fn killed(
    mut client: Client,
    killer: &mut Client,
    sql: &str,
    after: Duration,
) -> (Client, Option<Duration>) {
    let id = client.number("SELECT CONNECTION_ID()").await.unwrap();
    let sql = sql.to_owned();
    let running = tokio::spawn(async move {
        let outcome = client.query(&sql).await.map(drop);
        (client, outcome, Instant::now())
    });
    tokio::time::sleep(after).await;
    let killed = Instant::now();
    killer.execute(&format!("KILL QUERY {id}")).await.unwrap();
    let (client, outcome, ended) = running.await.unwrap();
    let took = ended.saturating_duration_since(killed);
    match outcome {
        Ok(()) => (client, None),
        Err(error) => {
            assert!(error.to_string().contains("1317"), "{error}");
            (client, Some(took))
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_is_killed_at_any_moment_of_its_planning() {
    let kills: u64 = variable("PERIGEE_ABUSE_KILLS", "2").parse().unwrap();
    let wait = variable("PERIGEE_ABUSE_MILLIS", "3000").parse().unwrap();
    let only = variable("PERIGEE_ABUSE_ONLY", "");
    let wait = Duration::from_millis(wait);
    let (mut server, _dir, mut killer) = start().await;
    let mut client = server.client(Some("q")).await.unwrap();
    let mut rng = Rng(1);
    let mut statements = vec![("a long condition", long())];
    for (name, times) in WORST {
        let shape = shapes::all().into_iter().find(|shape| shape.name == name);
        let shape = shape.unwrap();
        statements.push((name, (shape.text)(shape.terms * times)));
    }
    let mut late = Vec::new();
    for (name, sql) in statements.iter().filter(|(name, _)| name.contains(&only)) {
        let begun = Instant::now();
        client
            .query(sql)
            .await
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let whole = begun.elapsed();
        let (mut longest, mut hits) = (Duration::ZERO, 0);
        for _ in 0..kills {
            let after = whole.mul_f64(rng.between(0, 1000) as f64 / 1000.0);
            let took;
            (client, took) = killed(client, &mut killer, sql, after).await;
            if let Some(took) = took {
                hits += 1;
                longest = longest.max(took);
            }
        }
        println!("{name}: takes {whole:.1?}; {hits} of {kills} killed, within {longest:.1?}");
        if longest > wait {
            late.push(*name);
        }
    }
    assert!(late.is_empty(), "{late:?}");
    client.close().await.unwrap();
    killer.close().await.unwrap();
    server.stop().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn max_execution_time_ends_a_select() {
    let (mut server, _dir, mut client) = start().await;
    let tables: Vec<_> = (0..24).map(|n| format!("t t{n}")).collect();
    let columns: Vec<_> = (0..24).map(|n| format!("t{n}.id")).collect();
    // 3^24 rows, of which nothing is known before all tables are joined.
    let endless = format!(
        "SELECT COUNT(*) FROM {} WHERE {} = 1",
        tables.join(", "),
        columns.join(" + ")
    );
    let hinted = endless.replace("SELECT", "SELECT /*+ MAX_EXECUTION_TIME(50) */");
    let planned = long();
    for (before, sql) in [
        ("SET max_execution_time = 50", &endless),
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
