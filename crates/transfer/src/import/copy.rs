//! Copies the units of all tables, several at a time.

use std::sync::Arc;
use std::time::Instant;

use mysql_async::Conn;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::load::{Into, Part, load};
use super::range::Range;
use super::read::Field;
use super::state::{Noted, State};
use super::{file_rows, server};
use crate::checksum::Tally;
use crate::connect::{connect_perigee, number, one};
use crate::names::{ident, qualified};
use crate::progress::Progress;
use crate::readers::Stop;
use crate::{Endpoint, TransferError};

/// A table that is imported.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// The table in the target.
    pub schema: String,
    pub table: String,
    /// What is loaded and compared.
    pub fields: Vec<Field>,
    /// The column by whose ranges it is cut: its names in the source and in the target, its least and its greatest value.
    pub key: Option<Key>,
    pub units: Vec<Unit>,
    /// Rows, by an estimate.
    pub rows: u64,
    /// Bytes, by an estimate.
    pub bytes: u64,
    /// The table had rows before, which are not compared.
    pub rows_before: u64,
    pub seconds: f64,
}

/// The column of a primary key that ranges are of.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub source: String,
    pub target: String,
    pub least: i128,
    pub greatest: i128,
}

impl Job {
    /// Its name for messages.
    pub(crate) fn shown(&self) -> String {
        format!("{}.{}", self.schema, self.table)
    }

    /// The table with quotes.
    pub(crate) fn quoted(&self) -> String {
        qualified(&self.schema, &self.table)
    }

    /// Cuts a range into pieces of about so many bytes.
    pub(crate) fn pieces(&self, range: Range, bytes: u64) -> Vec<Range> {
        match &self.key {
            Some(key) => {
                let all = self.bytes.div_ceil(bytes.max(1)).max(1);
                let pieces = all.div_ceil(self.units.len().max(1) as u64);
                range.split(key.least, key.greatest, pieces)
            }
            None => vec![range],
        }
    }
}

/// A part of a table that is committed at once.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub number: u32,
    pub range: Range,
    /// The target has it.
    pub done: bool,
    /// What the source has, if this run read it.
    pub tally: Option<Tally>,
}

/// Where rows come from.
pub(crate) enum Source {
    Server(server::Rows),
    Files(file_rows::Rows),
}

impl Source {
    /// Sends the rows of a unit, or only reads them if there is nobody to send them to.
    pub(crate) async fn rows(
        self: &Arc<Self>,
        job: &Arc<Job>,
        unit: &Unit,
        to: Option<mpsc::Sender<Part>>,
        (progress, stop): (&Progress, &Stop),
    ) -> Result<Tally, TransferError> {
        match self.as_ref() {
            Self::Server(_) => server::rows(self, job, unit, to, (progress, stop)).await,
            Self::Files(_) => file_rows::rows(self, job, to, (progress, stop)).await,
        }
    }

    /// Adds to an error about a row of the file that the target was sent where the row came from.
    fn located(&self, job: &Job, error: TransferError) -> TransferError {
        match self {
            Self::Server(_) => error,
            Self::Files(files) => files.located(job, error),
        }
    }
}

/// What copying needs.
pub(crate) struct Copy {
    pub source: Arc<Source>,
    pub target: Endpoint,
    pub state: State,
    pub progress: Progress,
    pub stop: Stop,
}

/// Copies all units that are not done, of `at_once` tables at a time, the largest ones first.
///
/// # Errors
/// The first one, once everything has ended in order.
pub(crate) async fn copy(
    copy: &Arc<Copy>,
    jobs: Vec<Job>,
    at_once: usize,
) -> Result<Vec<Job>, TransferError> {
    let mut order: Vec<_> = jobs.into_iter().enumerate().collect();
    order.sort_by_key(|(_, job)| std::cmp::Reverse(job.bytes));
    let turns = Arc::new(Semaphore::new(at_once.max(1)));
    let mut tasks = JoinSet::new();
    for (place, job) in order {
        let (copy, turns) = (copy.clone(), turns.clone());
        tasks.spawn(async move {
            let _turn = turns.acquire().await;
            let done = table(&copy, job).await;
            if done.is_err() {
                copy.stop.set();
            }
            done.map(|job| (place, job))
        });
    }
    let mut found = Vec::new();
    let mut first = None;
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(Ok(job)) => found.push(job),
            Ok(Err(error)) => first = worse(first, error),
            Err(panic) => first = worse(first, TransferError::Data(panic.to_string())),
        }
    }
    match first {
        Some(error) => Err(error),
        None => {
            found.sort_by_key(|(place, _)| *place);
            Ok(found.into_iter().map(|(_, job)| job).collect())
        }
    }
}

/// Of two errors the one that says more.
pub(crate) fn worse(first: Option<TransferError>, second: TransferError) -> Option<TransferError> {
    match first {
        None | Some(TransferError::Stopped) => Some(second),
        first => first,
    }
}

