//! Statements that are stopped from outside: Ctrl-C in the client, KILL QUERY, and clients that go
//! away. The client is told within a second, everything that worked for the statement stops, in the
//! Page Stores too, and what the statement changed is undone.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use perigee_testkit::tested_binary;
use perigee_workload::{Client, Cluster, ClusterOptions, Embedded, Role};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::text;

/// Rows of the table that queries are about.
const ROWS: u64 = 60_000;

/// How soon a client is told that its statement was stopped.
const TOLD: Duration = Duration::from_secs(1);

/// How soon after that the processes are idle.
const IDLE: Duration = Duration::from_secs(3);

/// A query that keeps the frontend busy for hours.
const JOIN: &str = "SELECT COUNT(*) FROM t a, t b, t c WHERE a.id + b.id + c.id = 7";

/// A query that keeps the Page Stores busy: scans with much to compare, reduced to a number each.
fn scans() -> String {
    let scan = |n: u32| {
        let patterns: Vec<_> = (0..12).map(|k| format!("pad LIKE '%{n}x%{k}%'")).collect();
        format!(
            "SELECT COUNT(*) AS n FROM t WHERE {}",
            patterns.join(" OR ")
        )
    };
    let scans: Vec<_> = (0..20).map(scan).collect();
    format!(
        "SET ndp_min_pages = 0; SELECT SUM(n) FROM ({}) u",
        scans.join(" UNION ALL ")
    )
}

enum Processes {
    One(Embedded),
    Many(Box<Cluster>),
}

/// A server with the table `t`, in a directory of its own.
struct Served {
    processes: Processes,
    dir: TempDir,
}

