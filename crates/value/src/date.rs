//! The civil calendar: days since 1970-01-01 and back, fields, intervals. Proleptic Gregorian, as
//! MySQL's.
//!
//! Reading functions are total over their integer types, so that damaged records cannot make them
//! panic; only [`MIN_DAY`] to [`MAX_DAY`] are valid dates.
//!
//! MySQL's date 0000-00-00 is [`ZERO_DAY`], which is before all of them. Nothing is computed with it.

/// Microseconds of a day.
pub const DAY_MICROS: i64 = 86_400_000_000;

/// 0001-01-01.
pub const MIN_DAY: i32 = -719_162;

/// 0000-00-00.
pub const ZERO_DAY: i32 = MIN_DAY - 367;

/// 9999-12-31.
pub const MAX_DAY: i32 = 2_932_896;

/// 0001-01-01 00:00:00.
pub const MIN_MICROS: i64 = MIN_DAY as i64 * DAY_MICROS;

/// 0000-00-00 00:00:00.
pub const ZERO_MICROS: i64 = ZERO_DAY as i64 * DAY_MICROS;

/// 9999-12-31 23:59:59.999999.
pub const MAX_MICROS: i64 = (MAX_DAY as i64 + 1) * DAY_MICROS - 1;

/// A calendar date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Civil {
    /// Year, 1 to 9999 if valid.
    pub year: i32,
    /// Month, 1 to 12.
    pub month: u8,
    /// Day of the month, 1 to 31.
    pub day: u8,
}

/// A time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeOfDay {
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// 0 to 999,999.
    pub micros: u32,
}

impl Civil {
    /// The date of a day number.
    #[inline]
    #[must_use]
    pub const fn from_days(days: i32) -> Self {
        if days == ZERO_DAY {
            return Self {
                year: 0,
                month: 0,
                day: 0,
            };
        }
        // Counted from 0000-03-01 in eras of 400 years, so that the leap day ends a year.
        let days = days as i64 + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 {
            shifted_month + 3
        } else {
            shifted_month - 9
        };
        let year = era * 400 + year_of_era + (month <= 2) as i64;
        Self {
            year: year as i32,
            month: month as u8,
            day: day as u8,
        }
    }

    /// The day number, or `None` if there is no such date in the years 1 to 9999.
    #[inline]
    #[must_use]
    pub const fn to_days(self) -> Option<i32> {
        if self.year < 1 || self.year > 9999 || self.month < 1 || self.month > 12 {
            return None;
        }
        if self.day < 1 || self.day > days_in_month(self.year, self.month) {
            return None;
        }
        let year = (self.year - (self.month <= 2) as i32) as i64;
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let shifted_month = (self.month as i64 + 9) % 12;
        let day_of_year = (153 * shifted_month + 2) / 5 + self.day as i64 - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        Some((era * 146_097 + day_of_era - 719_468) as i32)
    }
}

