//! How many values a key of groups has at most, by its expression alone: a remainder, a month, a comparison has
//! few, whatever statistics say of the columns that it is computed from.

use perigee_expr::{Arithmetic, DateField, Node, NodeId, Program};
use perigee_value::Datum;

/// Most values of the program's result that are expected, NULL left aside; infinite where its form does not tell.
pub(super) fn most_values(program: &Program) -> f64 {
    let mut values = Vec::with_capacity(program.nodes.len());
    for node in &program.nodes {
        values.push(of_node(node, program, &values));
    }
    values.last().copied().unwrap_or(1.0)
}

/// Values of a node whose operands have these.
fn of_node(node: &Node, program: &Program, values: &[f64]) -> f64 {
    let of = |id: NodeId| values[usize::from(id.0)];
    match node {
        Node::Column { .. } => f64::INFINITY,
        Node::Constant { .. } => 1.0,
        Node::Compare { .. }
        | Node::And(_)
        | Node::Or(_)
        | Node::Not(_)
        | Node::IsNull(_)
        | Node::In { .. }
        | Node::Like { .. } => 2.0,
        Node::Arithmetic {
            op: Arithmetic::Modulo,
            left,
            right,
            ..
        } => of(*left).min(remainders(program.node(*right))),
        Node::Arithmetic { left, right, .. } => of(*left) * of(*right),
        Node::Negate(operand) | Node::Cast { operand, .. } | Node::Substring { operand, .. } => {
            of(*operand)
        }
        Node::Extract { field, operand } => of(*operand).min(of_field(*field)),
        Node::Case {
            branches,
            otherwise,
            ..
        } => {
            let branches: f64 = branches.iter().map(|(_, value)| of(*value)).sum();
            branches + otherwise.map_or(1.0, of)
        }
    }
}

/// Remainders of a division by a constant. Dividends are rarely of both signs.
fn remainders(divisor: &Node) -> f64 {
    match divisor {
        Node::Constant { value, .. } => match value {
            Datum::Int(n) => (n.unsigned_abs() as f64).max(1.0),
            Datum::UInt(n) => (*n as f64).max(1.0),
            // In units of the last digit, as the dividend.
            Datum::Decimal(n) => (n.unsigned_abs() as f64).max(1.0),
            _ => f64::INFINITY,
        },
        _ => f64::INFINITY,
    }
}

fn of_field(field: DateField) -> f64 {
    match field {
        DateField::Year => f64::INFINITY,
        DateField::Quarter => 4.0,
        DateField::Month => 12.0,
        DateField::Day => 31.0,
        DateField::Hour => 24.0,
        DateField::Minute | DateField::Second => 60.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_expr::{Comparison, Type};

    const COLUMN: Node = Node::Column {
        index: 0,
        ty: Type::Int,
    };

    fn int(value: i64) -> Node {
        Node::Constant {
            value: Datum::Int(value),
            ty: Type::Int,
        }
    }

    fn arithmetic(op: Arithmetic, left: u16, right: u16) -> Node {
        Node::Arithmetic {
            op,
            left: NodeId(left),
            right: NodeId(right),
            ty: Type::Int,
        }
    }

    fn values(nodes: &[Node]) -> f64 {
        most_values(&Program {
            nodes: nodes.to_vec(),
        })
    }

    #[test]
    fn a_remainder_has_as_many_values_as_its_divisor() {
        let remainder = [COLUMN, int(-10), arithmetic(Arithmetic::Modulo, 0, 1)];
        assert_eq!(values(&remainder), 10.0);
        // Of a column that is not known, or by one.
        assert_eq!(values(&[COLUMN]), f64::INFINITY);
        let by_column = [int(7), COLUMN, arithmetic(Arithmetic::Modulo, 0, 1)];
        assert_eq!(values(&by_column), 1.0);
        let sum = [COLUMN, int(7), arithmetic(Arithmetic::Add, 0, 1)];
        assert_eq!(values(&sum), f64::INFINITY);
        let by_zero = [COLUMN, int(0), arithmetic(Arithmetic::Modulo, 0, 1)];
        assert_eq!(values(&by_zero), 1.0);
    }

    #[test]
    fn branches_and_truth_values_are_few() {
        let positive = Node::Compare {
            op: Comparison::Greater,
            left: NodeId(0),
            right: NodeId(1),
        };
        let case = Node::Case {
            branches: vec![(NodeId(2), NodeId(1))],
            otherwise: Some(NodeId(2)),
            ty: Type::Bool,
        };
        assert_eq!(values(&[COLUMN, int(0), positive.clone()]), 2.0);
        assert_eq!(values(&[COLUMN, int(0), positive, case]), 3.0);
    }

    #[test]
    fn a_month_is_one_of_twelve() {
        let date = Node::Column {
            index: 0,
            ty: Type::Date,
        };
        let month = Node::Extract {
            field: DateField::Month,
            operand: NodeId(0),
        };
        assert_eq!(values(&[date, month]), 12.0);
    }
}
