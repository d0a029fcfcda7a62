//! STR_TO_DATE: what a text shows, read by a format.

use perigee_value::date::{self, Civil};

use super::calendar::{DAYS, MONTHS};
use super::{Argument, Call, Outcome, Value, ValueType};

/// By what the format shows: a date, a time, or both, which an unknown format may do.
pub(super) fn result_type(arguments: &[Argument<'_>]) -> ValueType {
    match arguments[1].constant {
        Some(format) => type_of(format),
        None => ValueType::DateTime { fsp: 6 },
    }
}

fn type_of(format: &str) -> ValueType {
    let specifiers: String = format
        .split('%')
        .skip(1)
        .filter_map(|part| part.chars().next())
        .collect();
    let has = |known: &[char]| specifiers.contains(known);
    let fsp = if has(&['f']) { 6 } else { 0 };
    let time = has(&['H', 'I', 'S', 'T', 'f', 'h', 'i', 'k', 'l', 'p', 'r', 's']);
    let date = has(&[
        'D', 'M', 'U', 'V', 'W', 'X', 'Y', 'a', 'b', 'c', 'd', 'e', 'j', 'm', 'u', 'v', 'w', 'x',
        'y',
    ]);
    match (date, time) {
        (true, false) => ValueType::Date,
        (false, true) => ValueType::Time { fsp },
        _ => ValueType::DateTime { fsp },
    }
}

pub(super) fn evaluate<'a>(c: &Call<'a>) -> Outcome<'a> {
    let fields = Reader {
        rest: c.text(0),
        fields: Fields::default(),
    }
    .read(c.text(1));
    let ty = match c.constant[1] {
        true => type_of(c.text(1)),
        false => ValueType::DateTime { fsp: 6 },
    };
    Ok(Value::or_null(fields.and_then(|fields| fields.value(ty))))
}

/// What was read.
#[derive(Default)]
struct Fields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    afternoon: Option<bool>,
    /// The hour is one of twelve.
    of_twelve: bool,
    day_of_year: Option<i64>,
    /// Of %a, %W and %w; Monday is 0.
    weekday: Option<i64>,
    /// Of %U, %u, %V and %v.
    week: Option<i64>,
    /// The week's first day is Monday: of %u and %v.
    monday_first: bool,
    /// Of %X and %x.
    year_of_week: Option<i64>,
    /// The week is one of %V and %v.
    iso: bool,
}

struct Reader<'t> {
    rest: &'t str,
    fields: Fields,
}

impl Reader<'_> {
    /// Reads a whole format; `None` if the text does not show what it says.
    fn read(mut self, format: &str) -> Option<Fields> {
        self.format(format)?;
        Some(self.fields)
    }

    fn format(&mut self, format: &str) -> Option<()> {
        let mut chars = format.chars();
        while let Some(char) = chars.next() {
            // A text may end before its format does.
            self.rest = self.rest.trim_start();
            if self.rest.is_empty() {
                return Some(());
            }
            match char {
                '%' => self.specifier(chars.next()?)?,
                char if char.is_whitespace() => {}
                char => self.literal(char)?,
            }
        }
        Some(())
    }

    fn literal(&mut self, char: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(char)?;
        Some(())
    }

    fn specifier(&mut self, specifier: char) -> Option<()> {
        match specifier {
            'Y' => self.fields.year = Some(self.year(4)?),
            'y' => self.fields.year = Some(self.year(2)?),
            'm' | 'c' => self.fields.month = Some(self.number(2)?),
            'M' => self.fields.month = Some(self.name(&MONTHS, 0)? + 1),
            'b' => self.fields.month = Some(self.name(&MONTHS, 3)? + 1),
            'd' | 'e' => self.fields.day = Some(self.number(2)?),
            'D' => {
                self.fields.day = Some(self.number(2)?);
                // The letters of 1st, 2nd …
                let suffix = self
                    .rest
                    .char_indices()
                    .nth(2)
                    .map_or(self.rest.len(), |(at, _)| at);
                self.rest = &self.rest[suffix..];
            }
            'H' | 'k' => self.fields.hour = self.number(2)?,
            'h' | 'I' | 'l' => {
                self.fields.hour = self.number(2)?;
                self.fields.of_twelve = true;
            }
            'i' => self.fields.minute = self.number(2)?,
            's' | 'S' => self.fields.second = self.number(2)?,
            'f' => {
                let before = self.rest.len();
                let number = self.number(6)?;
                let digits = (before - self.rest.len()) as u32;
                self.fields.micros = number * 10_i64.pow(6 - digits);
            }
            'p' => self.half()?,
            'r' => self.format("%I:%i:%S %p")?,
            'T' => self.format("%H:%i:%S")?,
            'W' => self.fields.weekday = Some(self.name(&DAYS, 0)?),
            'a' => self.fields.weekday = Some(self.name(&DAYS, 3)?),
            'w' => {
                let day = self.number(1).filter(|day| *day < 7)?;
                self.fields.weekday = Some((day + 6) % 7);
            }
            'j' => {
                self.fields.day_of_year =
                    Some(self.number(3).filter(|day| (1..=366).contains(day))?)
            }
            'U' | 'u' | 'V' | 'v' => {
                self.fields.week = Some(self.number(2).filter(|week| *week <= 53)?);
                self.fields.monday_first = matches!(specifier, 'u' | 'v');
                self.fields.iso = matches!(specifier, 'V' | 'v');
            }
            'X' | 'x' => self.fields.year_of_week = Some(self.number(4)?),
            '.' => self.skip(|char| char.is_ascii_punctuation()),
            '@' => self.skip(char::is_alphabetic),
            '#' => self.skip(|char| char.is_ascii_digit()),
            '%' => self.literal('%')?,
            _ => return None,
        }
        Some(())
    }

    fn skip(&mut self, is_skipped: impl Fn(char) -> bool) {
        self.rest = self.rest.trim_start_matches(is_skipped);
    }

    /// One to `most` digits.
    fn number(&mut self, most: usize) -> Option<i64> {
        let digits = self
            .rest
            .bytes()
            .take(most)
            .take_while(u8::is_ascii_digit)
            .count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        number.parse().ok()
    }

    /// A year, of two digits one from 1970 to 2069.
    fn year(&mut self, most: usize) -> Option<i64> {
        let before = self.rest.len();
        let year = self.number(most)?;
        Some(match before - self.rest.len() {
            1 | 2 if year < 70 => 2000 + year,
            1 | 2 => 1900 + year,
            _ => year,
        })
    }

    /// The number of a name, of which `length` letters are written, or all for 0.
    fn name(&mut self, names: &[&str], length: usize) -> Option<i64> {
        let written = |name: &str| if length == 0 { name.len() } else { length };
        let matches = |name: &&str| {
            let part = self.rest.get(..written(name));
            part.is_some_and(|part| part.eq_ignore_ascii_case(&name[..written(name)]))
        };
        let found = names.iter().position(matches)?;
        self.rest = &self.rest[written(names[found])..];
        Some(found as i64)
    }

    fn half(&mut self) -> Option<()> {
        let half = self.rest.get(..2)?;
        self.fields.afternoon = Some(match () {
            () if half.eq_ignore_ascii_case("PM") => true,
            () if half.eq_ignore_ascii_case("AM") => false,
            () => return None,
        });
        self.rest = &self.rest[2..];
        Some(())
    }
}