/// Days of a month of a year.
#[must_use]
pub const fn days_in_month(year: i32, month: u8) -> u8 {
    match month {
        2 => {
            if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) {
                29
            } else {
                28
            }
        }
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// True for a day number that is a valid date.
#[inline]
#[must_use]
pub const fn is_valid_day(days: i32) -> bool {
    MIN_DAY <= days && days <= MAX_DAY
}

/// True for a number of microseconds that is a valid point in time.
#[inline]
#[must_use]
pub const fn is_valid_micros(micros: i64) -> bool {
    MIN_MICROS <= micros && micros <= MAX_MICROS
}

/// True for a day that a column can have: a valid date or 0000-00-00.
#[inline]
#[must_use]
pub const fn is_stored_day(days: i32) -> bool {
    is_valid_day(days) || days == ZERO_DAY
}

/// True for a point in time that a column can have: a valid one or 0000-00-00 00:00:00.
#[inline]
#[must_use]
pub const fn is_stored_micros(micros: i64) -> bool {
    is_valid_micros(micros) || micros == ZERO_MICROS
}

/// Midnight of a day. Wraps for days that are no valid dates.
#[inline]
#[must_use]
pub const fn day_to_micros(days: i32) -> i64 {
    (days as i64).wrapping_mul(DAY_MICROS)
}

/// Day and time of day of a point in time.
#[inline]
#[must_use]
pub const fn split_micros(micros: i64) -> (i32, TimeOfDay) {
    let days = micros.div_euclid(DAY_MICROS) as i32;
    let rest = micros.rem_euclid(DAY_MICROS);
    let seconds = rest / 1_000_000;
    let time = TimeOfDay {
        hour: (seconds / 3_600) as u8,
        minute: (seconds / 60 % 60) as u8,
        second: (seconds % 60) as u8,
        micros: (rest % 1_000_000) as u32,
    };
    (days, time)
}

/// The day `months` later or earlier; the day of the month is cut to the month's last one
/// (`DATE + INTERVAL n MONTH`). `None` outside of the years 1 to 9999.
#[must_use]
pub fn add_months(days: i32, months: i64) -> Option<i32> {
    if days == ZERO_DAY {
        return None;
    }
    let civil = Civil::from_days(days);
    let count = (i64::from(civil.year) * 12 + i64::from(civil.month) - 1).checked_add(months)?;
    let year = i32::try_from(count.div_euclid(12)).ok()?;
    let month = (count.rem_euclid(12) + 1) as u8;
    let day = civil.day.min(days_in_month(year, month));
    Civil { year, month, day }.to_days()
}

/// The day `years` later or earlier; 29 February becomes the 28th where there is none.
#[must_use]
pub fn add_years(days: i32, years: i64) -> Option<i32> {
    add_months(days, years.checked_mul(12)?)
}

/// The day `count` days later or earlier. `None` outside of the years 1 to 9999.
#[must_use]
pub fn add_days(days: i32, count: i64) -> Option<i32> {
    let day = i64::from(days).checked_add(count)?;
    let day = i32::try_from(day).ok().filter(|day| is_valid_day(*day));
    day.filter(|_| days != ZERO_DAY)
}

/// True for a year that YEAR has.
#[must_use]
pub const fn is_valid_year(year: u64) -> bool {
    matches!(year, 0 | 1901..=2155)
}

/// Rounds to `fsp` digits of fractional seconds, half up. The result can be one past
/// [`MAX_MICROS`].
#[must_use]
pub fn round_micros(micros: i64, fsp: u8) -> i64 {
    let unit = 10i64.pow(6 - u32::from(fsp.min(6)));
    let rest = micros.rem_euclid(unit);
    let down = micros - rest;
    if rest > 0 && rest >= unit - rest {
        down + unit
    } else {
        down
    }
}

/// Appends `YYYY-MM-DD`.
pub fn format_day(days: i32, out: &mut String) {
    use std::fmt::Write;
    let Civil { year, month, day } = Civil::from_days(days);
    write!(out, "{year:04}-{month:02}-{day:02}").expect("writing to a String cannot fail");
}

/// Appends `YYYY-MM-DD hh:mm:ss` and `fsp` digits of fractional seconds.
pub fn format_micros(micros: i64, fsp: u8, out: &mut String) {
    use std::fmt::Write;
    let (
        days,
        TimeOfDay {
            hour,
            minute,
            second,
            micros,
        },
    ) = split_micros(micros);
    format_day(days, out);
    write!(out, " {hour:02}:{minute:02}:{second:02}").expect("writing to a String cannot fail");
    format_fraction(micros, fsp, out);
}

/// Appends the point and `fsp` digits of the microseconds of a second, if `fsp` is not 0.
pub(crate) fn format_fraction(micros: u32, fsp: u8, out: &mut String) {
    use std::fmt::Write;
    if fsp > 0 {
        let fsp = fsp.min(6);
        let (width, fraction) = (usize::from(fsp), micros / 10u32.pow(6 - u32::from(fsp)));
        write!(out, ".{fraction:0width$}").expect("writing to a String cannot fail");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn day(year: i32, month: u8, day: u8) -> Option<i32> {
        Civil { year, month, day }.to_days()
    }

    #[test]
    fn every_valid_day_has_one_civil_date() {
        let mut expected = Civil {
            year: 1,
            month: 1,
            day: 1,
        };
        for days in MIN_DAY..=MAX_DAY {
            assert_eq!(Civil::from_days(days), expected);
            assert_eq!(expected.to_days(), Some(days));
            expected.day += 1;
            if expected.day > days_in_month(expected.year, expected.month) {
                expected = Civil {
                    day: 1,
                    month: expected.month + 1,
                    ..expected
                };
            }
            if expected.month > 12 {
                expected = Civil {
                    year: expected.year + 1,
                    month: 1,
                    day: 1,
                };
            }
        }
        assert_eq!(
            expected,
            Civil {
                year: 10_000,
                month: 1,
                day: 1
            }
        );
    }

    #[test]
    fn dates_that_do_not_exist() {
        assert_eq!(day(1900, 2, 29), None);
        assert_eq!(day(2000, 2, 30), None);
        assert_eq!(day(0, 1, 1), None);
        assert_eq!(day(10_000, 1, 1), None);
        assert_eq!((day(1994, 0, 1), day(1994, 13, 1)), (None, None));
        assert_eq!((day(1994, 1, 0), day(1994, 4, 31)), (None, None));
        assert_eq!(day(1970, 1, 1), Some(0));
    }

    #[test]
    fn nothing_is_computed_with_the_zero_date() {
        let mut out = String::new();
        format_micros(ZERO_MICROS, 0, &mut out);
        assert_eq!(out, "0000-00-00 00:00:00");
        assert_eq!(
            (add_days(ZERO_DAY, 400), add_months(ZERO_DAY, 5)),
            (None, None)
        );
        // 367 days before 0001-01-01 lies no date.
        assert_eq!(add_days(MIN_DAY, -367), None);
        assert!(is_stored_day(ZERO_DAY) && is_stored_micros(ZERO_MICROS));
        assert!(!is_valid_day(ZERO_DAY) && !is_stored_day(ZERO_DAY + 1));
    }

    #[test]
    fn intervals() {
        let from = day(1996, 1, 31).unwrap();
        assert_eq!(add_months(from, 1), day(1996, 2, 29));
        assert_eq!(add_months(from, -2), day(1995, 11, 30));
        assert_eq!(add_years(day(1996, 2, 29).unwrap(), 1), day(1997, 2, 28));
        assert_eq!(add_days(from, 366), day(1997, 1, 31));
        assert_eq!(add_days(MAX_DAY, 1), None);
        assert_eq!(
            (add_years(from, 9000), add_months(from, i64::MAX)),
            (None, None)
        );
        assert_eq!(add_years(from, -1996), None);
    }

    #[test]
    fn text() {
        let mut out = String::new();
        format_day(MIN_DAY, &mut out);
        out.push('|');
        format_micros(-1, 3, &mut out);
        out.push('|');
        format_micros(MAX_MICROS, 0, &mut out);
        assert_eq!(
            out,
            "0001-01-01|1969-12-31 23:59:59.999|9999-12-31 23:59:59"
        );
    }

    #[test]
    fn fractions_round_half_up() {
        assert_eq!(round_micros(1_499_999, 0), 1_000_000);
        assert_eq!(round_micros(1_500_000, 0), 2_000_000);
        assert_eq!(round_micros(-500_000, 0), 0);
        assert_eq!(round_micros(123_456, 6), 123_456);
        assert_eq!(round_micros(123_450, 4), 123_500);
    }

    proptest! {
        #[test]
        fn reading_is_total(days: i32, micros: i64, months: i64) {
            let _ = Civil::from_days(days);
            let _ = split_micros(micros);
            let _ = add_months(days, months);
            let _ = day_to_micros(days);
            let mut out = String::new();
            format_micros(micros, (months & 7) as u8, &mut out);
        }
    }
}
