//! ORDER BY and LIMIT.

use perigee_expr::scalar::{Node, Scalar};
use sqlparser::ast::{Expr, LimitClause, OrderBy, OrderByExpr, OrderByKind, Value as Literal};

use super::super::{Clause, Operator, QueryError, Relation, SortKey};
use super::block::{Block, Frame};
use super::scope::{Named, Scope, Source, unknown};
use super::stage::Stage;
use super::statement::Statement;
use crate::Result;
use crate::error::unsupported;

/// The expressions of ORDER BY.
///
/// # Errors
/// 1235 for ORDER BY ALL and its like.
pub(super) fn exprs(order: Option<&OrderBy>) -> Result<&[OrderByExpr]> {
    match order {
        None => Ok(&[]),
        Some(OrderBy {
            kind: OrderByKind::Expressions(exprs),
            interpolate: None,
        }) => Ok(exprs),
        Some(_) => unsupported("ORDER BY ALL, INTERPOLATE"),
    }
}

/// True for DESC.
///
/// # Errors
/// 1235 for NULLS FIRST, NULLS LAST and WITH FILL.
pub(super) fn descends(key: &OrderByExpr) -> Result<bool> {
    if key.with_fill.is_some() || key.options.nulls_first.is_some() {
        return unsupported("NULLS FIRST, NULLS LAST, WITH FILL");
    }
    Ok(key.options.asc == Some(false))
}

/// The number that stands for a column of the select list.
pub(super) fn position(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Value(value) => match &value.value {
            Literal::Number(text, _) => text.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// The place of a position, from 0.
///
/// # Errors
/// 1054.
pub(super) fn place(number: i64, count: usize, clause: Clause) -> Result<usize> {
    let at = usize::try_from(number)
        .ok()
        .and_then(|at| at.checked_sub(1));
    let at = at.filter(|at| *at < count);
    at.ok_or_else(|| unknown(number.to_string(), clause))
}

/// True for what has one value for all rows.
pub(super) fn is_constant(scalar: &Scalar) -> bool {
    matches!(scalar.node, Node::Constant(_) | Node::Parameter(_))
}

impl Statement<'_> {
    /// A relation with the ORDER BY and LIMIT of a UNION, or of what stands in parentheses.
    pub fn ordered(
        &self,
        relation: Relation,
        order: Option<&OrderBy>,
        limit: Option<&LimitClause>,
        outer: Option<&Frame<'_>>,
    ) -> Result<Relation> {
        let order = exprs(order)?;
        let count = relation.columns.len();
        let columns = relation.columns.iter().enumerate();
        let columns = columns.map(|(place, column)| {
            let mut column = column.clone();
            column.ty.literal = false;
            Named {
                name: column.name.to_lowercase().into(),
                place,
                column,
                visible: true,
                denied: None,
            }
        });
        let scope = Scope::of(Source {
            alias: "".into(),
            schema: None,
            references: Vec::new(),
            is_view: false,
            is_join: false,
            checks: Vec::new(),
            columns: columns.collect(),
        });
        let block = Block::new(self, scope.indexed(), count, outer, Clause::Order);
        let mut keys = Vec::with_capacity(order.len());
        for key in order {
            let scalar = match (position(&key.expr), &key.expr) {
                (Some(number), _) => {
                    let place = place(number, count, Clause::Order)?;
                    Scalar::new(Node::Column(place), relation.columns[place].ty.clone())
                }
                (None, Expr::CompoundIdentifier(name)) if name.len() > 1 => {
                    let table = name[name.len() - 2].value.clone();
                    return Err(QueryError::TableInGlobalOrder(table).into());
                }
                (None, expr) => block.expression(expr, Clause::Order)?,
            };
            let descending = descends(key)?;
            keys.push(SortKey { scalar, descending });
        }
        if !block.extras.borrow().aggregates.is_empty() || !block.extras.borrow().windows.is_empty()
        {
            return Err(QueryError::AggregateInGlobalOrder.into());
        }
        keys.retain(|key| !is_constant(&key.scalar));
        let mut stage = Stage::new(&block, relation);
        if !keys.is_empty() {
            let keys = stage.place_keys(keys)?;
            let columns = stage.relation.columns.clone();
            stage.over(|input| Operator::Sort { input, keys }, columns);
        }
        self.limited(super::join::first_columns(stage.relation, count), limit)
    }

    /// A relation with a LIMIT.
    pub fn limited(&self, relation: Relation, limit: Option<&LimitClause>) -> Result<Relation> {
        let (fetch, skip) = match limit {
            None => return Ok(relation),
            Some(LimitClause::LimitOffset {
                limit,
                offset,
                limit_by,
            }) => {
                if !limit_by.is_empty() {
                    return unsupported("LIMIT BY");
                }
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => (Some(limit), Some(offset)),
        };
        let fetch = fetch.map(count).transpose()?;
        let skip = skip.map(count).transpose()?.unwrap_or(0);
        // No table has so many rows that the last one could not be numbered.
        let fetch = fetch.filter(|fetch| {
            fetch
                .checked_add(skip)
                .is_some_and(|n| n <= i64::MAX as u64)
        });
        Ok(Relation {
            columns: relation.columns.clone(),
            operator: Operator::Limit {
                input: Box::new(relation),
                skip,
                fetch,
            },
        })
    }
}

/// The number of rows of a LIMIT.
fn count(expr: &Expr) -> Result<u64> {
    let syntax = || QueryError::Syntax(expr.to_string());
    let Expr::Value(value) = expr else {
        return Err(syntax().into());
    };
    match &value.value {
        Literal::Number(text, _) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().map_err(|_| syntax().into())
        }
        Literal::Placeholder(_) => unsupported("parameters in text"),
        _ => Err(syntax().into()),
    }
}
