//! BETWEEN: two comparisons by the types of all three operands. With `s BETWEEN '1' AND 5` a text is compared as a number
//! with both bounds, with `s BETWEEN '2020-1-5' AND a_date` as a point in time.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result as DfResult, ScalarValue, internal_err};
use datafusion::logical_expr::{Expr, Operator};

use super::moments::{as_time, moments};
use super::operators::{as_bytes, as_number, compare, is_number, string_as_number};
use crate::functions::types::{is_bytes, is_json, is_string, is_temporal, is_time};
use crate::plan::field::type_of;

/// How values of a type are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Number,
    Text,
    Bytes,
    Moment,
    Time,
    /// NULL, JSON, and literals whose type depends on the other operand: these are compared pair by pair.
    Other,
}

/// The two comparisons, of the arguments of [`crate::functions::between`].
///
/// # Errors
/// As [`compare`].
pub(super) fn lowered(args: Vec<Expr>, schema: &DFSchema) -> DfResult<Expr> {
    let Ok([left, low, right, high]) = <[Expr; 4]>::try_from(args) else {
        return internal_err!("Q1: BETWEEN has four operands");
    };
    let left = operand(left, [&low, &high], schema)?;
    let right = operand(right, [&low, &high], schema)?;
    let above = compare(Operator::GtEq, left, low, schema)?;
    let below = compare(Operator::LtEq, right, high, schema)?;
    Ok(above.and(below))
}

/// What is between bounds, as it is compared with both of them.
fn operand(expr: Expr, bounds: [&Expr; 2], schema: &DFSchema) -> DfResult<Expr> {
    let own = class(&expr, schema)?;
    let classes = [class(bounds[0], schema)?, class(bounds[1], schema)?];
    if classes[0] == classes[1] || own == Class::Other || classes.contains(&Class::Other) {
        return Ok(expr);
    }
    let bound_of = |class| {
        let at = classes.iter().position(|other| *other == class)?;
        Some(bounds[at])
    };
    let ty = type_of(&expr, schema)?;
    if own != Class::Moment
        && own != Class::Time
        && let Some(bound) = bound_of(Class::Moment).or(bound_of(Class::Time))
    {
        let bound_type = type_of(bound, schema)?;
        return match is_time(&bound_type) {
            true => as_time(expr, &ty, &bound_type, schema),
            false => Ok(moments(bound.clone(), expr, &ty, &bound_type, schema)?.1),
        };
    }
    let is_text = matches!(own, Class::Text | Class::Bytes);
    match is_text && bound_of(Class::Number).is_some() {
        true => number(expr, schema),
        false if own == Class::Text && bound_of(Class::Bytes).is_some() => Ok(as_bytes(expr, &ty)),
        false => Ok(expr),
    }
}

/// A text as a number, a value of an ENUM as its own.
fn number(expr: Expr, schema: &DFSchema) -> DfResult<Expr> {
    let number = as_number(expr, schema)?;
    match is_number(&type_of(&number, schema)?) {
        true => Ok(number),
        false => Ok(string_as_number(number)),
    }
}

fn class(expr: &Expr, schema: &DFSchema) -> DfResult<Class> {
    if matches!(expr, Expr::Literal(ScalarValue::Binary(_), _)) {
        return Ok(Class::Other);
    }
    let ty = type_of(expr, schema)?;
    Ok(match ty {
        DataType::Null => Class::Other,
        DataType::Boolean => Class::Number,
        ty if is_json(&ty) => Class::Other,
        ty if is_string(&ty) => Class::Text,
        ty if is_bytes(&ty) => Class::Bytes,
        ty if is_temporal(&ty) => Class::Moment,
        ty if is_time(&ty) => Class::Time,
        ty if is_number(&ty) => Class::Number,
        _ => Class::Other,
    })
}
