//! The rule that lets an index deliver the order of `ORDER BY … LIMIT` where reading the first rows
//! in order costs less than reading all and sorting them (SPEC's F5).
//!
//! It changes the access below the sort, which DataFusion then finds to be in order and removes.
//! Sorts without a limit keep the cheapest path; where that happens to be in order, the access says
//! so when it is asked (`PageScanExec::try_pushdown_sort`).

use std::sync::Arc;

use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::Transformed;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};

use super::cost::CostModel;
use super::exec::{PageScanExec, as_page_scan};
use super::paths::AccessPath;
use crate::plan::rewrite::{Rewrite, Rewritten};

/// The rule.
pub(super) const INDEX_ORDER: Rewrite = Rewrite::downwards("IndexOrder", replace);

fn replace(node: Arc<dyn ExecutionPlan>) -> Rewritten {
    let Some(sort) = node.downcast_ref::<SortExec>() else {
        return Ok(Transformed::no(node));
    };
    let Some(limit) = sort.fetch() else {
        return Ok(Transformed::no(node));
    };
    let order: Vec<PhysicalSortExpr> = sort.expr().iter().cloned().collect();
    match ordered_below(sort.input(), &order, limit as f64)? {
        Some(input) => Ok(Transformed::yes(above(node, input)?)),
        None => Ok(Transformed::no(node)),
    }
}

/// The plan with its access in this order, if that is cheaper. Only projections may be between.
fn ordered_below(
    plan: &Arc<dyn ExecutionPlan>,
    order: &[PhysicalSortExpr],
    limit: f64,
) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = as_page_scan(plan) {
        return Ok(ordered(scan, order, limit).map(|scan| Arc::new(scan) as _));
    }
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else {
        return Ok(None);
    };
    let below = |sort: &PhysicalSortExpr| -> Option<PhysicalSortExpr> {
        let column = sort.expr.downcast_ref::<Column>()?;
        let expr: &Arc<dyn PhysicalExpr> = &projection.expr()[column.index()].expr;
        Some(PhysicalSortExpr::new(expr.clone(), sort.options))
    };
    let Some(order) = order.iter().map(below).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let input = ordered_below(projection.input(), &order, limit)?;
    input.map(|input| above(plan.clone(), input)).transpose()
}

/// A node with another input.
pub(super) fn above(
    node: Arc<dyn ExecutionPlan>,
    input: Arc<dyn ExecutionPlan>,
) -> DfResult<Arc<dyn ExecutionPlan>> {
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    node.replace_children(vec![input], options)
}

/// The access by the index that delivers the first `limit` rows in order at the least cost, if that
/// is less than what the access and a sort cost.
fn ordered(scan: &PageScanExec, order: &[PhysicalSortExpr], limit: f64) -> Option<PageScanExec> {
    if scan.limit.is_some() || scan.order.is_some() {
        return None;
    }
    let rows = scan.estimated_rows();
    let mut best = (scan.cost() + CostModel::sort(rows, limit), None);
    for path in scan.wanted(&scan.needed()).paths() {
        let mut candidate = scan.clone();
        let possible = scan.path.possible.clone();
        candidate.path = AccessPath { possible, ..path };
        let Some(reverse) = candidate.delivers(order) else {
            continue;
        };
        let cost = scan.cost_model().path_until(&candidate.path, limit, rows);
        if cost < best.0 {
            best = (cost, Some(candidate.in_order(reverse, order)));
        }
    }
    best.1
}
