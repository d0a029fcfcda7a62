//! Columns: loads at constant offsets, variable-length items after a bounds check.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use perigee_expr::NodeId;

use super::emit::access;
use super::{Compiler, Lane, Null, Val};
use crate::access::{NullBit, Slot, TextStart};

impl Compiler<'_, '_> {
    /// Value of a column node.
    pub(super) fn column(&mut self, id: NodeId) -> Val {
        let column = *self.facts.column(id);
        let null = column
            .null
            .map_or(Null::Never, |bit| Null::Flag(self.null_bit(bit)));
        let lane = match column.slot {
            Slot::Integer {
                offset,
                bytes: 16,
                key,
                ..
            } => {
                let value = self.load_number(types::I128, offset, key);
                if column.range.fits_i64() {
                    Lane::Narrow(self.b.ins().ireduce(types::I64, value))
                } else {
                    Lane::Wide(value)
                }
            }
            Slot::Integer {
                offset,
                bytes,
                unsigned,
                key,
            } => Lane::Narrow(self.load_integer(offset, bytes, unsigned, key)),
            Slot::Float { offset, bytes, key } => Lane::Double(self.load_float(offset, bytes, key)),
            Slot::Text { start, end_offset } => self.load_text(start, end_offset),
        };
        Val { lane, null }
    }

    /// 1 if the column is NULL.
    fn null_bit(&mut self, bit: NullBit) -> Value {
        let byte = self
            .b
            .ins()
            .load(types::I8, access(), self.record, i32::from(bit.offset));
        let set = self.b.ins().band_imm_u(byte, i64::from(bit.mask));
        self.b.ins().icmp_imm_u(IntCC::NotEqual, set, 0)
    }

    /// A signed number in the width it is stored in.
    fn load_number(&mut self, ty: types::Type, offset: u16, key: bool) -> Value {
        let value = self
            .b
            .ins()
            .load(ty, access(), self.record, i32::from(offset));
        if !key {
            return value;
        }
        if ty == types::I128 {
            // The halves are swapped one by one.
            let (first, second) = self.b.ins().isplit(value);
            let (high, low) = (self.b.ins().bswap(first), self.b.ins().bswap(second));
            let high = self.b.ins().bxor_imm_s(high, i64::MIN);
            return self.b.ins().iconcat(low, high);
        }
        let value = if ty == types::I8 {
            value
        } else {
            self.b.ins().bswap(value)
        };
        let sign = 1_u64 << (ty.bits() - 1);
        self.b.ins().bxor_imm_u(value, sign as i64)
    }

    /// An integer of at most 8 bytes in 64 bits.
    fn load_integer(&mut self, offset: u16, bytes: u8, unsigned: bool, key: bool) -> Value {
        let offset = i32::from(offset);
        if !key {
            let (flags, base) = (access(), self.record);
            let ins = self.b.ins();
            return match (bytes, unsigned) {
                (1, false) => ins.sload8(types::I64, flags, base, offset),
                (1, true) => ins.uload8(types::I64, flags, base, offset),
                (2, false) => ins.sload16(types::I64, flags, base, offset),
                (2, true) => ins.uload16(types::I64, flags, base, offset),
                (4, false) => ins.sload32(flags, base, offset),
                (4, true) => ins.uload32(flags, base, offset),
                _ => ins.load(types::I64, flags, base, offset),
            };
        }
        let ty = match bytes {
            1 => types::I8,
            2 => types::I16,
            4 => types::I32,
            _ => types::I64,
        };
        if unsigned {
            let value = self.b.ins().load(ty, access(), self.record, offset);
            let value = if bytes == 1 {
                value
            } else {
                self.b.ins().bswap(value)
            };
            return if bytes == 8 {
                value
            } else {
                self.b.ins().uextend(types::I64, value)
            };
        }
        let value = self.load_number(ty, offset as u16, true);
        if bytes == 8 {
            value
        } else {
            self.b.ins().sextend(types::I64, value)
        }
    }

    /// FLOAT or DOUBLE as F64. In a key the sign bit is flipped for positive numbers and all bits
    /// for negative ones.
    fn load_float(&mut self, offset: u16, bytes: u8, key: bool) -> Value {
        let (int, float) = if bytes == 4 {
            (types::I32, types::F32)
        } else {
            (types::I64, types::F64)
        };
        let value = if key {
            let bits = self
                .b
                .ins()
                .load(int, access(), self.record, i32::from(offset));
            let bits = self.b.ins().bswap(bits);
            let sign = 1_u64 << (int.bits() - 1);
            let positive = self.b.ins().bxor_imm_u(bits, sign as i64);
            let negative = self.b.ins().bnot(bits);
            let zero = self.b.ins().iconst(int, 0);
            let is_positive = self.b.ins().icmp(IntCC::SignedLessThan, bits, zero);
            let bits = self.b.ins().select(is_positive, positive, negative);
            self.b.ins().bitcast(float, MemFlagsData::new(), bits)
        } else {
            self.b
                .ins()
                .load(float, access(), self.record, i32::from(offset))
        };
        if bytes == 4 {
            self.b.ins().fpromote(types::F64, value)
        } else {
            value
        }
    }

    /// Length of the record, which is corrupt if it leaves the page.
    pub(super) fn record_len(&mut self) -> Value {
        let shape = self.shape;
        let Some(items_before) = shape.var_count.checked_sub(1) else {
            return self.int(i64::from(shape.fixed_len));
        };
        let last_end = i32::from(shape.fixed_len) + 2 * i32::from(items_before);
        let len = self
            .b
            .ins()
            .uload16(types::I64, access(), self.record, last_end);
        let end = self.b.ins().iadd(self.record, len);
        let outside = self
            .b
            .ins()
            .icmp(IntCC::UnsignedGreaterThan, end, self.limit);
        self.leave_if(outside, self.corrupt);
        len
    }

    /// A variable-length item; a record whose ends lead out of the page is corrupt.
    fn load_text(&mut self, start: TextStart, end_offset: u16) -> Lane {
        let from = match start {
            TextStart::Constant(at) => self.int(i64::from(at)),
            TextStart::EndAt(at) => {
                self.b
                    .ins()
                    .uload16(types::I64, access(), self.record, i32::from(at))
            }
        };
        let to = self
            .b
            .ins()
            .uload16(types::I64, access(), self.record, i32::from(end_offset));
        let reversed = self.b.ins().icmp(IntCC::UnsignedLessThan, to, from);
        let end = self.b.ins().iadd(self.record, to);
        let outside = self
            .b
            .ins()
            .icmp(IntCC::UnsignedGreaterThan, end, self.limit);
        let bad = self.b.ins().bor(reversed, outside);
        self.leave_if(bad, self.corrupt);
        let start = self.b.ins().iadd(self.record, from);
        let len = self.b.ins().isub(to, from);
        Lane::Text { start, len }
    }
}
