//! EXPLAIN: of a statement, of a statement that is run for it (ANALYZE), and of what another connection runs.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use parking_lot::Mutex;
use perigee_accounts::Privileges;
use perigee_engine::scan::{CancelToken, ScanCounters};

use super::dml::ReadPhase;
use super::money::Prices;
use super::rowset::{Rowset, text};
use super::running_plans::Shown;
use super::select::{self, Prepared, Reading, guarded};
use super::{Session, insert, restart};
use crate::access::{TableReference, count_scans};
use crate::error::{Result, SqlError};
use crate::explain::{self, Actual, COLUMNS, Changed, Plan};
use crate::parse::{Explain, ExplainFormat, Piece, Statement};
use crate::plan::common::definitions;
use crate::result::ResultSink;

/// A statement's plan in all that is known of it.
struct Explained {
    plan: Plan,
    references: Vec<TableReference>,
    operators: Option<Arc<dyn ExecutionPlan>>,
}

/// What a statement that is analysed ran.
#[derive(Default)]
pub(super) struct Probe(Mutex<Option<Arc<Shown>>>);

/// Runs an EXPLAIN.
pub(super) async fn run(
    session: &mut Session,
    explain: Explain,
    statement: Statement,
    piece: Piece<'_>,
    out: &mut dyn ResultSink,
    cancel: &CancelToken,
) -> Result<()> {
    let format = format(session, explain)?;
    let piece = explain.statement_of(piece);
    let rowset = match (explain.analyze, statement) {
        (true, Statement::Query(query)) => {
            let probe = Arc::default();
            session.probe = Some(probe);
            let mut work = session.begin_reading(true, cancel);
            let reading = reading(session, &mut work, cancel);
            let rowset = analyzed_query(session, &query, piece, reading, format).await;
            session.probe = None;
            session.end_reading(work, rowset).await?
        }
        (true, statement) => analyzed_change(session, statement, piece, format, cancel).await?,
        (false, statement) => {
            let mut work = session.begin_reading(true, cancel);
            let reading = reading(session, &mut work, cancel);
            let explained = explained(session, statement, piece, reading).await;
            explained_rows(&session.end_reading(work, explained).await?, format)
        }
    };
    rowset.send(session.warning_count(), out).await
}

/// What a plan reads that is not run, or only to be measured.
fn reading(
    session: &Session,
    work: &mut Option<super::transaction::Work>,
    cancel: &CancelToken,
) -> Reading {
    let view = match work {
        Some(work) => work.transaction().view(),
        None => session.current_view(),
    };
    Reading::snapshot(view, cancel)
}

/// Runs EXPLAIN FOR CONNECTION.
pub(super) async fn of_connection(
    session: &Session,
    explain: Explain,
    id: u64,
    out: &mut dyn ResultSink,
) -> Result<()> {
    let connections = session.info.connections.list();
    let process = connections.iter().find(|process| process.id == id);
    let process = process.ok_or_else(|| SqlError::unknown_thread(id))?;
    if !session.sees_connections_of(&process.user) {
        session.check_server(Privileges::PROCESS)?;
    }
    let format = format(session, explain)?;
    let shown = session.frontend.running_plans.of(id);
    let rowset = match shown.filter(|_| id != session.info.connection_id) {
        Some(shown) => explained_rows(&of_shown(session, &shown), format),
        None => return Err(SqlError::explain_not_supported()),
    };
    rowset.send(session.warning_count(), out).await
}

/// The form that a statement asks for, or that `explain_format` says.
fn format(session: &Session, explain: Explain) -> Result<ExplainFormat> {
    let by_variable = match session.variables.get("explain_format") {
        Ok(Some("JSON")) => ExplainFormat::Json,
        Ok(Some("TREE")) => ExplainFormat::Tree,
        _ => ExplainFormat::Traditional,
    };
    match (explain.analyze, explain.format) {
        (true, Some(ExplainFormat::Traditional)) => Err(SqlError::not_supported(
            "EXPLAIN ANALYZE with TRADITIONAL format",
        )),
        (true, None) if by_variable == ExplainFormat::Traditional => Ok(ExplainFormat::Tree),
        (_, format) => Ok(format.unwrap_or(by_variable)),
    }
}

/// Plans a statement.
async fn explained(
    session: &Session,
    statement: Statement,
    piece: Piece<'_>,
    reading: Reading,
) -> Result<Explained> {
    let (prepared, changed) = match statement {
        Statement::Query(query) => {
            let prepared = select::prepare(session, &query, piece, reading).await?;
            (Some(prepared), Changed::Nothing)
        }
        Statement::Update(update) => {
            let phase = ReadPhase::of_update(session, *update, piece)?;
            (
                Some(phase.explained(session, reading).await?),
                phase.changed(),
            )
        }
        Statement::Delete(delete) => {
            let phase = ReadPhase::of_delete(session, &delete, piece)?;
            (
                Some(phase.explained(session, reading).await?),
                phase.changed(),
            )
        }
        Statement::Insert(statement) => {
            let (changed, query) = insert::explained(session, *statement, piece)?;
            let prepared = match query {
                Some(query) => Some(select::plan(session, &query, reading).await?),
                None => None,
            };
            (prepared, changed)
        }
        _ => return Err(SqlError::not_supported("EXPLAIN of this statement")),
    };
    Ok(match prepared {
        Some(prepared) => of_shown(session, &prepared.shown(changed)),
        None => nothing_planned(changed),
    })
}

