//! Times and points in time: arithmetic, seconds, fields.

use perigee_value::date::{self, is_valid_micros};
use perigee_value::time::{MAX_TIME, format_time, split_time};
use perigee_value::{ColumnType, Units, ValueRef, Zone, parse_text_ref};

use super::Kind::{Any, DateTime, Int, Seconds, Text, Time};
use super::date_format::of_moment;
use super::{Argument, Call, Function, INT, Outcome, Value, ValueType};

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["addtime"],
        (2, 2),
        &[Any, Time],
        sum_type,
        "A time, or a point in time, and a time together.",
        |c| add(c, 1),
    ),
    Function::new(
        &["subtime"],
        (2, 2),
        &[Any, Time],
        sum_type,
        "A time, or a point in time, without a time.",
        |c| add(c, -1),
    ),
    Function::new(
        &["timediff"],
        (2, 2),
        &[Any],
        difference_type,
        "The time between two times or points in time.",
        timediff,
    ),
    Function::new(
        &["timestamp"],
        (1, 2),
        &[DateTime, Time],
        timestamp_type,
        "A value as a point in time, with a time added.",
        |c| {
            let time = if c.has(1) { c.micros(1) } else { 0 };
            let sum = c
                .micros(0)
                .checked_add(time)
                .filter(|sum| is_valid_micros(*sum));
            Ok(Value::or_null(sum.map(Value::DateTime)))
        },
    ),
    Function::new(
        &["time"],
        (1, 1),
        &[Time],
        |a| ValueType::Time {
            fsp: known_fsp(&a[0]),
        },
        "The time of a value.",
        |c| Ok(Value::Time(c.micros(0))),
    ),
    Function::new(
        &["time_to_sec"],
        (1, 1),
        &[Time],
        INT,
        "A time in seconds.",
        |c| Ok(Value::Int(c.micros(0) / SECOND)),
    ),
    Function::new(
        &["sec_to_time"],
        (1, 1),
        &[Seconds],
        |a| ValueType::Time {
            fsp: known_fsp(&a[0]),
        },
        "The time of so many seconds.",
        |c| Ok(Value::Time(c.int(0).clamp(-MAX_TIME, MAX_TIME))),
    ),
    Function::new(
        &["maketime"],
        (3, 3),
        &[Int, Int, Seconds],
        |a| ValueType::Time {
            fsp: known_fsp(&a[2]),
        },
        "The time of hours, minutes and seconds.",
        maketime,
    ),
    Function::new(
        &["microsecond"],
        (1, 1),
        &[Any],
        INT,
        "The microseconds.",
        |c| {
            let micros = temporal(&c.arguments[0]).map(Moment::fraction);
            Ok(Value::or_null(micros.map(Value::Int)))
        },
    ),
    Function::new(
        &["unix_timestamp"],
        (1, 2),
        &[DateTime, Text],
        unix_type,
        "Seconds since 1970, UTC; 0 for other points in time. The binder names the time zone of the argument.",
        unix_timestamp,
    )
    .with_zero_dates(),
    Function::new(
        &["from_unixtime"],
        (1, 2),
        &[Seconds, Text],
        from_unix_type,
        "The point in time so many seconds after 1970, perhaps by a format. The binder brings it to the time zone.",
        |c| {
            let micros = (0..=LAST_UNIX * SECOND + SECOND - 1)
                .contains(&c.int(0))
                .then(|| c.int(0));
            Ok(Value::or_null(micros.map(|micros| match c.has(1) {
                true => of_moment(c, micros, c.text(1)),
                false => Value::DateTime(micros),
            })))
        },
    ),
    Function::new(
        &["convert_tz"],
        (3, 3),
        &[DateTime, Text, Text],
        |a| ValueType::DateTime {
            fsp: known_fsp(&a[0]),
        },
        "A point in time in another time zone.",
        |c| {
            let zones = Zone::named(c.text(1)).zip(Zone::named(c.text(2)));
            let moment = zones.map(|(from, to)| match from.utc(c.micros(0)) {
                // What is no point in time of TIMESTAMP stays what it is.
                utc if !(SECOND..=LAST_UNIX * SECOND).contains(&utc) => c.micros(0),
                utc => to.local(utc),
            });
            Ok(Value::or_null(moment.map(Value::DateTime)))
        },
    ),
    Function::new(
        &["timestamp in zone"],
        (2, 2),
        &[DateTime, Text],
        |a| ValueType::DateTime {
            fsp: known_fsp(&a[0]),
        },
        "A point in time of UTC as a time zone calls it.",
        |c| {
            let zone = Zone::named(c.text(1));
            let local = zone.map(|zone| Value::DateTime(zone.local(c.micros(0))));
            Ok(Value::or_null(local))
        },
    )
    .with_zero_dates(),
    Function::new(
        &["extract_fields"],
        (2, 2),
        &[Text, Any],
        INT,
        "A field, or fields in one number, of a value.",
        extract,
    ),
];