impl Fields {
    fn value(&self, ty: ValueType) -> Option<Value<'static>> {
        let time = self.time()?;
        Some(match ty {
            ValueType::Time { .. } => {
                // Days count as hours.
                Value::Time(time + self.day.unwrap_or(0) * date::DAY_MICROS)
            }
            ValueType::Date => Value::Date(self.days()?),
            _ => Value::DateTime(date::day_to_micros(self.days()?) + time),
        })
    }

    fn time(&self) -> Option<i64> {
        let hour = match (self.of_twelve, self.afternoon) {
            (true, _) if !(1..=12).contains(&self.hour) => return None,
            (true, afternoon) => self.hour % 12 + if afternoon == Some(true) { 12 } else { 0 },
            // AM and PM need an hour of twelve.
            (false, Some(_)) => return None,
            (false, None) => self.hour,
        };
        if hour > 23 || self.minute > 59 || self.second > 59 {
            return None;
        }
        Some(((hour * 60 + self.minute) * 60 + self.second) * 1_000_000 + self.micros)
    }

    fn days(&self) -> Option<i32> {
        if let (Some(year), Some(day)) = (self.year, self.day_of_year) {
            let first = Civil {
                year: year as i32,
                month: 1,
                day: 1,
            }
            .to_days()?;
            return date::add_days(first, day - 1);
        }
        if let (Some(week), Some(weekday)) = (self.week, self.weekday) {
            return self.of_week(week, weekday);
        }
        Civil {
            year: i32::try_from(self.year?).ok()?,
            month: u8::try_from(self.month?).ok()?,
            day: u8::try_from(self.day?).ok()?,
        }
        .to_days()
    }

    /// The day of a week, whose year is that of %X with %V, or %Y with %U.
    fn of_week(&self, week: i64, weekday: i64) -> Option<i32> {
        let year = if self.iso {
            self.year_of_week?
        } else {
            self.year?
        };
        let first = Civil {
            year: i32::try_from(year).ok()?,
            month: 1,
            day: 1,
        }
        .to_days()?;
        let begin = i64::from(super::calendar::weekday(first));
        // The day of the week on which the year begins, and the wanted one, from the week's first day.
        let (begin, wanted) = match self.monday_first {
            true => (begin, weekday),
            false => ((begin + 1) % 7, (weekday + 1) % 7),
        };
        let later = match self.monday_first {
            // Week 1 has four days of the year.
            true if begin <= 3 => -begin,
            true => 7 - begin,
            // Week 1 begins in the year.
            false => (7 - begin) % 7,
        };
        date::add_days(first, later + (week - 1) * 7 + wanted)
    }
}
