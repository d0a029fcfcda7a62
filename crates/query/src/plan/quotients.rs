//! Digits of results of arithmetic: what is shown of them, and what is computed with.
//!
//! MySQL computes a quotient to whole groups of nine digits behind the point and shows four more than the dividend
//! has. What computes with it (arithmetic, CAST, ROUND) takes all of its digits, everything else what is shown.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result as DfResult};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ExprSchemable};

use super::operators::call;
use crate::functions::arithmetic::{self, ArithmeticFunction};

/// Arithmetic over operands with all their digits, whose result has the type that it has by what is shown of them.
///
/// # Errors
/// If an operand has no type.
pub fn lower_arithmetic(
    mut function: ScalarFunction,
    schema: &DFSchema,
) -> DfResult<Transformed<Expr>> {
    let Some(op) = arithmetic::operator_of(function.func.name()) else {
        return Ok(Transformed::no(Expr::ScalarFunction(function)));
    };
    let shown = Expr::ScalarFunction(function.clone()).get_type(schema)?;
    for operand in &mut function.args {
        *operand = unrounded(std::mem::take(operand), schema)?;
    }
    function.func = Arc::new(ArithmeticFunction::typed(op, shown).into());
    Ok(Transformed::yes(Expr::ScalarFunction(function)))
}

/// A number with all digits that MySQL computes, for what computes with it.
///
/// # Errors
/// If it has no type.
pub fn unrounded(expr: Expr, schema: &DFSchema) -> DfResult<Expr> {
    let Expr::ScalarFunction(function) = &expr else {
        return Ok(expr);
    };
    let (Some(op), [left, right]) = (
        arithmetic::operator_of(function.func.name()),
        &function.args[..],
    ) else {
        return Ok(expr);
    };
    let (left, right) = (left.get_type(schema)?, right.get_type(schema)?);
    let shown = expr.get_type(schema)?;
    Ok(
        match ArithmeticFunction::unrounded_type(op, &left, &right, &shown) {
            Some(ty) => call(
                ArithmeticFunction::typed(op, ty).into(),
                function.args.clone(),
            ),
            None => expr,
        },
    )
}
