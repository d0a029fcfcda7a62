//! The validator: establishes the invariants that `program` states.

use std::cmp::Ordering;

use perigee_value::{Collation, ColumnType, Datum, RowLayout, date, decimal, time};

use crate::limits::{MAX_DEPTH, MAX_IN_LIST, MAX_NODES, MAX_OPERANDS, MAX_PATTERN, MAX_STRING};
use crate::operations::order_of;
use crate::program::node_type;
use crate::{Arithmetic, ExprError, Node, NodeId, Program, Type};

/// Makes a program of a list of nodes over the records of `layout`.
pub fn validate(nodes: Vec<Node>, layout: &RowLayout) -> Result<Program, ExprError> {
    check(&nodes, &layout_columns(layout))?;
    Ok(Program { nodes })
}

/// Makes a program of a list of nodes over rows of values: column `i` has type `columns[i]`.
pub fn validate_values(nodes: Vec<Node>, columns: &[Type]) -> Result<Program, ExprError> {
    let columns: Vec<_> = columns.iter().copied().map(Some).collect();
    check(&nodes, &columns)?;
    Ok(Program { nodes })
}

/// The types of a layout's columns; `None` where programs cannot use the column.
pub(crate) fn layout_columns(layout: &RowLayout) -> Vec<Option<Type>> {
    let columns = layout.columns.iter().map(|column| {
        // Programs compute with 128 bits.
        let usable = !column.ty.is_long()
            && !column.ty.is_wide()
            && column.ty.collation().is_none_or(Collation::is_text);
        usable.then(|| Type::of(column.ty))
    });
    columns.collect()
}

pub(crate) fn check(nodes: &[Node], columns: &[Option<Type>]) -> Result<(), ExprError> {
    if nodes.is_empty() || nodes.len() > MAX_NODES {
        return Err(ExprError::NodeCount(nodes.len()));
    }
    let mut types = Vec::with_capacity(nodes.len());
    let mut depths: Vec<usize> = Vec::with_capacity(nodes.len());
    let mut operands = 0;
    for (index, node) in nodes.iter().enumerate() {
        let id = NodeId(index as u16);
        let mut depth = 0;
        let mut order = Ok(());
        node.for_each_operand(|operand| {
            operands += 1;
            match depths.get(usize::from(operand.0)) {
                Some(below) => depth = depth.max(*below),
                None => order = Err(ExprError::Order { node: id, operand }),
            }
        });
        order?;
        if depth >= MAX_DEPTH || operands > MAX_OPERANDS {
            let what = if depth >= MAX_DEPTH {
                "levels"
            } else {
                "operands"
            };
            return Err(ExprError::Limit { node: id, what });
        }
        Checker {
            id,
            types: &types,
            columns,
        }
        .check(node)?;
        types.push(node_type(node, &types));
        depths.push(depth + 1);
    }
    Ok(())
}

/// Checks one node whose operands exist.
struct Checker<'a> {
    id: NodeId,
    types: &'a [Type],
    columns: &'a [Option<Type>],
}

impl Checker<'_> {
    fn ty(&self, id: NodeId) -> Type {
        self.types[usize::from(id.0)]
    }

    fn require(&self, fine: bool, what: &'static str) -> Result<(), ExprError> {
        if fine {
            Ok(())
        } else {
            Err(ExprError::Type {
                node: self.id,
                what,
            })
        }
    }

    fn limit(&self, fine: bool, what: &'static str) -> Result<(), ExprError> {
        if fine {
            Ok(())
        } else {
            Err(ExprError::Limit {
                node: self.id,
                what,
            })
        }
    }

    fn result(&self, ty: Type) -> Result<(), ExprError> {
        self.require(
            is_valid_type(ty),
            "a decimal of at most 38 digits, at most 30 after the point",
        )
    }

    fn check(&self, node: &Node) -> Result<(), ExprError> {
        match node {
            Node::Column { index, ty } => {
                if self.columns.get(usize::from(*index)) == Some(&Some(*ty)) {
                    return Ok(());
                }
                Err(ExprError::Column {
                    node: self.id,
                    column: *index,
                    ty: *ty,
                })
            }
            Node::Constant { value, ty } => {
                self.result(*ty)?;
                check_constant(value, *ty)
            }
            Node::Compare { left, right, .. } => {
                let comparable = self.ty(*left).comparable(self.ty(*right));
                self.require(comparable, "operands of one type (and scale)")
            }
            Node::And(operands) | Node::Or(operands) => {
                self.require(!operands.is_empty(), "at least one operand")?;
                let all = operands
                    .iter()
                    .all(|operand| self.ty(*operand) == Type::Bool);
                self.require(all, "Bool operands")
            }
            Node::Not(operand) => self.require(self.ty(*operand) == Type::Bool, "a Bool operand"),
            Node::IsNull(_) => Ok(()),
            Node::Arithmetic {
                op,
                left,
                right,
                ty,
            } => {
                self.result(*ty)?;
                let fine = arithmetic_is_defined(*op, self.ty(*left), self.ty(*right), *ty);
                self.require(fine, "operands and result that the operator is defined for")
            }
            Node::Negate(operand) => {
                let ty = self.ty(*operand);
                let fine = matches!(ty, Type::Int | Type::Double | Type::Decimal { .. });
                self.require(fine, "a signed number")
            }
            Node::Cast { operand, ty } => {
                self.result(*ty)?;
                self.require(
                    cast_is_defined(self.ty(*operand), *ty),
                    "types that convert",
                )
            }
            Node::In { operand, list, .. } => self.check_in(self.ty(*operand), list),
            Node::Like {
                operand, pattern, ..
            } => {
                self.require(self.ty(*operand).is_string(), "a String operand")?;
                self.limit(pattern.len() <= MAX_PATTERN, "bytes of a pattern")
            }
            Node::Extract { operand, .. } => {
                let fine = matches!(self.ty(*operand), Type::Date | Type::DateTime);
                self.require(fine, "a Date or DateTime operand")
            }
            Node::Substring { operand, .. } => {
                self.require(self.ty(*operand).is_string(), "a String operand")
            }
            Node::Case {
                branches,
                otherwise,
                ty,
            } => {
                self.result(*ty)?;
                self.require(!branches.is_empty(), "at least one branch")?;
                let conditions = branches
                    .iter()
                    .all(|(when, _)| self.ty(*when) == Type::Bool);
                self.require(conditions, "Bool conditions")?;
                let mut values = branches.iter().map(|(_, then)| then).chain(otherwise);
                self.require(
                    values.all(|value| self.ty(*value) == *ty),
                    "values of the stated type",
                )
            }
        }
    }

    fn check_in(&self, ty: Type, list: &[Datum]) -> Result<(), ExprError> {
        self.require(ty != Type::Bool, "an operand that is not Bool")?;
        self.require(!list.is_empty(), "at least one constant")?;
        self.limit(list.len() <= MAX_IN_LIST, "constants")?;
        for value in list {
            self.require(!value.is_null(), "constants that are not NULL")?;
            check_constant(value, ty)?;
        }
        let ascending =
            list.is_sorted_by(|a, b| order_of(ty, a.as_ref(), b.as_ref()) == Ordering::Less);
        self.require(ascending, "constants in strictly increasing order")
    }
}

