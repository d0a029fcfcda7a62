//! Arithmetic. What a range shows to fit is not checked; products of two 64-bit factors are made
//! of two multiplications; larger factors, rounded products and divisions are calls.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value, types};
use perigee_expr::{Arithmetic, NodeId, Type};

use super::{Compiler, Lane, Null, Val};
use crate::facts::Fact;
use crate::interval::{ALL_I64, Interval};

/// Type of an integer that takes part in an exact product.
const WHOLE: Type = Type::Decimal {
    precision: 38,
    scale: 0,
};

impl Compiler<'_, '_> {
    pub(super) fn arithmetic(
        &mut self,
        op: Arithmetic,
        left: NodeId,
        right: NodeId,
        fact: &Fact,
    ) -> Val {
        let l = self.value(left);
        let r = self.value(right);
        let null = l.null.or(r.null, self);
        if let Null::Always = null {
            return Val {
                lane: self.zero(fact),
                null,
            };
        }
        let (a, b) = (self.fact(left), self.fact(right));
        let rounded = op == Arithmetic::Multiply && a.ty.scale() + b.ty.scale() > fact.ty.scale();
        let divides = matches!(
            op,
            Arithmetic::Divide | Arithmetic::IntDivide | Arithmetic::Modulo
        );
        if divides || rounded {
            return self.unless_null(null, fact, |c| {
                c.arithmetic_call(op, (l, a.ty), (r, b.ty), fact)
            });
        }
        let lane = match fact.ty {
            Type::Double => self.double_arithmetic(op, l.double(), r.double(), null),
            Type::Int | Type::UInt => {
                let exact = exact_range(op, a.range, b.range);
                Lane::Narrow(self.integer_arithmetic(op, l.narrow(), r.narrow(), exact, null, fact))
            }
            _ => self.decimal_arithmetic(op, (l, a), (r, b), null, fact),
        };
        Val { lane, null }
    }

    fn double_arithmetic(&mut self, op: Arithmetic, a: Value, b: Value, null: Null) -> Lane {
        let result = match op {
            Arithmetic::Add => self.b.ins().fadd(a, b),
            Arithmetic::Subtract => self.b.ins().fsub(a, b),
            _ => self.b.ins().fmul(a, b),
        };
        self.fail_unless_finite(result, null);
        Lane::Double(result)
    }

    /// Makes the record fail for an infinite double or one that is no number.
    pub(super) fn fail_unless_finite(&mut self, value: Value, null: Null) {
        let magnitude = self.b.ins().fabs(value);
        let infinity = self.b.ins().f64const(f64::INFINITY);
        let bad = self
            .b
            .ins()
            .fcmp(FloatCC::UnorderedOrGreaterThanOrEqual, magnitude, infinity);
        self.fail_if(bad, null);
    }

    /// Int or UInt: 64 bits, wrapping shows as overflow unless the range excludes it.
    fn integer_arithmetic(
        &mut self,
        op: Arithmetic,
        a: Value,
        b: Value,
        exact: Option<Interval>,
        null: Null,
        fact: &Fact,
    ) -> Value {
        if exact.is_some_and(|exact| exact.is_within(Interval::of_type(fact.ty))) {
            return self.plain(op, a, b);
        }
        let unsigned = fact.ty == Type::UInt;
        let ins = self.b.ins();
        let (result, overflow) = match (op, unsigned) {
            (Arithmetic::Add, false) => ins.sadd_overflow(a, b),
            (Arithmetic::Add, true) => ins.uadd_overflow(a, b),
            (Arithmetic::Subtract, false) => ins.ssub_overflow(a, b),
            (Arithmetic::Subtract, true) => ins.usub_overflow(a, b),
            (_, false) => ins.smul_overflow(a, b),
            (_, true) => ins.umul_overflow(a, b),
        };
        self.fail_if(overflow, null);
        result
    }

    fn plain(&mut self, op: Arithmetic, a: Value, b: Value) -> Value {
        match op {
            Arithmetic::Add => self.b.ins().iadd(a, b),
            Arithmetic::Subtract => self.b.ins().isub(a, b),
            _ => self.b.ins().imul(a, b),
        }
    }

    /// `+`, `-` and unrounded `*` of decimals.
    fn decimal_arithmetic(
        &mut self,
        op: Arithmetic,
        (l, a): (Val, Fact),
        (r, b): (Val, Fact),
        null: Null,
        fact: &Fact,
    ) -> Lane {
        if op == Arithmetic::Multiply {
            return self.multiply_decimals((l, &a), (r, &b), null, fact);
        }
        let exact = exact_range(op, a.range, b.range);
        if a.is_narrow() && b.is_narrow() && exact.is_some_and(Interval::fits_i64) {
            let result = self.plain(op, l.narrow(), r.narrow());
            return self.in_type(Lane::Narrow(result), exact, null, fact);
        }
        let (x, y) = (self.widen(l), self.widen(r));
        let result = self.plain(op, x, y);
        // A sum that wraps is outside of its type as well: below 2 * 10^38 in magnitude, it comes
        // out beyond 2^128 - 2 * 10^38, and types end at 10^38.
        self.in_type(Lane::Wide(result), exact, null, fact)
    }

