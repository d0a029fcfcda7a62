//! Dates: fields, weeks, day numbers.

use perigee_value::date::{self, Civil, days_in_month};

use super::Kind::{Date, DateTime, Int, Text};
use super::{Call, DATE, Function, INT, Outcome, TEXT, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["datediff"],
        (2, 2),
        &[Date],
        INT,
        "Days from the second date to the first.",
        |c| Ok(Value::Int(i64::from(c.date(0)) - i64::from(c.date(1)))),
    ),
    Function::new(
        &["dayofweek"],
        (1, 1),
        &[Date],
        INT,
        "The day of the week, from Sunday, which is 1.",
        |c| Ok(Value::Int(i64::from(weekday(c.date(0)) + 1) % 7 + 1)),
    ),
    Function::new(
        &["weekday"],
        (1, 1),
        &[Date],
        INT,
        "The day of the week, from Monday, which is 0.",
        |c| Ok(Value::Int(i64::from(weekday(c.date(0))))),
    ),
    Function::new(
        &["dayofyear"],
        (1, 1),
        &[Date],
        INT,
        "The day of the year.",
        |c| Ok(Value::Int(i64::from(day_of_year(c.date(0))))),
    ),
    Function::new(
        &["dayname"],
        (1, 1),
        &[Date],
        TEXT,
        "The name of the day of the week.",
        |c| Ok(Value::text(DAYS[weekday(c.date(0)) as usize])),
    ),
    Function::new(
        &["monthname"],
        (1, 1),
        &[Date],
        TEXT,
        "The name of the month.",
        |c| Ok(Value::text(month_name(Civil::from_days(c.date(0))))),
    ),
    Function::new(
        &["last_day"],
        (1, 1),
        &[Date],
        DATE,
        "The last day of the month.",
        |c| {
            let Civil { year, month, .. } = Civil::from_days(c.date(0));
            let day = days_in_month(year, month);
            Ok(Value::or_null(
                Civil { year, month, day }.to_days().map(Value::Date),
            ))
        },
    ),
    Function::new(
        &["week"],
        (1, 2),
        &[Date, Int],
        INT,
        "The week of the year, in one of MySQL's eight modes.",
        |c| {
            let Some(mode) = mode_of(c) else {
                return Ok(Value::Null);
            };
            Ok(Value::Int(week(c.date(0), mode).1.into()))
        },
    )
    .with_nulls(),
    Function::new(
        &["weekofyear"],
        (1, 1),
        &[Date],
        INT,
        "The ISO week of the year.",
        |c| Ok(Value::Int(week(c.date(0), Mode::of(3)).1.into())),
    ),
    Function::new(
        &["yearweek"],
        (1, 2),
        &[Date, Int],
        INT,
        "Year and week in one number.",
        |c| {
            let Some(mode) = mode_of(c) else {
                return Ok(Value::Null);
            };
            let (year, week) = week(
                c.date(0),
                Mode {
                    whole_years: true,
                    ..mode
                },
            );
            Ok(Value::Int(i64::from(year) * 100 + i64::from(week)))
        },
    )
    .with_nulls(),
    Function::new(
        &["to_days"],
        (1, 1),
        &[Date],
        INT,
        "Days since the year 0.",
        |c| Ok(Value::Int(i64::from(c.date(0)) + EPOCH)),
    ),
    Function::new(
        &["to_seconds"],
        (1, 1),
        &[DateTime],
        INT,
        "Seconds since the year 0.",
        |c| {
            Ok(Value::Int(
                c.micros(0).div_euclid(1_000_000) + EPOCH * 86_400,
            ))
        },
    ),
    Function::new(
        &["from_days"],
        (1, 1),
        &[Int],
        DATE,
        "The date of a number of days since the year 0.",
        |c| {
            let days = c
                .int(0)
                .checked_sub(EPOCH)
                .and_then(|days| date::add_days(0, days));
            Ok(Value::or_null(days.map(Value::Date)))
        },
    ),
    Function::new(
        &["makedate"],
        (2, 2),
        &[Int],
        DATE,
        "The date of a year and a day of the year.",
        makedate,
    ),
    Function::new(
        &["period_add"],
        (2, 2),
        &[Int],
        INT,
        "A period such as 202001 some months later.",
        |c| {
            let months = months_of(c, 0)?.saturating_add(c.int(1));
            Ok(Value::Int(period(months)))
        },
    ),
    Function::new(
        &["period_diff"],
        (2, 2),
        &[Int],
        INT,
        "Months from the second period to the first.",
        |c| Ok(Value::Int(months_of(c, 0)? - months_of(c, 1)?)),
    ),
    Function::new(
        &["timestampdiff"],
        (3, 3),
        &[Text, DateTime, DateTime],
        INT,
        "Whole units from the first point in time to the second.",
        timestampdiff,
    ),
];

/// TO_DAYS of 1970-01-01.
const EPOCH: i64 = 719_528;

pub(super) const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub(super) fn month_name(date: Civil) -> &'static str {
    MONTHS[usize::from(date.month) - 1]
}

/// Monday is 0.
pub(super) fn weekday(days: i32) -> u8 {
    // 1970-01-01 was a Thursday.
    (i64::from(days) + 3).rem_euclid(7) as u8
}

