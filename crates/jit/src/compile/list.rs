//! IN: small sets become branches, a bit map or comparisons in registers, others a search by a
//! helper.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{Block, InstBuilder, MemFlagsData, Value, types};
use cranelift_frontend::Switch;
use perigee_expr::{NodeId, Type};
use perigee_value::{Datum, string};

use super::emit::access;
use super::{Compiler, Lane, Targets, Val};
use crate::facts::integer;
use crate::interval::{ALL_I64, ALL_U64};
use crate::runtime;

/// Most integers that become branches.
const MAX_BRANCHES: usize = 64;

/// Most strings or doubles that are compared one by one.
const MAX_COMPARISONS: usize = 8;

impl Compiler<'_, '_> {
    pub(super) fn in_list(&mut self, operand: NodeId, list: &[Datum], has_null: bool, t: Targets) {
        let val = self.value(operand);
        if !self.skip_null(val.null, t) {
            return;
        }
        let absent = if has_null { t.null } else { t.no };
        match val.lane {
            Lane::Narrow(value) => {
                let range = match self.fact(operand).ty {
                    Type::UInt => ALL_U64,
                    _ => ALL_I64,
                };
                let numbers = list
                    .iter()
                    .filter_map(integer)
                    .filter(|n| range.contains(*n));
                // Within either range the low 64 bits tell numbers apart.
                let mut numbers: Vec<i64> = numbers.map(|n| n as i64).collect();
                numbers.sort_unstable();
                self.in_narrow(value, numbers, t.yes, absent);
            }
            Lane::Wide(value) => {
                let list: Vec<i128> = list.iter().filter_map(integer).collect();
                let list = self.constants.keep(list);
                let list = self.address(list);
                let (low, high) = self.b.ins().isplit(value);
                self.search(
                    runtime::in_wide_numbers as *const u8,
                    &[list, low, high],
                    t.yes,
                    absent,
                );
            }
            Lane::Double(value) => self.in_doubles(value, list, t.yes, absent),
            Lane::Text { .. } => match self.fact(operand).ty {
                Type::Collated(collation) => {
                    // Whether trailing spaces count is the collation's business.
                    let mut strings = strings(list, |text| text);
                    strings.sort_by(|a, b| collation.compare(a, b));
                    let list = runtime::CollatedList { strings, collation };
                    let helper = runtime::in_collated as *const u8;
                    self.search_strings(helper, val, list, t.yes, absent);
                }
                _ => self.in_strings(val, strings(list, string::trim_end), t.yes, absent),
            },
        }
    }

    fn search(&mut self, helper: *const u8, args: &[Value], yes: Block, absent: Block) {
        let found = self.call(helper, args, 1)[0];
        self.b.ins().brif(found, yes, &[], absent, &[]);
    }

    /// 64-bit patterns in ascending order.
    fn in_narrow(&mut self, value: Value, numbers: Vec<i64>, yes: Block, absent: Block) {
        let span = match (numbers.first(), numbers.last()) {
            (Some(first), Some(last)) => last.wrapping_sub(*first) as u64,
            _ => return self.goto(absent),
        };
        if numbers.len() > 2 && span < 64 {
            return self.in_bit_map(value, &numbers, yes, absent);
        }
        if numbers.len() <= MAX_BRANCHES {
            let mut switch = Switch::new();
            for number in numbers {
                switch.set_entry(u128::from(number as u64), yes);
            }
            return switch.emit(&mut self.b, value, absent);
        }
        let list = self.constants.keep(numbers);
        let list = self.address(list);
        self.search(
            runtime::in_numbers as *const u8,
            &[list, value],
            yes,
            absent,
        );
    }

