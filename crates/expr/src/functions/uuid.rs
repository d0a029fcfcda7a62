//! UUIDs as text and as bytes.

use super::Kind::{Bytes, Int, Text};
use super::encode::{lower_hex, unhex};
use super::{BYTES, Call, Function, FunctionError, INT, Outcome, TEXT, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["uuid"],
        (0, 0),
        &[],
        TEXT,
        "A new UUID of the time (version 1).",
        |c| Ok(Value::text(shown(&new_uuid(c)))),
    )
    .changing(),
    Function::new(
        &["uuid_to_bin"],
        (1, 2),
        &[Text, Int],
        BYTES,
        "The bytes of a UUID, with the parts of the time exchanged if the second argument is not 0.",
        |c| {
            let bytes = parsed(c.text(0)).ok_or_else(|| incorrect(c, c.text(0).to_owned()))?;
            Ok(Value::bytes(match c.has(1) && c.int(1) != 0 {
                true => exchanged(bytes).to_vec(),
                false => bytes.to_vec(),
            }))
        },
    ),
    Function::new(
        &["bin_to_uuid"],
        (1, 2),
        &[Bytes, Int],
        TEXT,
        "The text of sixteen bytes that UUID_TO_BIN gave.",
        bin_to_uuid,
    ),
    Function::new(
        &["is_uuid"],
        (1, 1),
        &[Text],
        INT,
        "1 for the text of a UUID.",
        |c| Ok(Value::truth(parsed(c.text(0)).is_some())),
    ),
];

/// 100 ns from 1582-10-15 to 1970-01-01.
const GREGORIAN: u64 = 122_192_928_000_000_000;

fn new_uuid(c: &Call<'_>) -> [u8; 16] {
    // The clock counts microseconds; the digit below tells calls within one apart, as far as it can.
    let random = c.environment.random();
    let now = c.environment.now().unsigned_abs() * 10 + random % 10 + GREGORIAN;
    let node = c.environment.random();
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&(now as u32).to_be_bytes());
    bytes[4..6].copy_from_slice(&((now >> 32) as u16).to_be_bytes());
    bytes[6..8].copy_from_slice(&((now >> 48) as u16 & 0x0fff | 0x1000).to_be_bytes());
    bytes[8..10].copy_from_slice(&((random >> 16) as u16 & 0x3fff | 0x8000).to_be_bytes());
    bytes[10..].copy_from_slice(&node.to_be_bytes()[2..]);
    // The bit of addresses that are no network card's.
    bytes[10] |= 1;
    bytes
}

/// The lengths of a UUID's parts, in bytes.
const PARTS: [usize; 5] = [4, 2, 2, 2, 6];

fn shown(bytes: &[u8; 16]) -> String {
    let mut rest = &bytes[..];
    let parts = PARTS.map(|length| {
        let (part, behind) = rest.split_at(length);
        rest = behind;
        lower_hex(part)
    });
    parts.join("-")
}

/// The bytes of a text with or without dashes, perhaps in braces.
fn parsed(text: &str) -> Option<[u8; 16]> {
    let inner = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').filter(|rest| rest.len() == 36)?,
        None => text,
    };
    let digits: String = match inner.len() {
        32 => inner.to_owned(),
        36 => {
            let parts: Vec<&str> = inner.split('-').collect();
            let fits = parts
                .iter()
                .map(|part| part.len())
                .eq(PARTS.map(|length| 2 * length));
            fits.then(|| parts.concat())?
        }
        _ => return None,
    };
    unhex(digits.as_bytes())?.try_into().ok()
}

/// The parts of the time, the highest first.
fn exchanged(b: [u8; 16]) -> [u8; 16] {
    [
        b[6], b[7], b[4], b[5], b[0], b[1], b[2], b[3], b[8], b[9], b[10], b[11], b[12], b[13],
        b[14], b[15],
    ]
}

/// What [`exchanged`] was given.
fn restored(b: [u8; 16]) -> [u8; 16] {
    [
        b[4], b[5], b[6], b[7], b[2], b[3], b[0], b[1], b[8], b[9], b[10], b[11], b[12], b[13],
        b[14], b[15],
    ]
}

fn bin_to_uuid<'a>(c: &Call<'a>) -> Outcome<'a> {
    let bytes = <[u8; 16]>::try_from(c.bytes(0));
    let bytes =
        bytes.map_err(|_| incorrect(c, String::from_utf8_lossy(c.bytes(0)).into_owned()))?;
    Ok(Value::text(match c.has(1) && c.int(1) != 0 {
        true => shown(&restored(bytes)),
        false => shown(&bytes),
    }))
}

fn incorrect(c: &Call<'_>, value: String) -> FunctionError {
    FunctionError::IncorrectValue {
        kind: "string",
        value,
        function: c.name,
    }
}
