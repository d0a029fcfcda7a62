//! Histories of concurrent transactions, recorded over the MySQL protocol and judged by
//! `perigee-history`.
//!
//! So many connections append to lists, read them and move money between accounts, in transactions of
//! one level of isolation; some roll back, some undo a part, some use prepared statements. Beside them
//! others scan everything, with near-data processing on and off: the accounts' total never changes,
//! through whatever index, and the lists that a scan sees are part of the history.

mod accounts;
mod lists;
mod rng;
mod scans;
mod session;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use perigee_history::{
    History, Level, Outcome, Phenomenon, Report, Session, Time, Transaction, check,
};
use serde::Serialize;

use perigee_workload::WorkloadError;
use rng::Rng;
use scans::Scans;
use session::{Attempt, Connection};

pub use session::Target;

/// Schema of the tables.
const SCHEMA: &str = "isolation";

/// One in so many transactions moves money.
const TRANSFERS: u64 = 5;

/// Connections that scan.
const SCANNERS: u32 = 2;

/// What to run.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The level of every transaction.
    pub level: Level,
    /// Whether REPEATABLE READ is snapshot isolation.
    pub snapshot_isolation: bool,
    /// Transactions to finish, whether committed or not.
    pub transactions: u64,
    /// Connections that write.
    pub connections: u32,
    /// Accounts between which money moves.
    pub accounts: u32,
    /// Of the random choices.
    pub seed: u64,
    /// Whether half of the connections use prepared statements.
    pub prepared: bool,
    /// Whether the server knows `ndp_mode`.
    pub ndp: bool,
}

/// What was run and what the check says.
#[derive(Clone, Debug, Serialize)]
pub struct IsolationFigures {
    /// Level of isolation, in SQL's words.
    pub level: String,
    /// Transactions of the history: lists, and transfers between accounts.
    pub transactions: u64,
    /// Transfers among them.
    pub transfers: u64,
    /// Whose commit was acknowledged.
    pub committed: u64,
    /// Which were rolled back or failed.
    pub aborted: u64,
    /// Whose connection broke while they were committed.
    pub unknown: u64,
    /// Errors that ended transactions, by number.
    pub errors: BTreeMap<u16, u64>,
    /// Seconds of the run.
    pub seconds: f64,
    /// Seconds of the check.
    pub check_seconds: f64,
    /// Scans beside the transactions.
    pub scans: Scans,
    /// Phenomena that the history shows, allowed ones too.
    pub phenomena: BTreeMap<String, u64>,
    /// Counterexamples: what the level forbids, and wrong scans.
    pub wrong: Vec<String>,
}

/// What all connections share.
struct Shared {
    workload: Workload,
    target: Target,
    begin: Instant,
    /// Elements given out.
    elements: AtomicU32,
    /// Transactions begun.
    begun: AtomicU64,
    writers_done: AtomicBool,
    bar: ProgressBar,
}

impl Shared {
    fn now(&self) -> Time {
        Time(self.begin.elapsed().as_nanos() as u64)
    }
}

/// What one connection recorded.
#[derive(Default)]
struct Recorded {
    transactions: Vec<Transaction>,
    transfers: u64,
    transfers_committed: u64,
    errors: BTreeMap<u16, u64>,
    scans: Scans,
    wrong: Vec<String>,
}

/// Makes the tables, runs the workload and checks the history.
///
/// # Errors
/// If the server answers with an error that no level explains, or a connection breaks. What the level
/// forbids is in the figures.
pub async fn run(target: &Target, workload: &Workload) -> Result<IsolationFigures, WorkloadError> {
    prepare(target, workload).await?;
    let shared = Arc::new(Shared {
        workload: workload.clone(),
        target: target.clone(),
        begin: Instant::now(),
        elements: AtomicU32::new(1),
        begun: AtomicU64::new(0),
        writers_done: AtomicBool::new(false),
        bar: progress(workload),
    });
    let writers: Vec<_> = (0..workload.connections)
        .map(|number| tokio::spawn(write(shared.clone(), number)))
        .collect();
    let scanners: Vec<_> = (0..SCANNERS)
        .map(|number| tokio::spawn(scans::scan(shared.clone(), workload.connections + number)))
        .collect();
    let mut recorded = Vec::new();
    let mut failure = None;
    for writer in writers {
        match writer.await.expect("a writer does not panic") {
            Ok(one) => recorded.push(one),
            Err(error) => {
                // The others end, too.
                shared
                    .begun
                    .fetch_add(workload.transactions, Ordering::Relaxed);
                failure = failure.or(Some(error));
            }
        }
    }
    shared.writers_done.store(true, Ordering::Relaxed);
    for scanner in scanners {
        recorded.push(scanner.await.expect("a scanner does not panic")?);
    }
    shared.bar.finish_and_clear();
    if let Some(error) = failure {
        return Err(error);
    }
    let seconds = shared.begin.elapsed().as_secs_f64();
    recorded.push(scans::last(&shared).await?);
    Ok(judge(workload, recorded, seconds))
}

