//! Type inference: MySQL's result types and the conversions between operand types.

use perigee_value::{ColumnType, Datum, decimal};

use crate::builder::{Builder, DIVISION_DIGITS};
use crate::{Arithmetic, ExprError, Node, NodeId, Type};

/// Most decimal digits of an integer of a type (0 for others).
pub(super) fn default_digits(ty: Type) -> u8 {
    match ty {
        Type::Bool => 1,
        Type::Int => 19,
        Type::UInt => 20,
        _ => 0,
    }
}

/// Digits of a decimal type before and after the point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digits {
    before: u8,
    pub(super) scale: u8,
}

impl Digits {
    /// # Panics
    /// If the type is not a decimal.
    pub(super) fn of(ty: Type) -> Self {
        let Type::Decimal { precision, scale } = ty else {
            panic!("E2: {ty} is not a decimal");
        };
        Self {
            before: precision - scale,
            scale,
        }
    }

    fn ty(self) -> Type {
        let precision = (self.before + self.scale).clamp(1, decimal::MAX_PRECISION);
        Type::Decimal {
            precision,
            scale: self.scale,
        }
    }
}

/// Result type of an operation on decimals, other than DIV. Where MySQL would have more than 38
/// digits, 38 remain, and larger values are overflows.
pub(super) fn decimal_result(op: Arithmetic, a: Digits, b: Digits) -> Type {
    let scale = a.scale.max(b.scale);
    match op {
        Arithmetic::Add | Arithmetic::Subtract => Digits {
            before: a.before.max(b.before) + 1,
            scale,
        }
        .ty(),
        Arithmetic::Modulo | Arithmetic::IntDivide => Digits {
            before: a.before.max(b.before),
            scale,
        }
        .ty(),
        Arithmetic::Multiply => {
            let scale = (a.scale + b.scale).min(ColumnType::MAX_SCALE);
            Digits {
                before: a.before + b.before,
                scale,
            }
            .ty()
        }
        Arithmetic::Divide => {
            // A small divisor such as 0.01 makes the quotient longer by the divisor's scale.
            let scale = (a.scale + DIVISION_DIGITS).min(ColumnType::MAX_SCALE);
            Digits {
                before: a.before + b.scale,
                scale,
            }
            .ty()
        }
    }
}

impl Builder {
    /// A truth value as the integer that it is in arithmetic.
    pub(super) fn number(&mut self, id: NodeId) -> Result<NodeId, ExprError> {
        match self.ty(id) {
            Type::Bool => {
                let id = self.convert(id, Type::Int)?;
                self.digits[usize::from(id.0)] = 1;
                Ok(id)
            }
            Type::Int | Type::UInt | Type::Decimal { .. } | Type::Double => Ok(id),
            ty => Err(ExprError::Operands {
                what: "arithmetic",
                left: ty,
                right: ty,
            }),
        }
    }

    /// An exact number as a decimal of as few digits as it needs.
    pub(super) fn as_decimal(&mut self, id: NodeId) -> Result<NodeId, ExprError> {
        match self.ty(id) {
            Type::Decimal { .. } => Ok(id),
            _ => {
                let precision = self.digits_of(id).max(1);
                self.convert(
                    id,
                    Type::Decimal {
                        precision,
                        scale: 0,
                    },
                )
            }
        }
    }

    /// A decimal with another, not smaller, scale. Values that then have more than 38 digits are
    /// overflows when they occur.
    pub(super) fn rescale(&mut self, id: NodeId, scale: u8) -> Result<NodeId, ExprError> {
        let digits = Digits::of(self.ty(id));
        if digits.scale == scale {
            Ok(id)
        } else {
            self.convert(id, Digits { scale, ..digits }.ty())
        }
    }

    /// A conversion; nothing if the type is right already. NULL constants take any type.
    pub(super) fn convert(&mut self, id: NodeId, ty: Type) -> Result<NodeId, ExprError> {
        let from = self.ty(id);
        if from == ty {
            return Ok(id);
        }
        if self.as_constant(id).is_some_and(Datum::is_null) {
            return self.null(ty);
        }
        let defined = match (from, ty) {
            (Type::Bool, Type::Int) | (Type::Date, Type::DateTime) => true,
            (Type::Bool, _) => {
                let id = self.convert(id, Type::Int)?;
                return self.convert(id, ty);
            }
            _ => (is_number(from) && is_number(ty)) || (from.is_string() && ty.is_string()),
        };
        if !defined {
            return Err(ExprError::Operands {
                what: "CAST",
                left: from,
                right: ty,
            });
        }
        self.push(Node::Cast { operand: id, ty })
    }

