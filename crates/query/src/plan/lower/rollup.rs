//! WITH ROLLUP and GROUPING: grouping sets, whose number of a set says by which keys a row is not grouped.
//!
//! The keys become columns of their own first: DataFusion makes them NULL in the rows that they do not group, whatever
//! else the query knows of them. Rows come in the order of their keys, those of a larger group behind those of the groups
//! that it is made of, as MySQL computes them.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column as DfColumn, Result as DfResult};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::min_max::min_udaf;
use datafusion::logical_expr::{
    Aggregate as Groups, Expr, ExprSchemable, GroupingSet, LogicalPlan, LogicalPlanBuilder,
    Projection, Sort, binary_expr, cast, lit, when,
};
use datafusion::logical_expr::{Operator, expr::Sort as SortExpr};
use perigee_expr::scalar::Scalar;
use perigee_sql_bind::query::{Aggregate, AggregateFunction, Column};

use super::aggregate::Functions;
use super::output::{named, unique};
use super::relation::{Lowered, Planner, Subqueries, unsupported};
use crate::functions::enumeration;
use crate::plan::{comparable, grouping, metadata};

/// Most keys: each is a bit of a signed integer.
const MAX_KEYS: usize = 63;

/// What a key is grouped by, and the value that it is shown as; the key's number stands behind it.
const KEY: &str = "/rollup@";
const SHOWN: &str = "/rolled@";

/// The keys as columns of a plan.
struct Keys {
    /// What is grouped by.
    groups: Vec<Expr>,
    /// What they are shown as, over the groups, where they are grouped by.
    shown: Vec<Expr>,
}

impl Planner<'_> {
    /// Groups of rows by all keys, by all but the last, and so on: keys, then results.
    pub(super) fn rollup(
        &self,
        input: Lowered,
        columns: &[Column],
        keys: &[Scalar],
        aggregates: &[Aggregate],
        parameters: &[Expr],
    ) -> DfResult<Lowered> {
        if keys.len() > MAX_KEYS {
            return unsupported("WITH ROLLUP by so many keys");
        }
        if self.subqueries == Subqueries::Joined && !parameters.is_empty() {
            // A join of the groups would need the columns that the subquery depends on among the keys.
            return unsupported("WITH ROLLUP in a subquery that depends on the query around it");
        }
        let mut functions = self.functions();
        let (input, keys) = keyed(input, keys, parameters, &mut functions)?;
        let row = input.row(parameters);
        let id = Id(keys.groups.len());
        let mut results = Vec::with_capacity(columns.len());
        for (number, shown) in keys.shown.iter().enumerate() {
            let is_grouped = id.bit(number).eq(lit(0_i64));
            results.push(when(is_grouped, shown.clone()).end()?);
        }
        for aggregate in aggregates {
            results.push(match &aggregate.function {
                AggregateFunction::Grouping(keys) => id.grouping(keys),
                _ => functions.add(aggregate, &row)?,
            });
        }
        let all =
            Expr::AggregateFunction(datafusion::logical_expr::expr::AggregateFunction::new_udf(
                count_udaf(),
                vec![lit(1_i64)],
                false,
                None,
                vec![],
                None,
            ));
        let rows = functions.column(all);
        let sets = Expr::GroupingSet(GroupingSet::Rollup(keys.groups.clone()));
        let groups = Groups::try_new(Arc::new(input.plan), vec![sets], functions.named())?;
        let groups = grouping::sums_in_range(grouping::group_by(groups)?)?;
        // DataFusion has a row of all rows where there are none, and MySQL has not.
        let groups = LogicalPlanBuilder::from(groups).filter(rows.gt(lit(0_i64)))?;
        self.in_order(groups.build()?, results, columns, &id, &keys.groups)
    }

    /// The results as columns that no other relation has, in the order of the keys.
    fn in_order(
        &self,
        groups: LogicalPlan,
        results: Vec<Expr>,
        columns: &[Column],
        id: &Id,
        keys: &[Expr],
    ) -> DfResult<Lowered> {
        let (qualifier, mut used) = (self.qualifier(""), std::collections::HashSet::new());
        let width = results.len();
        let mut exprs = Vec::with_capacity(width + 2 * keys.len());
        for (result, column) in results.into_iter().zip(columns) {
            let name = unique(&column.name.to_lowercase(), &mut used);
            exprs.push(named(
                result,
                &qualifier,
                name,
                &column.ty,
                groups.schema(),
            )?);
        }
        for (number, key) in keys.iter().enumerate() {
            for expr in [id.bit(number), key.clone()] {
                let name = unique(KEY, &mut used);
                exprs.push(expr.alias_qualified(Some(qualifier.clone()), name));
            }
        }
        let projection = Projection::try_new(exprs, Arc::new(groups))?;
        let mut lowered = Lowered::of(LogicalPlan::Projection(projection));
        let order = lowered.columns.split_off(width).into_iter();
        let order = order.map(|column| SortExpr::new(column, true, true));
        lowered.plan = LogicalPlan::Sort(Sort {
            expr: order.collect(),
            input: Arc::new(lowered.plan),
            fetch: None,
        });
        Ok(lowered)
    }
}

