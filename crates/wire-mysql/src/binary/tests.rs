//! Binary rows against the same rows as text, which have tests of their own, and against packets
//! written by hand.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal64Array, Decimal128Array,
    DurationMicrosecondArray, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array,
    Int64Array, NullArray, PrimitiveArray, StringArray, StringViewArray, TimestampMicrosecondArray,
    TimestampSecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use proptest::prelude::*;

use super::*;
use crate::codec::Fields;
use crate::text;

const SIGNED: bool = false;
const UNSIGNED: bool = true;

/// The row of one column.
fn row_of(sql_type: SqlType, array: &ArrayRef, row: usize) -> Result<Vec<u8>, usize> {
    let columns = [Column::expression("c", sql_type)];
    let cells = [Cells::new(&columns[0], array).unwrap()];
    let mut out = BytesMut::new();
    put_row(&mut out, &columns, &cells, row)?;
    Ok(out.to_vec())
}

#[track_caller]
fn check(sql_type: SqlType, array: impl arrow_array::Array + 'static, expected: &[u8]) {
    let row = row_of(sql_type, &(Arc::new(array) as ArrayRef), 0);
    let whole = [&[0, 0], expected].concat();
    assert_eq!(row, Ok(whole), "{sql_type:?}");
}

#[track_caller]
fn refused(sql_type: SqlType, array: impl arrow_array::Array + 'static) {
    let row = row_of(sql_type, &(Arc::new(array) as ArrayRef), 0);
    assert_eq!(row, Err(0), "{sql_type:?}");
}

#[test]
fn integers_have_the_width_of_their_column() {
    let int = |unsigned| SqlType::Int { unsigned };
    check(
        SqlType::TinyInt { unsigned: SIGNED },
        Int8Array::from(vec![-1]),
        b"\xff",
    );
    check(
        SqlType::SmallInt { unsigned: UNSIGNED },
        UInt16Array::from(vec![0xFFFE]),
        b"\xfe\xff",
    );
    check(
        SqlType::MediumInt { unsigned: SIGNED },
        Int32Array::from(vec![-2]),
        b"\xfe\xff\xff\xff",
    );
    check(int(SIGNED), Int64Array::from(vec![7]), b"\x07\0\0\0");
    check(
        SqlType::BigInt { unsigned: UNSIGNED },
        UInt64Array::from(vec![u64::MAX]),
        &[0xFF; 8],
    );
    check(
        SqlType::BigInt { unsigned: SIGNED },
        Int64Array::from(vec![i64::MIN]),
        b"\0\0\0\0\0\0\0\x80",
    );
    check(
        SqlType::BigInt { unsigned: SIGNED },
        BooleanArray::from(vec![true]),
        b"\x01\0\0\0\0\0\0\0",
    );
    check(SqlType::Year, UInt16Array::from(vec![1994]), b"\xca\x07");
}

#[test]
fn what_a_type_cannot_hold_is_not_cut() {
    let tiny = |unsigned| SqlType::TinyInt { unsigned };
    check(tiny(SIGNED), Int64Array::from(vec![-128]), b"\x80");
    check(tiny(SIGNED), Int64Array::from(vec![127]), b"\x7f");
    check(tiny(UNSIGNED), Int64Array::from(vec![255]), b"\xff");
    refused(tiny(SIGNED), Int64Array::from(vec![-129]));
    refused(tiny(SIGNED), Int64Array::from(vec![128]));
    refused(tiny(UNSIGNED), Int64Array::from(vec![256]));
    refused(tiny(UNSIGNED), Int64Array::from(vec![-1]));
    let big = |unsigned| SqlType::BigInt { unsigned };
    refused(big(SIGNED), UInt64Array::from(vec![1 << 63]));
    refused(big(UNSIGNED), Int64Array::from(vec![i64::MIN]));
    refused(SqlType::Double, Float64Array::from(vec![f64::NAN]));
    refused(SqlType::Float, Float32Array::from(vec![f32::INFINITY]));
    refused(SqlType::Date, Date32Array::from(vec![i32::MAX]));
    refused(
        SqlType::DateTime { fsp: 0 },
        TimestampSecondArray::from(vec![i64::MAX]),
    );
}

