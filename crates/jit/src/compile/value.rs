//! Values in registers: constants, truth values, CASE, and the memory of what was computed.

use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value, types};
use perigee_expr::{Node, NodeId, Type};
use perigee_value::Datum;

use super::{Compiler, Lane, Null, Targets, Val};
use crate::facts::{Fact, integer};

impl Compiler<'_, '_> {
    /// Evaluates a node and goes on in a block that its value dominates.
    pub(super) fn value(&mut self, id: NodeId) -> Val {
        let id = self.facts.canonical(id);
        if let Some(val) = self.memo.get(&id) {
            return *val;
        }
        let fact = self.fact(id);
        if self.count_operation() {
            return Val::some(self.zero(&fact));
        }
        let val = match self.node(id) {
            // Constants are immediates: nothing to remember.
            Node::Constant { value, .. } => return self.constant(value, &fact),
            Node::Column { .. } => self.column(id),
            Node::Arithmetic {
                op, left, right, ..
            } => self.arithmetic(*op, *left, *right, &fact),
            Node::Negate(operand) => self.negate(*operand, &fact),
            Node::Cast { operand, .. } => self.cast(*operand, &fact),
            Node::Extract { field, operand } => self.extract(*field, *operand),
            Node::Substring {
                operand,
                start,
                length,
            } => self.substring(*operand, *start, *length),
            Node::Case {
                branches,
                otherwise,
                ..
            } if fact.ty != Type::Bool => self.case(branches, *otherwise, &fact),
            Node::Compare { .. }
            | Node::And(_)
            | Node::Or(_)
            | Node::Not(_)
            | Node::IsNull(_)
            | Node::In { .. }
            | Node::Like { .. }
            | Node::Case { .. } => self.truth(id, &fact),
        };
        self.remember(id, val);
        val
    }

    fn constant(&mut self, value: &Datum, fact: &Fact) -> Val {
        if *value == Datum::Null {
            return Val {
                lane: self.zero(fact),
                null: Null::Always,
            };
        }
        let lane = match value {
            Datum::Double(v) => Lane::Double(self.b.ins().f64const(*v)),
            Datum::String(v) => {
                let bytes = self.constants.keep_bytes(v);
                let start = self.address(bytes);
                Lane::Text {
                    start,
                    len: self.int(v.len() as i64),
                }
            }
            _ => {
                let number = integer(value).expect("J2: all other constants are integers");
                if fact.is_narrow() {
                    Lane::Narrow(self.int(number as i64))
                } else {
                    Lane::Wide(self.wide_int(number))
                }
            }
        };
        Val::some(lane)
    }

    /// The register of a NULL.
    pub(super) fn zero(&mut self, fact: &Fact) -> Lane {
        match fact.ty {
            Type::Double => Lane::Double(self.b.ins().f64const(0.0)),
            Type::String | Type::Collated(_) => {
                let start = self.record;
                Lane::Text {
                    start,
                    len: self.int(0),
                }
            }
            _ if fact.is_narrow() => Lane::Narrow(self.int(0)),
            _ => Lane::Wide(self.wide_int(0)),
        }
    }

    /// A truth value as 0 or 1.
    fn truth(&mut self, id: NodeId, fact: &Fact) -> Val {
        let merge = self.b.create_block();
        let truth = self.b.append_block_param(merge, types::I64);
        let null = fact
            .nullable
            .then(|| self.b.append_block_param(merge, types::I8));
        let mut outcome = || self.b.create_block();
        let (yes, no) = (outcome(), outcome());
        let unknown = if fact.nullable { outcome() } else { no };
        let scope = self.enter();
        self.predicate(
            id,
            Targets {
                yes,
                no,
                null: unknown,
            },
        );
        self.leave(scope);
        let mut outcomes = vec![(yes, 1, 0), (no, 0, 0)];
        if fact.nullable {
            outcomes.push((unknown, 0, 1));
        }
        for (block, truth, flag) in outcomes {
            self.b.switch_to_block(block);
            let mut args = vec![BlockArg::Value(self.int(truth))];
            if fact.nullable {
                args.push(BlockArg::Value(self.b.ins().iconst(types::I8, flag)));
            }
            self.b.ins().jump(merge, &args);
        }
        self.b.switch_to_block(merge);
        Val {
            lane: Lane::Narrow(truth),
            null: null.map_or(Null::Never, Null::Flag),
        }
    }

