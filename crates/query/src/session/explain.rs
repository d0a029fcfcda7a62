//! EXPLAIN: a row a table in MySQL's form, the plan as a tree, or the plan that was run.

use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::sql::sqlparser::ast::Query;
use perigee_engine::scan::CancelToken;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use super::rowset::{Rowset, text};
use super::select::{Prepared, guarded, prepare};
use super::{Session, show::number};
use crate::access::{analyze, describe};
use crate::error::Result;
use crate::parse::{ExplainForm, Piece};
use crate::result::ResultSink;

/// Runs an EXPLAIN.
pub(super) async fn run(
    session: &mut Session,
    form: ExplainForm,
    query: Box<Query>,
    piece: Piece<'_>,
    out: &mut dyn ResultSink,
    cancel: &CancelToken,
) -> Result<()> {
    let prepared = prepare(session, query, piece, cancel).await?;
    let rowset = match form {
        ExplainForm::Table => table(&prepared),
        ExplainForm::Tree => tree(tree_text(&prepared.plan)),
        ExplainForm::Analyze => {
            let began = Instant::now();
            let mut stream = session.frontend.start(&prepared);
            let mut rows = 0;
            while let Some(batch) = guarded(&mut stream, cancel).await? {
                rows += batch.num_rows();
            }
            let elapsed = began.elapsed().as_secs_f64() * 1e3;
            tree(format!(
                "{rows} rows in {elapsed:.1} ms\n\n{}\n{}",
                measured_text(&prepared.plan),
                analyze(&prepared.plan)
            ))
        }
    };
    rowset.send(session.warning_count(), out).await
}

fn tree(plan: String) -> Rowset {
    let mut rows = Rowset::new(&["EXPLAIN"]);
    rows.push(vec![text(plan.trim_end())]);
    rows
}

fn tree_text(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}

fn measured_text(plan: &Arc<dyn ExecutionPlan>) -> String {
    datafusion::physical_plan::display::DisplayableExecutionPlan::with_metrics(plan.as_ref())
        .indent(false)
        .to_string()
}

fn table(prepared: &Prepared) -> Rowset {
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
    let accesses = describe(&prepared.plan);
    if accesses.is_empty() {
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
        let kind = match (selects, select) {
            (1, _) => "SIMPLE",
            (_, 1) => "PRIMARY",
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
