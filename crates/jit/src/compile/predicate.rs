//! Truth values as branches: three-valued logic without truth values in registers.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value, types};
use perigee_expr::{Comparison, Node, NodeId, Type};
use perigee_value::Datum;

use super::{Compiler, Lane, MAX_OPERATIONS, Null, Targets, Val};
use crate::facts::integer;

/// AND or OR.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chain {
    And,
    Or,
}

/// One step of a chain.
enum Step {
    Predicate(NodeId),
    /// Two comparisons with constants: `low <= operand <= high`, all in signed 64 bits.
    Range {
        operand: NodeId,
        low: i64,
        high: i64,
    },
}

/// A lower or upper bound of a node.
struct Bound {
    operand: NodeId,
    low: i128,
    high: i128,
}

impl Compiler<'_, '_> {
    /// Evaluates a Bool and goes on at one of the targets; the current block ends.
    pub(super) fn predicate(&mut self, id: NodeId, t: Targets) {
        if self.count_operation() {
            return self.goto(self.fail);
        }
        match self.node(id) {
            Node::And(list) => self.chain(Chain::And, list, t),
            Node::Or(list) => self.chain(Chain::Or, list, t),
            Node::Not(operand) => {
                self.predicate(
                    *operand,
                    Targets {
                        yes: t.no,
                        no: t.yes,
                        null: t.null,
                    },
                );
            }
            Node::IsNull(operand) => self.is_null(*operand, t),
            Node::Compare { op, left, right } => self.comparison(*op, *left, *right, t),
            Node::In {
                operand,
                list,
                has_null,
            } => self.in_list(*operand, list, *has_null, t),
            Node::Like {
                operand,
                pattern,
                escape,
            } => self.like(*operand, pattern, *escape, t),
            Node::Case {
                branches,
                otherwise,
                ..
            } => self.case_branches(branches, *otherwise, t),
            Node::Constant {
                value: Datum::Bool(true),
                ..
            } => self.goto(t.yes),
            Node::Constant {
                value: Datum::Bool(false),
                ..
            } => self.goto(t.no),
            Node::Constant {
                value: Datum::Null, ..
            } => self.goto(t.null),
            Node::Constant { .. }
            | Node::Column { .. }
            | Node::Arithmetic { .. }
            | Node::Negate(_)
            | Node::Cast { .. }
            | Node::Extract { .. }
            | Node::Substring { .. } => {
                let val = self.value(id);
                let truth = val.narrow();
                self.branch(truth, val.null, t);
            }
        }
    }

    pub(super) fn goto(&mut self, target: Block) {
        self.b.ins().jump(target, &[]);
    }

    /// Goes on by a condition that may be NULL.
    pub(super) fn branch(&mut self, condition: Value, null: Null, t: Targets) {
        if self.skip_null(null, t) {
            self.b.ins().brif(condition, t.yes, &[], t.no, &[]);
        }
    }

    /// Goes on at `t.null` for NULL, else here; false if there is no here.
    pub(super) fn skip_null(&mut self, null: Null, t: Targets) -> bool {
        match null {
            Null::Never => true,
            Null::Always => {
                self.goto(t.null);
                false
            }
            Null::Flag(flag) => {
                self.leave_if(flag, t.null);
                true
            }
        }
    }

    fn is_null(&mut self, operand: NodeId, t: Targets) {
        let fact = self.fact(operand);
        if fact.ty == Type::Bool {
            return self.predicate(
                operand,
                Targets {
                    yes: t.no,
                    no: t.no,
                    null: t.yes,
                },
            );
        }
        match self.value(operand).null {
            Null::Never => self.goto(t.no),
            Null::Always => self.goto(t.yes),
            Null::Flag(flag) => {
                self.b.ins().brif(flag, t.yes, &[], t.no, &[]);
            }
        }
    }

