//! Connections that do their worst to the server's memory, all at the same time: each statement is answered, with a
//! result or an error of memory, and the process stays within a bound.
//!
//! `PERIGEE_WORST=seconds` runs 64 connections for so long, with texts of up to 60 MB.

mod statements;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use perigee_testkit::{Rng, tested_binary};
use perigee_workload::{Client, Embedded};
use statements::{Statement, statement};
use tokio::task::JoinHandle;

/// Memory that the process may have, besides its two pools.
const BOUND: u64 = 2 << 30;

const POOLS: u64 = (256 << 20) + (1 << 30);

/// Errors that are answers: out of memory, beyond a limit, too many, too long, too deep or not supported, stopped, too
/// late; and those of statements that change the same rows.
const ANSWERS: [&str; 12] = [
    "1038", "3170", "1116", "1117", "1118", "1436", "1235", "1064", "1317", "3024", "1205", "1213",
];

/// What connections did.
#[derive(Default)]
struct Counts {
    done: AtomicU64,
    refused: AtomicU64,
}

/// Milliseconds after which a SELECT ends, so that a connection does not spend all its time on one.
const SELECT_TIME: u64 = 20_000;

/// Runs statements until the time is over, or until the connection ends.
async fn worst(mut client: Client, seed: u64, until: Instant, bytes: usize, counts: Arc<Counts>) {
    let mut rng = Rng(seed);
    let limit = format!("SET max_execution_time = {SELECT_TIME}, innodb_lock_wait_timeout = 1");
    // There may be no memory left for this, either.
    while let Err(error) = client.execute(&limit).await {
        assert!(error.to_string().contains("1038"), "{error}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    while Instant::now() < until {
        let Statement { sql, preparable } = statement(&mut rng, bytes);
        counts.done.fetch_add(1, Ordering::Relaxed);
        let answer = match preparable && rng.chance(3) {
            true => client.prepared(&sql, &[]).await.map(drop),
            false => client.execute(&sql).await.map(drop),
        };
        if let Err(error) = answer {
            counts.refused.fetch_add(1, Ordering::Relaxed);
            let text = error.to_string();
            let is_any = |of: &[&str]| of.iter().any(|part| text.contains(part));
            // A client that is refused in the middle of a long command may not get to read why.
            if is_any(&["1041", "1153", "Input/output error"]) {
                return;
            }
            assert!(is_any(&ANSWERS), "{sql:.200}: {text:.500}");
        }
    }
}

/// A new connection, once there is memory for it.
async fn connected(server: &Embedded) -> Client {
    loop {
        match server.client(Some("q")).await {
            Ok(client) => return client,
            Err(error) => assert!(error.to_string().contains("1038"), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_do_their_worst_stay_within_the_memory() {
    let seconds: Option<u64> = std::env::var("PERIGEE_WORST")
        .ok()
        .map(|s| s.parse().unwrap());
    let (connections, seconds, bytes, rows) = match seconds {
        Some(seconds) => (64, seconds, 60 << 20, 2000),
        None => (8, 4, 1 << 20, 300),
    };
    let dir = tempfile::tempdir().unwrap();
    let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
    let arguments = ["--query-memory", "512MiB"].map(str::to_owned);
    let mut server = Embedded::start(&binary, dir.path(), &arguments).unwrap();
    let mut client = server.client(None).await.unwrap();
    for sql in [
        "CREATE DATABASE q",
        "USE q",
        "CREATE TABLE w (id INT PRIMARY KEY, n INT, s VARCHAR(200) NOT NULL)",
        "CREATE TABLE v (id INT, s LONGTEXT)",
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, s TEXT)",
        "INSERT INTO t VALUES (1, 1, 2, 'xax'), (2, 3, 4, 'yyy'), (3, NULL, 5, 'aaaaab')",
        "CREATE TABLE big (id BIGINT AUTO_INCREMENT PRIMARY KEY, a INT, s VARCHAR(20), d DECIMAL(5,2))",
    ] {
        client.execute(sql).await.unwrap();
    }
    let values: Vec<_> = (0..rows)
        .map(|id| format!("({id}, {}, '{:x<150}')", id % 50, id * 7919 % rows))
        .collect();
    let insert = format!("INSERT INTO w VALUES {}", values.join(","));
    client.execute(&insert).await.unwrap();

    let until = Instant::now() + Duration::from_secs(seconds);
    let counts = Arc::new(Counts::default());
    let mut tasks: Vec<Option<JoinHandle<()>>> = (0..connections).map(|_| None).collect();
    let (mut seed, mut most) = (0, 0);
    while Instant::now() < until {
        for task in &mut tasks {
            if task.as_ref().is_some_and(|task| !task.is_finished()) {
                continue;
            }
            if let Some(task) = task.take() {
                task.await.unwrap();
            }
            seed += 1;
            let client = connected(&server).await;
            *task = Some(tokio::spawn(worst(
                client,
                seed,
                until,
                bytes,
                counts.clone(),
            )));
        }
        let (now, peak) = server.memory().unwrap();
        if peak > most + (100 << 20) {
            println!("{} MiB now, {} MiB at most", now >> 20, peak >> 20);
            most = peak;
        }
        assert!(peak < BOUND + POOLS, "{} MiB", peak >> 20);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // What runs still is given up with its connection.
    for task in tasks.into_iter().flatten() {
        task.abort();
    }
    let [done, refused] = [&counts.done, &counts.refused].map(|n| n.load(Ordering::Relaxed));
    let (now, peak) = server.memory().unwrap();
    println!(
        "{done} statements over {seed} connections, {refused} refused; {} MiB now, {} MiB at most",
        now >> 20,
        peak >> 20
    );
    assert!(peak < BOUND + POOLS, "{} MiB", peak >> 20);
    assert!(done > refused, "{done} statements, {refused} refused");
    // It serves as before.
    let count = client.number("SELECT COUNT(*) FROM w").await;
    assert_eq!(count.unwrap(), f64::from(rows));
    client.close().await.unwrap();
    server.stop().unwrap();
}
