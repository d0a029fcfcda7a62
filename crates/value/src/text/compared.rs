//! Texts and numbers beside which a date or a time stands in a comparison: as points in time and as times, by
//! MariaDB's rules, which take more than a column does.
//!
//! A text may go on behind its date or time. A date that there is not, such as 2010-00-00 or 2010-02-30, lies just
//! before the next one that there is. A time that is too long is beyond the longest one.

use super::{datetime, time};

/// 838:59:59.999999, beyond the longest TIME.
const LONGEST: i64 = 3_020_399_999_999;

/// The longest hours of a TIME.
const MAX_HOURS: u128 = 838;

/// Numbers in here have the digits of a date, perhaps with a time.
const DATES: std::ops::RangeInclusive<i128> = 10_000_000..=99_991_231_235_959;

/// No date and no time is longer.
const LONG: usize = 40;

/// Microseconds since 1970-01-01; `None` is what is no date.
#[must_use]
pub fn compared_moment(text: &[u8]) -> Option<i64> {
    leading(text, b"-:./ ", datetime::parts)?.micros_or_before()
}

/// As [`compared_moment`], of a number such as 20200101101112.
#[must_use]
pub fn compared_moment_of_number(number: i128) -> Option<i64> {
    datetime::parts_of_number(number)?.micros_or_before()
}

/// Microseconds of a time; 0 of what is none.
#[must_use]
pub fn compared_time(text: &[u8]) -> i64 {
    leading(text, b":", time_of).map_or(0, |micros| micros.clamp(-LONGEST, LONGEST))
}

/// As [`time::parse`], but packed digits that are too long must end with minutes and seconds, too.
fn time_of(text: &[u8]) -> Option<i64> {
    let micros = time::parse(text)?;
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    match std::str::from_utf8(digits).ok()?.parse() {
        Ok(packed) if micros.unsigned_abs() > LONGEST as u64 => {
            Some(clock(packed) * micros.signum())
        }
        _ => Some(micros),
    }
}

/// As [`compared_time`], of a number such as 101112: of one with the digits of a date, its time.
#[must_use]
pub fn compared_time_of_number(number: i128) -> i64 {
    if DATES.contains(&number) {
        return datetime::parts_of_number(number).map_or(0, |parts| parts.time);
    }
    let micros = clock(number.unsigned_abs());
    if number < 0 { -micros } else { micros }
}

/// Microseconds of packed hours, minutes and seconds.
fn clock(packed: u128) -> i64 {
    let packed = packed.min(u64::MAX.into());
    let (hours, minute, second) = (packed / 10_000, packed / 100 % 100, packed % 100);
    match hours <= MAX_HOURS {
        _ if minute > 59 || second > 59 => 0,
        true => (hours * 3600 + minute * 60 + second) as i64 * 1_000_000,
        false => LONGEST,
    }
}

/// What the longest beginning of a text is that is anything. It ends neither within a number nor before a separator and
/// a number: a field that is out of range is not cut off.
fn leading<T>(text: &[u8], separators: &[u8], parse: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
    let text = text.trim_ascii_start();
    let is_digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
    let is_end = |end: &usize| match text.get(*end) {
        None => true,
        Some(next) if separators.contains(next) => !is_digit(*end + 1),
        Some(_) => !is_digit(*end),
    };
    let ends = (1..text.len().min(LONG)).rev().filter(is_end);
    let mut ends = std::iter::once(text.len()).chain(ends);
    ends.find_map(|end| parse(&text[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(text: &str) -> i64 {
        datetime::parse(text.as_bytes()).expect("a date")
    }

    #[test]
    fn a_date_that_there_is_not_lies_before_the_next_one() {
        let cases = [
            ("2010-00-15", "2010-01-01"),
            ("2010-02-30 10:00", "2010-03-01"),
            ("2010-02-00x", "2010-02-01"),
            ("100231", "2010-03-01"),
        ];
        for (text, next) in cases {
            let found = compared_moment(text.as_bytes());
            assert_eq!(found, Some(micros(next) - 1), "{text}");
        }
        assert_eq!(
            compared_moment_of_number(100_000),
            Some(micros("2010-01-01") - 1)
        );
        for number in [
            -20_200_229,
            0,
            1,
            100,
            991_232,
            2_147_483_647,
            700_100,
            8_400_000,
            1_230_405,
            10_000_100,
            100_000_000,
        ] {
            assert_eq!(compared_moment_of_number(number), None, "{number}");
        }
    }

    #[test]
    fn what_is_behind_a_date_is_cut_off_but_no_field_of_it() {
        let whole = Some(micros("2020-02-29"));
        for text in ["2020-02-29x", " 2020-02-29 x", "20200229x", "2020/2/29 "] {
            assert_eq!(compared_moment(text.as_bytes()), whole, "{text}");
        }
        for text in ["2020-02-29 10:11:60", "2020-02-32", "2020-13-01", "1", ""] {
            assert_eq!(compared_moment(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_the_times_that_they_are_in_mariadb() {
        let second = 1_000_000;
        let cases = [
            (100, 60 * second),
            (-8_385_959, -3_020_399 * second),
            (8_385_960, 0),
            (-9_999_999, 0),
            (-20_200_229, -LONGEST),
            (20_200_229, 0),
            (20_200_229_101_112, 36_672 * second),
            (-999_999_999_999, 0),
            (-1_000_000_000_000_000, -LONGEST),
            (i128::from(i64::MIN), -LONGEST),
            (i128::MAX, LONGEST),
        ];
        for (number, micros) in cases {
            assert_eq!(compared_time_of_number(number), micros, "{number}");
        }
    }

    #[test]
    fn texts_are_the_times_that_they_are_in_mariadb() {
        let second = 1_000_000;
        let cases = [
            ("-20200229", -LONGEST),
            ("9999999", 0),
            ("10:11:60", 0),
            ("10:11:12x", 36_672 * second),
            ("1 x", second),
            ("20200229x", LONGEST),
            ("35 10:11", LONGEST),
            ("-0.5", -500_000),
            ("abc", 0),
        ];
        for (text, micros) in cases {
            assert_eq!(compared_time(text.as_bytes()), micros, "{text}");
        }
    }
}
