//! NDP scans while sysbench writes: how much each keeps of what it does alone.
//!
//! The scans are Q1 and Q6 of TPC-H over lineitem, whose answers are known, and the like of both over a
//! table that sysbench writes, whose answers are compared with those without NDP in the same snapshot.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::super::setup::{note, status, wait_until_consolidated};
use super::SysbenchOptions;
use super::median;
use super::program::Sysbench;
use super::server::Server;
use perigee_workload::tpch::TABLES;
use perigee_workload::{Client, Rows, WorkloadError, load};

/// The workload that writes.
const WORKLOAD: &str = "oltp_read_write";

/// One in so many rounds of the scans is compared with NDP off.
const COMPARED: u64 = 4;

/// The like of Q6 and Q1 over a table of sysbench: `k` changes, `c` changes, rows go and come.
const OVER_SYSBENCH: [&str; 2] = [
    "SELECT SUM(k * id), COUNT(*) FROM sbtest.sbtest1 WHERE k % 10 < 3 AND c LIKE '%5%'",
    "SELECT LEFT(c, 1), COUNT(*), SUM(k), MIN(id), MAX(id) FROM sbtest.sbtest1 WHERE id > 10 \
     GROUP BY LEFT(c, 1) ORDER BY 1",
];

/// What is measured.
#[derive(Clone, Debug, Serialize)]
pub struct MixedFigures {
    /// Threads of sysbench.
    pub threads: u32,
    /// sysbench's transactions a second beside the scans ÷ alone, median of the pairs.
    pub sysbench_kept: f64,
    /// Rounds of the scans a second beside sysbench ÷ alone, median of the pairs.
    pub scans_kept: f64,
    /// Of the records of sysbench's table that the scans went through beside sysbench: those whose
    /// visibility storage could not decide.
    pub ambiguous_share: f64,
    /// Rounds whose answers were compared with those without NDP, all equal.
    pub compared: u64,
    /// Each pair: sysbench alone, beside scans; scans alone, beside sysbench; a second.
    pub pairs: Vec<[f64; 4]>,
}

/// What a loop of scans did.
#[derive(Clone, Copy, Default)]
struct Scanned {
    rounds: u64,
    compared: u64,
    seconds: f64,
    ambiguous: u64,
}

impl Scanned {
    fn rate(&self) -> f64 {
        self.rounds as f64 / self.seconds
    }
}

/// Measures it.
pub(super) async fn measure(
    sysbench: &Sysbench,
    options: &SysbenchOptions,
    server: &Server,
) -> Result<MixedFigures, WorkloadError> {
    let known = prepare(options, server).await?;
    let alone = Duration::from_secs(u64::from(options.seconds));
    let (mut pairs, mut beside) = (Vec::new(), Scanned::default());
    let mut compared = 0;
    for _ in 0..options.pairs {
        let run = |seconds| sysbench.run(server, WORKLOAD, options.scan_threads, seconds);
        let writes_alone = run(options.seconds).await?;
        let scans_alone = scan_until(server, &known, &AtomicBool::new(false), Some(alone)).await?;
        let stop = AtomicBool::new(false);
        let (writes, scans) = tokio::join!(
            async {
                let run = run(options.seconds).await;
                stop.store(true, Ordering::Relaxed);
                run
            },
            scan_until(server, &known, &stop, None)
        );
        let (writes, scans) = (writes?, scans?);
        note(&format!(
            "sysbench {:.0}/s alone, {:.0}/s beside scans; scans {:.2}/s alone, {:.2}/s beside",
            writes_alone.transactions,
            writes.transactions,
            scans_alone.rate(),
            scans.rate()
        ));
        pairs.push([
            writes_alone.transactions,
            writes.transactions,
            scans_alone.rate(),
            scans.rate(),
        ]);
        beside.rounds += scans.rounds;
        beside.ambiguous += scans.ambiguous;
        compared += scans_alone.compared + scans.compared;
    }
    let kept = |alone: usize| median(pairs.iter().map(|p| p[alone + 1] / p[alone]).collect());
    let records = beside.rounds * OVER_SYSBENCH.len() as u64 * u64::from(options.rows);
    Ok(MixedFigures {
        threads: options.scan_threads,
        sysbench_kept: kept(0),
        scans_kept: kept(2),
        ambiguous_share: beside.ambiguous as f64 / records.max(1) as f64,
        compared,
        pairs,
    })
}

