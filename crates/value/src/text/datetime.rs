//! DATE and DATETIME literals, by MySQL's rules: digits with punctuation between them or packed
//! digits; two-digit years mean 1970 to 2069.

use std::ops::RangeInclusive;

use crate::date::{self, Civil, ZERO_DAY, ZERO_MICROS};

/// What a date with a time says: months up to 12 and days up to 31, both perhaps 0, and a time that there is.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    year: u32,
    month: u32,
    day: u32,
    /// Microseconds of the day, perhaps all of it where a fraction was rounded.
    pub time: i64,
}

impl Parts {
    fn new(year: u32, month: u32, day: u32, time: i64) -> Option<Self> {
        let exists = year <= 9999 && month <= 12 && day <= 31;
        exists.then_some(Self {
            year,
            month,
            day,
            time,
        })
    }

    fn days(self) -> Option<i32> {
        day_number(self.year, self.month, self.day)
    }

    /// Microseconds since 1970-01-01; `None` if there is no such date.
    fn micros(self) -> Option<i64> {
        let days = self.days()?;
        let is_wrong = days == ZERO_DAY && self.time != 0;
        (!is_wrong).then_some(date::day_to_micros(days) + self.time)
    }

    /// As [`Self::micros`], but a date that there is not (a month or a day 0, 30 February) lies just before the next
    /// one that there is; `None` in the year 0.
    pub fn micros_or_before(self) -> Option<i64> {
        let next = match (self.month, self.day) {
            (0, _) => day_number(self.year, 1, 1),
            (_, 0) => day_number(self.year, self.month, 1),
            _ => day_number(self.year, self.month + 1, 1),
        };
        let before = || next.map(|next| date::day_to_micros(next) - 1);
        self.micros().or_else(before)
    }
}

/// Microseconds since 1970-01-01 of a date, with or without a time; not rounded. `None` if the
/// text is not one. White space around it is allowed.
pub(super) fn parse(text: &[u8]) -> Option<i64> {
    if let Some(days) = parse_plain(text) {
        return Some(date::day_to_micros(days));
    }
    parts(text)?.micros()
}

/// What a text says of which [`parse`] makes a point in time.
pub(super) fn parts(text: &[u8]) -> Option<Parts> {
    let text = text.trim_ascii();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == text.len() || (digits >= 12 && text[digits] == b'.') {
        return parse_packed(&text[..digits], &text[digits..]);
    }
    let mut fields = Fields { text };
    let (year, year_digits) = fields.number(4)?;
    let year = match year_digits {
        4 => year,
        1 | 2 => full_year(year),
        _ => return None,
    };
    fields.date_separator()?;
    let (month, _) = fields.number(2)?;
    fields.date_separator()?;
    let (day, _) = fields.number(2)?;
    if fields.text.is_empty() {
        return Parts::new(year, month, day, 0);
    }
    fields.time_separator()?;
    let (hour, _) = fields.number(2)?;
    let (mut minute, mut second, mut fraction) = (0, 0, 0);
    if fields.take(b':') {
        minute = fields.number(2)?.0;
        if fields.take(b':') {
            second = fields.number(2)?.0;
            fraction = parse_fraction(fields.text)?;
            fields.text = &[];
        }
    }
    if !fields.text.is_empty() {
        return None;
    }
    Parts::new(year, month, day, time(hour, minute, second, fraction)?)
}

/// The usual case, `YYYY-MM-DD`.
#[inline]
fn parse_plain(text: &[u8]) -> Option<i32> {
    let text: &[u8; 10] = text.try_into().ok()?;
    let [.., b'-', _, _, b'-', _, _] = text else {
        return None;
    };
    let number = |from: usize, len: usize| {
        text[from..from + len].iter().try_fold(0, |n, byte| {
            byte.is_ascii_digit()
                .then(|| n * 10 + u32::from(byte - b'0'))
        })
    };
    day_number(number(0, 4)?, number(5, 2)?, number(8, 2)?)
}

/// `YYYYMMDD`, `YYMMDD`, and with `hhmmss` and a fraction behind them.
fn parse_packed(digits: &[u8], rest: &[u8]) -> Option<Parts> {
    let year_digits = match digits.len() {
        8 | 14 => 4,
        6 | 12 => 2,
        _ => return None,
    };
    let number = |from: usize, len: usize| {
        digits[from..from + len]
            .iter()
            .fold(0, |n, digit| n * 10 + u32::from(digit - b'0'))
    };
    let year = number(0, year_digits);
    let year = if year_digits == 2 {
        full_year(year)
    } else {
        year
    };
    let (month, day) = (number(year_digits, 2), number(year_digits + 2, 2));
    if digits.len() < 12 {
        return Parts::new(year, month, day, 0);
    }
    let at = year_digits + 4;
    let fraction = parse_fraction(rest)?;
    let time = time(
        number(at, 2),
        number(at + 2, 2),
        number(at + 4, 2),
        fraction,
    );
    Parts::new(year, month, day, time?)
}

