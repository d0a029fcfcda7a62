//! Joins: ON, USING, NATURAL, and subqueries in ON.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use perigee_expr::Comparison;
use perigee_expr::scalar::{Node, Scalar};
use perigee_sql_type::SqlType;
use sqlparser::ast::{Expr, Join as Written, JoinConstraint, JoinOperator};

use super::super::{
    Applied, Apply, Clause, Column, Join, JoinKind, Operator, QueryError, Relation,
};
use super::block::{Block, Frame, Pending};
use super::from::{From, FromItem, column, is_lateral, parts};
use super::scope::{Named, Scope};
use super::stage::Stage;
use crate::error::unsupported;
use crate::expression::joined;
use crate::{BindError, Binder, Result};

/// The kinds of joins there are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Inner,
    Left,
    Right,
}

/// All pairs of rows.
pub(super) fn beside(left: FromItem, right: FromItem) -> FromItem {
    if matches!(left.relation.operator, Operator::One) {
        return right;
    }
    let width = left.relation.columns.len();
    let scope = left.scope.beside(right.scope.shifted(width));
    FromItem {
        relation: pairs(left.relation, right.relation, JoinKind::Inner, None, false),
        scope,
    }
}

fn pairs(
    left: Relation,
    right: Relation,
    kind: JoinKind,
    on: Option<Scalar>,
    straight: bool,
) -> Relation {
    let nullable = kind == JoinKind::Left;
    let columns = beside_columns(&left.columns, &right.columns, nullable);
    Relation {
        columns,
        operator: Operator::Join(Join {
            kind,
            left: Box::new(left),
            right: Box::new(right),
            on,
            straight,
        }),
    }
}

fn beside_columns(left: &[Column], right: &[Column], nullable: bool) -> Arc<[Column]> {
    let right = right.iter().cloned().map(|mut column| {
        column.ty.nullable |= nullable;
        column
    });
    left.iter().cloned().chain(right).collect()
}

