//! Values of Arrow columns as the texts that LOAD DATA takes, and the MySQL types that hold such columns.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, TimeUnit};
use perigee_value::date::{
    DAY_MICROS, ZERO_DAY, ZERO_MICROS, format_day, format_micros, is_stored_day, is_stored_micros,
};
use perigee_value::time::{format_time, is_valid_time};
use perigee_value::{ColumnType, bits, format_double};

use crate::kind::Kind;

/// The type of a column of a table that is made for a file; none if there is none.
pub(crate) fn column_type(ty: &DataType) -> Option<String> {
    let decimal = |precision: u8, scale: i8| {
        let fits = precision <= 65 && (0..=30).contains(&scale);
        fits.then(|| format!("DECIMAL({precision},{scale})"))
    };
    let digits = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond | TimeUnit::Nanosecond => 6,
    };
    Some(match ty {
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Int8 => "TINYINT".to_owned(),
        DataType::Int16 => "SMALLINT".to_owned(),
        DataType::Int32 => "INT".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::UInt8 => "TINYINT UNSIGNED".to_owned(),
        DataType::UInt16 => "SMALLINT UNSIGNED".to_owned(),
        DataType::UInt32 => "INT UNSIGNED".to_owned(),
        DataType::UInt64 => "BIGINT UNSIGNED".to_owned(),
        DataType::Float32 => "FLOAT".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            decimal(*precision, *scale)?
        }
        DataType::Date32 => "DATE".to_owned(),
        DataType::Timestamp(unit, _) => format!("DATETIME({})", digits(unit)),
        DataType::Time32(unit) | DataType::Time64(unit) | DataType::Duration(unit) => {
            format!("TIME({})", digits(unit))
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => {
            "LONGTEXT".to_owned()
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "LONGBLOB".to_owned(),
        DataType::FixedSizeBinary(width) => format!("VARBINARY({width})"),
        DataType::Dictionary(_, values) => column_type(values)?,
        _ => return None,
    })
}

/// The statement that makes a table for the columns of a file.
///
/// # Errors
/// A text that names the column whose type no table can have.
pub(crate) fn create_table(name: &str, fields: &[std::sync::Arc<Field>]) -> Result<String, String> {
    let column = |field: &std::sync::Arc<Field>| {
        let ty = column_type(field.data_type()).ok_or_else(|| {
            format!(
                "column {} is a {}, which no table has",
                field.name(),
                field.data_type()
            )
        })?;
        let null = if field.is_nullable() {
            "NULL"
        } else {
            "NOT NULL"
        };
        Ok(format!("{} {ty} {null}", crate::names::ident(field.name())))
    };
    let columns = fields
        .iter()
        .map(column)
        .collect::<Result<Vec<_>, String>>()?;
    Ok(format!("CREATE TABLE {name} ({})", columns.join(", ")))
}

/// A column of a batch; of a dictionary the keys are known as places of its values.
pub(crate) struct Cells {
    column: ArrayRef,
    values: ArrayRef,
    keys: Option<Vec<usize>>,
}

impl Cells {
    pub(crate) fn new(column: &ArrayRef) -> Self {
        let (values, keys) = match column.as_any_dictionary_opt() {
            Some(dictionary) => (
                dictionary.values().clone(),
                Some(dictionary.normalized_keys()),
            ),
            None => (column.clone(), None),
        };
        Self {
            column: column.clone(),
            values,
            keys,
        }
    }

    /// Appends the text of a value for a column of a kind; false for NULL.
    ///
    /// # Errors
    /// A text that says why it has none: a date that MySQL does not have, nanoseconds.
    pub(crate) fn text(&self, row: usize, kind: Kind, out: &mut Vec<u8>) -> Result<bool, String> {
        if self.column.is_null(row) {
            return Ok(false);
        }
        let row = self.keys.as_ref().map_or(row, |keys| keys[row]);
        text(&self.values, row, kind, out)
    }
}

