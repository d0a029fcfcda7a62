//! Constants of the select list that stand in an ORDER BY.
//!
//! DataFusion takes whatever in an ORDER BY is also in the select list from there, single constants too.
//! Some of our functions need theirs to plan: the target of a cast, a number of digits. So what is a
//! constant in the select list is one again in the ORDER BY.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result as DfResult};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, Sort};

use super::typing::UnaliasRef;

/// The sort with constants in the places of columns that are constant, but for whole keys.
pub fn inlined(mut sort: Sort) -> DfResult<Sort> {
    for key in &mut sort.expr {
        if matches!(key.expr, Expr::Column(_)) {
            continue;
        }
        let expr = key.expr.clone().transform_up(|expr| {
            let constant = match &expr {
                Expr::Column(column) => constant(&sort.input, column),
                _ => None,
            };
            Ok(constant.map_or_else(|| Transformed::no(expr), Transformed::yes))
        })?;
        key.expr = expr.data;
    }
    Ok(sort)
}

/// The constant that a column of a plan is.
fn constant(plan: &LogicalPlan, column: &Column) -> Option<Expr> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let at = projection.schema.maybe_index_of_column(column)?;
            // Names may carry metadata, which DataFusion's own functions do not look below.
            match projection.expr.get(at)?.unalias_ref() {
                Expr::Column(below) => constant(&projection.input, below),
                literal @ Expr::Literal(..) => Some(literal.clone()),
                _ => None,
            }
        }
        LogicalPlan::Distinct(Distinct::All(input)) => constant(input, column),
        LogicalPlan::Filter(filter) => constant(&filter.input, column),
        LogicalPlan::Sort(sort) => constant(&sort.input, column),
        _ => None,
    }
}
