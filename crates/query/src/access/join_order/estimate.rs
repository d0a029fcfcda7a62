//! How many rows relations have, and which share of pairs conditions let through. Estimates only steer choices; no
//! answer depends on them.

use std::sync::Arc;

use datafusion::catalog::{TableProvider, default_table_source::source_as_provider};
use datafusion::common::{Column, JoinType, Result as DfResult};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, FetchType, LogicalPlan, SkipType};

use super::graph::{Condition, ConditionKind, Graph, Set};
use crate::access::estimate::UNKNOWN;
use crate::access::exec::PageScanExec;
use crate::access::skew::{Found, Spread};
use crate::access::table::TableAccess;

/// Share of the rows of a relation that make groups, or have a partner in a semi join.
const SOME: f64 = 0.5;

/// Rows of what nothing is known about.
const ROWS: f64 = 1000.0;

/// A relation as far as its size is concerned.
pub(super) struct Relation {
    /// Rows that are expected.
    pub rows: f64,
    /// The access, if it is nothing but that of a table.
    pub scan: Option<PageScanExec>,
}

impl Relation {
    pub fn of(plan: &LogicalPlan) -> Self {
        Self {
            rows: rows(plan).max(1.0),
            scan: scan_below(plan),
        }
    }

    /// The values of a column among its rows, if it is a table.
    pub fn spread(&self, column: u16) -> Option<Spread> {
        Spread::of_access(self.scan.as_ref()?, column)
    }

    /// Rows of the table, before its conditions.
    fn all_rows(&self) -> f64 {
        let scan = self.scan.as_ref();
        scan.map_or(self.rows, |scan| scan.stats.rows as f64)
            .max(1.0)
    }
}

/// The equalities between two relations.
pub(super) struct Edge {
    /// Its two relations.
    pub relations: [usize; 2],
    /// Share of pairs for which they are true.
    pub share: f64,
    /// Its equalities.
    pub compared: Vec<[Compared; 2]>,
    /// It is between two columns of a [class](super::classes), which says how many pairs it lets through.
    pub in_class: bool,
}

/// A side of an equality as far as lookups in a table are concerned.
#[derive(Clone, Copy)]
pub(super) struct Compared {
    /// The column, if it is one.
    pub column: Option<u16>,
    /// What looking up the values of the other side in it finds.
    pub found: Option<Found>,
}

/// A side of an equality between two relations.
struct Side {
    column: Option<u16>,
    /// Different values that are expected.
    distinct: f64,
    /// The values, if the relation is a table.
    spread: Option<Spread>,
}

impl Side {
    fn of(plan: &LogicalPlan, relation: &Relation, expr: &Expr) -> Self {
        let base = base_column(plan, expr);
        let rows = relation.rows;
        // Of keys that nothing is known of each is taken for another one.
        let distinct = base.as_ref().map_or(rows, |(access, column)| {
            let stats = access.table().stats();
            let known = stats.columns.get(usize::from(*column));
            known.map_or(rows, |known| (known.distinct as f64).min(rows))
        });
        let column = base.map(|(_, column)| column);
        Self {
            column,
            distinct: distinct.max(1.0),
            spread: column.and_then(|column| relation.spread(column)),
        }
    }

    /// Share of pairs for which the sides are equal.
    fn equal(&self, other: &Self) -> f64 {
        let spreads = self.spread.as_ref().zip(other.spread.as_ref());
        let met = spreads.and_then(|(one, other)| one.meets(other));
        met.unwrap_or(1.0 / self.distinct.max(other.distinct))
    }

    fn compared_with(&self, other: &Self, relation: &Relation) -> Compared {
        let found = || {
            let scan = relation.scan.as_ref()?;
            let probe = std::slice::from_ref(other.spread.as_ref()?);
            Found::of(&scan.table, &scan.stats, self.column?, probe)
        };
        Compared {
            column: self.column,
            found: found(),
        }
    }

    fn is_restricted(&self) -> bool {
        self.spread.as_ref().is_some_and(Spread::is_restricted)
    }
}