#[test]
fn reals_decimals_and_strings() {
    check(
        SqlType::Double,
        Float64Array::from(vec![10.2]),
        b"ffffff\x24\x40",
    );
    check(
        SqlType::Float,
        Float32Array::from(vec![10.2]),
        b"\x33\x33\x23\x41",
    );
    let decimal = |scale| SqlType::Decimal {
        precision: 15,
        scale,
        unsigned: SIGNED,
    };
    let cents = Decimal128Array::from(vec![-5]);
    let cents = cents.with_precision_and_scale(15, 2).unwrap();
    check(decimal(2), cents, b"\x05-0.05");
    check(decimal(0), Int64Array::from(vec![-12]), b"\x03-12");
    check(
        SqlType::VarChar { chars: 9 },
        StringArray::from(vec!["a\0b"]),
        b"\x03a\0b",
    );
    check(
        SqlType::Bit { width: 12 },
        UInt64Array::from(vec![0x0A5B]),
        b"\x02\x0a\x5b",
    );
}

#[test]
fn times_leave_out_what_is_zero() {
    // 2010-10-17 19:27:30.000001 and what is left of it.
    let micros = 1_287_343_650_000_001;
    let moment = |micros| TimestampMicrosecondArray::from(vec![micros]);
    let six = SqlType::DateTime { fsp: 6 };
    check(
        six,
        moment(micros),
        b"\x0b\xda\x07\x0a\x11\x13\x1b\x1e\x01\0\0\0",
    );
    check(
        SqlType::Timestamp { fsp: 3 },
        moment(micros),
        b"\x07\xda\x07\x0a\x11\x13\x1b\x1e",
    );
    check(six, moment(1_287_273_600_000_000), b"\x04\xda\x07\x0a\x11");
    check(
        six,
        moment(1_287_273_600_000_001),
        b"\x0b\xda\x07\x0a\x11\0\0\0\x01\0\0\0",
    );
    check(
        SqlType::Date,
        Date32Array::from(vec![14_899]),
        b"\x04\xda\x07\x0a\x11",
    );
    // -120 days, 19:27:30.000001.
    let micros = -(((120 * 24 + 19) * 3600 + 27 * 60 + 30) * 1_000_000 + 1);
    let span = |micros| DurationMicrosecondArray::from(vec![micros]);
    check(
        SqlType::Time { fsp: 6 },
        span(micros),
        b"\x0c\x01\x78\0\0\0\x13\x1b\x1e\x01\0\0\0",
    );
    check(
        SqlType::Time { fsp: 0 },
        span(micros),
        b"\x08\x01\x78\0\0\0\x13\x1b\x1e",
    );
    check(SqlType::Time { fsp: 0 }, span(-1), b"\0");
}

#[test]
fn nulls_are_bits_from_the_third_on() {
    let int = SqlType::TinyInt { unsigned: SIGNED };
    let columns: Vec<_> = (0..15).map(|_| Column::expression("c", int)).collect();
    let arrays: Vec<ArrayRef> = (0..15)
        .map(|i| Arc::new(Int8Array::from(vec![(i % 2 == 0).then_some(i)])) as ArrayRef)
        .collect();
    let cells: Vec<_> = arrays
        .iter()
        .zip(&columns)
        .map(|(array, column)| Cells::new(column, array).unwrap())
        .collect();
    let mut out = BytesMut::new();
    put_row(&mut out, &columns, &cells, 0).unwrap();
    let expected = [0, 0b1010_1000, 0b1010_1010, 0, 0, 2, 4, 6, 8, 10, 12, 14];
    assert_eq!(out[..], expected);
    let null: ArrayRef = Arc::new(NullArray::new(1));
    assert_eq!(row_of(SqlType::Null, &null, 0), Ok(vec![0, 0b100]));
    // Under a NULL anything may lie.
    let hidden: ArrayRef = Arc::new(PrimitiveArray::<Float64Type>::new(
        vec![f64::NAN].into(),
        Some(vec![false].into()),
    ));
    assert_eq!(row_of(SqlType::Double, &hidden, 0), Ok(vec![0, 0b100]));
}

