//! Arithmetic and conversion of numbers.

use crate::builder::types::{Digits, decimal_result, default_digits};
use crate::builder::{Builder, DIVISION_DIGITS};
use crate::{Arithmetic, ExprError, Node, NodeId, Type};

impl Builder {
    /// `+ - * / DIV %`.
    pub fn arithmetic(
        &mut self,
        op: Arithmetic,
        left: NodeId,
        right: NodeId,
    ) -> Result<NodeId, ExprError> {
        let (left, right) = (self.number(left)?, self.number(right)?);
        match (self.ty(left), self.ty(right)) {
            (Type::Int, Type::Int) | (Type::UInt, Type::UInt) => {
                self.integer_arithmetic(op, left, right)
            }
            (Type::Int, Type::UInt) | (Type::UInt, Type::Int) => {
                self.mixed_sign_arithmetic(op, left, right)
            }
            (a, b) if a == Type::Double || b == Type::Double => {
                let left = self.convert(left, Type::Double)?;
                let right = self.convert(right, Type::Double)?;
                self.push(Node::Arithmetic {
                    op,
                    left,
                    right,
                    ty: Type::Double,
                })
            }
            (a, b) => {
                let unsigned = a == Type::UInt || b == Type::UInt;
                self.decimal_arithmetic(op, left, right, unsigned)
            }
        }
    }

    fn integer_arithmetic(
        &mut self,
        op: Arithmetic,
        left: NodeId,
        right: NodeId,
    ) -> Result<NodeId, ExprError> {
        let (ty, a, b) = (self.ty(left), self.digits_of(left), self.digits_of(right));
        let most = default_digits(ty);
        let (ty, digits) = match op {
            Arithmetic::Divide => {
                let precision = a + DIVISION_DIGITS;
                (
                    Type::Decimal {
                        precision,
                        scale: DIVISION_DIGITS,
                    },
                    most,
                )
            }
            Arithmetic::Add | Arithmetic::Subtract => (ty, most.min(a.max(b) + 1)),
            Arithmetic::Multiply => (ty, most.min(a + b)),
            Arithmetic::IntDivide => (ty, a),
            Arithmetic::Modulo => (ty, a.min(b)),
        };
        let id = self.push(Node::Arithmetic {
            op,
            left,
            right,
            ty,
        })?;
        let slot = &mut self.digits[usize::from(id.0)];
        *slot = digits.min(*slot);
        Ok(id)
    }

    /// One signed and one unsigned operand: MySQL's result is unsigned, and an error if it is
    /// negative. Computed in decimals, which hold both.
    fn mixed_sign_arithmetic(
        &mut self,
        op: Arithmetic,
        left: NodeId,
        right: NodeId,
    ) -> Result<NodeId, ExprError> {
        let wide = Type::Decimal {
            precision: 20,
            scale: 0,
        };
        // The remainder has the sign and the type of the dividend.
        let ty = match op {
            Arithmetic::Divide => None,
            Arithmetic::Modulo => Some(self.ty(left)),
            _ => Some(Type::UInt),
        };
        let (left, right) = (self.convert(left, wide)?, self.convert(right, wide)?);
        let result = self.decimal_arithmetic(op, left, right, true)?;
        ty.map_or(Ok(result), |ty| self.convert(result, ty))
    }

    fn decimal_arithmetic(
        &mut self,
        op: Arithmetic,
        left: NodeId,
        right: NodeId,
        unsigned: bool,
    ) -> Result<NodeId, ExprError> {
        let (left, right) = (self.as_decimal(left)?, self.as_decimal(right)?);
        let (a, b) = (Digits::of(self.ty(left)), Digits::of(self.ty(right)));
        let one_scale = !matches!(op, Arithmetic::Multiply | Arithmetic::Divide);
        let (left, right) = if one_scale {
            let scale = a.scale.max(b.scale);
            (self.rescale(left, scale)?, self.rescale(right, scale)?)
        } else {
            (left, right)
        };
        let ty = match op {
            Arithmetic::IntDivide if unsigned => Type::UInt,
            Arithmetic::IntDivide => Type::Int,
            _ => decimal_result(op, a, b),
        };
        self.push(Node::Arithmetic {
            op,
            left,
            right,
            ty,
        })
    }

    /// Unary minus.
    pub fn negate(&mut self, operand: NodeId) -> Result<NodeId, ExprError> {
        let operand = self.number(operand)?;
        if self.ty(operand) != Type::UInt {
            return self.push(Node::Negate(operand));
        }
        // The result is signed, and 2^63 has a negative.
        let wide = self.convert(
            operand,
            Type::Decimal {
                precision: 20,
                scale: 0,
            },
        )?;
        let negative = self.push(Node::Negate(wide))?;
        self.convert(negative, Type::Int)
    }

    /// Conversion to another type; out of range is an error.
    pub fn cast(&mut self, operand: NodeId, ty: Type) -> Result<NodeId, ExprError> {
        self.convert(operand, ty)
    }
}