/// The pairs of relations that equalities connect.
pub(super) fn edges(graph: &Graph, relations: &[Relation]) -> DfResult<Vec<Edge>> {
    let mut edges: Vec<Edge> = Vec::new();
    let mut shares: Vec<Vec<f64>> = Vec::new();
    let mut restricted = Vec::new();
    for Condition { kind, .. } in graph.equalities()? {
        let ConditionKind::Equal { sides, sets } = &kind else {
            continue;
        };
        let (Some(a), Some(b)) = (only(sets[0]), only(sets[1])) else {
            continue;
        };
        let (pair, [of_a, of_b]) = match a < b {
            true => ([a, b], [&sides[0], &sides[1]]),
            false => ([b, a], [&sides[1], &sides[0]]),
        };
        let [of_a, of_b] = [(pair[0], of_a), (pair[1], of_b)].map(|(relation, expr)| {
            Side::of(&graph.relations()[relation], &relations[relation], expr)
        });
        let share = of_a.equal(&of_b);
        let compared = [
            of_a.compared_with(&of_b, &relations[pair[0]]),
            of_b.compared_with(&of_a, &relations[pair[1]]),
        ];
        if of_a.is_restricted() || of_b.is_restricted() {
            restricted.push(pair);
        }
        match edges.iter().position(|edge| edge.relations == pair) {
            Some(at) => {
                edges[at].compared.push(compared);
                shares[at].push(share);
            }
            None => {
                edges.push(Edge {
                    relations: pair,
                    share: 1.0,
                    compared: vec![compared],
                    in_class: false,
                });
                shares.push(vec![share]);
            }
        }
    }
    for (edge, shares) in edges.iter_mut().zip(shares) {
        // Conditions on what is compared tell which rows meet.
        let told = shares.len() == 1 && restricted.contains(&edge.relations);
        let by_key = edge.by_unique_key(relations).filter(|_| !told);
        edge.share = by_key.unwrap_or_else(|| together(shares));
    }
    Ok(edges)
}

impl Edge {
    /// The share if the columns are a unique key of one of the tables: a row of the other one meets one row.
    fn by_unique_key(&self, relations: &[Relation]) -> Option<f64> {
        (0..2)
            .filter_map(|side| {
                let relation = &relations[self.relations[side]];
                let scan = relation.scan.as_ref()?;
                let compared = |column: &u16| {
                    self.compared
                        .iter()
                        .any(|c| c[side].column == Some(*column))
                };
                let mut indexes = scan.table.indexes.iter().filter(|index| index.unique);
                let is_key = indexes.any(|index| {
                    let key = &index.layout.key[..index.key_columns];
                    let mut key = key.iter().map(|place| index.columns[usize::from(*place)]);
                    key.all(|column| compared(&column))
                });
                is_key.then(|| 1.0 / relation.all_rows())
            })
            .reduce(f64::min)
    }
}

/// The share for several equalities, which are rarely independent: each further one counts less.
fn together(mut shares: Vec<f64>) -> f64 {
    shares.sort_by(f64::total_cmp);
    let mut weight = 1.0;
    shares.into_iter().fold(1.0, |all, share| {
        let all = all * share.powf(weight);
        weight /= 2.0;
        all
    })
}

/// Share of rows for which conditions that are no equalities of two relations are true.
pub(super) fn other_share(condition: &Condition) -> f64 {
    match &condition.kind {
        ConditionKind::Equal { .. } => UNKNOWN,
        ConditionKind::Other(expr) => share_of(expr),
    }
}

/// Share of rows for which a condition of which nothing is known is true.
pub(super) fn share_of(expr: &Expr) -> f64 {
    UNKNOWN.powi(split_conjunction(expr).len() as i32)
}

/// The only relation of a set.
pub(super) fn only(set: Set) -> Option<usize> {
    set.is_power_of_two().then(|| set.trailing_zeros() as usize)
}

