//! The rule that takes near-data processing decisions on a finished plan (taurus-ndp section IV.B):
//! for each table access, independently, whether storage filters, projects and aggregates.
//!
//! It runs right after the first filter pushdown: there an aggregation is always a partial one over
//! the access, perhaps with a projection between, and a final one above.

use std::sync::Arc;

use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::projection::update_expr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExecBuilder;
use datafusion::physical_plan::projection::ProjectionExec;
use perigee_engine::ndp::Aggregate;
use perigee_expr::{AggregateFunction, Program, Type};
use perigee_value::ColumnType;

use super::convert::{Binding, convert};
use super::exec::{NdpChoice, PageScanExec, ScanAggregate, as_page_scan};
use super::join_rule::IndexJoinRule;
use super::order_rule::IndexOrderRule;
use super::{AccessContext, NdpMode};
use crate::functions::collation::PAD;

/// Aggregation is pushed if it leaves at most one partial row for so many rows, or if the index
/// delivers the groups one after the other.
const ROWS_PER_GROUP: f64 = 8.0;

/// The rules of a session: DataFusion's with ours among them.
#[must_use]
pub fn physical_rules(
    rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
    context: &AccessContext,
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut out: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> = Vec::new();
    let mut placed = false;
    for rule in rules {
        let here = !placed && rule.name() == "FilterPushdown";
        out.push(rule);
        if here {
            out.push(Arc::new(IndexOrderRule));
            // Before the NDP rule, which moves filters that are not pushed out of accesses.
            out.push(Arc::new(IndexJoinRule));
            out.push(Arc::new(NdpRule {
                context: context.clone(),
            }));
            placed = true;
        }
    }
    assert!(placed, "Q5: the planner has no filter pushdown to follow");
    out
}

/// The rule.
#[derive(Debug)]
struct NdpRule {
    context: AccessContext,
}

