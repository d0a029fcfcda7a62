//! EXPLAIN: a row a table in MySQL's form, the plan as a tree, or the plan that was run.

use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use perigee_engine::scan::{CancelToken, ScanCounters};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use super::dml::{Kind, ReadPhase};
use super::money::Prices;
use super::rowset::{Rowset, text};
use super::select::{self, Prepared, Reading, guarded};
use super::{Session, insert, show::number};
use crate::access::{analyze, count_scans, describe};
use crate::error::{Result, SqlError};
use crate::parse::{ExplainForm, Piece, Statement};
use crate::plan::common::definitions;
use crate::result::ResultSink;

/// Runs an EXPLAIN.
pub(super) async fn run(
    session: &mut Session,
    form: ExplainForm,
    statement: Statement,
    piece: Piece<'_>,
    out: &mut dyn ResultSink,
    cancel: &CancelToken,
) -> Result<()> {
    if form == ExplainForm::Analyze && !matches!(statement, Statement::Query(_)) {
        return Err(SqlError::not_supported(
            "EXPLAIN ANALYZE of a statement other than SELECT",
        ));
    }
    let mut work = session.begin_reading(true, cancel);
    let view = match &mut work {
        Some(work) => work.transaction().view(),
        None => session.current_view(),
    };
    let reading = Reading::snapshot(view, cancel);
    let rowset = explain(session, form, statement, piece, reading).await;
    let rowset = session.end_reading(work, rowset).await?;
    rowset.send(session.warning_count(), out).await
}

/// What a statement changes.
enum Changed {
    Nothing,
    /// Rows of these references: how it changes them, and their names.
    Read(&'static str, Vec<String>),
    /// A table that rows are inserted into.
    Inserted(&'static str, String),
}

async fn explain(
    session: &Session,
    form: ExplainForm,
    statement: Statement,
    piece: Piece<'_>,
    reading: Reading,
) -> Result<Rowset> {
    let cancel = reading.cancel.clone();
    let (prepared, changed) = match statement {
        Statement::Query(query) => {
            let prepared = select::prepare(session, &query, piece, reading).await?;
            (Some(prepared), Changed::Nothing)
        }
        Statement::Update(update) => {
            let phase = ReadPhase::of_update(session, *update, piece)?;
            of_phase(session, &phase, reading).await?
        }
        Statement::Delete(delete) => {
            let phase = ReadPhase::of_delete(session, &delete, piece)?;
            of_phase(session, &phase, reading).await?
        }
        Statement::Insert(statement) => {
            let kind = match statement.replace_into {
                true => "REPLACE",
                false => "INSERT",
            };
            let (table, query) = insert::explained(session, *statement, piece)?;
            let prepared = match query {
                Some(query) => Some(select::plan(session, &query, reading).await?),
                None => None,
            };
            let name = table.def.name.clone();
            (prepared, Changed::Inserted(kind, name))
        }
        _ => return Err(SqlError::not_supported("EXPLAIN of this statement")),
    };
    match (form, prepared) {
        (ExplainForm::Table, prepared) => Ok(table(prepared.as_ref(), &changed)),
        (_, None) => Ok(tree("values".to_owned())),
        (ExplainForm::Tree, Some(prepared)) => Ok(tree(tree_text(&prepared.plan))),
        (ExplainForm::Analyze, Some(prepared)) => analyzed(session, &prepared, &cancel).await,
    }
}

/// The plan of an UPDATE or DELETE, and what it changes.
async fn of_phase(
    session: &Session,
    phase: &ReadPhase,
    reading: Reading,
) -> Result<(Option<Prepared>, Changed)> {
    let prepared = phase.explained(session, reading).await?;
    let kind = match phase.kind {
        Kind::Update => "UPDATE",
        Kind::Delete => "DELETE",
    };
    let aliases = phase.targets.iter().map(|target| target.alias.clone());
    let changed = Changed::Read(kind, aliases.collect());
    Ok((Some(prepared), changed))
}

async fn analyzed(session: &Session, prepared: &Prepared, cancel: &CancelToken) -> Result<Rowset> {
    let began = Instant::now();
    let mut stream = session.frontend.start(prepared);
    let mut rows = 0;
    while let Some(batch) = guarded(&mut stream, cancel).await? {
        rows += batch.num_rows();
    }
    let elapsed = began.elapsed().as_secs_f64() * 1e3;
    let scans = ScanCounters::default();
    count_scans(&prepared.plan, &scans);
    let cost = Prices::of(&session.variables).cost(&scans);
    Ok(tree(format!(
        "{rows} rows in {elapsed:.1} ms\n{cost}\n\n{}\n{}",
        measured_text(&prepared.plan),
        analyze(&prepared.plan)
    )))
}

fn tree(plan: String) -> Rowset {
    let mut rows = Rowset::new(&["EXPLAIN"]);
    rows.push(vec![text(plan.trim_end())]);
    rows
}

fn tree_text(plan: &Arc<dyn ExecutionPlan>) -> String {
    with_definitions(plan, |plan| displayable(plan).indent(false).to_string())
}

fn measured_text(plan: &Arc<dyn ExecutionPlan>) -> String {
    with_definitions(plan, |plan| {
        let measured = DisplayableExecutionPlan::with_metrics(plan);
        measured.indent(false).to_string()
    })
}

/// A plan, and those of the common table expressions that it reads behind it.
fn with_definitions(
    plan: &Arc<dyn ExecutionPlan>,
    shown: impl Fn(&dyn ExecutionPlan) -> String,
) -> String {
    let mut text = shown(plan.as_ref());
    for (name, plan) in definitions(plan) {
        let _ = write!(text, "\n{name}:\n{}", shown(plan.as_ref()));
    }
    text
}

fn table(prepared: Option<&Prepared>, changed: &Changed) -> Rowset {
    let mut rows = Rowset::new(&[
        "#id",
        "select_type",
        "table",
        "partitions",
        "type",
        "possible_keys",
        "key",
        "key_len",
        "ref",
        "#rows",
        "filtered",
        "Extra",
    ]);
    if let Changed::Inserted(kind, name) = changed {
        let mut row = vec![
            number(1),
            text(*kind),
            text(name.clone()),
            None,
            text("ALL"),
        ];
        row.extend(std::iter::repeat_n(None, 7));
        rows.push(row);
    }
    let Some(prepared) = prepared else {
        return rows;
    };
    let accesses = describe(&prepared.plan);
    if accesses.is_empty() && matches!(changed, Changed::Nothing) {
        let mut row = vec![number(1), text("SIMPLE")];
        row.extend(std::iter::repeat_n(None, 9));
        row.push(text("No tables used"));
        rows.push(row);
        return rows;
    }
    let selects = prepared
        .accesses
        .iter()
        .map(|a| a.select)
        .max()
        .unwrap_or(1);
    for access in accesses {
        let reference = prepared.accesses.iter().find(|r| r.alias == access.table);
        let select = reference.map_or(1, |r| r.select);
        let kind = match (changed, selects, select) {
            (Changed::Read(kind, aliases), _, 1) if aliases.contains(&access.table) => kind,
            (_, 1, _) => "SIMPLE",
            (_, _, 1) => "PRIMARY",
            _ => "SUBQUERY",
        };
        let mut filtered = String::new();
        let _ = write!(filtered, "{:.2}", access.filtered);
        rows.push(vec![
            number(select),
            text(kind),
            text(access.table),
            None,
            text(access.access_type),
            access.possible_keys,
            access.key,
            None,
            None,
            number(access.rows),
            text(filtered),
            text(access.extra),
        ]);
    }
    rows
}
