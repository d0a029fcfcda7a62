//! Subqueries of expressions: each is applied to the rows of the operator below the expression.

use perigee_expr::Comparison;
use perigee_expr::scalar::{Node, Scalar};
use perigee_sql_type::SqlType;
use sqlparser::ast;

use super::super::{Applied, Operator, Quantifier, Relation};
use super::block::{Block, ExtraKind, Frame, Pending};
use crate::{BindError, Binder, Result};

impl Block<'_> {
    /// A subquery, and what it needs of this block's rows.
    fn framed(&self, query: &ast::Query) -> Result<(Relation, Vec<Scalar>)> {
        let frame = Frame {
            block: self,
            arguments: Default::default(),
        };
        let saved = (self.clause.get(), self.in_aggregate.get());
        let subquery = self.statement.query(query, Some(&frame))?;
        self.clause.set(saved.0);
        self.in_aggregate.set(saved.1);
        let arguments = frame.arguments.into_inner().into_iter();
        let arguments = arguments.map(|argument| self.with_assigned(argument));
        Ok((subquery, arguments.collect::<Result<_>>()?))
    }

    /// Notes a subquery that gives columns of these types.
    fn applied(
        &self,
        (subquery, arguments): (Relation, Vec<Scalar>),
        applied: Applied,
        types: Vec<SqlType>,
    ) -> Vec<Scalar> {
        let apply = {
            let mut extras = self.extras.borrow_mut();
            let place = self.width + extras.all.len();
            extras.applies.push(Some(Pending {
                subquery,
                arguments,
                applied,
                place,
                width: types.len(),
            }));
            extras.applies.len() - 1
        };
        let columns = types.into_iter();
        let columns = columns.map(|ty| self.extra(ExtraKind::Applied { apply }, ty));
        columns.collect()
    }

    /// `(SELECT …)`: the columns of its only row.
    pub(super) fn row_of(&self, query: &ast::Query) -> Result<Vec<Scalar>> {
        let framed = self.framed(query)?;
        let types = framed.0.columns.iter();
        let types = types.map(|column| SqlType {
            literal: false,
            ..column.ty.clone().nullable(true)
        });
        let types = types.collect();
        Ok(self.applied(framed, Applied::Row, types))
    }

    /// EXISTS.
    pub(super) fn has_rows(&self, query: &ast::Query) -> Result<Scalar> {
        let framed = self.framed(query)?;
        let ty = SqlType::truth().nullable(false);
        only(self.applied(framed, Applied::Exists, vec![ty]))
    }

    /// IN, ANY and ALL.
    pub(super) fn compared_with_rows(
        &self,
        left: Vec<Scalar>,
        comparison: Comparison,
        quantifier: Quantifier,
        query: &ast::Query,
    ) -> Result<Scalar> {
        let (subquery, arguments) = self.framed(query)?;
        if subquery.columns.len() != left.len() {
            return Err(BindError::OperandColumns(left.len()));
        }
        let (mut operands, mut rights) = (Vec::new(), Vec::new());
        for (place, (left, column)) in left.into_iter().zip(&*subquery.columns).enumerate() {
            let ty = SqlType {
                literal: false,
                ..column.ty.clone()
            };
            let right = Scalar::new(Node::Column(place), ty);
            let compared = Binder::new(self).compared(left, right)?;
            let [left, right] = compared.both;
            operands.push((self.with_assigned(left)?, compared.domain));
            rights.push(right);
        }
        let nullable = operands.iter().any(|(left, _)| left.ty.nullable)
            || rights.iter().any(|right| right.ty.nullable);
        let subquery = projected(subquery, rights);
        let applied = Applied::Quantified {
            quantifier,
            comparison,
            operands,
        };
        let ty = SqlType::truth().nullable(nullable);
        only(self.applied((subquery, arguments), applied, vec![ty]))
    }
}

/// A relation's rows with these expressions in the places of its columns.
pub(super) fn projected(relation: Relation, expressions: Vec<Scalar>) -> Relation {
    let is_column =
        |(place, one): (usize, &Scalar)| matches!(one.node, Node::Column(at) if at == place);
    if expressions.iter().enumerate().all(is_column) {
        return relation;
    }
    let columns = relation.columns.iter().zip(&expressions);
    let columns = columns.map(|(column, expression)| super::super::Column {
        ty: expression.ty.clone(),
        ..column.clone()
    });
    Relation {
        columns: columns.collect(),
        operator: Operator::Project {
            input: Box::new(relation),
            expressions,
        },
    }
}

fn only(columns: Vec<Scalar>) -> Result<Scalar> {
    let only = columns.into_iter().next();
    only.ok_or_else(|| BindError::NotSupported("a subquery without columns".into()))
}
