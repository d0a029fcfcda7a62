//! Comparing, quoting and sounding strings.

use std::cmp::Ordering;

use perigee_value::Charset;

use super::Kind::{Bytes, Text};
use super::{BYTES, Call, Function, INT, Outcome, TEXT, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["strcmp"],
        (2, 2),
        &[Bytes],
        INT,
        "-1, 0 or 1: how two strings compare.",
        |c| {
            let order = c.collation.compare(c.bytes(0), c.bytes(1));
            Ok(Value::Int(match order {
                Ordering::Less => -1,
                Ordering::Equal => 0,
                Ordering::Greater => 1,
            }))
        },
    )
    .by_collation(),
    Function::new(
        &["quote"],
        (1, 1),
        &[Text],
        TEXT,
        "A string as a literal; NULL as the word.",
        quote,
    )
    .with_nulls(),
    Function::new(
        &["soundex"],
        (1, 1),
        &[Text],
        TEXT,
        "How an English word sounds, of at least four characters.",
        |c| Ok(Value::text(soundex(c.text(0)))),
    ),
    Function::new(
        &["ord"],
        (1, 1),
        &[Text],
        INT,
        "The number that the bytes of the first character make.",
        |c| {
            let Some(first) = c.text(0).chars().next() else {
                return Ok(Value::Int(0));
            };
            if c.over_bytes {
                return Ok(Value::Int(i64::from(u32::from(first))));
            }
            let mut buffer = [0; 4];
            let bytes = first.encode_utf8(&mut buffer).bytes();
            Ok(Value::Int(
                bytes.fold(0, |number, byte| number << 8 | i64::from(byte)),
            ))
        },
    ),
    Function::new(
        &["cast latin1 as binary"],
        (1, 1),
        &[Text],
        BYTES,
        "The bytes of a text in `latin1`.",
        |c| {
            let bytes = Charset::Latin1.bytes_of(c.text(0));
            Ok(Value::bytes(bytes.into_owned()))
        },
    ),
    Function::new(
        &["convert using latin1"],
        (1, 1),
        &[Text],
        TEXT,
        "The text with question marks for characters that `latin1` does not have.",
        |c| Ok(Value::text(only_of(Charset::Latin1, c.text(0)))),
    ),
    Function::new(
        &["convert using ascii"],
        (1, 1),
        &[Text],
        TEXT,
        "The text with question marks for characters that `ascii` does not have.",
        |c| Ok(Value::text(only_of(Charset::Ascii, c.text(0)))),
    ),
];

/// A text with question marks for characters that a character set does not have.
fn only_of(charset: Charset, text: &str) -> String {
    let bytes = charset.bytes_of(text);
    charset.text_of(&bytes).unwrap_or_default()
}

fn quote<'a>(c: &Call<'a>) -> Outcome<'a> {
    if c.is_null(0) {
        return Ok(Value::text("NULL"));
    }
    let mut quoted = String::with_capacity(c.text(0).len() + 2);
    quoted.push('\'');
    for char in c.text(0).chars() {
        match char {
            '\'' | '\\' => quoted.extend(['\\', char]),
            '\0' => quoted.push_str("\\0"),
            '\u{1a}' => quoted.push_str("\\Z"),
            _ => quoted.push(char),
        }
    }
    quoted.push('\'');
    Ok(Value::text(quoted))
}

/// MySQL's code: of any length, vowels do not separate equal codes.
fn soundex(text: &str) -> String {
    /// Codes of the letters A to Z; 0 is not written.
    const CODES: &[u8; 26] = b"01230120022455012623010202";
    let code = |letter: char| match letter.to_ascii_uppercase() {
        letter @ 'A'..='Z' => char::from(CODES[letter as usize - 'A' as usize]),
        _ => '0',
    };
    // Letters of other alphabets count as letters without a code.
    let is_letter = |char: &char| char.is_ascii_alphabetic() || *char >= '\u{c0}';
    let mut letters = text.chars().filter(is_letter);
    let Some(first) = letters.next() else {
        return String::new();
    };
    let first_letter = first.to_ascii_uppercase().to_string();
    let (mut sound, mut length, mut last) = (first_letter, 1, code(first));
    for code in letters.map(code) {
        if code != '0' && code != last {
            sound.push(code);
            length += 1;
            last = code;
        }
    }
    sound.extend(std::iter::repeat_n('0', 4_usize.saturating_sub(length)));
    sound
}
