//! Tests of row layouts.

#![allow(clippy::unwrap_used, reason = "tests")]
use proptest::prelude::*;

use super::*;
use crate::Collation;
use crate::strategies::layout;

const INT: ColumnType = ColumnType::Int {
    bytes: 4,
    unsigned: false,
};
const TEXT: ColumnType = ColumnType::Varchar {
    chars: 9,
    collation: Collation::UTF8MB4_BIN,
};

fn encoded(layout: &RowLayout) -> Vec<u8> {
    let mut w = Writer::new();
    layout.encode(&mut w);
    w.into_bytes()
}

fn decoded(bytes: &[u8]) -> Result<RowLayout, DecodeError> {
    let mut r = Reader::new(bytes, "row layout");
    let layout = RowLayout::decode(&mut r)?;
    r.finish()?;
    Ok(layout)
}

fn places(layout: &RowLayout) -> Vec<Place> {
    layout.columns.iter().map(|column| column.place).collect()
}

#[test]
fn fixed_keys_hold_their_columns() {
    let big = ColumnType::Int {
        bytes: 8,
        unsigned: false,
    };
    let columns = [(TEXT, true), (INT, false), (big, false), (INT, true)];
    let layout = RowLayout::clustered(&columns, &[2, 1]).unwrap();
    // 14 bytes of header, 1 of null bits, 12 of key
    let expected = [
        Place::Var { item: 0 },
        Place::Key { offset: 23 },
        Place::Key { offset: 15 },
        Place::Fixed { offset: 27 },
    ];
    assert_eq!(places(&layout), expected);
    let bits: Vec<Option<u16>> = layout
        .columns
        .iter()
        .map(|column| column.null_bit)
        .collect();
    assert_eq!(bits, [Some(0), None, None, Some(1)]);
    let shape = RecordShape {
        fixed_len: 31,
        key_offset: 15,
        key_len: 12,
        var_count: 1,
        header_len: 14,
    };
    assert_eq!((layout.shape, layout.null_offset), (shape, 14));
}

#[test]
fn nullable_key_parts_have_a_byte_in_front() {
    let layout = RowLayout::secondary(&[(INT, true), (INT, false)]).unwrap();
    assert_eq!(
        places(&layout),
        [Place::Key { offset: 3 }, Place::Key { offset: 7 }]
    );
    assert_eq!((layout.shape.key_offset, layout.shape.key_len), (2, 9));
    assert_eq!(layout.shape.fixed_len, 11);
}

#[test]
fn keys_with_strings_are_the_first_item() {
    let layout = RowLayout::clustered(&[(INT, false), (TEXT, false)], &[1, 0]).unwrap();
    assert_eq!(
        places(&layout),
        [Place::Fixed { offset: 14 }, Place::Var { item: 1 }]
    );
    assert_eq!((layout.shape.key_len, layout.shape.var_count), (0, 2));
}

#[test]
fn secondary_columns_add_the_primary_key() {
    assert_eq!(
        RowLayout::secondary_columns(&[3, 1], &[0, 1, 2]),
        [3, 1, 0, 2]
    );
}

#[test]
fn what_makes_no_layout() {
    let clustered = |columns: &[(ColumnType, bool)], key: &[u16]| {
        RowLayout::clustered(columns, key).unwrap_err()
    };
    assert_eq!(clustered(&[], &[0]), LayoutError::ColumnCount(0));
    assert!(matches!(
        clustered(&[(INT, false)], &[]),
        LayoutError::Key(_)
    ));
    assert!(matches!(
        clustered(&[(INT, false)], &[1]),
        LayoutError::Key(_)
    ));
    assert!(matches!(
        clustered(&[(INT, false)], &[0, 0]),
        LayoutError::Key(_)
    ));
    assert!(matches!(
        clustered(&[(INT, true)], &[0]),
        LayoutError::Key(_)
    ));
    let bad = ColumnType::Decimal {
        precision: 66,
        scale: 0,
    };
    assert!(matches!(
        clustered(&[(bad, false)], &[0]),
        LayoutError::Type { column: 0, .. }
    ));
    let many = vec![(TEXT, true); 255];
    let mut columns = vec![(INT, false)];
    columns.extend(&many);
    RowLayout::clustered(&columns, &[0]).unwrap();
    assert_eq!(
        RowLayout::secondary(&many),
        Err(LayoutError::StringCount(255))
    );
    columns.push((TEXT, true));
    assert_eq!(clustered(&columns, &[0]), LayoutError::StringCount(256));
    let wide = (
        ColumnType::Decimal {
            precision: 38,
            scale: 0,
        },
        false,
    );
    assert!(matches!(
        clustered(&vec![wide; 600], &[0]),
        LayoutError::RowTooLong(_)
    ));
    let keyed = RowLayout::secondary(&vec![wide; 200]);
    assert_eq!(keyed, Err(LayoutError::KeyTooLong(3200)));
    assert_eq!(
        clustered(&vec![(INT, false); 1018], &[0]),
        LayoutError::ColumnCount(1018)
    );
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(layout in layout()) {
        prop_assert_eq!(decoded(&encoded(&layout)), Ok(layout));
    }

    #[test]
    fn shapes_are_what_pages_accept(layout in layout()) {
        use perigee_page::PageKind;
        let kind = if layout.is_clustered() { PageKind::Clustered } else { PageKind::Secondary };
        prop_assert_eq!(layout.shape.check(kind), Ok(()));
        prop_assert_eq!(layout.shape.inner().check(PageKind::Inner), Ok(()));
    }

    #[test]
    fn damaged_layouts_are_errors_or_other_layouts(
        layout in layout(), cut: usize, at: usize, byte: u8,
    ) {
        let mut bytes = encoded(&layout);
        let len = bytes.len();
        prop_assert!(decoded(&bytes[..cut % len]).is_err());
        bytes[at % len] = byte;
        if let Ok(other) = decoded(&bytes) {
            prop_assert_eq!(encoded(&other), bytes);
        }
    }
}
