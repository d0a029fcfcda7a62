//! The rule that gives scans join filters, on a finished plan.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, NullEquality, Result as DfResult};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;

use super::join_keys::JoinKeys;
use super::target::Target;
use super::trace::{Part, below};
use super::{FilterOrigin, RunTimeFilter, WatchExec, with_children};
use crate::access::exec::{PageScanExec, as_page_scan};
use crate::access::join_key::{ScanColumn, scan_column};
use crate::access::join_rule::rows;
use crate::access::reason::Reason;
use crate::plan::common::is_step;

/// The rule.
#[derive(Debug)]
pub struct JoinFilterRule;

impl PhysicalOptimizerRule for JoinFilterRule {
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
        "JoinFilters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A join whose build side gives filters to scans of its probe side, if there are such.
fn filtering(node: Arc<dyn ExecutionPlan>) -> DfResult<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(join) = node.downcast_ref::<HashJoinExec>() else {
        return Ok(Transformed::no(node));
    };
    if !drops_unmatched_probe_rows(join) {
        return Ok(Transformed::no(node));
    }
    let on = join.on();
    let (left, right) = (join.left().schema(), join.right().schema());
    let same_type = |(one, other): &&(PhysicalExprRef, PhysicalExprRef)| {
        let ty = one.data_type(&left).ok();
        ty.is_some() && ty == other.data_type(&right).ok()
    };
    let on: Vec<_> = on.iter().filter(same_type).collect();
    let parts: Vec<Part> = on
        .iter()
        .map(|(_, right)| right.clone())
        .enumerate()
        .collect();
    let keys: Vec<_> = on.iter().map(|(left, _)| left.clone()).collect();
    let mut build = Build {
        rows: rows(join.left())?,
        keys,
        targets: Vec::new(),
    };
    let probe = build.reach(join.right(), &parts)?;
    if Arc::ptr_eq(&probe, join.right()) {
        return Ok(Transformed::no(node));
    }
    let left = match build.targets.is_empty() {
        true => join.left().clone(),
        false => {
            let keys = JoinKeys::new(build.targets);
            Arc::new(WatchExec::new(join.left().clone(), Arc::new(keys)))
        }
    };
    Ok(Transformed::yes(with_children(&node, vec![left, probe])?))
}

/// True if rows of the right side without a match are not in the result, nor does it depend on them.
fn drops_unmatched_probe_rows(join: &HashJoinExec) -> bool {
    let by_type = match join.join_type() {
        JoinType::Inner
        | JoinType::Left
        | JoinType::LeftSemi
        | JoinType::LeftAnti
        | JoinType::LeftMark
        | JoinType::RightSemi => true,
        JoinType::Right | JoinType::Full | JoinType::RightAnti | JoinType::RightMark => false,
    };
    by_type && join.null_equality() == NullEquality::NullEqualsNothing && !join.null_aware
}

/// The build side of a join, and the scans that its keys filter.
struct Build {
    /// Rows that are expected.
    rows: Option<f64>,
    /// What the join compares.
    keys: Vec<Arc<dyn PhysicalExpr>>,
    targets: Vec<Target>,
}

impl Build {
    /// The plan with filters at the scans that parts of the key come from.
    fn reach(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        parts: &[Part],
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        if let Some(scan) = as_page_scan(plan) {
            return Ok(match self.filtered(scan, parts) {
                Some(scan) => Arc::new(scan),
                None => plan.clone(),
            });
        }
        let (mut children, mut changed) = (Vec::new(), false);
        for (child, parts) in plan.children().into_iter().zip(below(plan, parts)) {
            let reached = match parts.is_empty() {
                true => child.clone(),
                false => self.reach(child, &parts)?,
            };
            changed |= !Arc::ptr_eq(&reached, child);
            children.push(reached);
        }
        match changed {
            true => with_children(plan, children),
            false => Ok(plan.clone()),
        }
    }

    /// The scan with a filter, if it has columns that are parts of the key and it pays.
    fn filtered(&mut self, scan: &PageScanExec, parts: &[Part]) -> Option<PageScanExec> {
        let settings = &scan.context.settings;
        let hint = settings.join_filter_hint;
        if !hint.unwrap_or(settings.join_filters) || !scan.takes_filters(hint) {
            return None;
        }
        let (mut columns, mut keys) = (Vec::<ScanColumn>::new(), Vec::new());
        for (number, part) in parts {
            let column = scan_column(scan, part);
            let known = |column: &ScanColumn| columns.iter().any(|c| c.place == column.place);
            if let Some(column) = column.filter(|column| !known(column)) {
                columns.push(column);
                keys.push(self.keys[*number].clone());
            }
        }
        if columns.is_empty() || !self.pays(scan, &columns) {
            return None;
        }
        if hint != Some(true) && !scan.context.engine.storage_knows_filters() {
            return Some(scan.with_reason(Reason::OlderStore));
        }
        let target = Target::new(keys, &columns)?;
        let filter = RunTimeFilter {
            origin: FilterOrigin::Join,
            filter: target.filter().clone(),
            columns: scan.names(&columns),
        };
        self.targets.push(target);
        Some(scan.with_filter(filter))
    }

    /// True if few enough of the scan's rows are expected to pass: each key of the build side is taken for
    /// one of the values that the columns have.
    fn pays(&self, scan: &PageScanExec, columns: &[ScanColumn]) -> bool {
        let Some(rows) = self.rows else { return true };
        let stats = |column: &ScanColumn| scan.stats.columns.get(usize::from(column.number));
        let distinct: f64 = columns
            .iter()
            .map(|column| stats(column).map_or(f64::INFINITY, |stats| stats.distinct as f64))
            .product();
        let values = distinct.min(scan.stats.rows as f64).max(1.0);
        rows / values <= scan.context.settings.thresholds.max_filter_factor()
    }
}
