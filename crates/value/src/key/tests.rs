//! Tests of the key encoding.

#![allow(clippy::unwrap_used, reason = "tests")]
use std::cmp::Ordering;

use proptest::prelude::*;

use super::*;
use crate::Units;
use crate::strategies::{column_type, layout_and_rows, value};

fn part(ty: ColumnType, nullable: bool, value: &Datum) -> Vec<u8> {
    let mut out = Vec::new();
    encode_part(ty, nullable, value.as_ref(), &mut out).unwrap();
    out
}

/// SQL's order, NULL first.
fn order(ty: ColumnType, a: &Datum, b: &Datum) -> Ordering {
    match (a, b) {
        (Datum::Null, Datum::Null) => Ordering::Equal,
        (Datum::Null, _) => Ordering::Less,
        (_, Datum::Null) => Ordering::Greater,
        (Datum::Int(a), Datum::Int(b)) => a.cmp(b),
        (Datum::UInt(a), Datum::UInt(b)) => a.cmp(b),
        (Datum::Decimal(a), Datum::Decimal(b)) => a.cmp(b),
        (Datum::Wide(a), Datum::Wide(b)) => a.units().cmp(&b.units()),
        (Datum::Double(a), Datum::Double(b)) => a.partial_cmp(b).unwrap(),
        (Datum::Date(a), Datum::Date(b)) => a.cmp(b),
        (Datum::DateTime(a), Datum::DateTime(b)) => a.cmp(b),
        (Datum::Time(a), Datum::Time(b)) => a.cmp(b),
        (Datum::String(a), Datum::String(b)) => ty.collation().unwrap().compare(a, b),
        other => panic!("{other:?}"),
    }
}

const TEXT: ColumnType = ColumnType::Varchar {
    chars: 100,
    collation: Collation::UTF8MB4_BIN,
};
const CASELESS: ColumnType = ColumnType::Varchar {
    chars: 100,
    collation: Collation::UTF8MB4_GENERAL_CI,
};
const INT: ColumnType = ColumnType::Int {
    bytes: 4,
    unsigned: false,
};

fn text(value: &str) -> Vec<u8> {
    part(TEXT, false, &Datum::String(value.into()))
}

#[test]
fn bytes_of_each_type() {
    assert_eq!(part(INT, false, &Datum::Int(-2)), [0x7f, 0xff, 0xff, 0xfe]);
    assert_eq!(part(INT, true, &Datum::Int(1)), [1, 0x80, 0, 0, 1]);
    assert_eq!(part(INT, true, &Datum::Null), [0, 0, 0, 0, 0]);
    let medium = ColumnType::Int {
        bytes: 3,
        unsigned: true,
    };
    assert_eq!(part(medium, false, &Datum::UInt(5)), [0, 0, 0, 5]);
    let wide = ColumnType::Decimal {
        precision: 20,
        scale: 2,
    };
    let mut expected = [0; 16];
    (expected[0], expected[15]) = (0x80, 7);
    assert_eq!(part(wide, false, &Datum::Decimal(7)), expected);
    let wider = ColumnType::Decimal {
        precision: 39,
        scale: 2,
    };
    let mut expected = [0xff; 28];
    (expected[0], expected[27]) = (0x7f, 0xf9);
    assert_eq!(part(wider, false, &Datum::Wide((-7).into())), expected);
    assert_eq!(part(wider, true, &Datum::Null), [0; 29]);
    assert_eq!(
        part(ColumnType::Date, false, &Datum::Date(0)),
        [0x80, 0, 0, 0]
    );
    assert_eq!(
        part(ColumnType::Float, false, &Datum::Double(-0.0)),
        [0x80, 0, 0, 0]
    );
    assert_eq!(
        part(ColumnType::Float, false, &Datum::Double(1.0)),
        [0xbf, 0x80, 0, 0]
    );
    assert_eq!(
        part(ColumnType::Float, false, &Datum::Double(-1.0)),
        [0x40, 0x7f, 0xff, 0xff]
    );
    assert_eq!(text("ab"), [b'a' + 2, b'b' + 2, STRING_END]);
    assert_eq!(
        text("a b\t"),
        [b'a' + 2, SPACE_HIGH, b'b' + 2, b'\t', STRING_END]
    );
    assert_eq!(text("  \t "), [SPACE_LOW, SPACE_LOW, b'\t', STRING_END]);
    assert_eq!(part(TEXT, true, &Datum::Null), [0]);
    let binary = ColumnType::Varchar {
        chars: 9,
        collation: Collation::BINARY,
    };
    assert_eq!(
        part(binary, false, &Datum::String(vec![0, 1])),
        [0, 0xff, 1, 0, 0]
    );
}