/// The description of a plan.
fn of_shown(session: &Session, shown: &Shown) -> Explained {
    let prices = session.frontend.engine.prices();
    Explained {
        plan: Plan {
            changed: shown.changed.clone(),
            ..explain::plan(&shown.plan, &prices)
        },
        references: shown.references.clone(),
        operators: Some(shown.plan.clone()),
    }
}

/// A statement for which no query is planned.
fn nothing_planned(changed: Changed) -> Explained {
    Explained {
        plan: Plan {
            definitions: Vec::new(),
            root: None,
            changed,
            change: None,
        },
        references: Vec::new(),
        operators: None,
    }
}

/// Runs a query and says what it did.
async fn analyzed_query(
    session: &Session,
    query: &sqlparser::ast::Query,
    piece: Piece<'_>,
    reading: Reading,
    format: ExplainFormat,
) -> Result<Rowset> {
    let cancel = reading.cancel.clone();
    let prepared = select::prepare(session, query, piece, reading).await?;
    let began = Instant::now();
    let mut stream = session.frontend.start(&prepared);
    let mut rows = 0;
    while let Some(batch) = guarded(&mut stream, &cancel).await? {
        rows += batch.num_rows() as u64;
    }
    let elapsed = began.elapsed().as_secs_f64() * 1e3;
    let explained = of_shown(session, &prepared.shown(Changed::Nothing));
    Ok(analyzed_rows(session, &explained, format, (rows, elapsed)))
}

/// Runs a statement that changes rows and says what it did.
async fn analyzed_change(
    session: &mut Session,
    statement: Statement,
    piece: Piece<'_>,
    format: ExplainFormat,
    cancel: &CancelToken,
) -> Result<Rowset> {
    let changed = match piece.parse()? {
        Statement::Update(update) => ReadPhase::of_update(session, *update, piece)?.changed(),
        Statement::Delete(delete) => ReadPhase::of_delete(session, &delete, piece)?.changed(),
        Statement::Insert(insert) => insert::explained(session, *insert, piece)?.0,
        _ => return Err(SqlError::not_supported("EXPLAIN ANALYZE of this statement")),
    };
    let probe: Arc<Probe> = Arc::default();
    session.probe = Some(probe.clone());
    let began = Instant::now();
    let outcome = restart::change(session, statement, piece, cancel).await;
    session.probe = None;
    let rows = outcome?.affected_rows;
    let elapsed = began.elapsed().as_secs_f64() * 1e3;
    let ran = probe.0.lock().take();
    let mut explained = match ran {
        Some(ran) => of_shown(session, &ran),
        None => nothing_planned(changed.clone()),
    };
    explained.plan.changed = changed;
    explained.plan.change = Some(Actual {
        first: elapsed,
        last: elapsed,
        rows: rows as f64,
        loops: 1,
    });
    Ok(analyzed_rows(session, &explained, format, (rows, elapsed)))
}

impl Session {
    /// Keeps a plan that runs for the EXPLAIN ANALYZE that the statement is part of.
    pub(super) fn observe(&self, prepared: &Prepared) {
        if let Some(probe) = &self.probe {
            *probe.0.lock() = Some(Arc::new(prepared.shown(Changed::Nothing)));
        }
    }
}

/// A plan that was not run, or runs.
fn explained_rows(explained: &Explained, format: ExplainFormat) -> Rowset {
    match format {
        ExplainFormat::Traditional => {
            let mut rows = Rowset::new(&COLUMNS);
            for row in explained.plan.table(&explained.references) {
                rows.push(row.into());
            }
            rows
        }
        ExplainFormat::Tree => one_text(&explained.plan.tree()),
        ExplainFormat::Json => one_text(&explained.plan.json(&explained.references)),
        ExplainFormat::Engine => {
            let operators = explained.operators.as_ref();
            let text = operators.map(|plan| {
                with_definitions(plan, |plan| displayable(plan).indent(false).to_string())
            });
            one_text(&text.unwrap_or_else(|| "values".to_owned()))
        }
    }
}

/// A plan that was run, with the rows that it delivered or changed, and its milliseconds.
fn analyzed_rows(
    session: &Session,
    explained: &Explained,
    format: ExplainFormat,
    (rows, elapsed): (u64, f64),
) -> Rowset {
    let measured = |plan: &dyn ExecutionPlan| {
        let measured = DisplayableExecutionPlan::with_metrics(plan);
        measured.indent(false).to_string()
    };
    let plan = match (format, &explained.operators) {
        (ExplainFormat::Json, _) => return one_text(&explained.plan.json(&explained.references)),
        (ExplainFormat::Engine, Some(operators)) => with_definitions(operators, measured),
        _ => explained.plan.tree(),
    };
    let scans = ScanCounters::default();
    if let Some(operators) = &explained.operators {
        count_scans(operators, &scans);
    }
    let cost = Prices::of(&session.variables).cost(&scans);
    let counters = explained.plan.counters();
    one_text(&format!(
        "{plan}\n{rows} rows in {elapsed:.1} ms\n{cost}\n\n{counters}"
    ))
}

fn one_text(plan: &str) -> Rowset {
    let mut rows = Rowset::new(&["EXPLAIN"]);
    rows.push(vec![text(plan.trim_end())]);
    rows
}

/// The operators of a plan, and those of the common table expressions that it reads behind it.
fn with_definitions(
    plan: &Arc<dyn ExecutionPlan>,
    shown: impl Fn(&dyn ExecutionPlan) -> String,
) -> String {
    let mut text = shown(plan.as_ref());
    for part in definitions(plan) {
        let _ = write!(text, "\n{}:\n{}", part.name, shown(part.plan.as_ref()));
    }
    text
}