/// The text of a binary value, made from its bytes as a client makes it.
fn shown(sql_type: SqlType, fields: &mut Fields<'_>) -> Vec<u8> {
    let text = match sql_type {
        SqlType::TinyInt { unsigned: false } => (fields.u8().unwrap() as i8).to_string(),
        SqlType::TinyInt { .. } => fields.u8().unwrap().to_string(),
        SqlType::SmallInt { unsigned: false } => (fields.u16().unwrap() as i16).to_string(),
        SqlType::SmallInt { .. } => fields.u16().unwrap().to_string(),
        SqlType::Int { unsigned: false } => (fields.u32().unwrap() as i32).to_string(),
        SqlType::Int { .. } => fields.u32().unwrap().to_string(),
        SqlType::BigInt { unsigned: false } => (fields.u64().unwrap() as i64).to_string(),
        SqlType::BigInt { .. } => fields.u64().unwrap().to_string(),
        SqlType::Year => format!("{:04}", fields.u16().unwrap()),
        SqlType::Float => {
            let mut digits = Digits::new();
            digits.f32(f32::from_bits(fields.u32().unwrap()));
            return digits.as_bytes().to_vec();
        }
        SqlType::Double => {
            let mut digits = Digits::new();
            digits.f64(f64::from_bits(fields.u64().unwrap()));
            return digits.as_bytes().to_vec();
        }
        SqlType::Date => moment(fields, None),
        SqlType::DateTime { fsp } => moment(fields, Some(fsp)),
        SqlType::Time { fsp } => span(fields, fsp),
        _ => return fields.lenenc_bytes().unwrap().to_vec(),
    };
    text.into_bytes()
}

fn clock(fields: &mut Fields<'_>, fsp: u8, more_hours: u32, length: u8) -> String {
    let mut byte = || u32::from(fields.u8().unwrap());
    let (hours, minutes, seconds) = match length {
        0 => (0, 0, 0),
        _ => (byte() + more_hours, byte(), byte()),
    };
    let micros = if length == 4 + 3 {
        fields.u32().unwrap()
    } else {
        0
    };
    let whole = format!("{hours:02}:{minutes:02}:{seconds:02}");
    match fsp {
        0 => whole,
        fsp => format!("{whole}.{}", &format!("{micros:06}")[..usize::from(fsp)]),
    }
}

fn moment(fields: &mut Fields<'_>, fsp: Option<u8>) -> String {
    let length = fields.u8().unwrap();
    let year = fields.u16().unwrap();
    let (month, day) = (fields.u8().unwrap(), fields.u8().unwrap());
    let date = format!("{year:04}-{month:02}-{day:02}");
    match fsp {
        None => date,
        Some(fsp) => format!("{date} {}", clock(fields, fsp, 0, length - 4)),
    }
}

fn span(fields: &mut Fields<'_>, fsp: u8) -> String {
    let length = fields.u8().unwrap();
    if length == 0 {
        return clock(fields, fsp, 0, 0);
    }
    let sign = if fields.u8().unwrap() == 1 { "-" } else { "" };
    let days = fields.u32().unwrap();
    format!("{sign}{}", clock(fields, fsp, 24 * days, length - 5))
}