    /// CASE as a truth value: each branch goes on at the targets itself.
    fn case_branches(
        &mut self,
        branches: &[(NodeId, NodeId)],
        otherwise: Option<NodeId>,
        t: Targets,
    ) {
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
            self.predicate(*then, t);
            self.leave(inner);
            self.b.switch_to_block(next);
        }
        match otherwise {
            Some(value) => self.predicate(value, t),
            None => self.goto(t.null),
        }
        self.leave(scope);
    }

    /// AND: stops at the first false. OR: stops at the first true. In both, NULL is remembered
    /// in a block parameter while later operands can still decide or fail.
    fn chain(&mut self, chain: Chain, list: &[NodeId], t: Targets) {
        // `decided`: where an operand that settles the matter leads; `done`: if none did.
        let (decided, done) = match chain {
            Chain::And => (t.no, t.yes),
            Chain::Or => (t.yes, t.no),
        };
        let steps = self.steps(chain, list);
        if steps.len() > MAX_OPERATIONS as usize {
            self.operations = u32::MAX;
            return self.goto(self.fail);
        }
        let failing = steps.iter().rposition(|step| self.step_facts(step).1);
        let mut scope = None;
        let mut pending: Option<Value> = None;
        for (i, step) in steps.iter().enumerate() {
            let last = i + 1 == steps.len();
            let rest_fails = failing.is_some_and(|failing| failing > i);
            let mut null_target = None;
            if t.null == decided && !rest_fails {
                null_target = Some(decided);
            }
            let track = null_target.is_none() && t.null != done && self.step_facts(step).0;
            let next = self.b.create_block();
            if pending.is_some() || track {
                let before = pending;
                pending = Some(self.b.append_block_param(next, types::I8));
                let not_decided = self.b.create_block();
                let null = if track {
                    self.b.create_block()
                } else {
                    not_decided
                };
                let null = null_target.unwrap_or(null);
                self.step(chain, step, decided, not_decided, null);
                self.b.switch_to_block(not_decided);
                let before = before.unwrap_or_else(|| self.b.ins().iconst(types::I8, 0));
                self.b.ins().jump(next, &[BlockArg::Value(before)]);
                if track {
                    self.b.switch_to_block(null);
                    let one = self.b.ins().iconst(types::I8, 1);
                    self.b.ins().jump(next, &[BlockArg::Value(one)]);
                }
            } else {
                self.step(chain, step, decided, next, null_target.unwrap_or(next));
            }
            self.b.switch_to_block(next);
            if last {
                match pending {
                    Some(null) => self.b.ins().brif(null, t.null, &[], done, &[]),
                    None => self.b.ins().jump(done, &[]),
                };
            }
            scope.get_or_insert_with(|| self.enter());
        }
        if let Some(scope) = scope {
            self.leave(scope);
        }
    }

    fn step(&mut self, chain: Chain, step: &Step, decided: Block, go_on: Block, null: Block) {
        let t = match chain {
            Chain::And => Targets {
                yes: go_on,
                no: decided,
                null,
            },
            Chain::Or => Targets {
                yes: decided,
                no: go_on,
                null,
            },
        };
        match step {
            Step::Predicate(id) => self.predicate(*id, t),
            Step::Range { operand, low, high } => {
                let val = self.value(*operand);
                if !self.skip_null(val.null, t) {
                    return;
                }
                if low > high {
                    return self.goto(t.no);
                }
                let from_low = self.b.ins().iadd_imm_s(val.narrow(), low.wrapping_neg());
                let span = self.int(high.wrapping_sub(*low));
                let inside = self
                    .b
                    .ins()
                    .icmp(IntCC::UnsignedLessThanOrEqual, from_low, span);
                self.b.ins().brif(inside, t.yes, &[], t.no, &[]);
            }
        }
    }

    /// Whether a step may be NULL and whether it may fail.
    fn step_facts(&self, step: &Step) -> (bool, bool) {
        let id = match step {
            Step::Predicate(id) | Step::Range { operand: id, .. } => *id,
        };
        (self.fact(id).nullable, self.fact(id).fails)
    }

    /// The operands, with nested chains of the same kind unfolded and, in an AND, pairs of bounds
    /// of one operand joined (BETWEEN).
    fn steps(&self, chain: Chain, list: &[NodeId]) -> Vec<Step> {
        let mut flat = Vec::new();
        self.flatten(chain, list, &mut flat);
        let mut steps = Vec::with_capacity(flat.len());
        let mut at = 0;
        while at < flat.len() {
            let range = if chain == Chain::And && at + 1 < flat.len() {
                self.join_bounds(flat[at], flat[at + 1])
            } else {
                None
            };
            at += if range.is_some() { 2 } else { 1 };
            steps.push(range.unwrap_or(Step::Predicate(flat[at - 1])));
        }
        steps
    }

    /// Stops when there are more than are compiled: chains of chains that are shared unfold to
    /// exponentially many.
    fn flatten(&self, chain: Chain, list: &[NodeId], flat: &mut Vec<NodeId>) {
        for id in list {
            if flat.len() > MAX_OPERATIONS as usize {
                return;
            }
            match (chain, self.node(*id)) {
                (Chain::And, Node::And(inner)) | (Chain::Or, Node::Or(inner)) => {
                    self.flatten(chain, inner, flat);
                }
                _ => flat.push(*id),
            }
        }
    }

    fn join_bounds(&self, first: NodeId, second: NodeId) -> Option<Step> {
        let (a, b) = (self.bound(first)?, self.bound(second)?);
        if self.facts.canonical(a.operand) != self.facts.canonical(b.operand) {
            return None;
        }
        let low = a.low.max(b.low).max(i128::from(i64::MIN));
        let high = a.high.min(b.high).min(i128::from(i64::MAX));
        // An empty range stays empty in 64 bits: the operand has no value there.
        let (low, high) = if low > high {
            (1, 0)
        } else {
            (low as i64, high as i64)
        };
        Some(Step::Range {
            operand: a.operand,
            low,
            high,
        })
    }

    /// The range that a comparison of a signed 64-bit number with a constant leaves.
    fn bound(&self, id: NodeId) -> Option<Bound> {
        let Node::Compare { op, left, right } = self.node(id) else {
            return None;
        };
        let constant = |id: &NodeId| match self.node(*id) {
            Node::Constant { value, .. } => integer(value),
            _ => None,
        };
        let (operand, op, value) = match (constant(left), constant(right)) {
            (None, Some(value)) => (*left, *op, value),
            (Some(value), None) => (*right, mirrored(*op), value),
            _ => return None,
        };
        let fact = self.fact(operand);
        let is_number = !matches!(fact.ty, Type::Bool | Type::Double) && !fact.ty.is_string();
        if !is_number || !fact.range.fits_i64() {
            return None;
        }
        let (low, high) = match op {
            Comparison::Less => (i128::MIN, value.checked_sub(1)?),
            Comparison::LessOrEqual => (i128::MIN, value),
            Comparison::Greater => (value.checked_add(1)?, i128::MAX),
            Comparison::GreaterOrEqual => (value, i128::MAX),
            Comparison::Equal | Comparison::NotEqual | Comparison::NullSafeEqual => return None,
        };
        Some(Bound { operand, low, high })
    }

    fn comparison(&mut self, op: Comparison, left: NodeId, right: NodeId, t: Targets) {
        let l = self.value(left);
        let r = self.value(right);
        if op == Comparison::NullSafeEqual {
            return self.null_safe_equal((left, l), (right, r), t);
        }
        let null = l.null.or(r.null, self);
        if self.skip_null(null, t) {
            self.compare_lanes(op, (left, l), (right, r), t);
        }
    }

    /// `<=>`: two NULLs are equal, a NULL and a value are not.
    fn null_safe_equal(&mut self, l: (NodeId, Val), r: (NodeId, Val), t: Targets) {
        if !matches!((l.1.null, r.1.null), (Null::Never, Null::Never)) {
            let (a, b) = (l.1.null.flag(self), r.1.null.flag(self));
            let (values, nulls) = (self.b.create_block(), self.b.create_block());
            let either = self.b.ins().bor(a, b);
            self.b.ins().brif(either, nulls, &[], values, &[]);
            self.b.switch_to_block(nulls);
            let both = self.b.ins().band(a, b);
            self.b.ins().brif(both, t.yes, &[], t.no, &[]);
            self.b.switch_to_block(values);
        }
        self.compare_lanes(Comparison::Equal, l, r, t);
    }

    /// Compares two values that are not NULL.
    fn compare_lanes(
        &mut self,
        op: Comparison,
        (left, l): (NodeId, Val),
        (right, r): (NodeId, Val),
        t: Targets,
    ) {
        let unsigned = self.fact(left).ty == Type::UInt;
        let condition = match (l.lane, r.lane) {
            (Lane::Narrow(a), Lane::Narrow(b)) => self.b.ins().icmp(int_code(op, unsigned), a, b),
            (Lane::Double(a), Lane::Double(b)) => self.b.ins().fcmp(float_code(op), a, b),
            (Lane::Text { .. }, Lane::Text { .. }) => {
                return self.compare_text(op, (left, l), (right, r), t);
            }
            _ => {
                let (a, b) = (self.widen(l), self.widen(r));
                self.b.ins().icmp(int_code(op, false), a, b)
            }
        };
        self.b.ins().brif(condition, t.yes, &[], t.no, &[]);
    }
}

