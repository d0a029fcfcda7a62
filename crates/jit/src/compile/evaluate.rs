//! The function that computes: one lane per record, with a byte that tells NULL apart.
//!
//! Strings leave as pairs of address and length (16 bytes); the caller copies them.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use cranelift_frontend::FunctionBuilder;
use cranelift_module::FuncId;
use perigee_expr::{Lanes, Type};

use super::emit::access;
use super::records::{Frame, RecordLoop};
use super::{Compiler, Lane, Null, Source, Val};
use crate::JitError;
use crate::code::Builder;
use crate::constants::Constants;
use crate::facts::Fact;

/// Bytes of a failed record's position.
const POSITION_BYTES: i64 = 4;

/// Bytes of a lane that the function writes.
pub(crate) fn lane_bytes(ty: Type) -> usize {
    match Lanes::for_type(ty) {
        Lanes::I64(_) | Lanes::U64(_) | Lanes::F64(_) => 8,
        Lanes::I128(_) | Lanes::Bytes { .. } => 16,
    }
}

/// Compiles the evaluation of a program.
pub(crate) fn compile_evaluate(
    code: &mut Builder,
    source: &Source<'_>,
    constants: &mut Constants,
) -> Result<FuncId, JitError> {
    code.define("evaluate", |b, config| {
        write_evaluate(b, source, constants).finish(config)
    })
}

fn write_evaluate<'a, 'f>(
    mut b: FunctionBuilder<'f>,
    source: &Source<'a>,
    constants: &'a mut Constants,
) -> Compiler<'a, 'f> {
    let frame = Frame::new(&mut b);
    let no_nulls = b.ins().iconst(types::I64, 0);
    // The loop carries where the next lane, valid byte and failed position go, and the number of
    // NULL lanes.
    let carried = [frame.out, frame.valid, frame.failed, no_nulls];
    let (records, [lane, mark, failed, nulls]) = RecordLoop::begin(&mut b, frame, carried);
    let mut c = Compiler::new(b, source, constants, &records);
    let root = c.root();
    let fact = c.fact(root);
    let val = c.value(root);
    let (next_lane, next_mark, nulls_after) = c.store_result(val, lane, mark, nulls);
    records.go_on(&mut c.b, &[next_lane, next_mark, failed, nulls_after]);

    c.b.switch_to_block(records.fail);
    let lost = Val {
        lane: c.zero(&fact),
        null: Null::Always,
    };
    let (next_lane, next_mark, nulls_after) = c.store_result(lost, lane, mark, nulls);
    let b = &mut c.b;
    let bytes = b.ins().isub(records.at, records.frame().records);
    let position = b.ins().ushr_imm_u(bytes, 1);
    b.ins().istore32(access(), position, failed, 0);
    let next_failed = b.ins().iadd_imm_s(failed, POSITION_BYTES);
    records.go_on(b, &[next_lane, next_mark, next_failed, nulls_after]);

    let [_, _, failed, nulls] = records.end(b);
    let bytes = b.ins().isub(failed, records.frame().failed);
    let failures = b.ins().udiv_imm_u(bytes, POSITION_BYTES);
    records.finish(b, nulls, failures);
    c
}

impl Compiler<'_, '_> {
    /// Writes lane and valid byte; gives where the next ones go and the NULL lanes so far.
    fn store_result(
        &mut self,
        val: Val,
        lane: Value,
        mark: Value,
        nulls: Value,
    ) -> (Value, Value, Value) {
        let root = self.root();
        let fact = self.fact(root);
        self.store_lane(val, &fact, lane);
        let next_lane = self.b.ins().iadd_imm_s(lane, lane_bytes(fact.ty) as i64);
        if !fact.nullable && !fact.fails {
            return (next_lane, mark, nulls);
        }
        let flag = val.null.flag(self);
        let valid = self.b.ins().bxor_imm_u(flag, 1);
        self.b.ins().store(access(), valid, mark, 0);
        let next_mark = self.b.ins().iadd_imm_s(mark, 1);
        let one = self.b.ins().uextend(types::I64, flag);
        (next_lane, next_mark, self.b.ins().iadd(nulls, one))
    }

    /// Writes a lane; a NULL's is zero or empty.
    fn store_lane(&mut self, val: Val, fact: &Fact, lane: Value) {
        let parts = self.lane_parts(val, fact);
        let zeros = Val::some(self.zero(fact));
        let zeros = self.lane_parts(zeros, fact);
        for (i, (part, zero)) in parts.into_iter().zip(zeros).enumerate() {
            let part = match val.null {
                Null::Never => part,
                Null::Always => zero,
                Null::Flag(flag) => self.b.ins().select(flag, zero, part),
            };
            self.b.ins().store(access(), part, lane, 8 * i as i32);
        }
    }

    /// The values of 8 bytes that a lane consists of.
    fn lane_parts(&mut self, val: Val, fact: &Fact) -> Vec<Value> {
        match val.lane {
            Lane::Narrow(v) if lane_bytes(fact.ty) == 16 => {
                vec![v, self.b.ins().sshr_imm_u(v, 63)]
            }
            Lane::Narrow(v) | Lane::Double(v) => vec![v],
            Lane::Wide(v) => {
                let (low, high) = self.b.ins().isplit(v);
                vec![low, high]
            }
            Lane::Text { start, len } => vec![start, len],
        }
    }
}
