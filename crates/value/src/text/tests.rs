//! What is accepted and printed was looked up in MariaDB 10.11; `docs/types.md` lists where MySQL
//! or Perigee differ.
#![allow(clippy::unwrap_used, reason = "tests")]
use proptest::prelude::*;

use super::*;
use crate::strategies::{column_type, value};
use crate::{Collation, ColumnType, Datum, ValueErrorKind};

const INT: ColumnType = ColumnType::Int {
    bytes: 4,
    unsigned: false,
};
const TINY: ColumnType = ColumnType::Int {
    bytes: 1,
    unsigned: true,
};
const BIG: ColumnType = ColumnType::Int {
    bytes: 8,
    unsigned: false,
};
const DEC: ColumnType = ColumnType::Decimal {
    precision: 5,
    scale: 2,
};
const TIME: ColumnType = ColumnType::DateTime { fsp: 3 };
const CHAR: ColumnType = ColumnType::Char {
    chars: 3,
    collation: Collation::UTF8MB4_BIN,
};
const VARCHAR: ColumnType = ColumnType::Varchar {
    chars: 3,
    collation: Collation::UTF8MB4_BIN,
};

/// The value read and printed again, or how it fails.
fn shown(ty: ColumnType, text: &str) -> Result<String, ValueErrorKind> {
    let value = parse_text(ty, text.as_bytes()).map_err(|error| error.kind)?;
    let mut out = String::new();
    format_value(ty, value.as_ref(), &mut out);
    Ok(out)
}

/// Checks pairs of input and output; `!` = out of range, `?` = incorrect, `~` = truncated,
/// `+` = too long.
fn check(ty: ColumnType, pairs: &[(&str, &str)]) {
    for (input, expected) in pairs {
        let expected = match *expected {
            "!" => Err(ValueErrorKind::OutOfRange),
            "?" => Err(ValueErrorKind::Incorrect),
            "~" => Err(ValueErrorKind::Truncated),
            "+" => Err(ValueErrorKind::TooLong),
            text => Ok(text.to_owned()),
        };
        assert_eq!(shown(ty, input), expected, "{ty} {input:?}");
    }
}

#[test]
fn integers() {
    check(
        INT,
        &[
            ("12", "12"),
            (" 12 ", "12"),
            ("+7", "7"),
            ("-2147483648", "-2147483648"),
            ("2147483648", "!"),
            ("12.5", "13"),
            ("-12.5", "-13"),
            ("12.4999", "12"),
            ("1e2", "100"),
            ("1.25e1", "13"),
            ("1e400", "!"),
            ("12abc", "~"),
            ("12.5x", "~"),
            ("abc", "?"),
            ("", "?"),
            ("-", "?"),
            ("\r\n3\t", "3"),
        ],
    );
    check(
        TINY,
        &[
            ("255", "255"),
            ("256", "!"),
            ("-1", "!"),
            ("-0.4", "0"),
            ("000000000000000000007", "7"),
        ],
    );
    check(
        BIG,
        &[
            ("9223372036854775807", "9223372036854775807"),
            ("9223372036854775808", "!"),
        ],
    );
}

#[test]
fn decimals() {
    check(
        DEC,
        &[
            ("1.005", "1.01"),
            ("-1.005", "-1.01"),
            ("1e2", "100.00"),
            (" 1.5 ", "1.50"),
            (".5", "0.50"),
            ("5.", "5.00"),
            ("1.5e-1", "0.15"),
            ("999.994", "999.99"),
            ("999.995", "!"),
            ("1.5abc", "~"),
            ("abc", "?"),
            ("", "?"),
            ("-0", "0.00"),
        ],
    );
}

#[test]
fn doubles() {
    check(
        ColumnType::Double,
        &[
            ("1e14", "100000000000000"),
            ("1e15", "1e15"),
            ("1e16", "1e16"),
            ("123456789012345678", "1.2345678901234568e17"),
            ("1421982269121443.25", "1421982269121443.2"),
            ("1e-14", "0.00000000000001"),
            ("1e-15", "0.000000000000001"),
            ("1e-16", "1e-16"),
            ("0.1", "0.1"),
            ("1.5e300", "1.5e300"),
            ("0.00012345", "0.00012345"),
            ("1.7976931348623157e308", "1.7976931348623157e308"),
            ("2.5e-10", "0.00000000025"),
            ("123456789012345.6", "123456789012345.6"),
            ("-100", "-100"),
            ("0", "0"),
            ("1e400", "!"),
            ("1.5abc", "~"),
            ("", "?"),
            ("inf", "?"),
            ("nan", "?"),
        ],
    );
    check(
        ColumnType::Float,
        &[
            ("0.1", "0.1"),
            ("16777216", "16777200"),
            ("1e10", "10000000000"),
            ("123456.789", "123457"),
            ("1e20", "1e20"),
            ("1e-5", "0.00001"),
            ("0.333333333", "0.333333"),
            ("1234567", "1234570"),
            ("1e15", "1e15"),
            ("1e39", "!"),
        ],
    );
}

