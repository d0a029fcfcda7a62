//! `kill -9` of each process while rows are loaded and inserted: nothing acknowledged is lost, nothing
//! unacknowledged shows half.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::path::PathBuf;
use std::time::Duration;

use perigee_bench::{Client, Cluster, ClusterOptions, Role};

fn cluster(dir: &std::path::Path) -> Cluster {
    Cluster::start(ClusterOptions {
        binary: PathBuf::from(env!("CARGO_BIN_EXE_perigee")),
        dir: dir.to_owned(),
        page_stores: 2,
        frontend_args: Vec::new(),
        page_store_args: Vec::new(),
    })
    .unwrap()
}

/// Inserts ten rows a statement, all with the statement's number, until a statement fails; returns
/// how many were acknowledged.
async fn insert_until_failure(mut client: Client, first: u64) -> u64 {
    let mut next = first;
    loop {
        let rows: Vec<_> = (0..10)
            .map(|i| format!("({}, {next})", next * 10 + i))
            .collect();
        let sql = format!("INSERT INTO t VALUES {}", rows.join(", "));
        if client.execute(&sql).await.is_err() {
            return next;
        }
        next += 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_statement_is_lost_when_a_process_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = cluster(dir.path());
    let mut client = cluster.client(None).await.unwrap();
    client.execute("CREATE DATABASE c").await.unwrap();
    client.execute("USE c").await.unwrap();
    client
        .execute(
            "CREATE TABLE t (id BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (id), KEY (n))",
        )
        .await
        .unwrap();
    let mut acknowledged = 0;
    for role in [
        Role::Frontend,
        Role::LogStore,
        Role::PageStore(0),
        Role::PageStore(1),
        Role::Frontend,
    ] {
        let writer = cluster.client(Some("c")).await.unwrap();
        let writing = tokio::spawn(insert_until_failure(writer, acknowledged));
        tokio::time::sleep(Duration::from_millis(400)).await;
        cluster.kill(role).unwrap();
        if role != Role::Frontend {
            // A frontend waits for its stores; it is killed too, so that the writer ends.
            tokio::time::sleep(Duration::from_millis(200)).await;
            cluster.restart(role).unwrap();
            tokio::time::sleep(Duration::from_millis(300)).await;
            cluster.kill(Role::Frontend).unwrap();
        }
        let told = writing.await.unwrap();
        cluster.restart(Role::Frontend).unwrap();
        let mut client = cluster.client(Some("c")).await.unwrap();
        let rows = client.number("SELECT COUNT(*) FROM t").await.unwrap() as u64;
        assert_eq!(
            rows % 10,
            0,
            "a statement shows half after the end of {role:?}"
        );
        let statements = rows / 10;
        // The one that was running may have been committed.
        assert!(
            (told..=told + 1).contains(&statements),
            "{statements} statements after the end of {role:?}, {told} were acknowledged"
        );
        assert!(
            told > acknowledged || acknowledged == 0,
            "nothing was written before {role:?}"
        );
        let by_index = client
            .number("SELECT COUNT(*) FROM t WHERE n >= 0")
            .await
            .unwrap() as u64;
        assert_eq!(
            by_index, rows,
            "the index differs after the end of {role:?}"
        );
        let last = client.number("SELECT MAX(n) FROM t").await.unwrap_or(-1.0);
        assert_eq!(last as i64, statements as i64 - 1);
        acknowledged = statements;
    }
}
