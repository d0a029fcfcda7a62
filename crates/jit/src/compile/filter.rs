//! The function that filters: for each record a jump to "passes", "does not" or "fails".

use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::FunctionBuilder;
use cranelift_module::FuncId;

use super::emit::access;
use super::records::{Frame, RecordLoop};
use super::{Compiler, Source, Targets};
use crate::JitError;
use crate::code::Builder;
use crate::constants::Constants;

/// Bytes of a record's offset.
const OFFSET_BYTES: i64 = 2;

/// Compiles the filter of a Bool program.
pub(crate) fn compile_filter(
    code: &mut Builder,
    source: &Source<'_>,
    constants: &mut Constants,
) -> Result<FuncId, JitError> {
    code.define("filter", |b, config| {
        write_filter(b, source, constants).finish(config)
    })
}

fn write_filter<'a, 'f>(
    mut b: FunctionBuilder<'f>,
    source: &Source<'a>,
    constants: &'a mut Constants,
) -> Compiler<'a, 'f> {
    let frame = Frame::new(&mut b);
    // The loop carries where the next offsets go.
    let carried = [frame.out, frame.failed];
    let (records, [out, failed]) = RecordLoop::begin(&mut b, frame, carried);
    let mut c = Compiler::new(b, source, constants, &records);
    let (yes, no) = (c.b.create_block(), c.b.create_block());
    let root = c.root();
    c.predicate(root, Targets { yes, no, null: no });

    let b = &mut c.b;
    b.switch_to_block(yes);
    let after = append_offset(b, &records, out);
    records.go_on(b, &[after, failed]);
    b.switch_to_block(records.fail);
    let after = append_offset(b, &records, failed);
    records.go_on(b, &[out, after]);
    b.switch_to_block(no);
    records.go_on(b, &[out, failed]);

    let [out, failed] = records.end(b);
    let passed = count(b, records.frame().out, out);
    let failures = count(b, records.frame().failed, failed);
    records.finish(b, passed, failures);
    c
}

/// Stores the record's offset; gives where the next one goes.
fn append_offset(b: &mut FunctionBuilder<'_>, records: &RecordLoop, place: Value) -> Value {
    b.ins().istore16(access(), records.offset, place, 0);
    b.ins().iadd_imm_s(place, OFFSET_BYTES)
}

/// Number of offsets between two places.
fn count(b: &mut FunctionBuilder<'_>, first: Value, last: Value) -> Value {
    let bytes = b.ins().isub(last, first);
    b.ins().udiv_imm_u(bytes, OFFSET_BYTES)
}
