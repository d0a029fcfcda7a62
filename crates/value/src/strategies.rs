//! Random types, values and layouts for the tests of this crate.

#![allow(clippy::unwrap_used, reason = "tests")]
use proptest::prelude::*;

use perigee_types::PageId;

use crate::{
    Collation, ColumnType, Datum, OverflowRef, RowLayout, Units, Wide, bits, date, decimal, time,
};

/// Collations of all characters.
fn collations() -> impl Iterator<Item = Collation> {
    Collation::all().filter(|collation| collation.charset().has("é😀"))
}

/// Any type that a column can have.
pub(crate) fn column_type() -> impl Strategy<Value = ColumnType> {
    let texts = collations().filter(|collation| collation.is_text());
    let texts = texts.collect::<Vec<_>>();
    let collation = || prop::sample::select(texts.clone());
    prop_oneof![
        (prop::sample::select(vec![1, 2, 3, 4, 8]), any::<bool>())
            .prop_map(|(bytes, unsigned)| ColumnType::Int { bytes, unsigned }),
        (1u8..=65)
            .prop_flat_map(|precision| (Just(precision), 0..=precision.min(30)))
            .prop_map(|(precision, scale)| ColumnType::Decimal { precision, scale }),
        Just(ColumnType::Float),
        Just(ColumnType::Double),
        Just(ColumnType::Date),
        (0u8..=6).prop_map(|fsp| ColumnType::DateTime { fsp }),
        (0u8..=6).prop_map(|fsp| ColumnType::Timestamp { fsp }),
        (0u8..=6).prop_map(|fsp| ColumnType::Time { fsp }),
        Just(ColumnType::Year),
        (1u8..=64).prop_map(|bits| ColumnType::Bit { bits }),
        (1u16..20, collation())
            .prop_map(|(chars, collation)| ColumnType::Char { chars, collation }),
        (1u16..20, collation())
            .prop_map(|(chars, collation)| ColumnType::Varchar { chars, collation }),
        (1u16..20).prop_map(|chars| ColumnType::Varchar {
            chars,
            collation: Collation::BINARY
        }),
    ]
}

/// Any type of long values.
fn long_type() -> impl Strategy<Value = ColumnType> {
    let collations = collations().collect::<Vec<_>>();
    let long = (1u8..=4, prop::sample::select(collations))
        .prop_map(|(prefix, collation)| ColumnType::Long { prefix, collation });
    prop_oneof![4 => long, 1 => Just(ColumnType::Json)]
}

/// An integer of a range: its edges and small ones often.
fn integer(least: i128, greatest: i128) -> impl Strategy<Value = i128> {
    prop_oneof![
        (-3i128..=3).prop_map(move |v| v.clamp(least, greatest)),
        Just(least),
        Just(greatest),
        least..=greatest,
    ]
}

/// A number of any number of digits up to `most`: nines and powers of ten often.
pub(crate) fn units(most: u8) -> impl Strategy<Value = Units> {
    let digits = prop_oneof![Just("9".to_owned()), Just("10".to_owned()), "[0-9]{1,9}",];
    let count = prop_oneof![Just(usize::from(most)), 1..=usize::from(most)];
    let parts = (digits, count, any::<bool>());
    parts.prop_map(|(digits, count, negative)| {
        let text = digits.chars().cycle().take(count);
        let number = text.fold(Units::ZERO, |number, digit| {
            let digit = digit as u8 - b'0';
            number.times_ten_plus(digit).unwrap()
        });
        if negative { -number } else { number }
    })
}

fn wide(precision: u8) -> impl Strategy<Value = Wide> {
    units(precision).prop_map(move |units| units.to_wide(precision).unwrap())
}