#[test]
fn dates() {
    check(
        ColumnType::Date,
        &[
            ("1994-01-01", "1994-01-01"),
            ("19940101", "1994-01-01"),
            ("940101", "1994-01-01"),
            ("94-1-1", "1994-01-01"),
            ("1994/01/02", "1994-01-02"),
            ("1994.1.3", "1994-01-03"),
            ("69-01-01", "2069-01-01"),
            ("70-01-01", "1970-01-01"),
            ("1994-01-01 10:00:00", "1994-01-01"),
            (" 1994-01-05 ", "1994-01-05"),
            ("0001-01-01", "0001-01-01"),
            ("9999-12-31", "9999-12-31"),
            ("2000-02-29", "2000-02-29"),
            ("1900-02-29", "?"),
            ("1994-02-30", "?"),
            ("0000-00-00", "0000-00-00"),
            ("0000-01-01", "?"),
            ("1994-00-01", "?"),
            ("1994-13-01", "?"),
            ("1994-01", "?"),
            ("1994-01-01x", "?"),
            ("10000-01-01", "?"),
            ("x", "?"),
            ("", "?"),
        ],
    );
}

#[test]
fn datetimes() {
    check(
        TIME,
        &[
            ("1994-01-01 10:11:12.3456", "1994-01-01 10:11:12.346"),
            ("1994-01-01", "1994-01-01 00:00:00.000"),
            ("1994-01-01T10:11:12", "1994-01-01 10:11:12.000"),
            ("19940101101112", "1994-01-01 10:11:12.000"),
            ("940101101112", "1994-01-01 10:11:12.000"),
            ("19940101101112.5", "1994-01-01 10:11:12.500"),
            ("1994-1-1 1:2:3", "1994-01-01 01:02:03.000"),
            ("1994-01-01 10:11", "1994-01-01 10:11:00.000"),
            ("1994-01-01 10", "1994-01-01 10:00:00.000"),
            ("1994-01-01 23:59:59.9999", "1994-01-02 00:00:00.000"),
            ("9999-12-31 23:59:59.9999", "?"),
            ("1994-01-01 24:00:00", "?"),
            ("1994-01-01 10:60:00", "?"),
            ("1994-01-01 10:11:12.x", "?"),
            ("1994-01-01 10:11:12+00:00", "?"),
        ],
    );
    let micros = ColumnType::DateTime { fsp: 6 };
    check(
        micros,
        &[("1994-01-01 10:11:12.1234567", "1994-01-01 10:11:12.123457")],
    );
}

#[test]
fn times() {
    check(
        ColumnType::Time { fsp: 3 },
        &[
            ("10:11:12", "10:11:12.000"),
            ("10:11", "10:11:00.000"),
            ("101112", "10:11:12.000"),
            ("1112", "00:11:12.000"),
            ("12.5", "00:00:12.500"),
            ("10:11.5", "10:11:00.500"),
            ("1 10:11:12", "34:11:12.000"),
            ("1 10", "34:00:00.000"),
            ("-10:11:12", "-10:11:12.000"),
            ("- 10:11:12", "-10:11:12.000"),
            ("+1:2:3", "01:02:03.000"),
            (" 100:00 ", "100:00:00.000"),
            ("10:11:12.3456", "10:11:12.346"),
            ("-10:11:12.3455", "-10:11:12.346"),
            ("34 22:59:59", "838:59:59.000"),
            ("1994-01-01 10:11:12", "10:11:12.000"),
            ("19940101101112", "10:11:12.000"),
            ("35 00:00:00", "!"),
            ("839:00:00", "!"),
            ("838:59:59.001", "!"),
            ("-839:00:00", "!"),
            ("8390000", "!"),
            ("19940101", "!"),
            ("9999999999999:00:00", "!"),
            ("9999999999999 00:00:00", "!"),
            ("10:60:00", "?"),
            ("2000-01-01T10:11:12", "10:11:12.000"),
            (".5", "?"),
            ("10:11:12 x", "?"),
            ("10:", "?"),
            ("1:2:3:4", "?"),
            ("99999999999999999999", "?"),
            ("x", "?"),
            ("", "?"),
        ],
    );
}

#[test]
fn years() {
    check(
        ColumnType::Year,
        &[
            ("1994", "1994"),
            ("94", "1994"),
            ("69", "2069"),
            ("0", "2000"),
            ("00", "2000"),
            ("000", "2000"),
            ("0000", "0000"),
            ("00000", "2000"),
            (" 1994 ", "1994"),
            ("19.9", "2020"),
            ("2155.5", "!"),
            ("2155", "2155"),
            ("2156", "!"),
            ("1900", "!"),
            ("-1", "!"),
            ("x", "?"),
            ("1994x", "~"),
        ],
    );
}