/// The rows with what is grouped by as columns behind the others.
fn keyed(
    input: Lowered,
    keys: &[Scalar],
    parameters: &[Expr],
    functions: &mut Functions<'_>,
) -> DfResult<(Lowered, Keys)> {
    let row = input.row(parameters);
    let own = input.plan.schema().columns().into_iter();
    let mut exprs: Vec<_> = own.map(Expr::Column).collect();
    let mut groups = Vec::with_capacity(keys.len());
    let mut shown = Vec::with_capacity(keys.len());
    for (number, key) in keys.iter().enumerate() {
        let value = row.value(key)?;
        let compared = comparable::collated(value.clone(), row.schema)?;
        let name = format!("{KEY}{number}");
        let column = Expr::Column(DfColumn::new_unqualified(&name));
        shown.push(match metadata::members(&value.to_field(row.schema)?.1) {
            _ if compared == value => column.clone(),
            // One text has one number.
            Some(members) => enumeration::text_of(column.clone(), members),
            None => {
                let name = format!("{SHOWN}{number}");
                exprs.push(value.alias(&name));
                let value = Expr::Column(DfColumn::new_unqualified(name));
                functions.column(least(value))
            }
        });
        exprs.push(compared.alias(name));
        groups.push(column);
    }
    let projection = Projection::try_new(exprs, Arc::new(input.plan))?;
    let input = Lowered {
        plan: LogicalPlan::Projection(projection),
        columns: input.columns,
    };
    Ok((input, Keys { groups, shown }))
}

/// The least value as it is stored.
fn least(value: Expr) -> Expr {
    min_udaf().call(vec![value])
}

/// The number of a grouping set of so many keys: a bit for each, the first one the highest, which is set where a row is
/// not grouped by it.
struct Id(usize);

impl Id {
    fn column() -> Expr {
        let id = DfColumn::from_name(Groups::INTERNAL_GROUPING_ID);
        cast(Expr::Column(id), DataType::Int64)
    }

    /// The bit of a key.
    fn bit(&self, key: usize) -> Expr {
        let place = (self.0 - 1 - key) as i64; // at most MAX_KEYS
        let shifted = binary_expr(Self::column(), Operator::BitwiseShiftRight, lit(place));
        binary_expr(shifted, Operator::BitwiseAnd, lit(1_i64))
    }

    /// GROUPING of some keys.
    fn grouping(&self, keys: &[usize]) -> Expr {
        let last = keys.len().saturating_sub(1);
        let bits = keys.iter().enumerate().map(|(at, key)| {
            let place = (last - at) as i64; // at most MAX_KEYS
            binary_expr(self.bit(*key), Operator::BitwiseShiftLeft, lit(place))
        });
        let all = bits.reduce(|left, right| binary_expr(left, Operator::BitwiseOr, right));
        all.unwrap_or_else(|| lit(0_i64))
    }
}