impl From<'_> {
    /// What stands before a join, and the join.
    pub fn join(&self, left: FromItem, join: &Written) -> Result<FromItem> {
        if join.global {
            return unsupported("GLOBAL JOIN");
        }
        self.statement.environment.check()?;
        let (kind, straight, constraint) = match &join.join_operator {
            JoinOperator::Join(c) | JoinOperator::Inner(c) | JoinOperator::CrossJoin(c) => {
                (Kind::Inner, false, c)
            }
            JoinOperator::Left(c) | JoinOperator::LeftOuter(c) => (Kind::Left, false, c),
            JoinOperator::Right(c) | JoinOperator::RightOuter(c) => (Kind::Right, false, c),
            JoinOperator::StraightJoin(c) => (Kind::Inner, true, c),
            _ => return unsupported("this kind of join"),
        };
        if is_lateral(&join.relation) {
            if kind == Kind::Right {
                return unsupported("RIGHT JOIN LATERAL");
            }
            let right = self.lateral(&join.relation, &left)?;
            let on = match constraint {
                JoinConstraint::On(on) => Some(on),
                JoinConstraint::None => None,
                _ => return unsupported("USING with LATERAL"),
            };
            return self.applied(left, right, kind == Kind::Left, on);
        }
        let right = self.factor(&join.relation)?;
        match constraint {
            JoinConstraint::None if kind == Kind::Inner => {
                let mut both = beside(left, right);
                if let Operator::Join(join) = &mut both.relation.operator {
                    join.straight = straight;
                }
                Ok(both)
            }
            JoinConstraint::None => Err(QueryError::Syntax(String::new()).into()),
            JoinConstraint::On(on) => self.on(kind, straight, left, right, on),
            JoinConstraint::Using(columns) => {
                let names = columns.iter().map(|name| match parts(name)?[..] {
                    [name] => Ok(Arc::from(name.value.to_lowercase())),
                    _ => unsupported("USING with qualified names"),
                });
                let mut names = names.collect::<Result<Vec<Arc<str>>>>()?;
                let mut seen = HashSet::new();
                names.retain(|name| seen.insert(Arc::clone(name)));
                self.using(kind, straight, left, right, &names)
            }
            JoinConstraint::Natural => {
                let names = common_names(&left.scope, &right.scope);
                self.using(kind, straight, left, right, &names)
            }
        }
    }

    /// The rows of both operands in the order in which they are joined, and their scopes in the order of the text.
    fn turned(kind: Kind, left: FromItem, right: FromItem) -> (Relation, Relation, Scope, Scope) {
        match kind {
            Kind::Inner => {
                let scope = right.scope.shifted(left.relation.columns.len());
                (left.relation, right.relation, left.scope, scope)
            }
            Kind::Left => {
                let scope = right.scope.shifted(left.relation.columns.len());
                (left.relation, right.relation, left.scope, scope.nullable())
            }
            Kind::Right => {
                let scope = left.scope.shifted(right.relation.columns.len());
                (right.relation, left.relation, scope.nullable(), right.scope)
            }
        }
    }

    fn on(
        &self,
        kind: Kind,
        straight: bool,
        left: FromItem,
        right: FromItem,
        on: &Expr,
    ) -> Result<FromItem> {
        let (first, second, left, right) = Self::turned(kind, left, right);
        let widths = (first.columns.len(), second.columns.len());
        // The condition is computed before there are rows of NULLs, which its types may show: they are a superset.
        let scope = left.beside(right);
        let block = Block::new(
            self.statement,
            scope,
            widths.0 + widths.1,
            self.outer,
            Clause::On,
        );
        let on = block.condition(on, Clause::On)?;
        let has_subqueries = !block.extras.borrow().applies.is_empty();
        let relation = match (has_subqueries, kind) {
            (false, _) => {
                let kind = match kind {
                    Kind::Inner => JoinKind::Inner,
                    Kind::Left | Kind::Right => JoinKind::Left,
                };
                pairs(first, second, kind, Some(on), straight)
            }
            (true, Kind::Inner) => {
                let pairs = pairs(first, second, JoinKind::Inner, None, straight);
                let mut stage = Stage::new(&block, pairs);
                stage.filter(on)?;
                stage.relation
            }
            (true, _) => self.outer_by_row(&block, first, second, Vec::new(), Some(on))?,
        };
        let scope = block.scope;
        Ok(FromItem { relation, scope })
    }

    /// LATERAL: the rows of a derived table for each row.
    pub fn applied(
        &self,
        left: FromItem,
        (right, arguments): (FromItem, Vec<Scalar>),
        outer: bool,
        on: Option<&Expr>,
    ) -> Result<FromItem> {
        let widths = (left.relation.columns.len(), right.relation.columns.len());
        let right_scope = right.scope.shifted(widths.0);
        let right_scope = if outer {
            right_scope.nullable()
        } else {
            right_scope
        };
        let scope = left.scope.beside(right_scope);
        let width = widths.0 + widths.1;
        let block = Block::new(self.statement, scope, width, self.outer, Clause::On);
        let on = on.map(|on| block.condition(on, Clause::On)).transpose()?;
        let relation = match outer {
            true => self.outer_by_row(&block, left.relation, right.relation, arguments, on)?,
            false => {
                let columns =
                    beside_columns(&left.relation.columns, &right.relation.columns, false);
                let rows = Relation {
                    columns,
                    operator: Operator::Apply(Apply {
                        input: Box::new(left.relation),
                        subquery: Box::new(right.relation),
                        arguments,
                        applied: Applied::Lateral { outer: false },
                    }),
                };
                let mut stage = Stage::new(&block, rows);
                if let Some(on) = on {
                    stage.filter(on)?;
                }
                stage.relation
            }
        };
        let scope = block.scope;
        Ok(FromItem { relation, scope })
    }

    /// A LEFT JOIN as a subquery for each left row: the right rows for which the condition is true.
    fn outer_by_row(
        &self,
        block: &Block<'_>,
        first: Relation,
        second: Relation,
        arguments: Vec<Scalar>,
        on: Option<Scalar>,
    ) -> Result<Relation> {
        let width = first.columns.len();
        let columns = beside_columns(&first.columns, &second.columns, true);
        // Parameters of the right operand keep their numbers: those of a LATERAL, or those of the subquery around it.
        let is_lateral = !arguments.is_empty();
        let mut given = arguments;
        if let (Some(frame), false) = (self.outer, is_lateral) {
            let known = frame.arguments.borrow();
            let handed = known.iter().enumerate().map(|(number, known)| {
                Scalar::new(Node::Parameter(number), known.ty.clone().nullable(true))
            });
            given.extend(handed);
        }
        let frame = Frame {
            block,
            arguments: RefCell::new(given),
        };
        let inside = |scalar: Scalar| {
            scalar.replaced::<BindError>(&mut |part| {
                Ok(match part.node {
                    Node::Column(place) if place < width => Some(frame.parameter(part.clone())),
                    Node::Parameter(_) => Some(frame.parameter(part.clone())),
                    Node::Column(place) => {
                        let node = Node::Column(place - width);
                        Some(Scalar::new(node, part.ty.clone()))
                    }
                    _ => None,
                })
            })
        };
        let scope = Scope::default();
        let inner = Block::new(
            self.statement,
            scope,
            second.columns.len(),
            Some(&frame),
            Clause::On,
        );
        let extras = std::mem::take(&mut *block.extras.borrow_mut());
        for pending in extras.applies {
            let moved = pending
                .map(|pending| moved(pending, width, &inside))
                .transpose()?;
            inner.extras.borrow_mut().applies.push(moved);
        }
        inner.extras.borrow_mut().all = extras.all;
        let on = on.map(&inside).transpose()?;
        let mut stage = Stage::new(&inner, second);
        let count = stage.relation.columns.len();
        if let Some(on) = on {
            stage.filter(on)?;
        }
        let subquery = first_columns(stage.relation, count);
        let arguments = frame.arguments.take();
        Ok(Relation {
            columns,
            operator: Operator::Apply(Apply {
                input: Box::new(first),
                subquery: Box::new(subquery),
                arguments,
                applied: Applied::Lateral { outer: true },
            }),
        })
    }

    fn using(
        &self,
        kind: Kind,
        straight: bool,
        left: FromItem,
        right: FromItem,
        names: &[Arc<str>],
    ) -> Result<FromItem> {
        let (first, second, left, right) = Self::turned(kind, left, right);
        let mut on: Option<Scalar> = None;
        let binder = Binder::new(self.statement.environment);
        for name in names {
            let (left, right) = (column(left.only(name)?), column(right.only(name)?));
            let equal = binder.compare(Comparison::Equal, left, right)?;
            on = Some(match on {
                Some(on) => joined(on, equal, true),
                None => equal,
            });
        }
        let (join, scope) = match kind {
            Kind::Inner => (JoinKind::Inner, left.merged(right, names)),
            Kind::Left => (JoinKind::Left, left.merged(right, names)),
            Kind::Right => (JoinKind::Left, right.merged(left, names)),
        };
        let on = on.or_else(|| (join == JoinKind::Left).then(always));
        Ok(FromItem {
            relation: pairs(first, second, join, on, straight),
            scope,
        })
    }
}