    /// Numbers that lie within 64 of each other.
    fn in_bit_map(&mut self, value: Value, numbers: &[i64], yes: Block, absent: Block) {
        let first = numbers[0];
        let map = numbers
            .iter()
            .fold(0u64, |map, n| map | 1 << n.wrapping_sub(first));
        let bit = self.b.ins().iadd_imm_s(value, first.wrapping_neg());
        let outside = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, bit, 63);
        self.leave_if(outside, absent);
        let map = self.int(map as i64);
        let shifted = self.b.ins().ushr(map, bit);
        let found = self.b.ins().band_imm_u(shifted, 1);
        self.b.ins().brif(found, yes, &[], absent, &[]);
    }

    fn in_doubles(&mut self, value: Value, list: &[Datum], yes: Block, absent: Block) {
        let doubles = list.iter().filter_map(|item| match item {
            Datum::Double(v) => Some(*v),
            _ => None,
        });
        let doubles: Vec<f64> = doubles.collect();
        if doubles.len() <= MAX_COMPARISONS {
            for item in doubles {
                let item = self.b.ins().f64const(item);
                let equal = self.b.ins().fcmp(FloatCC::Equal, value, item);
                self.leave_if(equal, yes);
            }
            return self.goto(absent);
        }
        let list = self.constants.keep(doubles);
        let list = self.address(list);
        let bits = self.b.ins().bitcast(types::I64, MemFlagsData::new(), value);
        self.search(runtime::in_doubles as *const u8, &[list, bits], yes, absent);
    }

    fn in_strings(&mut self, val: Val, strings: Vec<Box<[u8]>>, yes: Block, absent: Block) {
        if strings.len() > MAX_COMPARISONS {
            let helper = runtime::in_strings as *const u8;
            return self.search_strings(helper, val, strings, yes, absent);
        }
        if strings.iter().all(|literal| literal.len() <= 8) {
            return self.in_short_strings(val, strings, yes, absent);
        }
        for literal in &strings {
            let next = self.b.create_block();
            self.equals_literal(val, literal, yes, next);
            self.b.switch_to_block(next);
        }
        self.goto(absent);
    }

    fn search_strings(
        &mut self,
        helper: *const u8,
        val: Val,
        list: impl Send + Sync + 'static,
        yes: Block,
        absent: Block,
    ) {
        let list = self.constants.keep(list);
        let list = self.address(list);
        let (start, len) = val.text();
        self.search(helper, &[list, start, len], yes, absent);
    }

    /// Constants that fit a register: the string's first eight bytes, filled up with spaces, are
    /// compared with all of them, and one branch follows. Filling up is what PAD SPACE means; only
    /// a string of more bytes may differ behind them.
    fn in_short_strings(&mut self, val: Val, list: Vec<Box<[u8]>>, yes: Block, absent: Block) {
        let (start, len) = val.text();
        let (slow, found) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(slow);
        self.leave_unless_readable(start, slow);
        let bytes = self.b.ins().load(types::I64, access(), start, 0);
        let bits = self.b.ins().ishl_imm_u(len, 3);
        let ones = self.int(-1);
        let behind = self.b.ins().ishl(ones, bits);
        let none = self.int(0);
        let short = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, len, 8);
        let behind = self.b.ins().select(short, behind, none);
        let text = self.b.ins().band_not(bytes, behind);
        let spaces = self
            .b
            .ins()
            .band_imm_s(behind, i64::from_le_bytes([b' '; 8]));
        let text = self.b.ins().bor(text, spaces);
        let mut equal = self.b.ins().iconst(types::I8, 0);
        for literal in &list {
            let mut bytes = [b' '; 8];
            bytes[..literal.len()].copy_from_slice(literal);
            let literal = self.int(i64::from_le_bytes(bytes));
            let this = self.b.ins().icmp(IntCC::Equal, text, literal);
            equal = self.b.ins().bor(equal, this);
        }
        self.b.ins().brif(equal, found, &[], absent, &[]);
        self.b.switch_to_block(found);
        let all = self
            .b
            .ins()
            .icmp_imm_u(IntCC::UnsignedLessThanOrEqual, len, 8);
        self.b.ins().brif(all, yes, &[], slow, &[]);
        self.b.switch_to_block(slow);
        let helper = runtime::in_strings as *const u8;
        self.search_strings(helper, val, list, yes, absent);
    }

    /// Goes on at `slow` unless eight bytes from `start` lie in the record (a string near its end,
    /// or a constant).
    fn leave_unless_readable(&mut self, start: Value, slow: Block) {
        let record_len = self.record_len();
        let at = self.b.ins().isub(start, self.record);
        let end = self.b.ins().iadd_imm_s(at, 8);
        let outside = self
            .b
            .ins()
            .icmp(IntCC::UnsignedGreaterThan, at, record_len);
        let beyond = self
            .b
            .ins()
            .icmp(IntCC::UnsignedGreaterThan, end, record_len);
        let bad = self.b.ins().bor(outside, beyond);
        self.leave_if(bad, slow);
    }
}

/// The strings of a list, as far as they count.
fn strings(list: &[Datum], counting: fn(&[u8]) -> &[u8]) -> Vec<Box<[u8]>> {
    let strings = list.iter().filter_map(|item| match item {
        Datum::String(text) => Some(Box::from(counting(text))),
        _ => None,
    });
    strings.collect()
}
