//! Near-data processing while others write: in one snapshot, random queries give the same rows with it
//! off and on, over stores that reduce pages, that decline every page, and that return every record
//! whole, while other connections change the same tables in transactions that are open, committed and
//! rolled back, and while the transaction itself has changed rows.
//!
//! `PERIGEE_PAIRS` sets the number of pairs of answers, `PERIGEE_SEED` the seed.
#![allow(clippy::unwrap_used, reason = "test code")]

mod statements {
    #![allow(dead_code, reason = "shared; no test uses all of it")]
    pub mod changes;
    pub mod compare;
    pub mod expressions;
    pub mod extremes;
    pub mod joined_changes;
    pub mod joins;
    pub mod queries;
    pub mod ranges;
    pub mod tables;
    pub mod windows;
}

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use perigee_testkit::{Rng, tested_binary};
use perigee_workload::{Client, Embedded, Rows, WorkloadError};
use statements::changes::{On, change, create_l, create_u, everything};
use statements::compare::{errno, keys, normal, number_of, shown};
use statements::queries::{Compared, Order, Query, query};
use statements::tables;

/// Connections that write.
const WRITERS: u64 = 3;

/// Queries in one snapshot.
const PER_SNAPSHOT: usize = 12;

/// Snapshots over one set of tables.
const SNAPSHOTS: usize = 10;

/// Errors that writers and readers meet because of each other: duplicate key, lock wait timeout,
/// deadlock, a record changed since the snapshot; and those of values too long or out of range, or of
/// none of an ENUM's.
const EXPECTED: [u16; 9] = [1062, 1205, 1213, 1020, 1406, 1264, 1048, 1690, 1265];

async fn connect(server: &Embedded, schema: &str) -> Client {
    let mut client = server.client(Some(schema)).await.unwrap();
    client.execute("SET ndp_min_pages = 0").await.unwrap();
    client
        .execute("SET SESSION innodb_lock_wait_timeout = 1")
        .await
        .unwrap();
    client
}

/// Changes rows in transactions until told to stop.
async fn write(mut client: Client, seed: u64, stop: Arc<AtomicBool>, changes: Arc<AtomicU64>) {
    let mut rng = Rng(seed);
    while !stop.load(Ordering::Relaxed) {
        client.execute("BEGIN").await.unwrap();
        for _ in 0..rng.between(1, 6) {
            let sql = change(&mut rng, &[On::T, On::T, On::S, On::L]);
            match client.execute(&sql).await {
                Ok(_) => drop(changes.fetch_add(1, Ordering::Relaxed)),
                Err(error) => assert!(EXPECTED.contains(&errno(&error)), "{sql}: {error}"),
            }
            // Open transactions with changes are what readers are to meet.
            tokio::time::sleep(Duration::from_millis(rng.between(0, 8) as u64)).await;
        }
        let end = *rng.choose(&["COMMIT", "COMMIT", "ROLLBACK"]);
        client.execute(end).await.unwrap();
    }
    client.close().await.unwrap();
}

/// Both answers to one query.
type Pair = [Result<Rows, WorkloadError>; 2];

async fn both(client: &mut Client, sql: &str) -> Pair {
    client.execute("SET ndp_mode = OFF").await.unwrap();
    let off = client.query(sql).await;
    client.execute("SET ndp_mode = ON").await.unwrap();
    [off, client.query(sql).await]
}

/// What the same snapshot says when it is asked once more, and by which plans; the rows of its tables
/// by their keys, too.
async fn described(client: &mut Client, sql: &str) -> String {
    let mut text = String::new();
    let tables = everything(&[On::T, On::S]);
    for sql in [&[sql], &tables[..]].concat() {
        for mode in ["OFF", "ON"] {
            let set = format!("SET ndp_mode = {mode}");
            client.execute(&set).await.unwrap();
            for query in [sql.to_owned(), format!("EXPLAIN {sql}")] {
                let rows = client.query(&query).await.unwrap();
                text += &format!("{mode} {query}\n{}", shown(&rows));
            }
        }
    }
    text
}

