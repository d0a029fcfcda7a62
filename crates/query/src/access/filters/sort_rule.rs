//! The rule that gives scans the thresholds of sorts with a limit, on a finished plan (PushdownDB, section VII).

use std::sync::Arc;

use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use perigee_engine::ndp::{Best, MAX_BEST};

use super::target::Target;
use super::top_keys::{SortKeys, SortTarget};
use super::trace::{Part, below};
use super::{FilterOrigin, RunTimeFilter, WatchExec, with_children};
use crate::access::exec::{PageScanExec, as_page_scan};
use crate::access::join_key::{ScanColumn, scan_column};
use crate::access::reason::Reason;
use crate::plan::common::is_step;

/// The scan is expected to have so many times as many rows as the sort keeps.
const WORTH: f64 = 4.0;

/// The rule.
#[derive(Debug)]
pub struct TopFilterRule;

impl PhysicalOptimizerRule for TopFilterRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        // Each step of a recursive query has other rows, and its scans are the same.
        if is_step(&plan)? {
            return Ok(plan);
        }
        Ok(plan.transform_down(filtering)?.data)
    }

    fn name(&self) -> &str {
        "TopFilters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A sort whose threshold filters the scans that its rows come from, if there are such.
fn filtering(node: Arc<dyn ExecutionPlan>) -> DfResult<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(mut top) = node.downcast_ref::<SortExec>().and_then(Top::of) else {
        return Ok(Transformed::no(node));
    };
    let parts: Vec<Part> = top.keys.iter().cloned().enumerate().collect();
    let input = node.children()[0].clone();
    let reached = top.reach(&input, &parts, true)?;
    if Arc::ptr_eq(&reached, &input) {
        return Ok(Transformed::no(node));
    }
    let reached = match top.targets.is_empty() {
        true => reached,
        false => {
            let keys = SortKeys::new(top.best, top.targets);
            Arc::new(WatchExec::new(reached, Arc::new(keys)))
        }
    };
    Ok(Transformed::yes(with_children(&node, vec![reached])?))
}

/// A sort that keeps the first so many rows.
struct Top {
    best: Best,
    /// The leading columns of its order that go in one direction.
    keys: Vec<Arc<dyn PhysicalExpr>>,
    targets: Vec<SortTarget>,
}

impl Top {
    fn of(sort: &SortExec) -> Option<Self> {
        let rows = u32::try_from(sort.fetch()?).ok()?;
        let greatest = sort.expr().first().options.descending;
        let keys = sort.expr().iter().take_while(|key| {
            // NULL is the least value in keys, as in MySQL.
            key.options.descending == greatest && key.options.nulls_first != greatest
        });
        let keys: Vec<_> = keys.map(|key| key.expr.clone()).collect();
        let is_possible = (1..=MAX_BEST).contains(&rows) && !keys.is_empty();
        is_possible.then_some(Self {
            best: Best { rows, greatest },
            keys,
            targets: Vec::new(),
        })
    }

    /// The plan with filters at the scans that parts of the order come from; `direct` if each of its rows is
    /// a row of the sort.
    fn reach(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        parts: &[Part],
        direct: bool,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        if let Some(scan) = as_page_scan(plan) {
            return Ok(match self.filtered(scan, parts, direct) {
                Some(scan) => Arc::new(scan),
                None => plan.clone(),
            });
        }
        let direct = direct && keeps_rows(plan);
        let (mut children, mut changed) = (Vec::new(), false);
        let below = below(plan, parts);
        for (at, (child, parts)) in plan.children().into_iter().zip(below).enumerate() {
            let reached = match parts.is_empty() || ends_first(plan, at) {
                true => child.clone(),
                false => self.reach(child, &parts, direct)?,
            };
            changed |= !Arc::ptr_eq(&reached, child);
            children.push(reached);
        }
        match changed {
            true => with_children(plan, children),
            false => Ok(plan.clone()),
        }
    }

    /// The scan with a filter, if leading parts of the order are its columns and it pays.
    fn filtered(
        &mut self,
        scan: &PageScanExec,
        parts: &[Part],
        direct: bool,
    ) -> Option<PageScanExec> {
        let settings = &scan.context.settings;
        let pays = scan.estimated_rows() >= WORTH * f64::from(self.best.rows);
        if !settings.top_filters || !pays || !scan.takes_filters(None) || scan.aggregate.is_some() {
            return None;
        }
        let columns = leading_columns(scan, parts);
        if columns.is_empty() {
            return None;
        }
        if !scan.context.engine.storage_knows_filters() {
            return Some(scan.with_reason(Reason::OlderStore));
        }
        let keys = self.keys[..columns.len()].to_vec();
        let target = Target::new(keys, &columns)?;
        let filter = RunTimeFilter {
            origin: FilterOrigin::Sort,
            filter: target.filter().clone(),
            columns: scan.names(&columns),
        };
        self.targets.push(SortTarget { target, direct });
        Some(scan.with_filter(filter))
    }
}

/// The columns of a scan that leading parts of an order are. Behind a column that may be NULL there are none: the key
/// of a row with NULL says nothing of its place among others.
fn leading_columns(scan: &PageScanExec, parts: &[Part]) -> Vec<ScanColumn> {
    let mut columns = Vec::new();
    for number in 0.. {
        let part = parts.iter().find(|(n, _)| *n == number);
        let column = part.and_then(|(_, part)| scan_column(scan, part));
        let column = column.filter(|column| {
            let is_first = columns.is_empty();
            // Strings are sorted by more than their keys.
            !column.ty.is_string() && (is_first || !scan.is_nullable(column))
        });
        let Some(column) = column else { break };
        let is_last = scan.is_nullable(&column);
        columns.push(column);
        if is_last {
            break;
        }
    }
    columns
}

/// True if each row of a node's inputs becomes a row of its own.
fn keeps_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<ProjectionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<UnionExec>()
        || plan.is::<WatchExec>()
}

/// True if an input has been read to its end before the node gives out a row: a threshold comes too late for it.
fn ends_first(plan: &Arc<dyn ExecutionPlan>, input: usize) -> bool {
    plan.is::<AggregateExec>() || plan.is::<SortExec>() || (plan.is::<HashJoinExec>() && input == 0)
}
