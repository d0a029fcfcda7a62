//! The order of JSON values, as bytes: `a.sort_key() < b.sort_key()` if and only if `a` is less than
//! `b` in MySQL. Types come first: null, numbers, strings, objects, arrays, truth values.

use super::Json;

/// First bytes of the types.
const NULL: u8 = 1;
const NUMBER: u8 = 2;
const STRING: u8 = 3;
const OBJECT: u8 = 4;
const ARRAY: u8 = 5;
const BOOLEAN: u8 = 6;

/// Begins an element of an array; its end is 0.
const ELEMENT: u8 = 1;

impl Json {
    /// Bytes that are ordered as values are. Equal values have equal bytes; so have numbers of any
    /// kind, alone or within arrays and objects.
    #[must_use]
    pub fn sort_key(&self) -> Vec<u8> {
        let mut key = Vec::new();
        self.append_sort_key(&mut key);
        key
    }

    fn append_sort_key(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.push(NULL),
            Self::Bool(truth) => out.extend([BOOLEAN, u8::from(*truth)]),
            Self::Number(number) => {
                out.push(NUMBER);
                number.append_sort_key(out);
            }
            Self::String(text) => {
                out.push(STRING);
                append_text(text, out);
            }
            Self::Array(elements) => {
                out.push(ARRAY);
                for element in elements {
                    out.push(ELEMENT);
                    element.append_sort_key(out);
                }
                out.push(0);
            }
            // Only equality of objects has a meaning.
            Self::Object(members) => {
                out.push(OBJECT);
                out.extend((members.len() as u32).to_be_bytes());
                for (name, value) in members.iter() {
                    out.extend((name.len() as u32).to_be_bytes());
                    out.extend(name.as_bytes());
                    value.append_sort_key(out);
                }
            }
        }
    }

    /// True if the two are equal as values of SQL's `=`.
    #[must_use]
    pub fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::String(a), Self::String(b)) => a == b,
            _ => self.sort_key() == other.sort_key(),
        }
    }
}

/// A text that ends where no longer one goes on: NUL is followed by 255 in it, by 0 at its end.
fn append_text(text: &str, out: &mut Vec<u8>) {
    let mut parts = text.as_bytes().split(|byte| *byte == 0);
    out.extend(parts.next().unwrap_or_default());
    for part in parts {
        out.extend([0, 255]);
        out.extend(part);
    }
    out.extend([0, 0]);
}