    /// CASE: only the branch taken is evaluated.
    fn case(
        &mut self,
        branches: &[(NodeId, NodeId)],
        otherwise: Option<NodeId>,
        fact: &Fact,
    ) -> Val {
        let (merge, val) = self.merge(fact);
        let scope = self.enter();
        for (when, then) in branches {
            let (taken, next) = (self.b.create_block(), self.b.create_block());
            self.predicate(
                *when,
                Targets {
                    yes: taken,
                    no: next,
                    null: next,
                },
            );
            self.b.switch_to_block(taken);
            let inner = self.enter();
            let result = self.value(*then);
            self.leave(inner);
            self.jump_with(merge, result, fact);
            self.b.switch_to_block(next);
        }
        let result = match otherwise {
            Some(value) => self.value(value),
            None => Val {
                lane: self.zero(fact),
                null: Null::Always,
            },
        };
        self.jump_with(merge, result, fact);
        self.leave(scope);
        self.b.switch_to_block(merge);
        val
    }

    /// A block that takes a value of this kind as its parameters.
    pub(super) fn merge(&mut self, fact: &Fact) -> (Block, Val) {
        let block = self.b.create_block();
        let mut param = |ty| self.b.append_block_param(block, ty);
        let lane = match fact.ty {
            Type::Double => Lane::Double(param(types::F64)),
            Type::String | Type::Collated(_) => Lane::Text {
                start: param(types::I64),
                len: param(types::I64),
            },
            _ if fact.is_narrow() => Lane::Narrow(param(types::I64)),
            _ => Lane::Wide(param(types::I128)),
        };
        let null = if fact.nullable {
            Null::Flag(param(types::I8))
        } else {
            Null::Never
        };
        (block, Val { lane, null })
    }

    /// Ends the block with a jump to one that [`Self::merge`] made for the same fact.
    pub(super) fn jump_with(&mut self, block: Block, val: Val, fact: &Fact) {
        let mut args: Vec<Value> = match val.lane {
            Lane::Narrow(v) if !fact.is_narrow() => vec![self.b.ins().sextend(types::I128, v)],
            Lane::Narrow(v) | Lane::Wide(v) | Lane::Double(v) => vec![v],
            Lane::Text { start, len } => vec![start, len],
        };
        if fact.nullable {
            args.push(val.null.flag(self));
        }
        let args: Vec<BlockArg> = args.into_iter().map(BlockArg::Value).collect();
        self.b.ins().jump(block, &args);
    }

    /// Runs `compute` unless the operand is NULL, so that it never sees a NULL's register.
    pub(super) fn unless_null(
        &mut self,
        null: Null,
        fact: &Fact,
        compute: impl FnOnce(&mut Self) -> Val,
    ) -> Val {
        let flag = match null {
            Null::Never => return compute(self),
            Null::Always => {
                return Val {
                    lane: self.zero(fact),
                    null: Null::Always,
                };
            }
            Null::Flag(flag) => flag,
        };
        let (merge, val) = self.merge(fact);
        let (here, skip) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(flag, skip, &[], here, &[]);
        self.b.switch_to_block(skip);
        let zero = self.zero(fact);
        self.jump_with(
            merge,
            Val {
                lane: zero,
                null: Null::Always,
            },
            fact,
        );
        self.b.switch_to_block(here);
        let scope = self.enter();
        let result = compute(self);
        self.leave(scope);
        self.jump_with(merge, result, fact);
        self.b.switch_to_block(merge);
        val
    }
}
