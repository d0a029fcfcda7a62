//! In which collation the strings of a plan compare, by the rules of `perigee_sql_type`.
//!
//! Fields say it in their metadata: those of tables' columns and of what functions make of them. The binder has decided
//! it for each expression; here it is found again where a plan compares what an expression became.

use datafusion::common::{DFSchema, Result as DfResult, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable, lit};
use perigee_sql_type::{Coercibility, Derived, common_collation, compared_in};
use perigee_value::Collation;

use super::metadata;
use super::operators::call;
use crate::error::SqlError;
use crate::functions::collation::{COLLATE, Collate, Collated, PAD, Pad};
use crate::functions::types::{is_json, is_string};
use crate::functions::{cast, enumeration, json};

const LITERAL: Derived = (Collation::UTF8MB4_BIN, Coercibility::Coercible);

fn implicit(collation: Collation) -> Derived {
    (collation, Coercibility::Implicit)
}

/// The collation in which two strings compare.
///
/// # Errors
/// 1267.
pub fn common(left: &Expr, right: &Expr, schema: &DFSchema) -> DfResult<Collation> {
    common_of(left, schema, right, schema)
}

/// As [`common`], for strings of different inputs.
///
/// # Errors
/// 1267.
pub fn common_of(
    left: &Expr,
    left_schema: &DFSchema,
    right: &Expr,
    right_schema: &DFSchema,
) -> DfResult<Collation> {
    let (left, right) = (derived(left, left_schema)?, derived(right, right_schema)?);
    compared_in(left, right).map_err(|mix| SqlError::from(mix).into_df())
}

/// The collation of a string.
///
/// # Errors
/// 1267.
pub fn collation_of(expr: &Expr, schema: &DFSchema) -> DfResult<Collation> {
    Ok(derived(expr, schema)?.0)
}

fn derived(expr: &Expr, schema: &DFSchema) -> DfResult<Derived> {
    match expr {
        Expr::Alias(alias) => derived(&alias.expr, schema),
        Expr::Column(_) | Expr::OuterReferenceColumn(..) => {
            let (_, field) = expr.to_field(schema)?;
            Ok(implicit(metadata::collation(&field)))
        }
        Expr::Cast(cast) => derived(&cast.expr, schema),
        Expr::TryCast(cast) => derived(&cast.expr, schema),
        Expr::ScalarSubquery(subquery) => {
            let field = subquery.subquery.schema().field(0);
            Ok(implicit(metadata::collation(field)))
        }
        Expr::ScalarFunction(function) => match function.func.name() {
            COLLATE => {
                let name = function.args.get(1).and_then(literal_text);
                let collation = name.and_then(|name| Collation::named(&name));
                let collation = collation.unwrap_or(Collation::UTF8MB4_BIN);
                Ok((collation, Coercibility::Explicit))
            }
            cast::NAME => Ok(implicit(Collation::UTF8MB4_BIN)),
            enumeration::TEXT => {
                let (_, field) = expr.to_field(schema)?;
                Ok(implicit(metadata::collation(&field)))
            }
            _ => all(function.args.iter(), schema),
        },
        Expr::Case(case) => {
            let values = case.when_then_expr.iter().map(|(_, then)| then);
            all(values.chain(&case.else_expr).map(AsRef::as_ref), schema)
        }
        Expr::AggregateFunction(function) => all(function.params.args.iter(), schema),
        Expr::WindowFunction(function) => all(function.params.args.iter(), schema),
        _ => Ok(LITERAL),
    }
}

/// The collation of what is computed from the strings among these.
fn all<'e>(exprs: impl Iterator<Item = &'e Expr>, schema: &DFSchema) -> DfResult<Derived> {
    let mut own = Vec::new();
    for expr in exprs {
        if is_string(&expr.get_type(schema)?) {
            own.push(derived(expr, schema)?);
        }
    }
    if own.is_empty() {
        return Ok(LITERAL);
    }
    common_collation(own).map_err(|mix| SqlError::from(mix).into_df())
}

fn literal_text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten().map(str::to_owned),
        _ => None,
    }
}

fn is_call(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::ScalarFunction(function) if function.func.name() == name)
}

/// An expression without the COLLATE clause that was heard.
#[must_use]
pub fn without_clause(expr: Expr) -> Expr {
    match expr {
        Expr::ScalarFunction(mut function) if function.func.name() == COLLATE => {
            without_clause(function.args.swap_remove(0))
        }
        other => other,
    }
}

/// An operand of LIKE as a text of the characters that stand for its own.
#[must_use]
pub fn alike(expr: Expr, collation: Collation) -> Expr {
    let expr = without_clause(expr);
    if !collation.has_form() {
        return expr;
    }
    instead(expr, Collated::alike(collation))
}

/// A pattern of LIKE, if it is constant, as one of the characters that stand for its own.
#[must_use]
pub fn alike_pattern(expr: Expr, collation: Collation) -> Expr {
    match without_clause(expr) {
        Expr::Literal(value, metadata) => match value.try_as_str() {
            Some(Some(pattern)) => {
                let pattern = perigee_value::alike_pattern(pattern, collation);
                Expr::Literal(ScalarValue::Utf8(Some(pattern)), metadata)
            }
            _ => Expr::Literal(value, metadata),
        },
        other => other,
    }
}

/// A string as a function makes it; a literal at once.
fn instead(expr: Expr, function: Collated) -> Expr {
    if let Expr::Literal(value, _) = &expr
        && let Some(Some(text)) = value.try_as_str()
    {
        let changed = function.text(text);
        // Whoever needs the text itself can tell it if that is what is compared.
        let metadata = (function.text(&changed) != changed).then(|| metadata::with_text(text));
        return Expr::Literal(ScalarValue::Utf8(Some(changed)), metadata);
    }
    call(function.into(), vec![expr])
}

/// A string as one whose equality and order as bytes are those of a collation: literals become that now,
/// columns of type CHAR hold no trailing spaces, everything else is cut or replaced by its form at run time. JSON has
/// its own order.
///
/// # Errors
/// If the expression has no type.
pub fn compared(expr: Expr, collation: Collation, schema: &DFSchema) -> DfResult<Expr> {
    if is_call(&expr, PAD) {
        return Ok(expr);
    }
    let (_, field) = expr.to_field(schema)?;
    if is_json(field.data_type()) {
        return Ok(json::order_of(expr));
    }
    if metadata::is_form(&field) || metadata::is_null(&field) {
        return Ok(without_clause(expr));
    }
    let expr = without_clause(expr);
    if collation.has_form() {
        return Ok(instead(expr, Collated::form(collation)));
    }
    if let Expr::Literal(value, metadata) = &expr
        && let Some(Some(text)) = value.try_as_str()
    {
        let text = ScalarValue::Utf8(Some(text.trim_end_matches(' ').to_owned()));
        return Ok(Expr::Literal(text, metadata.clone()));
    }
    let (_, field) = expr.to_field(schema)?;
    if metadata::is_char(&field) {
        return Ok(expr);
    }
    Ok(call(Pad::default().into(), vec![expr]))
}

/// A string as an expression, of the same collation, that is no table's column.
#[must_use]
pub fn of_no_column(expr: Expr, collation: Collation) -> Expr {
    call(Collate::default().into(), vec![expr, lit(collation.name())])
}