/// Microseconds of a second.
const SECOND: i64 = 1_000_000;

/// The last second that UNIX_TIMESTAMP knows: 3001-01-18 23:59:59, as of MySQL 8.0.28.
const LAST_UNIX: i64 = 32_536_771_199;

/// A time or a point in time.
#[derive(Clone, Copy)]
enum Moment {
    DateTime(i64),
    Time(i64),
}

impl Moment {
    /// Microseconds of its second, whatever the sign.
    fn fraction(self) -> i64 {
        match self {
            Self::DateTime(micros) => micros.rem_euclid(SECOND),
            Self::Time(micros) => (micros % SECOND).abs(),
        }
    }
}

/// Digits of fractional seconds; of a constant text those that it shows.
fn known_fsp(argument: &Argument<'_>) -> u8 {
    match argument.constant {
        Some(text) => shown_fsp(text),
        None => argument.ty.fsp(),
    }
}

fn shown_fsp(text: &str) -> u8 {
    let fraction = text.rsplit_once('.');
    fraction.map_or(0, |(_, digits)| digits.trim().len().min(6)) as u8
}

/// The type of a sum: that of what is added to, but a text stays one.
fn sum_type(arguments: &[Argument<'_>]) -> ValueType {
    let fsp = arguments.iter().map(known_fsp).max().unwrap_or(0);
    match arguments[0].ty {
        ValueType::Date | ValueType::DateTime { .. } => ValueType::DateTime { fsp },
        ValueType::Time { .. } => ValueType::Time { fsp },
        _ => ValueType::Text,
    }
}

fn difference_type(arguments: &[Argument<'_>]) -> ValueType {
    let fsp = arguments.iter().map(known_fsp).max().unwrap_or(0);
    ValueType::Time { fsp }
}

fn timestamp_type(arguments: &[Argument<'_>]) -> ValueType {
    let fsp = arguments.iter().map(known_fsp).max().unwrap_or(0);
    ValueType::DateTime { fsp }
}

fn unix_type(arguments: &[Argument<'_>]) -> ValueType {
    match known_fsp(&arguments[0]) {
        0 => ValueType::Int,
        scale => ValueType::Decimal {
            precision: 11 + scale,
            scale,
        },
    }
}

fn from_unix_type(arguments: &[Argument<'_>]) -> ValueType {
    match arguments.len() {
        1 => ValueType::DateTime {
            fsp: arguments[0].ty.fsp(),
        },
        _ => ValueType::Text,
    }
}

/// A value as a time or a point in time; `None` if it is neither.
fn temporal(value: &Value<'_>) -> Option<Moment> {
    match value {
        Value::Date(days) => Some(Moment::DateTime(date::day_to_micros(*days))),
        Value::DateTime(micros) => Some(Moment::DateTime(*micros)),
        Value::Time(micros) => Some(Moment::Time(*micros)),
        Value::Text(text) => parsed(text.as_bytes()),
        Value::Bytes(bytes) => parsed(bytes),
        Value::Int(v) => parsed(v.to_string().as_bytes()),
        Value::UInt(v) => parsed(v.to_string().as_bytes()),
        Value::Decimal(units, scale) => {
            let mut text = String::new();
            units.format(*scale, &mut text);
            parsed(text.as_bytes())
        }
        Value::Double(v) => parsed(format!("{v:.6}").as_bytes()),
        Value::Null | Value::Bool(_) => None,
    }
}

/// A text as short as a time is one if it can be.
fn parsed(text: &[u8]) -> Option<Moment> {
    const DATE_AND_TIME: usize = 12;
    let moment = || match parse_text_ref(ColumnType::DateTime { fsp: 6 }, text) {
        Ok(ValueRef::DateTime(micros)) => Some(Moment::DateTime(micros)),
        _ => None,
    };
    let time = || match parse_text_ref(ColumnType::Time { fsp: 6 }, text) {
        Ok(ValueRef::Time(micros)) => Some(Moment::Time(micros)),
        _ => None,
    };
    match text.trim_ascii().len() >= DATE_AND_TIME {
        true => moment().or_else(time),
        false => time().or_else(moment),
    }
}

fn add<'a>(c: &Call<'a>, sign: i64) -> Outcome<'a> {
    let Some(moment) = temporal(&c.arguments[0]) else {
        return Ok(Value::Null);
    };
    let time = sign * c.micros(1);
    let sum = match moment {
        Moment::DateTime(micros) => match micros.checked_add(time) {
            Some(sum) if is_valid_micros(sum) => Moment::DateTime(sum),
            _ => return Ok(Value::Null),
        },
        Moment::Time(micros) => {
            Moment::Time(micros.saturating_add(time).clamp(-MAX_TIME, MAX_TIME))
        }
    };
    let as_text = !matches!(
        c.types[0],
        ValueType::Date | ValueType::DateTime { .. } | ValueType::Time { .. }
    );
    Ok(match sum {
        Moment::DateTime(sum) if as_text => {
            let mut text = String::new();
            date::format_micros(sum, if sum % SECOND == 0 { 0 } else { 6 }, &mut text);
            Value::text(text)
        }
        Moment::Time(sum) if as_text => {
            let mut text = String::new();
            format_time(sum, if sum % SECOND == 0 { 0 } else { 6 }, &mut text);
            Value::text(text)
        }
        Moment::DateTime(sum) => Value::DateTime(sum),
        Moment::Time(sum) => Value::Time(sum),
    })
}

fn timediff<'a>(c: &Call<'a>) -> Outcome<'a> {
    let moments = temporal(&c.arguments[0]).zip(temporal(&c.arguments[1]));
    let difference = match moments {
        Some((Moment::DateTime(a), Moment::DateTime(b)) | (Moment::Time(a), Moment::Time(b))) => {
            a - b
        }
        _ => return Ok(Value::Null),
    };
    Ok(Value::Time(difference.clamp(-MAX_TIME, MAX_TIME)))
}

fn maketime<'a>(c: &Call<'a>) -> Outcome<'a> {
    let (hours, minutes, seconds) = (c.int(0), c.int(1), c.int(2));
    if !(0..60).contains(&minutes) || !(0..60 * SECOND).contains(&seconds) {
        return Ok(Value::Null);
    }
    let whole = hours.unsigned_abs().min(839) as i64 * 3600 + minutes * 60;
    let micros = (whole * SECOND + seconds).min(MAX_TIME);
    Ok(Value::Time(if hours < 0 { -micros } else { micros }))
}

