//! The rule that groups rows before they are joined (ColumnBurst, section 3: the unsorted side is aggregated, then merged).
//!
//! `SELECT c.id, COUNT(o.id) FROM customer c LEFT JOIN orders o ON o.customer = c.id GROUP BY c.id` has a group for each
//! customer, whose rows are those of the orders with one value: orders can be grouped by `customer` first, by storage as far as
//! it can, and each customer meets one group. The join has fewer rows then, and nothing is left to be grouped above it.
//!
//! It is done where the groups are those of a table's unique key that the join compares, the functions are about
//! the other side, and that side has several rows for a key that most rows of the table ask for: otherwise rows would be
//! grouped that meet nothing.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality, Result as DfResult};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr, Join, LogicalPlan, Projection, lit, when};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::join_order::{base_column, rows};

/// The other side has at least so many rows for a key,
const ROWS_OF_A_KEY: f64 = 2.0;

/// and the table at least so many rows for a key of the other side,
const ASKED_FOR: f64 = 0.5;

/// and fewer rows are not worth it.
const LEAST_ROWS: f64 = 1000.0;

/// The rule.
#[derive(Debug)]
pub struct EarlyGroups;

impl OptimizerRule for EarlyGroups {
    fn name(&self) -> &str {
        "early_groups"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> DfResult<Transformed<LogicalPlan>> {
        let early = match &plan {
            LogicalPlan::Aggregate(aggregate) => Candidate::of(aggregate),
            _ => None,
        };
        let early = early.filter(Candidate::pays).map(|early| early.plan());
        Ok(match early.transpose()? {
            Some(early) => Transformed::yes(early),
            None => Transformed::no(plan),
        })
    }
}

/// Groups of the rows of a join that can be made of one side before.
struct Candidate<'p> {
    groups: &'p Aggregate,
    join: &'p Join,
    /// The key of the table on the left, and what is equal to it on the right.
    on: [&'p Column; 2],
    /// What each function gives where there are no rows.
    of_nothing: Vec<Option<i64>>,
}

impl<'p> Candidate<'p> {
    fn of(groups: &'p Aggregate) -> Option<Self> {
        let join = join_below(&groups.input)?;
        let [(Expr::Column(key), Expr::Column(other))] = &join.on[..] else {
            return None;
        };
        let is_plain = join.filter.is_none()
            && !join.null_aware
            && join.null_equality == NullEquality::NullEqualsNothing
            && matches!(join.join_type, JoinType::Inner | JoinType::Left);
        if !is_plain || !are_equal_integers(join, key, other) || !is_key(&join.left, key) {
            return None;
        }
        let of_left = |expr: &Expr| match expr {
            Expr::Column(column) => join.left.schema().has_column(column),
            _ => false,
        };
        let has_key = groups.group_expr.contains(&join.on[0].0);
        if !has_key || !groups.group_expr.iter().all(of_left) {
            return None;
        }
        let functions = groups.aggr_expr.iter();
        let of_nothing = functions.map(|function| of_nothing(function, join));
        Some(Self {
            groups,
            join,
            on: [key, other],
            of_nothing: of_nothing.collect::<Option<_>>()?,
        })
    }

    /// True if the join has many fewer rows, and most of the groups are asked for.
    fn pays(&self) -> bool {
        let known =
            base_column(&self.join.right, &self.join.on[0].1).and_then(|(access, column)| {
                let stats = access.table().stats();
                Some(stats.columns.get(usize::from(column))?.distinct as f64)
            });
        let Some(keys) = known else { return false };
        let (left, right) = (rows(&self.join.left), rows(&self.join.right));
        right >= LEAST_ROWS && right >= ROWS_OF_A_KEY * keys && left >= ASKED_FOR * keys
    }

