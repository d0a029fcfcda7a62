//! The function that computes: one lane per record, with a byte that tells NULL apart.
//!
//! Strings leave as pairs of address and length (16 bytes); the caller copies them.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use cranelift_module::FuncId;
use perigee_expr::{Lanes, NodeId, Type};

use super::emit::access;
use super::filter::{Frame, args, params};
use super::{Compiler, Lane, Null, Source, Val};
use crate::JitError;
use crate::code::Builder;
use crate::constants::Constants;
use crate::facts::Fact;

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
        let frame = Frame::new(b);
        write_evaluate(frame, source, constants).finish(config)
    })
}

/// The blocks of the loop.
struct Blocks {
    /// One record; parameters: where its offset is, where its lane and valid byte go, where the
    /// next failed position goes, NULL lanes so far.
    body: Block,
    /// After a record: the next failed position, NULL lanes.
    next: Block,
    /// After all records: the same.
    done: Block,
    fail: Block,
    corrupt: Block,
}

fn write_evaluate<'a, 'f>(
    frame: Frame<'f>,
    source: &Source<'a>,
    constants: &'a mut Constants,
) -> Compiler<'a, 'f> {
    let Frame {
        mut b,
        call,
        base,
        limit,
        records,
        end,
        out,
        failed: first_failed,
        valid,
    } = frame;
    let mut block = || b.create_block();
    let blocks = Blocks {
        body: block(),
        next: block(),
        done: block(),
        fail: block(),
        corrupt: block(),
    };
    b.set_cold_block(blocks.fail);
    b.set_cold_block(blocks.corrupt);
    let [at, lane, mark, failed, nulls] = params(&mut b, blocks.body);
    let [next_failed, next_nulls] = params(&mut b, blocks.next);
    let [last_failed, last_nulls] = params(&mut b, blocks.done);
    let zero = b.ins().iconst(types::I64, 0);
    let empty = b.ins().icmp(IntCC::Equal, records, end);
    let (to_done, to_body) = (
        args(&[first_failed, zero]),
        args(&[records, out, valid, first_failed, zero]),
    );
    b.ins()
        .brif(empty, blocks.done, &to_done, blocks.body, &to_body);

    b.switch_to_block(blocks.body);
    let offset = b.ins().uload16(types::I64, access(), at, 0);
    let record = b.ins().iadd(base, offset);
    let mut c = Compiler::new(
        b,
        source,
        constants,
        (record, limit),
        blocks.fail,
        blocks.corrupt,
    );
    let root = c.root();
    let fact = c.fact(root);
    let marks = fact.nullable || fact.fails;
    let val = c.value(root);
    c.store_lane(root, val, lane);
    let nulls_after = if marks {
        c.store_mark(val.null, mark, nulls)
    } else {
        nulls
    };
    c.b.ins().jump(blocks.next, &args(&[failed, nulls_after]));

    c.b.switch_to_block(blocks.fail);
    let zeros = c.zero(&fact);
    c.store_lane(
        root,
        Val {
            lane: zeros,
            null: Null::Never,
        },
        lane,
    );
    let nulls_after = if marks {
        c.store_mark(Null::Always, mark, nulls)
    } else {
        nulls
    };
    let b = &mut c.b;
    let bytes = b.ins().isub(at, records);
    let position = b.ins().ushr_imm_u(bytes, 1);
    b.ins().istore32(access(), position, failed, 0);
    let failed_after = b.ins().iadd_imm_s(failed, 4);
    b.ins()
        .jump(blocks.next, &args(&[failed_after, nulls_after]));

    b.switch_to_block(blocks.next);
    let at = b.ins().iadd_imm_s(at, 2);
    let lane = b.ins().iadd_imm_s(lane, lane_bytes(fact.ty) as i64);
    let mark = if marks {
        b.ins().iadd_imm_s(mark, 1)
    } else {
        mark
    };
    let finished = b.ins().icmp(IntCC::Equal, at, end);
    let (to_done, to_body) = (
        args(&[next_failed, next_nulls]),
        args(&[at, lane, mark, next_failed, next_nulls]),
    );
    b.ins()
        .brif(finished, blocks.done, &to_done, blocks.body, &to_body);

    b.switch_to_block(blocks.done);
    let bytes = b.ins().isub(last_failed, first_failed);
    let failures = b.ins().ushr_imm_u(bytes, 2);
    Frame::finish(b, call, last_nulls, failures, blocks.corrupt);
    c
}

impl Compiler<'_, '_> {
    /// Writes a lane; a NULL's is zero or empty.
    fn store_lane(&mut self, root: NodeId, val: Val, lane: Value) {
        let fact = self.fact(root);
        let parts = self.lane_parts(val, &fact);
        let zeros = Val {
            lane: self.zero(&fact),
            null: Null::Never,
        };
        let zeros = self.lane_parts(zeros, &fact);
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

    /// Writes the valid byte; gives the NULL lanes so far.
    fn store_mark(&mut self, null: Null, mark: Value, nulls: Value) -> Value {
        let flag = null.flag(self);
        let valid = self.b.ins().bxor_imm_u(flag, 1);
        self.b.ins().store(access(), valid, mark, 0);
        let one = self.b.ins().uextend(types::I64, flag);
        self.b.ins().iadd(nulls, one)
    }
}
