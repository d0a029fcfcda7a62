//! `perigee-bench sysbench`: the real sysbench with its MySQL driver, unchanged, against one process of
//! ours and against MariaDB with InnoDB, in interleaved pairs; then NDP scans while sysbench writes.
//!
//! Both servers run all the time, on loopback, with buffer pools of one size and a commit that is synced
//! before it is acknowledged. What counts is the ratio of transactions a second within a pair.

mod mixed;
mod program;
mod server;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::Serialize;

pub use mixed::MixedFigures;
use program::{Run, Sysbench};
use server::Server;

use super::setup::{BenchOptions, note};
use perigee_workload::WorkloadError;

/// The workloads, by sysbench's names.
pub const WORKLOADS: [&str; 4] = [
    "oltp_point_select",
    "oltp_read_only",
    "oltp_write_only",
    "oltp_read_write",
];

/// Between two runs, for what the one before left in the background.
const PAUSE: Duration = Duration::from_millis(500);

/// What to measure.
#[derive(Clone, Debug)]
pub struct SysbenchOptions {
    /// The `perigee` binary.
    pub binary: PathBuf,
    /// Directory for stores.
    pub dir: PathBuf,
    /// Tables.
    pub tables: u32,
    /// Rows of each table.
    pub rows: u32,
    /// Seconds of a run.
    pub seconds: u32,
    /// Interleaved pairs of runs of each workload at each number of threads.
    pub pairs: usize,
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// Workloads; all of [`WORKLOADS`] if empty.
    pub workloads: Vec<String>,
    /// TPC-H scale of lineitem for the scans beside sysbench; no scans if 0.
    pub scan_scale: f64,
    /// Threads of sysbench while scans run.
    pub scan_threads: u32,
    /// MariaDB on both sides: shows how far a ratio strays from 1 on this machine.
    pub calibrate: bool,
}

impl SysbenchOptions {
    /// What the commands share.
    fn bench(&self) -> BenchOptions {
        BenchOptions {
            binary: self.binary.clone(),
            scale: self.scan_scale,
            dir: self.dir.clone(),
            pairs: self.pairs,
        }
    }
}

/// What the command measures.
#[derive(Clone, Debug, Serialize)]
pub struct SysbenchFigures {
    /// Tables.
    pub tables: u32,
    /// Rows of each table.
    pub rows: u32,
    /// Seconds of a run.
    pub seconds: u32,
    /// By `workload_threads`: our transactions a second ÷ InnoDB's, median of the pairs.
    #[serde(flatten)]
    pub ratios: BTreeMap<String, f64>,
    /// Every pair.
    pub runs: Vec<PairFigures>,
    /// Scans beside sysbench.
    pub mixed: Option<MixedFigures>,
}

/// The pairs of one workload at one number of threads.
#[derive(Clone, Debug, Serialize)]
pub struct PairFigures {
    /// Name of the workload.
    pub workload: String,
    /// Threads of sysbench.
    pub threads: u32,
    /// Our runs.
    pub ours: Vec<Run>,
    /// InnoDB's runs.
    pub innodb: Vec<Run>,
}

/// Runs the command.
///
/// # Errors
/// If sysbench or MariaDB is not installed, or a process fails.
pub fn sysbench(
    options: &SysbenchOptions,
) -> BoxFuture<'_, Result<SysbenchFigures, WorkloadError>> {
    Box::pin(async move {
        let sysbench = Sysbench::find(options)?;
        let bench = options.bench();
        let ours = match options.calibrate {
            true => Server::mariadb(&bench, "calibration")?,
            false => Server::perigee(&bench)?,
        };
        let theirs = Server::mariadb(&bench, "mariadb")?;
        for server in [&ours, &theirs] {
            note(&format!("{}: prepare", server.name));
            server.make_schema().await?;
            sysbench.prepare(server).await?;
            sysbench.run(server, "oltp_read_write", 4, 2).await?; // warms both
            server.settle().await?;
        }
        let mut figures = SysbenchFigures {
            tables: options.tables,
            rows: options.rows,
            seconds: options.seconds,
            ratios: BTreeMap::new(),
            runs: Vec::new(),
            mixed: None,
        };
        let all: Vec<_> = WORKLOADS.iter().map(|w| (*w).to_owned()).collect();
        let workloads = match options.workloads.is_empty() {
            true => &all,
            false => &options.workloads,
        };
        for workload in workloads {
            for threads in &options.threads {
                let pair = pairs(&sysbench, options, [&ours, &theirs], workload, *threads).await?;
                let ratio = median(pair.ratios());
                note(&format!(
                    "{workload}, {threads} threads: {ratio:.2} of InnoDB"
                ));
                figures
                    .ratios
                    .insert(format!("{workload}_{threads}"), ratio);
                figures.runs.push(pair);
            }
        }
        drop(theirs);
        if options.scan_scale > 0.0 && !options.calibrate {
            figures.mixed = Some(mixed::measure(&sysbench, options, &ours).await?);
        }
        Ok(figures)
    })
}

async fn pairs(
    sysbench: &Sysbench,
    options: &SysbenchOptions,
    servers: [&Server; 2],
    workload: &str,
    threads: u32,
) -> Result<PairFigures, WorkloadError> {
    let mut runs = [Vec::new(), Vec::new()];
    for pair in 0..options.pairs {
        // Who goes first changes, so that neither always finds the machine as the other left it.
        for side in [pair % 2, 1 - pair % 2] {
            tokio::time::sleep(PAUSE).await;
            let server = servers[side];
            let run = sysbench
                .run(server, workload, threads, options.seconds)
                .await?;
            note(&format!(
                "{workload}, {threads} threads: {} {:.0} transactions/s, 95 % in {:.2} ms",
                server.name, run.transactions, run.latency_95
            ));
            runs[side].push(run);
        }
    }
    let [ours, innodb] = runs;
    Ok(PairFigures {
        workload: workload.to_owned(),
        threads,
        ours,
        innodb,
    })
}

impl PairFigures {
    fn ratios(&self) -> Vec<f64> {
        let pairs = self.ours.iter().zip(&self.innodb);
        pairs
            .map(|(ours, theirs)| ours.transactions / theirs.transactions)
            .collect()
    }
}

/// The middle value, or the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

impl SysbenchFigures {
    /// The figures as a table for a person.
    #[must_use]
    pub fn table(&self) -> String {
        use std::fmt::Write;
        let mut out = String::from(
            "workload            threads   ours/s  InnoDB/s  ratio   p95 ms  InnoDB's\n",
        );
        let middle =
            |runs: &[Run], figure: fn(&Run) -> f64| median(runs.iter().map(figure).collect());
        for pair in &self.runs {
            let _ = writeln!(
                out,
                "{:<19} {:>7} {:>8.0} {:>9.0} {:>6.2} {:>8.2} {:>9.2}",
                pair.workload,
                pair.threads,
                middle(&pair.ours, |r| r.transactions),
                middle(&pair.innodb, |r| r.transactions),
                median(pair.ratios()),
                middle(&pair.ours, |r| r.latency_95),
                middle(&pair.innodb, |r| r.latency_95),
            );
        }
        if let Some(mixed) = &self.mixed {
            let _ = write!(out, "{mixed}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }
}