/// The operator with its sides exchanged.
pub(super) fn mirrored(op: Comparison) -> Comparison {
    match op {
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        Comparison::Equal | Comparison::NotEqual | Comparison::NullSafeEqual => op,
    }
}

pub(super) fn int_code(op: Comparison, unsigned: bool) -> IntCC {
    match (op, unsigned) {
        (Comparison::Equal | Comparison::NullSafeEqual, _) => IntCC::Equal,
        (Comparison::NotEqual, _) => IntCC::NotEqual,
        (Comparison::Less, false) => IntCC::SignedLessThan,
        (Comparison::LessOrEqual, false) => IntCC::SignedLessThanOrEqual,
        (Comparison::Greater, false) => IntCC::SignedGreaterThan,
        (Comparison::GreaterOrEqual, false) => IntCC::SignedGreaterThanOrEqual,
        (Comparison::Less, true) => IntCC::UnsignedLessThan,
        (Comparison::LessOrEqual, true) => IntCC::UnsignedLessThanOrEqual,
        (Comparison::Greater, true) => IntCC::UnsignedGreaterThan,
        (Comparison::GreaterOrEqual, true) => IntCC::UnsignedGreaterThanOrEqual,
    }
}

fn float_code(op: Comparison) -> FloatCC {
    match op {
        Comparison::Equal | Comparison::NullSafeEqual => FloatCC::Equal,
        Comparison::NotEqual => FloatCC::NotEqual,
        Comparison::Less => FloatCC::LessThan,
        Comparison::LessOrEqual => FloatCC::LessThanOrEqual,
        Comparison::Greater => FloatCC::GreaterThan,
        Comparison::GreaterOrEqual => FloatCC::GreaterThanOrEqual,
    }
}