/// What an integer such as 19940131 or 19940131235959 means as a point in time; 0 is 0000-00-00.
pub(super) fn from_number(number: i128) -> Option<i64> {
    if number == 0 {
        return Some(ZERO_MICROS);
    }
    parts_of_number(number)?.micros()
}

/// Numbers between the dates of a form and of the next one: after 69-12-31 and before 70-01-01, after 99-12-31 and before
/// 1000-01-01, and the same with a time.
const NO_DATES: [RangeInclusive<u64>; 4] = [
    691_232..=700_100,
    991_232..=10_000_100,
    99_991_232..=100_999_999,
    691_231_235_960..=700_100_999_999,
];

/// What an integer says of which [`from_number`] makes a point in time.
pub(super) fn parts_of_number(number: i128) -> Option<Parts> {
    let number = u64::try_from(number).ok().filter(|n| *n >= 101)?;
    if NO_DATES.iter().any(|gap| gap.contains(&number)) {
        return None;
    }
    // 6 and 12 digits with a two-digit year may have lost leading zeros.
    let (date, clock) = match number {
        101..=99_991_231 => (number, 0),
        _ => (number / 1_000_000, number % 1_000_000),
    };
    let year = date / 10_000;
    let year = if year < 100 {
        full_year(year as u32)
    } else {
        u32::try_from(year).ok()?
    };
    let time = time(
        (clock / 10_000) as u32,
        (clock / 100 % 100) as u32,
        (clock % 100) as u32,
        0,
    );
    Parts::new(year, (date / 100 % 100) as u32, (date % 100) as u32, time?)
}

pub(super) fn full_year(two_digits: u32) -> u32 {
    if two_digits < 70 {
        2000 + two_digits
    } else {
        1900 + two_digits
    }
}

/// The number of a day; that of 0000-00-00, too.
fn day_number(year: u32, month: u32, day: u32) -> Option<i32> {
    if (year, month, day) == (0, 0, 0) {
        return Some(ZERO_DAY);
    }
    let (year, month) = (i32::try_from(year).ok()?, u8::try_from(month).ok()?);
    Civil {
        year,
        month,
        day: u8::try_from(day).ok()?,
    }
    .to_days()
}

/// Microseconds of a time of day.
fn time(hour: u32, minute: u32, second: u32, fraction: i64) -> Option<i64> {
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = i64::from(hour * 3_600 + minute * 60 + second);
    Some(seconds * 1_000_000 + fraction)
}

/// Empty, or a point and digits, as microseconds; the seventh digit rounds.
pub(super) fn parse_fraction(text: &[u8]) -> Option<i64> {
    let Some((point, digits)) = text.split_first() else {
        return Some(0);
    };
    if *point != b'.' || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |i: usize| digits.get(i).map_or(0, |digit| i64::from(digit - b'0'));
    let micros = (0..6).fold(0, |n, i| n * 10 + digit(i));
    Some(micros + i64::from(digit(6) >= 5))
}

struct Fields<'a> {
    text: &'a [u8],
}

impl Fields<'_> {
    /// One to `most` digits; the value and their number.
    fn number(&mut self, most: usize) -> Option<(u32, usize)> {
        let len = self
            .text
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if len == 0 || len > most {
            return None;
        }
        let value = self.text[..len]
            .iter()
            .fold(0, |n, digit| n * 10 + u32::from(digit - b'0'));
        self.text = &self.text[len..];
        Some((value, len))
    }

    fn date_separator(&mut self) -> Option<()> {
        let (first, rest) = self.text.split_first()?;
        first.is_ascii_punctuation().then(|| self.text = rest)
    }

    /// A `T` or spaces.
    fn time_separator(&mut self) -> Option<()> {
        if self.take(b'T') {
            return Some(());
        }
        let spaces = self.text.iter().take_while(|byte| **byte == b' ').count();
        self.text = &self.text[spaces..];
        (spaces > 0).then_some(())
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.text.first() == Some(&byte);
        self.text = &self.text[usize::from(found)..];
        found
    }
}
