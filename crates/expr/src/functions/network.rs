//! Addresses of the internet.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::Kind::{Bytes, Int, Text};
use super::{BYTES, Call, Function, INT, TEXT, UINT, Value};

/// A test of a text that is no error for NULL.
macro_rules! test {
    ($name:literal, $kind:ident, $about:literal, $holds:expr) => {
        Function::new(&[$name], (1, 1), &[$kind], INT, $about, |c: &Call<'_>| {
            let holds: fn(&Call<'_>) -> bool = $holds;
            Ok(Value::truth(!c.is_null(0) && holds(c)))
        })
        .with_nulls()
    };
}

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["inet_aton"],
        (1, 1),
        &[Text],
        UINT,
        "The number of an IPv4 address.",
        |c| Ok(Value::or_null(aton(c.text(0)).map(Value::UInt))),
    ),
    Function::new(
        &["inet_ntoa"],
        (1, 1),
        &[Int],
        TEXT,
        "The IPv4 address with a number.",
        |c| {
            let number = u32::try_from(c.int(0)).ok();
            Ok(Value::or_null(number.map(|number| {
                Value::text(Ipv4Addr::from(number).to_string())
            })))
        },
    ),
    Function::new(
        &["inet6_aton"],
        (1, 1),
        &[Text],
        BYTES,
        "The bytes of an IPv4 or IPv6 address.",
        |c| {
            Ok(match (v4(c.text(0)), v6(c.text(0))) {
                (Some(address), _) => Value::bytes(address.octets().to_vec()),
                (_, Some(address)) => Value::bytes(address.octets().to_vec()),
                _ => Value::Null,
            })
        },
    ),
    Function::new(
        &["inet6_ntoa"],
        (1, 1),
        &[Bytes],
        TEXT,
        "The address of four or sixteen bytes.",
        |c| {
            let text = match (
                <[u8; 4]>::try_from(c.bytes(0)),
                <[u8; 16]>::try_from(c.bytes(0)),
            ) {
                (Ok(v4), _) => Some(Ipv4Addr::from(v4).to_string()),
                (_, Ok(v6)) => Some(shown(v6)),
                _ => None,
            };
            Ok(Value::or_null(text.map(Value::text)))
        },
    ),
    test!("is_ipv4", Text, "1 for the text of an IPv4 address.", |c| {
        v4(c.text(0)).is_some()
    }),
    test!("is_ipv6", Text, "1 for the text of an IPv6 address.", |c| {
        v6(c.text(0)).is_some()
    }),
    test!(
        "is_ipv4_compat",
        Bytes,
        "1 for the bytes of an IPv4-compatible address.",
        |c| {
            let [zeros @ .., a, b, d, e] = c.bytes(0) else {
                return false;
            };
            let number = u32::from_be_bytes([*a, *b, *d, *e]);
            // :: and ::1 are no IPv4 addresses.
            zeros.len() == 12 && zeros.iter().all(|byte| *byte == 0) && number > 1
        }
    ),
    test!(
        "is_ipv4_mapped",
        Bytes,
        "1 for the bytes of an IPv4-mapped address.",
        |c| {
            let prefix = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
            c.bytes(0).len() == 16 && c.bytes(0).starts_with(&prefix)
        }
    ),
];

/// The number of up to four parts; the last of fewer fills the rest.
fn aton(text: &str) -> Option<u64> {
    let mut parts = Vec::new();
    for part in text.split('.') {
        let plain = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let number = part
            .parse::<u64>()
            .ok()
            .filter(|number| plain && *number <= 255)?;
        parts.push(number);
    }
    let (last, first) = parts.split_last()?;
    if first.len() > 3 {
        return None;
    }
    let begin = first.iter().enumerate();
    let begin = begin.fold(0, |sum, (i, part)| sum | part << (24 - 8 * i));
    Some(begin | last)
}

fn v4(text: &str) -> Option<Ipv4Addr> {
    // Rust refuses leading zeros, which MySQL does not.
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        let plain = (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        *octet = part.parse().ok().filter(|_| plain)?;
    }
    parts.next().is_none().then(|| octets.into())
}

fn v6(text: &str) -> Option<Ipv6Addr> {
    text.parse().ok()
}

/// As the C library shows addresses: those with an IPv4 address at the end show it.
fn shown(bytes: [u8; 16]) -> String {
    let address = Ipv6Addr::from(bytes);
    let [zeros @ .., a, b, c, d] = bytes;
    let compatible = zeros.iter().all(|byte| *byte == 0) && (a, b) != (0, 0);
    match compatible {
        true => format!("::{a}.{b}.{c}.{d}"),
        false => address.to_string(),
    }
}
