//! `perigee-bench isolation`: a recorded history of concurrent transactions at each level of isolation,
//! checked for what the level forbids.

use std::path::PathBuf;

use futures::future::BoxFuture;
use perigee_history::Level;
use perigee_testkit::MariaDb;

use super::setup::{BenchOptions, note};
use crate::isolation::{IsolationFigures, Target, Workload, run};
use perigee_workload::{Cluster, ClusterOptions, Embedded, WorkloadError};

/// Buffer pool of the frontend: smaller than the tables of a long run.
const BUFFER_POOL: &str = "64MiB";

/// What runs the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// One process of ours.
    Embedded,
    /// A frontend, a Log Store and two Page Stores as processes.
    Cluster,
    /// MariaDB with `innodb_snapshot_isolation`, to see what the method makes of another database.
    MariaDb,
    /// MariaDB without it, whose REPEATABLE READ loses updates: must be found out.
    MariaDbDefault,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct IsolationOptions {
    /// The `perigee` binary.
    pub binary: PathBuf,
    /// Directory for stores.
    pub dir: PathBuf,
    /// What runs the transactions.
    pub subject: Subject,
    /// Levels, one after the other.
    pub levels: Vec<Level>,
    /// Transactions at each level.
    pub transactions: u64,
    /// Connections that write.
    pub connections: u32,
    /// Accounts between which money moves.
    pub accounts: u32,
    /// Of the random choices.
    pub seed: u64,
    /// Whether half of the connections use prepared statements.
    pub prepared: bool,
}

/// A running server; dropping it kills it.
enum Server {
    Embedded(Embedded),
    Cluster(Box<Cluster>),
    MariaDb(MariaDb),
}

impl Server {
    fn start(options: &IsolationOptions) -> Result<Self, WorkloadError> {
        let (bench, binary) = (
            BenchOptions {
                binary: options.binary.clone(),
                scale: 0.0,
                dir: options.dir.clone(),
                pairs: 0,
            },
            options.binary.clone(),
        );
        let args = ["--buffer-pool", BUFFER_POOL].map(str::to_owned).to_vec();
        let dir = bench.stores("isolation")?;
        match options.subject {
            Subject::Embedded => Embedded::start(&binary, &dir, &args).map(Self::Embedded),
            Subject::Cluster => Cluster::start(ClusterOptions {
                frontend_args: args,
                ..ClusterOptions::new(binary, dir)
            })
            .map(|cluster| Self::Cluster(Box::new(cluster))),
            Subject::MariaDb | Subject::MariaDbDefault => {
                MariaDb::start(&dir, &["--innodb-flush-log-at-trx-commit=0"])
                    .map(Self::MariaDb)
                    .map_err(WorkloadError::io("start MariaDB"))
            }
        }
    }

    fn target(&self) -> Target {
        match self {
            Self::Embedded(server) => Target::Address(server.address()),
            Self::Cluster(server) => Target::Address(server.address()),
            Self::MariaDb(server) => Target::Socket(server.socket()),
        }
    }
}

/// Runs the command: the figures of each level.
///
/// # Errors
/// If a process fails, or the server answers with an error that no level explains. What a level
/// forbids is in the figures.
pub fn isolation(
    options: &IsolationOptions,
) -> BoxFuture<'_, Result<Vec<IsolationFigures>, WorkloadError>> {
    Box::pin(async move {
        let server = Server::start(options)?;
        let mut all = Vec::new();
        for level in &options.levels {
            let workload = Workload {
                level: *level,
                snapshot_isolation: !matches!(options.subject, Subject::MariaDbDefault),
                transactions: options.transactions,
                connections: options.connections,
                accounts: options.accounts,
                seed: options.seed,
                prepared: options.prepared,
                ndp: !matches!(server, Server::MariaDb(_)),
            };
            let figures = run(&server.target(), &workload).await?;
            note(&format!(
                "{}: {} transactions in {:.1} s, {} committed; checked in {:.1} s; {} wrong",
                figures.level,
                figures.transactions,
                figures.seconds,
                figures.committed,
                figures.check_seconds,
                figures.wrong.len()
            ));
            all.push(figures);
        }
        Ok(all)
    })
}
