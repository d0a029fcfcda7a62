//! Subqueries that are evaluated for each row: the ones that no join stands for.
//!
//! The plan of such a subquery is none of the statement's plan. It has [parameters](parameter) in the places of the
//! values of the row around it; with these it is planned and run once for each tuple of values, so that it has the
//! access paths that they allow. What it gave is [remembered](cache), as long as there is memory for that.

mod cache;
mod exec;
mod node;
mod planner;
mod running;

pub use exec::ApplyExec;
pub use node::{Answer, ApplyNode};
pub use planner::Planner;

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan};

use super::common::{Filled, SharedNode};

/// The value of the row around a subquery, by its number.
#[must_use]
pub fn parameter(number: usize, field: FieldRef) -> Expr {
    Expr::Placeholder(Placeholder::new_with_field(
        format!("${number}"),
        Some(field),
    ))
}

/// A plan with values in the places of its parameters.
///
/// # Errors
/// If the plan cannot be made.
pub(crate) fn with_values(plan: &LogicalPlan, values: &[ScalarValue]) -> DfResult<LogicalPlan> {
    filled(plan, values, &mut Filled::new())
}

/// [`with_values`], for a plan among others of the same values that read the same tables.
pub(super) fn filled(
    plan: &LogicalPlan,
    values: &[ScalarValue],
    tables: &mut Filled,
) -> DfResult<LogicalPlan> {
    let value = |expr: Expr| match &expr {
        Expr::Placeholder(placeholder) => {
            let number = placeholder.id.trim_start_matches('$').parse::<usize>();
            let value = number.ok().and_then(|number| values.get(number));
            Ok(match value {
                Some(value) => Transformed::yes(Expr::Literal(value.clone(), None)),
                None => Transformed::no(expr),
            })
        }
        _ => Ok(Transformed::no(expr)),
    };
    let filled = plan.clone().transform_up_with_subqueries(|node| {
        if let LogicalPlan::Extension(extension) = &node
            && let Some(shared) = extension.node.as_any().downcast_ref::<SharedNode>()
        {
            let node = Arc::new(shared.filled(values, tables)?);
            return Ok(Transformed::yes(LogicalPlan::Extension(Extension { node })));
        }
        let names = datafusion::logical_expr::expr_rewriter::NamePreserver::new(&node);
        let filled = node.map_expressions(|expr| {
            let saved = names.save(&expr);
            let filled = expr.transform_up(value)?;
            Ok(match filled.transformed {
                true => filled.update_data(|expr| saved.restore(expr)),
                false => filled,
            })
        })?;
        match filled.transformed {
            true => filled.map_data(LogicalPlan::recompute_schema),
            false => Ok(filled),
        }
    })?;
    Ok(filled.data)
}
