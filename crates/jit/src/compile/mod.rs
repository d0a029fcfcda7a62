//! From a program to machine code: one function per mode, with the loop over records inside.
//!
//! - `filter`, `evaluate`: the functions, around the loop of `records`;
//! - `value`: a node to a register, `predicate`: a truth value to branches;
//! - `column`, `number`, `cast`, `date`, `text`, `list`: the operations.
//!
//! Invariants of the code made:
//! - it evaluates what the interpreter evaluates, in the same order, so that the same records
//!   fail: an operand whose evaluation can fail is skipped exactly if the interpreter skips it;
//! - a NULL's register holds some value of its form, which no trapping instruction and no helper
//!   gets to see;
//! - it reads the record below its constant part (J1) and variable-length items after a bounds
//!   check, and writes `out`, `valid` and `failed` at most once per record.

mod call;
mod cast;
mod column;
mod date;
mod emit;
mod evaluate;
mod filter;
mod list;
mod number;
mod predicate;
mod records;
mod text;
mod value;

use std::collections::HashMap;

use cranelift_codegen::ir::{Block, StackSlot, StackSlotData, StackSlotKind, Value};
use cranelift_codegen::isa::TargetFrontendConfig;
use cranelift_frontend::FunctionBuilder;
use perigee_expr::{Node, NodeId, Program};
use perigee_page::RecordShape;

use crate::JitError;
use crate::constants::Constants;
use crate::facts::{Fact, Facts};

pub(crate) use evaluate::compile_evaluate;
pub(crate) use filter::compile_filter;
use records::RecordLoop;

/// Greatest number of operations of a function: every node of the largest program counts at most
/// twice. Only nodes that several nodes share can come to more, because their code can be there
/// once per path that leads to them.
const MAX_OPERATIONS: u32 = 10_000;

/// What a function is made from.
pub(crate) struct Source<'a> {
    pub program: &'a Program,
    pub facts: &'a Facts,
    pub shape: RecordShape,
}

/// Physical form of a value.
#[derive(Clone, Copy)]
enum Lane {
    /// I64: integers (unsigned ones by bit pattern), dates, truth values, short decimals.
    Narrow(Value),
    /// I128: decimals whose range exceeds 64 bits.
    Wide(Value),
    /// F64.
    Double(Value),
    /// Address and number of bytes (I64 both).
    Text { start: Value, len: Value },
}

/// Whether a value is NULL.
#[derive(Clone, Copy)]
enum Null {
    Never,
    Always,
    /// I8: 1 = NULL, 0 = not NULL.
    Flag(Value),
}

/// A value in registers.
#[derive(Clone, Copy)]
struct Val {
    lane: Lane,
    null: Null,
}

/// Where a predicate goes on.
#[derive(Clone, Copy)]
struct Targets {
    yes: Block,
    no: Block,
    null: Block,
}

/// State of code generation inside the loop over records.
struct Compiler<'a, 'f> {
    b: FunctionBuilder<'f>,
    program: &'a Program,
    facts: &'a Facts,
    shape: RecordShape,
    constants: &'a mut Constants,
    /// Address of the record.
    record: Value,
    /// Address after the last byte of the page.
    limit: Value,
    /// Where helpers leave results.
    slot: StackSlot,
    /// Where evaluation goes on if it is an error.
    fail: Block,
    /// Where it goes if the record does not keep to its shape.
    corrupt: Block,
    /// Values computed in blocks that dominate the current one.
    memo: HashMap<NodeId, Val>,
    /// Keys of `memo` in order of insertion.
    memo_order: Vec<NodeId>,
    /// Operations written so far.
    operations: u32,
}

/// A point to which the memo can be taken back.
#[derive(Clone, Copy)]
struct Scope(usize);

impl<'a, 'f> Compiler<'a, 'f> {
    /// State at the start of a record's code.
    fn new(
        mut b: FunctionBuilder<'f>,
        source: &Source<'a>,
        constants: &'a mut Constants,
        records: &RecordLoop,
    ) -> Self {
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, 16, 4);
        Self {
            slot: b.create_sized_stack_slot(slot),
            b,
            program: source.program,
            facts: source.facts,
            shape: source.shape,
            constants,
            record: records.record,
            limit: records.frame().limit,
            fail: records.fail,
            corrupt: records.corrupt,
            memo: HashMap::new(),
            memo_order: Vec::new(),
            operations: 0,
        }
    }

    /// Counts an operation; true if there are too many. Generation then ends soon, and what it
    /// made is thrown away.
    fn count_operation(&mut self) -> bool {
        self.operations = self.operations.saturating_add(1);
        self.operations > MAX_OPERATIONS
    }

    /// The finished function, unless it is too large.
    fn finish(self, config: TargetFrontendConfig) -> Result<(), JitError> {
        let too_large = self.operations > MAX_OPERATIONS;
        self.b.finalize(config);
        if too_large {
            return Err(JitError::TooLarge {
                limit: MAX_OPERATIONS,
            });
        }
        Ok(())
    }

    fn node(&self, id: NodeId) -> &'a Node {
        &self.program.nodes[usize::from(id.0)]
    }

    fn fact(&self, id: NodeId) -> Fact {
        *self.facts.of(id)
    }

    fn root(&self) -> NodeId {
        NodeId((self.program.nodes.len() - 1) as u16)
    }

    /// Begins code that does not always run.
    fn enter(&self) -> Scope {
        Scope(self.memo_order.len())
    }

    /// Forgets the values that were computed since.
    fn leave(&mut self, scope: Scope) {
        for id in self.memo_order.drain(scope.0..) {
            self.memo.remove(&id);
        }
    }

    fn remember(&mut self, id: NodeId, val: Val) {
        if self.memo.insert(id, val).is_none() {
            self.memo_order.push(id);
        }
    }
}
