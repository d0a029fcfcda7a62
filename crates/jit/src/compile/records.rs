//! The loop over the records of a call that every compiled function consists of.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value, types};
use cranelift_frontend::FunctionBuilder;

use super::emit::access;
use crate::code::Call;

/// The call's fields in registers.
pub(super) struct Frame {
    call: Value,
    base: Value,
    /// Address after the last byte that may be read.
    pub limit: Value,
    /// Address of the first record's offset.
    pub records: Value,
    /// Address behind the last record's offset.
    end: Value,
    pub out: Value,
    pub failed: Value,
    pub valid: Value,
}

impl Frame {
    /// Begins the function.
    pub(super) fn new(b: &mut FunctionBuilder<'_>) -> Self {
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
}

/// The loop, in whose body code is written. It carries a few 64-bit values from record to record.
pub(super) struct RecordLoop {
    frame: Frame,
    /// One record: where its offset is, and what the loop carries.
    body: Block,
    /// After a record: what the loop carries on.
    next: Block,
    /// After all records: what it came to.
    done: Block,
    /// Where the body goes if the record's evaluation is an error.
    pub fail: Block,
    /// Where it goes if the record does not keep to its shape.
    pub corrupt: Block,
    /// Address of the record's offset.
    pub at: Value,
    /// The record's offset in the page.
    pub offset: Value,
    /// The record's address.
    pub record: Value,
}

impl RecordLoop {
    /// Begins the loop with what it carries at first; gives the same values as the body has them.
    pub(super) fn begin<const N: usize>(
        b: &mut FunctionBuilder<'_>,
        frame: Frame,
        carried: [Value; N],
    ) -> (Self, [Value; N]) {
        let (body, next, done) = (b.create_block(), b.create_block(), b.create_block());
        let (fail, corrupt) = (b.create_block(), b.create_block());
        b.set_cold_block(fail);
        b.set_cold_block(corrupt);
        let mut param = |block| b.append_block_param(block, types::I64);
        let at = param(body);
        let inside = carried.map(|_| {
            param(next);
            param(done);
            param(body)
        });
        let empty = b.ins().icmp(IntCC::Equal, frame.records, frame.end);
        let (to_done, to_body) = (args(&[], &carried), args(&[frame.records], &carried));
        b.ins().brif(empty, done, &to_done, body, &to_body);
        b.switch_to_block(body);
        let offset = b.ins().uload16(types::I64, access(), at, 0);
        let record = b.ins().iadd(frame.base, offset);
        (
            Self {
                frame,
                body,
                next,
                done,
                fail,
                corrupt,
                at,
                offset,
                record,
            },
            inside,
        )
    }

    /// Ends the code of a record.
    pub(super) fn go_on(&self, b: &mut FunctionBuilder<'_>, carried: &[Value]) {
        b.ins().jump(self.next, &args(&[], carried));
    }

    /// Ends the loop; the function goes on with what the loop carried out.
    pub(super) fn end<const N: usize>(&self, b: &mut FunctionBuilder<'_>) -> [Value; N] {
        b.switch_to_block(self.next);
        let carried: Vec<Value> = b.block_params(self.next).to_vec();
        let at = b.ins().iadd_imm_s(self.at, 2);
        let finished = b.ins().icmp(IntCC::Equal, at, self.frame.end);
        let (to_done, to_body) = (args(&[], &carried), args(&[at], &carried));
        b.ins()
            .brif(finished, self.done, &to_done, self.body, &to_body);
        b.switch_to_block(self.done);
        let last = b.block_params(self.done);
        last.try_into()
            .expect("the loop carries as many values as it began with")
    }

    /// Ends the function: stores both counts, and says if a record was corrupt.
    pub(super) fn finish(
        &self,
        b: &mut FunctionBuilder<'_>,
        out_count: Value,
        failed_count: Value,
    ) {
        let field = std::mem::offset_of!(Call, out_count) as i32;
        b.ins().store(access(), out_count, self.frame.call, field);
        let field = std::mem::offset_of!(Call, failed_count) as i32;
        b.ins()
            .store(access(), failed_count, self.frame.call, field);
        let fine = b.ins().iconst(types::I64, 0);
        b.ins().return_(&[fine]);
        b.switch_to_block(self.corrupt);
        let bad = b.ins().iconst(types::I64, 1);
        b.ins().return_(&[bad]);
        b.seal_all_blocks();
    }

    pub(super) fn frame(&self) -> &Frame {
        &self.frame
    }
}

fn args(first: &[Value], others: &[Value]) -> Vec<BlockArg> {
    first
        .iter()
        .chain(others)
        .copied()
        .map(BlockArg::Value)
        .collect()
}