    /// Both operands in a type in which they compare as MySQL compares them.
    pub(super) fn comparable(
        &mut self,
        left: NodeId,
        right: NodeId,
    ) -> Result<(NodeId, NodeId), ExprError> {
        let (a, b) = (self.ty(left), self.ty(right));
        if a.comparable(b) {
            return Ok((left, right));
        }
        if self.as_constant(left).is_some_and(Datum::is_null) {
            return Ok((self.null(b)?, right));
        }
        if self.as_constant(right).is_some_and(Datum::is_null) {
            return Ok((left, self.null(a)?));
        }
        let undefined = Err(ExprError::Operands {
            what: "comparison",
            left: a,
            right: b,
        });
        match (a, b) {
            (Type::Date, Type::DateTime) => Ok((self.convert(left, b)?, right)),
            (Type::DateTime, Type::Date) => Ok((left, self.convert(right, a)?)),
            (Type::Date | Type::DateTime, Type::String) => match self.as_constant(right).cloned() {
                Some(Datum::String(text)) => {
                    let right = self.date_of_string(&text)?;
                    self.comparable(left, right)
                }
                _ => undefined,
            },
            (Type::Time, Type::String) => match self.as_constant(right).cloned() {
                Some(Datum::String(text)) => Ok((left, self.time_of_string(&text)?)),
                _ => undefined,
            },
            (Type::String, Type::Date | Type::DateTime | Type::Time) => {
                let (right, left) = self.comparable(right, left)?;
                Ok((left, right))
            }
            _ if is_number_or_bool(a) && is_number_or_bool(b) => {
                let (left, right) = (self.number(left)?, self.number(right)?);
                self.comparable_numbers(left, right)
            }
            _ => undefined,
        }
    }

    fn comparable_numbers(
        &mut self,
        left: NodeId,
        right: NodeId,
    ) -> Result<(NodeId, NodeId), ExprError> {
        let (a, b) = (self.ty(left), self.ty(right));
        if a.comparable(b) {
            return Ok((left, right));
        }
        if a == Type::Double || b == Type::Double {
            return Ok((
                self.convert(left, Type::Double)?,
                self.convert(right, Type::Double)?,
            ));
        }
        // A constant of the other signedness that fits needs no conversion of the column.
        match (a, self.as_constant(right), b, self.as_constant(left)) {
            (Type::Int, Some(Datum::UInt(v)), ..) if i64::try_from(*v).is_ok() => {
                let v = *v as i64;
                return Ok((left, self.int(v)?));
            }
            (Type::UInt, Some(Datum::Int(v)), ..) if *v >= 0 => {
                let v = *v as u64;
                return Ok((left, self.constant(Datum::UInt(v), Type::UInt)?));
            }
            (_, _, Type::Int, Some(Datum::UInt(v))) if i64::try_from(*v).is_ok() => {
                let v = *v as i64;
                return Ok((self.int(v)?, right));
            }
            (_, _, Type::UInt, Some(Datum::Int(v))) if *v >= 0 => {
                let v = *v as u64;
                return Ok((self.constant(Datum::UInt(v), Type::UInt)?, right));
            }
            _ => {}
        }
        let (left, right) = (self.as_decimal(left)?, self.as_decimal(right)?);
        let (x, y) = (Digits::of(self.ty(left)), Digits::of(self.ty(right)));
        let scale = x.scale.max(y.scale);
        // A comparison must not overflow.
        if x.before.max(y.before) + scale > decimal::MAX_PRECISION {
            return Err(ExprError::Operands {
                what: "comparison",
                left: a,
                right: b,
            });
        }
        Ok((self.rescale(left, scale)?, self.rescale(right, scale)?))
    }

    /// The type that a CASE over these values has.
    pub(super) fn common_type(&self, values: &[NodeId]) -> Result<Type, ExprError> {
        let mut common: Option<(Type, u8)> = None;
        for id in values {
            if self.as_constant(*id).is_some_and(Datum::is_null) {
                continue;
            }
            let next = (self.ty(*id), self.digits_of(*id));
            common = Some(match common {
                None => next,
                Some(known) => wider(known, next)?,
            });
        }
        // NULLs only: the type of the first, or of any.
        let only_null = values.first().map_or(Type::Int, |id| self.ty(*id));
        Ok(common.map_or(only_null, |(ty, _)| ty))
    }
}

fn is_number(ty: Type) -> bool {
    matches!(
        ty,
        Type::Int | Type::UInt | Type::Decimal { .. } | Type::Double
    )
}

fn is_number_or_bool(ty: Type) -> bool {
    ty == Type::Bool || is_number(ty)
}

/// The least type that holds the values of both; integers come with their digits.
fn wider(a: (Type, u8), b: (Type, u8)) -> Result<(Type, u8), ExprError> {
    if a.0 == b.0 {
        return Ok((a.0, a.1.max(b.1)));
    }
    let digits = |(ty, digits): (Type, u8)| match ty {
        Type::Decimal { .. } => Digits::of(ty),
        _ => Digits {
            before: digits.max(1),
            scale: 0,
        },
    };
    Ok(match (a.0, b.0) {
        (Type::Date | Type::DateTime, Type::Date | Type::DateTime) => (Type::DateTime, 0),
        (x, y) if !is_number_or_bool(x) || !is_number_or_bool(y) => {
            return Err(ExprError::Operands {
                what: "CASE",
                left: x,
                right: y,
            });
        }
        (Type::Double, _) | (_, Type::Double) => (Type::Double, 0),
        (Type::Bool, y @ (Type::Int | Type::UInt)) => (y, a.1.max(b.1)),
        (x @ (Type::Int | Type::UInt), Type::Bool) => (x, a.1.max(b.1)),
        _ => {
            let (x, y) = (digits(a), digits(b));
            let both = Digits {
                before: x.before.max(y.before),
                scale: x.scale.max(y.scale),
            };
            (both.ty(), 0)
        }
    })
}