impl PhysicalOptimizerRule for NdpRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_down(take_aggregate)?.data;
        Ok(plan.transform_up(|node| self.decide(node))?.data)
    }

    fn name(&self) -> &str {
        "NearDataProcessing"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Lets the access below a partial aggregation aggregate itself, if it can and it pays.
fn take_aggregate(node: Arc<dyn ExecutionPlan>) -> DfResult<Transformed<Arc<dyn ExecutionPlan>>> {
    let aggregated = node
        .downcast_ref::<AggregateExec>()
        .and_then(aggregating_scan);
    Ok(match aggregated {
        Some(scan) => Transformed::yes(Arc::new(scan) as Arc<dyn ExecutionPlan>),
        None => Transformed::no(node),
    })
}

fn aggregating_scan(aggregate: &AggregateExec) -> Option<PageScanExec> {
    let plain = *aggregate.mode() == AggregateMode::Partial
        && (aggregate.group_expr().is_single() || aggregate.group_expr().is_empty())
        && aggregate.filter_expr().iter().all(Option::is_none)
        && aggregate.limit_options().is_none();
    if !plain {
        return None;
    }
    let mut input = aggregate.input();
    let mut projections = Vec::new();
    while let Some(projection) = input.downcast_ref::<ProjectionExec>() {
        projections.push(projection.expr().to_vec());
        input = projection.input();
    }
    let scan = as_page_scan(input)?;
    if scan.limit.is_some() || scan.path.fetch || scan.aggregate.is_some() {
        return None;
    }
    // Expressions over the projections become expressions over the scan's output.
    let inline = |expr: &Arc<dyn PhysicalExpr>| {
        projections
            .iter()
            .try_fold(expr.clone(), |expr, projection| {
                Some(update_expr(&expr, projection, true).ok()?.unwrap_or(expr))
            })
    };
    let groups: Vec<_> = aggregate
        .group_expr()
        .expr()
        .iter()
        .map(|(expr, _)| inline(expr))
        .collect::<Option<_>>()?;
    let keys: Vec<_> = groups.iter().map(without_padding).collect();
    let table_positions = scan.positions();
    let positions: Vec<_> = scan
        .projection
        .iter()
        .map(|c| table_positions[*c])
        .collect();
    let layout = &scan.table.indexes[scan.path.index].layout;
    let binding = Binding {
        layout,
        positions: &positions,
    };
    let group_by = groups
        .iter()
        .zip(&keys)
        .map(|(group, key)| group_key(group, key, &binding))
        .collect::<Option<Vec<_>>>()?;
    let functions = aggregate
        .aggr_expr()
        .iter()
        .map(|function| function_of(function, &binding, &inline))
        .collect::<Option<Vec<_>>>()?;
    if !pays(scan, &keys) {
        return None;
    }
    let mut aggregating = scan.clone();
    aggregating.aggregate = Some(ScanAggregate {
        aggregate: Aggregate {
            group_by,
            functions,
        },
        schema: aggregate.schema(),
    });
    Some(aggregating.rebuilt())
}

/// The argument of `mysql_pad`, any other expression itself.
fn without_padding(expr: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    match expr.downcast_ref::<ScalarFunctionExpr>() {
        Some(pad) if pad.name() == PAD => pad.args()[0].clone(),
        _ => expr.clone(),
    }
}

/// A group key as storage runs it. Storage gives strings out without trailing spaces: other strings
/// than those that are cut and those that have none are not pushed.
fn group_key(
    group: &Arc<dyn PhysicalExpr>,
    key: &Arc<dyn PhysicalExpr>,
    binding: &Binding<'_>,
) -> Option<Program> {
    let program = convert(key, binding)?;
    let column = program.as_column().map(usize::from);
    let is_char = column
        .is_some_and(|column| matches!(binding.layout.columns[column].ty, ColumnType::Char { .. }));
    let as_it_is = program.result_type() != Type::String || is_char || !Arc::ptr_eq(group, key);
    as_it_is.then_some(program)
}

type Function = (AggregateFunction, Option<Program>);

/// An aggregate function as storage runs it, if it is one of those.
fn function_of(
    function: &AggregateFunctionExpr,
    binding: &Binding<'_>,
    inline: &impl Fn(&Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>>,
) -> Option<Function> {
    if function.is_distinct() || !function.order_bys().is_empty() || function.ignore_nulls() {
        return None;
    }
    let arguments = function.expressions();
    let [argument] = &arguments[..] else {
        return None;
    };
    let argument = inline(argument)?;
    let is_literal = argument
        .downcast_ref::<Literal>()
        .is_some_and(|literal| !literal.value().is_null());
    let kind = match function.fun().name() {
        "count" if is_literal => return Some((AggregateFunction::CountAll, None)),
        "count" => AggregateFunction::Count,
        "sum" => AggregateFunction::Sum,
        "min" => AggregateFunction::Min,
        "max" => AggregateFunction::Max,
        _ => return None,
    };
    let program = convert(&argument, binding)?;
    // A sum of doubles depends on the order of its terms (SPEC's N11).
    let is_double = program.result_type() == Type::Double;
    (kind != AggregateFunction::Sum || !is_double).then_some((kind, Some(program)))
}

/// True if aggregating in the scan leaves far fewer rows, or costs no table.
fn pays(scan: &PageScanExec, groups: &[Arc<dyn PhysicalExpr>]) -> bool {
    let rows = scan.estimated_rows().max(1.0);
    let mut count = 1.0;
    let mut columns = Vec::new();
    for group in groups {
        for column in collect_columns(group) {
            let Some(table_column) = scan.projection.get(column.index()) else {
                return false;
            };
            let distinct = scan
                .stats
                .columns
                .get(*table_column)
                .map_or(rows, |c| c.distinct as f64);
            count *= distinct.max(1.0);
            columns.push(*table_column as u16);
        }
    }
    let index = &scan.table.indexes[scan.path.index];
    let by_index = !columns.is_empty()
        && groups
            .iter()
            .all(|group| group.downcast_ref::<Column>().is_some())
        && index
            .layout
            .key
            .iter()
            .take(columns.len())
            .all(|key| columns.contains(&index.columns[usize::from(*key)]));
    by_index || count.min(rows) * ROWS_PER_GROUP <= rows || groups.is_empty()
}

impl NdpRule {
    fn decide(
        &self,
        node: Arc<dyn ExecutionPlan>,
    ) -> DfResult<Transformed<Arc<dyn ExecutionPlan>>> {
        let Some(scan) = as_page_scan(&node) else {
            return Ok(Transformed::no(node));
        };
        let mut scan = scan.clone();
        scan.ndp = self.choice(&scan);
        let keep_filter = scan.ndp.any() && !scan.ndp.filter && !scan.filters.is_empty();
        let plan = if keep_filter {
            filter_above(scan)?
        } else {
            Arc::new(scan.rebuilt())
        };
        Ok(Transformed::yes(plan))
    }

    fn choice(&self, scan: &PageScanExec) -> NdpChoice {
        let settings = &scan.context.settings;
        let nothing = |reason: String| NdpChoice {
            reasons: vec![reason],
            ..NdpChoice::default()
        };
        match settings.mode {
            NdpMode::On => {}
            NdpMode::Off => return nothing("ndp_mode is OFF".to_owned()),
            NdpMode::ReplicaOn => {
                return nothing("ndp_mode is REPLICA_ON and this is the master".to_owned());
            }
        }
        if scan.path.fetch {
            return nothing("a lookup reads few rows".to_owned());
        }
        let index = &scan.table.indexes[scan.path.index];
        let resident = self.context.engine.resident_pages(index) as f64 * scan.path.share;
        let pages = (scan.estimated_pages() - resident).max(0.0);
        if pages < settings.min_pages as f64 {
            return nothing(format!(
                "about {pages:.0} pages to read, below ndp_min_pages = {}",
                settings.min_pages
            ));
        }
        let mut choice = NdpChoice {
            aggregate: scan.aggregate.is_some(),
            ..NdpChoice::default()
        };
        let factor = scan.filter_factor();
        if scan.filters.is_empty() {
            choice.reasons.push("no condition".to_owned());
        } else if choice.aggregate || factor <= settings.max_filter_factor {
            choice.filter = true;
        } else {
            choice.reasons.push(format!(
                "filter factor {factor:.2} is above ndp_max_filter_factor = {}",
                settings.max_filter_factor
            ));
        }
        let reduction = width_reduction(scan);
        // Who needs not all columns must not fetch long values for nothing.
        let must = index.layout.has_long();
        if choice.aggregate || must || reduction >= settings.min_width_reduction {
            choice.columns = true;
        } else {
            choice.reasons.push(format!(
                "width reduction {reduction:.2} is below ndp_min_width_reduction = {}",
                settings.min_width_reduction
            ));
        }
        choice
    }
}

/// By what share rows become narrower if only the needed columns are delivered.
fn width_reduction(scan: &PageScanExec) -> f64 {
    let width = |column: usize| match scan.stats.columns.get(column) {
        Some(stats) => f64::from(stats.average_width).max(1.0),
        None => 8.0,
    };
    let index = &scan.table.indexes[scan.path.index];
    let all: f64 = index
        .columns
        .iter()
        .map(|c| {
            if usize::from(*c) < scan.table.def.columns.len() {
                width(usize::from(*c))
            } else {
                8.0
            }
        })
        .sum();
    let needed: f64 = scan.projection.iter().map(|c| width(*c)).sum();
    1.0 - needed / all
}

/// The access without its filter, and the filter above it.
fn filter_above(mut scan: PageScanExec) -> DfResult<Arc<dyn ExecutionPlan>> {
    let filters = std::mem::take(&mut scan.filters);
    let wanted = scan.projection.len();
    let predicate = conjunction(filters);
    for column in collect_columns(&predicate) {
        if !scan.projection.contains(&column.index()) {
            scan.projection.push(column.index());
        }
    }
    let projection = scan.projection.clone();
    let predicate = predicate
        .transform(|expr| {
            let Some(column) = expr.downcast_ref::<Column>() else {
                return Ok(Transformed::no(expr));
            };
            let place = projection.iter().position(|c| *c == column.index());
            let place = place.expect("added above");
            Ok(Transformed::yes(
                Arc::new(Column::new(column.name(), place)) as Arc<dyn PhysicalExpr>,
            ))
        })?
        .data;
    scan.limit = None;
    let filter = FilterExecBuilder::new(predicate, Arc::new(scan.rebuilt()))
        .apply_projection(Some((0..wanted).collect()))?;
    Ok(Arc::new(filter.build()?))
}
