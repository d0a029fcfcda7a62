//! In which collation strings compare: MySQL's coercibility. A COLLATE clause says it, then columns do,
//! then literals; of two columns with different collations the one in `utf8mb4_bin` decides.
//!
//! Fields say it in their metadata: those of tables' columns and of what functions make of them. The binder has decided
//! it for each expression; here it is found again where a plan compares what an expression became.

use datafusion::common::{DFSchema, Result as DfResult, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable, lit};
use perigee_value::Collation;

use super::metadata;
use super::operators::call;
use crate::error::SqlError;
use crate::functions::collation::{COLLATE, Collate, Collated, PAD, Pad};
use crate::functions::types::{is_json, is_string};
use crate::functions::{cast, enumeration, json};

/// How firmly an expression has its collation; the firmer one decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    /// By a COLLATE clause.
    Explicit,
    /// A column's, or that of what is computed from columns.
    Implicit,
    /// A literal's.
    Coercible,
}

/// The collation of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Derived {
    collation: Collation,
    strength: Strength,
}

impl Derived {
    const LITERAL: Self = Self {
        collation: Collation::UTF8MB4_BIN,
        strength: Strength::Coercible,
    };

    fn implicit(collation: Collation) -> Self {
        Self {
            collation,
            strength: Strength::Implicit,
        }
    }

    /// The collation in which both compare.
    ///
    /// # Errors
    /// 1267 if both have a COLLATE clause, of different collations.
    fn with(self, other: Self) -> DfResult<Self> {
        if self.collation == other.collation || self.strength != other.strength {
            return Ok(if other.strength < self.strength {
                other
            } else {
                self
            });
        }
        if self.strength == Strength::Explicit {
            let (a, b) = (self.collation.name(), other.collation.name());
            return Err(SqlError::mix_of_collations(a, b).into_df());
        }
        Ok(Self {
            collation: Collation::UTF8MB4_BIN,
            ..self
        })
    }
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
    Ok(left.with(right)?.collation)
}

/// The collation of a string.
///
/// # Errors
/// 1267.
pub fn collation_of(expr: &Expr, schema: &DFSchema) -> DfResult<Collation> {
    Ok(derived(expr, schema)?.collation)
}

fn derived(expr: &Expr, schema: &DFSchema) -> DfResult<Derived> {
    match expr {
        Expr::Alias(alias) => derived(&alias.expr, schema),
        Expr::Column(_) | Expr::OuterReferenceColumn(..) => {
            let (_, field) = expr.to_field(schema)?;
            Ok(Derived::implicit(metadata::collation(&field)))
        }
        Expr::Cast(cast) => derived(&cast.expr, schema),
        Expr::TryCast(cast) => derived(&cast.expr, schema),
        Expr::ScalarSubquery(subquery) => {
            let field = subquery.subquery.schema().field(0);
            Ok(Derived::implicit(metadata::collation(field)))
        }
        Expr::ScalarFunction(function) => match function.func.name() {
            COLLATE => {
                let name = function.args.get(1).and_then(literal_text);
                let collation = name.and_then(|name| Collation::named(&name));
                Ok(Derived {
                    collation: collation.unwrap_or(Collation::UTF8MB4_BIN),
                    strength: Strength::Explicit,
                })
            }
            cast::NAME => Ok(Derived::implicit(Collation::UTF8MB4_BIN)),
            enumeration::TEXT => {
                let (_, field) = expr.to_field(schema)?;
                Ok(Derived::implicit(metadata::collation(&field)))
            }
            _ => all(function.args.iter(), schema),
        },
        Expr::Case(case) => {
            let values = case.when_then_expr.iter().map(|(_, then)| then);
            all(values.chain(&case.else_expr).map(AsRef::as_ref), schema)
        }
        Expr::AggregateFunction(function) => all(function.params.args.iter(), schema),
        Expr::WindowFunction(function) => all(function.params.args.iter(), schema),
        _ => Ok(Derived::LITERAL),
    }
}

/// The collation of what is computed from the strings among these.
fn all<'e>(exprs: impl Iterator<Item = &'e Expr>, schema: &DFSchema) -> DfResult<Derived> {
    let mut common: Option<Derived> = None;
    for expr in exprs {
        if !is_string(&expr.get_type(schema)?) {
            continue;
        }
        let own = derived(expr, schema)?;
        common = Some(common.map_or(Ok(own), |common| common.with(own))?);
    }
    Ok(common.unwrap_or(Derived::LITERAL))
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
