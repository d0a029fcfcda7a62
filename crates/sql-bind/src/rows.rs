//! Comparisons of rows, and comparisons with the rows of a subquery.

use perigee_expr::Comparison;
use perigee_expr::scalar::Scalar;
use sqlparser::ast::{BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments};

use crate::error::unsupported;
use crate::expression::{comparison, joined, negate};
use crate::query::Quantifier;
use crate::{BindError, Binder, Result};

impl Binder<'_> {
    /// The columns of a row: those of `(a, b)`, or of a subquery.
    pub(crate) fn row(&self, expr: &Expr) -> Result<Vec<Scalar>> {
        if let Some(row) = tuple(expr) {
            return row.into_iter().map(|one| self.operand(one)).collect();
        }
        match expr {
            Expr::Nested(inner) => self.row(inner),
            Expr::Subquery(query) => self.environment.subquery(query),
            other => Ok(vec![self.operand(other)?]),
        }
    }

    /// `(a, b) op (c, d)`.
    pub(crate) fn rows(
        &self,
        op: &BinaryOperator,
        left: Vec<Scalar>,
        right: &Expr,
    ) -> Result<Scalar> {
        let count = left.len();
        let Some(op) = comparison(op) else {
            return Err(BindError::OperandColumns(1));
        };
        let right = self.row(right)?;
        if right.len() != count {
            return Err(BindError::OperandColumns(count));
        }
        let pairs: Vec<_> = left.into_iter().zip(right).collect();
        match op {
            Comparison::Equal | Comparison::NullSafeEqual => self.each(op, pairs, true),
            Comparison::NotEqual => self.each(op, pairs, false),
            _ => self.lexical(op, pairs),
        }
    }

    /// One comparison for each pair, of which all or one must be true.
    fn each(&self, op: Comparison, pairs: Vec<(Scalar, Scalar)>, all: bool) -> Result<Scalar> {
        let mut whole: Option<Scalar> = None;
        for (left, right) in pairs {
            let one = self.compare(op, left, right)?;
            whole = Some(match whole {
                Some(whole) => joined(whole, one, all),
                None => one,
            });
        }
        whole.ok_or_else(|| BindError::NotSupported("an empty row".into()))
    }

    /// `(a, b) < (c, d)`: `a < c OR a = c AND b < d`.
    fn lexical(&self, op: Comparison, mut pairs: Vec<(Scalar, Scalar)>) -> Result<Scalar> {
        let strict = match op {
            Comparison::LessOrEqual => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::Greater,
            op => op,
        };
        let Some((left, right)) = pairs.pop() else {
            return unsupported("an empty row");
        };
        let mut whole = self.compare(op, left, right)?;
        while let Some((left, right)) = pairs.pop() {
            let [left, right] = [left, right].map(|one| self.repeated(one));
            let equal = self.compare(Comparison::Equal, left.place(), right.place())?;
            let first = self.compare(strict, left.place(), right.place())?;
            whole = joined(first, joined(equal, whole, true), false);
            whole = left.within(right.within(whole));
        }
        Ok(whole)
    }

    pub(crate) fn row_equality(&self, left: &[&Expr], right: &[&Expr]) -> Result<Scalar> {
        if left.len() != right.len() {
            return Err(BindError::OperandColumns(left.len()));
        }
        let pairs = left.iter().zip(right);
        let pairs = pairs.map(|(left, right)| Ok((self.operand(left)?, self.operand(right)?)));
        self.each(Comparison::Equal, pairs.collect::<Result<_>>()?, true)
    }

    /// `x IN (SELECT …)`, `x op ANY (SELECT …)`, `x op ALL (SELECT …)`.
    pub(crate) fn quantified(&self, expr: &Expr) -> Result<Scalar> {
        let (left, op, quantifier, query, negated) = match expr {
            Expr::InSubquery {
                expr,
                subquery,
                negated,
            } => (
                expr,
                Comparison::Equal,
                Quantifier::Any,
                &**subquery,
                *negated,
            ),
            Expr::AnyOp {
                left,
                compare_op,
                right,
                ..
            } => {
                let (op, query) = operands(compare_op, right)?;
                (left, op, Quantifier::Any, query, false)
            }
            Expr::AllOp {
                left,
                compare_op,
                right,
            } => {
                let (op, query) = operands(compare_op, right)?;
                (left, op, Quantifier::All, query, false)
            }
            other => return unsupported(other),
        };
        let left = self.row(left)?;
        let is_of_rows = matches!(
            (op, quantifier),
            (Comparison::Equal, Quantifier::Any) | (Comparison::NotEqual, Quantifier::All)
        );
        if left.len() != 1 && !is_of_rows {
            return Err(BindError::OperandColumns(1));
        }
        let found = self.environment.quantified(left, op, quantifier, query)?;
        Ok(negate(found, negated))
    }
}

/// The columns of `(a, b)` and of `ROW(a, b)`.
pub(crate) fn tuple(expr: &Expr) -> Option<Vec<&Expr>> {
    match expr {
        Expr::Tuple(row) => Some(row.iter().collect()),
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("row") => {
            let FunctionArguments::List(list) = &function.args else {
                return None;
            };
            let row = list.args.iter().map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
                _ => None,
            });
            row.collect()
        }
        _ => None,
    }
}

fn operands<'e>(
    op: &BinaryOperator,
    right: &'e Expr,
) -> Result<(Comparison, &'e sqlparser::ast::Query)> {
    match (comparison(op), right) {
        (Some(Comparison::NullSafeEqual) | None, _) => unsupported(format_args!("{op} ANY")),
        (Some(op), Expr::Subquery(query)) => Ok((op, query)),
        (Some(op), Expr::Nested(inner)) => match &**inner {
            Expr::Subquery(query) => Ok((op, query)),
            _ => unsupported("ANY of no subquery"),
        },
        _ => unsupported("ANY of no subquery"),
    }
}
