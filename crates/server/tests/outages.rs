//! Processes that stand still or are away for a while, lack files to open, or can never serve again:
//! nothing acknowledged is lost, what cannot be answered is an error that says so, and everything goes
//! on by itself when the outage ends.
//!
//! `PERIGEE_OUTAGE_ROUNDS` sets how often a store stands still or is away, `PERIGEE_OUTAGE_STOPPED`
//! and `PERIGEE_OUTAGE_AWAY` for how many seconds at most.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use perigee_workload::{Client, Cluster, Embedded, Role};
use support::{address, binary, cluster, limit_files};

/// Longest time after an outage until a statement succeeds: connections that were dead are noticed.
const BACK: Duration = Duration::from_secs(45);

/// Pause of a writer between two transactions: during an outage it may be refused at once.
const BETWEEN: Duration = Duration::from_millis(5);

/// How soon a client is told that its statement was stopped, on a loaded machine.
const TOLD: Duration = Duration::from_secs(3);

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

/// Numbers that differ from run to run.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self(now.unwrap().as_nanos() as u64 | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }

    /// How long an outage lasts, of at most so many seconds: most are short, one in twenty is nearly as long
    /// as it may be.
    fn outage(&mut self, seconds: u64) -> Duration {
        let part = self.below(1 << 20) as f64 / f64::from(1 << 20);
        Duration::from_millis(1) + Duration::from_secs(seconds).mul_f64(part * part)
    }
}

/// A table with some rows for each writer.
async fn create(client: &mut Client) {
    for sql in [
        "CREATE DATABASE o",
        "CREATE TABLE o.t (id INT PRIMARY KEY, v BIGINT NOT NULL, pad VARCHAR(500) NOT NULL, KEY (v))",
    ] {
        client.execute(sql).await.unwrap();
    }
    let pad = "p".repeat(400);
    let rows: Vec<_> = (0..100).map(|id| format!("({id}, 0, '{pad}')")).collect();
    let insert = format!("INSERT INTO o.t VALUES {}", rows.join(", "));
    client.execute(&insert).await.unwrap();
}

async fn connection_id(client: &mut Client) -> u64 {
    client.number("SELECT CONNECTION_ID()").await.unwrap() as u64
}

/// A connection that changes two rows again and again, and what it was told of them.
struct Writer {
    client: Option<Client>,
    row: u64,
    next: u64,
    told: u64,
    /// What may have become of commits whose outcome was not told.
    open: Vec<u64>,
}

impl Writer {
    fn new(row: u64) -> Self {
        Self {
            client: None,
            row,
            next: 1,
            told: 0,
            open: Vec::new(),
        }
    }

    /// One transaction; true if it was acknowledged.
    async fn write(&mut self, cluster: std::net::SocketAddr) -> bool {
        if self.client.is_none() {
            match Client::connect(cluster, Some("o")).await {
                Ok(client) => self.client = Some(client),
                Err(_) => return false,
            }
        }
        let client = self.client.as_mut().unwrap();
        let (n, row) = (self.next, self.row);
        self.next += 1;
        let change = |id| format!("UPDATE t SET v = {n} WHERE id = {id}");
        for sql in ["BEGIN", &change(row), &change(row + 1)] {
            if client.execute(sql).await.is_err() {
                // The transaction is rolled back at the latest with its connection.
                self.client = None;
                return false;
            }
        }
        match client.execute("COMMIT").await {
            Ok(_) => {
                self.told = n;
                self.open.clear();
                true
            }
            Err(_) => {
                self.open.push(n);
                self.client = None;
                false
            }
        }
    }

    /// Its rows are those of the last transaction that was acknowledged, or of a later one whose outcome
    /// was not told; both of the same.
    async fn check(&mut self, client: &mut Client) {
        let value = async |client: &mut Client, id: u64| {
            let sql = format!("SELECT v FROM o.t WHERE id = {id} FOR SHARE");
            client.number(&sql).await.unwrap() as u64
        };
        let (first, second) = (
            value(client, self.row).await,
            value(client, self.row + 1).await,
        );
        assert_eq!(first, second, "a transaction is there in part");
        let known = first == self.told || self.open.contains(&first);
        assert!(
            known,
            "{first} is there; told {}, open {:?}",
            self.told, self.open
        );
    }
}

