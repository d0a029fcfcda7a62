//! The rule that takes near-data processing decisions on a finished plan (taurus-ndp section IV.B):
//! for each table access, independently, whether storage filters, projects and aggregates.
//!
//! It runs in the place of DataFusion's first filter push-down: there an aggregation is always a partial one over
//! the access, perhaps with a projection between, and a final one above.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_expr::projection::update_expr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use perigee_engine::ndp::{Aggregate, MAX_AGGREGATES};
use perigee_expr::{AggregateFunction, Program, Type};
use perigee_value::ColumnType;

use super::convert::{Binding, convert, convert_key};
use super::cost::at_ends;
use super::entries_rule::ENTRIES_FIRST;
use super::exec::{NdpChoice, PageScanExec, ScanAggregate, as_page_scan};
use super::filters::{JoinFilterRule, TopFilterRule};
use super::groups::grouping_of;
use super::join_rule::IndexJoins;
use super::join_table::JoinTableRule;
use super::late_rule::LATE_COLUMNS;
use super::order_rule::{INDEX_ORDER, above};
use super::placement::{Placement, Work};
use super::residual::obstacle;
use super::{AccessContext, Reason};
use crate::functions::collation::PAD;

/// An index of more of the buffer pool is not brought there for its scans.
const POOL_SHARE: f64 = 0.5;

/// DataFusion's rule that pushes filters through a physical plan.
const FILTER_PUSHDOWN: &str = "FilterPushdown";

/// The rules of a session: DataFusion's with ours among them.
///
/// Its filter push-down is left out, in both its phases: it finds columns by their names, which are not
/// unique in a physical plan (`a.id` and `b.id` are both `id`), so that a condition on one table of a join
/// can end up at another one. The logical optimizer has pushed every filter by then, by qualified names.
#[must_use]
pub fn physical_rules(
    rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
    context: &AccessContext,
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut out: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> = Vec::new();
    let mut placed = false;
    for rule in rules {
        if !rule.name().starts_with(FILTER_PUSHDOWN) {
            out.push(rule);
        } else if !std::mem::replace(&mut placed, true) {
            out.push(Arc::new(INDEX_ORDER));
            // Before the rule that looks at entries first, which may do so for what rows are sorted by.
            out.push(Arc::new(LATE_COLUMNS));
            // Before the NDP rule, which moves filters that are not pushed out of accesses.
            out.push(Arc::new(IndexJoins));
            out.push(Arc::new(ENTRIES_FIRST));
            out.push(Arc::new(JoinTableRule));
            out.push(Arc::new(NdpRule {
                context: context.clone(),
            }));
        }
    }
    assert!(placed, "Q5: the planner has no filter pushdown to replace");
    // Last: their nodes stand between a join or a sort and its input, where other rules do not look through them.
    out.push(Arc::new(JoinFilterRule));
    out.push(Arc::new(TopFilterRule));
    out
}

/// The rule.
#[derive(Debug)]
pub(super) struct NdpRule {
    pub(super) context: AccessContext,
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

/// Lets the access below a partial aggregation aggregate itself, if it can and it pays; otherwise has
/// it say why not.
fn take_aggregate(node: Arc<dyn ExecutionPlan>) -> DfResult<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else {
        return Ok(Transformed::no(node));
    };
    let below = Below::of(aggregate.input());
    let Some(below) = below.filter(|_| *aggregate.mode() == AggregateMode::Partial) else {
        return Ok(Transformed::no(node));
    };
    match aggregating_scan(aggregate, &below) {
        Ok(scan) => Ok(Transformed::yes(Arc::new(scan) as Arc<dyn ExecutionPlan>)),
        Err(reason) => {
            let input = with_reason(aggregate.input(), &reason)?;
            Ok(Transformed::yes(above(node, input)?))
        }
    }
}

/// The access below a plan, and what is between.
pub(super) struct Below<'a> {
    pub(super) scan: &'a PageScanExec,
    /// From the plan downwards.
    pub(super) projections: Vec<Vec<ProjectionExpr>>,
    /// A part of the condition is evaluated above the access.
    pub(super) filtered: bool,
}

