//! Text rows from every Arrow type a column may come in.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use arrow_array::builder::{FixedSizeBinaryBuilder, StringViewBuilder};
use arrow_array::types::{Int32Type, UInt64Type};
use arrow_array::{
    ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Date64Array, Decimal64Array,
    Decimal128Array, Decimal256Array, DictionaryArray, DurationMicrosecondArray, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, LargeStringArray, NullArray,
    PrimitiveArray, StringArray, Time32SecondArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use arrow_buffer::i256;

use super::*;
use crate::codec::Fields;
use crate::column::{Column, SqlType};

/// The values of a one-column result; `None` for NULL.
fn shown(sql_type: SqlType, array: ArrayRef) -> Vec<Option<Vec<u8>>> {
    shown_as(&Column::expression("c", sql_type), &array).unwrap()
}

fn shown_as(column: &Column, array: &ArrayRef) -> Result<Vec<Option<Vec<u8>>>, usize> {
    let cells = [Cells::new(column, array).unwrap()];
    (0..array.len())
        .map(|row| {
            let mut out = BytesMut::new();
            put_row(&mut out, &cells, row)?;
            if out[..] == [NULL_MARK] {
                return Ok(None);
            }
            let mut fields = Fields::new(&out, "row");
            let value = fields.lenenc_bytes().unwrap().to_vec();
            assert!(fields.is_empty());
            Ok(Some(value))
        })
        .collect()
}

#[track_caller]
fn check(sql_type: SqlType, array: impl arrow_array::Array + 'static, expected: &[Option<&str>]) {
    let shown: Vec<_> = shown(sql_type, Arc::new(array))
        .into_iter()
        .map(|value| value.map(|bytes| String::from_utf8(bytes).unwrap()))
        .collect();
    let shown: Vec<_> = shown.iter().map(|value| value.as_deref()).collect();
    assert_eq!(shown, expected, "{sql_type:?}");
}

const SIGNED: bool = false;
const UNSIGNED: bool = true;

#[test]
fn integers_of_every_width() {
    let nulls = &[Some("-128"), None, Some("127")];
    let tiny = SqlType::TinyInt { unsigned: SIGNED };
    check(
        tiny,
        Int8Array::from(vec![Some(i8::MIN), None, Some(i8::MAX)]),
        nulls,
    );
    let small = SqlType::SmallInt { unsigned: SIGNED };
    check(small, Int16Array::from(vec![i16::MIN]), &[Some("-32768")]);
    let int = SqlType::Int { unsigned: SIGNED };
    check(
        int,
        Int32Array::from(vec![i32::MIN, 0]),
        &[Some("-2147483648"), Some("0")],
    );
    let big = SqlType::BigInt { unsigned: SIGNED };
    check(
        big,
        Int64Array::from(vec![i64::MIN]),
        &[Some("-9223372036854775808")],
    );
    let tiny = SqlType::TinyInt { unsigned: UNSIGNED };
    check(tiny, UInt8Array::from(vec![255]), &[Some("255")]);
    let small = SqlType::SmallInt { unsigned: UNSIGNED };
    check(small, UInt16Array::from(vec![65535]), &[Some("65535")]);
    let medium = SqlType::MediumInt { unsigned: UNSIGNED };
    check(
        medium,
        UInt32Array::from(vec![16_777_215]),
        &[Some("16777215")],
    );
    let big = SqlType::BigInt { unsigned: UNSIGNED };
    check(
        big,
        UInt64Array::from(vec![u64::MAX]),
        &[Some("18446744073709551615")],
    );
    let truth = BooleanArray::from(vec![Some(true), Some(false), None]);
    check(
        SqlType::TinyInt { unsigned: SIGNED },
        truth,
        &[Some("1"), Some("0"), None],
    );
}

#[test]
fn a_slice_of_an_array_shows_its_own_rows() {
    let whole = Int32Array::from(vec![Some(1), None, Some(3), Some(4)]);
    check(
        SqlType::Int { unsigned: SIGNED },
        whole.slice(1, 2),
        &[None, Some("3")],
    );
    let whole = StringArray::from(vec!["a", "b", "c"]);
    check(
        SqlType::VarChar { chars: 1 },
        whole.slice(2, 1),
        &[Some("c")],
    );
}

#[test]
fn reals_and_decimals() {
    check(
        SqlType::Double,
        Float64Array::from(vec![1e20, 0.1]),
        &[Some("1e20"), Some("0.1")],
    );
    check(
        SqlType::Float,
        Float32Array::from(vec![0.1]),
        &[Some("0.1")],
    );
    let decimal = SqlType::Decimal {
        precision: 15,
        scale: 2,
        unsigned: SIGNED,
    };
    let values = Decimal128Array::from(vec![Some(-5), None, Some(123_456)]);
    let values = values.with_precision_and_scale(15, 2).unwrap();
    check(decimal, values, &[Some("-0.05"), None, Some("1234.56")]);
    let values = Decimal64Array::from(vec![7])
        .with_precision_and_scale(15, 2)
        .unwrap();
    check(decimal, values, &[Some("0.07")]);
    let wide = i256::from_string(&"9".repeat(65)).unwrap();
    let values = Decimal256Array::from(vec![wide, -wide])
        .with_precision_and_scale(65, 30)
        .unwrap();
    let nines = format!("{}.{}", "9".repeat(35), "9".repeat(30));
    let minus = format!("-{nines}");
    let wide = SqlType::Decimal {
        precision: 65,
        scale: 30,
        unsigned: SIGNED,
    };
    check(wide, values, &[Some(&nines), Some(&minus)]);
    let whole = SqlType::Decimal {
        precision: 20,
        scale: 0,
        unsigned: SIGNED,
    };
    check(whole, Int64Array::from(vec![12]), &[Some("12")]);
}

#[test]
fn reals_with_fixed_decimals() {
    let mut column = Column::expression("c", SqlType::Double);
    column.fixed_decimals = Some(2);
    let array: ArrayRef = Arc::new(Float64Array::from(vec![2.0 / 3.0]));
    assert_eq!(shown_as(&column, &array).unwrap(), [Some(b"0.67".to_vec())]);
    column.sql_type = SqlType::Float;
    let array: ArrayRef = Arc::new(Float32Array::from(vec![2.675]));
    assert_eq!(shown_as(&column, &array).unwrap(), [Some(b"2.67".to_vec())]);
}

#[test]
fn dates_and_times() {
    check(
        SqlType::Date,
        Date32Array::from(vec![Some(8_766), None]),
        &[Some("1994-01-01"), None],
    );
    check(
        SqlType::Date,
        Date64Array::from(vec![-1]),
        &[Some("1969-12-31")],
    );
    let micros = 757_382_400_123_456;
    let expected = &[Some("1994-01-01 00:00:00.123456")];
    check(
        SqlType::DateTime { fsp: 6 },
        TimestampMicrosecondArray::from(vec![micros]),
        expected,
    );
    let zoned = TimestampMicrosecondArray::from(vec![micros]).with_timezone("UTC");
    check(
        SqlType::Timestamp { fsp: 0 },
        zoned,
        &[Some("1994-01-01 00:00:00")],
    );
    let nanos = TimestampNanosecondArray::from(vec![-1]);
    check(
        SqlType::DateTime { fsp: 6 },
        nanos,
        &[Some("1969-12-31 23:59:59.999999")],
    );
    let seconds = TimestampSecondArray::from(vec![0]);
    check(
        SqlType::DateTime { fsp: 0 },
        seconds,
        &[Some("1970-01-01 00:00:00")],
    );
    let long = 100 * 3_600_000_000 + 1_500_000;
    let expected = &[Some("100:00:01.5")];
    check(
        SqlType::Time { fsp: 1 },
        DurationMicrosecondArray::from(vec![long]),
        expected,
    );
    check(
        SqlType::Time { fsp: 1 },
        Int64Array::from(vec![long]),
        expected,
    );
    let clock = Time64MicrosecondArray::from(vec![3_600_000_000]);
    check(SqlType::Time { fsp: 0 }, clock, &[Some("01:00:00")]);
    check(
        SqlType::Time { fsp: 0 },
        Time32SecondArray::from(vec![59]),
        &[Some("00:00:59")],
    );
    check(
        SqlType::Year,
        UInt16Array::from(vec![1994, 0]),
        &[Some("1994"), Some("0000")],
    );
}

#[test]
fn strings_in_every_layout() {
    let text = SqlType::VarChar { chars: 10 };
    let expected = &[Some(""), None, Some("\u{e9}t\u{e9}")];
    let values = vec![Some(""), None, Some("\u{e9}t\u{e9}")];
    check(text, StringArray::from(values.clone()), expected);
    check(text, LargeStringArray::from(values.clone()), expected);
    let mut views = StringViewBuilder::new();
    views.append_value("longer than twelve bytes");
    views.append_null();
    check(
        text,
        views.finish(),
        &[Some("longer than twelve bytes"), None],
    );
    let blob = SqlType::Blob { bytes: 65535 };
    check(
        blob,
        BinaryArray::from_opt_vec(vec![Some(b"x\0"), None]),
        &[Some("x\0"), None],
    );
    check(
        blob,
        BinaryViewArray::from(vec![Some(b"x".as_slice())]),
        &[Some("x")],
    );
    let mut fixed = FixedSizeBinaryBuilder::new(2);
    fixed.append_value(b"ab").unwrap();
    check(SqlType::Binary { bytes: 2 }, fixed.finish(), &[Some("ab")]);
    let long = "x".repeat(70_000);
    check(text, StringArray::from(vec![long.as_str()]), &[Some(&long)]);
}

#[test]
fn bits_are_bytes_with_the_highest_first() {
    let bits = UInt64Array::from(vec![0x0A5B]);
    let shown = shown(SqlType::Bit { width: 12 }, Arc::new(bits));
    assert_eq!(shown, [Some(vec![0x0A, 0x5B])]);
    check(
        SqlType::Bit { width: 8 },
        BinaryArray::from_vec(vec![b"a"]),
        &[Some("a")],
    );
}

#[test]
fn a_null_array_suits_every_type() {
    check(SqlType::Null, NullArray::new(2), &[None, None]);
    check(SqlType::Date, NullArray::new(1), &[None]);
}

#[test]
fn values_without_a_text_name_their_column() {
    let refused = |sql_type, array: ArrayRef| {
        assert_eq!(
            shown_as(&Column::expression("c", sql_type), &array),
            Err(0),
            "{sql_type:?}"
        );
    };
    refused(
        SqlType::Double,
        Arc::new(Float64Array::from(vec![f64::NAN])),
    );
    refused(
        SqlType::Float,
        Arc::new(Float32Array::from(vec![f32::INFINITY])),
    );
    refused(SqlType::Date, Arc::new(Date32Array::from(vec![i32::MAX])));
    refused(
        SqlType::DateTime { fsp: 0 },
        Arc::new(TimestampSecondArray::from(vec![i64::MAX])),
    );
    // Under a NULL anything may lie.
    let hidden = PrimitiveArray::<arrow_array::types::Float64Type>::new(
        vec![f64::NAN].into(),
        Some(vec![false].into()),
    );
    check(SqlType::Double, hidden, &[None]);
}

#[test]
fn arrays_that_do_not_suit_are_refused() {
    let refused = |sql_type, array: ArrayRef| {
        let error = Cells::new(&Column::expression("price", sql_type), &array)
            .err()
            .unwrap();
        assert_eq!(error.errno, 1235);
        assert!(error.message.contains("'price'"), "{error}");
    };
    refused(SqlType::Date, Arc::new(Int32Array::from(vec![1])));
    refused(SqlType::Null, Arc::new(Int32Array::from(vec![1])));
    refused(
        SqlType::VarChar { chars: 1 },
        Arc::new(Int32Array::from(vec![1])),
    );
    let cents = SqlType::Decimal {
        precision: 5,
        scale: 2,
        unsigned: SIGNED,
    };
    refused(cents, Arc::new(Int32Array::from(vec![1])));
    let keys: PrimitiveArray<Int32Type> = vec![0].into();
    let values: PrimitiveArray<UInt64Type> = vec![5].into();
    let dictionary = DictionaryArray::new(keys, Arc::new(values));
    refused(SqlType::BigInt { unsigned: UNSIGNED }, Arc::new(dictionary));
}
