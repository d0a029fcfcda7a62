//! `IN` with a subquery in three-valued logic.
//!
//! DataFusion turns an IN that is not a condition of its own into a mark, which is true or false but
//! never NULL. That is right as long as NULL counts as false. Where it does not (below NOT, XOR, CASE
//! and so on), or where NOT IN depends on the outer row in its subquery or not at all in its operand, the third value
//! is made explicit:
//!
//! ```text
//! x IN (q)   is   CASE WHEN x IN (q) THEN TRUE
//!                      WHEN (x IS NULL AND EXISTS (q)) OR EXISTS (q with a NULL) THEN NULL
//!                      ELSE FALSE END
//! ```

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result as DfResult, ScalarValue};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlanBuilder, Operator, Subquery, lit, not, when,
};

/// A condition over rows of `schema` whose INs with subqueries mean what they mean in MySQL.
///
/// # Errors
/// If an expression has no type.
pub fn three_valued(condition: Expr, schema: &DFSchema) -> DfResult<Expr> {
    if !condition.exists(|expr| Ok(matches!(expr, Expr::InSubquery(_))))? {
        return Ok(condition);
    }
    let parts = split_conjunction_owned(condition);
    let parts = parts.into_iter().map(|part| match plain(part) {
        Expr::InSubquery(part) if !part.negated || is_key(&part) => Ok(Expr::InSubquery(part)),
        part => nested(part, true, schema),
    });
    let parts = parts.collect::<DfResult<Vec<_>>>()?;
    Ok(conjunction(parts).unwrap_or(lit(true)))
}

/// `NOT (x IN (q))` as `x NOT IN (q)`.
fn plain(expr: Expr) -> Expr {
    match expr {
        Expr::Not(inner) => match plain(*inner) {
            Expr::InSubquery(mut inner) => {
                inner.negated = !inner.negated;
                Expr::InSubquery(inner)
            }
            inner => not(inner),
        },
        other => other,
    }
}

/// True if an anti join has the operand as a key, which is what knows of NULLs.
fn is_key(part: &InSubquery) -> bool {
    part.subquery.outer_ref_columns.is_empty() && part.expr.any_column_refs()
}

/// A part of a condition; `null_is_false` says that the two need not be told apart there.
fn nested(expr: Expr, null_is_false: bool, schema: &DFSchema) -> DfResult<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if null_is_false && matches!(op, Operator::And | Operator::Or) =>
        {
            let left = Box::new(nested(*left, true, schema)?);
            let right = Box::new(nested(*right, true, schema)?);
            Ok(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::InSubquery(part) if null_is_false && !part.negated => Ok(Expr::InSubquery(part)),
        other => {
            let explicit = other.transform_down(|expr| match expr {
                // What it became has the IN inside again.
                Expr::InSubquery(part) => explicit(part, schema)
                    .map(|expr| Transformed::new(expr, true, TreeNodeRecursion::Jump)),
                other => Ok(Transformed::no(other)),
            })?;
            Ok(explicit.data)
        }
    }
}

fn explicit(part: InSubquery, schema: &DFSchema) -> DfResult<Expr> {
    let InSubquery {
        expr,
        subquery,
        negated,
    } = part;
    let query = subquery.subquery.as_ref();
    let (relation, field) = query.schema().qualified_field(0);
    let mut unknown = Vec::new();
    if expr.nullable(schema)? {
        unknown.push(expr.clone().is_null().and(exists(subquery.clone())));
    }
    if field.is_nullable() {
        let column = Expr::Column(Column::new(relation.cloned(), field.name()));
        let nulls = LogicalPlanBuilder::from(query.clone())
            .filter(column.is_null())?
            .build()?;
        unknown.push(exists(Subquery {
            subquery: Arc::new(nulls),
            ..subquery.clone()
        }));
    }
    let found = Expr::InSubquery(InSubquery::new(expr, subquery, false));
    let value = match unknown.into_iter().reduce(Expr::or) {
        None => found,
        Some(unknown) => when(found, lit(true))
            .when(unknown, lit(ScalarValue::Boolean(None)))
            .otherwise(lit(false))?,
    };
    Ok(if negated { not(value) } else { value })
}

fn exists(subquery: Subquery) -> Expr {
    Expr::Exists(Exists::new(subquery, false))
}
