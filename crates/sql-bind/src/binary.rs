//! Binary literals, X'4D79', 0x4D79, B'101' and 0b101: strings of bytes, and numbers where a number is wanted.

pub use perigee_value::bits::number_of;
use sqlparser::ast::{Expr, Value};

/// The bytes of an expression that is a binary literal.
#[must_use]
pub fn binary_literal(expr: &Expr) -> Option<Vec<u8>> {
    match expr {
        Expr::Nested(inner) => binary_literal(inner),
        Expr::Value(value) => match &value.value {
            Value::HexStringLiteral(digits) => bytes_of(digits),
            _ => None,
        },
        _ => None,
    }
}

/// The bytes that pairs of digits stand for; a single first digit is a byte, too.
#[must_use]
pub fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    let (first, pairs) = digits.split_at(digits.len() % 2);
    let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    let first = (!first.is_empty()).then_some(first);
    first.into_iter().chain(pairs.chunks(2)).map(byte).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn digits_are_bytes_and_bytes_numbers() {
        for (digits, bytes, number) in [
            ("", vec![], Some(0)),
            ("4d79", vec![0x4d, 0x79], Some(0x4d79)),
            ("F", vec![15], Some(15)),
            ("abc", vec![10, 0xbc], Some(0xabc)),
            (
                "00ffffffffffffffff",
                [vec![0], vec![255; 8]].concat(),
                Some(u64::MAX),
            ),
            ("010000000000000000", [vec![1], vec![0; 8]].concat(), None),
        ] {
            assert_eq!(bytes_of(digits).unwrap(), bytes, "{digits}");
            assert_eq!(number_of(&bytes), number, "{digits}");
        }
        assert_eq!(bytes_of("4g"), None);
    }
}