async fn prepare(target: &Target, workload: &Workload) -> Result<(), WorkloadError> {
    let mut client = target.client(None).await?;
    for sql in [
        format!("DROP DATABASE IF EXISTS {SCHEMA}"),
        format!("CREATE DATABASE {SCHEMA}"),
        format!("USE {SCHEMA}"),
    ] {
        client.execute(&sql).await?;
    }
    lists::create(&mut client, workload.transactions).await?;
    accounts::create(&mut client, workload.accounts).await?;
    client.close().await
}

fn progress(workload: &Workload) -> ProgressBar {
    let style = "{msg} {bar:40} {pos}/{len} transactions, {per_sec}, {eta} left";
    let bar = ProgressBar::new(workload.transactions);
    bar.set_style(ProgressStyle::with_template(style).expect("the template is right"));
    bar.set_message(session::name(workload.level));
    bar
}

/// One connection that writes.
async fn write(shared: Arc<Shared>, number: u32) -> Result<Recorded, WorkloadError> {
    let mut rng = Rng::new(shared.workload.seed, number);
    let mut connection =
        Connection::open(&shared, rng.chance(2) && shared.workload.prepared).await?;
    let mut recorded = Recorded::default();
    while shared.begun.fetch_add(1, Ordering::Relaxed) < shared.workload.transactions {
        let begin = shared.now();
        let is_transfer = rng.chance(TRANSFERS);
        let mut attempt = Attempt::default();
        let outcome = match is_transfer {
            true => {
                accounts::transfer(&mut connection, &shared.workload, &mut rng, &mut attempt)
                    .await?
            }
            false => lists::transaction(&mut connection, &shared, &mut rng, &mut attempt).await?,
        };
        if let Some(code) = attempt.error {
            *recorded.errors.entry(code).or_default() += 1;
        }
        recorded.wrong.extend(attempt.wrong);
        shared.bar.inc(1);
        if is_transfer {
            recorded.transfers += 1;
            recorded.transfers_committed += u64::from(outcome == Outcome::Committed);
            continue;
        }
        recorded.transactions.push(Transaction {
            session: Session(number),
            begin,
            end: shared.now(),
            outcome,
            ops: attempt.ops,
        });
    }
    connection.close().await?;
    Ok(recorded)
}

/// Checks what was recorded.
fn judge(workload: &Workload, recorded: Vec<Recorded>, seconds: f64) -> IsolationFigures {
    let mut all = Recorded::default();
    for one in recorded {
        all.transactions.extend(one.transactions);
        all.transfers += one.transfers;
        all.transfers_committed += one.transfers_committed;
        for (code, count) in one.errors {
            *all.errors.entry(code).or_default() += count;
        }
        all.scans.add(&one.scans);
        all.wrong.extend(one.wrong);
    }
    let history = History {
        transactions: all.transactions,
    };
    let begin = Instant::now();
    let report = check(&history);
    let check_seconds = begin.elapsed().as_secs_f64();
    all.wrong.extend(counterexamples(&report, workload.level));
    let of = |outcome| {
        let transactions = history.transactions.iter();
        transactions.filter(|t| t.outcome == outcome).count() as u64
    };
    let transfers_aborted = all.transfers - all.transfers_committed;
    IsolationFigures {
        level: session::name(workload.level).to_owned(),
        transactions: history.transactions.len() as u64 + all.transfers,
        transfers: all.transfers,
        committed: of(Outcome::Committed) + all.transfers_committed,
        aborted: of(Outcome::Aborted) + transfers_aborted,
        unknown: of(Outcome::Unknown),
        errors: all.errors,
        seconds,
        check_seconds,
        scans: all.scans,
        phenomena: phenomena(&report),
        wrong: all.wrong,
    }
}

fn counterexamples(report: &Report, level: Level) -> Vec<String> {
    report.forbidden(level).map(ToString::to_string).collect()
}

fn phenomena(report: &Report) -> BTreeMap<String, u64> {
    let found = Phenomenon::ALL.map(|p| (p.name().to_owned(), report.count(p)));
    found.into_iter().filter(|(_, count)| *count > 0).collect()
}

impl fmt::Display for IsolationFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} transactions ({} transfers) in {:.1} s: {} committed, {} aborted, {} unknown",
            self.level,
            self.transactions,
            self.transfers,
            self.seconds,
            self.committed,
            self.aborted,
            self.unknown
        )?;
        writeln!(f, "  errors by number: {:?}", self.errors)?;
        writeln!(f, "  beside them {:?}", self.scans)?;
        writeln!(
            f,
            "  phenomena, checked in {:.1} s: {:?}",
            self.check_seconds, self.phenomena
        )?;
        for wrong in &self.wrong {
            writeln!(f, "  WRONG: {wrong}")?;
        }
        Ok(())
    }
}