    /// The unrounded product of two signed numbers.
    pub(super) fn multiply_decimals(
        &mut self,
        (l, a): (Val, &Fact),
        (r, b): (Val, &Fact),
        null: Null,
        fact: &Fact,
    ) -> Lane {
        if !a.range.fits_i64() || !b.range.fits_i64() {
            return self.wide_multiply((l, a), (r, b), null, fact);
        }
        let exact = a.range.multiply(b.range);
        if exact.is_some_and(Interval::fits_i64) {
            let product = self.b.ins().imul(l.narrow(), r.narrow());
            return self.in_type(Lane::Narrow(product), exact, null, fact);
        }
        let product = self.wide_product(l.narrow(), r.narrow());
        self.in_type(Lane::Wide(product), exact, null, fact)
    }

    /// The 128-bit product of two 64-bit numbers.
    fn wide_product(&mut self, a: Value, b: Value) -> Value {
        let low = self.b.ins().imul(a, b);
        let high = self.b.ins().smulhi(a, b);
        self.b.ins().iconcat(low, high)
    }

    /// Product of two numbers of which at least one may exceed 64 bits. Most values of wide types
    /// are small: those take two multiplications, others a call.
    fn wide_multiply(
        &mut self,
        (l, a): (Val, &Fact),
        (r, b): (Val, &Fact),
        null: Null,
        fact: &Fact,
    ) -> Lane {
        let result = Fact {
            nullable: false,
            ..*fact
        };
        let (merge, product) = self.merge(&result);
        let (fast, slow) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(slow);
        let (x, x_fits) = self.low_half(l);
        let (y, y_fits) = self.low_half(r);
        let fits = match (x_fits, y_fits) {
            (Some(x), Some(y)) => self.b.ins().band(x, y),
            (Some(fits), None) | (None, Some(fits)) => fits,
            (None, None) => panic!("J2: one factor is wide"),
        };
        self.b.ins().brif(fits, fast, &[], slow, &[]);

        self.b.switch_to_block(fast);
        let small = self.wide_product(x, y);
        let exact = a
            .range
            .intersect(ALL_I64)
            .multiply(b.range.intersect(ALL_I64));
        let small = self.in_type(Lane::Wide(small), exact, null, fact);
        self.jump_with(merge, Val::some(small), &result);

        self.b.switch_to_block(slow);
        let exact_type = |f: &Fact| match f.ty {
            Type::Decimal { .. } => f.ty,
            _ => WHOLE,
        };
        let large = self.unless_null(
            null,
            &Fact {
                nullable: true,
                ..*fact
            },
            |c| {
                let (l, r) = ((l, exact_type(a)), (r, exact_type(b)));
                c.arithmetic_call(Arithmetic::Multiply, l, r, &result)
            },
        );
        self.jump_with(merge, Val::some(large.lane), &result);

        self.b.switch_to_block(merge);
        product.lane
    }

    /// The low 64 bits of a number and, if it is wide, whether they are all of it.
    fn low_half(&mut self, val: Val) -> (Value, Option<Value>) {
        match val.lane {
            Lane::Wide(value) => {
                let (low, high) = self.b.ins().isplit(value);
                let sign = self.b.ins().sshr_imm_s(low, 63);
                (low, Some(self.b.ins().icmp(IntCC::Equal, sign, high)))
            }
            _ => (val.narrow(), None),
        }
    }

    /// Checks a result against its type, unless its range shows that it fits, and gives it the
    /// form of its fact.
    pub(super) fn in_type(
        &mut self,
        lane: Lane,
        exact: Option<Interval>,
        null: Null,
        fact: &Fact,
    ) -> Lane {
        let all = Interval::of_type(fact.ty);
        if exact.is_some_and(|exact| exact.is_within(all)) {
            return self.as_fact(lane, fact);
        }
        let bad = match lane {
            Lane::Wide(value) => self.wide_outside(value, all),
            _ => self.outside(Val::some(lane).narrow(), all.intersect(ALL_I64)),
        };
        self.fail_if(bad, null);
        self.as_fact(lane, fact)
    }

    /// Gives a number in 64 or 128 bits the width of its fact.
    pub(super) fn as_fact(&mut self, lane: Lane, fact: &Fact) -> Lane {
        match lane {
            Lane::Wide(v) if fact.is_narrow() => Lane::Narrow(self.b.ins().ireduce(types::I64, v)),
            Lane::Narrow(v) if !fact.is_narrow() => {
                Lane::Wide(self.b.ins().sextend(types::I128, v))
            }
            _ => lane,
        }
    }

    pub(super) fn negate(&mut self, operand: NodeId, fact: &Fact) -> Val {
        let val = self.value(operand);
        let null = val.null;
        let exact = self.fact(operand).range.negate();
        let lane = match val.lane {
            Lane::Double(v) => Lane::Double(self.b.ins().fneg(v)),
            Lane::Narrow(v) if fact.ty == Type::Int || exact.is_some_and(Interval::fits_i64) => {
                if !exact.is_some_and(Interval::fits_i64) {
                    let bad = self.b.ins().icmp_imm_s(IntCC::Equal, v, i64::MIN);
                    self.fail_if(bad, null);
                }
                let negative = self.b.ins().ineg(v);
                self.as_fact(Lane::Narrow(negative), fact)
            }
            _ => {
                let value = self.widen(val);
                let zero = self.wide_int(0);
                let negative = self.b.ins().isub(zero, value);
                self.in_type(Lane::Wide(negative), exact, null, fact)
            }
        };
        Val { lane, null }
    }
}

/// Range of an exact result, or `None` beyond 128 bits.
fn exact_range(op: Arithmetic, a: Interval, b: Interval) -> Option<Interval> {
    match op {
        Arithmetic::Add => a.add(b),
        Arithmetic::Subtract => a.subtract(b),
        _ => a.multiply(b),
    }
}
