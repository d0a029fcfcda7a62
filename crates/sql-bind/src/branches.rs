//! CASE, IF, COALESCE, NULLIF, GREATEST: several values of which one is the result.

use perigee_expr::Comparison;
use perigee_expr::scalar::{Node, Scalar, Target};
use perigee_sql_type::SqlType;
use perigee_value::ColumnType;
use sqlparser::ast::{CaseWhen, Expr};

use crate::cast::cast_to;
use crate::{Binder, Result};

impl Binder<'_> {
    pub(crate) fn case(
        &self,
        operand: Option<&Expr>,
        conditions: &[CaseWhen],
        otherwise: Option<&Expr>,
    ) -> Result<Scalar> {
        let operand = operand.map(|operand| self.operand(operand)).transpose()?;
        let operand = operand.map(|operand| self.repeated(operand));
        let mut whens = Vec::with_capacity(conditions.len());
        let mut values = Vec::with_capacity(conditions.len() + 1);
        for CaseWhen { condition, result } in conditions {
            let when = match &operand {
                Some(operand) => {
                    let when = self.operand(condition)?;
                    let [one, when] = texts_of_json(operand.place(), when)?;
                    self.compare(Comparison::Equal, one, when)?
                }
                None => self.condition(condition)?,
            };
            whens.push(when);
            values.push(self.expression(result)?);
        }
        if let Some(otherwise) = otherwise {
            values.push(self.expression(otherwise)?);
        }
        let chosen = self.chosen(whens, values)?;
        Ok(match operand {
            Some(operand) => operand.within(chosen),
            None => chosen,
        })
    }

    /// The value behind the first condition that is true, otherwise the one behind all of them.
    pub(crate) fn chosen(&self, whens: Vec<Scalar>, values: Vec<Scalar>) -> Result<Scalar> {
        let has_otherwise = values.len() > whens.len();
        let (mut values, ty) = self.unified(values)?;
        let ty = match has_otherwise {
            true => ty,
            false => ty.nullable(true),
        };
        let otherwise = match has_otherwise {
            true => values.pop().map(Box::new),
            false => None,
        };
        let branches = whens.into_iter().zip(values).collect();
        Ok(Scalar::new(Node::Case(branches, otherwise), ty))
    }

    pub(crate) fn coalesce(&self, values: Vec<Scalar>) -> Result<Scalar> {
        let nullable = values.iter().all(|value| value.ty.nullable);
        let (values, ty) = self.unified(values)?;
        Ok(Scalar::new(Node::Coalesce(values), ty.nullable(nullable)))
    }

    /// `NULLIF(a, b)`: NULL if they are equal, otherwise `a`.
    pub(crate) fn null_if(&self, a: Scalar, b: Scalar) -> Result<Scalar> {
        let a = self.repeated(a);
        let equal = self.compare(Comparison::Equal, a.place(), b)?;
        let chosen = self.chosen(vec![equal], vec![Scalar::null(), a.place()])?;
        Ok(a.within(chosen))
    }
}

/// The operand and a value of a CASE: JSON and a text are compared as texts.
fn texts_of_json(left: Scalar, right: Scalar) -> Result<[Scalar; 2]> {
    let as_text = |one: Scalar, other: &SqlType| match one.ty.is_json() && other.is_text() {
        true => cast_to(one, Target::Char(None)),
        false => Ok(one),
    };
    let other = left.ty.clone();
    Ok([as_text(left, &right.ty)?, as_text(right, &other)?])
}

impl Binder<'_> {
    /// Values as ones of their common type, and that.
    pub(crate) fn unified(&self, values: Vec<Scalar>) -> Result<(Vec<Scalar>, SqlType)> {
        let values = self.bits_as_bytes(values)?;
        let ty = SqlType::one_of(values.iter().map(|value| &value.ty))?;
        let values = values.into_iter().map(|value| self.converted(value, &ty));
        Ok((values.collect::<Result<_>>()?, ty))
    }

    /// BITs as their bytes, if there are values beside them that are no numbers.
    fn bits_as_bytes(&self, values: Vec<Scalar>) -> Result<Vec<Scalar>> {
        let is_number = |one: &Scalar| one.ty.is_number() || one.ty.is_null();
        match values.iter().all(is_number) {
            true => Ok(values),
            false => values.into_iter().map(|one| self.string(one)).collect(),
        }
    }

    /// A value as one of a type that has it.
    pub(crate) fn converted(&self, value: Scalar, ty: &SqlType) -> Result<Scalar> {
        match ty.column.is_some_and(ColumnType::is_timestamp) {
            true => converted(value, ty),
            false => converted(self.local(value)?, ty),
        }
    }
}

fn converted(value: Scalar, ty: &SqlType) -> Result<Scalar> {
    let (Some(from), Some(to)) = (value.ty.column, ty.column) else {
        return Ok(value);
    };
    if from == to && ty.is_json() {
        return Ok(value);
    }
    let target = match to {
        ColumnType::Int { unsigned: true, .. } | ColumnType::Bit { .. } => Target::Unsigned,
        ColumnType::Int { .. } => Target::Signed,
        ColumnType::Year => Target::Year,
        ColumnType::Decimal { precision, scale } => Target::Decimal(precision, scale),
        ColumnType::Float => Target::Float,
        ColumnType::Double => Target::Double,
        ColumnType::Date => Target::Date,
        ColumnType::DateTime { .. } | ColumnType::Timestamp { .. } => Target::DateTime(6),
        ColumnType::Time { .. } => Target::Time(6),
        _ if ty.is_bytes() => Target::Binary(None),
        _ => Target::Char(None),
    };
    let is_one = match (from, to) {
        (ColumnType::Int { unsigned: a, .. }, ColumnType::Int { unsigned: b, .. }) => a == b,
        (ColumnType::Bit { .. }, to) if !to.is_string() => {
            to != ColumnType::Year && to.is_unsigned()
        }
        (ColumnType::DateTime { .. } | ColumnType::Timestamp { .. }, _) => ty.is_moment(),
        (ColumnType::Time { .. }, ColumnType::Time { .. }) => true,
        _ if value.ty.is_text() => ty.is_text(),
        _ if value.ty.is_bytes() => ty.is_bytes(),
        (from, to) => from == to,
    };
    match is_one {
        true => Ok(value),
        false => cast_to(value, target),
    }
}
