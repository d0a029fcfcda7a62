//! IN: small sets become branches, a bit map or comparisons in registers, others a search by a
//! helper.

use std::collections::BTreeMap;

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
            Lane::Text { .. } => self.in_strings(val, list, t.yes, absent),
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

    fn in_strings(&mut self, val: Val, list: &[Datum], yes: Block, absent: Block) {
        let strings = list.iter().filter_map(|item| match item {
            Datum::String(text) => Some(Box::from(string::trim_end(text))),
            _ => None,
        });
        let strings: Vec<Box<[u8]>> = strings.collect();
        if strings.len() > MAX_COMPARISONS {
            return self.search_strings(val, strings, yes, absent);
        }
        if strings
            .iter()
            .all(|literal| (1..=8).contains(&literal.len()))
        {
            return self.in_short_strings(val, strings, yes, absent);
        }
        for literal in &strings {
            let next = self.b.create_block();
            self.equals_literal(val, literal, yes, next);
            self.b.switch_to_block(next);
        }
        self.goto(absent);
    }

    fn search_strings(&mut self, val: Val, list: Vec<Box<[u8]>>, yes: Block, absent: Block) {
        let list = self.constants.keep(list);
        let list = self.address(list);
        let (start, len) = val.text();
        let helper = runtime::in_strings as *const u8;
        self.search(helper, &[list, start, len], yes, absent);
    }

    /// Constants that fit a register: one load for all of the string's length, one branch. Only a
    /// string that ends in a space can equal a constant of another length.
    fn in_short_strings(&mut self, val: Val, list: Vec<Box<[u8]>>, yes: Block, absent: Block) {
        let (start, len) = val.text();
        let mut by_length: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
        for literal in &list {
            let mut bytes = [0; 8];
            bytes[..literal.len()].copy_from_slice(literal);
            by_length
                .entry(literal.len())
                .or_default()
                .push(i64::from_le_bytes(bytes));
        }
        let (unequal, not_empty) = (self.b.create_block(), self.b.create_block());
        let padded = self.b.create_block();
        self.b.set_cold_block(padded);
        let mut switch = Switch::new();
        let mut groups = Vec::new();
        for (length, literals) in by_length {
            let block = self.b.create_block();
            switch.set_entry(length as u128, block);
            groups.push((block, length, literals));
        }
        switch.emit(&mut self.b, len, unequal);
        for (block, length, literals) in groups {
            self.b.switch_to_block(block);
            let found = self.load_exactly(start, length);
            let mut equal = self.b.ins().iconst(types::I8, 0);
            for literal in literals {
                let literal = self.int(literal);
                let this = self.b.ins().icmp(IntCC::Equal, found, literal);
                equal = self.b.ins().bor(equal, this);
            }
            self.b.ins().brif(equal, yes, &[], unequal, &[]);
        }
        self.b.switch_to_block(unequal);
        self.b.ins().brif(len, not_empty, &[], absent, &[]);
        self.b.switch_to_block(not_empty);
        let end = self.b.ins().iadd(start, len);
        let last = self.b.ins().uload8(types::I64, access(), end, -1);
        let is_space = self.b.ins().icmp_imm_u(IntCC::Equal, last, i64::from(b' '));
        self.b.ins().brif(is_space, padded, &[], absent, &[]);
        self.b.switch_to_block(padded);
        self.search_strings(val, list, yes, absent);
    }

    /// 1 to 8 bytes as an integer, by two loads that overlap if there is none of that width.
    fn load_exactly(&mut self, start: Value, bytes: usize) -> Value {
        let width = 1 << bytes.ilog2();
        let low = self.load_bytes(start, 0, width);
        if width == bytes {
            return low;
        }
        let high = self.load_bytes(start, bytes - width, width);
        let high = self.b.ins().ishl_imm_u(high, 8 * (bytes - width) as i64);
        self.b.ins().bor(low, high)
    }
}