impl Served {
    async fn embedded() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let temporary = dir.path().join("temporary");
        std::fs::create_dir(&temporary).unwrap();
        let arguments = ["--temp-dir", temporary.to_str().unwrap()].map(str::to_owned);
        let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
        let server = Embedded::start(&binary, dir.path(), &arguments).unwrap();
        Self::with_table(Processes::One(server), dir).await
    }

    async fn cluster() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
        let options = ClusterOptions::new(binary, dir.path().to_owned());
        Self::with_table(
            Processes::Many(Box::new(Cluster::start(options).unwrap())),
            dir,
        )
        .await
    }

    async fn with_table(processes: Processes, dir: TempDir) -> Self {
        let served = Self { processes, dir };
        let mut client = served.client().await;
        client.execute("CREATE DATABASE i").await.unwrap();
        client.execute("USE i").await.unwrap();
        let create = "CREATE TABLE t (id INT PRIMARY KEY, pad VARCHAR(200))";
        client.execute(create).await.unwrap();
        let rows: String = (0..ROWS)
            .map(|i| format!("{i}\t{}\n", format!("{i}-").repeat(20)))
            .collect();
        let path = served.dir.path().join("t.tsv");
        std::fs::write(&path, rows).unwrap();
        let load = format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE t", path.display());
        assert_eq!(client.execute(&load).await.unwrap(), ROWS);
        client.close().await.unwrap();
        served
    }

    fn address(&self) -> SocketAddr {
        match &self.processes {
            Processes::One(server) => server.address(),
            Processes::Many(cluster) => cluster.address(),
        }
    }

    async fn client(&self) -> Client {
        Client::connect(self.address(), None).await.unwrap()
    }

    /// CPU time that storage has used, as far as it has processes of its own, and that of all.
    fn cpu(&self) -> (Duration, Duration) {
        match &self.processes {
            Processes::One(server) => (Duration::ZERO, server.cpu().unwrap()),
            Processes::Many(cluster) => {
                let cpu = |role| cluster.cpu(role).unwrap();
                let stores = cpu(Role::PageStore(0)) + cpu(Role::PageStore(1));
                (stores, stores + cpu(Role::Frontend) + cpu(Role::LogStore))
            }
        }
    }

    /// Waits until the processes use less than a twentieth of a core.
    async fn wait_until_idle(&self) {
        let begin = Instant::now();
        loop {
            let (_, before) = self.cpu();
            tokio::time::sleep(Duration::from_millis(400)).await;
            let used = self.cpu().1 - before;
            if used <= Duration::from_millis(20) {
                return;
            }
            assert!(
                begin.elapsed() < IDLE,
                "the statement was stopped and {used:?} of CPU went within 0.4 s"
            );
        }
    }

    /// The `mariadb` command line with a statement to run.
    fn start(&self, sql: &str) -> Child {
        let mut command = Command::new("mariadb");
        command
            .args(["--no-defaults", "--host=127.0.0.1", "--user=root", "i"])
            .arg(format!("--port={}", self.address().port()))
            .args(["--quick", "--local-infile=1", "-N", "-e", sql])
            .env_remove("MYSQL_PWD")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Waits until a statement that begins with `text` runs and has used some CPU.
    async fn wait_until_busy(&self, client: &mut Client, text: &str) {
        let begin = Instant::now();
        loop {
            let running = client.query("SHOW PROCESSLIST").await.unwrap();
            let is_it = |cell: &Option<String>| cell.as_ref().is_some_and(|c| c.starts_with(text));
            if running.iter().any(|row| row.iter().any(is_it)) {
                break;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "{running:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(Duration::from_millis(1500)).await;
    }

    /// Only the caller is left, and nothing runs but its question.
    async fn expect_nobody_else(&self, client: &mut Client) {
        let begin = Instant::now();
        for name in ["Threads_connected", "Threads_running"] {
            loop {
                let show = format!("SHOW STATUS LIKE '{name}'");
                let rows = client.query(&show).await.unwrap();
                if rows[0][1].as_deref() == Some("1") {
                    break;
                }
                assert!(begin.elapsed() < IDLE, "{rows:?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    let status = Command::new("kill").args([name, &id]).status().unwrap();
    assert!(status.success());
}

async fn end_of(child: Child) -> Output {
    spawn_blocking(move || child.wait_with_output().unwrap())
        .await
        .unwrap()
}

/// How the last statement begins.
fn beginning(sql: &str) -> &str {
    &sql.rsplit("; ").next().unwrap()[..20]
}

/// Ctrl-C in the client.
async fn interrupt(served: &Served, sql: &str) {
    let mut client = served.client().await;
    let (stores, _) = served.cpu();
    let child = served.start(sql);
    served.wait_until_busy(&mut client, beginning(sql)).await;
    if matches!(served.processes, Processes::Many(_)) && sql.contains("ndp_min_pages") {
        let end = Instant::now() + Duration::from_secs(10);
        while served.cpu().0 - stores <= Duration::from_millis(300) {
            assert!(Instant::now() < end, "storage computes nothing");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let begin = Instant::now();
    signal(&child, "-INT");
    let output = end_of(child).await;
    let waited = begin.elapsed();
    let complaint = text(&output.stderr);
    assert!(
        complaint.contains("ERROR 1317 (70100)"),
        "{complaint} {}",
        text(&output.stdout)
    );
    assert!(waited < TOLD, "the client was told after {waited:?}");
    served.wait_until_idle().await;
    served.expect_nobody_else(&mut client).await;
}

/// KILL QUERY from another connection; the killed one goes on.
async fn kill_query(served: &Served, sql: &str) {
    let mut client = served.client().await;
    let mut victim = served.client().await;
    victim.execute("USE i").await.unwrap();
    victim.execute("SET ndp_min_pages = 0").await.unwrap();
    let id = victim.number("SELECT CONNECTION_ID()").await.unwrap();
    let sql = sql.rsplit("; ").next().unwrap().to_owned();
    let start = beginning(&sql).to_owned();
    let running = tokio::spawn(async move {
        let result = victim.query(&sql).await;
        (victim, result)
    });
    served.wait_until_busy(&mut client, &start).await;
    let begin = Instant::now();
    client.execute(&format!("KILL QUERY {id}")).await.unwrap();
    let (mut victim, result) = running.await.unwrap();
    let waited = begin.elapsed();
    let error = result.unwrap_err().to_string();
    assert!(error.contains("1317") && error.contains("70100"), "{error}");
    assert!(waited < TOLD, "the client was told after {waited:?}");
    served.wait_until_idle().await;
    let rows = victim.number("SELECT COUNT(*) FROM t").await.unwrap();
    assert_eq!(rows as u64, ROWS);
}

/// A client that is gone from one moment to the next.
async fn disappear(served: &Served, sql: &str) {
    let mut client = served.client().await;
    let mut child = served.start(sql);
    served.wait_until_busy(&mut client, beginning(sql)).await;
    child.kill().unwrap();
    child.wait().unwrap();
    served.wait_until_idle().await;
    served.expect_nobody_else(&mut client).await;
}

async fn check_queries(served: Served) {
    let scans = scans();
    for sql in [JOIN, &scans] {
        interrupt(&served, sql).await;
        kill_query(&served, sql).await;
        disappear(&served, sql).await;
    }
    // One that has begun to send rows, to a client that does not take them.
    disappear(&served, "SELECT a.id, b.pad FROM t a CROSS JOIN t b").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_is_stopped_stops_everywhere_embedded() {
    check_queries(Served::embedded().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_is_stopped_stops_everywhere_as_processes() {
    check_queries(Served::cluster().await).await;
}

/// A file that comes as slowly as one likes.
struct Pipe {
    path: PathBuf,
    file: File,
}

impl Pipe {
    /// Makes the pipe; `reader` is started with its path and opens it.
    async fn new(dir: &Path, reader: impl FnOnce(&Path) -> Child) -> (Self, Child) {
        let path = dir.join("pipe");
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let child = reader(&path);
        let opened = path.clone();
        let file = spawn_blocking(move || File::options().write(true).open(opened).unwrap())
            .await
            .unwrap();
        (Self { path, file }, child)
    }

    /// Sends lines for rows `from` to `to`.
    async fn send(&mut self, from: u64, to: u64) {
        let mut file = self.file.try_clone().unwrap();
        let lines: String = (from..to)
            .map(|i| format!("{i}\t{}\n", "x".repeat(190)))
            .collect();
        spawn_blocking(move || file.write_all(lines.as_bytes()).unwrap())
            .await
            .unwrap();
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        std::fs::remove_file(&self.path).unwrap();
    }
}

/// Loads that are stopped before a page was written, and after many were.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_is_stopped_is_undone() {
    let served = Served::embedded().await;
    let mut client = served.client().await;
    client.execute("USE i").await.unwrap();
    let create = "CREATE TABLE l (id INT PRIMARY KEY, pad VARCHAR(200), KEY (pad))";
    client.execute(create).await.unwrap();
    let load = |path: &Path| {
        let sql = format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE l", path.display());
        served.start(&sql)
    };
    for rows in [1000, 120_000] {
        // The client goes away.
        let (mut pipe, mut child) = Pipe::new(served.dir.path(), load).await;
        pipe.send(0, rows).await;
        served.wait_until_busy(&mut client, "LOAD DATA").await;
        child.kill().unwrap();
        child.wait().unwrap();
        drop(pipe);
        served.wait_until_idle().await;
        served.expect_nobody_else(&mut client).await;
        expect_rows(&mut client, 0).await;
        // Ctrl-C: the client sends the rest before it looks for the answer.
        let (mut pipe, child) = Pipe::new(served.dir.path(), load).await;
        pipe.send(0, rows).await;
        served.wait_until_busy(&mut client, "LOAD DATA").await;
        signal(&child, "-INT");
        tokio::time::sleep(Duration::from_millis(200)).await;
        pipe.send(rows, rows + 1000).await;
        drop(pipe);
        let output = end_of(child).await;
        let complaint = text(&output.stderr);
        assert!(complaint.contains("ERROR 1317 (70100)"), "{complaint}");
        served.wait_until_idle().await;
        served.expect_nobody_else(&mut client).await;
        expect_rows(&mut client, 0).await;
    }
    // What the loads had sorted is gone from the disk, and the table can be loaded.
    let left = std::fs::read_dir(served.dir.path().join("temporary")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().path()).collect();
    let is_empty =
        |path: &PathBuf| path.is_dir() && std::fs::read_dir(path).unwrap().next().is_none();
    assert!(left.iter().all(is_empty), "{left:?}");
    let (mut pipe, child) = Pipe::new(served.dir.path(), load).await;
    pipe.send(0, 5000).await;
    drop(pipe);
    assert!(end_of(child).await.status.success());
    expect_rows(&mut client, 5000).await;
}

async fn expect_rows(client: &mut Client, rows: u64) {
    for sql in [
        "SELECT COUNT(*) FROM l",
        "SELECT COUNT(*) FROM l WHERE pad >= ''",
    ] {
        assert_eq!(client.number(sql).await.unwrap() as u64, rows, "{sql}");
    }
}
