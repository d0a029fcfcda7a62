//! Dates and times as MySQL writes them.
//!
//! A day is counted from 1970-01-01 in the Gregorian calendar, also before its introduction, as
//! MySQL does. Years run from 0000 to 9999; what lies outside cannot be sent ([`OutOfRange`]).

use crate::digits::Digits;

/// The value lies outside the range of its column's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfRange;

const MICROS_PER_SECOND: u64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400_000_000;
/// Days from 0000-01-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_528;

/// The day that stands for 0000-00-00.
pub(crate) const ZERO_DAY: i64 = -EPOCH_DAYS - 1;
/// Days from 1970-01-01 to 9999-12-31.
const LAST_DAY: i64 = 2_932_896;

/// Year, month and day of the day `days` after 1970-01-01.
pub(crate) fn civil(days: i64) -> Result<(u64, u64, u64), OutOfRange> {
    // 0000-00-00.
    if days == ZERO_DAY {
        return Ok((0, 0, 0));
    }
    if !(-EPOCH_DAYS..=LAST_DAY).contains(&days) {
        return Err(OutOfRange);
    }
    // Years are taken to begin in March, so that the leap day is their last. Counting begins 400
    // years (one period of the calendar) before year 0, so that nothing is negative.
    let day = (days + EPOCH_DAYS + 146_097 - 60).unsigned_abs();
    let (period, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153; // 0 is March
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let next_year = u64::from(month >= 10);
    let month = if month < 10 { month + 3 } else { month - 9 };
    Ok((period * 400 + year + next_year - 400, month, day_of_month))
}

/// A span of time, or what a day has of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    /// Whole hours, as many as there are.
    pub(crate) hours: u64,
    /// 0 to 59.
    pub(crate) minutes: u64,
    /// 0 to 59.
    pub(crate) seconds: u64,
    /// 0 to 999,999.
    pub(crate) micros: u64,
}

impl Clock {
    /// No time.
    pub(crate) const ZERO: Self = Self {
        hours: 0,
        minutes: 0,
        seconds: 0,
        micros: 0,
    };

    /// A span of `micros`; digits of the fraction of a second beyond `fsp` are cut off.
    pub(crate) fn new(micros: u64, fsp: u8) -> Self {
        let seconds = micros / MICROS_PER_SECOND;
        let fraction = micros % MICROS_PER_SECOND;
        Self {
            hours: seconds / 3600,
            minutes: seconds / 60 % 60,
            seconds: seconds % 60,
            micros: fraction - fraction % 10u64.pow(u32::from(6 - fsp.min(6))),
        }
    }
}

/// The day of the moment `micros` after 1970-01-01 and the time of that day.
pub(crate) fn day_and_clock(micros: i64, fsp: u8) -> (i64, Clock) {
    let in_day = micros.rem_euclid(MICROS_PER_DAY).unsigned_abs();
    (micros.div_euclid(MICROS_PER_DAY), Clock::new(in_day, fsp))
}

/// Appends `YYYY-MM-DD`.
pub(crate) fn put_date(out: &mut Digits, days: i64) -> Result<(), OutOfRange> {
    let (year, month, day) = civil(days)?;
    out.padded(year, 4);
    out.push(b'-');
    out.padded(month, 2);
    out.push(b'-');
    out.padded(day, 2);
    Ok(())
}

/// Appends `YYYY-MM-DD hh:mm:ss[.fraction]` for `micros` after 1970-01-01; digits of the fraction
/// beyond `fsp` are cut off.
pub(crate) fn put_datetime(out: &mut Digits, micros: i64, fsp: u8) -> Result<(), OutOfRange> {
    let (days, clock) = day_and_clock(micros, fsp);
    put_date(out, days)?;
    out.push(b' ');
    put_clock(out, clock, fsp);
    Ok(())
}

/// Appends `[-]hh:mm:ss[.fraction]`; hours may have more than two digits. What is zero when
/// it is cut has no sign.
pub(crate) fn put_time(out: &mut Digits, micros: i64, fsp: u8) {
    let clock = Clock::new(micros.unsigned_abs(), fsp);
    if micros < 0 && clock != Clock::ZERO {
        out.push(b'-');
    }
    put_clock(out, clock, fsp);
}

fn put_clock(out: &mut Digits, clock: Clock, fsp: u8) {
    out.padded(clock.hours, 2);
    out.push(b':');
    out.padded(clock.minutes, 2);
    out.push(b':');
    out.padded(clock.seconds, 2);
    if fsp > 0 {
        let fsp = fsp.min(6);
        out.push(b'.');
        out.padded(
            clock.micros / 10u64.pow(u32::from(6 - fsp)),
            usize::from(fsp),
        );
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn date(days: i64) -> Result<String, OutOfRange> {
        let mut out = Digits::new();
        put_date(&mut out, days)?;
        Ok(String::from_utf8(out.as_bytes().to_vec()).unwrap())
    }

    fn datetime(micros: i64, fsp: u8) -> String {
        let mut out = Digits::new();
        put_datetime(&mut out, micros, fsp).unwrap();
        String::from_utf8(out.as_bytes().to_vec()).unwrap()
    }

    fn time(micros: i64, fsp: u8) -> String {
        let mut out = Digits::new();
        put_time(&mut out, micros, fsp);
        String::from_utf8(out.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn every_day_of_the_calendar_follows_the_one_before() {
        let leap =
            |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
        let (mut year, mut month, mut day) = (0, 1, 1);
        for days in -EPOCH_DAYS..=LAST_DAY {
            assert_eq!(civil(days), Ok((year, month, day)), "day {days}");
            let length = match month {
                2 => 28 + u64::from(leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
        assert_eq!((year, month, day), (10_000, 1, 1));
        assert_eq!(date(ZERO_DAY).unwrap(), "0000-00-00");
        assert_eq!(date(ZERO_DAY - 1), Err(OutOfRange));
        assert_eq!(date(LAST_DAY + 1), Err(OutOfRange));
    }

    #[test]
    fn dates_have_ten_characters() {
        assert_eq!(date(0).unwrap(), "1970-01-01");
        assert_eq!(date(-1).unwrap(), "1969-12-31");
        assert_eq!(date(-EPOCH_DAYS).unwrap(), "0000-01-01");
        assert_eq!(date(8_766).unwrap(), "1994-01-01");
    }

    #[test]
    fn the_fraction_has_the_digits_asked_for() {
        let micros = 757_382_400_000_000 + 3_661_000_000 + 123_456;
        assert_eq!(datetime(micros, 0), "1994-01-01 01:01:01");
        assert_eq!(datetime(micros, 3), "1994-01-01 01:01:01.123");
        assert_eq!(datetime(micros, 6), "1994-01-01 01:01:01.123456");
        assert_eq!(datetime(-1, 6), "1969-12-31 23:59:59.999999");
    }

    #[test]
    fn times_may_be_negative_and_longer_than_a_day() {
        assert_eq!(time(0, 0), "00:00:00");
        assert_eq!(time(-1_500_000, 1), "-00:00:01.5");
        assert_eq!(time(-1, 0), "00:00:00", "what is cut leaves no sign");
        assert_eq!(
            time((838 * 3600 + 59 * 60 + 59) * 1_000_000, 0),
            "838:59:59"
        );
        assert_eq!(time(90 * 3_600_000_000 + 5, 6), "90:00:00.000005");
    }
}
