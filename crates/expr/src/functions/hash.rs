//! Hashes, checksums and compression.

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use super::Kind::{Bytes, Int};
use super::encode::lower_hex;
use super::{BYTES, Call, Function, INT, Outcome, TEXT, UINT, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["md5"],
        (1, 1),
        &[Bytes],
        TEXT,
        "The MD5 hash, in hexadecimal.",
        |c| Ok(hashed::<Md5>(c)),
    ),
    Function::new(
        &["sha1", "sha"],
        (1, 1),
        &[Bytes],
        TEXT,
        "The SHA-1 hash, in hexadecimal.",
        |c| Ok(hashed::<Sha1>(c)),
    ),
    Function::new(
        &["sha2"],
        (2, 2),
        &[Bytes, Int],
        TEXT,
        "The SHA-2 hash of 224, 256 (also 0), 384 or 512 bits, in hexadecimal.",
        |c| {
            Ok(match c.int(1) {
                224 => hashed::<Sha224>(c),
                0 | 256 => hashed::<Sha256>(c),
                384 => hashed::<Sha384>(c),
                512 => hashed::<Sha512>(c),
                _ => Value::Null,
            })
        },
    ),
    Function::new(
        &["crc32"],
        (1, 1),
        &[Bytes],
        UINT,
        "The CRC-32 checksum.",
        |c| Ok(Value::UInt(u64::from(crc32fast::hash(c.bytes(0))))),
    ),
    Function::new(
        &["compress"],
        (1, 1),
        &[Bytes],
        BYTES,
        "A string's length and its zlib stream.",
        |c| Ok(Value::bytes(compress(c.bytes(0)))),
    ),
    Function::new(
        &["uncompress"],
        (1, 1),
        &[Bytes],
        BYTES,
        "What COMPRESS was given; NULL if it is none of its results.",
        uncompress,
    ),
    Function::new(
        &["uncompressed_length"],
        (1, 1),
        &[Bytes],
        INT,
        "The length that COMPRESS noted.",
        |c| {
            Ok(Value::Int(
                noted_length(c.bytes(0)).map_or(0, |length| length as i64),
            ))
        },
    ),
];

fn hashed<'a, D: Digest>(c: &Call<'a>) -> Value<'a> {
    Value::text(lower_hex(&D::digest(c.bytes(0))))
}

/// Level of zlib that MySQL uses.
const LEVEL: u8 = 6;

/// The length takes 30 bits.
const LENGTH: u32 = (1 << 30) - 1;

fn compress(bytes: &[u8]) -> Vec<u8> {
    if bytes.is_empty() {
        return Vec::new();
    }
    let length = bytes.len() as u32 & LENGTH;
    let mut compressed = length.to_le_bytes().to_vec();
    compressed.extend(miniz_oxide::deflate::compress_to_vec_zlib(bytes, LEVEL));
    // Columns of type CHAR would lose a space at the end.
    if compressed.last() == Some(&b' ') {
        compressed.push(b'.');
    }
    compressed
}

/// The length before a compressed string, if there is one.
fn noted_length(bytes: &[u8]) -> Option<usize> {
    let (length, stream) = bytes.split_first_chunk::<4>()?;
    (!stream.is_empty()).then(|| (u32::from_le_bytes(*length) & LENGTH) as usize)
}

fn uncompress<'a>(c: &Call<'a>) -> Outcome<'a> {
    let bytes = c.bytes(0);
    if bytes.is_empty() {
        return Ok(Value::bytes(Vec::new()));
    }
    let Some(length) = noted_length(bytes).filter(|length| c.has_room(*length)) else {
        return Ok(Value::Null);
    };
    let plain = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(&bytes[4..], length);
    Ok(Value::or_null(plain.ok().map(Value::bytes)))
}
