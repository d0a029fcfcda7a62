//! Whether a tree holds together: what the planner may rely on.

use std::collections::HashMap;

use perigee_expr::scalar::{Node, Scalar};
use perigee_sql_type::SqlType;

use super::{
    Aggregate, AggregateFunction, Applied, Apply, Column, Join, JoinKind, Operator, Query,
    Relation, SortKey,
};

/// Stack that is left when it grows.
const RED_ZONE: usize = 128 << 10;

/// Bytes by which it grows.
const STACK: usize = 1 << 20;

/// What is wrong with a tree.
type Fault = String;

/// What surrounds a relation.
#[derive(Clone, Default)]
struct Around {
    /// The types of the parameters.
    parameters: Vec<SqlType>,
    /// Columns of the common table expressions in scope, by number.
    definitions: HashMap<usize, usize>,
}

impl Query {
    /// Says what is wrong with the tree: names of columns or parameters that are not there, or are of another type; rows
    /// of other lengths than their operators have; values that may be NULL where none is told of.
    ///
    /// # Errors
    /// The first fault, with the operator that it is in.
    pub fn check(&self) -> Result<(), String> {
        self.body.check(&Around::default())
    }
}

impl Relation {
    fn check(&self, around: &Around) -> Result<(), Fault> {
        stacker::maybe_grow(RED_ZONE, STACK, || {
            let found = self.check_operator(around);
            found.map_err(|fault| match fault.contains('\n') {
                true => fault,
                false => format!("{fault} in\n{self}"),
            })
        })
    }

    fn check_operator(&self, around: &Around) -> Result<(), Fault> {
        let over = |input: &Self, scalar: &Scalar| row(scalar, &input.columns, around);
        let same = |input: &Self| width(self, input.columns.len());
        match &self.operator {
            Operator::One => width(self, 0),
            Operator::Table(table) => width(self, table.definition.columns.len()),
            Operator::Values(rows) => rows.iter().try_for_each(|values| {
                width(self, values.len())?;
                let mut both = values.iter().zip(&*self.columns);
                both.try_for_each(|(value, column)| {
                    row(value, &[], around)?;
                    is_one(&value.ty, &column.ty)
                })
            }),
            Operator::Filter { input, predicate } => {
                input.check(around)?;
                same(input)?;
                over(input, predicate)?;
                match predicate.ty.truth {
                    true => Ok(()),
                    false => Err("a condition that is no truth value".into()),
                }
            }
            Operator::Project { input, expressions } => {
                input.check(around)?;
                width(self, expressions.len())?;
                expressions
                    .iter()
                    .zip(&*self.columns)
                    .try_for_each(|(one, column)| {
                        over(input, one)?;
                        is_one(&one.ty, &column.ty)
                    })
            }
            Operator::Join(join) => self.check_join(join, around),
            Operator::Aggregate {
                input,
                keys,
                aggregates,
                ..
            } => {
                input.check(around)?;
                width(self, keys.len() + aggregates.len())?;
                keys.iter().try_for_each(|key| over(input, key))?;
                aggregates.iter().try_for_each(|aggregate| {
                    let arguments = aggregate.arguments.iter();
                    let order = aggregate.order.iter().map(|key| &key.scalar);
                    arguments.chain(order).try_for_each(|one| over(input, one))
                })?;
                let is_any = |one: &Aggregate| one.function == AggregateFunction::AnyValue;
                let mut any = aggregates.iter().filter(|one| is_any(one));
                if keys.is_empty() && any.any(|one| !one.ty.nullable) {
                    return Err("a value of a group that may have no rows".into());
                }
                let types = keys.iter().map(|key| &key.ty);
                let types = types.chain(aggregates.iter().map(|aggregate| &aggregate.ty));
                types
                    .zip(&*self.columns)
                    .try_for_each(|(ty, column)| is_one(ty, &column.ty))
            }
            Operator::Window { input, functions } => {
                input.check(around)?;
                width(self, input.columns.len() + functions.len())?;
                functions.iter().try_for_each(|function| {
                    let all = function.arguments.iter().chain(&function.partition);
                    let order = function.order.iter().map(|key| &key.scalar);
                    all.chain(order).try_for_each(|one| over(input, one))
                })
            }
            Operator::Sort { input, keys } => {
                input.check(around)?;
                same(input)?;
                let scalar = |key: &SortKey| over(input, &key.scalar);
                keys.iter().try_for_each(scalar)
            }
            Operator::Limit { input, .. } | Operator::Distinct { input } => {
                input.check(around)?;
                same(input)
            }
            Operator::Set { inputs, .. } => {
                if inputs.len() < 2 {
                    return Err("an operation on fewer than two inputs".into());
                }
                inputs.iter().try_for_each(|input| {
                    input.check(around)?;
                    same(input)?;
                    let mut both = input.columns.iter().zip(&*self.columns);
                    both.try_for_each(|(column, own)| is_one(&column.ty, &own.ty))
                })
            }
            Operator::Apply(apply) => self.check_apply(apply, around),
            Operator::With { definitions, body } => {
                let mut around = around.clone();
                for definition in definitions {
                    definition.base.check(&around)?;
                    let columns = definition.base.columns.len();
                    around.definitions.insert(definition.number, columns);
                    if let Some(step) = &definition.step {
                        step.check(&around)?;
                        width(step, columns)?;
                    }
                }
                body.check(&around)?;
                same(body)
            }
            Operator::JsonTable { document, table } => {
                row(document, &[], around)?;
                width(self, table.width())
            }
            Operator::Shared(number) => match around.definitions.get(number) {
                Some(columns) => width(self, *columns),
                None => Err(format!("no definition {number}")),
            },
        }
    }