/// Copies a table.
async fn table(copy: &Arc<Copy>, mut job: Job) -> Result<Job, TransferError> {
    if job.units.iter().all(|unit| unit.done) {
        return Ok(job);
    }
    copy.stop.check()?;
    let begin = Instant::now();
    copy.progress.say(job.shown());
    let mut conn = connect_perigee(&copy.target).await?;
    let shared = Arc::new(job.clone());
    for place in 0..job.units.len() {
        if job.units[place].done {
            continue;
        }
        copy.stop.check()?;
        let tally = unit(copy, &shared, &job.units[place], &mut conn).await;
        let tally = tally.map_err(|error| placed(&job, &job.units[place], error))?;
        let unit = &mut job.units[place];
        unit.done = true;
        unit.tally = Some(tally);
    }
    job.seconds = begin.elapsed().as_secs_f64();
    // The target finds the socket closed otherwise.
    let _ = conn.disconnect().await;
    Ok(job)
}

/// Says where an error happened, and what to do.
fn placed(job: &Job, unit: &Unit, error: TransferError) -> TransferError {
    let column = job.key.as_ref().map(|key| key.source.as_str());
    let place = format!("table {} ({})", job.shown(), unit.range.shown(column));
    let hint = "; what is done stays: correct it and run the same command again";
    match error.within(&place) {
        TransferError::Server { what, cause } => {
            TransferError::Data(format!("{what}: {}{hint}", crate::error::said(&cause)))
        }
        TransferError::Data(text) => TransferError::Data(format!("{text}{hint}")),
        other => other,
    }
}

/// Copies a unit, and notes that.
async fn unit(
    copy: &Arc<Copy>,
    job: &Arc<Job>,
    unit: &Unit,
    conn: &mut Conn,
) -> Result<Tally, TransferError> {
    let (to, parts) = mpsc::channel(1);
    let loaded = job.fields.iter().filter(|field| field.loaded);
    let into = Into {
        table: job.quoted(),
        columns: loaded.map(|field| field.name.clone()).collect(),
        mark: copy.state.mark(&job.shown(), unit.number),
    };
    let with = (&copy.progress, &copy.stop);
    let rows = copy.source.rows(job, unit, Some(to), with);
    let (sent, stored) = tokio::join!(rows, load(conn, &into, parts));
    let (sent, stored) = match (sent, stored) {
        (Ok(sent), Ok(stored)) => (sent, stored),
        // What the target says of a file that could not be sent is only that.
        (Err(error), Ok(_)) => return Err(error),
        (Err(TransferError::Stopped), Err(error)) | (Ok(_), Err(error)) => {
            copy.stop.check()?;
            return Err(copy.source.located(job, error));
        }
        (Err(error), Err(_)) => return Err(error),
    };
    if sent.rows != stored {
        let text = format!(
            "{} rows were sent, and the target stored {stored}",
            sent.rows
        );
        return Err(TransferError::Data(text));
    }
    copy.state.done(conn, &noted(job, unit)).await?;
    Ok(sent)
}

/// A unit as it is noted.
pub(crate) fn noted(job: &Job, unit: &Unit) -> Noted {
    Noted {
        schema: job.schema.clone(),
        table: job.table.clone(),
        unit: unit.number,
        range: unit.range,
        rows_before: job.rows_before,
        done: unit.done,
    }
}

/// Finds out which units without a note the target has nevertheless: of a unit it has all rows or none.
pub(crate) async fn find_done(
    conn: &mut Conn,
    state: &State,
    jobs: &mut [Job],
) -> Result<(), TransferError> {
    state.settle(conn).await?;
    for job in jobs {
        for place in 0..job.units.len() {
            let unit = &job.units[place];
            if unit.done {
                continue;
            }
            let table = job.quoted();
            let is_there = if job.rows_before > 0 {
                number(conn, &format!("SELECT COUNT(*) FROM {table}")).await? > job.rows_before
            } else {
                let column = job.key.as_ref().map(|key| key.target.as_str());
                let condition = unit.range.condition(column);
                let sql = format!("SELECT 1 FROM {table}{condition} LIMIT 1");
                one(conn, &sql).await?.is_some()
            };
            if is_there {
                state.done(conn, &noted(job, unit)).await?;
                job.units[place].done = true;
            }
        }
    }
    Ok(())
}

/// The least and the greatest value of a column.
pub(crate) async fn ends(
    conn: &mut Conn,
    table: &str,
    column: &str,
) -> Result<Option<(i128, i128)>, TransferError> {
    let column = ident(column);
    let end = |text: Option<String>| text.and_then(|text| text.parse().ok());
    let least = one(conn, &format!("SELECT MIN({column}) FROM {table}")).await?;
    let greatest = one(conn, &format!("SELECT MAX({column}) FROM {table}")).await?;
    Ok(end(least).zip(end(greatest)))
}
