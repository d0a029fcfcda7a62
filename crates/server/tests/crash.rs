//! `kill -9` of each process at random moments, while rows are inserted and files are loaded: what
//! was acknowledged is wholly there, what was not is wholly there or not at all, every index agrees
//! with its table, and the database goes on.
//!
//! `PERIGEE_CRASH_ROUNDS` sets how often each process is killed.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use perigee_workload::{Client, Embedded, Role, load, tpch};
use support::{args, binary, cluster, perigee, stderr};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Rows of an INSERT: some fit one page, some do not.
const BATCHES: [u64; 3] = [10, 300, 50];
/// Rows of a file to load.
const LINES: u64 = 4000;
/// Longest time from the first acknowledgement of a round to its end.
const LONGEST: u64 = 500;

/// Housekeeping comes round once a second.
const IDLE: Duration = Duration::from_millis(1100);

fn rounds() -> usize {
    let rounds = std::env::var("PERIGEE_CRASH_ROUNDS");
    rounds.map_or(1, |rounds| rounds.parse().unwrap())
}

/// Moments that differ from run to run; a failure prints the one it had.
struct Moments(u64);

impl Moments {
    fn new() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self(now.unwrap().as_nanos() as u64 | 1)
    }

    fn next(&mut self) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Duration::from_millis(self.0 % LONGEST)
    }
}

/// What was asked of a server, and what it acknowledged.
#[derive(Default)]
struct Told {
    /// Rows of each INSERT by its number.
    inserts: BTreeMap<u64, u64>,
    next_insert: u64,
    /// Whether each load was acknowledged, by the number of its table.
    loads: BTreeMap<u64, bool>,
}

async fn create(client: &mut Client) {
    for sql in [
        "CREATE DATABASE c",
        "CREATE TABLE c.t (id BIGINT NOT NULL, n BIGINT NOT NULL, s VARCHAR(40) NOT NULL, \
         x BIGINT, PRIMARY KEY (id), KEY by_n (n), KEY by_s (s))",
    ] {
        client.execute(sql).await.unwrap();
    }
}

/// What the texts of an INSERT's rows begin with, in another order than the statements.
fn prefix(n: u64) -> String {
    format!("{:05}.", n * 7919 % 10_007)
}

/// Inserts until a statement fails; returns rows by the number of the statement, and the number
/// after the last. `done` tells of each.
async fn insert_until_failure(
    mut client: Client,
    mut n: u64,
    done: watch::Sender<u64>,
) -> (BTreeMap<u64, u64>, u64) {
    let mut told = BTreeMap::new();
    loop {
        let count = BATCHES[n as usize % BATCHES.len()];
        let rows: Vec<_> = (n * 1000..n * 1000 + count)
            .map(|id| format!("({id}, {n}, '{}{id}', {id})", prefix(n)))
            .collect();
        let sql = format!("INSERT INTO t VALUES {}", rows.join(", "));
        if client.execute(&sql).await.is_err() {
            return (told, n + 1);
        }
        told.insert(n, count);
        n += 1;
        done.send_replace(n);
    }
}

/// Makes tables and loads the file into each until a statement fails; says which were acknowledged.
/// `done` tells of each.
async fn load_until_failure(
    mut client: Client,
    file: PathBuf,
    mut n: u64,
    done: watch::Sender<u64>,
) -> BTreeMap<u64, bool> {
    let mut told = BTreeMap::new();
    loop {
        let create = format!(
            "CREATE TABLE l{n} (id BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (id), KEY (n))"
        );
        if client.execute(&create).await.is_err() {
            return told;
        }
        let path = file.display();
        let load = format!("LOAD DATA LOCAL INFILE '{path}' INTO TABLE l{n}");
        let acknowledged = client.execute(&load).await.is_ok();
        told.insert(n, acknowledged);
        if !acknowledged {
            return told;
        }
        n += 1;
        done.send_replace(n);
    }
}

/// The two writers of a round.
struct Writers {
    inserts: JoinHandle<(BTreeMap<u64, u64>, u64)>,
    loads: JoinHandle<BTreeMap<u64, bool>>,
}

