//! The function that filters: for each record a jump to "passes", "does not" or "fails".

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value, types};
use cranelift_frontend::FunctionBuilder;
use cranelift_module::FuncId;

use super::emit::access;
use super::{Compiler, Source, Targets};
use crate::JitError;
use crate::code::{Builder, Call};
use crate::constants::Constants;

/// Compiles the filter of a Bool program.
pub(crate) fn compile_filter(
    code: &mut Builder,
    source: &Source<'_>,
    constants: &mut Constants,
) -> Result<FuncId, JitError> {
    code.define("filter", |b, config| {
        let frame = Frame::new(b);
        write_filter(frame, source, constants).finish(config)
    })
}

/// The entry block of a compiled function: the call's fields in registers.
pub(super) struct Frame<'f> {
    pub b: FunctionBuilder<'f>,
    pub call: Value,
    pub base: Value,
    pub limit: Value,
    pub records: Value,
    /// Address behind the last record's offset.
    pub end: Value,
    pub out: Value,
    pub failed: Value,
    pub valid: Value,
}

impl<'f> Frame<'f> {
    pub(super) fn new(mut b: FunctionBuilder<'f>) -> Self {
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let call = b.block_params(entry)[0];
        let mut field = |offset: usize| b.ins().load(types::I64, access(), call, offset as i32);
        let base = field(std::mem::offset_of!(Call, base));
        let limit = field(std::mem::offset_of!(Call, limit));
        let records = field(std::mem::offset_of!(Call, records));
        let count = field(std::mem::offset_of!(Call, count));
        let out = field(std::mem::offset_of!(Call, out));
        let failed = field(std::mem::offset_of!(Call, failed));
        let valid = field(std::mem::offset_of!(Call, valid));
        let bytes = b.ins().ishl_imm_u(count, 1);
        let end = b.ins().iadd(records, bytes);
        Self {
            b,
            call,
            base,
            limit,
            records,
            end,
            out,
            failed,
            valid,
        }
    }

    /// Ends the function where all records are done, and where one is corrupt.
    pub(super) fn finish(
        b: &mut FunctionBuilder<'f>,
        call: Value,
        out_count: Value,
        failed_count: Value,
        corrupt: Block,
    ) {
        let field = std::mem::offset_of!(Call, out_count) as i32;
        b.ins().store(access(), out_count, call, field);
        let field = std::mem::offset_of!(Call, failed_count) as i32;
        b.ins().store(access(), failed_count, call, field);
        let fine = b.ins().iconst(types::I64, 0);
        b.ins().return_(&[fine]);
        b.switch_to_block(corrupt);
        let bad = b.ins().iconst(types::I64, 1);
        b.ins().return_(&[bad]);
        b.seal_all_blocks();
    }
}

pub(super) fn args(values: &[Value]) -> Vec<BlockArg> {
    values.iter().copied().map(BlockArg::Value).collect()
}

/// Adds parameters to a block.
pub(super) fn params<const N: usize>(b: &mut FunctionBuilder<'_>, block: Block) -> [Value; N] {
    std::array::from_fn(|_| b.append_block_param(block, types::I64))
}

/// The loop: `body` has the addresses of the record's offset and of the next places in both
/// outputs; `next` those places after the record.
fn write_filter<'a, 'f>(
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
        out: first_out,
        failed,
        ..
    } = frame;
    let first_failed = failed;
    let mut block = || b.create_block();
    let (body, next, done) = (block(), block(), block());
    let (pass, skip, fail, corrupt) = (block(), block(), block(), block());
    b.set_cold_block(fail);
    b.set_cold_block(corrupt);
    let [at, out, failed] = params(&mut b, body);
    let [next_out, next_failed] = params(&mut b, next);
    let [last_out, last_failed] = params(&mut b, done);
    let empty = b.ins().icmp(IntCC::Equal, records, end);
    let (to_done, to_body) = (
        args(&[first_out, first_failed]),
        args(&[records, first_out, first_failed]),
    );
    b.ins().brif(empty, done, &to_done, body, &to_body);

    b.switch_to_block(body);
    let offset = b.ins().uload16(types::I64, access(), at, 0);
    let record = b.ins().iadd(base, offset);
    let mut c = Compiler::new(b, source, constants, (record, limit), fail, corrupt);
    let root = c.root();
    c.predicate(
        root,
        Targets {
            yes: pass,
            no: skip,
            null: skip,
        },
    );
    let b = &mut c.b;

    b.switch_to_block(pass);
    b.ins().istore16(access(), offset, out, 0);
    let out_after = b.ins().iadd_imm_s(out, 2);
    b.ins().jump(next, &args(&[out_after, failed]));
    b.switch_to_block(fail);
    b.ins().istore16(access(), offset, failed, 0);
    let failed_after = b.ins().iadd_imm_s(failed, 2);
    b.ins().jump(next, &args(&[out, failed_after]));
    b.switch_to_block(skip);
    b.ins().jump(next, &args(&[out, failed]));

    b.switch_to_block(next);
    let at = b.ins().iadd_imm_s(at, 2);
    let finished = b.ins().icmp(IntCC::Equal, at, end);
    let (to_done, to_body) = (
        args(&[next_out, next_failed]),
        args(&[at, next_out, next_failed]),
    );
    b.ins().brif(finished, done, &to_done, body, &to_body);

    b.switch_to_block(done);
    let bytes = b.ins().isub(last_out, first_out);
    let passed = b.ins().ushr_imm_u(bytes, 1);
    let bytes = b.ins().isub(last_failed, first_failed);
    let failures = b.ins().ushr_imm_u(bytes, 1);
    Frame::finish(b, call, passed, failures, corrupt);
    c
}
