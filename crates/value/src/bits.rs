//! BIT(n): an unsigned integer of n bits. Where strings are wanted it is its bytes, the most significant one first.

use crate::{ColumnType, ValueError, ValueErrorKind};

/// Most bits of a BIT.
pub const MAX_BITS: u8 = 64;

/// The greatest value of so many bits, of which there is at least one.
#[must_use]
pub const fn greatest(bits: u8) -> u64 {
    u64::MAX >> (MAX_BITS - bits)
}

/// Decimal digits of the greatest value.
#[must_use]
pub const fn digits(bits: u8) -> u8 {
    greatest(bits).ilog10() as u8 + 1
}

/// Bytes of a value where a string is wanted.
#[must_use]
pub const fn width(bits: u8) -> u8 {
    bits.div_ceil(8)
}

/// The number that bytes are; `None` beyond 64 bits. Zero bytes before the others do not count.
#[must_use]
pub fn number_of(bytes: &[u8]) -> Option<u64> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let digits = &bytes[zeros..];
    let push = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    (digits.len() <= 8).then(|| digits.iter().fold(0, push))
}

/// The value that a number is; of a negative one the bits of its two's complement.
pub(crate) fn of_number(bits: u8, number: i128) -> Option<u64> {
    let complement = || i64::try_from(number).ok().map(|number| number as u64);
    let pattern = u64::try_from(number).ok().or_else(complement);
    pattern.filter(|pattern| *pattern <= greatest(bits))
}

/// The value that a string is: the number of its bytes.
pub(crate) fn of_bytes(ty: ColumnType, bits: u8, bytes: &[u8]) -> Result<u64, ValueError> {
    let fitting = number_of(bytes).filter(|number| *number <= greatest(bits));
    fitting.ok_or_else(|| ValueError::new(ValueErrorKind::TooLong, ty, bytes))
}

/// A value as a message shows it: its bytes, those that are no printable characters of ASCII in hexadecimal.
pub fn format(bits: u8, value: u64, out: &mut String) {
    use std::fmt::Write;
    let bytes = value.to_be_bytes();
    for byte in &bytes[8 - usize::from(width(bits))..] {
        match byte {
            b' '..=b'~' => out.push(char::from(*byte)),
            byte => write!(out, "\\x{byte:02X}").expect("writing to a String cannot fail"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{Datum, parse_text};

    const BIGINT: ColumnType = ColumnType::Int {
        bytes: 8,
        unsigned: false,
    };

    fn bit(bits: u8) -> ColumnType {
        ColumnType::Bit { bits }
    }

    #[test]
    fn a_width_has_its_range() {
        for (bits, most, digits_of, bytes) in [
            (1, 1, 1, 1),
            (8, 255, 3, 1),
            (9, 511, 3, 2),
            (33, (1 << 33) - 1, 10, 5),
            (63, i64::MAX as u64, 19, 8),
            (64, u64::MAX, 20, 8),
        ] {
            assert_eq!(greatest(bits), most, "{bits}");
            assert_eq!(digits(bits), digits_of, "{bits}");
            assert_eq!(width(bits), bytes, "{bits}");
        }
    }

    #[test]
    fn strings_are_bytes() {
        let parse = |bits, text: &[u8]| parse_text(bit(bits), text);
        assert_eq!(parse(8, b"1"), Ok(Datum::UInt(0x31)));
        assert_eq!(parse(1, b""), Ok(Datum::UInt(0)));
        assert_eq!(
            parse(3, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 7]),
            Ok(Datum::UInt(7))
        );
        assert_eq!(parse(64, &[0xff; 8]), Ok(Datum::UInt(u64::MAX)));
        for (bits, text) in [(3, &[8][..]), (12, b"12"), (64, &[1; 9])] {
            let error = parse(bits, text).unwrap_err();
            assert_eq!(error.kind, ValueErrorKind::TooLong, "{bits} {text:?}");
        }
    }

    #[test]
    fn numbers_are_bits() {
        let of = |bits, value, from| bit(bits).coerce(value, from);
        assert_eq!(of(5, Datum::Int(31), BIGINT), Ok(Datum::UInt(31)));
        assert_eq!(of(1, Datum::Bool(true), BIGINT), Ok(Datum::UInt(1)));
        assert_eq!(of(64, Datum::Int(-1), BIGINT), Ok(Datum::UInt(u64::MAX)));
        let double = ColumnType::Double;
        assert_eq!(of(5, Datum::Double(2.9), double), Ok(Datum::UInt(2)), "cut");
        let decimal = ColumnType::Decimal {
            precision: 3,
            scale: 1,
        };
        assert_eq!(of(5, Datum::Decimal(25), decimal), Ok(Datum::UInt(3)));
        for (value, from) in [
            (Datum::Int(32), BIGINT),
            (Datum::Int(-1), BIGINT),
            (Datum::Double(1e300), double),
            (Datum::Date(0), ColumnType::Date),
        ] {
            let error = of(5, value, from).unwrap_err();
            assert_eq!(error.kind, ValueErrorKind::TooLong, "{}", error.value);
        }
        let json = |text: &str| of(8, Datum::String(text.into()), ColumnType::Json);
        assert_eq!(json("7"), Ok(Datum::UInt(7)));
        assert!(json("256").is_err());
    }

    #[test]
    fn messages_show_bytes() {
        let shown = |bits, value| {
            let mut text = String::new();
            format(bits, value, &mut text);
            text
        };
        assert_eq!(shown(12, 0x41), "\\x00A");
        assert_eq!(shown(1, 1), "\\x01");
    }
}
