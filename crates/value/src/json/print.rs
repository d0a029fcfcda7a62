//! Value to text: the normal form.

use std::fmt::{self, Write};

use super::Json;

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(true) => f.write_str("true"),
            Self::Bool(false) => f.write_str("false"),
            Self::Number(number) => number.fmt(f),
            Self::String(text) => quote(text, f),
            Self::Array(elements) => {
                f.write_char('[')?;
                for (place, element) in elements.iter().enumerate() {
                    f.write_str(if place == 0 { "" } else { ", " })?;
                    element.fmt(f)?;
                }
                f.write_char(']')
            }
            Self::Object(members) => {
                f.write_char('{')?;
                for (place, (name, value)) in members.iter().enumerate() {
                    f.write_str(if place == 0 { "" } else { ", " })?;
                    quote(name, f)?;
                    f.write_str(": ")?;
                    value.fmt(f)?;
                }
                f.write_char('}')
            }
        }
    }
}

/// A string in quotes, with as few escapes as there must be.
fn quote(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    let mut written = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        f.write_str(&text[written..at])?;
        written = at + 1;
        match byte {
            b'"' => f.write_str("\\\"")?,
            b'\\' => f.write_str("\\\\")?,
            8 => f.write_str("\\b")?,
            9 => f.write_str("\\t")?,
            10 => f.write_str("\\n")?,
            12 => f.write_str("\\f")?,
            13 => f.write_str("\\r")?,
            control => write!(f, "\\u{control:04x}")?,
        }
    }
    f.write_str(&text[written..])?;
    f.write_char('"')
}
