//! TPC-H at two small scales, over the MySQL protocol, against MariaDB's answers: embedded and as
//! processes, near-data processing off and on, tiny and large buffer pool; also with every record
//! ambiguous, with pages declined or split behind scans, and interpreted instead of compiled. With little
//! memory a query has the same answer, or error 1038; `PERIGEE_MEMORY=all` tries more limits, at the larger scale too.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::path::{Path, PathBuf};

use perigee_testkit::tested_binary;
use perigee_workload::{Client, Cluster, ClusterOptions, Embedded, answers, load, tpch};

/// The scale for all modes.
const SCALE: f64 = 0.01;

/// The scale for the main modes: accesses of thousands of pages, joins of 100,000 rows.
const LARGER: f64 = 0.1;

fn binary() -> PathBuf {
    tested_binary(env!("CARGO_BIN_EXE_perigee"))
}

fn args(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

async fn load_all(client: &mut Client, data: &Path, scale: f64) {
    load::generate(data, scale, |_| {}).unwrap();
    load::load(client, data, |_, _, _| {}).await.unwrap();
}

/// Runs all queries with near-data processing off and on (on means: wherever it is possible at all)
/// and compares every answer.
async fn check_queries(client: &mut Client, scale: f64, what: &str) {
    client.execute("SET ndp_min_pages = 0").await.unwrap();
    for mode in ["OFF", "ON"] {
        client
            .execute(&format!("SET ndp_mode = {mode}"))
            .await
            .unwrap();
        for (number, sql) in tpch::queries(scale) {
            let rows = client.query(&sql).await;
            let rows = rows.unwrap_or_else(|e| panic!("Q{number}, {what}, NDP {mode}: {e}"));
            let reference = answers::reference(scale, number).unwrap();
            let what = format!("MariaDB's answer ({what}, NDP {mode})");
            answers::expect_equal(
                &format!("Q{number}"),
                &what,
                &answers::to_text(&rows),
                reference,
            )
            .unwrap();
        }
    }
}

/// Starts an embedded server on tables that are there and checks its answers.
async fn embedded(dir: &Path, scale: f64, what: &str, arguments: &[&str]) {
    let mut server = Embedded::start(&binary(), dir, &args(arguments)).unwrap();
    let mut client = server.client(Some(load::SCHEMA)).await.unwrap();
    check_queries(&mut client, scale, what).await;
    client.close().await.unwrap();
    server.stop().unwrap();
}

/// Loads an embedded server, checks its answers, and again with each of some arguments.
async fn embedded_answers(scale: f64, modes: &[(&str, &[&str])]) {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Embedded::start(&binary(), dir.path(), &[]).unwrap();
    let mut client = server.client(None).await.unwrap();
    load_all(&mut client, &dir.path().join("data"), scale).await;
    check_queries(&mut client, scale, "embedded, right after the load").await;
    client.close().await.unwrap();
    server.stop().unwrap();
    for (what, arguments) in modes {
        embedded(dir.path(), scale, &format!("embedded, {what}"), arguments).await;
    }
}

/// Runs all queries with limits of memory that most exceed: MariaDB's answer, or 1038.
async fn check_with_little_memory(client: &mut Client, scale: f64, limits: &[u64]) {
    client.execute("SET ndp_min_pages = 0").await.unwrap();
    let mut refused = 0;
    for (limit, dop) in limits.iter().zip([2, 1].into_iter().cycle()) {
        let set = format!("SET query_memory_limit = {limit}, parallel_default_dop = {dop}");
        client.execute(&set).await.unwrap();
        for (number, sql) in tpch::queries(scale) {
            let rows = match client.query(&sql).await {
                Ok(rows) => answers::to_text(&rows),
                Err(error) => {
                    let text = error.to_string();
                    let expected = text.contains("1038") && text.contains("HY001");
                    assert!(expected, "Q{number}, {set}: {text}");
                    refused += 1;
                    continue;
                }
            };
            let what = format!("MariaDB's answer ({set})");
            let reference = answers::reference(scale, number).unwrap();
            answers::expect_equal(&format!("Q{number}"), &what, &rows, reference).unwrap();
        }
    }
    println!("{refused} times 1038 with {limits:?} bytes at scale {scale}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_with_little_memory_are_mariadbs_or_1038() {
    let all = std::env::var("PERIGEE_MEMORY").is_ok_and(|what| what == "all");
    let (scales, limits): (&[f64], &[u64]) = match all {
        true => (&[SCALE, LARGER], &[1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144]),
        false => (&[SCALE], &[1, 6]),
    };
    let limits: Vec<u64> = limits.iter().map(|mebibytes| mebibytes << 20).collect();
    for scale in scales {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Embedded::start(&binary(), dir.path(), &[]).unwrap();
        let mut client = server.client(None).await.unwrap();
        load_all(&mut client, &dir.path().join("data"), *scale).await;
        check_with_little_memory(&mut client, *scale, &limits).await;
        client.close().await.unwrap();
        server.stop().unwrap();
    }
}

const TINY_POOL: (&str, &[&str]) = ("tiny buffer pool", &["--buffer-pool", "6MiB"]);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_answers_are_mariadbs() {
    let modes: [(&str, &[&str]); 5] = [
        TINY_POOL,
        ("every record ambiguous", &["--all-ambiguous"]),
        ("every third page declined", &["--decline-every", "3"]),
        ("leaves split behind scans", &["--split-behind-scans"]),
        ("interpreted", &["--interpret"]),
    ];
    embedded_answers(SCALE, &modes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn larger_embedded_answers_are_mariadbs() {
    embedded_answers(LARGER, &[TINY_POOL]).await;
}

/// Rows of one INSERT.
const INSERT_ROWS: usize = 500;

/// A line of a table's file as the values of an INSERT.
fn values(line: &str) -> String {
    let fields = line.strip_suffix('|').unwrap().split('|');
    let literals: Vec<_> = fields
        .map(|field| format!("'{}'", field.replace('\'', "''")))
        .collect();
    format!("({})", literals.join(","))
}

/// Fills all tables by INSERT, in random order of their keys.
async fn insert_all(client: &mut Client, data: &Path) {
    load::generate(data, SCALE, |_| {}).unwrap();
    let create = format!("CREATE DATABASE {}", load::SCHEMA);
    client.execute(&create).await.unwrap();
    client
        .execute(&format!("USE {}", load::SCHEMA))
        .await
        .unwrap();
    for table in tpch::TABLES {
        client.execute(&table.create()).await.unwrap();
        let text = std::fs::read_to_string(load::file(data, table.name)).unwrap();
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_by_cached_key(|line| perigee_types::checksum(line.as_bytes()));
        for lines in lines.chunks(INSERT_ROWS) {
            let rows: Vec<_> = lines.iter().map(|line| values(line)).collect();
            let insert = format!("INSERT INTO {} VALUES {}", table.name, rows.join(","));
            let inserted = client.execute(&insert).await.unwrap();
            assert_eq!(inserted, lines.len() as u64);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_after_inserts_in_random_order_are_mariadbs() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Embedded::start(&binary(), dir.path(), &[]).unwrap();
    let mut client = server.client(None).await.unwrap();
    insert_all(&mut client, &dir.path().join("data")).await;
    check_queries(&mut client, SCALE, "embedded, right after the inserts").await;
    client.close().await.unwrap();
    server.stop().unwrap();
    embedded(dir.path(), SCALE, "embedded, inserted and restarted", &[]).await;
}

/// Loads a cluster of processes and checks its answers, with a large and with a tiny buffer pool.
async fn answers_of_a_cluster(scale: f64) {
    let dir = tempfile::tempdir().unwrap();
    let options = ClusterOptions::new(binary(), dir.path().to_owned());
    let mut cluster = Cluster::start(options).unwrap();
    let mut client = cluster.client(None).await.unwrap();
    load_all(&mut client, &dir.path().join("data"), scale).await;
    check_queries(&mut client, scale, "processes, right after the load").await;
    client.close().await.unwrap();
    cluster.restart_frontend_with(args(TINY_POOL.1)).unwrap();
    let mut client = cluster.client(Some(load::SCHEMA)).await.unwrap();
    check_queries(&mut client, scale, "processes, tiny buffer pool").await;
    client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_of_processes_are_mariadbs() {
    answers_of_a_cluster(SCALE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn larger_answers_of_processes_are_mariadbs() {
    answers_of_a_cluster(LARGER).await;
}