impl<'a> Below<'a> {
    /// If nothing but projections and filters is between.
    pub(super) fn of(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        let (mut plan, mut projections, mut filtered) = (plan, Vec::new(), false);
        loop {
            if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
                projections.push(projection.expr().to_vec());
                plan = projection.input();
            } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
                filtered = true;
                plan = filter.input();
            } else {
                return as_page_scan(plan).map(|scan| Self {
                    scan,
                    projections,
                    filtered,
                });
            }
        }
    }
}

/// The plan with its access, below projections and filters, saying why it does not aggregate.
fn with_reason(plan: &Arc<dyn ExecutionPlan>, reason: &Reason) -> DfResult<Arc<dyn ExecutionPlan>> {
    if let Some(scan) = as_page_scan(plan) {
        let mut scan = scan.clone();
        scan.ndp.reasons.push(reason.clone());
        return Ok(Arc::new(scan));
    }
    let children = plan.children();
    let below = children.first().expect("the access is below");
    above(plan.clone(), with_reason(below, reason)?)
}

/// The access aggregating, or why it does not.
fn aggregating_scan(aggregate: &AggregateExec, below: &Below<'_>) -> Result<PageScanExec, Reason> {
    check_form(aggregate)?;
    let grouping = aggregate.group_expr();
    let scan = below.scan;
    if scan.limit.is_some() || scan.aggregate.is_some() {
        return Err(Reason::AggregateForm("LIMIT"));
    }
    if below.filtered {
        return Err(Reason::AggregateResidual);
    }
    if scan.path.fetch {
        return Err(Reason::Lookup);
    }
    // Expressions over the projections become expressions over the scan's output.
    let inline = |expr: &Arc<dyn PhysicalExpr>| {
        below
            .projections
            .iter()
            .try_fold(expr.clone(), |expr, projection| {
                Some(update_expr(&expr, projection, true).ok()?.unwrap_or(expr))
            })
            .ok_or(Reason::AggregateForm("a projection"))
    };
    let groups: Vec<_> = grouping
        .expr()
        .iter()
        .map(|(expr, _)| inline(expr))
        .collect::<Result<_, _>>()?;
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
        .collect::<Result<Vec<_>, _>>()?;
    let knows_version_2 = scan.context.engine.storage_knows_sorting();
    let functions = aggregate
        .aggr_expr()
        .iter()
        .map(|function| function_of(function, &binding, &inline, knows_version_2))
        .collect::<Result<Vec<_>, _>>()?;
    let aggregated = Aggregate {
        group_by,
        functions,
    };
    let (grouping, work) = grouping_of(scan, &keys, &aggregated)?;
    let mut aggregating = scan.clone();
    aggregating.aggregate = Some(ScanAggregate {
        aggregate: aggregated,
        grouping,
        work,
        schema: aggregate.schema(),
    });
    Ok(aggregating.rebuilt())
}

/// Checks that storage knows the form of an aggregation.
pub(super) fn check_form(aggregate: &AggregateExec) -> Result<(), Reason> {
    let grouping = aggregate.group_expr();
    if !(grouping.is_single() || grouping.is_empty()) {
        return Err(Reason::AggregateForm("grouping sets"));
    }
    if aggregate.filter_expr().iter().any(Option::is_some) {
        return Err(Reason::AggregateForm("FILTER"));
    }
    if grouping.expr().len().max(aggregate.aggr_expr().len()) > MAX_AGGREGATES {
        return Err(Reason::AggregateForm("too many expressions"));
    }
    match aggregate.limit_options() {
        Some(_) => Err(Reason::AggregateForm("LIMIT")),
        None => Ok(()),
    }
}

/// The program for an expression of an aggregation, or what keeps storage from evaluating it.
fn program_of(expr: &Arc<dyn PhysicalExpr>, binding: &Binding<'_>) -> Result<Program, Reason> {
    convert(expr, binding).ok_or_else(|| {
        let obstacle = obstacle(expr, binding);
        Reason::AggregateExpression(obstacle.unwrap_or_else(|| expr.to_string()))
    })
}

/// The argument of `mysql_pad`, any other expression itself.
pub(super) fn without_padding(expr: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    match expr.downcast_ref::<ScalarFunctionExpr>() {
        Some(pad) if pad.name() == PAD => pad.args()[0].clone(),
        _ => expr.clone(),
    }
}

