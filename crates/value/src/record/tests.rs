//! Tests of the row codec.

#![allow(clippy::unwrap_used, reason = "tests")]
use perigee_page::RecordFlags;
use perigee_types::{RollPtr, TrxId};
use proptest::prelude::*;

use super::*;
use crate::strategies::{layout, layout_and_rows};
use crate::{Collation, format_value, key};

const INT: ColumnType = ColumnType::Int {
    bytes: 4,
    unsigned: false,
};
const TEXT: ColumnType = ColumnType::Varchar {
    chars: 9,
    collation: Collation::UTF8MB4_BIN,
};

fn header() -> RecordHeader {
    RecordHeader {
        flags: RecordFlags(1),
        trx: TrxId(5),
        roll: RollPtr(6),
    }
}

fn record(layout: &RowLayout, row: &[Datum]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_row(layout, row, header(), &mut out).unwrap();
    out
}

#[test]
fn a_clustered_record_byte_by_byte() {
    let columns = [(TEXT, true), (INT, false), (INT, true)];
    let layout = RowLayout::clustered(&columns, &[1]).unwrap();
    let row = [Datum::String("hé".into()), Datum::Int(7), Datum::Int(-2)];
    let expected = [
        &[1][..],                  // flags
        &[5, 0, 0, 0, 0, 0],       // transaction
        &[6, 0, 0, 0, 0, 0, 0],    // roll pointer
        &[0],                      // no NULL
        &[0x80, 0, 0, 7],          // key
        &[0xfe, 0xff, 0xff, 0xff], // third column
        &[28, 0],                  // end of the string
        "hé".as_bytes(),
    ];
    assert_eq!(record(&layout, &row), expected.concat());
    let nulls = record(&layout, &[Datum::Null, Datum::Int(7), Datum::Null]);
    assert_eq!((nulls[14], nulls.len()), (0b11, 25));
}

#[test]
fn a_secondary_record_with_a_string_byte_by_byte() {
    let layout = RowLayout::secondary(&[(TEXT, true), (INT, false)]).unwrap();
    let row = [Datum::String("a".into()), Datum::Int(7)];
    let expected = [
        &[1][..],                            // flags
        &[0],                                // no NULL
        &[7, 0, 0, 0],                       // second column
        &[17, 0, 18, 0],                     // ends
        &[1, b'a' + 2, 0x21, 0x80, 0, 0, 7], // key
        b"a",
    ];
    assert_eq!(record(&layout, &row), expected.concat());
}

#[test]
fn rows_that_do_not_fit() {
    let layout = RowLayout::clustered(&[(INT, false), (TEXT, false)], &[0]).unwrap();
    let mut out = vec![9];
    let mut error = |row: &[Datum]| {
        let error = encode_row(&layout, row, header(), &mut out).unwrap_err();
        assert_eq!(out, [9], "nothing is appended");
        error
    };
    let text = |s: &str| Datum::String(s.into());
    assert!(matches!(
        error(&[Datum::Int(1)]),
        RowError::ColumnCount {
            expected: 2,
            got: 1
        }
    ));
    let mut kind = |row: &[Datum]| match error(row) {
        RowError::Column { column, error } => (column, error.kind),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        kind(&[Datum::Null, text("")]),
        (0, ValueErrorKind::NullNotAllowed)
    );
    assert_eq!(
        kind(&[Datum::Int(1 << 31), text("")]),
        (0, ValueErrorKind::OutOfRange)
    );
    assert_eq!(
        kind(&[Datum::Int(1), Datum::Int(1)]),
        (1, ValueErrorKind::Incorrect)
    );
    assert_eq!(
        kind(&[Datum::Int(1), text("0123456789")]),
        (1, ValueErrorKind::TooLong)
    );
    let long = ColumnType::Varchar {
        chars: 9000,
        collation: Collation::UTF8MB4_BIN,
    };
    let layout = RowLayout::clustered(&[(INT, false), (long, false)], &[0]).unwrap();
    let row = [Datum::Int(1), Datum::String(vec![b'x'; 8200])];
    let result = encode_row(&layout, &row, header(), &mut Vec::new());
    assert_eq!(result, Err(RowError::RowTooLong(8220)));
}

#[test]
fn damaged_values_are_errors() {
    let small = ColumnType::Decimal {
        precision: 3,
        scale: 1,
    };
    let medium = ColumnType::Int {
        bytes: 3,
        unsigned: false,
    };
    let types = [small, ColumnType::Date, ColumnType::Double, medium, TEXT];
    let mut columns = vec![(INT, false)];
    columns.extend(types.map(|ty| (ty, false)));
    let layout = RowLayout::clustered(&columns, &[0]).unwrap();
    let row = [
        Datum::Int(1),
        Datum::Decimal(5),
        Datum::Date(0),
        Datum::Double(1.0),
        Datum::Int(3),
        Datum::String("x".into()),
    ];
    let mut bytes = record(&layout, &row);
    assert_eq!(RecordView::new(&layout, &bytes).row().unwrap(), row);
    let last = bytes.len() - 1;
    bytes[18..last].iter_mut().for_each(|byte| *byte = 0x7f);
    // The double becomes a NaN, and the string's end stays.
    bytes[26..34].fill(0xff);
    bytes[38..40].copy_from_slice(&((last + 1) as u16).to_le_bytes());
    bytes[last] = 0xff;
    let view = RecordView::new(&layout, &bytes);
    for column in 1..6 {
        assert_eq!(
            view.get(column).unwrap_err().kind,
            ValueErrorKind::Corrupt,
            "{column}"
        );
    }
}

