//! `<=>` between columns, for the optimizer: `a <=> b` becomes `mysql_null_safe(a) = mysql_null_safe(b)`.
//!
//! A join of DataFusion's compares all its keys the one way or all the other, and its rules merge keys and
//! joins without regard to that: `a.s <=> b.s AND a.n = b.n` would let NULL be equal to NULL in `n`, too.
//! With keys that are never NULL there is one kind of equality only. Invariant: no `IS NOT DISTINCT FROM`
//! with columns on both sides goes to the optimizer.

use datafusion::common::Result as DfResult;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;

use super::operators::call;
use crate::functions::null_safe::NullSafeKey;

/// The rule; it runs once types are settled.
#[derive(Debug)]
pub struct NullSafe;

impl AnalyzerRule for NullSafe {
    fn name(&self) -> &str {
        "null_safe"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DfResult<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(of_node)?.data)
    }
}

fn of_node(node: LogicalPlan) -> DfResult<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&node);
    let keyed = node.map_expressions(|expr| {
        let saved = names.save(&expr);
        let keyed = expr.transform_up(keyed)?;
        Ok(match keyed.transformed {
            true => keyed.update_data(|expr| saved.restore(expr)),
            false => keyed,
        })
    })?;
    match keyed.transformed {
        true => keyed.map_data(LogicalPlan::recompute_schema),
        false => Ok(keyed),
    }
}

fn keyed(expr: Expr) -> DfResult<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::IsNotDistinctFrom,
            right,
        }) if has_columns(&left) && has_columns(&right) => {
            let key = |expr: Box<Expr>| call(NullSafeKey::default().into(), vec![*expr]);
            Ok(Transformed::yes(key(left).eq(key(right))))
        }
        expr => Ok(Transformed::no(expr)),
    }
}

fn has_columns(expr: &Expr) -> bool {
    expr.any_column_refs() || expr.contains_outer()
}
