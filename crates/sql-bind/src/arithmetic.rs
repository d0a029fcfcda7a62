//! `+ - * / DIV %`, unary minus, and the functions whose results have the type of their argument.

use perigee_expr::Arithmetic;
use perigee_expr::scalar::{
    Node, Rounding, Scalar, Step, Target, arithmetic_type, rounded_type, unrounded_type,
};
use perigee_sql_type::{Number, SqlType};
use perigee_value::{ColumnType, MembersKind};

use crate::cast::cast_to;
use crate::literal::number_of_binary;
use crate::{Binder, Modes, Result};

/// The type of values that are such numbers.
pub(crate) fn type_of(number: Number) -> SqlType {
    match number {
        Number::Int(_) | Number::Null => SqlType::int(),
        Number::UInt(_) => SqlType::uint(),
        Number::Decimal(precision, scale) => SqlType::of(ColumnType::Decimal { precision, scale }),
        Number::Double => SqlType::of(ColumnType::Double),
    }
}

/// A value in a place of numbers: a binary literal is one there, and a value of an ENUM or a SET is its number.
pub(crate) fn as_number(scalar: Scalar) -> Result<Scalar> {
    let scalar = number_of_binary(scalar)?;
    let Some(members) = scalar.ty.members.clone() else {
        return Ok(scalar);
    };
    let ty = match members.kind() {
        MembersKind::Enum => SqlType {
            digits: Some(5),
            ..SqlType::int()
        },
        MembersKind::Set => SqlType::of(members.number_type()),
    };
    let ty = ty.nullable(scalar.ty.nullable);
    Ok(Scalar::new(
        Node::MemberNumber(Box::new(scalar), members),
        ty,
    ))
}

/// An operand of arithmetic: JSON is a DOUBLE there.
pub(crate) fn number_operand(scalar: Scalar) -> Result<Scalar> {
    match scalar.ty.is_json() {
        true => cast_to(scalar, Target::Double),
        false => as_number(scalar),
    }
}

/// The type in which a number is computed: of arithmetic that of its last operator.
fn computed_type(scalar: &Scalar) -> Number {
    match &scalar.node {
        Node::Arithmetic(_, steps) => steps.last().map_or(Number::Null, |step| step.to),
        _ => Number::of(&scalar.ty),
    }
}

/// A number with all digits that MySQL computes, for what computes with it.
pub(crate) fn unrounded(mut scalar: Scalar) -> Scalar {
    if let Node::Arithmetic(first, steps) = &mut scalar.node {
        let left = match steps.len() {
            0 | 1 => computed_type(first),
            many => steps[many - 2].to,
        };
        if let Some(step) = steps.last_mut() {
            let right = computed_type(&step.operand);
            step.to = unrounded_type(step.op, left, right, step.shown).unwrap_or(step.shown);
        }
    }
    scalar
}

impl Binder<'_> {
    pub(crate) fn arithmetic(&self, left: Scalar, op: Arithmetic, right: Scalar) -> Result<Scalar> {
        let (left, right) = (number_operand(left)?, number_operand(right)?);
        let shown = arithmetic_type(op, Number::of(&left.ty), Number::of(&right.ty));
        let signs = self.environment.modes().has(Modes::NO_UNSIGNED_SUBTRACTION);
        let shown = match shown {
            Number::UInt(_) if signs && op == Arithmetic::Subtract => Number::Int(19),
            shown => shown,
        };
        let nullable = op.divides() || left.ty.nullable || right.ty.nullable;
        let step = Step {
            op,
            operand: unrounded(right),
            shown,
            to: shown,
        };
        let ty = type_of(shown).nullable(nullable);
        let left = unrounded(left);
        let node = match left.node {
            Node::Arithmetic(first, mut steps) => {
                steps.push(step);
                Node::Arithmetic(first, steps)
            }
            node => Node::Arithmetic(Box::new(Scalar::new(node, left.ty)), vec![step]),
        };
        Ok(Scalar::new(node, ty))
    }

    /// `-x`: as zero minus it, but a number without sign gets one.
    pub(crate) fn negative(&self, operand: Scalar) -> Result<Scalar> {
        let operand = number_operand(operand)?;
        if !matches!(Number::of(&operand.ty), Number::UInt(_)) {
            let zero = crate::literal::int(0);
            return self.arithmetic(zero, Arithmetic::Subtract, operand);
        }
        let ty = SqlType::int().nullable(operand.ty.nullable);
        Ok(Scalar::new(Node::Negate(Box::new(operand)), ty))
    }

    /// ABS, ROUND and their like.
    pub(crate) fn rounded(&self, kind: Rounding, operand: Scalar, places: i64) -> Result<Scalar> {
        let operand = unrounded(number_operand(operand)?);
        let from = match kind {
            Rounding::Round | Rounding::Truncate => computed_type(&operand),
            _ => Number::of(&operand.ty),
        };
        let ty = type_of(rounded_type(kind, from, places));
        let ty = ty.nullable(operand.ty.nullable);
        Ok(Scalar::new(
            Node::Round(kind, Box::new(operand), places),
            ty,
        ))
    }
}
