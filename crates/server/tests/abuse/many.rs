//! Several bad statements at a time, more than there are processors: others are answered all the same.

use std::time::Duration;

use super::{Watch, start, variable};

/// Connections that do their worst.
const BAD: usize = 8;

/// How long others may wait in an ordinary run. Before plans had threads to spare, they waited until one of the bad
/// statements had ended.
const WAIT: u64 = 3000;

/// Evaluates one value for minutes, without a pause.
fn endless() -> String {
    let pattern = "CONCAT('%', LPAD('x', 40000, '_x'), 'z%')";
    format!("SELECT COUNT(*) FROM t WHERE LPAD('x', 200000 + id, 'x') LIKE {pattern}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_are_answered_while_more_bad_statements_run_than_there_are_processors() {
    let wait: u64 = variable("PERIGEE_ABUSE_MILLIS", &WAIT.to_string())
        .parse()
        .unwrap();
    let (mut server, _dir, mut client) = start().await;
    let watch = Watch::start(&server).await;
    let mut bad = Vec::new();
    for _ in 0..BAD {
        let mut client = server.client(Some("q")).await.unwrap();
        let id = client.number("SELECT CONNECTION_ID()").await.unwrap();
        let running = tokio::spawn(async move { client.query(&endless()).await.map(drop) });
        bad.push((id, running));
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    watch.longest();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let waited = watch.longest();
    println!("{BAD} bad statements: others waited {waited} ms");
    assert!(waited <= wait, "others waited {waited} ms");
    for (id, running) in bad {
        assert!(!running.is_finished(), "it is not bad enough");
        client.execute(&format!("KILL QUERY {id}")).await.unwrap();
        let error = running.await.unwrap().unwrap_err().to_string();
        assert!(error.contains("1317"), "{error}");
    }
    // What was killed computes no longer.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = server.cpu().unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let used = server.cpu().unwrap() - before;
    println!("a second later it uses {used:.1?} of processors");
    // The questions of the watch take a quarter of it.
    assert!(used < Duration::from_secs(1), "{used:.1?}");
    watch.end();
    client.close().await.unwrap();
    server.stop().unwrap();
}
