//! Column definitions against packets of a MySQL-compatible server (MariaDB 10.11), captured from
//! `SELECT` on a table of these types.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn packet(column: &Column) -> Vec<u8> {
    let mut out = BytesMut::new();
    column.encode(UTF8MB4_GENERAL_CI, &mut out);
    out.to_vec()
}

fn bytes(hex: &str) -> Vec<u8> {
    hex.split_whitespace()
        .map(|b| u8::from_str_radix(b, 16).unwrap())
        .collect()
}

fn of_ty(name: &str, sql_type: SqlType) -> Column {
    Column::of_table("t", "ty", name, sql_type)
}

#[test]
fn columns_of_a_table_are_described_as_mysql_does() {
    let not_null = ColumnFlags::NOT_NULL.with(ColumnFlags::NO_DEFAULT_VALUE);
    let primary = not_null
        .with(ColumnFlags::PRI_KEY)
        .with(ColumnFlags::PART_KEY);
    let cases = [
        (
            of_ty("a", SqlType::TinyInt { unsigned: false }).with_flags(primary),
            "01 61 01 61 0c 3f 00 04 00 00 00 01 03 50 00 00 00",
        ),
        (
            of_ty("b", SqlType::TinyInt { unsigned: true }).with_flags(not_null),
            "01 62 01 62 0c 3f 00 03 00 00 00 01 21 10 00 00 00",
        ),
        (
            of_ty("e", SqlType::BigInt { unsigned: false }),
            "01 65 01 65 0c 3f 00 14 00 00 00 08 00 00 00 00 00",
        ),
        (
            of_ty(
                "h",
                SqlType::Decimal {
                    precision: 15,
                    scale: 2,
                    unsigned: false,
                },
            ),
            "01 68 01 68 0c 3f 00 11 00 00 00 f6 00 00 02 00 00",
        ),
        (
            of_ty("i", SqlType::Date).with_flags(not_null),
            "01 69 01 69 0c 3f 00 0a 00 00 00 0a 81 10 00 00 00",
        ),
        (
            of_ty("j", SqlType::DateTime { fsp: 0 }),
            "01 6a 01 6a 0c 3f 00 13 00 00 00 0c 80 00 00 00 00",
        ),
        (
            of_ty("k", SqlType::DateTime { fsp: 6 }),
            "01 6b 01 6b 0c 3f 00 1a 00 00 00 0c 80 00 06 00 00",
        ),
        (
            of_ty("o", SqlType::Char { chars: 10 }),
            "01 6f 01 6f 0c 2d 00 28 00 00 00 fe 80 00 00 00 00",
        ),
        (
            of_ty("e", SqlType::Enum { chars: 2 }),
            "01 65 01 65 0c 2d 00 08 00 00 00 fe 80 01 00 00 00",
        ),
        (
            of_ty("s", SqlType::Set { chars: 3 }),
            "01 73 01 73 0c 2d 00 0c 00 00 00 fe 80 08 00 00 00",
        ),
        (
            of_ty("p", SqlType::VarChar { chars: 20 }),
            "01 70 01 70 0c 2d 00 50 00 00 00 fd 80 00 00 00 00",
        ),
        (
            of_ty("q", SqlType::Text { bytes: 65535 }),
            "01 71 01 71 0c 2d 00 fc ff 03 00 fc 90 00 00 00 00",
        ),
        (
            of_ty("r", SqlType::Blob { bytes: 65535 }),
            "01 72 01 72 0c 3f 00 ff ff 00 00 fc 90 00 00 00 00",
        ),
        (
            of_ty("s", SqlType::Json),
            "01 73 01 73 0c 3f 00 ff ff ff ff f5 90 00 00 00 00",
        ),
        (
            of_ty("u", SqlType::Bit { width: 12 }),
            "01 75 01 75 0c 3f 00 0c 00 00 00 10 20 00 00 00 00",
        ),
        (
            of_ty("n", SqlType::Year),
            "01 6e 01 6e 0c 3f 00 04 00 00 00 0d 60 00 00 00 00",
        ),
    ];
    for (column, expected) in cases {
        let mut whole = bytes("03 64 65 66 01 74 02 74 79 02 74 79");
        whole.extend(bytes(expected));
        assert_eq!(packet(&column), whole, "{column:?}");
    }
}

#[test]
fn expressions_belong_to_no_table() {
    let null = Column::expression("NULL", SqlType::Null);
    let expected = "03 64 65 66 00 00 00 04 4e 55 4c 4c 00 0c 3f 00 00 00 00 00 06 80 00 00 00 00";
    assert_eq!(packet(&null), bytes(expected));
    let mut truth = Column::expression("1=1", SqlType::Int { unsigned: false });
    truth.display_length = Some(1);
    truth.flags = ColumnFlags::NOT_NULL.with(ColumnFlags::BINARY);
    let expected = "03 64 65 66 00 00 00 03 31 3d 31 00 0c 3f 00 01 00 00 00 03 81 00 00 00 00";
    assert_eq!(packet(&truth), bytes(expected));
    // The character set of a JSON column is binary, of an expression the connection's.
    let json = Column::expression("j", SqlType::Json);
    let expected = "03 64 65 66 00 00 00 01 6a 00 0c 2d 00 ff ff ff ff f5 90 00 00 00 00";
    assert_eq!(packet(&json), bytes(expected));
}

#[test]
fn a_fixed_number_of_decimals_is_reported() {
    let mut column = Column::expression("d", SqlType::Double);
    assert_eq!(column.decimals(), NOT_FIXED_DECIMALS);
    column.fixed_decimals = Some(3);
    assert_eq!(column.decimals(), 3);
    assert_eq!(packet(&column).iter().rev().nth(2), Some(&3));
}

#[test]
fn collations_of_utf8mb4_are_known() {
    for id in [
        UTF8MB4_GENERAL_CI,
        UTF8MB4_BIN,
        UTF8MB4_0900_AI_CI,
        224,
        309,
    ] {
        assert!(is_utf8mb4(id), "{id}");
    }
    for id in [8, 33, BINARY_COLLATION, 83, 192, 248] {
        assert!(!is_utf8mb4(id), "{id}");
    }
}