impl Writers {
    /// Starts them, and waits until something was acknowledged: in the first round a load, in the
    /// others an INSERT.
    async fn start(inserter: Client, loader: Client, file: &Path, told: &Told) -> Self {
        let next_load = told.loads.keys().next_back().map_or(0, |n| n + 1);
        let (inserted, mut inserts_done) = watch::channel(told.next_insert);
        let (loaded, mut loads_done) = watch::channel(next_load);
        let writers = Self {
            inserts: tokio::spawn(insert_until_failure(inserter, told.next_insert, inserted)),
            loads: tokio::spawn(load_until_failure(
                loader,
                file.to_owned(),
                next_load,
                loaded,
            )),
        };
        let first = match next_load {
            0 => &mut loads_done,
            _ => &mut inserts_done,
        };
        first.changed().await.unwrap();
        writers
    }

    /// Waits until the writers' connections are broken.
    async fn end(self, told: &mut Told) {
        let (inserts, next) = self.inserts.await.unwrap();
        told.inserts.extend(inserts);
        told.next_insert = next;
        told.loads.extend(self.loads.await.unwrap());
    }
}

/// Compares what is there with what was told; takes note of what turned out to be there.
async fn check(client: &mut Client, told: &mut Told, when: &str) {
    let grouped = "SELECT n, COUNT(*) FROM t GROUP BY n ORDER BY n";
    let found: BTreeMap<u64, u64> = numbers(client, grouped)
        .await
        .iter()
        .map(|row| (row[0], row[1]))
        .collect();
    for (n, rows) in &told.inserts {
        assert_eq!(
            found.get(n),
            Some(rows),
            "INSERT {n} was acknowledged; {when}"
        );
    }
    for (n, rows) in found {
        let whole = BATCHES[n as usize % BATCHES.len()];
        assert_eq!(rows, whole, "INSERT {n} is there in part; {when}");
        told.inserts.insert(n, rows);
    }
    indexes_agree(client, told, when).await;
    for (n, acknowledged) in &mut told.loads {
        let rows = format!("SELECT COUNT(*), COUNT(n) FROM l{n}");
        let rows = numbers(client, &rows).await.remove(0)[0];
        let whole = rows == LINES || (rows == 0 && !*acknowledged);
        assert!(whole, "load {n} ({acknowledged}) has {rows} rows; {when}");
        let by_index = format!("SELECT COUNT(*) FROM l{n} WHERE n = 3");
        let by_index = numbers(client, &by_index).await.remove(0)[0];
        assert_eq!(by_index, rows / 10, "the index of l{n}; {when}");
        *acknowledged = rows > 0;
    }
}

async fn numbers(client: &mut Client, sql: &str) -> Vec<Vec<u64>> {
    let rows = client.query(sql).await;
    let rows = rows.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let number = |cell: Option<String>| cell.map_or(0, |text| text.parse().unwrap());
    rows.into_iter()
        .map(|row| row.into_iter().map(number).collect())
        .collect()
}

/// Reads the rows of every statement that was ever sent through each key of the table.
async fn indexes_agree(client: &mut Client, told: &Told, when: &str) {
    for n in 0..told.next_insert {
        let rows = told.inserts.get(&n).copied().unwrap_or(0);
        let expected: Vec<Vec<u64>> = (n * 1000..n * 1000 + rows).map(|id| vec![id]).collect();
        let (first, last, prefix) = (n * 1000, n * 1000 + 999, prefix(n));
        for (key, condition) in [
            (
                "PRIMARY",
                format!("id BETWEEN {first} AND {last} AND x >= 0"),
            ),
            ("by_n", format!("n = {n}")),
            ("by_s", format!("s >= '{prefix}' AND s < '{prefix}~'")),
        ] {
            let sql = format!("SELECT id FROM t WHERE {condition}");
            if n == 0 {
                let plan = client.query(&format!("EXPLAIN {sql}")).await.unwrap();
                let used = plan[0][5].as_deref();
                assert_eq!(used, Some(key), "{sql} does not use {key}: {plan:?}");
            }
            let mut found = numbers(client, &sql).await;
            found.sort_unstable();
            assert!(found == expected, "rows of INSERT {n} by {key}; {when}");
        }
    }
}

