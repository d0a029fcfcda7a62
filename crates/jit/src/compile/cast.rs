//! Conversions between number types, and from DATE to DATETIME.

use cranelift_codegen::ir::{InstBuilder, types};
use perigee_expr::{NodeId, Type};
use perigee_value::date::DAY_MICROS;
use perigee_value::decimal::pow10;

use super::{Compiler, Lane, Val};
use crate::facts::Fact;
use crate::interval::Interval;

/// Numbers up to here are exact in a double.
const EXACT_IN_DOUBLE: Interval = Interval {
    low: -(1 << 53),
    high: 1 << 53,
};

impl Compiler<'_, '_> {
    pub(super) fn cast(&mut self, operand: NodeId, fact: &Fact) -> Val {
        let from = self.fact(operand);
        let val = self.value(operand);
        if fact.ty.is_string() {
            return val;
        }
        let null = val.null;
        let lane = match (from.ty, fact.ty) {
            (_, Type::Double) if from.ty == Type::UInt => {
                Lane::Double(self.b.ins().fcvt_from_uint(types::F64, val.narrow()))
            }
            (Type::Int, Type::Double) => {
                Lane::Double(self.b.ins().fcvt_from_sint(types::F64, val.narrow()))
            }
            // Both exact, so that the division rounds once, as `decimal::to_f64` does.
            (Type::Decimal { scale, .. }, Type::Double)
                if from.range.is_within(EXACT_IN_DOUBLE) && scale <= 22 =>
            {
                let units = self.b.ins().fcvt_from_sint(types::F64, val.narrow());
                let power = self.b.ins().f64const(pow10(scale) as f64);
                Lane::Double(self.b.ins().fdiv(units, power))
            }
            (Type::Date, Type::DateTime) => {
                let micros = self.int(DAY_MICROS);
                Lane::Narrow(self.b.ins().imul(val.narrow(), micros))
            }
            (Type::Double, _) | (_, Type::Double) => {
                return self.unless_null(null, fact, |c| c.cast_call(val, from.ty, fact));
            }
            _ if fact.ty.scale() < from.ty.scale() => {
                return self.unless_null(null, fact, |c| c.cast_call(val, from.ty, fact));
            }
            _ => self.scale_up(val, &from, fact),
        };
        Val { lane, null }
    }

    /// Int, UInt, Bool or Decimal to one of them that has no fewer digits after the point.
    fn scale_up(&mut self, val: Val, from: &Fact, fact: &Fact) -> Lane {
        let val = self.signed_form(val, from);
        let up = fact.ty.scale() - from.ty.scale();
        if up == 0 {
            return self.in_type(val.lane, Some(from.range), val.null, fact);
        }
        let range = Interval::exactly(pow10(up));
        // As if the factor were 1 with that many digits after the point: a product keeps them.
        let factor = Fact {
            ty: Type::Decimal {
                precision: 38,
                scale: up,
            },
            range,
            ..*from
        };
        let lane = if range.fits_i64() {
            Lane::Narrow(self.int(range.low as i64))
        } else {
            Lane::Wide(self.wide_int(range.low))
        };
        self.multiply_decimals((val, from), (Val::some(lane), &factor), val.null, fact)
    }

    /// A number in a signed register: an unsigned one beyond 63 bits becomes wide.
    fn signed_form(&mut self, val: Val, fact: &Fact) -> Val {
        if fact.range.fits_i64() || fact.ty != Type::UInt {
            return val;
        }
        let wide = self.b.ins().uextend(types::I128, val.narrow());
        Val {
            lane: Lane::Wide(wide),
            null: val.null,
        }
    }
}
