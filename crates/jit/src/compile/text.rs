//! Strings: comparison with constants inline as far as their bytes decide, LIKE, SUBSTRING.
//!
//! Strings compare with PAD SPACE (`perigee_value::string::compare`): a constant is taken without
//! its trailing spaces, and what a string has beyond it must be spaces. Those that compare by weights
//! are left to the interpreter's functions.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use perigee_expr::{Comparison, Node, NodeId, Type};
use perigee_value::{Collation, Datum, LikePattern, string};

use super::emit::access;
use super::predicate::{int_code, mirrored};
use super::{Compiler, Lane, Targets, Val};
use crate::facts::Fact;
use crate::runtime;

/// Longest constant that is compared inline.
const INLINE_BYTES: usize = 32;

/// What a LIKE pattern without `_` and escapes is, if it has one `%` at most.
enum SimplePattern<'p> {
    Exact(&'p [u8]),
    Prefix(&'p [u8]),
    Suffix(&'p [u8]),
}

impl<'p> SimplePattern<'p> {
    fn new(pattern: &'p str, escape: char) -> Option<Self> {
        if pattern.contains(['_', escape]) {
            return None;
        }
        let simple = match (pattern.strip_prefix('%'), pattern.strip_suffix('%')) {
            (None, None) => Self::Exact(pattern.as_bytes()),
            (Some(suffix), None) => Self::Suffix(suffix.as_bytes()),
            (None, Some(prefix)) => Self::Prefix(prefix.as_bytes()),
            (Some(_), Some(_)) => return None,
        };
        let (Self::Exact(literal) | Self::Suffix(literal) | Self::Prefix(literal)) = simple;
        (!literal.contains(&b'%') && literal.len() <= INLINE_BYTES).then_some(simple)
    }
}

impl Compiler<'_, '_> {
    fn text_constant(&self, id: NodeId) -> Option<&[u8]> {
        match self.node(id) {
            Node::Constant {
                value: Datum::String(text),
                ..
            } => Some(text),
            _ => None,
        }
    }

    /// Compares two strings that are not NULL.
    pub(super) fn compare_text(
        &mut self,
        op: Comparison,
        (left, l): (NodeId, Val),
        (right, r): (NodeId, Val),
        t: Targets,
    ) {
        if let Type::Collated(collation) = self.fact(left).ty {
            let number = self.int(collation.0.into());
            let helper = runtime::compare_collated as *const u8;
            return self.compare_strings(helper, op, (l, r), &[number], t);
        }
        let (op, val, constant) = match (self.text_constant(left), self.text_constant(right)) {
            (None, Some(text)) => (op, l, text.to_vec()),
            (Some(text), None) => (mirrored(op), r, text.to_vec()),
            _ => {
                let helper = runtime::compare_strings as *const u8;
                return self.compare_strings(helper, op, (l, r), &[], t);
            }
        };
        let literal = string::trim_end(&constant);
        match op {
            Comparison::Equal | Comparison::NullSafeEqual => {
                self.equals_literal(val, literal, t.yes, t.no);
            }
            Comparison::NotEqual => self.equals_literal(val, literal, t.no, t.yes),
            _ => self.order_to_literal(op, val, literal, t),
        }
    }

    /// Any comparison of two strings by the interpreter's function, which may have more arguments.
    fn compare_strings(
        &mut self,
        helper: *const u8,
        op: Comparison,
        (l, r): (Val, Val),
        more: &[Value],
        t: Targets,
    ) {
        let ((a, a_len), (b, b_len)) = (l.text(), r.text());
        let arguments = [&[a, a_len, b, b_len], more].concat();
        let order = self.call(helper, &arguments, 1)[0];
        let condition = self.b.ins().icmp_imm_s(int_code(op, false), order, 0);
        self.b.ins().brif(condition, t.yes, &[], t.no, &[]);
    }

    /// Goes on at `yes` if the string equals a constant without trailing spaces.
    pub(super) fn equals_literal(&mut self, val: Val, literal: &[u8], yes: Block, no: Block) {
        let (start, len) = val.text();
        let literal_len = literal.len() as i64;
        // A shorter string has a space where the constant's last byte is another.
        let shorter = self
            .b
            .ins()
            .icmp_imm_u(IntCC::UnsignedLessThan, len, literal_len);
        self.leave_if(shorter, no);
        let differs = self.differs(start, literal);
        self.leave_if(differs, no);
        let padded = self.b.create_block();
        self.b.set_cold_block(padded);
        let same_length = self.b.ins().icmp_imm_u(IntCC::Equal, len, literal_len);
        self.b.ins().brif(same_length, yes, &[], padded, &[]);
        self.b.switch_to_block(padded);
        let rest = self.b.ins().iadd_imm_s(start, literal_len);
        let rest_len = self.b.ins().iadd_imm_s(len, -literal_len);
        let blank = self.call(runtime::is_blank as *const u8, &[rest, rest_len], 1)[0];
        self.b.ins().brif(blank, yes, &[], no, &[]);
    }

    /// Not 0 if the bytes at `start`, of which there are enough, are not the literal.
    fn differs(&mut self, start: Value, literal: &[u8]) -> Value {
        if literal.len() > INLINE_BYTES {
            let constant = self.constants.keep_bytes(literal);
            let constant = self.address(constant);
            let len = self.int(literal.len() as i64);
            let same = self.call(runtime::same_bytes as *const u8, &[start, constant, len], 1)[0];
            return self.b.ins().bxor_imm_u(same, 1);
        }
        let mut differences = None;
        for (offset, bytes) in pieces(literal.len()) {
            let mut expected = [0; 8];
            expected[..bytes].copy_from_slice(&literal[offset..offset + bytes]);
            let found = self.load_bytes(start, offset, bytes);
            let expected = self.int(i64::from_le_bytes(expected));
            let difference = self.b.ins().bxor(found, expected);
            differences = Some(match differences {
                None => difference,
                Some(before) => self.b.ins().bor(before, difference),
            });
        }
        differences.unwrap_or_else(|| self.int(0))
    }

    /// 1, 2, 4 or 8 bytes as an integer.
    pub(super) fn load_bytes(&mut self, start: Value, offset: usize, bytes: usize) -> Value {
        let (flags, offset) = (access(), offset as i32);
        let ins = self.b.ins();
        match bytes {
            1 => ins.uload8(types::I64, flags, start, offset),
            2 => ins.uload16(types::I64, flags, start, offset),
            4 => ins.uload32(flags, start, offset),
            _ => ins.load(types::I64, flags, start, offset),
        }
    }

    /// `<`, `<=`, `>` and `>=` with a constant: where the first eight bytes differ, they decide.
    fn order_to_literal(&mut self, op: Comparison, val: Val, literal: &[u8], t: Targets) {
        let (start, len) = val.text();
        let mut first = [b' '; 8];
        let common = literal.len().min(8);
        first[..common].copy_from_slice(&literal[..common]);
        let slow = self.b.create_block();
        let short = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, len, 8);
        self.leave_if(short, slow);
        let found = self.b.ins().load(types::I64, access(), start, 0);
        let found = self.b.ins().bswap(found);
        let expected = self.int(i64::from_be_bytes(first));
        let same = self.b.ins().icmp(IntCC::Equal, found, expected);
        self.leave_if(same, slow);
        let condition = self.b.ins().icmp(int_code(op, true), found, expected);
        self.b.ins().brif(condition, t.yes, &[], t.no, &[]);
        self.b.switch_to_block(slow);
        let constant = self.constants.keep_bytes(literal);
        let constant = self.address(constant);
        let constant_len = self.int(literal.len() as i64);
        let constant = Val::some(Lane::Text {
            start: constant,
            len: constant_len,
        });
        let helper = runtime::compare_strings as *const u8;
        self.compare_strings(helper, op, (val, constant), &[], t);
    }

    pub(super) fn like(&mut self, operand: NodeId, pattern: &str, escape: char, t: Targets) {
        let val = self.value(operand);
        if !self.skip_null(val.null, t) {
            return;
        }
        let (start, len) = val.text();
        let collation = self.fact(operand).ty.collation();
        let collation = collation.expect("J2: LIKE is over strings");
        let simple = match collation {
            Collation::UTF8MB4_BIN => SimplePattern::new(pattern, escape),
            _ => None,
        };
        let Some(simple) = simple else {
            let pattern = LikePattern::collated(pattern, escape, collation);
            let pattern = self.constants.keep(pattern);
            let pattern = self.address(pattern);
            let matches = self.call(runtime::like as *const u8, &[pattern, start, len], 1)[0];
            self.b.ins().brif(matches, t.yes, &[], t.no, &[]);
            return;
        };
        let (literal, bad_length, at) = match simple {
            SimplePattern::Exact(literal) => (literal, IntCC::NotEqual, start),
            SimplePattern::Prefix(literal) => (literal, IntCC::UnsignedLessThan, start),
            SimplePattern::Suffix(literal) => {
                let end = self.b.ins().iadd(start, len);
                let at = self.b.ins().iadd_imm_s(end, -(literal.len() as i64));
                (literal, IntCC::UnsignedLessThan, at)
            }
        };
        let bad = self
            .b
            .ins()
            .icmp_imm_u(bad_length, len, literal.len() as i64);
        self.leave_if(bad, t.no);
        let differs = self.differs(at, literal);
        self.b.ins().brif(differs, t.no, &[], t.yes, &[]);
    }

    /// SUBSTRING. In ASCII, characters are bytes; whether the first ones are is seen inline.
    pub(super) fn substring(&mut self, operand: NodeId, first: i64, length: Option<i64>) -> Val {
        let val = self.value(operand);
        let fact = Fact {
            nullable: false,
            ..self.fact(operand)
        };
        let (start, len) = val.text();
        // The first character may be any number.
        let end = length.and_then(|length| first.checked_sub(1)?.checked_add(length));
        let inline = end.filter(|end| first >= 1 && *end >= first && *end <= INLINE_BYTES as i64);
        let (merge, result) = self.merge(&fact);
        if let (Some(end), Some(length)) = (inline, length) {
            let slow = self.b.create_block();
            self.b.set_cold_block(slow);
            let short = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, len, end);
            self.leave_if(short, slow);
            let mut high_bits = self.int(0);
            for (offset, bytes) in pieces(end as usize) {
                let found = self.load_bytes(start, offset, bytes);
                high_bits = self.b.ins().bor(high_bits, found);
            }
            let mask = self.int(i64::from_ne_bytes([0x80; 8]));
            let high_bits = self.b.ins().band(high_bits, mask);
            self.leave_if(high_bits, slow);
            let part = self.b.ins().iadd_imm_s(start, first - 1);
            let part = Lane::Text {
                start: part,
                len: self.int(length),
            };
            self.jump_with(merge, Val::some(part), &fact);
            self.b.switch_to_block(slow);
        }
        let (first, length) = (self.int(first), self.int(length.unwrap_or(i64::MAX)));
        let slot = self.b.ins().stack_addr(types::I64, self.slot, 0);
        self.call(
            runtime::substring as *const u8,
            &[start, len, first, length, slot],
            0,
        );
        let part_start = self.b.ins().load(types::I64, access(), slot, 0);
        let part_len = self.b.ins().load(types::I64, access(), slot, 8);
        let part = Lane::Text {
            start: part_start,
            len: part_len,
        };
        self.jump_with(merge, Val::some(part), &fact);
        self.b.switch_to_block(merge);
        Val {
            null: val.null,
            ..result
        }
    }
}