fn text(array: &ArrayRef, row: usize, kind: Kind, out: &mut Vec<u8>) -> Result<bool, String> {
    if array.is_null(row) {
        return Ok(false);
    }
    let mut digits = String::new();
    match array.data_type() {
        DataType::Boolean => digits.push_str(if array.as_boolean().value(row) {
            "1"
        } else {
            "0"
        }),
        DataType::Int8 => digits = array.as_primitive::<Int8Type>().value(row).to_string(),
        DataType::Int16 => digits = array.as_primitive::<Int16Type>().value(row).to_string(),
        DataType::Int32 => digits = array.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => digits = array.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::UInt8 => digits = array.as_primitive::<UInt8Type>().value(row).to_string(),
        DataType::UInt16 => digits = array.as_primitive::<UInt16Type>().value(row).to_string(),
        DataType::UInt32 => digits = array.as_primitive::<UInt32Type>().value(row).to_string(),
        DataType::UInt64 => {
            let number = array.as_primitive::<UInt64Type>().value(row);
            if let Kind::Bit(width) = kind {
                let bytes = number.to_be_bytes();
                let len = usize::from(width).div_ceil(8).min(8);
                if number > bits::greatest(width) {
                    return Err(format!("{number} has more than {width} bits"));
                }
                out.extend_from_slice(&bytes[8 - len..]);
                return Ok(true);
            }
            digits = number.to_string();
        }
        DataType::Float32 => format_double(
            array.as_primitive::<Float32Type>().value(row).into(),
            &mut digits,
        ),
        DataType::Float64 => {
            format_double(array.as_primitive::<Float64Type>().value(row), &mut digits)
        }
        DataType::Decimal128(..) => {
            digits = array.as_primitive::<Decimal128Type>().value_as_string(row)
        }
        DataType::Decimal256(..) => {
            digits = array.as_primitive::<Decimal256Type>().value_as_string(row)
        }
        DataType::Utf8 => out.extend_from_slice(array.as_string::<i32>().value(row).as_bytes()),
        DataType::LargeUtf8 => {
            out.extend_from_slice(array.as_string::<i64>().value(row).as_bytes())
        }
        DataType::Utf8View => out.extend_from_slice(array.as_string_view().value(row).as_bytes()),
        DataType::Binary => out.extend_from_slice(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => out.extend_from_slice(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => out.extend_from_slice(array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => {
            out.extend_from_slice(array.as_fixed_size_binary().value(row))
        }
        _ => temporal(array, row, &mut digits)?,
    }
    if kind == Kind::Temporal(ColumnType::Year) {
        // The text 0 would be the year 2000.
        digits = format!("{digits:0>4}");
    }
    out.extend_from_slice(digits.as_bytes());
    Ok(true)
}

/// Appends the text of a date or a time.
fn temporal(array: &ArrayRef, row: usize, out: &mut String) -> Result<(), String> {
    match array.data_type() {
        DataType::Date32 => {
            let day = array.as_primitive::<Date32Type>().value(row);
            match day {
                ZERO_DAY => out.push_str("0000-00-00"),
                day if is_stored_day(day) => format_day(day, out),
                day => {
                    return Err(format!(
                        "{day} days from 1970-01-01 are not in the years 1 to 9999"
                    ));
                }
            }
        }
        DataType::Timestamp(unit, _) => {
            let value = match unit {
                TimeUnit::Second => array.as_primitive::<TimestampSecondType>().value(row),
                TimeUnit::Millisecond => {
                    array.as_primitive::<TimestampMillisecondType>().value(row)
                }
                TimeUnit::Microsecond => {
                    array.as_primitive::<TimestampMicrosecondType>().value(row)
                }
                TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().value(row),
            };
            match micros(value, unit)? {
                ZERO_MICROS => out.push_str("0000-00-00 00:00:00"),
                micros if is_stored_micros(micros) => format_micros(micros, 6, out),
                micros => {
                    return Err(format!(
                        "{micros} µs from 1970-01-01 are not in the years 1 to 9999"
                    ));
                }
            }
        }
        DataType::Time32(TimeUnit::Second) => time(
            array.as_primitive::<Time32SecondType>().value(row).into(),
            &TimeUnit::Second,
            out,
        )?,
        DataType::Time32(_) => time(
            array
                .as_primitive::<Time32MillisecondType>()
                .value(row)
                .into(),
            &TimeUnit::Millisecond,
            out,
        )?,
        DataType::Time64(TimeUnit::Nanosecond) => time(
            array.as_primitive::<Time64NanosecondType>().value(row),
            &TimeUnit::Nanosecond,
            out,
        )?,
        DataType::Time64(_) => time(
            array.as_primitive::<Time64MicrosecondType>().value(row),
            &TimeUnit::Microsecond,
            out,
        )?,
        DataType::Duration(unit) => {
            let value = match unit {
                TimeUnit::Second => array.as_primitive::<DurationSecondType>().value(row),
                TimeUnit::Millisecond => array.as_primitive::<DurationMillisecondType>().value(row),
                TimeUnit::Microsecond => array.as_primitive::<DurationMicrosecondType>().value(row),
                TimeUnit::Nanosecond => array.as_primitive::<DurationNanosecondType>().value(row),
            };
            time(value, unit, out)?;
        }
        other => return Err(format!("a value of the type {other} has no text")),
    }
    Ok(())
}

fn time(value: i64, unit: &TimeUnit, out: &mut String) -> Result<(), String> {
    let micros = micros(value, unit)?;
    if !is_valid_time(micros) {
        return Err(format!("{micros} µs are more than 838:59:59"));
    }
    format_time(micros, 6, out);
    Ok(())
}

/// A number of units of time as microseconds.
fn micros(value: i64, unit: &TimeUnit) -> Result<i64, String> {
    let found = match unit {
        TimeUnit::Second => value.checked_mul(1_000_000),
        TimeUnit::Millisecond => value.checked_mul(1_000),
        TimeUnit::Microsecond => Some(value),
        TimeUnit::Nanosecond if value % 1_000 == 0 => Some(value / 1_000),
        TimeUnit::Nanosecond => {
            return Err(format!(
                "{value} ns are not whole microseconds, and MySQL has no finer ones"
            ));
        }
    };
    found
        .filter(|micros| micros.unsigned_abs() < DAY_MICROS.unsigned_abs() * 4_000_000)
        .ok_or_else(|| format!("{value} is not in the years 1 to 9999"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]
    use std::sync::Arc;

    use arrow_array::*;

    use super::*;

    fn shown(array: ArrayRef, kind: Kind) -> Vec<Result<Option<String>, String>> {
        let cells = Cells::new(&array);
        let one = |row| {
            let mut out = Vec::new();
            let some = cells.text(row, kind, &mut out)?;
            Ok(some.then(|| String::from_utf8_lossy(&out).into_owned()))
        };
        (0..array.len()).map(one).collect()
    }

    #[test]
    fn values_have_the_texts_of_mysql() {
        let texts = |found: &[&str]| -> Vec<Result<Option<String>, String>> {
            found
                .iter()
                .map(|text| Ok((*text != "NULL").then(|| (*text).to_owned())))
                .collect()
        };
        let decimals = Decimal128Array::from(vec![Some(-1_500), None])
            .with_precision_and_scale(10, 3)
            .unwrap();
        assert_eq!(
            shown(Arc::new(decimals), Kind::Text),
            texts(&["-1.500", "NULL"])
        );
        let days = Date32Array::from(vec![0, ZERO_DAY]);
        assert_eq!(
            shown(Arc::new(days), Kind::Text),
            texts(&["1970-01-01", "0000-00-00"])
        );
        let times = DurationMicrosecondArray::from(vec![-3_600_000_001, 360_000_000_000]);
        assert_eq!(
            shown(Arc::new(times), Kind::Text),
            texts(&["-01:00:00.000001", "100:00:00.000000"])
        );
        let moments = TimestampMillisecondArray::from(vec![1_500]);
        assert_eq!(
            shown(Arc::new(moments), Kind::Text),
            texts(&["1970-01-01 00:00:01.500000"])
        );
        let bits = UInt64Array::from(vec![0x0141]);
        assert_eq!(shown(Arc::new(bits), Kind::Bit(9)), texts(&["\u{1}A"]));
        let words: DictionaryArray<Int8Type> =
            vec![Some("a"), None, Some("b")].into_iter().collect();
        assert_eq!(
            shown(Arc::new(words), Kind::Text),
            texts(&["a", "NULL", "b"])
        );
    }

    #[test]
    fn what_mysql_does_not_have_is_refused() {
        for array in [
            Arc::new(TimestampNanosecondArray::from(vec![1])) as ArrayRef,
            Arc::new(TimestampSecondArray::from(vec![i64::MAX])),
            Arc::new(Date32Array::from(vec![i32::MIN])),
            Arc::new(DurationSecondArray::from(vec![4_000_000])),
        ] {
            assert!(shown(array, Kind::Text)[0].is_err());
        }
        assert!(shown(Arc::new(UInt64Array::from(vec![256])), Kind::Bit(8))[0].is_err());
    }
}