fn is_valid_type(ty: Type) -> bool {
    match ty {
        Type::Decimal { precision, scale } => {
            let ty = ColumnType::Decimal { precision, scale };
            ty.check().is_ok() && !ty.is_wide()
        }
        _ => true,
    }
}

/// Checks that `value` is NULL or a value of the type.
pub(crate) fn check_constant(value: &Datum, ty: Type) -> Result<(), ExprError> {
    let fine = match (value, ty) {
        (Datum::Null, _)
        | (Datum::Bool(_), Type::Bool)
        | (Datum::Int(_), Type::Int)
        | (Datum::UInt(_), Type::UInt) => true,
        (Datum::Decimal(v), Type::Decimal { precision, .. }) => decimal::fits(*v, precision),
        (Datum::Double(v), Type::Double) => v.is_finite(),
        (Datum::Date(v), Type::Date) => date::is_stored_day(*v),
        (Datum::DateTime(v), Type::DateTime) => date::is_stored_micros(*v),
        (Datum::Time(v), Type::Time) => time::is_valid_time(*v),
        (Datum::String(v), Type::String | Type::Collated(_)) => {
            v.len() <= MAX_STRING && std::str::from_utf8(v).is_ok()
        }
        _ => false,
    };
    if fine {
        Ok(())
    } else {
        Err(ExprError::Constant {
            value: value.clone(),
            ty,
        })
    }
}

fn arithmetic_is_defined(op: Arithmetic, left: Type, right: Type, ty: Type) -> bool {
    use Arithmetic::{Add, Divide, IntDivide, Modulo, Multiply, Subtract};
    match (left, right) {
        (Type::Int, Type::Int) | (Type::UInt, Type::UInt) => match op {
            // Scale at most 30, so the shift is within 38.
            Divide => matches!(ty, Type::Decimal { .. }),
            _ => ty == left,
        },
        (Type::Double, Type::Double) => op != IntDivide && ty == Type::Double,
        (Type::Decimal { scale: a, .. }, Type::Decimal { scale: b, .. }) => match (op, ty) {
            (Add | Subtract | Modulo, Type::Decimal { scale, .. }) => a == b && scale == a,
            (Multiply, Type::Decimal { scale, .. }) => scale == (a + b).min(ColumnType::MAX_SCALE),
            (Divide, Type::Decimal { scale, .. }) => scale >= a && b + (scale - a) <= 38,
            (IntDivide, Type::Int | Type::UInt) => a == b,
            _ => false,
        },
        _ => false,
    }
}

fn cast_is_defined(from: Type, to: Type) -> bool {
    use Type::{Bool, Collated, Date, DateTime, Decimal, Double, Int, String, UInt};
    match (from, to) {
        (Bool, Int)
        | (Date, DateTime)
        | (Decimal { .. }, Decimal { .. })
        | (String, Collated(_))
        | (Collated(_), String) => true,
        (Int | UInt | Decimal { .. } | Double, Int | UInt | Decimal { .. } | Double) => {
            from.tag() != to.tag()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
