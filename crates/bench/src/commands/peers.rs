//! `perigee-bench peers`: the 22 queries in one process with NDP, against DataFusion over Parquet
//! files of the same data and against MariaDB with InnoDB, in the same run.

use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use serde::Serialize;

use super::innodb::InnoDb;
use super::setup::{BenchOptions, data_bytes, note};
use super::tpch::cores;
use crate::pairs::geometric_mean;
use crate::parquet::Parquet;
use perigee_workload::{Client, Embedded, WorkloadError, answers, load};

/// Runs of each query here and by DataFusion, interleaved; the best counts.
const RUNS: usize = 4;

/// What InnoDB gets for a query, and so the most that is counted: some take it hours.
const INNODB_LIMIT: Duration = Duration::from_secs(60);

/// A query that takes InnoDB longer than this runs there once.
const INNODB_LONG: f64 = 2.0;

/// What the command measures.
#[derive(Clone, Debug, Serialize)]
pub struct PeerFigures {
    /// TPC-H scale factor.
    pub scale: f64,
    /// Geometric mean over the queries of our time ÷ DataFusion's.
    pub vs_datafusion_parquet: f64,
    /// Geometric mean over the queries of our time ÷ InnoDB's, or the time it was given.
    pub vs_innodb: f64,
    /// Queries that InnoDB did not answer in the time it was given.
    pub innodb_unfinished: Vec<usize>,
    /// Each query: number, our seconds, DataFusion's seconds, InnoDB's seconds.
    pub queries: Vec<(usize, f64, f64, f64)>,
}

/// Runs the command.
///
/// # Errors
/// If a process fails, or MariaDB is not installed.
pub fn peers(options: &BenchOptions) -> BoxFuture<'_, Result<PeerFigures, WorkloadError>> {
    Box::pin(async move {
        let data = options.data()?;
        let mut innodb = InnoDb::load(options, &data).await?;
        let limit = format!("SET max_statement_time = {}", INNODB_LIMIT.as_secs());
        innodb.client.execute(&limit).await?;
        let memory = (2 * data_bytes(&data)).to_string();
        let args = ["--pool", &memory].map(str::to_owned);
        let server = Embedded::start(&options.binary, &options.stores("embedded")?, &args)?;
        let mut client = server.client(None).await?;
        load::load(&mut client, &data, |table, rows, time| {
            note(&format!(
                "load: {table}, {rows} rows in {:.2} s",
                time.as_secs_f64()
            ));
        })
        .await?;
        client.execute("SET ndp_mode = ON").await?;
        Parquet::write(&data).await?;
        let peer = Parquet::open(&data, cores()).await?;
        let (mut queries, mut innodb_unfinished) = (Vec::new(), Vec::new());
        for (number, sql) in perigee_workload::tpch::queries(options.scale) {
            let (mut ours, mut theirs, mut inno) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
            for run in 0..RUNS {
                let begin = Instant::now();
                let rows = client.query(&sql).await?;
                ours = ours.min(begin.elapsed().as_secs_f64());
                if let Some(reference) = answers::reference(options.scale, number) {
                    answers::expect_equal(
                        &format!("Q{number}"),
                        "reference",
                        &answers::to_text(&rows),
                        reference,
                    )?;
                }
                let (count, seconds) = peer.run(&sql).await?;
                theirs = theirs.min(seconds);
                if count != rows.len() {
                    let text = format!("Q{number}: {} rows, DataFusion has {count}", rows.len());
                    return Err(WorkloadError::Unexpected(text));
                }
                if run == 0 || inno < INNODB_LONG {
                    match run_innodb(&mut innodb.client, number, &sql, rows.len()).await? {
                        Some(seconds) => inno = inno.min(seconds),
                        None => {
                            inno = INNODB_LIMIT.as_secs_f64();
                            innodb_unfinished.push(number);
                        }
                    }
                }
            }
            note(&format!(
                "Q{number}: {ours:.3} s, DataFusion {theirs:.3} s, InnoDB {inno:.3} s"
            ));
            queries.push((number, ours, theirs, inno));
        }
        let mean = |ratio: fn(&(usize, f64, f64, f64)) -> f64| {
            geometric_mean(&queries.iter().map(ratio).collect::<Vec<_>>())
        };
        Ok(PeerFigures {
            scale: options.scale,
            vs_datafusion_parquet: mean(|(_, ours, datafusion, _)| ours / datafusion),
            vs_innodb: mean(|(_, ours, _, innodb)| ours / innodb),
            innodb_unfinished,
            queries,
        })
    })
}

/// Seconds that InnoDB takes for a query, or `None` if it is not done in its time.
async fn run_innodb(
    client: &mut Client,
    number: usize,
    sql: &str,
    expected: usize,
) -> Result<Option<f64>, WorkloadError> {
    let begin = Instant::now();
    match client.query(sql).await {
        Ok(rows) if rows.len() == expected => Ok(Some(begin.elapsed().as_secs_f64())),
        Ok(rows) => {
            let text = format!("Q{number}: {expected} rows, InnoDB has {}", rows.len());
            Err(WorkloadError::Unexpected(text))
        }
        Err(_) if begin.elapsed() >= INNODB_LIMIT => Ok(None),
        Err(error) => Err(error),
    }
}