/// A subquery of a condition, in the row of the right operand.
fn moved(
    pending: Pending,
    width: usize,
    inside: &dyn Fn(Scalar) -> Result<Scalar>,
) -> Result<Pending> {
    let arguments = pending.arguments.into_iter().map(inside);
    let applied = match pending.applied {
        Applied::Quantified {
            quantifier,
            comparison,
            operands,
        } => {
            let operands = operands.into_iter();
            let operands = operands.map(|(left, domain)| Ok((inside(left)?, domain)));
            Applied::Quantified {
                quantifier,
                comparison,
                operands: operands.collect::<Result<_>>()?,
            }
        }
        other => other,
    };
    Ok(Pending {
        arguments: arguments.collect::<Result<_>>()?,
        applied,
        place: pending.place - width,
        ..pending
    })
}

/// The first columns of a relation.
pub(super) fn first_columns(relation: Relation, count: usize) -> Relation {
    if relation.columns.len() == count {
        return relation;
    }
    let columns: Arc<[Column]> = relation.columns[..count].into();
    let expressions = columns.iter().enumerate();
    let expressions =
        expressions.map(|(place, column)| Scalar::new(Node::Column(place), column.ty.clone()));
    Relation {
        operator: Operator::Project {
            expressions: expressions.collect(),
            input: Box::new(relation),
        },
        columns,
    }
}

fn always() -> Scalar {
    let truth = perigee_expr::functions::Value::truth(true);
    Scalar::new(Node::Constant(truth), SqlType::truth().literal())
}

/// The names that both operands of a NATURAL join have.
fn common_names(left: &Scope, right: &Scope) -> Vec<Arc<str>> {
    let names = |scope: &Scope| -> HashSet<Arc<str>> {
        let visible = scope.columns.iter().filter(|column| column.visible);
        visible.map(|column| Arc::clone(&column.name)).collect()
    };
    let of_right = names(right);
    let mut seen = HashSet::new();
    let is_common =
        |column: &&Named| of_right.contains(&column.name) && seen.insert(Arc::clone(&column.name));
    let visible = left.columns.iter().filter(|column| column.visible);
    let common = visible.filter(is_common);
    common.map(|column| Arc::clone(&column.name)).collect()
}