/// Columns of every type with rows of it.
fn typed() -> impl Strategy<Value = Vec<(SqlType, ArrayRef)>> {
    const ROWS: usize = 8;
    fn values<T: std::fmt::Debug + Clone + 'static>(
        one: impl Strategy<Value = T> + 'static,
    ) -> BoxedStrategy<Vec<Option<T>>> {
        prop::collection::vec(prop::option::weighted(0.8, one), ROWS).boxed()
    }
    macro_rules! column {
        ($sql_type:expr, $array:ty, $one:expr) => {
            values($one)
                .prop_map(|v| ($sql_type, Arc::new(<$array>::from(v)) as ArrayRef))
                .boxed()
        };
    }
    let micros_of_calendar = -62_167_219_200_000_000i64..253_402_300_800_000_000;
    let columns = vec![
        column!(
            SqlType::TinyInt { unsigned: SIGNED },
            Int8Array,
            any::<i8>()
        ),
        column!(
            SqlType::TinyInt { unsigned: UNSIGNED },
            UInt8Array,
            any::<u8>()
        ),
        column!(
            SqlType::SmallInt { unsigned: SIGNED },
            Int16Array,
            any::<i16>()
        ),
        column!(
            SqlType::SmallInt { unsigned: UNSIGNED },
            UInt16Array,
            any::<u16>()
        ),
        column!(SqlType::Int { unsigned: SIGNED }, Int32Array, any::<i32>()),
        column!(
            SqlType::Int { unsigned: UNSIGNED },
            UInt32Array,
            any::<u32>()
        ),
        column!(
            SqlType::BigInt { unsigned: SIGNED },
            Int64Array,
            any::<i64>()
        ),
        column!(
            SqlType::BigInt { unsigned: UNSIGNED },
            UInt64Array,
            any::<u64>()
        ),
        column!(SqlType::Year, UInt16Array, 0..10_000u16),
        column!(SqlType::Float, PrimitiveArray<Float32Type>, -1e30..1e30f32),
        column!(SqlType::Double, PrimitiveArray<Float64Type>, -1e300..1e300),
        column!(SqlType::Date, Date32Array, -719_528..2_932_897),
        column!(
            SqlType::DateTime { fsp: 6 },
            TimestampMicrosecondArray,
            micros_of_calendar.clone()
        ),
        column!(
            SqlType::DateTime { fsp: 2 },
            TimestampMicrosecondArray,
            micros_of_calendar
        ),
        column!(
            SqlType::Time { fsp: 4 },
            DurationMicrosecondArray,
            -3_020_399_000_000..3_020_399_000_000i64
        ),
        column!(
            SqlType::Time { fsp: 0 },
            DurationMicrosecondArray,
            -99i64..99
        ),
        values(any::<i64>())
            .prop_map(|v| {
                let sql_type = SqlType::Decimal {
                    precision: 18,
                    scale: 3,
                    unsigned: SIGNED,
                };
                let array = Decimal64Array::from(v).with_precision_and_scale(18, 3);
                (sql_type, Arc::new(array.unwrap()) as ArrayRef)
            })
            .boxed(),
        column!(
            SqlType::VarChar { chars: 30 },
            StringViewArray,
            "[a-z\u{e9}]{0,30}"
        ),
        values(prop::collection::vec(any::<u8>(), 0..300))
            .prop_map(|v| {
                let array = v.iter().map(Option::as_deref).collect::<BinaryArray>();
                (SqlType::Blob { bytes: 300 }, Arc::new(array) as ArrayRef)
            })
            .boxed(),
    ];
    columns
}

proptest! {
    #[test]
    fn binary_rows_show_what_text_rows_show(typed in typed()) {
        let columns: Vec<_> = typed
            .iter()
            .map(|(sql_type, _)| Column::expression("c", *sql_type))
            .collect();
        let cells: Vec<_> = typed
            .iter()
            .zip(&columns)
            .map(|((_, array), column)| Cells::new(column, array).unwrap())
            .collect();
        for row in 0..typed[0].1.len() {
            let (mut binary, mut plain) = (BytesMut::new(), BytesMut::new());
            prop_assert_eq!(put_row(&mut binary, &columns, &cells, row), Ok(()));
            prop_assert_eq!(text::put_row(&mut plain, &cells, row), Ok(()));
            let mut fields = Fields::new(&binary, "row");
            prop_assert_eq!(fields.u8(), Ok(0));
            let nulls = fields.raw((columns.len() + 9) / 8).unwrap();
            let mut texts = Fields::new(&plain, "row");
            for (i, column) in columns.iter().enumerate() {
                if nulls[(i + 2) / 8] & (1 << ((i + 2) % 8)) != 0 {
                    prop_assert_eq!(texts.u8(), Ok(0xFB));
                } else {
                    let value = shown(column.sql_type, &mut fields);
                    prop_assert_eq!(texts.lenenc_bytes(), Ok(&value[..]), "{:?}", column);
                }
            }
            prop_assert!(fields.is_empty() && texts.is_empty());
        }
    }
}