/// Runs a statement until it succeeds.
async fn in_time(client: &mut Client, sql: &str) {
    let begun = Instant::now();
    while let Err(error) = client.execute(sql).await {
        assert!(begun.elapsed() < BACK, "{sql}: {error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_that_stand_still_or_are_away_lose_nothing_and_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = cluster(dir.path(), 2, &[]);
    let mut client = cluster.client(None).await.unwrap();
    create(&mut client).await;
    let (stopped, away) = (
        setting("PERIGEE_OUTAGE_STOPPED", 2),
        setting("PERIGEE_OUTAGE_AWAY", 2),
    );
    let mut dice = Dice::new();
    let mut writers: Vec<_> = (0..3).map(|n| Writer::new(10 * n)).collect();
    for round in 0..setting("PERIGEE_OUTAGE_ROUNDS", 3) {
        let roles = [Role::LogStore, Role::PageStore(0), Role::PageStore(1)];
        let role = roles[((round + dice.below(2)) % 3) as usize];
        let is_paused = dice.below(2) == 0;
        let lasts = dice.outage(if is_paused { stopped } else { away });
        let done = Arc::new(AtomicBool::new(false));
        let address = cluster.address();
        let writing: Vec<_> = writers
            .drain(..)
            .map(|mut writer| {
                let done = done.clone();
                tokio::spawn(async move {
                    let mut written = 0;
                    while !done.load(Ordering::Relaxed) {
                        written += u64::from(writer.write(address).await);
                        tokio::time::sleep(BETWEEN).await;
                    }
                    (writer, written)
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(100 + dice.below(200))).await;
        if is_paused {
            cluster.pause(role).unwrap();
            tokio::time::sleep(lasts).await;
            cluster.go_on(role).unwrap();
        } else {
            cluster.kill(role).unwrap();
            tokio::time::sleep(lasts).await;
            cluster.restart(role).unwrap();
        }
        // The frontend was not touched: it goes on by itself.
        in_time(&mut client, "UPDATE o.t SET v = v + 1 WHERE id = 99").await;
        done.store(true, Ordering::Relaxed);
        for writing in writing {
            let (mut writer, _) = writing.await.unwrap();
            writer.check(&mut client).await;
            let begun = Instant::now();
            while !writer.write(address).await {
                assert!(
                    begun.elapsed() < BACK,
                    "round {round}: {role:?} is not served again"
                );
            }
            writers.push(writer);
        }
        println!(
            "round {round}: {role:?} {} for {lasts:?}",
            if is_paused { "stood still" } else { "was away" }
        );
    }
    // What was told is there after a crash of everything, too.
    cluster.kill(Role::Frontend).unwrap();
    cluster.restart(Role::Frontend).unwrap();
    let mut client = cluster.client(None).await.unwrap();
    for writer in &mut writers {
        writer.check(&mut client).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_without_its_log_store_can_be_stopped_and_happens_later() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = cluster(dir.path(), 1, &[]);
    let mut client = cluster.client(None).await.unwrap();
    create(&mut client).await;
    let mut waiting = cluster.client(Some("o")).await.unwrap();
    let id = connection_id(&mut waiting).await;
    cluster.pause(Role::LogStore).unwrap();
    let commit = tokio::spawn(async move {
        let sql = "UPDATE t SET v = 7 WHERE id = 1";
        waiting.execute(sql).await.unwrap_err().to_string()
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!commit.is_finished(), "nothing is acknowledged");
    let row = |v| format!("SELECT COUNT(*) FROM o.t WHERE v = {v}");
    assert_eq!(client.number(&row(0)).await.unwrap(), 100.0, "reads go on");
    let begun = Instant::now();
    client.execute(&format!("KILL QUERY {id}")).await.unwrap();
    let told = commit.await.unwrap();
    assert!(begun.elapsed() < TOLD, "{:?}", begun.elapsed());
    assert!(
        told.contains("1180") && told.contains("not durable yet"),
        "{told}"
    );
    cluster.go_on(Role::LogStore).unwrap();
    in_time(&mut client, "UPDATE o.t SET v = 8 WHERE id = 2").await;
    assert_eq!(client.number(&row(7)).await.unwrap(), 1.0, "it took effect");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_of_a_store_that_hangs_can_be_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = cluster(dir.path(), 1, &[]);
    let mut client = cluster.client(None).await.unwrap();
    create(&mut client).await;
    support::consolidated(&mut client).await;
    let more = "INSERT INTO o.t SELECT id + 100 * POW(2, ";
    for n in 0..6 {
        let sql = format!("{more}{n}), v, pad FROM o.t");
        client.execute(&sql).await.unwrap();
    }
    // With a pool that has only the pages that planning looks at.
    cluster.stop(Role::Frontend).unwrap();
    cluster.restart(Role::Frontend).unwrap();
    let mut client = cluster.client(Some("o")).await.unwrap();
    client.number("SELECT v FROM t WHERE id = 0").await.unwrap();
    let of_one_row = (1..60).map(|n| format!("SELECT pad FROM t WHERE id = {}", 100 * n));
    kill_one_that_hangs(&cluster, &mut client, of_one_row).await;
    for sql in [
        "SELECT MAX(pad) FROM t WHERE id BETWEEN 5000 AND 5500",
        "UPDATE t SET v = 1 WHERE id BETWEEN 4000 AND 4500",
        "DELETE FROM t WHERE id BETWEEN 3000 AND 3500",
        "SELECT COUNT(*) FROM t WHERE pad LIKE '%x%'",
    ] {
        kill_one_that_hangs(&cluster, &mut client, [sql.to_owned()]).await;
    }
}

/// Has the Page Store stand still and runs statements until one needs a page of it; then kills that one.
async fn kill_one_that_hangs(
    cluster: &Cluster,
    client: &mut Client,
    statements: impl IntoIterator<Item = String>,
) {
    cluster.pause(Role::PageStore(0)).unwrap();
    for sql in statements {
        let mut reader = cluster.client(Some("o")).await.unwrap();
        let id = connection_id(&mut reader).await;
        let text = sql.clone();
        let read = tokio::spawn(async move {
            let told = reader.execute(&text).await;
            (reader, told.map_err(|e| e.to_string()))
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        if read.is_finished() {
            continue;
        }
        let begun = Instant::now();
        client.execute(&format!("KILL QUERY {id}")).await.unwrap();
        let (mut reader, told) = read.await.unwrap();
        println!("{sql}: told after {:?}", begun.elapsed());
        assert!(begun.elapsed() < TOLD, "{sql}: {:?}", begun.elapsed());
        let told = told.unwrap_err();
        assert!(told.contains("1317"), "{sql}: {told}");
        cluster.go_on(Role::PageStore(0)).unwrap();
        // Its connection lives on, and nothing is changed.
        let unchanged = "SELECT COUNT(*) FROM t WHERE v = 0";
        assert_eq!(reader.number(unchanged).await.unwrap(), 6400.0, "{sql}");
        return;
    }
    panic!("no statement needs the store");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_open_files_are_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = cluster(dir.path(), 1, &[]);
    let mut client = cluster.client(None).await.unwrap();
    create(&mut client).await;
    for role in [Role::LogStore, Role::PageStore(0)] {
        // No file can be opened any more; those that are open stay.
        limit_files(cluster.pid(role).unwrap(), 3);
        let mut other = cluster.client(Some("o")).await.unwrap();
        // New slices, labels, PLogs and segments need files.
        let pad = "q".repeat(400);
        let busy = tokio::spawn(async move {
            for n in 0..20 {
                let sql = format!("UPDATE t SET v = {n}, pad = '{pad}' WHERE id < 90");
                drop(other.execute(&sql).await);
            }
        });
        tokio::time::sleep(Duration::from_millis(1500)).await;
        limit_files(cluster.pid(role).unwrap(), u64::MAX);
        busy.await.unwrap();
        in_time(&mut client, "UPDATE o.t SET v = v + 1 WHERE id = 99").await;
        let all = client.number("SELECT COUNT(*) FROM o.t").await.unwrap();
        assert_eq!(all, 100.0, "{role:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_open_files_goes_on_with_those_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Embedded::start(&binary(), dir.path(), &[]).unwrap();
    let mut client = server.client(None).await.unwrap();
    create(&mut client).await;
    let mut writer = server.client(Some("o")).await.unwrap();
    let mut sorter = server.client(Some("o")).await.unwrap();
    sorter
        .execute("SET query_memory_limit = 8388608")
        .await
        .unwrap();
    limit_files(server.pid().unwrap(), 3);
    let address = server.address();
    let late = tokio::spawn(async move { Client::connect(address, None).await });
    let writing = tokio::spawn(async move {
        for n in 1..=20 {
            let sql = format!("UPDATE t SET v = {n} WHERE id < 90");
            drop(writer.execute(&sql).await);
        }
    });
    // It needs a file for what does not fit.
    let spill =
        "SELECT CONCAT(LEFT(a.pad, 40), b.id) AS x FROM t a, t b, t c WHERE c.id < 5 ORDER BY x";
    let error = sorter.query(spill).await.unwrap_err().to_string();
    assert!(error.contains("Too many open files"), "{error}");
    let all = client.number("SELECT COUNT(*) FROM o.t").await;
    assert_eq!(all.unwrap(), 100.0);
    comes_to_rest("the server", async || server.cpu().unwrap()).await;
    assert!(!late.is_finished(), "there is no file for another client");
    limit_files(server.pid().unwrap(), u64::MAX);
    writing.await.unwrap();
    in_time(&mut client, "UPDATE o.t SET v = v + 1 WHERE id = 99").await;
    let mut late = late.await.unwrap().unwrap();
    assert_eq!(
        late.number("SELECT COUNT(*) FROM o.t").await.unwrap(),
        100.0
    );
    assert_eq!(sorter.query(spill).await.unwrap().len(), 50_000);
    server.stop().unwrap();
}

/// CPU that a process uses in a second at most if it only waits.
const AT_REST: Duration = Duration::from_millis(500);

/// Waits for a second in which the process only waits. What it had begun to do may take a few seconds
/// before; a loop that tries without a pause never lets such a second come.
async fn comes_to_rest(name: &str, cpu: impl AsyncFn() -> Duration) {
    let begun = Instant::now();
    loop {
        let before = cpu().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let used = cpu().await.saturating_sub(before);
        if used < AT_REST {
            return;
        }
        assert!(begun.elapsed() < BACK, "{name}: {used:?} of CPU a second");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_that_cannot_accept_connections_wait_without_work() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = cluster(dir.path(), 1, &[]);
    for (role, name) in [
        (Role::LogStore, "log-store"),
        (Role::PageStore(0), "page-store-0"),
    ] {
        limit_files(cluster.pid(role).unwrap(), 3);
        let address = address(dir.path(), name);
        let waits = tokio::net::TcpStream::connect(address).await.unwrap();
        comes_to_rest(name, async || cluster.cpu(role).unwrap()).await;
        limit_files(cluster.pid(role).unwrap(), u64::MAX);
        drop(waits);
    }
    let mut client = cluster.client(None).await.unwrap();
    create(&mut client).await;
}

/// A second frontend of the cluster in `dir`, until it is killed.
fn second_frontend(dir: &Path) -> std::process::Child {
    let ready = dir.join("second.ready");
    let _ = std::fs::remove_file(&ready);
    let child = Command::new(binary())
        .args([
            "frontend",
            "--listen",
            "127.0.0.1:0",
            "--status-listen",
            "off",
        ])
        .args(["--log-store", &address(dir, "log-store")])
        .args(["--page-store", &address(dir, "page-store-0")])
        .arg("--ready-file")
        .arg(&ready)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !ready.exists() {
        assert!(begun.elapsed() < BACK, "the second frontend does not serve");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frontend_that_can_never_serve_again_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = cluster(dir.path(), 1, &[]);
    let mut client = cluster.client(None).await.unwrap();
    create(&mut client).await;
    let mut second = second_frontend(dir.path());
    // The first notices at its next write at the latest.
    drop(client.execute("UPDATE o.t SET v = 1 WHERE id = 1").await);
    let begun = Instant::now();
    while !cluster.has_failed(Role::Frontend).unwrap() {
        assert!(begun.elapsed() < BACK, "it goes on");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let log = std::fs::read_to_string(dir.path().join("frontend.log")).unwrap();
    assert!(log.contains("it can do no more work"), "{log}");
    second.kill().unwrap();
    second.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frontend_that_was_taken_over_answers_no_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = cluster(dir.path(), 1, &[]);
    create(&mut cluster.client(None).await.unwrap()).await;
    let reads = ["SELECT SUM(v) FROM o.t", "SELECT v FROM o.t WHERE id = 7"];
    for round in 0..6 {
        let mut old = cluster.client(None).await.unwrap();
        // All of it is in its memory.
        for sql in reads {
            assert_eq!(old.number(sql).await.unwrap() as u64 % 7, 0, "{sql}");
        }
        // One that stood still meanwhile finds the statements of its clients when it wakes up.
        let stood_still = round % 3 == 2;
        if stood_still {
            cluster.pause(Role::Frontend).unwrap();
        }
        let mut second = second_frontend(dir.path());
        if round % 2 == 1 {
            let text = std::fs::read_to_string(dir.path().join("second.ready")).unwrap();
            let address = text.trim().parse().unwrap();
            let mut new = Client::connect(address, None).await.unwrap();
            new.execute("UPDATE o.t SET v = v + 7").await.unwrap();
        }
        for sql in reads {
            let wake_up = async {
                if stood_still {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    cluster.go_on(Role::Frontend).unwrap();
                }
            };
            let (told, ()) = tokio::join!(old.number(sql), wake_up);
            let told = told.map_err(|e| e.to_string());
            assert!(told.is_err(), "round {round}: {sql} is answered: {told:?}");
        }
        let new = cluster.client(None).await;
        assert!(new.is_err(), "round {round}: it takes new connections");
        let begun = Instant::now();
        while !cluster.has_failed(Role::Frontend).unwrap() {
            assert!(begun.elapsed() < BACK, "it goes on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        second.kill().unwrap();
        second.wait().unwrap();
        cluster.restart(Role::Frontend).unwrap();
    }
}
