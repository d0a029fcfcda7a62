//! Expressions over the user variables of a statement.
//!
//! Rows are found, sorted and counted first where neither the order nor a condition depends on what is assigned: the
//! values are those of the rows that the statement gives, in their order.

use std::sync::Arc;

use datafusion::common::{DFSchema, Result as DfResult};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan};
use perigee_expr::scalar::{Node, Scalar};
use perigee_sql_bind::query::{Operator, Relation, SortKey};

use super::relation::{Lowered, Planner, filtered, limited, sorted};
use crate::plan::in_turn::{InTurnNode, Work};

/// A projection with an order and a limit over it, each perhaps.
struct Projected<'q> {
    input: &'q Relation,
    expressions: &'q [Scalar],
    keys: &'q [SortKey],
    limit: Option<(u64, Option<u64>)>,
}

impl<'q> Projected<'q> {
    fn of(relation: &'q Relation) -> Option<Self> {
        let (limit, below) = match &relation.operator {
            Operator::Limit { input, skip, fetch } => (Some((*skip, *fetch)), &**input),
            _ => (None, relation),
        };
        let (keys, below) = match &below.operator {
            Operator::Sort { input, keys } => (&keys[..], &**input),
            _ => (&[][..], below),
        };
        let Operator::Project { input, expressions } = &below.operator else {
            return None;
        };
        let has_variables = expressions.iter().any(Scalar::has_variables);
        has_variables.then_some(Self {
            input,
            expressions,
            keys,
            limit,
        })
    }

    /// The keys over the input's row; none if they depend on what is assigned.
    fn keys_below(&self) -> Option<Vec<SortKey>> {
        let below = |key: &SortKey| {
            let over = key.scalar.clone().replaced(&mut |part| match part.node {
                Node::Column(place) => Ok(Some(self.expressions[place].clone())),
                _ => Ok::<_, std::convert::Infallible>(None),
            });
            let Ok(scalar) = over;
            let descending = key.descending;
            (!scalar.has_variables()).then_some(SortKey { scalar, descending })
        };
        self.keys.iter().map(below).collect()
    }
}

impl<'q> Planner<'q> {
    /// True if an expression depends on variables that the statement assigns to.
    pub(super) fn has_variables(&self, scalar: &Scalar) -> bool {
        !self.query.variables.is_empty() && scalar.has_variables()
    }

    /// Rows of which expressions depend on variables that the statement assigns to; none for all others.
    pub(super) fn in_turn(
        &self,
        relation: &'q Relation,
        parameters: &[Expr],
    ) -> DfResult<Option<Lowered>> {
        if self.query.variables.is_empty() {
            return Ok(None);
        }
        let Some(projected) = Projected::of(relation) else {
            return Ok(None);
        };
        let Some(keys) = projected.keys_below() else {
            return Ok(None);
        };
        let input = projected.input;
        let (rows, condition) = match keys.is_empty() && projected.limit.is_none() {
            true => self.rows_to_filter(input, parameters)?,
            false => (self.relation(input, parameters)?, None),
        };
        let mut rows = rows.of_columns(&input.columns, self)?;
        if !keys.is_empty() {
            rows = sorted(rows, &keys, parameters)?;
        }
        if let Some((skip, fetch)) = projected.limit {
            rows = limited(rows, skip, fetch)?;
        }
        self.computed_in_turn(rows, condition, projected.expressions)
            .map(Some)
    }

    /// The rows below a filter whose condition depends on variables, with that part of it.
    fn rows_to_filter(
        &self,
        relation: &'q Relation,
        parameters: &[Expr],
    ) -> DfResult<(Lowered, Option<Scalar>)> {
        match &relation.operator {
            Operator::Filter { input, predicate } if predicate.has_variables() => {
                let (plain, varying) = parts(predicate);
                let rows = self.relation(input, parameters)?;
                let rows = match plain {
                    Some(plain) => {
                        let plain = rows.row(parameters).condition(&plain)?;
                        filtered(rows, plain)?
                    }
                    None => rows,
                };
                Ok((rows, Some(varying)))
            }
            _ => Ok((self.relation(relation, parameters)?, None)),
        }
    }

    /// The rows for which a condition is true that depends on variables.
    pub(super) fn filtered_in_turn(
        &self,
        relation: &'q Relation,
        parameters: &[Expr],
    ) -> DfResult<Lowered> {
        let (rows, condition) = self.rows_to_filter(relation, parameters)?;
        let rows = rows.of_columns(&relation.columns, self)?;
        let columns = rows.columns.clone();
        let filtered = self.computed_in_turn(rows, condition, &[])?;
        Ok(Lowered {
            columns,
            ..filtered
        })
    }

    /// Expressions over rows whose columns are columns of their plan.
    fn computed_in_turn(
        &self,
        rows: Lowered,
        condition: Option<Scalar>,
        expressions: &[Scalar],
    ) -> DfResult<Lowered> {
        let is_column = |one: &&Scalar| matches!(one.node, Node::Column(_));
        let computed = expressions.iter().filter(|one| !is_column(one));
        let work = Work::new(condition, computed.cloned().collect());
        let arguments = work.places().iter();
        let arguments = arguments
            .map(|place| rows.columns[*place].clone())
            .collect();
        let qualifier = self.qualifier("in_turn");
        let fields = work.fields().into_iter();
        let fields = fields.map(|field| (Some(qualifier.clone()), field));
        let added = DFSchema::new_with_metadata(fields.collect(), Default::default())?;
        let mut values = added.columns().into_iter().map(Expr::Column);
        let columns = expressions.iter().map(|one| match one.node {
            Node::Column(place) => Some(rows.columns[place].clone()),
            _ => values.next(),
        });
        let columns = columns.collect::<Option<Vec<_>>>().unwrap_or_default();
        let node = InTurnNode::new(self.number(), rows.plan, arguments, Arc::new(work), &added)?;
        let node = Arc::new(node);
        Ok(Lowered {
            plan: LogicalPlan::Extension(Extension { node }),
            columns,
        })
    }
}

/// The operands of a condition that depend on no variables, and the others.
fn parts(predicate: &Scalar) -> (Option<Scalar>, Scalar) {
    let Node::And(all) = &predicate.node else {
        return (None, predicate.clone());
    };
    // What stands behind an assignment is computed for fewer rows than the assignment is.
    let first = all.iter().position(Scalar::has_variables).unwrap_or(0);
    let joined = |all: &[Scalar]| Scalar::new(Node::And(all.to_vec()), predicate.ty.clone());
    match first {
        0 => (None, predicate.clone()),
        first => (Some(joined(&all[..first])), joined(&all[first..])),
    }
}
