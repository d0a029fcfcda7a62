//! DATE_FORMAT and its relatives: values by formats.

use std::fmt::Write;

use perigee_value::date::{self, Civil};
use perigee_value::time::{TimeFields, split_time};

use super::Kind::{DateTime, Text, Time};
use super::calendar::{DAYS, MONTHS, Mode, day_of_year, month_name, week, weekday};
use super::str_to_date;
use super::{Call, Function, Outcome, TEXT, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["date_format"],
        (2, 2),
        &[DateTime, Text],
        TEXT,
        "A point in time by a format.",
        |c| Ok(of_moment(c, c.micros(0), c.text(1))),
    )
    .with_zero_dates(),
    Function::new(
        &["time_format"],
        (2, 2),
        &[Time, Text],
        TEXT,
        "A time by a format.",
        |c| {
            let time = split_time(c.micros(0));
            Ok(Value::or_null(
                formatted(c, None, time, c.text(1)).map(Value::text),
            ))
        },
    ),
    Function::new(
        &["str_to_date"],
        (2, 2),
        &[Text],
        str_to_date::result_type,
        "The date, time or point in time that a text shows by a format.",
        str_to_date::evaluate,
    ),
    Function::new(
        &["get_format"],
        (2, 2),
        &[Text],
        TEXT,
        "The format of a country: of DATE, TIME or DATETIME.",
        get_format,
    ),
];

/// A point in time by a format.
pub(super) fn of_moment<'a>(c: &Call<'a>, micros: i64, format: &str) -> Value<'a> {
    let (days, _) = date::split_micros(micros);
    let time = split_time(micros.rem_euclid(date::DAY_MICROS));
    // 0000-00-00 is shown as no date at all.
    let days = Some(days).filter(|days| *days != date::ZERO_DAY);
    Value::or_null(formatted(c, days, time, format).map(Value::text))
}

/// A time, and a day if there is one, by a format; `None` if the format shows what there is not, or is too
/// long.
fn formatted(c: &Call<'_>, days: Option<i32>, time: TimeFields, format: &str) -> Option<String> {
    if format.is_empty() {
        return None;
    }
    let mut out = String::new();
    let mut chars = format.chars();
    if time.negative {
        out.push('-');
    }
    while let Some(char) = chars.next() {
        if char != '%' {
            out.push(char);
            continue;
        }
        let Some(specifier) = chars.next() else {
            out.push('%');
            break;
        };
        let written = match clock_field(specifier, time, days.is_some(), &mut out) {
            true => true,
            false => date_field(specifier, days, &mut out)?,
        };
        if !written {
            out.push(specifier);
        }
        if !c.has_room(out.len()) {
            return None;
        }
    }
    Some(out)
}

/// Appends a field of a time of day; false if the specifier is none.
fn clock_field(specifier: char, time: TimeFields, of_day: bool, out: &mut String) -> bool {
    let TimeFields {
        hours,
        minute,
        second,
        micros,
        ..
    } = time;
    let (hour24, hour12) = (hours % 24, (hours % 24 + 11) % 12 + 1);
    let half = if hour24 < 12 { "AM" } else { "PM" };
    let hour = if of_day { hour24 } else { hours };
    let written = match specifier {
        'f' => write!(out, "{micros:06}"),
        'H' => write!(out, "{hour:02}"),
        'k' => write!(out, "{hour}"),
        'h' | 'I' => write!(out, "{hour12:02}"),
        'l' => write!(out, "{hour12}"),
        'i' => write!(out, "{minute:02}"),
        's' | 'S' => write!(out, "{second:02}"),
        'p' => write!(out, "{half}"),
        'r' => write!(out, "{hour12:02}:{minute:02}:{second:02} {half}"),
        'T' => write!(out, "{hour:02}:{minute:02}:{second:02}"),
        _ => return false,
    };
    written.expect("writing to a String cannot fail");
    true
}