/// A value of a type, in the form in which it is stored.
pub(crate) fn value(ty: ColumnType) -> BoxedStrategy<Datum> {
    match ty {
        ColumnType::Int { bytes, unsigned } => {
            let (least, greatest) = ColumnType::int_range(bytes, unsigned);
            integer(least, greatest)
                .prop_map(move |v| {
                    if unsigned {
                        Datum::UInt(v as u64)
                    } else {
                        Datum::Int(v as i64)
                    }
                })
                .boxed()
        }
        ColumnType::Decimal { precision, .. } if ty.is_wide() => {
            wide(precision).prop_map(Datum::Wide).boxed()
        }
        ColumnType::Decimal { precision, .. } => {
            let limit = decimal::pow10(precision) - 1;
            integer(-limit, limit).prop_map(Datum::Decimal).boxed()
        }
        ColumnType::Float => prop_oneof![any::<f32>(), Just(0.0), -2f32..2.0]
            .prop_filter("finite", |v| v.is_finite())
            .prop_map(|v| Datum::Double(f64::from(v)))
            .boxed(),
        ColumnType::Double => prop_oneof![any::<f64>(), Just(0.0), -2f64..2.0]
            .prop_filter("finite", |v| v.is_finite())
            .prop_map(Datum::Double)
            .boxed(),
        ColumnType::Date => prop_oneof![
            9 => date::MIN_DAY..=date::MAX_DAY,
            1 => Just(date::ZERO_DAY),
        ]
        .prop_map(Datum::Date)
        .boxed(),
        ColumnType::DateTime { fsp } => prop_oneof![
            9 => date::MIN_MICROS..=date::MAX_MICROS,
            1 => Just(date::ZERO_MICROS),
        ]
        .prop_map(move |v| {
            let unit = 10i64.pow(6 - u32::from(fsp));
            Datum::DateTime(v.div_euclid(unit) * unit)
        })
        .boxed(),
        ColumnType::Timestamp { fsp } => (1..(1i64 << 31) * 1_000_000)
            .prop_map(move |v| {
                let unit = 10i64.pow(6 - u32::from(fsp));
                Datum::DateTime((v / unit * unit).max(1_000_000))
            })
            .boxed(),
        ColumnType::Time { fsp } => (-time::MAX_TIME..=time::MAX_TIME)
            .prop_map(move |v| {
                let unit = 10i64.pow(6 - u32::from(fsp));
                Datum::Time(v / unit * unit)
            })
            .boxed(),
        ColumnType::Year => prop_oneof![Just(0), 1901u64..=2155]
            .prop_map(Datum::UInt)
            .boxed(),
        ColumnType::Bit { bits } => integer(0, bits::greatest(bits).into())
            .prop_map(|v| Datum::UInt(v as u64))
            .boxed(),
        ColumnType::Varchar {
            chars,
            collation: Collation::BINARY,
        } => prop::collection::vec(
            prop_oneof![Just(0u8), Just(255), any::<u8>()],
            0..=usize::from(chars),
        )
        .prop_map(Datum::String)
        .boxed(),
        ColumnType::Long { .. } | ColumnType::Json => {
            let most = ty.greatest_length().unwrap();
            let reference = (0..=most, 1u64.., any::<u64>());
            let reference = reference.prop_map(|(len, first, chain)| {
                let first = PageId(first);
                Datum::Overflow(OverflowRef { len, first, chain })
            });
            let inline = text(50).prop_map(|s| Datum::String(s.into_bytes()));
            prop_oneof![reference, inline].boxed()
        }
        ColumnType::Varchar { chars, .. } => text(chars)
            .prop_map(|s| Datum::String(s.into_bytes()))
            .boxed(),
        ColumnType::Char { chars, .. } => text(chars)
            .prop_map(|s| Datum::String(s.trim_end_matches(' ').as_bytes().to_vec()))
            .boxed(),
    }
}

/// Few characters, so that strings meet; spaces and what sorts around them.
fn text(chars: u16) -> impl Strategy<Value = String> {
    let alphabet = vec![
        'a', 'A', ' ', ' ', '\t', '!', '~', '\u{0}', 'é', 'E', 'ß', '😀', '🚀',
    ];
    prop::collection::vec(prop::sample::select(alphabet), 0..=usize::from(chars))
        .prop_map(|chars| chars.into_iter().collect())
}

/// A layout of up to eight columns.
pub(crate) fn layout() -> impl Strategy<Value = RowLayout> {
    let columns = prop::collection::vec((column_type(), any::<bool>()), 1..8);
    let long = prop::collection::vec((long_type(), any::<bool>()), 0..3);
    (
        columns,
        long,
        any::<prop::sample::Index>(),
        1usize..4,
        any::<bool>(),
    )
        .prop_map(|(mut columns, long, first, parts, clustered)| {
            if !clustered {
                return RowLayout::secondary(&columns).unwrap();
            }
            let count = columns.len();
            let first = first.index(count);
            let key: Vec<u16> = (0..parts.min(count))
                .map(|i| ((first + i) % count) as u16)
                .collect();
            for column in &key {
                columns[usize::from(*column)].1 = false;
            }
            columns.extend(long);
            RowLayout::clustered(&columns, &key).unwrap()
        })
}

/// A row of a layout.
pub(crate) fn row(layout: &RowLayout) -> impl Strategy<Value = Vec<Datum>> + use<> {
    let values: Vec<BoxedStrategy<Datum>> = layout
        .columns
        .iter()
        .map(|column| match column.null_bit {
            Some(_) => prop_oneof![1 => Just(Datum::Null), 3 => value(column.ty)].boxed(),
            None => value(column.ty),
        })
        .collect();
    values
}

/// A layout and some of its rows.
pub(crate) fn layout_and_rows(rows: usize) -> impl Strategy<Value = (RowLayout, Vec<Vec<Datum>>)> {
    layout().prop_flat_map(move |layout| {
        let rows = prop::collection::vec(row(&layout), rows);
        (Just(layout), rows)
    })
}
