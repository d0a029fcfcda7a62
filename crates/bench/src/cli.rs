//! The command line: what can be measured, and with which server.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use perigee_bench::commands;
use perigee_workload::WorkloadError;

/// Measures Perigee; each figure is a ratio between contenders in one run.
///
/// Processes are those of the `perigee` binary beside this one. The environment variable PERIGEE_LOG sets what is
/// logged (error, warn, info, debug, trace).
#[derive(Debug, Parser)]
#[command(name = "perigee-bench", version)]
pub struct Cli {
    /// The perigee binary to measure, instead of the one beside this
    #[arg(long, global = true, value_name = "FILE")]
    server: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The Page Store half of NDP on Q6 over pages in memory, one thread: against memory bandwidth
    /// and a loop written by hand
    Scan(BenchArgs),
    /// The 22 queries of TPC-H with NDP off and on, on a cluster of processes: bytes, CPU, time
    Tpch(BenchArgs),
    /// Q6, Q13, Q14 and grouping in little memory of the Page Stores: sorting against hashing
    Columnburst(BenchArgs),
    /// Filters by a scan, by storage and by an index; joins, grouping, the first rows of an order, LIMIT: with and without
    /// what is pushed, and what the plan chooses
    Pushdown(BenchArgs),
    /// A selection of few rows and Q2 with NDP off and on, over sizes of the buffer pool; what the sampler estimates against
    /// what is true
    Yoursql(BenchArgs),
    /// One scan by the frontend and by storage, over shares of rows, columns, buffer pools and networks: how often the plan
    /// chooses the slower side; as root also over a network of 1 Gbit/s
    Placement(BenchArgs),
    /// The experiments of the NDP paper, E1 to E3, with a report of its figures and ours; as root also over
    /// networks of 10 and 1 Gbit/s
    Paper(BenchArgs),
    /// The 22 queries in one process, against DataFusion over Parquet files of the same data
    Peers(BenchArgs),
    /// Joins of four to ten tables over skewed data in one process: the plan chosen against the best one found
    /// by trying other orders of the tables
    Joins(BenchArgs),
    /// Bulk load and size, against MariaDB with InnoDB
    Load(BenchArgs),
    /// sysbench in one process, against MariaDB with InnoDB; NDP scans beside it
    Sysbench(SysbenchArgs),
    /// Not speed but truth: record what concurrent transactions were answered, and check the history
    /// for what their level of isolation forbids
    Isolation(IsolationArgs),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Level {
    fn level(self) -> perigee_history::Level {
        match self {
            Self::ReadCommitted => perigee_history::Level::ReadCommitted,
            Self::RepeatableRead => perigee_history::Level::SnapshotIsolation,
            Self::Serializable => perigee_history::Level::Serializable,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Subject {
    /// One process
    Embedded,
    /// A frontend, a Log Store and two Page Stores
    Cluster,
    /// MariaDB with innodb_snapshot_isolation
    Mariadb,
    /// MariaDB without it
    MariadbDefault,
}

impl Subject {
    fn subject(self) -> commands::Subject {
        match self {
            Self::Embedded => commands::Subject::Embedded,
            Self::Cluster => commands::Subject::Cluster,
            Self::Mariadb => commands::Subject::MariaDb,
            Self::MariadbDefault => commands::Subject::MariaDbDefault,
        }
    }
}

#[derive(Debug, Args)]
struct IsolationArgs {
    /// Levels, one after the other
    #[arg(
        long,
        value_name = "LEVEL,…",
        value_delimiter = ',',
        default_value = "read-committed,repeatable-read,serializable"
    )]
    level: Vec<Level>,
    /// Transactions at each level
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    transactions: u64,
    /// Connections that write; two more scan
    #[arg(long, value_name = "N", default_value_t = 16)]
    connections: u32,
    /// Accounts between which money moves
    #[arg(long, value_name = "N", default_value_t = 2000)]
    accounts: u32,
    /// What runs the transactions
    #[arg(long, value_enum, default_value = "embedded")]
    subject: Subject,
    /// Of the random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// No prepared statements; half of the connections use them otherwise
    #[arg(long)]
    text: bool,
    /// Directory for stores
    #[arg(long, value_name = "DIR", default_value = "perigee-bench")]
    dir: PathBuf,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

impl IsolationArgs {
    fn options(&self, server: PathBuf) -> commands::IsolationOptions {
        commands::IsolationOptions {
            binary: server,
            dir: self.dir.clone(),
            subject: self.subject.subject(),
            levels: self.level.iter().map(|level| level.level()).collect(),
            transactions: self.transactions,
            connections: self.connections,
            accounts: self.accounts,
            seed: self.seed,
            prepared: !self.text,
        }
    }
}

#[derive(Debug, Args)]
struct SysbenchArgs {
    /// Tables
    #[arg(long, value_name = "N", default_value_t = 8)]
    tables: u32,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    table_size: u32,
    /// Seconds of a run
    #[arg(long, value_name = "S", default_value_t = 10)]
    seconds: u32,
    /// Interleaved pairs of runs
    #[arg(long, value_name = "N", default_value_t = 3)]
    pairs: usize,
    /// Numbers of threads
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "1,4,16"
    )]
    threads: Vec<u32>,
    /// Workloads; oltp_point_select, oltp_read_only, oltp_write_only and oltp_read_write if not given
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    workloads: Vec<String>,
    /// TPC-H scale factor of lineitem for the scans beside sysbench; 0 leaves them out
    #[arg(long, value_name = "SCALE", default_value_t = 0.1)]
    scan_scale: f64,
    /// Threads of sysbench while scans run
    #[arg(long, value_name = "N", default_value_t = 4)]
    scan_threads: u32,
    /// MariaDB on both sides: how far the ratios stray from 1 on this machine
    #[arg(long)]
    calibrate: bool,
    /// Directory for stores
    #[arg(long, value_name = "DIR", default_value = "perigee-bench")]
    dir: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl SysbenchArgs {
    fn options(&self, server: PathBuf) -> commands::SysbenchOptions {
        commands::SysbenchOptions {
            binary: server,
            dir: self.dir.clone(),
            tables: self.tables,
            rows: self.table_size,
            seconds: self.seconds,
            pairs: self.pairs,
            threads: self.threads.clone(),
            workloads: self.workloads.clone(),
            scan_scale: self.scan_scale,
            scan_threads: self.scan_threads,
            calibrate: self.calibrate,
        }
    }
}

#[derive(Debug, Args)]
struct BenchArgs {
    /// TPC-H scale factor: 1 is about 1 GB of data
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Interleaved pairs of runs for each query
    #[arg(long, value_name = "N", default_value_t = 10)]
    pairs: usize,
    /// Directory for data and stores
    #[arg(long, value_name = "DIR", default_value = "perigee-bench")]
    dir: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The server that was built with this.
fn beside_this_binary() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|e| format!("cannot find this binary: {e}"))?;
    let server = own.with_file_name(format!("perigee{}", std::env::consts::EXE_SUFFIX));
    match server.exists() {
        true => Ok(server),
        false => Err(format!(
            "{} is not there: build it with `cargo build --release --workspace`, or name it with --server",
            server.display()
        )),
    }
}

/// Runs a command and prints its figures.
///
/// # Errors
/// A message for the user.
pub async fn run(cli: Cli) -> Result<(), String> {
    let server = cli.server.map_or_else(beside_this_binary, Ok)?;
    let options = |args: &BenchArgs| commands::BenchOptions {
        binary: server.clone(),
        scale: args.scale,
        dir: args.dir.clone(),
        pairs: args.pairs,
    };
    let text = |e: WorkloadError| e.to_string();
    match cli.command {
        Command::Scan(args) => print_figures(args.json, &commands::scan().map_err(text)?, None),
        Command::Tpch(args) => {
            let figures = commands::tpch(&options(&args)).await.map_err(text)?;
            print_figures(args.json, &figures, Some(figures.table()))
        }
        Command::Columnburst(args) => {
            let figures = commands::columnburst(&options(&args)).await.map_err(text)?;
            print_figures(args.json, &figures, Some(figures.table()))
        }
        Command::Pushdown(args) => {
            let figures = commands::pushdown(&options(&args)).await.map_err(text)?;
            print_figures(args.json, &figures, Some(figures.table()))
        }
        Command::Yoursql(args) => {
            let figures = commands::yoursql(&options(&args)).await.map_err(text)?;
            print_figures(args.json, &figures, Some(figures.table()))
        }
        Command::Placement(args) => {
            let figures = commands::placement(&options(&args)).await.map_err(text)?;
            print_figures(args.json, &figures, Some(figures.table()))
        }
        Command::Paper(args) => {
            let (figures, report) = commands::paper(&options(&args)).await.map_err(text)?;
            eprintln!("the report is {}", report.display());
            print_figures(args.json, &figures, Some(figures.table()))
        }
        Command::Peers(args) => {
            let figures = commands::peers(&options(&args)).await.map_err(text)?;
            print_figures(args.json, &figures, None)
        }
        Command::Joins(args) => {
            let figures = commands::joins(&options(&args)).await.map_err(text)?;
            print_figures(args.json, &figures, Some(figures.table()))
        }
        Command::Load(args) => {
            let figures = commands::load(&options(&args)).await.map_err(text)?;
            print_figures(args.json, &figures, None)
        }
        Command::Sysbench(args) => {
            let figures = commands::sysbench(&args.options(server))
                .await
                .map_err(text)?;
            print_figures(args.json, &figures, Some(figures.table()))
        }
        Command::Isolation(args) => {
            let figures = commands::isolation(&args.options(server))
                .await
                .map_err(text)?;
            let table: String = figures.iter().map(ToString::to_string).collect();
            print_figures(args.json, &figures, Some(table))?;
            match figures.iter().all(|of| of.wrong.is_empty()) {
                true => Ok(()),
                false => Err("a level does not keep what it promises".to_owned()),
            }
        }
    }
}

/// Prints figures as one JSON object, or for a person: as their table, or a line each.
fn print_figures(
    json: bool,
    figures: &impl serde::Serialize,
    table: Option<String>,
) -> Result<(), String> {
    let value = serde_json::to_value(figures).map_err(|e| e.to_string())?;
    match (json, table, value.as_object()) {
        (false, Some(table), _) => print!("{table}"),
        (false, None, Some(fields)) => {
            for (name, value) in fields {
                println!("{name}: {value}");
            }
        }
        _ => println!("{value}"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
        let sysbench = ["perigee-bench", "sysbench", "--server", "perigee"];
        assert!(Cli::try_parse_from(sysbench).is_ok());
    }
}
