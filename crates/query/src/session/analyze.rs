//! ANALYZE TABLE.

use perigee_engine::catalog::{MAX_BUCKETS, Table};
use perigee_engine::scan::CancelToken;
use perigee_engine::{Analysis, EngineError};
use sqlparser::ast::ObjectName;

use super::Session;
use super::rowset::{Rowset, text};
use crate::error::{Result, SqlError};
use crate::parse::{Analyze, Histograms};
use crate::result::{ResultColumn, ResultSink};

/// How often a table is analyzed whose definition changes meanwhile.
const ATTEMPTS: usize = 3;

/// Runs an ANALYZE TABLE. What is wrong with a table is said in its rows.
pub(super) async fn run(
    session: &Session,
    analyze: &Analyze,
    out: &mut dyn ResultSink,
    cancel: &CancelToken,
) -> Result<()> {
    let mut rows = rowset();
    match &analyze.histograms {
        None => {
            for name in &analyze.tables {
                everything(session, name, &mut rows, cancel).await?;
            }
        }
        Some(histograms) => {
            of_columns(session, &analyze.tables, histograms, &mut rows, cancel).await?;
        }
    }
    rows.send(session.warning_count(), out).await
}

/// The columns of the result.
pub(super) fn columns() -> Vec<ResultColumn> {
    rowset().columns()
}

fn rowset() -> Rowset {
    Rowset::new(&["Table", "Op", "Msg_type", "Msg_text"])
}

/// Schema and table of a name, as the result shows it.
fn shown(session: &Session, name: &ObjectName) -> Result<String> {
    let (schema, table) = session.resolve(name)?;
    Ok(format!("{schema}.{table}"))
}

async fn everything(
    session: &Session,
    name: &ObjectName,
    rows: &mut Rowset,
    cancel: &CancelToken,
) -> Result<()> {
    let shown = shown(session, name)?;
    let mut say = |kind: &str, message: &str| {
        rows.push(vec![
            text(&shown),
            text("analyze"),
            text(kind),
            text(message),
        ]);
    };
    match analyzed(session, name, |_| Ok(Analysis::All), cancel).await {
        Ok(()) => say("status", "OK"),
        Err(error) if is_stopped(&error) => return Err(error),
        Err(error) => {
            say("Error", &error.message);
            say("status", "Operation failed");
        }
    }
    Ok(())
}

/// A statement that was stopped fails, whatever it has done.
fn is_stopped(error: &SqlError) -> bool {
    error.errno == SqlError::interrupted().errno
}

/// Analyzes a table, again if its definition changes meanwhile.
async fn analyzed(
    session: &Session,
    name: &ObjectName,
    what: impl Fn(&Table) -> Result<Analysis>,
    cancel: &CancelToken,
) -> Result<()> {
    let engine = &session.frontend.engine;
    let mut outcome = Ok(());
    for _ in 0..ATTEMPTS {
        let table = session.named_table(name)?;
        let what = what(&table)?;
        outcome = engine.analyze_table(&table, &what, cancel).await;
        if !matches!(outcome, Err(EngineError::TableChanged(_))) {
            break;
        }
    }
    Ok(outcome?)
}

/// What UPDATE HISTOGRAM and DROP HISTOGRAM do to the columns of a table.
async fn of_columns(
    session: &Session,
    tables: &[ObjectName],
    histograms: &Histograms,
    rows: &mut Rowset,
    cancel: &CancelToken,
) -> Result<()> {
    let mut say = |table: &str, kind: &str, message: &str| {
        rows.push(vec![
            text(table),
            text("histogram"),
            text(kind),
            text(message),
        ]);
    };
    let [name] = tables else {
        let only = "Only one table can be specified while modifying histogram statistics.";
        say("", "Error", only);
        return Ok(());
    };
    let shown = shown(session, name)?;
    let table = match session.named_table(name) {
        Ok(table) => table,
        Err(error) => {
            say(&shown, "Error", &error.message);
            say(&shown, "status", "Operation failed");
            return Ok(());
        }
    };
    let names = match histograms {
        Histograms::Update { columns, .. } | Histograms::Drop(columns) => columns,
    };
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for name in names {
        match check(&table, name, histograms) {
            Ok(()) => good.push(name),
            Err(message) => bad.push(message),
        }
    }
    let done = match histograms {
        Histograms::Update { .. } => "created",
        Histograms::Drop(_) => "removed",
    };
    if !good.is_empty() {
        // Of a table that changes meanwhile, columns may have other numbers.
        let what = |table: &Table| {
            let number = |name: &&String| {
                let unknown = || SqlError::unknown_column(name, "field list");
                let found = table.def.column(name).ok_or_else(unknown)?;
                Ok(found as u16)
            };
            let columns = good.iter().map(number).collect::<Result<Vec<_>>>()?;
            Ok(match histograms {
                Histograms::Update { buckets, .. } => Analysis::Histograms {
                    columns,
                    buckets: usize::try_from(*buckets).map_or(MAX_BUCKETS, |b| b.min(MAX_BUCKETS)),
                },
                Histograms::Drop(_) => Analysis::NoHistograms(columns),
            })
        };
        analyzed(session, name, what, cancel).await?;
    }
    for name in good {
        let message = format!("Histogram statistics {done} for column '{name}'.");
        say(&shown, "status", &message);
    }
    for message in bad {
        say(&shown, "Error", &message);
    }
    Ok(())
}

/// Checks that the histogram of a column can be changed like that; says why it cannot.
fn check(table: &Table, name: &str, histograms: &Histograms) -> std::result::Result<(), String> {
    let number = table.def.column(name);
    let number = number.ok_or_else(|| format!("The column '{name}' does not exist."))?;
    match histograms {
        Histograms::Update { .. } => {
            if table.def.columns[number].ty.is_long() {
                return Err(format!("The column '{name}' has an unsupported data type."));
            }
            let alone = [number as u16];
            let unique = |columns: &[u16]| columns == alone;
            let by_index = table
                .def
                .indexes
                .iter()
                .any(|i| i.unique && unique(&i.columns));
            if by_index || unique(&table.def.primary_key) {
                let text = format!("The column '{name}' is covered by a single-part unique index.");
                return Err(text);
            }
        }
        Histograms::Drop(_) => {
            let stats = table.stats();
            if stats
                .columns
                .get(number)
                .is_none_or(|column| column.histogram.is_none())
            {
                return Err(format!(
                    "No histogram statistics found for column '{name}'."
                ));
            }
        }
    }
    Ok(())
}