fn unix_timestamp<'a>(c: &Call<'a>) -> Outcome<'a> {
    let zone = match c.has(1) {
        true => Zone::named(c.text(1)),
        false => None,
    };
    let micros = match zone.unwrap_or_default().utc(c.micros(0)) {
        micros if micros < 0 || micros / SECOND > LAST_UNIX => 0,
        micros => micros,
    };
    let fsp = match c.types[0] {
        ValueType::Date | ValueType::DateTime { fsp: 0 } => 0,
        ValueType::DateTime { fsp } => fsp,
        _ if c.constant[0] && micros % SECOND == 0 => 0,
        _ => 6,
    };
    Ok(match fsp {
        0 => Value::Int(micros / SECOND),
        _ => Value::Decimal(Units::from(i128::from(micros)), 6),
    })
}

/// The fields that a unit of EXTRACT has, from the greatest to the least: of `YMDhmsu`.
fn fields_of(unit: &str) -> Option<&'static str> {
    Some(match unit {
        "microsecond" => "u",
        "second_microsecond" => "su",
        "minute_microsecond" => "msu",
        "minute_second" => "ms",
        "hour_microsecond" => "hmsu",
        "hour_second" => "hms",
        "hour_minute" => "hm",
        "day_microsecond" => "Dhmsu",
        "day_second" => "Dhms",
        "day_minute" => "Dhm",
        "day_hour" => "Dh",
        "year_month" => "YM",
        _ => return None,
    })
}

