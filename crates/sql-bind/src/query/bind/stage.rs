//! From the row over which a block's expressions are bound to the rows that operators have.

use std::collections::HashMap;
use std::sync::Arc;

use perigee_expr::scalar::{Node, Scalar};

use super::super::{
    Aggregate, AggregateFunction, Applied, Apply, Column, Operator, QueryError, Relation, SortKey,
    Window,
};
use super::block::{Block, ExtraKind};
use super::keys::by_keys;
use crate::error::unsupported;
use crate::expression::joined;
use crate::{BindError, Result};

/// The operators of a block so far.
pub(super) struct Stage<'b, 'q> {
    pub block: &'b Block<'q>,
    pub relation: Relation,
    /// Places in the operator's row by those in the row of expressions.
    places: HashMap<usize, usize>,
    /// What is grouped by, if rows are grouped.
    keys: Option<Vec<Scalar>>,
    /// True if a column that is never NULL is NULL in rows of a rollup or of a group of no rows.
    pub is_loose: bool,
}

impl<'b, 'q> Stage<'b, 'q> {
    /// The row of a FROM.
    pub fn new(block: &'b Block<'q>, relation: Relation) -> Self {
        let places = (0..block.width).map(|place| (place, place)).collect();
        Self {
            block,
            relation,
            places,
            keys: None,
            is_loose: false,
        }
    }

    /// Puts an operator over the others.
    pub fn over(
        &mut self,
        operator: impl FnOnce(Box<Relation>) -> Operator,
        columns: Arc<[Column]>,
    ) {
        let input = std::mem::replace(&mut self.relation, Relation::one());
        self.relation = Relation {
            operator: operator(Box::new(input)),
            columns,
        };
    }

    /// Leaves out rows. Parts of a condition that need no subquery do so before any is applied.
    pub fn filter(&mut self, predicate: Scalar) -> Result<()> {
        let Scalar { node, ty } = predicate;
        let parts = match node {
            Node::And(parts) => parts,
            node => vec![Scalar::new(node, ty)],
        };
        let (later, first): (Vec<_>, Vec<_>) = parts
            .into_iter()
            .partition(|part| !self.needed(part).is_empty());
        for part in [first, later] {
            let whole = part
                .into_iter()
                .reduce(|left, right| joined(left, right, true));
            if let Some(whole) = whole {
                self.filter_by(whole)?;
            }
        }
        Ok(())
    }

    fn filter_by(&mut self, predicate: Scalar) -> Result<()> {
        let placed = self.place(predicate)?;
        let predicate = by_keys(&self.relation, placed);
        let columns = Arc::clone(&self.relation.columns);
        self.over(|input| Operator::Filter { input, predicate }, columns);
        Ok(())
    }

    /// An expression over the row of the operators so far. Subqueries that it needs are applied.
    pub fn place(&mut self, scalar: Scalar) -> Result<Scalar> {
        self.apply_needed(&scalar)?;
        let (keys, places) = (self.keys.as_deref(), &self.places);
        let placed = place(scalar, keys, places)?;
        Ok(match self.is_loose {
            true => placed.loosened(),
            false => placed,
        })
    }

    pub fn place_all(&mut self, all: Vec<Scalar>) -> Result<Vec<Scalar>> {
        all.into_iter().map(|one| self.place(one)).collect()
    }

    pub fn place_keys(&mut self, keys: Vec<SortKey>) -> Result<Vec<SortKey>> {
        let placed = keys.into_iter().map(|key| {
            let scalar = self.place(key.scalar)?;
            Ok(SortKey { scalar, ..key })
        });
        placed.collect()
    }

    fn apply_needed(&mut self, scalar: &Scalar) -> Result<()> {
        let needed = self.needed(scalar);
        needed.into_iter().try_for_each(|apply| self.apply(apply))
    }

    /// Subqueries that an expression needs and that are not applied yet.
    fn needed(&self, scalar: &Scalar) -> Vec<usize> {
        let mut needed = Vec::new();
        let extras = self.block.extras.borrow();
        scalar.visit(&mut |part| {
            if self
                .keys
                .as_deref()
                .is_some_and(|keys| key_of(keys, part).is_some())
            {
                return false;
            }
            if let Node::Column(place) = part.node
                && place >= self.block.width
                && let ExtraKind::Applied { apply } = extras.all[place - self.block.width].kind
                && extras.applies[apply].is_some()
            {
                needed.push(apply);
            }
            true
        });
        needed
    }

