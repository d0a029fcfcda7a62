//! Compares both sides: count and checksum of each table's rows, computed from the rows themselves.
//!
//! The source's side was computed while its rows were copied. Units that an earlier run copied are read again, in the present
//! snapshot: so a source that was changed between two runs is found out.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::ImportOptions;
use super::copy::{Copy, Job, Source, worse};
use super::read::{Form, Out, read};
use crate::TransferError;
use crate::checksum::Tally;
use crate::connect::connect_perigee;
use crate::kind::Kind;
use crate::progress::{Progress, tell};
use crate::readers::Readers;

/// Bytes that one query reads: small enough that connections share a table.
const PIECE: u64 = 64 << 20;

/// What a table has on both sides.
#[derive(Clone, Debug)]
struct Compared {
    table: String,
    source: Tally,
    target: Tally,
    /// Only the number of rows is compared: the table had others before.
    counted: bool,
    seconds: f64,
}

impl Compared {
    fn is_equal(&self) -> bool {
        self.source.rows == self.target.rows && (self.counted || self.source.sum == self.target.sum)
    }
}

/// Compares all tables, if that is asked for, and prints what they have.
///
/// # Errors
/// If one differs, or a side cannot be read.
pub(crate) async fn verdict(
    copy: &Arc<Copy>,
    jobs: &[Job],
    options: &ImportOptions,
) -> Result<(), TransferError> {
    if !options.check {
        return Ok(());
    }
    let compared = check(copy, jobs, options.jobs).await?;
    tell(report(&compared).trim_end());
    difference(&compared).map_or(Ok(()), |text| Err(TransferError::Differs(text)))
}

/// Compares all tables, with `count` connections to the target.
///
/// # Errors
/// If a side cannot be read. A difference is none.
async fn check(
    copy: &Arc<Copy>,
    jobs: &[Job],
    count: usize,
) -> Result<Vec<Compared>, TransferError> {
    let progress = Progress::new("comparing", jobs.iter().map(|job| job.rows).sum());
    let mut conns = Vec::new();
    for _ in 0..count.max(1) {
        conns.push(connect_perigee(&copy.target).await?);
    }
    let readers = Arc::new(Readers::new(conns, copy.stop.clone()));
    let form = match copy.source.as_ref() {
        Source::Server(_) => Kind::form as Form,
        Source::Files(_) => Kind::form_beside_file as Form,
    };
    let mut tasks = JoinSet::new();
    for (place, job) in jobs.iter().enumerate() {
        let job = Arc::new(job.clone());
        for sql in queries(&job) {
            let (copy, readers, progress, job) =
                (copy.clone(), readers.clone(), progress.clone(), job.clone());
            tasks.spawn(async move {
                let mut conn = readers.take().await?;
                progress.say(job.shown());
                let out = Out::new(None, &progress, &copy.stop);
                let tally = read(&mut conn, &sql, (&job.fields, form), out).await;
                let tally =
                    tally.map_err(|e| e.within(&format!("compare table {}", job.shown())))?;
                readers.give(conn);
                Ok((place, tally, Tally::default()))
            });
        }
        for unit in job.units.clone() {
            let (copy, progress, job) = (copy.clone(), progress.clone(), job.clone());
            tasks.spawn(async move {
                let tally = match unit.tally {
                    Some(tally) => tally,
                    None => {
                        copy.source
                            .rows(&job, &unit, None, (&progress, &copy.stop))
                            .await?
                    }
                };
                Ok((place, Tally::default(), tally))
            });
        }
    }
    let mut found: Vec<_> = jobs.iter().map(before).collect();
    let mut first = None;
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(Ok((place, target, source))) => {
                found[place].target.merge(target);
                found[place].source.merge(source);
            }
            Ok(Err(error)) => {
                copy.stop.set();
                first = worse(first, error);
            }
            Err(panic) => first = worse(first, TransferError::Data(panic.to_string())),
        }
    }
    progress.finish();
    readers.close().await;
    first.map_or(Ok(found), Err)
}

/// A table of which nothing was read yet.
fn before(job: &Job) -> Compared {
    Compared {
        table: job.shown(),
        source: Tally {
            rows: job.rows_before,
            sum: 0,
        },
        target: Tally::default(),
        counted: job.rows_before > 0,
        seconds: job.seconds,
    }
}

/// The queries that read a table of the target.
fn queries(job: &Job) -> Vec<String> {
    let columns = job
        .fields
        .iter()
        .map(|field| field.kind.selected(&field.name));
    let columns = columns.collect::<Vec<_>>().join(", ");
    let key = job.key.as_ref().map(|key| key.target.as_str());
    let ranges = job
        .units
        .iter()
        .flat_map(|unit| job.pieces(unit.range, PIECE));
    let query = |condition: String| format!("SELECT {columns} FROM {}{condition}", job.quoted());
    match key {
        Some(_) => ranges.map(|range| query(range.condition(key))).collect(),
        None => vec![query(String::new())],
    }
}

/// The table that is printed.
fn report(compared: &[Compared]) -> String {
    let width = compared
        .iter()
        .map(|one| one.table.chars().count())
        .max()
        .unwrap_or(0)
        .max(5);
    let mut out = format!(
        "{:<width$} {:>12} {:>12} {:>16} {:>16} {:>9} \n",
        "table", "rows source", "target", "checksum source", "target", "seconds"
    );
    for one in compared {
        let sum = |tally: Tally| match one.counted {
            true => "-".to_owned(),
            false => format!("{:016x}", tally.sum),
        };
        out.push_str(&format!(
            "{:<width$} {:>12} {:>12} {:>16} {:>16} {:>9.2} {}\n",
            one.table,
            one.source.rows,
            one.target.rows,
            sum(one.source),
            sum(one.target),
            one.seconds,
            if one.is_equal() { "equal" } else { "DIFFERENT" },
        ));
    }
    out
}

/// What to do about tables that differ; nothing if none does.
fn difference(compared: &[Compared]) -> Option<String> {
    let names = compared
        .iter()
        .filter(|one| !one.is_equal())
        .map(|one| one.table.as_str());
    let names: Vec<_> = names.collect();
    (!names.is_empty()).then(|| {
        format!(
            "these tables differ from the source: {}; somebody wrote to one of the sides meanwhile, or a value is another one \
             there; import them again with --restart --replace",
            names.join(", ")
        )
    })
}
