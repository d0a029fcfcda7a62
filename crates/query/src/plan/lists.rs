//! `IN` lists in three-valued logic.
//!
//! DataFusion merges two lists over one operand into one: `a IN (1, 2) AND a IN (2, 3)` is `a IN (2)`.
//! Where no value is left it makes a plain truth value of them, though where `a` is NULL they are
//! NULL. [`Simplify`] is its rule, preceded by one that makes the third value explicit:
//!
//! ```text
//! a IN (…) AND a IN (…)            is   a IN (…) AND a IN (…) OR (a IS NULL AND NULL)
//! a NOT IN (…) OR a NOT IN (…)     is   (a NOT IN (…) OR a NOT IN (…)) AND (a IS NOT NULL OR NULL)
//! ```
//!
//! The lists hold no NULL and nothing but constants, see `lower::comparison`.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result as DfResult, ScalarValue};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, lit};
use datafusion::optimizer::simplify_expressions::SimplifyExpressions;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::interrupt;

/// DataFusion's simplification with lists that mean what they mean in SQL.
#[derive(Debug, Default)]
pub struct Simplify {
    rule: SimplifyExpressions,
}

impl OptimizerRule for Simplify {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> DfResult<Transformed<LogicalPlan>> {
        interrupt::check_df()?;
        let schema = merge_schema(&plan.inputs());
        let is_condition = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::TableScan(_));
        // Whoever stands above knows a column by its name.
        let names = NamePreserver::new(&plan);
        let named = |expr: Expr| {
            let name = names.save(&expr);
            let explicit = explicit(expr, is_condition, &schema)?;
            Ok(explicit.update_data(|expr| name.restore(expr)))
        };
        plan.map_expressions(named)?
            .transform_data(|plan| self.rule.rewrite(plan, config))
    }
}

/// An expression with the third value of its lists made explicit; where `null_is_false`, one that is false
/// instead need not be.
fn explicit(expr: Expr, null_is_false: bool, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(both) if null_is_false && both.op == Operator::And => {
            let left = explicit(*both.left, true, schema)?;
            let right = explicit(*both.right, true, schema)?;
            let transformed = left.transformed || right.transformed;
            let both = left.data.and(right.data);
            Ok(Transformed::new_transformed(both, transformed))
        }
        expr => expr.transform_up(|expr| with_null(expr, schema)),
    }
}

fn with_null(expr: Expr, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &expr else {
        return Ok(Transformed::no(expr));
    };
    let (Some(one), Some(other)) = (List::of(left), List::of(right)) else {
        return Ok(Transformed::no(expr));
    };
    // What a scan filters by is not in its schema.
    if one.operand != other.operand || !one.operand.nullable(schema).unwrap_or(true) {
        return Ok(Transformed::no(expr));
    }
    let (operand, null) = (one.operand.clone(), lit(ScalarValue::Boolean(None)));
    Ok(match op {
        Operator::And => Transformed::yes(expr.or(operand.is_null().and(null))),
        Operator::Or if one.negated && other.negated => {
            Transformed::yes(expr.and(operand.is_not_null().or(null)))
        }
        _ => Transformed::no(expr),
    })
}

/// What DataFusion takes for a list, or will.
struct List<'e> {
    operand: &'e Expr,
    negated: bool,
}

impl<'e> List<'e> {
    fn of(expr: &'e Expr) -> Option<Self> {
        match expr {
            Expr::InList(list) => Some(Self {
                operand: &list.expr,
                negated: list.negated,
            }),
            Expr::Not(inner) => Self::of(inner).map(|list| Self {
                negated: !list.negated,
                ..list
            }),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if *op == Operator::Or => {
                let operand = |side| equality(side).or_else(|| Some(Self::of(side)?.operand));
                let (one, other) = (operand(left)?, operand(right)?);
                (one == other).then_some(Self {
                    operand: one,
                    negated: false,
                })
            }
            _ => None,
        }
    }
}

/// The column that is compared with a constant.
fn equality(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if *op == Operator::Eq => {
            match (left.as_ref(), right.as_ref()) {
                (Expr::Column(_), _) => Some(left),
                (_, Expr::Column(_)) => Some(right),
                _ => None,
            }
        }
        _ => None,
    }
}