    fn apply(&mut self, number: usize) -> Result<()> {
        let pending = self.block.extras.borrow_mut().applies[number].take();
        let Some(pending) = pending else {
            return Ok(());
        };
        let arguments = self.place_all(pending.arguments)?;
        let applied = match pending.applied {
            Applied::Quantified {
                quantifier,
                comparison,
                operands,
            } => {
                let placed = operands.into_iter();
                let placed = placed.map(|(left, domain)| Ok((self.place(left)?, domain)));
                Applied::Quantified {
                    quantifier,
                    comparison,
                    operands: placed.collect::<Result<_>>()?,
                }
            }
            other => other,
        };
        let width = self.relation.columns.len();
        let mut columns = self.relation.columns.to_vec();
        for column in 0..pending.width {
            self.places.insert(pending.place + column, width + column);
            let at = pending.place + column - self.block.width;
            let ty = self.block.extras.borrow().all[at].ty.clone();
            let name = match applied {
                Applied::Row => Arc::clone(&pending.subquery.columns[column].name),
                _ => "".into(),
            };
            columns.push(Column {
                name,
                table: None,
                origin: None,
                ty,
            });
        }
        let subquery = Box::new(pending.subquery);
        let apply = |input| {
            Operator::Apply(Apply {
                input,
                subquery,
                arguments,
                applied,
            })
        };
        self.over(apply, columns.into());
        Ok(())
    }

    /// Groups the rows. `any` are columns of which any row of a group gives the value.
    pub fn group(&mut self, keys: Vec<Scalar>, rollup: bool, any: &[usize]) -> Result<()> {
        let mut columns = Vec::new();
        for key in &keys {
            let mut column = self.column_of(key);
            column.ty.nullable |= rollup;
            columns.push(column);
        }
        let placed = self.place_all(keys.clone())?;
        let aggregates = std::mem::take(&mut self.block.extras.borrow_mut().aggregates);
        let mut functions = Vec::with_capacity(aggregates.len() + any.len());
        for aggregate in aggregates.into_iter().flatten() {
            let aggregate = match aggregate.function {
                AggregateFunction::Grouping(_) => grouping(aggregate, &keys, rollup)?,
                _ => Aggregate {
                    arguments: self.place_all(aggregate.arguments)?,
                    order: self.place_keys(aggregate.order)?,
                    ..aggregate
                },
            };
            columns.push(unnamed(aggregate.ty.clone()));
            functions.push(aggregate);
        }
        let first_any = keys.len() + functions.len();
        let mut is_loose = rollup && keys.iter().any(|key| !key.ty.nullable);
        for place in any {
            let mut column = self.relation.columns[self.places[place]].clone();
            let argument = Scalar::new(Node::Column(self.places[place]), column.ty.clone());
            // Without keys there is a group of no rows.
            is_loose |= keys.is_empty() && !column.ty.nullable;
            column.ty.nullable |= keys.is_empty();
            functions.push(Aggregate {
                function: AggregateFunction::AnyValue,
                distinct: false,
                arguments: vec![argument],
                order: Vec::new(),
                ty: column.ty.clone(),
            });
            columns.push(column);
        }
        self.places.clear();
        for (at, place) in any.iter().enumerate() {
            self.places.insert(*place, first_any + at);
        }
        for (at, extra) in self.block.extras.borrow().all.iter().enumerate() {
            if let ExtraKind::Aggregate(number) = extra.kind {
                self.places
                    .insert(self.block.width + at, keys.len() + number);
            }
        }
        self.is_loose = is_loose;
        self.keys = Some(keys);
        let aggregate = |input| Operator::Aggregate {
            input,
            keys: placed,
            aggregates: functions,
            rollup,
        };
        self.over(aggregate, columns.into());
        Ok(())
    }

    /// Computes the window functions.
    pub fn windows(&mut self) -> Result<()> {
        let windows = std::mem::take(&mut self.block.extras.borrow_mut().windows);
        if windows.is_empty() {
            return Ok(());
        }
        let mut functions = Vec::with_capacity(windows.len());
        for window in windows.into_iter().flatten() {
            functions.push(Window {
                arguments: self.place_all(window.arguments)?,
                partition: self.place_all(window.partition)?,
                order: self.place_keys(window.order)?,
                ..window
            });
        }
        let width = self.relation.columns.len();
        for (at, extra) in self.block.extras.borrow().all.iter().enumerate() {
            if let ExtraKind::Window(number) = extra.kind {
                self.places.insert(self.block.width + at, width + number);
            }
        }
        let mut columns = self.relation.columns.to_vec();
        columns.extend(
            functions
                .iter()
                .map(|function| unnamed(function.ty.clone())),
        );
        self.over(
            |input| Operator::Window { input, functions },
            columns.into(),
        );
        Ok(())
    }