#[test]
fn trailing_spaces_make_no_difference_and_tabs_sort_first() {
    assert_eq!(text("a"), text("a   "));
    assert_eq!(text(""), text(" "));
    assert!(text("a\t") < text("a"));
    assert!(text("a \t") < text("a") && text("a") < text("a !"));
}

#[test]
fn variants_of_a_text_have_one_key() {
    let key = |value: &str| part(CASELESS, false, &Datum::String(value.into()));
    assert_eq!(key("straße "), text("STRASE"));
    assert_eq!(key("Éa"), key("eÄ"));
    assert!(key("B") > key("a"), "unlike bytes");
    let prefix = encode_string_prefix(CASELESS, "stra ".as_bytes()).unwrap();
    assert!(key("STRASSE").starts_with(&prefix));
    let bytes = key("aé ");
    let (decoded, rest) = decode_part(CASELESS, false, &bytes).unwrap();
    assert_eq!((decoded, rest), (Datum::String(b"AE".to_vec()), &[][..]));
}

#[test]
fn what_is_not_of_the_type_is_refused() {
    let mut out = Vec::new();
    let mut kind = |ty, value: Datum| {
        encode_part(ty, false, value.as_ref(), &mut out)
            .unwrap_err()
            .kind
    };
    let tiny = ColumnType::Int {
        bytes: 1,
        unsigned: false,
    };
    assert_eq!(kind(tiny, Datum::Int(128)), ValueErrorKind::OutOfRange);
    assert_eq!(kind(tiny, Datum::UInt(1)), ValueErrorKind::Incorrect);
    assert_eq!(kind(tiny, Datum::Null), ValueErrorKind::NullNotAllowed);
    assert_eq!(
        kind(TEXT, Datum::String(vec![0xff])),
        ValueErrorKind::Incorrect
    );
    assert_eq!(kind(TEXT, Datum::Int(1)), ValueErrorKind::Incorrect);
    assert_eq!(
        kind(ColumnType::Date, Datum::Date(i32::MAX)),
        ValueErrorKind::OutOfRange
    );
    let wide = |precision| ColumnType::Decimal {
        precision,
        scale: 0,
    };
    let most = Wide::from(i128::MAX);
    assert_eq!(kind(wide(40), Datum::Decimal(1)), ValueErrorKind::Incorrect);
    assert_eq!(kind(wide(38), Datum::Wide(most)), ValueErrorKind::Incorrect);
    let more = most.units().times(Units::from(10), 0).unwrap();
    let more = more.to_wide(40).unwrap();
    assert_eq!(
        kind(wide(39), Datum::Wide(more)),
        ValueErrorKind::OutOfRange
    );
    let layout = RowLayout::clustered(&[(TEXT, false)], &[0]).unwrap();
    let long = [Datum::String(vec![b'x'; MAX_KEY_LEN])];
    let result = encode_key(&layout, &long, &mut Vec::new());
    assert_eq!(result, Err(RowError::KeyTooLong(MAX_KEY_LEN + 1)));
    let two = [Datum::Null, Datum::Null];
    assert!(matches!(
        encode_key(&layout, &two, &mut Vec::new()),
        Err(RowError::ColumnCount { .. })
    ));
}

