//! [`JoinTableRule`]: which joins are done in storage.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinSide, Result as DfResult};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::joins::HashJoinExec;

use super::JoinTableExec;
use super::columns::{Origin, are_unique};
use super::matching::{AboveJoin, Match};
use super::replay::{ReplayExec, Slot};
use super::table_side::TableSide;
use crate::access::exec::PageScanExec;
use crate::access::filters::with_children;
use crate::access::join_key::Around;
use crate::access::join_rule::rows;
use crate::access::ndp_rule::{NdpRule, check_form};
use crate::plan::common::is_step;

/// A join is done in storage if its table is expected to have at most so many times the rows that the scan would
/// deliver: a row of the table costs less than one that is delivered and joined, of which it may spare several.
const ROWS_FOR_ROW: f64 = 4.0;

/// Bytes of a row of a table beside its columns: its key, and what finds it.
const ROW_BYTES: f64 = 8.0;

/// The rule.
#[derive(Debug)]
pub struct JoinTableRule;

impl PhysicalOptimizerRule for JoinTableRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        // Each step of a recursive query has other rows, and its scans are the same.
        if is_step(&plan)? {
            return Ok(plan);
        }
        Ok(plan.transform_up(joining)?.data)
    }

    fn name(&self) -> &str {
        "JoinTables"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A partial aggregation over a join that storage can do, in storage.
fn joining(node: Arc<dyn ExecutionPlan>) -> DfResult<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else {
        return Ok(Transformed::no(node));
    };
    let is_partial = *aggregate.mode() == AggregateMode::Partial;
    if !is_partial || check_form(aggregate).is_err() {
        return Ok(Transformed::no(node));
    }
    let Some(above) = AboveJoin::of(aggregate.input()) else {
        return Ok(Transformed::no(node));
    };
    let sides = [JoinSide::Left, JoinSide::Right];
    let candidates = sides.into_iter().filter_map(|side| {
        let of = Match::of(&above, side)?;
        let (scan, table) = scan_of(&of, aggregate)?;
        Some((side, of.scan.estimated_pages(), scan, table))
    });
    // The larger side is the one to be reduced.
    let best = candidates.max_by(|(_, one, ..), (_, other, ..)| one.total_cmp(other));
    let Some((side, _, scan, table)) = best else {
        return Ok(Transformed::no(node));
    };
    let joined = join_table(&node, &above, side, (scan, table))?;
    Ok(Transformed::yes(Arc::new(joined)))
}

/// The scan that does the join and the aggregation, and what its table is made of; `None` if storage cannot do that or
/// it does not pay.
fn scan_of(of: &Match<'_>, aggregate: &AggregateExec) -> Option<(PageScanExec, TableSide)> {
    let context = &of.scan.context;
    let settings = &context.settings;
    let hint = settings.join_table_hint;
    if !hint.unwrap_or(settings.join_tables) || !context.engine.storage_knows_joins() {
        return None;
    }
    if of.needs_unique_keys() && !has_unique_keys(of) && hint != Some(true) {
        return None;
    }
    let pushed = of.pushed(aggregate).ok()?;
    if hint != Some(true) && !pays(of, &pushed.side) {
        return None;
    }
    let mut scan = of.scan.clone();
    scan.join = Some(pushed.join);
    scan.aggregate = Some(pushed.aggregate);
    let rule = NdpRule {
        context: context.clone(),
    };
    scan.ndp = rule.choice(&scan);
    scan.ndp.join = true;
    let all = scan.ndp.aggregate && (scan.ndp.filter || scan.filters.is_empty());
    all.then(|| (scan.rebuilt(), pushed.side))
}

/// True if no two rows of the table are known to have the same key. That is checked again when the table is made.
fn has_unique_keys(of: &Match<'_>) -> bool {
    let columns = of.table_keys().filter_map(|key| {
        let column = Around::default().column(key)?.index();
        Some(column)
    });
    are_unique(of.table, &columns.collect::<Vec<_>>())
}

/// True if the table is expected to be small enough, and to spare more than it costs.
fn pays(of: &Match<'_>, side: &TableSide) -> bool {
    let Some(rows) = rows(of.table).ok().flatten() else {
        return false;
    };
    let columns = side.columns.iter().zip(&side.payload);
    let width = columns.map(|(column, (ty, _))| {
        let known = Origin::of(of.table, *column).and_then(|origin| origin.width());
        known.unwrap_or_else(|| f64::from(ty.stored_width().unwrap_or(16)))
    });
    let bytes = rows * (ROW_BYTES + width.sum::<f64>());
    bytes <= side.budget as f64 && rows <= ROWS_FOR_ROW * of.scan.estimated_rows()
}

/// The node in the place of an aggregation over a join.
fn join_table(
    aggregate: &Arc<dyn ExecutionPlan>,
    above: &AboveJoin<'_>,
    scanned: JoinSide,
    (scan, side): (PageScanExec, TableSide),
) -> DfResult<JoinTableExec> {
    let slot = Arc::<Slot>::default();
    let (left, right) = (above.join.left(), above.join.right());
    let replay = |of: &Arc<dyn ExecutionPlan>| -> Arc<dyn ExecutionPlan> {
        Arc::new(ReplayExec::new(of.clone(), slot.clone()))
    };
    let (table, inputs) = match scanned {
        JoinSide::Left => (right, vec![left.clone(), replay(right)]),
        _ => (left, vec![replay(left), right.clone()]),
    };
    let otherwise = replaced(aggregate, &inputs)?;
    let side = Arc::new(side);
    Ok(JoinTableExec::new(
        table.clone(),
        otherwise,
        scan,
        side,
        slot,
    ))
}

/// A plan whose join, below nodes with one input, has other inputs.
fn replaced(
    plan: &Arc<dyn ExecutionPlan>,
    inputs: &[Arc<dyn ExecutionPlan>],
) -> DfResult<Arc<dyn ExecutionPlan>> {
    if plan.is::<HashJoinExec>() {
        return with_children(plan, inputs.to_vec());
    }
    let below = plan.children();
    let below = below.first().expect("the join is below");
    let input = replaced(below, inputs)?;
    with_children(plan, vec![input])
}