fn extract<'a>(c: &Call<'a>) -> Outcome<'a> {
    if c.text(0) == "week" {
        let Some(Moment::DateTime(micros)) = moment_of(&c.arguments[1]) else {
            return Ok(Value::Null);
        };
        let week =
            super::calendar::week(date::split_micros(micros).0, super::calendar::Mode::of(0));
        return Ok(Value::Int(week.1.into()));
    }
    let Some(fields) = fields_of(c.text(0)) else {
        return Err(super::FunctionError::IncorrectArguments(c.name));
    };
    let has_date = fields.contains(['Y', 'M', 'D']);
    let moment = match has_date {
        true => moment_of(&c.arguments[1]),
        false => temporal(&c.arguments[1]),
    };
    let Some(moment) = moment else {
        return Ok(Value::Null);
    };
    let mut number = 0;
    for field in fields.chars() {
        let (width, value) = part(moment, field);
        number = number * width + value;
    }
    let negative = matches!(moment, Moment::Time(micros) if micros < 0);
    Ok(Value::Int(if negative { -number } else { number }))
}

/// A value whose date is asked for; a TIME has none, but up to 838 hours.
fn moment_of(value: &Value<'_>) -> Option<Moment> {
    match value {
        Value::Text(_) | Value::Bytes(_) => {
            let text = match value {
                Value::Text(text) => text.as_bytes(),
                Value::Bytes(bytes) => bytes,
                _ => return None,
            };
            match parse_text_ref(ColumnType::DateTime { fsp: 6 }, text) {
                Ok(ValueRef::DateTime(micros)) => Some(Moment::DateTime(micros)),
                _ => None,
            }
        }
        other => temporal(other),
    }
}

/// A field, and the power of ten that the fields before it are multiplied by.
fn part(moment: Moment, field: char) -> (i64, i64) {
    let (date, time) = match moment {
        Moment::DateTime(micros) => {
            let (days, _) = date::split_micros(micros);
            let time = split_time(micros.rem_euclid(date::DAY_MICROS));
            (Some(date::Civil::from_days(days)), time)
        }
        Moment::Time(micros) => (None, split_time(micros)),
    };
    match (field, date) {
        ('Y', date) => (1, date.map_or(0, |date| date.year.into())),
        ('M', date) => (100, date.map_or(0, |date| date.month.into())),
        ('D', date) => (100, date.map_or(0, |date| date.day.into())),
        ('h', _) => (100, time.hours.into()),
        ('m', _) => (100, time.minute.into()),
        ('s', _) => (100, time.second.into()),
        _ => (1_000_000, time.micros.into()),
    }
}