/// A query of the table with long values.
fn long_query(rng: &mut Rng) -> Query {
    Query {
        sql: (*rng.choose(&everything(&[On::L]))).to_owned(),
        columns: vec![Compared::Exactly; 4],
        order: Order::Rows,
        made: None,
    }
}

/// One snapshot: queries in both modes, between them changes of its own.
async fn snapshot(client: &mut Client, rng: &mut Rng) -> usize {
    client.execute("BEGIN").await.unwrap();
    let writes = rng.chance(3);
    let mut pairs = 0;
    for _ in 0..PER_SNAPSHOT {
        if writes && rng.chance(4) {
            let sql = change(rng, &[On::T, On::S, On::L]);
            if let Err(error) = client.execute(&sql).await {
                let code = errno(&error);
                assert!(EXPECTED.contains(&code), "{sql}: {error}");
                if code == 1020 || code == 1213 {
                    break; // the transaction is over
                }
            }
        }
        let query = match rng.chance(5) {
            true => long_query(rng),
            false => query(rng),
        };
        match both(client, &query.sql).await {
            [Ok(off), Ok(on)] => {
                let same = normal(&off, &query) == normal(&on, &query)
                    && keys(&off, &query) == keys(&on, &query);
                if !same {
                    let again = described(client, &query.sql).await;
                    let (sql, off, on) = (&query.sql, shown(&off), shown(&on));
                    panic!("{sql}\noff:\n{off}on:\n{on}{again}");
                }
                pairs += 1;
            }
            [Err(off), Err(on)] => assert_eq!(errno(&off), errno(&on), "{}", query.sql),
            [off, on] => panic!("{}\noff: {off:?}\non: {on:?}", query.sql),
        }
    }
    client.execute("ROLLBACK").await.unwrap();
    pairs
}

/// Runs snapshots beside writers until there are so many pairs.
async fn run(name: &str, args: &[&str], pairs: usize) {
    let dir = tempfile::tempdir().unwrap();
    let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let binary = tested_binary(env!("CARGO_BIN_EXE_perigee"));
    let server = Embedded::start(&binary, dir.path(), &args).unwrap();
    let seed = number_of("PERIGEE_SEED", 1) as u64;
    let (mut done, changes) = (0, Arc::new(AtomicU64::new(0)));
    for schema in seed.. {
        if done >= pairs {
            break;
        }
        let mut rng = Rng(schema);
        let schema = format!("db{schema}");
        let mut client = server.client(None).await.unwrap();
        for statement in tables::create(&mut rng, &schema) {
            client.execute(&statement).await.unwrap();
        }
        client.execute(&create_u()).await.unwrap();
        client.execute(&create_l()).await.unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let connection = connect(&server, &schema).await;
            let seed = rng.0.wrapping_add(writer << 32);
            writers.push(tokio::spawn(write(
                connection,
                seed,
                stop.clone(),
                changes.clone(),
            )));
        }
        let mut reader = connect(&server, &schema).await;
        for _ in 0..SNAPSHOTS {
            done += snapshot(&mut reader, &mut rng).await;
        }
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.await.unwrap();
        }
        client
            .execute(&format!("DROP DATABASE {schema}"))
            .await
            .unwrap();
    }
    let changes = changes.load(Ordering::Relaxed);
    println!("{name}: {done} pairs of answers equal beside {changes} changes");
    assert!(changes > done as u64 / 20, "writers were busy");
}

fn pairs() -> usize {
    number_of("PERIGEE_PAIRS", 450) / 3
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_equal_where_storage_reduces_pages() {
    // A small buffer pool, so that most pages are in storage only.
    run("reduced", &["--buffer-pool", "1MiB"], pairs()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_equal_where_storage_declines_every_page() {
    run(
        "declined",
        &["--decline-every", "1", "--buffer-pool", "1MiB"],
        pairs(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_equal_where_storage_returns_every_record_whole() {
    let args = [
        "--all-ambiguous",
        "--split-behind-scans",
        "--buffer-pool",
        "1MiB",
    ];
    run("ambiguous", &args, pairs()).await;
}
