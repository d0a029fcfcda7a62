//! Calls of helpers that give a number, NULL or an error.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use perigee_expr::{Arithmetic, Type};

use super::emit::access;
use super::{Compiler, Lane, Null, Val};
use crate::facts::Fact;
use crate::runtime::{self, Conversion, ERROR, NULL, Operation};

impl Compiler<'_, '_> {
    /// A number in two registers, as helpers take it.
    pub(super) fn halves(&mut self, val: Val) -> [Value; 2] {
        match val.lane {
            Lane::Narrow(v) => [v, self.b.ins().sshr_imm_u(v, 63)],
            Lane::Wide(v) => self.b.ins().isplit(v).into(),
            Lane::Double(v) => {
                let bits = self.b.ins().bitcast(types::I64, MemFlagsData::new(), v);
                [bits, self.int(0)]
            }
            Lane::Text { .. } => panic!("J2: a number is expected here"),
        }
    }

    /// An operation on two numbers that are not NULL, done by the interpreter's function.
    pub(super) fn arithmetic_call(
        &mut self,
        op: Arithmetic,
        (l, l_type): (Val, Type),
        (r, r_type): (Val, Type),
        fact: &Fact,
    ) -> Val {
        let operation = Operation {
            op,
            operands: (l_type, r_type),
            ty: fact.ty,
        };
        let operation = self.constants.keep(operation);
        let operation = self.address(operation);
        let ([a_low, a_high], [b_low, b_high]) = (self.halves(l), self.halves(r));
        let helper = runtime::arithmetic as *const u8;
        self.number_call(helper, &[a_low, a_high, b_low, b_high, operation], fact)
    }

    /// A conversion of a number that is not NULL, done by the interpreter's function.
    pub(super) fn cast_call(&mut self, val: Val, from: Type, fact: &Fact) -> Val {
        let conversion = self.constants.keep(Conversion { from, to: fact.ty });
        let conversion = self.address(conversion);
        let [low, high] = self.halves(val);
        self.number_call(runtime::cast as *const u8, &[low, high, conversion], fact)
    }

    /// Calls a helper that leaves a number behind its last argument and returns a status.
    fn number_call(&mut self, helper: *const u8, args: &[Value], fact: &Fact) -> Val {
        let slot = self.b.ins().stack_addr(types::I64, self.slot, 0);
        let args: Vec<Value> = args.iter().copied().chain([slot]).collect();
        let status = self.call(helper, &args, 1)[0];
        let bad = self.b.ins().icmp_imm_u(IntCC::Equal, status, ERROR as i64);
        self.leave_if(bad, self.fail);
        let null = if fact.nullable {
            Null::Flag(self.b.ins().icmp_imm_u(IntCC::Equal, status, NULL as i64))
        } else {
            Null::Never
        };
        let mut load = |ty| self.b.ins().load(ty, access(), slot, 0);
        let lane = match fact.ty {
            Type::Double => Lane::Double(load(types::F64)),
            _ if fact.is_narrow() => Lane::Narrow(load(types::I64)),
            _ => Lane::Wide(load(types::I128)),
        };
        Val { lane, null }
    }
}