/// From 1 on.
pub(super) fn day_of_year(days: i32) -> i32 {
    days - first_of(Civil::from_days(days).year) + 1
}

/// The first of January; also of the years 0 and 10,000, which weeks may belong to.
fn first_of(year: i32) -> i32 {
    let before = i64::from(year) - 1;
    let leap = before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400);
    (before * 365 + leap) as i32 + date::MIN_DAY
}

/// How weeks are counted.
#[derive(Clone, Copy)]
pub(super) struct Mode {
    /// Weeks begin with Monday, otherwise with Sunday.
    pub monday_first: bool,
    /// Days before week 1 belong to the last week of the year before, otherwise to week 0.
    pub whole_years: bool,
    /// Week 1 is the first one that begins in the year, otherwise the first with four days in it.
    pub begins_within: bool,
}

impl Mode {
    /// The mode with this number.
    pub fn of(number: i64) -> Self {
        let monday_first = number & 1 != 0;
        let third = number & 4 != 0;
        Self {
            monday_first,
            whole_years: number & 2 != 0,
            begins_within: if monday_first { third } else { !third },
        }
    }
}

/// The mode of WEEK and YEARWEEK, of which NULL is the first one; `None` without a date.
fn mode_of(c: &Call<'_>) -> Option<Mode> {
    let is_given = c.has(1) && !c.is_null(1);
    let number = if is_given { c.int(1) } else { 0 };
    (!c.is_null(0)).then(|| Mode::of(number))
}

/// The week of a day, and the year it belongs to.
pub(super) fn week(days: i32, mode: Mode) -> (i32, u8) {
    let mut year = Civil::from_days(days).year;
    // Where in its week a year begins.
    let place = |year: i32| {
        let monday = i32::from(weekday(first_of(year)));
        if mode.monday_first {
            monday
        } else {
            (monday + 1) % 7
        }
    };
    // The day on which week 1 of a year begins.
    let begin = |year: i32| {
        let place = place(year);
        let next = if mode.begins_within {
            place != 0
        } else {
            place >= 4
        };
        first_of(year) - place + if next { 7 } else { 0 }
    };
    if days < begin(year) {
        if !mode.whole_years {
            return (year, 0);
        }
        year -= 1;
    } else if mode.whole_years && days >= begin(year + 1) {
        return (year + 1, 1);
    }
    (year, ((days - begin(year)) / 7 + 1) as u8)
}

fn makedate<'a>(c: &Call<'a>) -> Outcome<'a> {
    let (year, day) = (c.int(0), c.int(1));
    let year = full_year(year);
    if !(1..=9999).contains(&year) || day < 1 {
        return Ok(Value::Null);
    }
    let days = date::add_days(first_of(year as i32), day - 1);
    Ok(Value::or_null(days.map(Value::Date)))
}

/// Months since the year 0 of a period, which is a year and two digits of a month.
fn months_of(c: &Call<'_>, number: usize) -> Result<i64, super::FunctionError> {
    let period = c.int(number);
    if period <= 0 || !(1..=12).contains(&(period % 100)) {
        return Err(super::FunctionError::IncorrectArguments(c.name));
    }
    Ok(full_year(period / 100) * 12 + period % 100 - 1)
}

/// A year of two digits as one from 1970 to 2069.
fn full_year(year: i64) -> i64 {
    match year {
        0..=69 => 2000 + year,
        70..=99 => 1900 + year,
        year => year,
    }
}

/// The period of a number of months since the year 0.
fn period(months: i64) -> i64 {
    let year = full_year(months.div_euclid(12));
    year.saturating_mul(100)
        .saturating_add(months.rem_euclid(12) + 1)
}

/// Microseconds of the units of TIMESTAMPDIFF that have a fixed length.
fn length_of(unit: &str) -> Option<i64> {
    Some(match unit {
        "microsecond" => 1,
        "second" => 1_000_000,
        "minute" => 60_000_000,
        "hour" => 3_600_000_000,
        "day" => date::DAY_MICROS,
        "week" => 7 * date::DAY_MICROS,
        _ => return None,
    })
}

fn timestampdiff<'a>(c: &Call<'a>) -> Outcome<'a> {
    let (unit, from, to) = (c.text(0), c.micros(1), c.micros(2));
    if let Some(length) = length_of(unit) {
        return Ok(Value::Int((to - from) / length));
    }
    let per_unit = match unit {
        "month" => 1,
        "quarter" => 3,
        "year" => 12,
        _ => return Err(super::FunctionError::IncorrectArguments(c.name)),
    };
    let (sign, from, to) = if from <= to {
        (1, from, to)
    } else {
        (-1, to, from)
    };
    // A month is over when day and time of day are reached again.
    let place = |micros: i64| {
        let (days, _) = date::split_micros(micros);
        let civil = Civil::from_days(days);
        let month = i64::from(civil.year) * 12 + i64::from(civil.month);
        (month, (civil.day, micros.rem_euclid(date::DAY_MICROS)))
    };
    let ((first, begin), (last, end)) = (place(from), place(to));
    let months = last - first - i64::from(end < begin);
    Ok(Value::Int(sign * months / per_unit))
}
