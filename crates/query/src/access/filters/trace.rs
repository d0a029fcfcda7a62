//! From what a join or a sort compares down to the scans that it comes from, column by column, by place: names are not unique in
//! a physical plan.
//!
//! A node lets a condition on its output through to an input if dropping the rows of the input for which
//! it is not true drops exactly the rows of the output for which it is not true, or more of those that the
//! join or the sort above drops.

use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::update_expr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;

use super::WatchExec;
use crate::access::IndexJoinExec;

/// A part of a key: its number among the join's comparisons, and what it is over the rows of a node.
pub type Part = (usize, Arc<dyn PhysicalExpr>);

/// The parts over the rows of each input of a node; none for inputs that a condition does not get through to.
pub fn below(plan: &Arc<dyn ExecutionPlan>, parts: &[Part]) -> Vec<Vec<Part>> {
    let inputs = plan.children().len();
    let nothing = || vec![Vec::new(); inputs];
    // Other rows would be among the first so many.
    if plan.fetch().is_some() {
        return nothing();
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return vec![mapped(parts, |part| projected(part, projection.expr()))];
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let columns = filter.projection().as_ref().map(|columns| columns.to_vec());
        return vec![mapped(parts, |part| {
            moved(part, |at| match &columns {
                Some(columns) => columns.get(at).copied(),
                None => Some(at),
            })
        })];
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return vec![mapped(parts, |part| grouped(part, aggregate))];
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let [left, right] = joined(join, parts);
        return vec![left, right];
    }
    if let Some(join) = plan.downcast_ref::<IndexJoinExec>() {
        return vec![mapped(parts, |part| {
            moved(part, |at| join.column_of_outer(at))
        })];
    }
    // Only types and places of columns are the same in all inputs of a union.
    if plan.is::<UnionExec>() {
        return vec![parts.to_vec(); inputs];
    }
    let is_plain = plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<WatchExec>();
    match is_plain {
        true => vec![parts.to_vec()],
        false => nothing(),
    }
}

fn mapped(
    parts: &[Part],
    map: impl Fn(&Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>>,
) -> Vec<Part> {
    let parts = parts.iter();
    parts
        .filter_map(|(number, part)| Some((*number, map(part)?)))
        .collect()
}

fn projected(
    part: &Arc<dyn PhysicalExpr>,
    columns: &[ProjectionExpr],
) -> Option<Arc<dyn PhysicalExpr>> {
    Some(
        update_expr(part, columns, true)
            .ok()?
            .unwrap_or(part.clone()),
    )
}

/// An expression with its columns at other places; `None` if one of them has none.
fn moved(
    part: &Arc<dyn PhysicalExpr>,
    place: impl Fn(usize) -> Option<usize>,
) -> Option<Arc<dyn PhysicalExpr>> {
    let columns = collect_columns(part);
    let most = columns.iter().map(Column::index).max()?;
    let mut places = Vec::with_capacity(most + 1);
    for at in 0..=most {
        let found = place(at);
        if found.is_none() && columns.iter().any(|column| column.index() == at) {
            return None;
        }
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("", found.unwrap_or(usize::MAX)));
        places.push(ProjectionExpr::new(column, String::new()));
    }
    projected(part, &places)
}

/// What a column of an aggregation is, if groups are made by it: a condition on it drops whole groups.
fn grouped(
    part: &Arc<dyn PhysicalExpr>,
    aggregate: &AggregateExec,
) -> Option<Arc<dyn PhysicalExpr>> {
    let grouping = aggregate.group_expr();
    if !grouping.is_single() || aggregate.limit_options().is_some() {
        return None;
    }
    let groups: Vec<_> = grouping
        .expr()
        .iter()
        .map(|(expr, name)| ProjectionExpr::new(expr.clone(), name.clone()))
        .collect();
    let columns = collect_columns(part);
    let of_groups = columns.iter().all(|column| column.index() < groups.len());
    of_groups.then(|| projected(part, &groups))?
}

/// The parts over the left and the right rows of a join below. A row that is dropped takes those with it that
/// it is joined to, so a part that the join compares holds for both sides.
fn joined(join: &HashJoinExec, parts: &[Part]) -> [Vec<Part>; 2] {
    let (left_schema, right_schema) = (join.left().schema(), join.right().schema());
    let (_, columns) = build_join_schema(&left_schema, &right_schema, join.join_type());
    let output = |at: usize| {
        let at = match &join.projection {
            Some(projection) => *projection.get(at)?,
            None => at,
        };
        columns.get(at)
    };
    let of = |side| {
        mapped(parts, |part| {
            moved(part, |at| {
                let column = output(at).filter(|column| column.side == side)?;
                Some(column.index)
            })
        })
    };
    let (mut left, mut right) = match join.join_type() {
        JoinType::Inner => (of(JoinSide::Left), of(JoinSide::Right)),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
            (of(JoinSide::Left), Vec::new())
        }
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            (Vec::new(), of(JoinSide::Right))
        }
        JoinType::Full => (Vec::new(), Vec::new()),
    };
    if join.null_equality() == NullEquality::NullEqualsNothing && !join.null_aware {
        let (of_left, of_right) = (left.clone(), right.clone());
        for (one, other) in join.on() {
            let ty = one.data_type(&left_schema).ok();
            if ty.is_none() || ty != other.data_type(&right_schema).ok() {
                continue;
            }
            let same =
                |parts: &[Part], key: &Arc<dyn PhysicalExpr>, other: &Arc<dyn PhysicalExpr>| {
                    let parts = parts.iter().filter(|(_, part)| same_place(part, key));
                    parts
                        .map(|(number, _)| (*number, other.clone()))
                        .collect::<Vec<_>>()
                };
            right.extend(same(&of_left, one, other));
            left.extend(same(&of_right, other, one));
        }
    }
    [once(left), once(right)]
}

/// An expression over the result of lookups as one over the rows that were looked up.
pub fn of_inner(
    join: &IndexJoinExec,
    part: &Arc<dyn PhysicalExpr>,
) -> Option<Arc<dyn PhysicalExpr>> {
    moved(part, |at| join.column_of_inner(at))
}

/// True if both are the same, however their columns are named.
pub fn same_place(one: &Arc<dyn PhysicalExpr>, other: &Arc<dyn PhysicalExpr>) -> bool {
    let nameless = |expr: &Arc<dyn PhysicalExpr>| moved(expr, Some);
    match (nameless(one), nameless(other)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}

/// The first of each part.
fn once(parts: Vec<Part>) -> Vec<Part> {
    let mut out: Vec<Part> = Vec::with_capacity(parts.len());
    for (number, part) in parts {
        if out.iter().all(|(known, _)| *known != number) {
            out.push((number, part));
        }
    }
    out
}
