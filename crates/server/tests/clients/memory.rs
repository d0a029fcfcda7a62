//! Queries that need more memory than they may have: they spill to disk, or end with an error that
//! names the limit; the server lives on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use perigee_testkit::tested_binary;
use perigee_workload::{Client, Embedded};
use tempfile::TempDir;

/// Rows of the table; with their text some 76 MiB.
const ROWS: u64 = 300_000;

/// Less than that, and more than a few batches of each partition.
const LIMIT: u64 = 64 << 20;

/// Groups of all rows are found in half a minute on a busy machine.
const END: Duration = Duration::from_secs(300);

/// Watches how much lies in a directory.
struct Watch {
    stop: Arc<AtomicBool>,
    most: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<()>,
}

impl Watch {
    fn start(dir: PathBuf) -> Self {
        let (stop, most) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let (stopped, seen) = (stop.clone(), most.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                seen.fetch_max(bytes_under(&dir), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Self { stop, most, thread }
    }

    /// The most there was.
    fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.most.load(Ordering::Relaxed)
    }
}

/// Bytes of the files in a directory; files may vanish meanwhile.
fn bytes_under(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_under(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

async fn start() -> (Embedded, TempDir, Client) {
    let dir = tempfile::tempdir().unwrap();
    let temporary = dir.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let limit = LIMIT.to_string();
    let arguments = [
        "--query-memory",
        &limit,
        "--temp-dir",
        temporary.to_str().unwrap(),
    ];
    let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
    let server = Embedded::start(&binary, dir.path(), &arguments.map(str::to_owned)).unwrap();
    let mut client = server.client(None).await.unwrap();
    client.execute("CREATE DATABASE q").await.unwrap();
    client.execute("USE q").await.unwrap();
    let create = "CREATE TABLE t (id INT PRIMARY KEY, pad VARCHAR(300) NOT NULL)";
    client.execute(create).await.unwrap();
    // Neighbours in one order are far from each other in the other.
    let rows: String = (0..ROWS)
        .map(|i| format!("{i}\t{:06}{}\n", (i * 7919) % ROWS, "x".repeat(250)))
        .collect();
    let path = dir.path().join("t.tsv");
    std::fs::write(&path, rows).unwrap();
    let load = format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE t", path.display());
    assert_eq!(client.execute(&load).await.unwrap(), ROWS);
    (server, dir, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_memory_spills() {
    let (mut server, dir, mut client) = start().await;
    let limit = client.number("SELECT @@query_memory_limit").await.unwrap();
    assert_eq!(limit as u64, LIMIT);
    let temporary = dir.path().join("temporary");

    let watch = Watch::start(temporary.clone());
    let sorted = client
        .query("SELECT pad, id FROM t ORDER BY pad DESC")
        .await;
    let spilled = watch.end();
    let sorted = sorted.unwrap();
    assert_eq!(sorted.len() as u64, ROWS);
    for (i, row) in (0..ROWS).rev().zip(&sorted) {
        let pad = row[0].as_deref().unwrap();
        assert!(pad.starts_with(&format!("{i:06}x")), "{i}: {pad}");
    }
    assert!(spilled > LIMIT / 2, "the sort spilled {spilled} bytes");

    let watch = Watch::start(temporary.clone());
    let groups = "SELECT COUNT(*), SUM(n), MIN(pad), MAX(pad) FROM \
        (SELECT pad, COUNT(*) AS n FROM t GROUP BY pad) g";
    let grouped = tokio::time::timeout(END, client.query(groups)).await;
    let spilled = watch.end();
    let grouped = grouped.expect("exchanges that spill come to an end");
    let row: Vec<_> = grouped.unwrap()[0].iter().flatten().cloned().collect();
    let tail = "x".repeat(250);
    let rows = ROWS.to_string();
    let expected = [
        rows.clone(),
        rows,
        format!("000000{tail}"),
        format!("{:06}{tail}", ROWS - 1),
    ];
    assert_eq!(row, expected);
    assert!(
        spilled > LIMIT / 2,
        "the aggregation spilled {spilled} bytes"
    );

    assert_eq!(bytes_under(&temporary), 0, "spilled files stay on disk");
    client.close().await.unwrap();
    server.stop().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_spill_ends_with_an_error_that_names_the_limit() {
    let (mut server, _dir, mut client) = start().await;
    client
        .execute("SET query_memory_limit = 4194304")
        .await
        .unwrap();
    let join = "SELECT COUNT(*), MIN(a.pad), MIN(b.pad) FROM t a JOIN t b ON a.pad = b.pad";
    let error = client.query(join).await.unwrap_err().to_string();
    assert!(
        error.contains("1038") && error.contains("HY001") && error.contains("query_memory_limit"),
        "{error}"
    );
    // The connection lives, and the join runs where it may have the memory.
    client
        .execute("SET query_memory_limit = 268435456")
        .await
        .unwrap();
    let row = client.query(join).await.unwrap().remove(0);
    assert_eq!(row[0].as_deref(), Some(ROWS.to_string().as_str()));
    client.close().await.unwrap();
    server.stop().unwrap();
}
