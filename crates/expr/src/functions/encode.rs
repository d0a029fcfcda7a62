//! Bytes as hexadecimal and base64 text, and numbers as characters.

use super::Kind::{Any, Bytes, Int};
use super::{BYTES, Call, Function, MANY, Outcome, TEXT, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["hex"],
        (1, 1),
        &[Any],
        TEXT,
        "A number, or the bytes of a string, in hexadecimal.",
        |c| {
            Ok(match &c.arguments[0] {
                Value::Text(text) => hexadecimal(c, text.as_bytes()),
                Value::Bytes(bytes) => hexadecimal(c, bytes),
                temporal @ (Value::Date(_) | Value::DateTime(_) | Value::Time(_)) => {
                    hexadecimal(c, temporal.temporal_text(c.types[0].fsp()).as_bytes())
                }
                number => Value::or_null(
                    super::number_text::integer_bits(number).map(|v| Value::text(format!("{v:X}"))),
                ),
            })
        },
    ),
    Function::new(
        &["unhex"],
        (1, 1),
        &[Bytes],
        BYTES,
        "The bytes of hexadecimal digits; NULL if there are others.",
        |c| Ok(Value::or_null(unhex(c.bytes(0)).map(Value::bytes))),
    ),
    Function::new(
        &["to_base64"],
        (1, 1),
        &[Bytes],
        TEXT,
        "Bytes in base64, in lines of 76 characters.",
        |c| {
            let length = c.bytes(0).len().div_ceil(3).saturating_mul(4);
            match c.has_room(length + length / LINE) {
                true => Ok(Value::text(to_base64(c.bytes(0)))),
                false => Ok(Value::Null),
            }
        },
    ),
    Function::new(
        &["from_base64"],
        (1, 1),
        &[Bytes],
        BYTES,
        "The bytes of a base64 text; NULL if it is none.",
        |c| Ok(Value::or_null(from_base64(c.bytes(0)).map(Value::bytes))),
    ),
    Function::new(
        &["char"],
        (1, MANY),
        &[Int],
        BYTES,
        "The bytes of numbers; NULL is left out.",
        char,
    )
    .with_nulls(),
];

fn hexadecimal<'a>(c: &Call<'a>, bytes: &[u8]) -> Value<'a> {
    match c.has_room(bytes.len().saturating_mul(2)) {
        true => Value::text(lower_hex(bytes).to_ascii_uppercase()),
        false => Value::Null,
    }
}

/// Bytes as hexadecimal digits in small letters.
pub(super) fn lower_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    let digits = bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    digits.collect()
}

/// The bytes of hexadecimal digits, of which the first may stand alone.
pub(super) fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: &u8| char::from(*digit).to_digit(16).map(|v| v as u8);
    let (first, rest) = digits.split_at(digits.len() % 2);
    let mut bytes = Vec::with_capacity(digits.len().div_ceil(2));
    if let [digit] = first {
        bytes.push(value(digit)?);
    }
    let (pairs, _) = rest.as_chunks::<2>();
    for [high, low] in pairs {
        bytes.push(value(high)? << 4 | value(low)?);
    }
    Some(bytes)
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Characters of a line.
const LINE: usize = 76;

fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 4 / 3 + 4);
    for (number, group) in bytes.chunks(3).enumerate() {
        if number > 0 && number % (LINE / 4) == 0 {
            text.push('\n');
        }
        let byte = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= group.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    text
}

fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let mut digits: Vec<u8> = text
        .iter()
        .copied()
        .filter(|b| !b.is_ascii_whitespace())
        .collect();
    if !digits.len().is_multiple_of(4) {
        return None;
    }
    let padding = digits
        .iter()
        .rev()
        .take_while(|byte| **byte == b'=')
        .count();
    if padding > 2 {
        return None;
    }
    digits.truncate(digits.len() - padding);
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let mut bits = 0;
        for i in 0..4 {
            let value = match group.get(i) {
                Some(digit) => ALPHABET.iter().position(|known| known == digit)?,
                None => 0,
            };
            bits = bits << 6 | value as u32;
        }
        let [_, group_bytes @ ..] = bits.to_be_bytes();
        bytes.extend_from_slice(&group_bytes[..group.len() - 1]);
    }
    Some(bytes)
}

fn char<'a>(c: &Call<'a>) -> Outcome<'a> {
    let mut bytes = Vec::new();
    for value in c.arguments {
        let Value::Int(number) = value else { continue };
        // The lower 32 bits, without leading zero bytes.
        let all = (*number as u32).to_be_bytes();
        let zeros = all[..3].iter().take_while(|byte| **byte == 0).count();
        bytes.extend_from_slice(&all[zeros..]);
    }
    Ok(Value::bytes(bytes))
}
