//! The rule that turns hash joins into index nested-loop joins where the outer side delivers few
//! rows and the inner table has an index on the join's columns (SPEC's F5).
//!
//! It runs in the place of DataFusion's first filter push-down: there join sides are chosen, accesses have all
//! their filters, and what distribution and order the join's one remaining child must have is still
//! to be settled, by DataFusion and for the new plan.

use std::sync::{Arc, OnceLock};

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinSide, NullEquality, Result as DfResult};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use perigee_engine::catalog::HIDDEN_ROW_ID;

use super::Reason;
use super::exec::{NdpChoice, PageScanExec, as_page_scan};
use super::expected_rows::ExpectedRows;
use super::index_join::{IndexJoinExec, InnerSide, JoinParts, KeyPart, Step};
use super::join_key::{Around, Strings, same_key};
use super::paths::AccessPath;
use super::skew::{Found, rows_per_probe, spreads_of};
use crate::plan::rewrite::Rewritten;

/// Lookups must be expected to cost at most one part in so many of the access they replace: the
/// cost of a scan is known, the number of outer rows is only estimated, in joins of several tables
/// to be wrong by such a factor.
pub(super) const SAFETY: f64 = 3.0;

/// The rule.
#[derive(Debug)]
pub(super) struct IndexJoins;

impl PhysicalOptimizerRule for IndexJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let expected = ExpectedRows::default();
        // Upwards, so that a join's outer side is final when it is looked at.
        Ok(plan.transform_up(|node| replace(node, &expected))?.data)
    }

    fn name(&self) -> &str {
        "IndexNestedLoopJoin"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn replace(node: Arc<dyn ExecutionPlan>, expected: &ExpectedRows) -> Rewritten {
    let Some(join) = node.downcast_ref::<HashJoinExec>() else {
        return Ok(Transformed::no(node));
    };
    let mut best: Option<(f64, Candidate)> = None;
    for outer in [JoinSide::Left, JoinSide::Right] {
        let plan = outer_plan(join, outer);
        let Some(least) = rows(plan)? else { continue };
        let mut candidates = candidates(join, outer);
        candidates.retain(|candidate| candidate.saved(least) > 0.0);
        if candidates.is_empty() {
            continue;
        }
        let keys = expected.of(plan)?.unwrap_or(least);
        for candidate in candidates {
            let saved = candidate.saved(keys);
            if saved > 0.0 && best.as_ref().is_none_or(|(most, _)| saved > *most) {
                best = Some((saved, candidate));
            }
        }
    }
    Ok(match best {
        Some((_, candidate)) => Transformed::yes(Arc::new(candidate.join(join)?) as _),
        None => Transformed::no(node),
    })
}

/// Rows that a plan is expected to deliver, as far as DataFusion knows.
pub(super) fn rows(plan: &Arc<dyn ExecutionPlan>) -> DfResult<Option<f64>> {
    let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new())?;
    Ok(statistics.num_rows.get_value().map(|rows| *rows as f64))
}

fn outer_plan(join: &HashJoinExec, outer: JoinSide) -> &Arc<dyn ExecutionPlan> {
    if outer == JoinSide::Left {
        join.left()
    } else {
        join.right()
    }
}

fn inner_plan(join: &HashJoinExec, outer: JoinSide) -> &Arc<dyn ExecutionPlan> {
    outer_plan(join, outer.negate())
}

/// A way to run a join by lookups.
pub(super) struct Candidate {
    outer: JoinSide,
    inner: InnerSide,
    /// Cost of reading and hashing the inner side instead.
    replaced: f64,
    /// For each comparison of the join, whether the key decides it.
    in_key: Vec<bool>,
}

/// The ways to run a join by lookups with the outer rows from this side, one for each index.
pub(super) fn candidates(join: &HashJoinExec, outer: JoinSide) -> Vec<Candidate> {
    let plain = join.null_equality() == NullEquality::NullEqualsNothing
        && !join.null_aware
        && IndexJoinExec::supports(*join.join_type(), outer);
    let inner = inner_plan(join, outer);
    let Some((scan, steps)) = table_below(inner).filter(|_| plain) else {
        return Vec::new();
    };
    let on: Vec<_> = join
        .on()
        .iter()
        .map(|(left, right)| {
            if outer == JoinSide::Left {
                (left, right)
            } else {
                (right, left)
            }
        })
        .map(|(of_outer, of_inner)| {
            let column = key_column(scan, &steps, of_inner).filter(|_| {
                let ty = |expr: &Arc<dyn PhysicalExpr>, plan: &Arc<dyn ExecutionPlan>| {
                    expr.data_type(&plan.schema()).ok()
                };
                let ty_of_outer = ty(of_outer, outer_plan(join, outer));
                ty_of_outer.is_some() && ty_of_outer == ty(of_inner, inner)
            });
            (column, of_outer.clone())
        })
        .collect();
    let needed = scan.needed();
    let hinted = scan.context.settings.indexes;
    (0..scan.table.indexes.len())
        .filter(|index| hinted.allows(*index))
        .filter_map(|index| {
            let (key, in_key) = key_of(scan, index, &on)?;
            let fetch = index > 0 && !scan.table.indexes[index].covers(&needed);
            let mut possible = scan.path.possible.clone();
            if !possible.contains(&index) {
                possible.push(index);
            }
            let path = AccessPath {
                equal_columns: key.len(),
                possible,
                ..AccessPath::all_of(index, fetch)
            };
            let probing = outer_plan(join, outer);
            let inner_index = &scan.table.indexes[index];
            let columns = inner_index.layout.key.iter().zip(&key);
            let found: Vec<_> = columns
                .map(|(place, part)| {
                    let column = inner_index.columns[usize::from(*place)];
                    let probes = spreads_of(probing, &part.value);
                    Found::of(&scan.table, &scan.stats, column, &probes)
                })
                .collect();
            let matches = rows_per_probe(&scan.stats, inner_index, &found);
            let mut lookup = scan.clone();
            lookup.path = path;
            lookup.ndp = NdpChoice::not(Reason::Lookup);
            let inner = InnerSide {
                scan: lookup.rebuilt(),
                steps: steps.clone(),
                schema: inner.schema(),
                key,
                matches,
                lookups: OnceLock::new(),
            };
            Some(Candidate {
                outer,
                inner,
                replaced: scan.cost() + scan.cost_model().hashed(scan.estimated_rows()),
                in_key,
            })
        })
        .collect()
}

