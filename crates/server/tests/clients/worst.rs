//! Connections that do their worst to the server's memory, all at the same time: each statement is answered, with a
//! result or an error of memory, and the process stays within a bound.
//!
//! `PERIGEE_WORST=seconds` runs 64 connections for so long, with texts of up to 60 MB.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use perigee_bench::{Client, Embedded};
use perigee_testkit::{Rng, tested_binary};
use tokio::task::JoinHandle;

/// Memory that the process may have, besides its two pools.
const BOUND: u64 = 2 << 30;

const POOLS: u64 = (256 << 20) + (1 << 30);

/// Errors that are answers: out of memory, beyond a limit, too deep or not supported, stopped.
const ANSWERS: [&str; 5] = ["1038", "3170", "1235", "1064", "1317"];

fn repeated(piece: &str, separator: &str, bytes: usize) -> String {
    let count = (bytes / (piece.len() + separator.len())).max(1);
    vec![piece; count].join(separator)
}

/// One of the worst statements, of about so many bytes if it can be long.
fn statement(rng: &mut Rng, bytes: usize) -> String {
    let connection = rng.between(0, 5);
    match rng.between(0, 15) {
        0 => format!("SELECT LENGTH('{}')", "x".repeat(bytes)),
        1 => format!(
            "SELECT COUNT(*) FROM w WHERE s LIKE '%{}%'",
            "xyz".repeat(bytes / 3)
        ),
        2 => format!(
            "SELECT COUNT(*) FROM w WHERE id IN ({})",
            repeated("123456", ",", bytes.min(20_000))
        ),
        3 => format!(
            "INSERT INTO v VALUES {}",
            repeated("(1,'abcdefgh')", ",", bytes)
        ),
        4 => format!("INSERT INTO v VALUES (2, '{}')", "y".repeat(bytes)),
        5 => format!("SELECT {} 1", " ".repeat(bytes)),
        6 => format!("SELECT {}", repeated("1", "+", bytes.min(200))),
        7 => format!("SET @v{connection} = '{}'", "z".repeat(bytes)),
        8 => format!(
            "PREPARE p{connection} FROM 'SELECT \"{}\"'",
            "z".repeat(bytes)
        ),
        9 => "SELECT COUNT(*) FROM w a, w b, w c WHERE a.s <> b.s AND c.s > a.s AND c.id < 3"
            .to_owned(),
        10 => "SELECT a.s, b.s FROM w a JOIN w b ON a.n = b.n ORDER BY b.s, a.s LIMIT 3".to_owned(),
        11 => "SELECT CONCAT(a.s, b.s) AS x, COUNT(*) FROM w a, w b GROUP BY x ORDER BY x LIMIT 3"
            .to_owned(),
        12 => format!("SELECT SUM(LENGTH(LPAD(s, {}, 'x'))) FROM w", bytes / 50),
        13 => format!("SELECT MAX(CONCAT({}s)) FROM w", "s, ".repeat(100)),
        14 => "DELETE FROM v".to_owned(),
        _ => format!("SELECT {}", repeated("COUNT(*)", ",", bytes.min(400))),
    }
}

/// What connections did.
#[derive(Default)]
struct Counts {
    done: AtomicU64,
    refused: AtomicU64,
}

/// Runs statements until the time is over, or until the connection ends.
async fn worst(mut client: Client, seed: u64, until: Instant, bytes: i64, counts: Arc<Counts>) {
    let mut rng = Rng(seed);
    while Instant::now() < until {
        let bytes = rng.between(1000, bytes) as usize;
        let sql = statement(&mut rng, bytes);
        counts.done.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = client.execute(&sql).await {
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
            let client = server.client(Some("q")).await.unwrap();
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
