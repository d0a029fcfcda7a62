//! Statements that change rows: the rows, and what is assigned to their columns.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use perigee_expr::scalar::{Node, Scalar};

use super::{Applied, Column, Operator, Origin, Query, Relation};

/// The rows that a statement changes, with the columns of all of its tables, and expressions over each of them.
///
/// A row is there once for each pair of rows that a join makes of it.
#[derive(Debug)]
pub struct Change {
    /// The rows.
    pub query: Query,
    /// The expressions, in order. A column that they name has the value that was assigned to it before, if there is one;
    /// to their subqueries that is told already.
    pub values: Vec<Scalar>,
    /// The column of a table that each assignment names; none if it names another thing or nothing.
    pub columns: Vec<Option<Origin>>,
    /// What the FROM names.
    pub sources: Vec<Source>,
}

/// A table of the FROM, or what stands in the place of one.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name, in lower case.
    pub alias: Arc<str>,
    /// The schema of a table or a view.
    pub schema: Option<Arc<str>>,
    /// The references to tables whose rows can be changed.
    pub references: Vec<usize>,
    /// True for a view.
    pub is_view: bool,
    /// True for a view of several tables, whose rows are not to be deleted.
    pub is_join: bool,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Conditions that rows of the only table have to meet to be written, over its columns.
    pub checks: Vec<Scalar>,
}

impl AsMut<Query> for Change {
    fn as_mut(&mut self) -> &mut Query {
        &mut self.query
    }
}

impl Change {
    /// The place of a table's column in the rows; `None` if they do not have it.
    #[must_use]
    pub fn place_of(&self, column: Origin) -> Option<usize> {
        let mut columns = self.query.body.columns.iter();
        columns.position(|one| one.origin == Some(column))
    }

    /// The places of the columns that the expressions and the operators over the FROM name.
    #[must_use]
    pub fn places(&self) -> HashSet<usize> {
        let mut places = HashSet::new();
        let mut add = |scalar: &Scalar| places.extend(scalar.places());
        self.values.iter().for_each(&mut add);
        let mut relation = &self.query.body;
        loop {
            relation = match &relation.operator {
                Operator::Filter { input, predicate } => {
                    add(predicate);
                    input
                }
                Operator::Sort { input, keys } => {
                    keys.iter().for_each(|key| add(&key.scalar));
                    input
                }
                Operator::Limit { input, .. } => input,
                Operator::Apply(apply) => {
                    apply.arguments.iter().for_each(&mut add);
                    if let Applied::Quantified { operands, .. } = &apply.applied {
                        operands.iter().for_each(|(left, _)| add(left));
                    }
                    &apply.input
                }
                _ => return places,
            };
        }
    }

    /// Leaves out of the rows what neither the expressions nor `wanted` needs.
    pub fn narrow(&mut self, wanted: &[Origin]) {
        let wanted = wanted.iter().filter_map(|column| self.place_of(*column));
        let mut kept: Vec<usize> = wanted.collect();
        for value in &self.values {
            kept.extend(value.places());
        }
        kept.sort_unstable();
        kept.dedup();
        let places: HashMap<usize, usize> = kept.iter().copied().zip(0..).collect();
        for value in &mut self.values {
            let scalar = std::mem::replace(value, Scalar::null());
            *value = moved(scalar, &places);
        }
        let body = std::mem::replace(&mut self.query.body, Relation::one());
        let columns: Vec<_> = kept.iter().map(|at| body.columns[*at].clone()).collect();
        let expressions = kept.iter().zip(&columns);
        let expressions =
            expressions.map(|(at, column)| Scalar::new(Node::Column(*at), column.ty.clone()));
        self.query.body = Relation {
            operator: Operator::Project {
                expressions: expressions.collect(),
                input: Box::new(body),
            },
            columns: columns.into(),
        };
    }
}

/// An expression over columns in other places.
fn moved(scalar: Scalar, places: &HashMap<usize, usize>) -> Scalar {
    let moved = scalar.replaced::<std::convert::Infallible>(&mut |part| {
        let Node::Column(at) = part.node else {
            return Ok(None);
        };
        let column = |at: &usize| Scalar::new(Node::Column(*at), part.ty.clone());
        Ok(places.get(&at).map(column))
    });
    match moved {
        Ok(moved) => moved,
        Err(never) => match never {},
    }
}