    fn check_join(&self, join: &Join, around: &Around) -> Result<(), Fault> {
        join.left.check(around)?;
        join.right.check(around)?;
        width(self, join.left.columns.len() + join.right.columns.len())?;
        if let Some(on) = &join.on {
            row(on, &self.columns, around)?;
        }
        let right = &self.columns[join.left.columns.len()..];
        match join.kind == JoinKind::Left && right.iter().any(|column| !column.ty.nullable) {
            true => Err("a column that is NULL without a partner".into()),
            false => Ok(()),
        }
    }

    fn check_apply(&self, apply: &Apply, around: &Around) -> Result<(), Fault> {
        apply.input.check(around)?;
        let inside = Around {
            parameters: apply.arguments.iter().map(|one| one.ty.clone()).collect(),
            definitions: around.definitions.clone(),
        };
        apply.subquery.check(&inside)?;
        let over = |scalar: &Scalar| row(scalar, &apply.input.columns, around);
        apply.arguments.iter().try_for_each(over)?;
        let given = match &apply.applied {
            Applied::Row | Applied::Lateral { .. } => apply.subquery.columns.len(),
            Applied::Exists => 1,
            Applied::Quantified { operands, .. } => {
                operands.iter().try_for_each(|(left, _)| over(left))?;
                width(&apply.subquery, operands.len())?;
                1
            }
        };
        width(self, apply.input.columns.len() + given)
    }
}

fn width(relation: &Relation, columns: usize) -> Result<(), Fault> {
    match relation.columns.len() == columns {
        true => Ok(()),
        false => Err(format!("{} columns, not {columns}", relation.columns.len())),
    }
}

/// Checks an expression over a row.
fn row(scalar: &Scalar, columns: &[Column], around: &Around) -> Result<(), Fault> {
    let mut found = Ok(());
    scalar.visit(&mut |part| {
        let ty = match part.node {
            Node::Column(place) => columns.get(place).map(|column| &column.ty),
            Node::Parameter(number) => around.parameters.get(number),
            _ => return found.is_ok(),
        };
        found = match ty {
            Some(ty) => is_one(ty, &part.ty),
            None => Err(format!("{part} is not there")),
        };
        found.is_ok()
    });
    found
}

/// Checks that each value of a type is one of another.
fn is_one(from: &SqlType, to: &SqlType) -> Result<(), Fault> {
    let is_string = |ty: &SqlType| ty.column.is_some_and(|column| column.is_string());
    let is_of_type = from.column == to.column
        || from.is_null()
        || is_string(from) && is_string(to)
        // Types of results that hold others: BIGINT has those of all integers and BITs, DATETIME those of TIMESTAMP.
        || is_int(from) && is_int(to)
        || from.is_moment() && to.is_moment()
        || from.is_time() && to.is_time();
    match is_of_type && (to.nullable || !from.nullable) {
        true => Ok(()),
        false => Err(format!("a value of {from:?} as {to:?}")),
    }
}

fn is_int(ty: &SqlType) -> bool {
    use perigee_value::ColumnType;
    matches!(
        ty.column,
        Some(ColumnType::Int { .. } | ColumnType::Bit { .. })
    )
}
