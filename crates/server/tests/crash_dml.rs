//! `kill -9` of each process at random moments under transactions of several connections that insert,
//! update and delete: every acknowledged commit is there, nothing else is, unfinished transactions are
//! rolled back, every tree is sound, and every index agrees with its table.
//!
//! Each connection writes rows of its own, so that what it was told says exactly which rows there must
//! be, and moves money between accounts that all share. `PERIGEE_CRASH_ROUNDS` sets how often something
//! is killed.
#![allow(clippy::unwrap_used, reason = "test code")]

mod support;

mod crash_dml {
    pub mod check;
    pub mod trees;
    pub mod writer;
}

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crash_dml::check::check;
use crash_dml::trees;
use crash_dml::writer::{Load, Rows, Writer, create};
use perigee_workload::{Client, Embedded, Role};
use support::{args, binary, cluster, perigee, stderr};

/// Connections that write.
const WRITERS: usize = 5;

/// Longest time from the first acknowledgement of a round to its end, in milliseconds.
const LONGEST: u64 = 400;

fn rounds() -> usize {
    let rounds = std::env::var("PERIGEE_CRASH_ROUNDS");
    rounds.map_or(20, |rounds| rounds.parse().unwrap())
}

/// SplitMix64 from the time of day: moments that differ from run to run. A failure prints the seed.
struct Chance(u64);

impl Chance {
    fn new() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self(now.unwrap().as_nanos() as u64)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn moment(&mut self) -> Duration {
        Duration::from_millis(self.below(LONGEST))
    }
}

/// What the connections know, from round to round.
struct Told {
    writers: Vec<Rows>,
}

/// The load of one round, while it runs.
struct Round {
    load: Arc<Load>,
    writers: Vec<tokio::task::JoinHandle<Rows>>,
    /// A transaction with many changes that never ends.
    holder: Option<Client>,
}

impl Round {
    /// Starts the writers, and waits until something was acknowledged.
    async fn start(clients: Vec<Client>, told: &mut Told, chance: &mut Chance) -> Self {
        let load = Arc::new(Load::default());
        let mut clients = clients.into_iter();
        let mut holder = clients.next().unwrap();
        hold(&mut holder).await;
        let mut writers = Vec::new();
        for ((number, rows), client) in told.writers.drain(..).enumerate().zip(clients) {
            let writer = Writer::new(number, rows, chance.below(u64::MAX), load.clone());
            writers.push(tokio::spawn(writer.run(client)));
        }
        while load.acknowledged() < 10 {
            let ended = writers.iter().all(tokio::task::JoinHandle::is_finished);
            assert!(!ended, "no writer gets anything done");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Self {
            load,
            writers,
            holder: Some(holder),
        }
    }

    /// Waits until the writers have ended, after a kill of what they talk to or on demand.
    async fn end(mut self, told: &mut Told) {
        self.load.stop();
        self.holder.take();
        for writer in self.writers {
            told.writers.push(writer.await.unwrap());
        }
    }
}

/// Changes many rows in a transaction that is never committed.
async fn hold(client: &mut Client) {
    for sql in [
        "BEGIN",
        "UPDATE d SET n = -n, s = CONCAT('held ', s), l = CONCAT(l, l) WHERE c = 99",
        "DELETE FROM d WHERE c = 99 AND id % 3 = 0",
        "INSERT INTO d SELECT c, id + 1000, n - 1000000, s, l FROM d WHERE c = 99 AND id < 100",
    ] {
        client.execute(sql).await.unwrap();
    }
}

async fn clients(mut connect: impl AsyncFnMut() -> Client) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..=WRITERS {
        clients.push(connect().await);
    }
    clients
}

fn nothing_told() -> Told {
    Told {
        writers: vec![Rows::default(); WRITERS],
    }
}

/// What is on disk is free of damage.
fn verify(store: &Path) {
    let dump = perigee(&["inspect", "slice", &store.to_string_lossy()]);
    assert!(dump.status.success(), "{}", stderr(&dump));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_keeps_what_was_committed_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let start =
        || Embedded::start(&binary(), dir.path(), &args(&["--buffer-pool", "2MiB"])).unwrap();
    let mut server = start();
    create(&mut server.client(None).await.unwrap()).await;
    let (mut told, mut chance) = (nothing_told(), Chance::new());
    for round in 0..rounds().div_ceil(2) {
        let when = format!("round {round}, chance {:#x}", chance.0);
        let clients = clients(async || server.client(Some("c")).await.unwrap()).await;
        let load = Round::start(clients, &mut told, &mut chance).await;
        tokio::time::sleep(chance.moment()).await;
        drop(server); // kill -9
        load.end(&mut told).await;
        if chance.below(3) == 0 {
            trees::verify_embedded(&dir.path().join("serve")).await;
        }
        server = start();
        // Killed again while it rolls back.
        if chance.below(3) == 0 {
            tokio::time::sleep(Duration::from_millis(chance.below(30))).await;
            drop(server);
            server = start();
        }
        let mut client = server.client(Some("c")).await.unwrap();
        check(&mut client, &mut told.writers, &when).await;
    }
    drop(server);
    trees::verify_embedded(&dir.path().join("serve")).await;
    verify(&dir.path().join("serve/pages"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_processes_keep_what_was_committed_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = cluster(dir.path(), 2, &["--buffer-pool", "2MiB"]);
    create(&mut cluster.client(None).await.unwrap()).await;
    let (mut told, mut chance) = (nothing_told(), Chance::new());
    let roles = [
        Role::Frontend,
        Role::LogStore,
        Role::PageStore(0),
        Role::PageStore(1),
    ];
    for round in 0..rounds() / 2 {
        let role = roles[round % roles.len()];
        let when = format!("round {round}, {role:?}, chance {:#x}", chance.0);
        let clients = clients(async || cluster.client(Some("c")).await.unwrap()).await;
        let load = Round::start(clients, &mut told, &mut chance).await;
        tokio::time::sleep(chance.moment()).await;
        cluster.kill(role).unwrap();
        if role != Role::Frontend {
            tokio::time::sleep(chance.moment() / 4).await;
            cluster.restart(role).unwrap();
            tokio::time::sleep(chance.moment()).await;
        }
        // The writers go on when a store is back; the frontend lives on in half of those rounds.
        if role == Role::Frontend || chance.below(2) == 0 {
            cluster.kill(Role::Frontend).unwrap();
            load.end(&mut told).await;
            cluster.restart(Role::Frontend).unwrap();
        } else {
            load.end(&mut told).await;
        }
        let mut client = cluster.client(Some("c")).await.unwrap();
        check(&mut client, &mut told.writers, &when).await;
    }
    for role in roles {
        cluster.kill(role).unwrap();
    }
    trees::verify_cluster(dir.path(), 2).await;
    verify(&dir.path().join("page-store-0"));
    verify(&dir.path().join("page-store-1"));
}
