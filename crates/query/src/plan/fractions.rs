//! Digits of fractional seconds of MIN and MAX, which DataFusion's own functions forget.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result as DfResult};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Projection, Window};

use super::grouping::UnaliasRef;
use super::operators::cast_to;
use crate::functions::cast as casts;

/// Digits of fractional seconds that the one of some values shows that shows most.
fn digits_of<'e>(values: impl IntoIterator<Item = &'e Expr>, schema: &DFSchema) -> DfResult<u8> {
    let mut fields = values.into_iter().map(|value| value.to_field(schema));
    fields.try_fold(0, |most, field| Ok(most.max(casts::fsp_of(&field?.1))))
}

/// Times that show so many digits of fractional seconds, which DataFusion's own functions forget;
/// other values as they are.
///
/// # Errors
/// If the expression has no type.
pub fn with_digits(expr: Expr, digits: u8, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    let target = match (digits, expr.get_type(schema)?) {
        (1.., DataType::Timestamp(..)) => casts::Target::DateTime(digits),
        (1.., DataType::Duration(..)) => casts::Target::Time(digits),
        _ => return Ok(Transformed::no(expr)),
    };
    Ok(Transformed::yes(cast_to(expr, target)))
}

/// Digits of fractional seconds of MIN and MAX, which are their argument's; 0 of other aggregates.
///
/// # Errors
/// If the argument has no type.
pub fn extreme_digits(aggregate: &Expr, schema: &DFSchema) -> DfResult<u8> {
    match aggregate {
        Expr::AggregateFunction(AggregateFunction { func, params })
            if matches!(func.name(), "min" | "max") =>
        {
            digits_of(&params.args, schema)
        }
        _ => Ok(0),
    }
}

/// Windows whose MIN and MAX show the digits of fractional seconds that their arguments show.
///
/// # Errors
/// If an argument has no type.
pub fn window_digits(window: Window) -> DfResult<LogicalPlan> {
    let below = window.input.schema();
    let first = below.fields().len();
    let mut digits = vec![0; first];
    for expr in &window.window_expr {
        digits.push(match expr.unalias_ref() {
            Expr::WindowFunction(function) if matches!(function.fun.name(), "min" | "max") => {
                digits_of(&function.params.args, below)?
            }
            _ => 0,
        });
    }
    if digits.iter().all(|digits| *digits == 0) {
        return Ok(LogicalPlan::Window(window));
    }
    let schema = Arc::clone(&window.schema);
    let columns = schema.iter().zip(digits);
    let columns = columns.map(|((relation, field), digits)| {
        let column = Expr::Column(Column::new(relation.cloned(), field.name()));
        let column = with_digits(column, digits, &schema)?;
        Ok(match column.transformed {
            true => column.data.alias_qualified(relation.cloned(), field.name()),
            false => column.data,
        })
    });
    let columns = columns.collect::<DfResult<_>>()?;
    let window = Arc::new(LogicalPlan::Window(window));
    Ok(LogicalPlan::Projection(Projection::try_new(
        columns, window,
    )?))
}