/// Appends a field of a date; false if the specifier is none, `None` if there is no date to show.
fn date_field(specifier: char, days: Option<i32>, out: &mut String) -> Option<bool> {
    let Some(days) = days else {
        // TIME_FORMAT shows zeros for numbers, and has no names.
        let zeros = match specifier {
            'Y' => "0000",
            'y' | 'm' | 'd' => "00",
            'c' | 'e' => "0",
            'M' | 'b' | 'W' | 'a' | 'D' | 'j' | 'U' | 'u' | 'V' | 'v' | 'X' | 'x' | 'w' => {
                return None;
            }
            _ => return Some(false),
        };
        out.push_str(zeros);
        return Some(true);
    };
    let date = Civil::from_days(days);
    let Civil { year, month, day } = date;
    let weeks = |monday_first: bool, whole_years: bool| {
        let begins_within = !monday_first;
        week(
            days,
            Mode {
                monday_first,
                whole_years,
                begins_within,
            },
        )
    };
    let short = |name: &'static str| &name[..3];
    let written = match specifier {
        'Y' => write!(out, "{year:04}"),
        'y' => write!(out, "{:02}", year % 100),
        'm' => write!(out, "{month:02}"),
        'c' => write!(out, "{month}"),
        'd' => write!(out, "{day:02}"),
        'e' => write!(out, "{day}"),
        'D' => write!(out, "{day}{}", ordinal(day)),
        'M' => write!(out, "{}", month_name(date)),
        'b' => write!(out, "{}", short(MONTHS[usize::from(month) - 1])),
        'W' => write!(out, "{}", DAYS[usize::from(weekday(days))]),
        'a' => write!(out, "{}", short(DAYS[usize::from(weekday(days))])),
        'w' => write!(out, "{}", (weekday(days) + 1) % 7),
        'j' => write!(out, "{:03}", day_of_year(days)),
        'U' => write!(out, "{:02}", weeks(false, false).1),
        'u' => write!(out, "{:02}", weeks(true, false).1),
        'V' => write!(out, "{:02}", weeks(false, true).1),
        'v' => write!(out, "{:02}", weeks(true, true).1),
        'X' => write!(out, "{:04}", weeks(false, true).0),
        'x' => write!(out, "{:04}", weeks(true, true).0),
        _ => return Some(false),
    };
    written.expect("writing to a String cannot fail");
    Some(true)
}

fn ordinal(day: u8) -> &'static str {
    match day {
        11..=13 => "th",
        _ if day % 10 == 1 => "st",
        _ if day % 10 == 2 => "nd",
        _ if day % 10 == 3 => "rd",
        _ => "th",
    }
}

fn get_format<'a>(c: &Call<'a>) -> Outcome<'a> {
    let country = c.text(1).to_ascii_uppercase();
    let format = match (c.text(0).to_ascii_uppercase().as_str(), country.as_str()) {
        ("DATE", "USA") => "%m.%d.%Y",
        ("DATE", "JIS" | "ISO") => "%Y-%m-%d",
        ("DATE", "EUR") => "%d.%m.%Y",
        ("DATE", "INTERNAL") => "%Y%m%d",
        ("DATETIME" | "TIMESTAMP", "USA" | "EUR") => "%Y-%m-%d %H.%i.%s",
        ("DATETIME" | "TIMESTAMP", "JIS" | "ISO") => "%Y-%m-%d %H:%i:%s",
        ("DATETIME" | "TIMESTAMP", "INTERNAL") => "%Y%m%d%H%i%s",
        ("TIME", "USA") => "%h:%i:%s %p",
        ("TIME", "JIS" | "ISO") => "%H:%i:%s",
        ("TIME", "EUR") => "%H.%i.%s",
        ("TIME", "INTERNAL") => "%H%i%s",
        _ => return Ok(Value::Null),
    };
    Ok(Value::text(format))
}