/// Loads lineitem; returns Q1 and Q6 with their answers without NDP.
async fn prepare(
    options: &SysbenchOptions,
    server: &Server,
) -> Result<Vec<(String, Rows)>, WorkloadError> {
    let data = options.bench().data()?;
    let mut client = server.client(None).await?;
    client
        .execute(&format!("CREATE DATABASE {}", load::SCHEMA))
        .await?;
    client.execute(&format!("USE {}", load::SCHEMA)).await?;
    let lineitem = TABLES.iter().find(|table| table.name == "lineitem");
    let lineitem = lineitem.expect("TPC-H has it");
    client.execute(&lineitem.create()).await?;
    load::load_table(&mut client, &data, lineitem.name).await?;
    wait_until_consolidated(&mut client).await?;
    client.execute("SET ndp_mode = OFF").await?;
    let mut known = Vec::new();
    for (number, sql) in perigee_workload::tpch::queries(options.scan_scale) {
        if [1, 6].contains(&number) {
            let rows = client.query(&sql).await?;
            known.push((sql, rows));
        }
    }
    client.close().await?;
    Ok(known)
}

/// Scans in a loop until told to stop or for so long.
async fn scan_until(
    server: &Server,
    known: &[(String, Rows)],
    stop: &AtomicBool,
    time: Option<Duration>,
) -> Result<Scanned, WorkloadError> {
    let mut client = server.client(Some(load::SCHEMA)).await?;
    client.execute("SET ndp_min_pages = 0").await?;
    let mut done = Scanned::default();
    let mut comparing = 0.0;
    let (before, begin) = (ambiguous(&mut client).await?, Instant::now());
    while !stop.load(Ordering::Relaxed) && time.is_none_or(|time| begin.elapsed() < time) {
        let compares = done.rounds % COMPARED == 0;
        client.execute("BEGIN").await?;
        for (sql, answer) in known {
            let rows = client.query(sql).await?;
            equal(sql, &rows, answer)?;
        }
        let mut rows = Vec::new();
        for sql in OVER_SYSBENCH {
            rows.push(client.query(sql).await?);
        }
        if compares {
            let begin = Instant::now();
            compare(&mut client, &rows).await?;
            done.compared += 1;
            comparing += begin.elapsed().as_secs_f64();
        }
        client.execute("COMMIT").await?;
        done.rounds += 1;
    }
    done.seconds = begin.elapsed().as_secs_f64() - comparing;
    done.ambiguous = ambiguous(&mut client).await?.saturating_sub(before);
    client.close().await?;
    Ok(done)
}

/// The same queries in the same snapshot without NDP.
async fn compare(client: &mut Client, rows: &[Rows]) -> Result<(), WorkloadError> {
    client.execute("SET ndp_mode = OFF").await?;
    for (sql, rows) in OVER_SYSBENCH.iter().zip(rows) {
        let without = client.query(sql).await?;
        equal(sql, rows, &without)?;
    }
    client.execute("SET ndp_mode = ON").await.map(drop)
}

fn equal(sql: &str, rows: &Rows, answer: &Rows) -> Result<(), WorkloadError> {
    if rows == answer {
        return Ok(());
    }
    Err(WorkloadError::Unexpected(format!(
        "{sql}\nbeside sysbench gives {rows:?}\nwithout NDP {answer:?}"
    )))
}

async fn ambiguous(client: &mut Client) -> Result<u64, WorkloadError> {
    status(client, "ndp_ambiguous_records").await
}

impl fmt::Display for MixedFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "scans beside {WORKLOAD}, {} threads: sysbench keeps {:.2}, the scans keep {:.2}; {:.4} of \
             the records were ambiguous; {} rounds equal to those without NDP",
            self.threads, self.sysbench_kept, self.scans_kept, self.ambiguous_share, self.compared
        )
    }
}
