//! Numbers as text: in other bases, with separators.

use perigee_value::Units;

use super::Kind::{Any, Int, Number, Text};
use super::{Call, Function, Outcome, TEXT, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(&["bin"], (1, 1), &[Any], TEXT, "A number in binary.", |c| {
        in_base(c, 2)
    }),
    Function::new(&["oct"], (1, 1), &[Any], TEXT, "A number in octal.", |c| {
        in_base(c, 8)
    }),
    Function::new(
        &["conv"],
        (3, 3),
        &[Text, Int, Int],
        TEXT,
        "A number in another base; bases below zero are those of signed numbers.",
        |c| {
            Ok(Value::or_null(
                conv(c.text(0), c.int(1), c.int(2)).map(Value::text),
            ))
        },
    ),
    Function::new(
        &["format"],
        (2, 3),
        &[Number, Int, Text],
        TEXT,
        "A number with thousands separators, rounded to so many decimal places.",
        format,
    )
    .with_nulls(),
];

/// The 64 bits of a number that is rounded to an integer; `None` for strings.
pub(super) fn integer_bits(value: &Value<'_>) -> Option<u64> {
    let clamped = |v: i128| match v {
        v if v < 0 => v.max(i64::MIN.into()) as i64 as u64,
        v => v.min(u64::MAX.into()) as u64,
    };
    match value {
        Value::Int(v) => Some(*v as u64),
        Value::UInt(v) => Some(*v),
        Value::Double(v) => Some(clamped(v.round_ties_even() as i128)),
        Value::Decimal(units, scale) => Some(match units.rescale(*scale, 0)?.to_i128() {
            Some(v) => clamped(v),
            None if units.is_negative() => i64::MIN as u64,
            None => u64::MAX,
        }),
        _ => None,
    }
}

/// BIN and OCT: a text as CONV takes it, a number without its fraction.
fn in_base<'a>(c: &Call<'a>, base: u32) -> Outcome<'a> {
    let bits = match &c.arguments[0] {
        Value::Text(text) => conv_bits(text, 10),
        Value::Bytes(bytes) => conv_bits(&String::from_utf8_lossy(bytes), 10),
        Value::Double(v) => Some(if *v < 0.0 {
            *v as i64 as u64
        } else {
            *v as u64
        }),
        Value::Decimal(units, scale) => {
            let power = Units::pow10(usize::from(*scale)).unwrap_or(*units);
            integer_bits(&Value::Decimal(units.quotient(power).unwrap_or(*units), 0))
        }
        other => integer_bits(other),
    };
    Ok(Value::or_null(
        bits.map(|bits| Value::text(digits(bits, base))),
    ))
}

fn conv(text: &str, from: i64, to: i64) -> Option<String> {
    let valid = |base: i64| (2..=36).contains(&base.unsigned_abs());
    if !valid(from) || !valid(to) {
        return None;
    }
    let bits = conv_bits(text, from)?;
    let base = to.unsigned_abs() as u32;
    Some(match to < 0 && (bits as i64) < 0 {
        true => format!("-{}", digits((bits as i64).unsigned_abs(), base)),
        false => digits(bits, base),
    })
}

/// The number a text begins with in a base, which is below zero for signed numbers.
fn conv_bits(text: &str, base: i64) -> Option<u64> {
    let text = text.trim_start();
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let radix = u32::try_from(base.unsigned_abs()).ok()?;
    let digits = text.chars().map_while(|char| char.to_digit(radix));
    let magnitude = digits.fold(0_u128, |n, digit| {
        (n * u128::from(radix) + u128::from(digit)).min(1 << 65)
    });
    let limit = match (base < 0, negative) {
        (true, false) => i64::MAX as u128,
        (true, true) => 1 << 63,
        (false, _) => u64::MAX.into(),
    };
    let bits = magnitude.min(limit) as u64;
    Some(match negative && magnitude <= limit {
        true => bits.wrapping_neg(),
        false if negative && base < 0 => bits.wrapping_neg(),
        false => bits,
    })
}

fn digits(mut bits: u64, base: u32) -> String {
    let mut digits = Vec::new();
    loop {
        let digit = char::from_digit((bits % u64::from(base)) as u32, base).unwrap_or('0');
        digits.push(digit.to_ascii_uppercase());
        bits /= u64::from(base);
        if bits == 0 {
            return digits.iter().rev().collect();
        }
    }
}

/// MySQL's greatest number of decimal places here.
const MAX_PLACES: i64 = 30;

fn format<'a>(c: &Call<'a>) -> Outcome<'a> {
    if c.is_null(0) || c.is_null(1) {
        return Ok(Value::Null);
    }
    if c.has(2) && !c.is_null(2) && !c.text(2).eq_ignore_ascii_case("en_US") {
        let what = "FORMAT with a locale other than en_US";
        return Err(super::FunctionError::NotSupported(what.to_owned()));
    }
    let places = c.int(1).clamp(0, MAX_PLACES) as u8;
    let mut text = String::new();
    match &c.arguments[0] {
        Value::Decimal(units, scale) => rounded(*units, *scale, places, &mut text),
        Value::Int(v) => rounded(i128::from(*v).into(), 0, places, &mut text),
        Value::UInt(v) => rounded(i128::from(*v).into(), 0, places, &mut text),
        Value::Double(v) => text = double(*v, places),
        _ => return Ok(Value::Null),
    }
    Ok(Value::text(grouped(&text)))
}

/// A decimal with so many places.
fn rounded(units: Units, scale: u8, places: u8, text: &mut String) {
    match units.rescale(scale, scale.min(places)) {
        Some(kept) => kept.format(scale.min(places), text),
        None => units.format(scale, text),
    }
    if places > scale.min(places) {
        if scale == 0 {
            text.push('.');
        }
        text.extend(std::iter::repeat_n(
            '0',
            usize::from(places - scale.min(places)),
        ));
    }
}

/// A DOUBLE with so many places; halves are rounded to even ones, as ROUND does.
fn double(value: f64, places: u8) -> String {
    let power = 10_f64.powi(places.into());
    let value = match value * power {
        scaled if scaled.is_finite() => scaled.round_ties_even() / power,
        _ => value,
    };
    let mut shortest = String::new();
    perigee_value::format_double(value, &mut shortest);
    let exact = match shortest.split_once('.') {
        _ if shortest.contains('e') => None,
        Some((_, after)) => u8::try_from(after.len())
            .ok()
            .map(|scale| (shortest.replace('.', ""), scale)),
        None => Some((shortest, 0)),
    };
    let units = exact.and_then(|(digits, scale)| digits.parse::<i128>().ok().map(|v| (v, scale)));
    match units {
        Some((units, scale)) => {
            let mut text = String::new();
            rounded(units.into(), scale, places, &mut text);
            if value < 0.0
                && !text.starts_with('-')
                && !text.bytes().all(|b| matches!(b, b'0' | b'.'))
            {
                text.insert(0, '-');
            }
            text
        }
        None => format!("{value:.*}", usize::from(places)),
    }
}

/// A number with a comma before each three digits of its integer part.
fn grouped(number: &str) -> String {
    let (sign, number) = match number.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", number),
    };
    let (whole, fraction) = number.split_at(number.find('.').unwrap_or(number.len()));
    let mut text = sign.to_owned();
    for (at, digit) in whole.char_indices() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text + fraction
}
