//! Subqueries of expressions, as DataFusion's: an expression of its own stands for the column that an apply adds.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column as DfColumn, DFSchema, ExprSchema, Result as DfResult, Spans};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use perigee_expr::Comparison;
use perigee_expr::scalar::{Domain, Scalar};
use perigee_sql_bind::query::{Applied, Apply, Quantifier};

use super::relation::{Lowered, Planner, Subqueries, unsupported};
use crate::functions::nullable;
use crate::plan::comparable;

impl<'q> Planner<'q> {
    /// A subquery for each row.
    pub(super) fn apply(&self, apply: &'q Apply, parameters: &[Expr]) -> DfResult<Lowered> {
        if let Some(lowered) = self.applied_json_table(apply, parameters)? {
            return Ok(lowered);
        }
        let is_value = matches!(apply.applied, Applied::Row) && apply.subquery.columns.len() == 1;
        let is_constant = is_value && apply.arguments.is_empty();
        match self.subqueries {
            Subqueries::Applied if !is_constant => self.applied(apply, parameters),
            Subqueries::Joined if !is_expression(apply) => self.applied(apply, parameters),
            _ => self.joined_later(apply, parameters),
        }
    }

    /// The subquery as an expression of which the optimizer makes a join.
    fn joined_later(&self, apply: &'q Apply, parameters: &[Expr]) -> DfResult<Lowered> {
        let input = self.relation(&apply.input, parameters)?;
        let row = input.row(parameters);
        let mut outer = Vec::with_capacity(apply.arguments.len());
        let mut references = Vec::new();
        for argument in &apply.arguments {
            let argument = row.expr(argument)?;
            if argument.contains_outer() {
                return unsupported(
                    "a subquery that depends on a query around the one it stands in",
                );
            }
            let argument = referring(argument, row.schema, &mut references)?;
            outer.push(argument);
        }
        let subquery = self.inside(&apply.subquery, &outer)?;
        let subquery = subquery.exact(&apply.subquery.columns, self)?;
        let of = |plan: LogicalPlan| Subquery {
            subquery: Arc::new(plan),
            outer_ref_columns: references.clone(),
            spans: Spans::new(),
        };
        let value = match &apply.applied {
            Applied::Row if apply.subquery.columns.len() == 1 => {
                nullable::subquery(of(subquery.plan))
            }
            Applied::Row => return unsupported("a subquery of several columns"),
            Applied::Exists => Expr::Exists(Exists::new(of(subquery.plan), false)),
            Applied::Quantified {
                quantifier,
                comparison,
                operands,
            } => {
                let negated = match (quantifier, comparison) {
                    (Quantifier::Any, Comparison::Equal) => false,
                    (Quantifier::All, Comparison::NotEqual) => true,
                    _ => return unsupported("this comparison with ANY or ALL"),
                };
                let [operand] = &operands[..] else {
                    return unsupported("a row IN a subquery");
                };
                let membership = self.member(&input, operand, of(subquery.plan), parameters)?;
                Expr::InSubquery(InSubquery {
                    negated,
                    ..membership
                })
            }
            Applied::Lateral { .. } => return unsupported("LATERAL"),
        };
        let mut output = input;
        output.columns.push(value);
        Ok(output)
    }

    /// `operand IN (subquery)`.
    fn member(
        &self,
        input: &Lowered,
        (operand, _): &(Scalar, Domain),
        subquery: Subquery,
        parameters: &[Expr],
    ) -> DfResult<InSubquery> {
        let row = input.row(parameters);
        let expr = row.expr(operand)?;
        let membership = InSubquery::new(Box::new(expr), subquery, false);
        match comparable::in_subquery(membership, row.schema)?.data {
            Expr::InSubquery(membership) => Ok(membership),
            _ => unsupported("IN with this subquery"),
        }
    }
}

/// True if DataFusion has an expression for what a subquery gives.
fn is_expression(apply: &Apply) -> bool {
    match &apply.applied {
        Applied::Row => apply.subquery.columns.len() == 1,
        Applied::Exists => true,
        Applied::Quantified {
            quantifier,
            comparison,
            operands,
        } => {
            let is_membership = matches!(
                (quantifier, comparison),
                (Quantifier::Any, Comparison::Equal) | (Quantifier::All, Comparison::NotEqual)
            );
            is_membership && operands.len() == 1
        }
        Applied::Lateral { .. } => false,
    }
}

/// An expression over the row around a subquery, inside of it.
fn referring(expr: Expr, schema: &DFSchema, references: &mut Vec<Expr>) -> DfResult<Expr> {
    let referring = expr.transform_up(|expr| match expr {
        Expr::Column(column) => {
            let expr = reference(column, schema)?;
            if !references.contains(&expr) {
                references.push(expr.clone());
            }
            Ok(Transformed::yes(expr))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(referring.data)
}

fn reference(column: DfColumn, schema: &DFSchema) -> DfResult<Expr> {
    let field = schema.field_from_column(&column)?;
    Ok(Expr::OuterReferenceColumn(Arc::clone(field), column))
}
