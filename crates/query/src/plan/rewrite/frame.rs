//! Frames of windows: their bounds in the form that DataFusion reads. `INTERVAL 3 DAY` becomes `INTERVAL '3' DAY`.

use datafusion::sql::sqlparser::ast::{
    DateTimeField, Expr, Interval, Value, WindowFrame, WindowFrameBound, WindowFrameUnits,
};

use super::expression::literal;
use super::{refuse, unsupported};
use crate::error::{Result, SqlError};

/// Longest interval of a frame, in years: longer than from the first to the last DATETIME.
const MAX_YEARS: u64 = 20_000;

/// Rewrites the bounds of a frame over so many expressions of ORDER BY. What the types of these say of the bounds is
/// checked later, in [`crate::plan::frames`].
///
/// # Errors
/// 1235 for bounds that are not constants, 3586, 3587.
pub(super) fn frame(frame: &mut WindowFrame, ordered_by: usize) -> Result<()> {
    let is_range = frame.units == WindowFrameUnits::Range;
    for bound in std::iter::once(&mut frame.start_bound).chain(&mut frame.end_bound) {
        let (WindowFrameBound::Preceding(Some(distance))
        | WindowFrameBound::Following(Some(distance))) = bound
        else {
            continue;
        };
        if is_range && ordered_by != 1 {
            return Err(SqlError::frame_order_type());
        }
        match distance.as_mut() {
            Expr::Value(value) => number(&value.value, is_range)?,
            Expr::Interval(distance) if is_range => interval(distance)?,
            _ => return unsupported("a frame with a distance like this"),
        }
    }
    Ok(())
}

fn number(value: &Value, is_range: bool) -> Result<()> {
    let Value::Number(text, _) = value else {
        return unsupported("a frame with a distance like this");
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match is_range {
        false if !is_digits(text) => Err(SqlError::frame_bound()),
        true if !is_digits(&text.replacen('.', "", 1)) => {
            unsupported("a frame with a distance like this")
        }
        _ => Ok(()),
    }
}

fn interval(interval: &mut Interval) -> Result<()> {
    let count: Option<u32> = match interval.value.as_ref() {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) | Value::SingleQuotedString(text) => text.trim().parse().ok(),
            _ => None,
        },
        _ => None,
    };
    let (Some(count), Some(unit)) = (count, interval.leading_field.take()) else {
        return unsupported("a frame with an INTERVAL like this");
    };
    refuse(interval.last_field.is_some(), "a frame with this INTERVAL")?;
    let count = u64::from(count);
    let of_days = |count: u64| (count.min(MAX_YEARS * 366), DateTimeField::Day);
    let of_months = |count: u64| (count.min(MAX_YEARS * 12), DateTimeField::Month);
    let ((count, unit), rest) = match unit {
        DateTimeField::Year => (of_months(count * 12), None),
        DateTimeField::Quarter => (of_months(count * 3), None),
        DateTimeField::Month => (of_months(count), None),
        DateTimeField::Week(None) => (of_days(count * 7), None),
        DateTimeField::Day => (of_days(count), None),
        // Arrow counts what is less than a day in nanoseconds, of which it has 292 years.
        DateTimeField::Hour => (of_days(count / 24), Some((count % 24, unit))),
        DateTimeField::Minute => (of_days(count / 1440), Some((count % 1440, unit))),
        DateTimeField::Second | DateTimeField::Microsecond => ((count, unit), None),
        other => return unsupported(format!("a frame with an INTERVAL … {other}")),
    };
    let (value, unit) = match rest {
        Some((rest, smaller)) => (format!("{count} {unit} {rest}"), smaller),
        None => (count.to_string(), unit),
    };
    *interval.value = literal(Value::SingleQuotedString(value));
    interval.leading_field = Some(unit);
    Ok(())
}
