//! Expressions that keys have: in a condition the hidden column that has their values stands in their place, so that
//! the key can select rows.

use std::convert::Infallible;

use perigee_expr::scalar::{Node, Scalar};
use perigee_sql_type::SqlType;

use super::super::{JoinKind, Operator, Relation};

/// A hidden column of a relation.
struct Hidden {
    place: usize,
    ty: SqlType,
    /// What it has the values of, over the rows of the relation.
    expression: Scalar,
}

/// A condition over the rows of a relation, with hidden columns in the place of their expressions.
pub(super) fn by_keys(relation: &Relation, condition: Scalar) -> Scalar {
    let mut hidden = Vec::new();
    gather(relation, 0, &mut hidden);
    if hidden.is_empty() {
        return condition;
    }
    let mut replace = |part: &Scalar| -> Result<Option<Scalar>, Infallible> {
        let found = hidden.iter().find(|own| own.expression.is_same(part));
        Ok(found.map(|own| Scalar::new(Node::Column(own.place), own.ty.clone())))
    };
    match condition.replaced(&mut replace) {
        Ok(condition) => condition,
        Err(never) => match never {},
    }
}

/// Finds the hidden columns of tables whose rows stand in a relation as they are.
fn gather(relation: &Relation, first: usize, found: &mut Vec<Hidden>) {
    match &relation.operator {
        Operator::Filter { input, .. } => gather(input, first, found),
        Operator::Join(join) => {
            gather(&join.left, first, found);
            // Rows without a partner have NULL for an expression that may have another value.
            if join.kind == JoinKind::Inner {
                gather(&join.right, first + join.left.columns.len(), found);
            }
        }
        Operator::Table(table) => {
            for (place, column) in table.definition.columns.iter().enumerate() {
                if let Some(expression) = &column.expression {
                    found.push(Hidden {
                        place: first + place,
                        ty: column.ty.clone(),
                        expression: shifted(expression.scalar.clone(), first),
                    });
                }
            }
        }
        _ => {}
    }
}

/// An expression over columns that come so much later.
fn shifted(expression: Scalar, first: usize) -> Scalar {
    let mut shift = |part: &Scalar| -> Result<Option<Scalar>, Infallible> {
        Ok(match part.node {
            Node::Column(place) => Some(Scalar::new(Node::Column(first + place), part.ty.clone())),
            _ => None,
        })
    };
    match expression.replaced(&mut shift) {
        Ok(expression) => expression,
        Err(never) => match never {},
    }
}
