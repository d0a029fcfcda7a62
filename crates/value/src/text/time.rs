//! TIME literals, by MySQL's rules: hours, minutes and seconds between colons, perhaps behind days;
//! packed digits, of which the last two are seconds; or a date with a time, which is taken.

use super::datetime;
use crate::date;

/// The greatest number that means hours, minutes and seconds.
const MAX_PACKED: u64 = 8_385_959;

/// The least number that means a date and a time.
const MIN_DATETIME: u64 = 10_000_000_000;

/// What is a time, but longer than any that MySQL has.
const TOO_LONG: i64 = i64::MAX;

/// Microseconds of a time, perhaps more than a TIME has; not rounded. `None` if the text is not one.
/// White space around it is allowed.
pub(super) fn parse(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii();
    // So much is a date with a time behind it.
    if text.len() >= 12
        && let Some(micros) = datetime::parse(text)
    {
        return Some(micros.rem_euclid(date::DAY_MICROS));
    }
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let micros = parse_unsigned(text.trim_ascii_start())?;
    Some(if negative { -micros } else { micros })
}

fn parse_unsigned(text: &[u8]) -> Option<i64> {
    let (clock, fraction) = match text.iter().position(|byte| *byte == b'.') {
        Some(point) => (&text[..point], datetime::parse_fraction(&text[point..])?),
        None => (text, 0),
    };
    let (days, clock) = match clock.iter().position(|byte| *byte == b' ') {
        Some(space) => (Some(number(&clock[..space])?), clock[space..].trim_ascii()),
        None => (None, clock),
    };
    let micros = match days {
        None if !clock.contains(&b':') => from_packed(number(clock)?)?,
        // Behind days come hours first, as before a colon.
        _ => from_fields(days.unwrap_or(0), clock)?,
    };
    Some(micros.saturating_add(fraction))
}

fn from_fields(days: u64, clock: &[u8]) -> Option<i64> {
    let mut fields = clock.split(|byte| *byte == b':');
    let mut next = || fields.next().map_or(Some(0), number);
    let (hours, minute, second) = (next()?, next()?, next()?);
    if fields.next().is_some() {
        return None;
    }
    assemble(
        days.saturating_mul(24).saturating_add(hours),
        minute,
        second,
    )
}

/// What an integer such as 235959 means as a time, perhaps one longer than a TIME is.
pub(super) fn from_number(number: i128) -> Option<i64> {
    let packed = u64::try_from(number.unsigned_abs()).ok()?;
    if packed >= MIN_DATETIME && number > 0 {
        let micros = datetime::from_number(number)?;
        return Some(micros.rem_euclid(date::DAY_MICROS));
    }
    let micros = from_packed(packed)?;
    Some(if number < 0 { -micros } else { micros })
}

fn from_packed(packed: u64) -> Option<i64> {
    if packed > MAX_PACKED {
        return Some(TOO_LONG);
    }
    assemble(packed / 10_000, packed / 100 % 100, packed % 100)
}

fn assemble(hours: u64, minute: u64, second: u64) -> Option<i64> {
    if minute > 59 || second > 59 {
        return None;
    }
    let seconds = hours
        .saturating_mul(3600)
        .saturating_add(minute * 60 + second);
    let micros = seconds.saturating_mul(1_000_000);
    Some(i64::try_from(micros).unwrap_or(TOO_LONG))
}

/// Digits, at least one.
fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}