fn write_lines(dir: &Path) -> PathBuf {
    let file = dir.join("lines");
    let lines: String = (0..LINES).map(|i| format!("{i}\t{}\n", i % 10)).collect();
    std::fs::write(&file, lines).unwrap();
    file
}

/// What is on disk is free of damage.
fn verify(store: &Path) {
    let dump = perigee(&["inspect", "slice", &store.to_string_lossy()]);
    assert!(dump.status.success(), "{}", stderr(&dump));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_are_killed_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = write_lines(dir.path());
    let mut cluster = cluster(dir.path(), 2, &[]);
    create(&mut cluster.client(None).await.unwrap()).await;
    let (mut told, mut moments, begin) = (Told::default(), Moments::new(), Instant::now());
    let roles = [
        Role::Frontend,
        Role::LogStore,
        Role::PageStore(0),
        Role::PageStore(1),
    ];
    for round in 0..rounds() * roles.len() {
        let role = roles[round % roles.len()];
        let (inserter, loader) = (
            cluster.client(Some("c")).await.unwrap(),
            cluster.client(Some("c")).await.unwrap(),
        );
        let writers = Writers::start(inserter, loader, &file, &told).await;
        let moment = moments.next();
        tokio::time::sleep(moment).await;
        cluster.kill(role).unwrap();
        if role != Role::Frontend {
            // The writers wait for the store and go on when it is back; then the frontend is
            // killed too, or they would never end.
            tokio::time::sleep(moments.next() / 4).await;
            cluster.restart(role).unwrap();
            tokio::time::sleep(moments.next()).await;
            cluster.kill(Role::Frontend).unwrap();
        }
        writers.end(&mut told).await;
        cluster.restart(Role::Frontend).unwrap();
        let when = format!(
            "round {round}, {role:?} was killed after {moment:?}, {:?} after the beginning",
            begin.elapsed()
        );
        let mut client = cluster.client(Some("c")).await.unwrap();
        check(&mut client, &mut told, &when).await;
    }
    assert!(
        told.loads.values().any(|whole| *whole),
        "nothing was loaded"
    );
    for role in roles {
        cluster.kill(role).unwrap();
    }
    verify(&dir.path().join("page-store-0"));
    verify(&dir.path().join("page-store-1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_process_that_is_killed_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = write_lines(dir.path());
    let start = || Embedded::start(&binary(), dir.path(), &args(&[])).unwrap();
    let mut server = start();
    create(&mut server.client(None).await.unwrap()).await;
    let (mut told, mut moments) = (Told::default(), Moments::new());
    for round in 0..2 * rounds() {
        let (inserter, loader) = (
            server.client(Some("c")).await.unwrap(),
            server.client(Some("c")).await.unwrap(),
        );
        let writers = Writers::start(inserter, loader, &file, &told).await;
        let moment = moments.next();
        tokio::time::sleep(moment).await;
        // Dropping it is kill -9.
        drop(server);
        writers.end(&mut told).await;
        server = start();
        let when = format!("round {round}, killed after {moment:?}");
        let mut client = server.client(Some("c")).await.unwrap();
        check(&mut client, &mut told, &when).await;
    }
    assert!(!told.inserts.is_empty(), "nothing was inserted");
    drop(server);
    verify(&dir.path().join("serve/pages"));
}

/// What happens to a server after a kill, before it is looked at.
#[derive(Clone, Copy, Debug)]
enum Between {
    /// Nothing.
    Nothing,
    /// It starts, does nothing for longer than housekeeping takes to come round, and is told to end.
    IdleAndStop,
    /// The same, and it is killed.
    IdleAndKill,
    /// It is killed while it starts, or soon after.
    KillAgain,
}

impl Between {
    const ALL: [Self; 4] = [
        Self::IdleAndStop,
        Self::KillAgain,
        Self::IdleAndKill,
        Self::Nothing,
    ];
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_restarts_after_kills_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let start = || Embedded::start(&binary(), dir.path(), &args(&[])).unwrap();
    let mut server = start();
    create(&mut server.client(None).await.unwrap()).await;
    let (mut told, mut moments) = (Told::default(), Moments::new());
    for round in 0..4 * rounds() {
        // The first INSERT of a process makes its PLog: most kills hit something near that.
        let client = server.client(Some("c")).await.unwrap();
        let (done, mut first) = watch::channel(0);
        let inserts = tokio::spawn(insert_until_failure(client, told.next_insert, done));
        if round == 0 {
            // On a busy machine no other round may come so far.
            first.changed().await.unwrap();
        }
        let moment = moments.next() / 40;
        tokio::time::sleep(moment).await;
        drop(server); // kill -9
        let (inserted, next) = inserts.await.unwrap();
        told.inserts.extend(inserted);
        told.next_insert = next;
        let between = Between::ALL[round % Between::ALL.len()];
        match between {
            Between::Nothing => {}
            Between::IdleAndStop | Between::IdleAndKill => {
                let mut idle = start();
                tokio::time::sleep(IDLE + 2 * moments.next()).await;
                if matches!(between, Between::IdleAndStop) {
                    idle.stop().unwrap();
                }
            }
            Between::KillAgain => {
                let again = start();
                tokio::time::sleep(moments.next() / 20).await;
                drop(again);
            }
        }
        server = start();
        let when = format!("round {round}, killed after {moment:?}, then {between:?}");
        let mut client = server.client(Some("c")).await.unwrap();
        check(&mut client, &mut told, &when).await;
        if round % 3 == 0 {
            // And what an orderly end leaves.
            server.stop().unwrap();
            server = start();
        }
    }
    assert!(!told.inserts.is_empty(), "nothing was inserted");
    println!(
        "{} rounds, {} inserts kept",
        4 * rounds(),
        told.inserts.len()
    );
    drop(server);
    verify(&dir.path().join("serve/pages"));
}

/// TPC-H tables that were loading when the frontend was killed are whole or empty, and can be
/// loaded again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tpch_is_loaded_again_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    load::generate(&data, 0.01, |_| {}).unwrap();
    let mut cluster = cluster(dir.path(), 2, &[]);
    let mut moments = Moments::new();
    for _ in 0..rounds() {
        let mut client = cluster.client(None).await.unwrap();
        let drop_all = format!("DROP DATABASE IF EXISTS {}", load::SCHEMA);
        client.execute(&drop_all).await.unwrap();
        let from = data.clone();
        let loading = tokio::spawn(async move {
            let done = load::load(&mut client, &from, |_, _, _| {}).await;
            done.is_ok()
        });
        tokio::time::sleep(Duration::from_millis(200) + 2 * moments.next()).await;
        cluster.kill(Role::Frontend).unwrap();
        let finished = loading.await.unwrap();
        cluster.restart(Role::Frontend).unwrap();
        check_tpch(&mut cluster.client(None).await.unwrap(), &data, finished).await;
    }
    let mut client = cluster.client(None).await.unwrap();
    let drop_all = format!("DROP DATABASE {}", load::SCHEMA);
    client.execute(&drop_all).await.unwrap();
    load::load(&mut client, &data, |_, _, _| {}).await.unwrap();
    check_tpch(&mut client, &data, true).await;
}

async fn check_tpch(client: &mut Client, data: &Path, whole: bool) {
    let tables = client.query("SHOW DATABASES LIKE 'tpch'").await.unwrap();
    if tables.is_empty() && !whole {
        return;
    }
    client.execute("USE tpch").await.unwrap();
    let there = client.query("SHOW TABLES").await.unwrap();
    for table in tpch::TABLES {
        let name = table.name;
        if !there.iter().any(|row| row[0].as_deref() == Some(name)) {
            assert!(!whole, "{name} is missing");
            continue;
        }
        let lines = std::fs::read_to_string(load::file(data, name)).unwrap();
        let lines = lines.lines().count() as u64;
        let rows = numbers(client, &format!("SELECT COUNT(*) FROM {name}")).await[0][0];
        assert!(
            rows == lines || (rows == 0 && !whole),
            "{name} has {rows} rows of {lines}"
        );
    }
}