/// A group key as storage runs it. Storage gives strings out without trailing spaces, or as forms: other
/// strings than those that are cut and those that have none are not pushed.
pub(super) fn group_key(
    group: &Arc<dyn PhysicalExpr>,
    key: &Arc<dyn PhysicalExpr>,
    binding: &Binding<'_>,
) -> Result<Program, Reason> {
    let program = match convert_key(key, binding) {
        Some(program) => program,
        None => program_of(key, binding)?,
    };
    let column = program.as_column().map(usize::from);
    let is_char = column
        .is_some_and(|column| matches!(binding.layout.columns[column].ty, ColumnType::Char { .. }));
    let has_form = matches!(program.result_type(), Type::Collated(_));
    let is_cut = is_char || has_form || !Arc::ptr_eq(group, key);
    let as_it_is = !program.result_type().is_string() || is_cut;
    if !as_it_is {
        let obstacle = format!("trailing spaces of {key} count");
        return Err(Reason::AggregateExpression(obstacle));
    }
    Ok(program)
}

type Function = (AggregateFunction, Option<Program>);

/// An aggregate function as storage runs it, if it is one of those.
pub(super) fn function_of(
    function: &AggregateFunctionExpr,
    binding: &Binding<'_>,
    inline: &impl Fn(&Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>, Reason>,
    knows_doubles: bool,
) -> Result<Function, Reason> {
    let name = function.fun().name();
    let unknown = |what: &str| {
        let name = format!("{}{what}", name.to_uppercase());
        Reason::AggregateFunction(name)
    };
    if function.is_distinct() {
        return Err(unknown("(DISTINCT)"));
    }
    if !function.order_bys().is_empty() || function.ignore_nulls() {
        return Err(unknown(" in an order"));
    }
    let arguments = function.expressions();
    let [argument] = &arguments[..] else {
        return Err(unknown(" of several arguments"));
    };
    let argument = inline(argument)?;
    let is_literal = argument
        .downcast_ref::<Literal>()
        .is_some_and(|literal| !literal.value().is_null());
    let kind = match name {
        "count" if is_literal => return Ok((AggregateFunction::CountAll, None)),
        "count" => AggregateFunction::Count,
        "sum" => AggregateFunction::Sum,
        "min" => AggregateFunction::Min,
        "max" => AggregateFunction::Max,
        _ => return Err(unknown("")),
    };
    let (argument, scale) = match kind {
        AggregateFunction::Sum => as_stored(argument),
        _ => (argument, None),
    };
    let program = program_of(&argument, binding)?;
    let has_scale = |wanted: i8| matches!(program.result_type(), Type::Decimal { scale, .. } if i16::from(scale) == i16::from(wanted));
    if scale.is_some_and(|scale| !has_scale(scale)) {
        return Err(unknown(" of a converted number"));
    }
    if kind == AggregateFunction::Sum && program.result_type() == Type::Double && !knows_doubles {
        return Err(unknown(" of doubles: a Page Store is of an older version"));
    }
    Ok((kind, Some(program)))
}

/// What SUM adds up, as storage has it, and the scale that it must have there: only the frontend needs wide
/// decimals for a sum that storage gives out in parts.
fn as_stored(argument: Arc<dyn PhysicalExpr>) -> (Arc<dyn PhysicalExpr>, Option<i8>) {
    let Some(cast) = argument.downcast_ref::<CastExpr>() else {
        return (argument, None);
    };
    match cast.cast_type() {
        DataType::Decimal256(_, scale) => (cast.expr().clone(), Some(*scale)),
        _ => (argument, None),
    }
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

    /// What of an access runs in storage.
    pub(super) fn choice(&self, scan: &PageScanExec) -> NdpChoice {
        let settings = &scan.context.settings;
        if let Some(reason) = settings.forbidden() {
            return NdpChoice::not(reason);
        }
        if scan.path.fetch {
            return NdpChoice::not(Reason::Lookup);
        }
        match settings.decide_by_cost(&self.context.engine) {
            true => by_cost(scan),
            false => self.by_thresholds(scan),
        }
    }

    fn by_thresholds(&self, scan: &PageScanExec) -> NdpChoice {
        let thresholds = &scan.context.settings.thresholds;
        let index = &scan.table.indexes[scan.path.index];
        let resident = self.context.engine.resident_pages(index) as f64 * scan.path.share;
        let pages = (scan.estimated_pages() - resident - at_ends(&scan.path)).max(0.0);
        let least = thresholds.min_pages();
        if pages < least as f64 {
            return NdpChoice::not(Reason::FewPages { pages, least });
        }
        let mut choice = NdpChoice {
            aggregate: scan.aggregate.is_some(),
            ..NdpChoice::default()
        };
        let mut reasons = Vec::new();
        let (reduction, least) = (
            1.0 - scan.width() / scan.record_width(),
            thresholds.min_width_reduction(),
        );
        // Who needs not all columns must not fetch long values for nothing.
        let must = index.layout.has_long();
        if choice.aggregate || must || reduction >= least {
            choice.columns = true;
        } else {
            reasons.push(Reason::Width { reduction, least });
        }
        let (factor, most) = (scan.filter_factor(), thresholds.max_filter_factor());
        let narrower = match choice.columns {
            true => scan.width() / scan.width_with_conditions(),
            false => 1.0,
        };
        if scan.filters.is_empty() {
            choice.reasons.push(Reason::NoCondition);
        } else if choice.aggregate || factor * narrower <= most {
            choice.filter = true;
        } else {
            choice.reasons.push(Reason::FilterFactor { factor, most });
        }
        choice.reasons.extend(reasons);
        let of_aggregate = scan.ndp.reasons.iter().filter(|r| r.is_of_aggregate());
        choice.reasons.extend(of_aggregate.cloned());
        choice
    }
}

/// What a scan pays in storage because its pages are not in the buffer pool.
struct Rent {
    /// This scan.
    of_scan: f64,
    /// What it costs more to read the pages whole instead.
    price: f64,
}

impl Rent {
    fn of(scan: &PageScanExec, work: &Work, placement: &Placement) -> Self {
        let model = scan.cost_model();
        let in_pool = Work {
            stored: 0.0,
            pooled: work.stored + work.pooled,
            ..*work
        };
        // They stay there only if others need room as well.
        let capacity = scan.context.engine.pool().capacity() as f64;
        let stays = work.stored + work.pooled <= capacity * POOL_SHARE;
        let storage = placement.storage.total();
        let of_scan = storage - in_pool.in_frontend(model.prices()).total();
        Self {
            of_scan: if stays { of_scan.max(0.0) } else { 0.0 },
            price: placement.frontend.total() - storage,
        }
    }

    fn is_due(&self, scan: &PageScanExec) -> bool {
        let index = &scan.table.indexes[scan.path.index];
        self.of_scan > 0.0 && self.of_scan + scan.context.engine.rent_paid(index) >= self.price
    }
}

/// What costs least.
fn by_cost(scan: &PageScanExec) -> NdpChoice {
    let work = scan.work();
    if work.stored < 1.0 {
        return NdpChoice::not(Reason::InPool);
    }
    let model = scan.cost_model();
    let (placement, parts) = work.placed(model.prices());
    if !placement.is_pushed() {
        let nothing_passes = Work {
            rows: 0.0,
            nodes: work.nodes.max(1.0),
            ..work
        };
        let hopeless = !nothing_passes.placed(model.prices()).0.is_pushed();
        return NdpChoice::not(Reason::Cost {
            placement,
            hopeless,
        });
    }
    let rent = Rent::of(scan, &work, &placement);
    if rent.is_due(scan) {
        return NdpChoice::not(Reason::Warming(placement));
    }
    let aggregate = scan.aggregate.is_some();
    // Who needs not all columns must not fetch long values for nothing.
    let must = aggregate || scan.table.indexes[scan.path.index].layout.has_long();
    let mut reasons = Vec::new();
    if scan.filters.is_empty() {
        reasons.push(Reason::NoCondition);
    }
    let of_aggregate = scan.ndp.reasons.iter().filter(|r| r.is_of_aggregate());
    reasons.extend(of_aggregate.cloned());
    NdpChoice {
        filter: parts.filter,
        columns: parts.columns || must || !parts.filter,
        aggregate,
        placement: Some(placement),
        rent: rent.of_scan,
        reasons,
        ..NdpChoice::default()
    }
}

/// The access without its filter, and the filter above it.
fn filter_above(mut scan: PageScanExec) -> DfResult<Arc<dyn ExecutionPlan>> {
    let filters = std::mem::take(&mut scan.filters);
    scan.sampled = None;
    scan.known_keys = None;
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
