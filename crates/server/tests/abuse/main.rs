//! Statements that are a thousand times as long or as deep as they should be. Each is answered or refused,
//! meanwhile another connection is answered quickly, KILL works, and the process lives on within its memory.
//!
//! `PERIGEE_ABUSE=1,10,100,1000` are the sizes, `PERIGEE_ABUSE_MILLIS=100` the time that the other connection may
//! wait, and `PERIGEE_ABUSE_ONLY=name` picks a shape.
#![allow(clippy::unwrap_used, reason = "test code")]

mod kill;
mod large;
mod many;
mod shapes;
#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use perigee_workload::{Client, Embedded};
use shapes::Shape;
use tempfile::TempDir;

/// Sizes in an ordinary run of the tests.
const SIZES: &str = "1,10";

/// How long the other connection may wait, in an ordinary run: the machine may be busy with other tests.
const WAIT: u64 = 5000;

/// How long a statement may take. The largest ones in the build of the tests take a tenth of it.
const LONGEST: Duration = Duration::from_secs(100);

/// Memory that a statement may have by its limit.
const STATEMENT: u64 = 512 << 20;

/// Memory of the pools for pages: the engine's and the Page Store's.
const POOLS: u64 = 64 << 20;

/// Memory that the process may take besides: what it holds without any statement, the text of a statement with its
/// copies on the way, and what the allocator keeps.
const BESIDES: u64 = 384 << 20;

fn variable(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// A server with a small table `t` and an empty one, `big`.
async fn start() -> (Embedded, TempDir, Client) {
    let dir = tempfile::tempdir().unwrap();
    let (statement, pool) = (STATEMENT.to_string(), (POOLS / 2).to_string());
    let arguments = [
        "--query-memory",
        &statement,
        "--buffer-pool",
        &pool,
        "--pool",
        &pool,
    ];
    let arguments = support::args(&arguments);
    let server = Embedded::start(&support::binary(), dir.path(), &arguments).unwrap();
    let mut client = server.client(None).await.unwrap();
    for sql in [
        "CREATE DATABASE q",
        "USE q",
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, s TEXT)",
        "INSERT INTO t VALUES (1, 1, 2, 'xax'), (2, 3, 4, 'yyy'), (3, NULL, 5, 'aaaaab')",
        "CREATE TABLE big (id BIGINT AUTO_INCREMENT PRIMARY KEY, a INT, s VARCHAR(20), d DECIMAL(5,2))",
    ] {
        client.execute(sql).await.unwrap();
    }
    (server, dir, client)
}

/// A connection that asks short questions all the time, in a thread of its own: it waits for the server, not for the
/// client that is sending megabytes.
struct Watch {
    stop: Arc<AtomicBool>,
    longest: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<u64>,
}

impl Watch {
    async fn start(server: &Embedded) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let longest = Arc::new(AtomicU64::new(0));
        let (stopped, most) = (stop.clone(), longest.clone());
        let address = server.address();
        let (connected, is_connected) = tokio::sync::oneshot::channel();
        let ask = async move {
            let mut client = Client::connect(address, Some("q")).await.unwrap();
            connected.send(()).unwrap();
            let mut asked = 0;
            while !stopped.load(Ordering::Relaxed) {
                let begun = Instant::now();
                // By key, by a plan, and from a connection of its own.
                client.query("SELECT a FROM t WHERE id = 1").await.unwrap();
                client.query("SELECT COUNT(*) + 1 FROM t").await.unwrap();
                if asked % 10 == 0 {
                    let newcomer = Client::connect(address, None).await.unwrap();
                    newcomer.close().await.unwrap();
                }
                let waited = u64::try_from(begun.elapsed().as_millis()).unwrap();
                most.fetch_max(waited, Ordering::Relaxed);
                asked += 1;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            asked
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let thread = std::thread::spawn(move || runtime.block_on(ask));
        is_connected.await.unwrap();
        Self {
            stop,
            longest,
            thread,
        }
    }

    /// The longest wait since the last call, in milliseconds.
    fn longest(&self) -> u64 {
        self.longest.swap(0, Ordering::Relaxed)
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        assert!(self.thread.join().unwrap() > 0);
    }
}

/// How a statement reaches the server.
#[derive(Clone, Copy, Debug)]
enum Door {
    Text,
    Prepared,
    PrepareFrom,
}

async fn send(client: &mut Client, door: Door, sql: &str) -> Result<(), String> {
    let said = |error: perigee_workload::WorkloadError| error.to_string();
    match door {
        Door::Text => client.query(sql).await.map(drop).map_err(said),
        Door::Prepared => client.prepared(sql, &[]).await.map(drop).map_err(said),
        Door::PrepareFrom => {
            let quoted = sql.replace('\'', "''");
            let prepare = format!("PREPARE p FROM '{quoted}'");
            client.execute(&prepare).await.map_err(said)?;
            client.query("EXECUTE p").await.map(drop).map_err(said)
        }
    }
}

/// Errors that a statement may be refused with: not supported, out of memory, too many tables or columns, too
/// long, too deep.
fn is_refusal(error: &str) -> bool {
    ["1235", "1038", "1116", "1117", "1153", "1436", "3170"]
        .iter()
        .any(|number| error.contains(number))
}

/// Asserts the bound on the memory of the process.
fn check_peak(peak: u64, what: &str) {
    let bound = STATEMENT + POOLS + BESIDES;
    assert!(peak <= bound, "{what}: {} MiB", peak >> 20);
}

async fn abuse(server: &Embedded, shape: &Shape, size: usize, watch: &Watch, wait: u64) {
    let sql = (shape.text)(shape.terms * size);
    let doors: &[Door] = match shape.preparable && sql.len() < 1 << 20 {
        true => &[Door::Text, Door::Prepared, Door::PrepareFrom],
        false => &[Door::Text],
    };
    for door in doors {
        let what = format!("{} × {size}, {door:?}", shape.name);
        let mut client = server.client(Some("q")).await.unwrap();
        watch.longest();
        server.reset_peak().unwrap();
        let begun = Instant::now();
        let answer = tokio::time::timeout(LONGEST, send(&mut client, *door, &sql)).await;
        let took = begun.elapsed();
        let waited = watch.longest();
        let shown = match &answer {
            Ok(Ok(())) => "answered".to_owned(),
            Ok(Err(error)) => error.chars().take(110).collect(),
            Err(_) => "no answer".to_owned(),
        };
        let (_, peak) = server.memory().unwrap();
        println!(
            "{what}: {took:.1?}, others waited {waited} ms, {} MiB: {shown}",
            peak >> 20
        );
        let answer = answer.unwrap_or_else(|_| panic!("{what}: no answer"));
        if let Err(error) = answer {
            assert!(size > 1 && is_refusal(&error), "{what}: {error}");
        }
        assert!(waited <= wait, "{what}: others waited {waited} ms");
        check_peak(peak, &what);
        client.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_one_statement_asks_others_are_answered() {
    let (mut server, _dir, client) = start().await;
    let sizes = variable("PERIGEE_ABUSE", SIZES);
    let wait = variable("PERIGEE_ABUSE_MILLIS", &WAIT.to_string());
    let wait = wait.parse().unwrap();
    let only = variable("PERIGEE_ABUSE_ONLY", "");
    let watch = Watch::start(&server).await;
    for size in sizes.split(',') {
        let size: usize = size.parse().unwrap();
        for shape in shapes::all() {
            if shape.name.contains(&only) {
                abuse(&server, &shape, size, &watch, wait).await;
            }
        }
    }
    watch.end();
    client.close().await.unwrap();
    server.stop().unwrap();
}
