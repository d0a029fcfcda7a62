//! Small pieces of code that all operations use.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{AbiParam, Block, InstBuilder, MemFlagsData, Signature, Value, types};

use super::{Compiler, Lane, Null, Val};
use crate::interval::Interval;

/// Loads and stores of this crate's code: in bounds by J1 or a check, aligned or not.
pub(super) fn access() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

impl Null {
    /// NULL if either is.
    pub(super) fn or(self, other: Null, c: &mut Compiler<'_, '_>) -> Null {
        match (self, other) {
            (Null::Always, _) | (_, Null::Always) => Null::Always,
            (Null::Never, n) | (n, Null::Never) => n,
            (Null::Flag(a), Null::Flag(b)) => Null::Flag(c.b.ins().bor(a, b)),
        }
    }

    /// The flag as a value.
    pub(super) fn flag(self, c: &mut Compiler<'_, '_>) -> Value {
        match self {
            Null::Never => c.b.ins().iconst(types::I8, 0),
            Null::Always => c.b.ins().iconst(types::I8, 1),
            Null::Flag(flag) => flag,
        }
    }
}

impl Val {
    pub(super) fn some(lane: Lane) -> Self {
        Self {
            lane,
            null: Null::Never,
        }
    }

    /// The register of a value that is narrow by its type or range.
    pub(super) fn narrow(self) -> Value {
        match self.lane {
            Lane::Narrow(v) => v,
            _ => panic!("J2: a narrow value is expected here"),
        }
    }

    pub(super) fn double(self) -> Value {
        match self.lane {
            Lane::Double(v) => v,
            _ => panic!("J2: a double is expected here"),
        }
    }

    /// Address and length of a string.
    pub(super) fn text(self) -> (Value, Value) {
        match self.lane {
            Lane::Text { start, len } => (start, len),
            _ => panic!("J2: a string is expected here"),
        }
    }
}

impl Compiler<'_, '_> {
    pub(super) fn int(&mut self, value: i64) -> Value {
        self.b.ins().iconst(types::I64, value)
    }

    /// A 128-bit constant.
    pub(super) fn wide_int(&mut self, value: i128) -> Value {
        let low = self.int(value as i64);
        let high = self.int((value >> 64) as i64);
        self.b.ins().iconcat(low, high)
    }

    /// A number in 128 bits.
    pub(super) fn widen(&mut self, val: Val) -> Value {
        match val.lane {
            Lane::Wide(v) => v,
            Lane::Narrow(v) => self.b.ins().sextend(types::I128, v),
            _ => panic!("J2: a number is expected here"),
        }
    }

    /// Address of data that lives as long as the code.
    pub(super) fn address<T: ?Sized>(&mut self, data: *const T) -> Value {
        self.int(data.cast::<u8>() as i64)
    }

    /// Goes on in a new block if `condition` is 0, else at `target`.
    pub(super) fn leave_if(&mut self, condition: Value, target: Block) {
        let go_on = self.b.create_block();
        self.b.ins().brif(condition, target, &[], go_on, &[]);
        self.b.switch_to_block(go_on);
    }

    /// Makes the record fail if `condition` holds for a value that is not NULL.
    pub(super) fn fail_if(&mut self, condition: Value, null: Null) {
        let condition = match null {
            Null::Always => return,
            Null::Never => condition,
            Null::Flag(flag) => self.b.ins().band_not(condition, flag),
        };
        self.leave_if(condition, self.fail);
    }

    /// 1 if a narrow signed value lies outside `range`.
    pub(super) fn outside(&mut self, value: Value, range: Interval) -> Value {
        let span = (range.high - range.low) as u64;
        let from_low = self
            .b
            .ins()
            .iadd_imm_s(value, (range.low as i64).wrapping_neg());
        let span = self.int(span as i64);
        self.b
            .ins()
            .icmp(IntCC::UnsignedGreaterThan, from_low, span)
    }

    /// 1 if a 128-bit value lies outside `range`, whose width must fit a `u128`.
    pub(super) fn wide_outside(&mut self, value: Value, range: Interval) -> Value {
        let span = range.high.wrapping_sub(range.low);
        let low = self.wide_int(range.low.wrapping_neg());
        let from_low = self.b.ins().iadd(value, low);
        let span = self.wide_int(span);
        self.b
            .ins()
            .icmp(IntCC::UnsignedGreaterThan, from_low, span)
    }

    /// Calls a helper, an `extern "C"` function with I64 arguments (F64 where the value is one)
    /// and as many I64 results.
    pub(super) fn call(&mut self, helper: *const u8, args: &[Value], results: usize) -> Vec<Value> {
        let mut signature = Signature::new(self.b.func.signature.call_conv);
        for arg in args {
            let ty = self.b.func.dfg.value_type(*arg);
            signature.params.push(AbiParam::new(ty));
        }
        signature.returns.resize(results, AbiParam::new(types::I64));
        let signature = self.b.import_signature(signature);
        let callee = self.address(helper);
        let call = self.b.ins().call_indirect(signature, callee, args);
        self.b.inst_results(call).to_vec()
    }
}
