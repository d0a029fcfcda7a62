//! In which collation strings compare: MySQL's coercibility. A COLLATE clause says it, then columns do,
//! then literals; of two columns with different collations the one in `utf8mb4_bin` decides.
//!
//! Fields say it in their metadata: those of tables' columns, of what functions make of them, and of what
//! CASE, COALESCE, MIN and MAX choose. An expression is asked itself, as long as it is there:
//! [`check_outputs`] refuses plans that would have to ask a field that says something else.

use std::collections::HashMap;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result as DfResult, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, lit};
use perigee_value::{Collation, collation};

use super::metadata;
use super::operators::call;
use crate::error::SqlError;
use crate::functions::collation::{COLLATE, Collate, PAD, Pad, WEIGHTS, Weights};
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

/// The collation of a column of a UNION: that of the parts whose column says one or comes from a table, of which
/// `utf8mb4_bin` decides if they differ.
#[must_use]
pub fn of_union(parts: &[std::sync::Arc<LogicalPlan>], column: usize) -> Collation {
    let mut common = Field::new("", DataType::Utf8View, true);
    let fields = parts
        .iter()
        .map(|part| part.schema().field(column).as_ref());
    metadata::pass_collation(fields, &mut common);
    metadata::collation(&common)
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

/// The collation in which the strings among these compare.
///
/// # Errors
/// 1267.
pub fn common_of_all(exprs: &[Expr], schema: &DFSchema) -> DfResult<Collation> {
    Ok(all(exprs.iter(), schema)?.collation)
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
fn without_clause(expr: Expr) -> Expr {
    match expr {
        Expr::ScalarFunction(mut function) if function.func.name() == COLLATE => {
            without_clause(function.args.swap_remove(0))
        }
        other => other,
    }
}

/// A string as what it is compared by in a collation, trailing spaces kept: for LIKE.
#[must_use]
pub fn weighed(expr: Expr, collation: Collation) -> Expr {
    let expr = without_clause(expr);
    if collation != Collation::UTF8MB4_GENERAL_CI || is_call(&expr, WEIGHTS) {
        return expr;
    }
    if let Expr::Literal(value, metadata) = &expr
        && let Some(Some(text)) = value.try_as_str()
    {
        let text: String = text.chars().map(collation::weight).collect();
        return Expr::Literal(ScalarValue::Utf8(Some(text)), metadata.clone());
    }
    call(Weights::default().into(), vec![expr])
}

/// A string as one whose equality and order as bytes are those of a collation: literals become that now,
/// columns of type CHAR hold no trailing spaces, everything else is cut at run time. JSON has its own order.
///
/// # Errors
/// If the expression has no type.
pub fn compared(expr: Expr, collation: Collation, schema: &DFSchema) -> DfResult<Expr> {
    if is_call(&expr, PAD) {
        return Ok(expr);
    }
    if is_json(&expr.get_type(schema)?) {
        return Ok(json::order_of(expr));
    }
    let expr = weighed(expr, collation);
    if let Expr::Literal(value, metadata) = &expr
        && let Some(Some(text)) = value.try_as_str()
    {
        let text = ScalarValue::Utf8(Some(text.trim_end_matches(' ').to_owned()));
        return Ok(Expr::Literal(text, metadata.clone()));
    }
    let (_, field) = expr.to_field(schema)?;
    if metadata::is_char(&field) || metadata::is_null(&field) {
        return Ok(expr);
    }
    Ok(call(Pad::default().into(), vec![expr]))
}

/// A string as an expression, of the same collation, that is no table's column.
#[must_use]
pub fn of_no_column(expr: Expr, collation: Collation) -> Expr {
    call(Collate::default().into(), vec![expr, lit(collation.name())])
}

/// The collation that the field of a string says, if it is another one than `utf8mb4_bin`.
///
/// # Errors
/// If the expression has no type.
pub fn said(expr: &Expr, schema: &DFSchema) -> DfResult<Option<Collation>> {
    let (_, field) = expr.to_field(schema)?;
    let said = Some(metadata::collation(&field));
    Ok(said.filter(|said| *said != Collation::UTF8MB4_BIN && is_string(field.data_type())))
}

/// A string whose field says a collation.
///
/// # Errors
/// If the expression has no type.
pub fn saying(expr: Expr, collation: Collation, schema: &DFSchema) -> DfResult<Expr> {
    if said(&expr, schema)? == Some(collation) {
        return Ok(expr);
    }
    let mut map = HashMap::new();
    metadata::set_collation(&mut map, collation);
    let (relation, name) = expr.qualified_name();
    let expr = expr.unalias();
    Ok(expr.alias_qualified_with_metadata(relation, name, Some(FieldMetadata::from(map))))
}

/// Refuses a plan in which a column is used above the expression that computes it, if that has another
/// collation than `utf8mb4_bin` and the column does not say so. True if anything has another one.
///
/// # Errors
/// 1235, 1267.
pub fn check_outputs(plan: &LogicalPlan) -> DfResult<bool> {
    let found = says_collation(plan)?;
    if found {
        silent(plan)?;
    }
    Ok(found)
}

/// True if a table or a clause of a plan, or of its subqueries, has another collation than `utf8mb4_bin`.
fn says_collation(plan: &LogicalPlan) -> DfResult<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        let of_table = |node: &LogicalPlan| {
            let fields = node.schema().fields().iter();
            matches!(node, LogicalPlan::TableScan(_))
                && fields
                    .map(|field| metadata::collation(field))
                    .any(|collation| collation != Collation::UTF8MB4_BIN)
        };
        found |= of_table(node);
        node.apply_expressions(|expr| {
            found |= expr.exists(|expr| Ok(is_call(expr, COLLATE)))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// The columns of a plan's output that have another collation than their fields say.
fn silent(plan: &LogicalPlan) -> DfResult<Vec<Column>> {
    let mut below = Vec::new();
    for input in plan.inputs() {
        below.extend(silent(input)?);
    }
    plan.apply_expressions(|expr| {
        expr.apply(|expr| {
            let subquery = match expr {
                Expr::ScalarSubquery(subquery) => subquery,
                Expr::InSubquery(of) => &of.subquery,
                Expr::Exists(of) => &of.subquery,
                _ => return Ok(TreeNodeRecursion::Continue),
            };
            none(&silent(&subquery.subquery)?)?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    let mentions = |expr: &Expr| -> bool {
        let columns = expr.column_refs();
        below.iter().any(|column| columns.contains(column))
    };
    match plan {
        LogicalPlan::Projection(projection) => {
            let exprs = projection.expr.iter();
            outputs(exprs, plan, projection.input.schema(), mentions)
        }
        LogicalPlan::Aggregate(aggregate) => {
            none(&below)?;
            let exprs = aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
            outputs(exprs, plan, aggregate.input.schema(), mentions)
        }
        LogicalPlan::Window(window) => {
            let used = window.window_expr.iter().any(mentions);
            none(if used { &below } else { &[] })?;
            let exprs = window.window_expr.iter();
            let shift = window.input.schema().fields().len();
            let mut columns = outputs_from(shift, exprs, plan, window.input.schema(), mentions)?;
            columns.extend(below);
            Ok(columns)
        }
        LogicalPlan::Sort(_) | LogicalPlan::Filter(_) => {
            let mut used = false;
            plan.apply_expressions(|expr| {
                used |= mentions(expr);
                Ok(TreeNodeRecursion::Continue)
            })?;
            none(if used { &below } else { &[] })?;
            Ok(below)
        }
        LogicalPlan::Limit(_) => Ok(below),
        LogicalPlan::Union(union) => {
            none(&below)?;
            for (number, field) in union.schema.fields().iter().enumerate() {
                let own = metadata::collation(field);
                let parts = union.inputs.iter();
                let parts = parts.map(|part| metadata::collation(part.schema().field(number)));
                if is_string(field.data_type()) && parts.into_iter().any(|part| part != own) {
                    none(&[Column::new_unqualified(field.name())])?;
                }
            }
            Ok(Vec::new())
        }
        _ => none(&below).map(|()| Vec::new()),
    }
}

fn outputs<'e>(
    exprs: impl Iterator<Item = &'e Expr>,
    plan: &LogicalPlan,
    input: &DFSchema,
    mentions: impl Fn(&Expr) -> bool,
) -> DfResult<Vec<Column>> {
    outputs_from(0, exprs, plan, input, mentions)
}

/// The silent ones among expressions, which are the outputs of a plan from number `first` on.
fn outputs_from<'e>(
    first: usize,
    exprs: impl Iterator<Item = &'e Expr>,
    plan: &LogicalPlan,
    input: &DFSchema,
    mentions: impl Fn(&Expr) -> bool,
) -> DfResult<Vec<Column>> {
    let mut columns = Vec::new();
    for (number, expr) in exprs.enumerate() {
        let Some((relation, field)) = plan.schema().iter().nth(first + number) else {
            continue;
        };
        if !is_string(field.data_type()) {
            continue;
        }
        let collation = collation_of(expr, input)?;
        if collation != metadata::collation(field) || mentions(expr) {
            columns.push(Column::new(relation.cloned(), field.name()));
        }
    }
    Ok(columns)
}

fn none(columns: &[Column]) -> DfResult<()> {
    match columns.first() {
        None => Ok(()),
        Some(column) => {
            let what = format!("the collation of {} here", column.name);
            Err(SqlError::not_supported(what).into_df())
        }
    }
}
