//! The rows that UPDATE and DELETE change, and the expressions that they assign.

use perigee_expr::scalar::Scalar;
use sqlparser::ast::{Expr, LimitClause, OptimizerHint, OrderBy, TableWithJoins};

use super::super::change::{Change, Value};
use super::super::{Applied, Catalog, Clause, Operator, QueryError, Relation};
use super::block::Block;
use super::from::From;
use super::order::exprs;
use super::stage::Stage;
use super::statement::Statement;
use crate::error::unsupported;
use crate::{Environment, Result};

/// MySQL's error of a window function outside of a SELECT.
const WINDOW: u16 = 3593;

/// Which rows a statement changes.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'r> {
    /// The tables.
    pub from: &'r [TableWithJoins],
    /// WHERE.
    pub selection: Option<&'r Expr>,
    /// ORDER BY.
    pub order: Option<&'r OrderBy>,
    /// LIMIT.
    pub limit: Option<&'r Expr>,
    /// Optimizer hints.
    pub hints: &'r [OptimizerHint],
}

/// The meaning of the rows that a statement changes, and of expressions over each of them.
///
/// # Errors
/// [`crate::BindError`].
pub fn bind_change(
    rows: &Rows<'_>,
    expressions: &[Expr],
    environment: &dyn Environment,
    catalog: &dyn Catalog,
) -> Result<Change> {
    let statement = Statement::new(environment, catalog);
    let (body, values) = statement.changed(rows, expressions)?;
    Ok(Change {
        query: statement.query_of(body),
        values,
    })
}

impl Statement<'_> {
    fn changed(&self, rows: &Rows<'_>, expressions: &[Expr]) -> Result<(Relation, Vec<Value>)> {
        self.environment.check()?;
        let number = self.selects.get() + 1;
        self.selects.set(number);
        let hints = self.hints_of(rows.hints, number);
        let from = From {
            statement: self,
            select: number,
            outer: None,
            names: Default::default(),
            hints: hints.of_tables.into(),
        };
        let item = from.rows(rows.from)?;
        self.resolve_hints(&from.hints.take(), &hints.orders, &item.scope, number);
        let width = item.relation.columns.len();
        let block = Block::new(self, item.scope.indexed(), width, None, Clause::Fields);
        let scalars = expressions.iter();
        let scalars = scalars.map(|expr| block.expression(expr, Clause::Fields));
        let scalars = scalars.collect::<Result<Vec<_>>>()?;
        let mut stage = Stage::new(&block, item.relation);
        if let Some(selection) = rows.selection {
            let condition = block.condition(selection, Clause::Where)?;
            stage.filter(condition)?;
        }
        let order = block.order(exprs(rows.order)?, &[])?;
        let extras = block.extras.borrow();
        if !extras.windows.is_empty() {
            return Err(QueryError::Window {
                number: WINDOW,
                name: "OVER".into(),
                why: "a window function may not stand here",
            }
            .into());
        }
        if !extras.aggregates.is_empty() {
            return Err(QueryError::InvalidGroupFunction.into());
        }
        drop(extras);
        if !order.is_empty() {
            let keys = stage.place_keys(order)?;
            let columns = stage.relation.columns.clone();
            stage.over(|input| Operator::Sort { input, keys }, columns);
        }
        if let Some(limit) = rows.limit {
            let limit = LimitClause::LimitOffset {
                limit: Some(limit.clone()),
                offset: None,
                limit_by: Vec::new(),
            };
            stage.relation = self.limited(stage.relation, Some(&limit))?;
        }
        let values = scalars.into_iter().map(|scalar| stage.value(scalar));
        let values = values.collect::<Result<Vec<_>>>()?;
        Ok((stage.relation, values))
    }
}

impl Stage<'_, '_> {
    /// An expression over the rows so far, and what its subqueries see of them.
    fn value(&mut self, scalar: Scalar) -> Result<Value> {
        let before = self.relation.columns.len();
        let scalar = self.place(scalar)?;
        let mut seen = Vec::new();
        let mut relation = &self.relation;
        while relation.columns.len() > before {
            let Operator::Apply(apply) = &relation.operator else {
                return unsupported("an expression over this kind of rows");
            };
            seen.extend(apply.arguments.iter().flat_map(Scalar::places));
            if let Applied::Quantified { operands, .. } = &apply.applied {
                seen.extend(operands.iter().flat_map(|(left, _)| left.places()));
            }
            relation = &apply.input;
        }
        let columns = &self.relation.columns;
        let seen = seen.into_iter().filter_map(|place| columns[place].origin);
        let seen = seen.collect();
        Ok(Value { scalar, seen })
    }
}