/// Offsets and widths of loads that cover so many bytes and no others; they may overlap.
fn pieces(len: usize) -> Vec<(usize, usize)> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < len {
        let width = match len - at {
            8.. => 8,
            // Loads that begin earlier stay inside the bytes before.
            _ if len >= 8 => 8,
            4.. => 4,
            _ if len >= 4 => 4,
            2.. => 2,
            _ => 1,
        };
        let offset = at.min(len - width);
        pieces.push((offset, width));
        at = offset + width;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_all_bytes_and_no_others() {
        for len in 0..=INLINE_BYTES {
            let mut covered = vec![false; len];
            for (offset, width) in pieces(len) {
                covered[offset..offset + width].fill(true);
            }
            assert!(covered.iter().all(|byte| *byte), "{len} bytes");
        }
    }

    #[test]
    fn simple_patterns_are_told_from_others() {
        let simple = |pattern| SimplePattern::new(pattern, '\\');
        assert!(matches!(simple("abc"), Some(SimplePattern::Exact(b"abc"))));
        assert!(matches!(
            simple("abc%"),
            Some(SimplePattern::Prefix(b"abc"))
        ));
        assert!(matches!(
            simple("%abc"),
            Some(SimplePattern::Suffix(b"abc"))
        ));
        assert!(matches!(simple(""), Some(SimplePattern::Exact(b""))));
        for other in ["%", "%a%", "a%b", "a_", "a\\%", "%%", "a%%"] {
            assert!(simple(other).is_none(), "{other}");
        }
        assert!(SimplePattern::new("a%", '%').is_none());
    }
}