    /// The column that an expression over the FROM gives.
    pub fn column_of(&self, scalar: &Scalar) -> Column {
        match scalar.node {
            Node::Column(place) if place < self.block.width && self.keys.is_none() => Column {
                ty: scalar.ty.clone(),
                ..self.relation.columns[place].clone()
            },
            _ => unnamed(scalar.ty.clone()),
        }
    }
}

/// A column without a name.
pub(super) fn unnamed(ty: perigee_sql_type::SqlType) -> Column {
    Column {
        name: "".into(),
        table: None,
        origin: None,
        ty,
    }
}

fn place(
    scalar: Scalar,
    keys: Option<&[Scalar]>,
    places: &HashMap<usize, usize>,
) -> Result<Scalar> {
    scalar.replaced(&mut |part| {
        if let Some(keys) = keys {
            if let Some(key) = key_of(keys, part) {
                let ty = part.ty.clone();
                return Ok(Some(Scalar::new(Node::Column(key), ty)));
            }
            if let Some((key, ty, steps)) = key_prefix(keys, part) {
                let first = Scalar::new(Node::Column(key), ty);
                let mut rest = Vec::with_capacity(steps.len());
                for step in steps {
                    let operand = place(step.operand.clone(), Some(keys), places)?;
                    rest.push(perigee_expr::scalar::Step {
                        operand,
                        ..step.clone()
                    });
                }
                let node = Node::Arithmetic(Box::new(first), rest);
                return Ok(Some(Scalar::new(node, part.ty.clone())));
            }
        }
        let Node::Column(place) = part.node else {
            return Ok(None);
        };
        match places.get(&place) {
            Some(place) => {
                let ty = part.ty.clone();
                Ok(Some(Scalar::new(Node::Column(*place), ty)))
            }
            None => unsupported("an expression in this place of a query"),
        }
    })
}

/// The key that an expression is.
pub(super) fn key_of(keys: &[Scalar], part: &Scalar) -> Option<usize> {
    keys.iter().position(|key| key.is_same(part))
}

/// The key that an expression of arithmetic begins with, its type, and the operators behind it.
pub(super) fn key_prefix<'p>(
    keys: &[Scalar],
    part: &'p Scalar,
) -> Option<(
    usize,
    perigee_sql_type::SqlType,
    &'p [perigee_expr::scalar::Step],
)> {
    let Node::Arithmetic(first, steps) = &part.node else {
        return None;
    };
    let begins = |key: &&Scalar| match &key.node {
        Node::Arithmetic(own, known) if known.len() < steps.len() => {
            let mut both = known.iter().zip(steps);
            own.is_same(first)
                && both.all(|(a, b)| {
                    (a.op, a.shown) == (b.op, b.shown) && a.operand.is_same(&b.operand)
                })
        }
        _ => false,
    };
    let (at, key) = keys.iter().enumerate().find(|(_, key)| begins(key))?;
    let Node::Arithmetic(_, known) = &key.node else {
        return None;
    };
    Some((at, key.ty.clone(), &steps[known.len()..]))
}

/// GROUPING with the places of the keys that its arguments are.
fn grouping(aggregate: Aggregate, keys: &[Scalar], rollup: bool) -> Result<Aggregate> {
    if !rollup {
        return Err(BindError::Query(QueryError::InvalidGroupFunction));
    }
    let arguments = aggregate.arguments.iter().enumerate();
    let arguments = arguments.map(|(number, argument)| {
        let key = key_of(keys, argument);
        key.ok_or(BindError::Query(QueryError::GroupingArgument(number + 1)))
    });
    Ok(Aggregate {
        function: AggregateFunction::Grouping(arguments.collect::<Result<_>>()?),
        arguments: Vec::new(),
        ..aggregate
    })
}

impl Relation {
    /// One row without columns.
    #[must_use]
    pub fn one() -> Self {
        Self {
            operator: Operator::One,
            columns: Arc::new([]),
        }
    }
}