#[test]
fn upper_bounds() {
    assert_eq!(prefix_upper(&[1, 2]), Some(vec![1, 3]));
    assert_eq!(prefix_upper(&[1, 0xff, 0xff]), Some(vec![2]));
    assert_eq!(prefix_upper(&[0xff]), None);
    assert_eq!(prefix_upper(&[]), None);
}

proptest! {
    #[test]
    fn bytes_compare_as_sql_does(
        (ty, a, b) in column_type().prop_flat_map(|ty| {
            let value = || prop_oneof![1 => Just(Datum::Null), 9 => value(ty)];
            (Just(ty), value(), value())
        }),
        behind: (u8, u8),
    ) {
        let (mut x, mut y) = (part(ty, true, &a), part(ty, true, &b));
        let expected = order(ty, &a, &b);
        prop_assert_eq!(x.cmp(&y), expected);
        // What follows decides only between equal parts: no part is a prefix of another.
        x.push(behind.0);
        y.push(behind.1);
        prop_assert_eq!(x.cmp(&y), expected.then(behind.0.cmp(&behind.1)));
    }

    #[test]
    fn keys_of_rows_compare_part_by_part((layout, rows) in layout_and_rows(2)) {
        let key = |row: &Vec<Datum>| {
            let mut out = Vec::new();
            encode_key_of_row(&layout, row, &mut out).unwrap();
            out
        };
        let parts = layout.key.iter().map(|column| usize::from(*column));
        let expected = parts
            .map(|i| order(layout.columns[i].ty, &rows[0][i], &rows[1][i]))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal);
        prop_assert_eq!(key(&rows[0]).cmp(&key(&rows[1])), expected);
        // The first parts are a prefix of the whole.
        let values: Vec<Datum> =
            layout.key.iter().map(|column| rows[0][usize::from(*column)].clone()).collect();
        for len in 0..=values.len() {
            let mut prefix = Vec::new();
            encode_key(&layout, &values[..len], &mut prefix).unwrap();
            prop_assert!(key(&rows[0]).starts_with(&prefix));
        }
    }

    #[test]
    fn parts_decode(
        (ty, value) in column_type().prop_flat_map(|ty| (Just(ty), value(ty))),
        nullable: bool,
        rest: Vec<u8>,
    ) {
        let mut bytes = part(ty, nullable, &value);
        bytes.extend(&rest);
        let (decoded, behind) = decode_part(ty, nullable, &bytes).unwrap();
        match (ty.collation(), &value) {
            (Some(collation), Datum::String(text)) => {
                prop_assert_eq!(decoded, Datum::String(collation.form(text).into_owned()));
            }
            _ => prop_assert_eq!(order(ty, &decoded, &value), Ordering::Equal),
        }
        prop_assert_eq!(behind, &rest[..]);
    }

    #[test]
    fn prefixes_of_strings_bound_them(text in "[aA \t!éß]{0,6}", len in 0usize..6) {
        let prefix: String = text.chars().take(len).collect();
        let unicode = [Collation::UTF8MB4_UNICODE_CI, Collation::UTF8MB4_0900_AS_CS]
            .map(|collation| ColumnType::Varchar { chars: 9, collation });
        for ty in unicode.into_iter().chain([TEXT, CASELESS]) {
            let encoded = encode_string_prefix(ty, prefix.as_bytes()).unwrap();
            let whole = part(ty, false, &Datum::String(text.clone().into_bytes()));
            prop_assert!(whole.starts_with(&encoded));
        }
    }

    #[test]
    fn upper_bounds_are_least(prefix: Vec<u8>, other: Vec<u8>) {
        let Some(upper) = prefix_upper(&prefix) else {
            prop_assert!(prefix.iter().all(|byte| *byte == 0xff));
            return Ok(());
        };
        let inside = other.starts_with(&prefix) || other < prefix;
        prop_assert_eq!(other < upper, inside);
    }
}
