//! EXTRACT. The calendar's fields are computed inline, with the formulas that the interpreter's
//! `perigee_value::date` uses for the years of valid dates.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use perigee_expr::{DateField, NodeId, Type};
use perigee_value::date::{DAY_MICROS, ZERO_DAY};

use super::{Compiler, Lane, Val};

/// Days from 0000-03-01, where the calendar's cycles begin, to 1970-01-01.
const DAYS_TO_EPOCH: i64 = 719_468;

/// Days of 400 years.
const CYCLE_DAYS: i64 = 146_097;

/// Cycles added so that days of any 32-bit number are positive; a multiple of 400 years.
const CYCLES_BEFORE: i64 = 14_700;

impl Compiler<'_, '_> {
    pub(super) fn extract(&mut self, field: DateField, operand: NodeId) -> Val {
        let val = self.value(operand);
        let value = val.narrow();
        let is_date = self.fact(operand).ty == Type::Date;
        let result = match field {
            DateField::Hour | DateField::Minute | DateField::Second if is_date => self.int(0),
            DateField::Hour | DateField::Minute | DateField::Second => {
                let (_, micros) = self.split_days(value);
                self.time_field(field, micros)
            }
            _ if is_date => self.calendar_field(field, value),
            _ => {
                let (days, _) = self.split_days(value);
                self.calendar_field(field, days)
            }
        };
        Val {
            lane: Lane::Narrow(result),
            null: val.null,
        }
    }

    /// Days since 1970-01-01, rounded down, and microseconds of the day.
    fn split_days(&mut self, micros: Value) -> (Value, Value) {
        let quotient = self.b.ins().sdiv_imm_s(micros, DAY_MICROS);
        let whole = self.b.ins().imul_imm_s(quotient, DAY_MICROS);
        let rest = self.b.ins().isub(micros, whole);
        // -1 where the division rounded up.
        let correction = self.b.ins().sshr_imm_u(rest, 63);
        let days = self.b.ins().iadd(quotient, correction);
        let add = self.b.ins().band_imm_s(correction, DAY_MICROS);
        let rest = self.b.ins().iadd(rest, add);
        (days, rest)
    }

    fn time_field(&mut self, field: DateField, micros: Value) -> Value {
        let seconds = self.b.ins().udiv_imm_u(micros, 1_000_000);
        match field {
            DateField::Hour => self.b.ins().udiv_imm_u(seconds, 3_600),
            DateField::Minute => {
                let minutes = self.b.ins().udiv_imm_u(seconds, 60);
                self.b.ins().urem_imm_u(minutes, 60)
            }
            _ => self.b.ins().urem_imm_u(seconds, 60),
        }
    }

    /// A field of the date that lies `days` after 1970-01-01; those of 0000-00-00 are 0.
    fn calendar_field(&mut self, field: DateField, days: Value) -> Value {
        let value = self.field_of_day(field, days);
        let is_zero = self
            .b
            .ins()
            .icmp_imm_s(IntCC::Equal, days, i64::from(ZERO_DAY));
        let zero = self.int(0);
        self.b.ins().select(is_zero, zero, value)
    }

    /// A field of a valid date.
    ///
    /// Years are counted from 1 March, so that the leap day ends them; in each cycle of 400 years
    /// the formulas take out the leap days that the calendar puts in or leaves out.
    fn field_of_day(&mut self, field: DateField, days: Value) -> Value {
        let shift = DAYS_TO_EPOCH + CYCLES_BEFORE * CYCLE_DAYS;
        let days = self.b.ins().iadd_imm_s(days, shift);
        let cycle = self.b.ins().udiv_imm_u(days, CYCLE_DAYS);
        let before = self.b.ins().imul_imm_s(cycle, CYCLE_DAYS);
        let day = self.b.ins().isub(days, before);
        let mut common = day;
        for (period, plus) in [(1_460, false), (36_524, true), (146_096, false)] {
            let leap = self.b.ins().udiv_imm_u(day, period);
            common = if plus {
                self.b.ins().iadd(common, leap)
            } else {
                self.b.ins().isub(common, leap)
            };
        }
        let year = self.b.ins().udiv_imm_u(common, 365);
        let day_of_year = self.day_of_year(day, year);
        // Months from March: 153 days in five of them.
        let fifths = self.b.ins().imul_imm_s(day_of_year, 5);
        let fifths = self.b.ins().iadd_imm_s(fifths, 2);
        let month = self.b.ins().udiv_imm_u(fifths, 153);
        let in_next_year = self
            .b
            .ins()
            .icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, month, 10);
        match field {
            DateField::Year => {
                let years = self.b.ins().imul_imm_s(cycle, 400);
                let years = self.b.ins().iadd(years, year);
                let next = self
                    .b
                    .ins()
                    .uextend(cranelift_codegen::ir::types::I64, in_next_year);
                let years = self.b.ins().iadd(years, next);
                self.b.ins().iadd_imm_s(years, -400 * CYCLES_BEFORE)
            }
            DateField::Day => {
                let before = self.b.ins().imul_imm_s(month, 153);
                let before = self.b.ins().iadd_imm_s(before, 2);
                let before = self.b.ins().udiv_imm_u(before, 5);
                let day = self.b.ins().isub(day_of_year, before);
                self.b.ins().iadd_imm_s(day, 1)
            }
            _ => {
                let later = self.b.ins().iadd_imm_s(month, 3);
                let earlier = self.b.ins().iadd_imm_s(month, -9);
                let month = self.b.ins().select(in_next_year, earlier, later);
                if field == DateField::Month {
                    return month;
                }
                let month = self.b.ins().iadd_imm_s(month, 2);
                self.b.ins().udiv_imm_u(month, 3)
            }
        }
    }

    /// Day of a year that begins on 1 March, from the day of the cycle.
    fn day_of_year(&mut self, day: Value, year: Value) -> Value {
        let mut before = self.b.ins().imul_imm_s(year, 365);
        let fourth = self.b.ins().udiv_imm_u(year, 4);
        let hundredth = self.b.ins().udiv_imm_u(year, 100);
        before = self.b.ins().iadd(before, fourth);
        before = self.b.ins().isub(before, hundredth);
        self.b.ins().isub(day, before)
    }
}
