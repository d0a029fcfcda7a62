//! Columns of tables that a query's rows deliver beside its own: the keys of the rows that they are made of.

use super::{Column, Operator, Origin, Query, Relation};
use perigee_expr::scalar::{Node, Scalar};

/// Stack that is left when it grows.
const RED_ZONE: usize = 128 << 10;

/// Bytes by which it grows.
const STACK: usize = 1 << 20;

impl Query {
    /// True if every row is made of one row of each table of the outermost FROM.
    #[must_use]
    pub fn tells_rows(&self) -> bool {
        let mut relation = &self.body;
        loop {
            relation = match &relation.operator {
                Operator::Aggregate { .. } | Operator::Distinct { .. } | Operator::Set { .. } => {
                    return false;
                }
                Operator::Filter { input, .. }
                | Operator::Project { input, .. }
                | Operator::Window { input, .. }
                | Operator::Sort { input, .. }
                | Operator::Limit { input, .. } => input,
                Operator::Apply(apply) => &apply.input,
                Operator::With { body, .. } => body,
                _ => return true,
            };
        }
    }

    /// Has the rows deliver columns of tables of the outermost FROM, behind those that they have. Gives the places of
    /// these; `None` if a row is not made of one row of such a table.
    ///
    /// Their names are `hidden`.
    pub fn deliver(&mut self, wanted: &[Origin], hidden: &str) -> Option<Vec<usize>> {
        if !self.tells_rows() {
            return None;
        }
        let wanted = wanted.iter();
        wanted
            .map(|wanted| self.body.deliver(*wanted, hidden))
            .collect()
    }

    /// The query without the LIMIT over all of its rows, and the rows that this leaves out and leaves at most.
    pub fn without_limit(&mut self) -> Option<(u64, Option<u64>)> {
        let mut relation = &mut self.body;
        loop {
            match &mut relation.operator {
                Operator::Limit { input, skip, fetch } => {
                    let limit = (*skip, *fetch);
                    let input = std::mem::replace(&mut **input, Relation::one());
                    *relation = input;
                    return Some(limit);
                }
                Operator::Project { .. } => {}
                _ => return None,
            }
            let Operator::Project { input, .. } = &mut relation.operator else {
                return None;
            };
            relation = input;
        }
    }
}

impl Relation {
    /// The place of a table's column in the rows, which get it if they do not have it.
    pub(in crate::query) fn deliver(&mut self, wanted: Origin, hidden: &str) -> Option<usize> {
        let is_it = |column: &Column| column.origin == Some(wanted);
        if let Some(place) = self.columns.iter().position(is_it) {
            return Some(place);
        }
        stacker::maybe_grow(RED_ZONE, STACK, || self.add(wanted, hidden))
    }

    fn add(&mut self, wanted: Origin, hidden: &str) -> Option<usize> {
        let width = self.columns.len();
        let mut column = match &mut self.operator {
            Operator::Project { input, expressions } => {
                let place = input.deliver(wanted, hidden)?;
                let column = input.columns[place].clone();
                let value = Scalar::new(Node::Column(place), column.ty.clone());
                expressions.push(value);
                column
            }
            Operator::Filter { input, .. }
            | Operator::Sort { input, .. }
            | Operator::Limit { input, .. } => {
                let place = input.deliver(wanted, hidden)?;
                // The rows are the input's: what they do not have is new there, too.
                (place == width).then(|| input.columns[place].clone())?
            }
            Operator::With { body, .. } => {
                let place = body.deliver(wanted, hidden)?;
                (place == width).then(|| body.columns[place].clone())?
            }
            _ => return None,
        };
        column.name = hidden.into();
        self.columns = self.columns.iter().cloned().chain([column]).collect();
        Some(width)
    }
}