/// Rows that a plan is expected to deliver.
pub(in crate::access) fn rows(plan: &LogicalPlan) -> f64 {
    let inputs: Vec<f64> = plan.inputs().into_iter().map(rows).collect();
    let input = inputs.first().copied();
    match plan {
        LogicalPlan::TableScan(_) => scan_below(plan).map_or(ROWS, |scan| scan.estimated_rows()),
        LogicalPlan::Filter(filter) => {
            let conditions = split_conjunction(&filter.predicate).len();
            input.unwrap_or(ROWS) * UNKNOWN.powi(conditions as i32)
        }
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => 1.0,
        LogicalPlan::Aggregate(aggregate) => {
            let input = input.unwrap_or(ROWS);
            let distinct = aggregate.group_expr.iter().map(|expr| {
                let base = base_column(&aggregate.input, expr);
                let known = base.and_then(|(access, column)| {
                    let stats = access.table().stats();
                    Some(stats.columns.get(usize::from(column))?.distinct as f64)
                });
                known.unwrap_or(input * SOME).max(1.0)
            });
            distinct.product::<f64>().min(input)
        }
        LogicalPlan::Distinct(_) => input.unwrap_or(ROWS) * SOME,
        LogicalPlan::Limit(limit) => {
            let fetch = match limit.get_fetch_type() {
                Ok(FetchType::Literal(Some(fetch))) => fetch as f64,
                _ => f64::INFINITY,
            };
            let skip = match limit.get_skip_type() {
                Ok(SkipType::Literal(skip)) => skip as f64,
                _ => 0.0,
            };
            (input.unwrap_or(ROWS) - skip).max(0.0).min(fetch)
        }
        LogicalPlan::Join(join) => {
            let (left, right) = (inputs[0], inputs[1]);
            // A row of the larger side meets one of the smaller one.
            let joined = match join.on.is_empty() {
                true => left * right,
                false => left.max(right),
            };
            match join.join_type {
                JoinType::Inner => joined,
                JoinType::Left | JoinType::LeftMark => joined.max(left),
                JoinType::Right | JoinType::RightMark => joined.max(right),
                JoinType::Full => joined.max(left + right),
                JoinType::LeftSemi | JoinType::LeftAnti => left * SOME,
                JoinType::RightSemi | JoinType::RightAnti => right * SOME,
            }
        }
        LogicalPlan::Union(_) => inputs.iter().sum(),
        LogicalPlan::EmptyRelation(_) => 1.0,
        LogicalPlan::Values(values) => values.values.len() as f64,
        _ => input.unwrap_or(ROWS),
    }
}

/// The access of a table, if a plan is nothing else.
fn scan_below(plan: &LogicalPlan) -> Option<PageScanExec> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let provider = source_as_provider(&scan.source).ok()?;
            let access = table_access(&provider)?;
            access
                .plan(scan.projection.as_ref(), &scan.filters, scan.fetch)
                .ok()
        }
        LogicalPlan::SubqueryAlias(alias) => scan_below(&alias.input),
        _ => None,
    }
}

fn table_access(provider: &Arc<dyn TableProvider>) -> Option<&TableAccess> {
    provider.downcast_ref::<TableAccess>()
}

/// A column of a table.
pub(in crate::access) type BaseColumn = (TableAccess, u16);

/// The column of a table that an expression over a plan is, as joins and groups compare it.
pub(in crate::access) fn base_column(plan: &LogicalPlan, expr: &Expr) -> Option<BaseColumn> {
    match expr {
        Expr::Column(column) => column_below(plan, column),
        Expr::Alias(alias) => base_column(plan, &alias.expr),
        Expr::Cast(cast) => base_column(plan, &cast.expr),
        // What makes strings comparable.
        Expr::ScalarFunction(function) => base_column(plan, function.args.first()?),
        _ => None,
    }
}

fn column_below(plan: &LogicalPlan, column: &Column) -> Option<BaseColumn> {
    let place = || plan.schema().index_of_column(column).ok();
    match plan {
        LogicalPlan::TableScan(scan) => {
            let place = place()?;
            let projection = scan.projection.as_ref();
            let place = projection.map_or(Some(place), |columns| columns.get(place).copied())?;
            let provider = source_as_provider(&scan.source).ok()?;
            Some((table_access(&provider)?.clone(), u16::try_from(place).ok()?))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let inner = alias.input.schema().columns();
            column_below(&alias.input, inner.get(place()?)?)
        }
        LogicalPlan::Projection(projection) => {
            base_column(&projection.input, projection.expr.get(place()?)?)
        }
        LogicalPlan::Aggregate(aggregate) => {
            base_column(&aggregate.input, aggregate.group_expr.get(place()?)?)
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Join(_) => {
            let inputs = plan.inputs();
            let input = inputs
                .iter()
                .find(|input| input.schema().has_column(column))?;
            column_below(input, column)
        }
        _ => None,
    }
}