    /// The join with the groups, under the columns that the groups had.
    fn plan(&self) -> DfResult<LogicalPlan> {
        let [_, other] = self.on;
        let functions = self.groups.aggr_expr.clone();
        let by = vec![Expr::Column(other.clone())];
        let grouped = Aggregate::try_new(self.join.right.clone(), by, functions)?;
        let join = Join::try_new(
            self.join.left.clone(),
            Arc::new(LogicalPlan::Aggregate(grouped)),
            self.join.on.clone(),
            None,
            self.join.join_type,
            self.join.join_constraint,
            self.join.null_equality,
            false,
        )?;
        let columns = self.groups.schema.columns();
        let (keys, functions) = columns.split_at(self.groups.group_expr.len());
        let keys = keys.iter().cloned().map(Expr::Column);
        let functions = functions
            .iter()
            .zip(&self.of_nothing)
            .map(|(column, of_nothing)| {
                let value = Expr::Column(column.clone());
                match (self.join.join_type, of_nothing) {
                    (JoinType::Left, Some(nothing)) => {
                        let value =
                            when(value.clone().is_null(), lit(*nothing)).otherwise(value)?;
                        Ok(value.alias(column.name.clone()))
                    }
                    _ => Ok(value),
                }
            });
        let columns = keys.map(Ok).chain(functions).collect::<DfResult<_>>()?;
        let columns = Projection::try_new(columns, Arc::new(LogicalPlan::Join(join)))?;
        Ok(LogicalPlan::Projection(columns))
    }
}

/// The join whose rows a plan has, under the same names.
fn join_below(plan: &LogicalPlan) -> Option<&Join> {
    match plan {
        LogicalPlan::Join(join) => Some(join),
        LogicalPlan::Projection(projection) => {
            let mut exprs = projection.expr.iter();
            let are_columns = exprs.all(|expr| matches!(expr, Expr::Column(_)));
            join_below(&projection.input).filter(|_| are_columns)
        }
        _ => None,
    }
}

/// True if values that the join calls equal are one group.
fn are_equal_integers(join: &Join, key: &Column, other: &Column) -> bool {
    let ty = |plan: &LogicalPlan, column: &Column| {
        let at = plan.schema().index_of_column(column).ok()?;
        Some(plan.schema().field(at).data_type().clone())
    };
    let (one, other) = (ty(&join.left, key), ty(&join.right, other));
    one == other && one.is_some_and(|ty| ty.is_integer())
}

/// True if a column is a key of a table, whose rows a plan has, each once at most.
fn is_key(plan: &LogicalPlan, key: &Column) -> bool {
    if !is_of_table(plan) {
        return false;
    }
    base_column(plan, &Expr::Column(key.clone())).is_some_and(|(access, column)| {
        let table = access.table();
        let def = table.def.columns.get(usize::from(column));
        let mut unique = table.indexes.iter().filter(|index| index.unique);
        // NULL is in any number of rows.
        def.is_some_and(|def| !def.nullable)
            && unique.any(|index| {
                let key = &index.layout.key[..index.key_columns];
                matches!(key, [place] if index.columns[usize::from(*place)] == column)
            })
    })
}

fn is_of_table(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_of_table(&alias.input),
        LogicalPlan::Filter(filter) => is_of_table(&filter.input),
        LogicalPlan::Projection(projection) => is_of_table(&projection.input),
        _ => false,
    }
}

/// What a function gives where the right side of a join has no row: one with NULLs is there instead. `None` if that is not known, or the
/// function is about something else.
fn of_nothing(function: &Expr, join: &Join) -> Option<Option<i64>> {
    let function = match function {
        Expr::Alias(alias) => &*alias.expr,
        function => function,
    };
    let Expr::AggregateFunction(AggregateFunction { func, params }) = function else {
        return None;
    };
    let ([argument], None, true) = (&params.args[..], &params.filter, params.order_by.is_empty())
    else {
        return None;
    };
    let is_constant = matches!(argument, Expr::Literal(value, _) if !value.is_null());
    match func.name() {
        "count" if is_constant && !params.distinct => Some(Some(1)),
        "count" if is_of_right(argument, join) => Some(Some(0)),
        "sum" | "min" | "max" if is_of_right(argument, join) => Some(None),
        _ => None,
    }
}

/// True for a column of the right side, perhaps of another type: it is NULL where there is no row.
fn is_of_right(expr: &Expr, join: &Join) -> bool {
    match expr {
        Expr::Column(column) => join.right.schema().has_column(column),
        Expr::Cast(cast) => is_of_right(&cast.expr, join),
        _ => false,
    }
}