#[test]
fn timestamps() {
    check(
        ColumnType::Timestamp { fsp: 0 },
        &[
            ("2020-01-01", "2020-01-01 00:00:00"),
            ("1970-01-01 00:00:01", "1970-01-01 00:00:01"),
            ("2038-01-19 03:14:07", "2038-01-19 03:14:07"),
            ("1970-01-01 00:00:00", "?"),
            ("2038-01-19 03:14:08", "?"),
            ("2038-01-19 03:14:07.9", "?"),
        ],
    );
}

#[test]
fn strings() {
    check(
        CHAR,
        &[
            ("abc   ", "abc"),
            ("a  ", "a"),
            ("éàü", "éàü"),
            ("abcd", "+"),
            ("", ""),
        ],
    );
    check(
        VARCHAR,
        &[
            ("a  ", "a  "),
            ("abc   ", "abc"),
            ("abcd", "+"),
            ("ab   c", "+"),
        ],
    );
    let invalid = parse_text(VARCHAR, &[b'a', 0xff]).unwrap_err();
    assert_eq!(invalid.kind, ValueErrorKind::Incorrect);
    let binary = ColumnType::Varchar {
        chars: 2,
        collation: Collation::BINARY,
    };
    assert_eq!(
        parse_text(binary, &[0xff, 0]),
        Ok(Datum::String(vec![0xff, 0]))
    );
    assert!(parse_text(binary, b"abc").is_err() && parse_text(binary, b"ab ").is_err());
}

#[test]
fn messages_show_a_part_of_long_values() {
    let error = parse_text(INT, "x".repeat(1000).as_bytes()).unwrap_err();
    assert_eq!(error.value.len(), 64);
    assert_eq!(
        parse_text(DEC, b"12x").unwrap_err().to_string(),
        "data truncated for decimal(5,2): '12x'"
    );
}

proptest! {
    #[test]
    fn what_is_printed_is_read(
        (ty, value) in column_type().prop_flat_map(|ty| (Just(ty), value(ty))),
    ) {
        // FLOAT shows six digits only, a BIT is read from its bytes, and binary strings have no text.
        let has_text = !matches!(
            ty,
            ColumnType::Float
                | ColumnType::Bit { .. }
                | ColumnType::Varchar { collation: Collation::BINARY, .. }
        );
        prop_assume!(has_text);
        let mut text = String::new();
        format_value(ty, value.as_ref(), &mut text);
        prop_assert_eq!(parse_text(ty, text.as_bytes()), Ok(value));
    }

    #[test]
    fn any_text_is_fine(ty in column_type(), text in "[-+0-9.eE :/T]{0,20}", bytes: Vec<u8>) {
        for text in [text.as_bytes(), &bytes[..]] {
            if let Ok(value) = parse_text(ty, text) {
                // What is accepted is a value of the type.
                let mut key = Vec::new();
                crate::key::encode_part(ty, false, value.as_ref(), &mut key).unwrap();
            }
        }
    }

    #[test]
    fn plain_numbers_agree_with_the_standard_library(value: i64, scale in 0u8..=6) {
        let text = value.to_string();
        let ty = ColumnType::Decimal { precision: 38, scale };
        let expected = i128::from(value) * crate::decimal::pow10(scale);
        prop_assert_eq!(parse_text(ty, text.as_bytes()), Ok(Datum::Decimal(expected)));
        prop_assert_eq!(parse_text(BIG, text.as_bytes()), Ok(Datum::Int(value)));
    }

    #[test]
    fn decimals_of_any_form_agree(units in -10i128.pow(20)..10i128.pow(20), scale in 0u8..=6, zeros in 0usize..4) {
        let ty = ColumnType::Decimal { precision: 38, scale };
        let mut text = String::new();
        crate::decimal::format(units, scale, &mut text);
        let value = Ok(Datum::Decimal(units));
        prop_assert_eq!(parse_text(ty, text.as_bytes()), value.clone());
        // Spaces and exponents take the general way.
        prop_assert_eq!(parse_text(ty, format!(" {text}").as_bytes()), value.clone());
        prop_assert_eq!(parse_text(ty, format!("{units}e-{scale}").as_bytes()), value.clone());
        if scale > 0 {
            text.push_str(&"0".repeat(zeros));
            prop_assert_eq!(parse_text(ty, text.as_bytes()), value);
        }
    }

    #[test]
    fn doubles_print_their_value(value in prop::num::f64::NORMAL) {
        let mut text = String::new();
        format_double(value, &mut text);
        prop_assert_eq!(text.parse::<f64>(), Ok(value));
        prop_assert!(text.len() <= 40);
    }
}