proptest! {
    #[test]
    fn what_is_encoded_is_read((layout, rows) in layout_and_rows(3)) {
        for row in rows {
            let mut bytes = record(&layout, &row);
            prop_assert_eq!(layout.shape.record_len(&bytes), Some(bytes.len()));
            let mut expected = Vec::new();
            key::encode_key_of_row(&layout, &row, &mut expected).unwrap();
            prop_assert_eq!(layout.shape.key(&bytes), &expected[..]);
            if layout.is_clustered() {
                prop_assert_eq!(RecordHeader::read(&bytes), header());
            }
            // A view takes the rest of a page.
            bytes.extend([0xff; 3]);
            let view = RecordView::new(&layout, &bytes);
            prop_assert_eq!(view.row().unwrap(), row);
        }
    }

    #[test]
    fn getters_agree_with_values((layout, rows) in layout_and_rows(1)) {
        let bytes = record(&layout, &rows[0]);
        let view = RecordView::new(&layout, &bytes);
        for (i, value) in rows[0].iter().enumerate() {
            prop_assert_eq!(view.is_null(i), value.is_null());
            let ty = layout.columns[i].ty;
            match value {
                Datum::Int(v) => {
                    prop_assert_eq!(view.i64(i), *v);
                    prop_assert_eq!(view.i128(i), i128::from(*v));
                }
                Datum::UInt(v) => {
                    prop_assert_eq!(view.i64(i) as u64, *v);
                    prop_assert_eq!(view.i128(i), i128::from(*v));
                }
                Datum::Decimal(v) => prop_assert_eq!(view.i128(i), *v),
                Datum::Wide(v) => prop_assert_eq!(view.wide(i), *v),
                Datum::Double(v) => prop_assert_eq!(view.f64(i), *v),
                Datum::Date(v) => prop_assert_eq!(view.i64(i), i64::from(*v)),
                Datum::DateTime(v) | Datum::Time(v) => prop_assert_eq!(view.i64(i), *v),
                Datum::String(v) if ty.is_long() => prop_assert_eq!(&view.bytes(i)[1..], &v[..]),
                Datum::String(v) => prop_assert_eq!(view.bytes(i), &v[..]),
                Datum::Null if ty.is_string() => prop_assert!(view.bytes(i).is_empty()),
                Datum::Null if matches!(ty, ColumnType::Float | ColumnType::Double) => {
                    prop_assert_eq!(view.f64(i), 0.0);
                }
                Datum::Null if ty.is_wide() => {}
                Datum::Null => prop_assert_eq!(view.i128(i), 0),
                Datum::Bool(_) => unreachable!(),
                Datum::Overflow(v) => prop_assert_eq!(view.value(i), ValueRef::Overflow(*v)),
            }
        }
    }

    #[test]
    fn text_fields_give_the_same_record((layout, rows) in layout_and_rows(2)) {
        for row in rows {
            let texts: Vec<Option<Vec<u8>>> = row
                .iter()
                .zip(&layout.columns)
                .map(|(value, column)| match (column.ty, value) {
                    // The text of a BIT is its bytes.
                    (ColumnType::Bit { .. }, Datum::UInt(v)) => Some(v.to_be_bytes().to_vec()),
                    (ty, value) => {
                        let mut text = String::new();
                        format_value(ty, value.as_ref(), &mut text);
                        (!value.is_null()).then_some(text.into_bytes())
                    }
                })
                .collect();
            let fields: Vec<Option<&[u8]>> = row
                .iter()
                .zip(&texts)
                .map(|(value, text)| match value {
                    // Binary strings have no text.
                    Datum::String(bytes) => Some(&bytes[..]),
                    _ => text.as_deref(),
                })
                .collect();
            // What lies outside of a row has no text.
            prop_assume!(!row.iter().any(|value| matches!(value, Datum::Overflow(_))));
            // FLOAT shows six digits only.
            prop_assume!(!layout.columns.iter().any(|c| c.ty == ColumnType::Float));
            let mut out = Vec::new();
            encode_text_row(&layout, &fields, header(), &mut out).unwrap();
            prop_assert_eq!(out, record(&layout, &row));
        }
    }

    #[test]
    fn reading_any_record_of_the_shape_never_panics(
        layout in layout(),
        noise in prop::collection::vec(any::<u8>(), 0..400),
        steps in prop::collection::vec(0usize..10, 8),
    ) {
        let mut bytes = noise;
        bytes.resize(bytes.len().max(layout.shape.var_data_offset() + 80), 0);
        let mut end = layout.shape.var_data_offset();
        for item in 0..usize::from(layout.shape.var_count) {
            end += steps[item % steps.len()];
            let at = usize::from(layout.shape.fixed_len) + 2 * item;
            bytes[at..at + 2].copy_from_slice(&(end as u16).to_le_bytes());
        }
        bytes.resize(bytes.len().max(end), 0);
        prop_assert!(layout.shape.record_len(&bytes).is_some());
        let view = RecordView::new(&layout, &bytes);
        for column in 0..layout.columns.len() {
            let value = view.value(column);
            if let Ok(checked) = view.get(column)
                && !matches!(checked, Datum::Double(_))
            {
                prop_assert_eq!(checked.as_ref(), value);
            }
        }
    }
}