/// The table access below the inner side of a join, if nothing but filters and projections is
/// between, and those, from the access upwards.
fn table_below(plan: &Arc<dyn ExecutionPlan>) -> Option<(&PageScanExec, Vec<Step>)> {
    let mut steps = Vec::new();
    let mut plan = plan;
    loop {
        if let Some(scan) = as_page_scan(plan) {
            let plain = scan.limit.is_none() && scan.aggregate.is_none() && scan.order.is_none();
            steps.reverse();
            return plain.then_some((scan, steps));
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let exprs = projection
                .expr()
                .iter()
                .map(|column| column.expr.clone())
                .collect();
            steps.push(Step::Project(exprs, projection.schema()));
            plan = projection.input();
        } else {
            let filter = plan
                .downcast_ref::<FilterExec>()
                .filter(|f| f.fetch().is_none())?;
            let columns = filter.projection().as_ref().map(|columns| columns.to_vec());
            steps.push(Step::Filter(filter.predicate().clone(), columns));
            plan = filter.input();
        }
    }
}

/// The table column that an expression over the inner side is, if values that the join calls equal
/// have the same key.
pub(super) fn key_column(
    scan: &PageScanExec,
    steps: &[Step],
    expr: &Arc<dyn PhysicalExpr>,
) -> Option<u16> {
    let mut around = Around::default();
    let output = look_below(&mut around, steps, expr)?;
    let column = *scan.projection.get(output)? as u16;
    let def = scan.table.def.columns.get(usize::from(column))?;
    let stored = scan.table_schema.field(usize::from(column)).data_type();
    same_key(&around, def.ty, stored).then_some(column)
}

/// Follows an expression over the result of the steps to the scan's output column, noting what is done to it.
fn look_below(around: &mut Around, steps: &[Step], expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    let index = around.column(expr)?.index();
    match steps.split_last() {
        None => Some(index),
        Some((Step::Project(exprs, _), below)) => look_below(around, below, &exprs[index]),
        Some((Step::Filter(_, columns), below)) => {
            let index = columns.as_ref().map_or(index, |columns| columns[index]);
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("", index));
            look_below(around, below, &column)
        }
    }
}

/// The leading key columns of an index that the join compares, and for each comparison whether
/// equal keys decide it.
fn key_of(
    scan: &PageScanExec,
    index: usize,
    on: &[(Option<u16>, Arc<dyn PhysicalExpr>)],
) -> Option<(Vec<KeyPart>, Vec<bool>)> {
    let index = &scan.table.indexes[index];
    let mut in_key = vec![false; on.len()];
    let mut key = Vec::new();
    for position in &index.layout.key[..index.key_columns] {
        let place = &index.layout.columns[usize::from(*position)];
        let column = index.columns[usize::from(*position)];
        let compared = on
            .iter()
            .position(|(c, _)| *c == Some(column) && column != HIDDEN_ROW_ID);
        let Some(compared) = compared else { break };
        // Strings with equal keys may still differ in trailing spaces.
        in_key[compared] = !place.ty.is_string();
        let value = on[compared].1.clone();
        key.push(KeyPart {
            ty: place.ty,
            nullable: place.null_bit.is_some(),
            value,
            strings: Strings::Forms,
        });
    }
    (!key.is_empty()).then_some((key, in_key))
}

impl Candidate {
    /// What the join saves if it looks up so many keys.
    fn saved(&self, keys: f64) -> f64 {
        let InnerSide { scan, matches, .. } = &self.inner;
        let path = &scan.path;
        let lookups = scan
            .cost_model()
            .lookups(path.index, path.fetch, keys, *matches);
        self.replaced - SAFETY * lookups
    }

    /// The join by lookups.
    pub(super) fn join(self, join: &HashJoinExec) -> DfResult<IndexJoinExec> {
        let equal = join
            .on()
            .iter()
            .zip(&self.in_key)
            .filter(|(_, in_key)| !**in_key)
            .map(|((left, right), _)| match self.outer {
                JoinSide::Left => (left.clone(), right.clone()),
                _ => (right.clone(), left.clone()),
            })
            .collect();
        let parts = JoinParts {
            join_type: *join.join_type(),
            outer: self.outer,
            on: join.on().to_vec(),
            equal,
            filter: join.filter().cloned(),
            projection: join.projection.as_ref().map(|columns| columns.to_vec()),
            fetch: join.fetch(),
        };
        let inner = inner_plan(join, self.outer);
        let statistics =
            StatisticsContext::new().compute(inner.as_ref(), &StatisticsArgs::new())?;
        let input = outer_plan(join, self.outer).clone();
        IndexJoinExec::try_new(input, Arc::new(self.inner), parts, statistics)
    }
}
