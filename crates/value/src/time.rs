//! TIME: a span of microseconds, which may be negative, longer than a day, and is at most
//! 838:59:59 either way.

use std::fmt::Write;

use crate::date::{format_fraction, round_micros};

/// Microseconds of a second.
const SECOND: u64 = 1_000_000;

/// 838:59:59.
pub const MAX_TIME: i64 = (838 * 3600 + 59 * 60 + 59) * SECOND as i64;

/// The fields of a time, whatever its sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeFields {
    /// It is below zero.
    pub negative: bool,
    /// 0 to 838 if valid.
    pub hours: u32,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// 0 to 999,999.
    pub micros: u32,
}

/// True for a number of microseconds that is a valid time.
#[inline]
#[must_use]
pub const fn is_valid_time(micros: i64) -> bool {
    -MAX_TIME <= micros && micros <= MAX_TIME
}

/// The fields of a time. Hours that no valid time has are cut to 32 bits.
#[must_use]
pub const fn split_time(micros: i64) -> TimeFields {
    let all = micros.unsigned_abs();
    let seconds = all / SECOND;
    TimeFields {
        negative: micros < 0,
        hours: (seconds / 3600) as u32,
        minute: (seconds / 60 % 60) as u8,
        second: (seconds % 60) as u8,
        micros: (all % SECOND) as u32,
    }
}

/// Rounds to `fsp` digits of fractional seconds, half away from zero.
#[must_use]
pub fn round_time(micros: i64, fsp: u8) -> i64 {
    round_micros(micros.saturating_abs(), fsp) * micros.signum()
}

/// A time as a number such as 235959, negative if it is; fractions are dropped.
#[must_use]
pub fn time_number(micros: i64) -> i64 {
    let fields = split_time(micros);
    let clock = i64::from(fields.hours) * 10_000
        + i64::from(fields.minute) * 100
        + i64::from(fields.second);
    clock * micros.signum()
}

/// Appends `hh:mm:ss` and `fsp` digits of fractional seconds, with a sign if it is negative.
pub fn format_time(micros: i64, fsp: u8, out: &mut String) {
    let fields = split_time(micros);
    let TimeFields {
        negative,
        hours,
        minute,
        second,
        micros,
    } = fields;
    let sign = if negative { "-" } else { "" };
    write!(out, "{sign}{hours:02}:{minute:02}:{second:02}")
        .expect("writing to a String cannot fail");
    format_fraction(micros, fsp, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(micros: i64, fsp: u8) -> String {
        let mut out = String::new();
        format_time(micros, fsp, &mut out);
        out
    }

    #[test]
    fn times_are_shown_with_sign_and_all_hours() {
        assert_eq!(text(0, 0), "00:00:00");
        assert_eq!(text(-1_500_000, 1), "-00:00:01.5");
        assert_eq!(text(MAX_TIME, 0), "838:59:59");
        assert_eq!(text(-MAX_TIME, 6), "-838:59:59.000000");
        assert_eq!(text(3_723_004_005, 6), "01:02:03.004005");
        assert!(is_valid_time(-MAX_TIME) && !is_valid_time(MAX_TIME + 1));
        assert_eq!(split_time(i64::MIN).second, 54, "nothing panics");
    }

    #[test]
    fn rounding_is_away_from_zero() {
        assert_eq!(round_time(1_500_000, 0), 2_000_000);
        assert_eq!(round_time(-1_500_000, 0), -2_000_000);
        assert_eq!(round_time(-1_499_999, 0), -1_000_000);
        assert_eq!(round_time(-1_234_567, 3), -1_235_000);
        assert_eq!(time_number(-3_723_000_000), -10_203);
    }
}
