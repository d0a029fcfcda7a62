//! Texts and numbers that are compared with a DATE, DATETIME or TIME, as such.
//!
//! What is no date is 0000-00-00 there, before all dates, and what is no time is 00:00:00; NULL stays NULL. MariaDB
//! compares so whatever stands on the other side, MySQL compares a number that is no constant as a number, which
//! differs only for numbers that are no dates.

use std::sync::Arc;

use datafusion::arrow::array::TimestampMicrosecondArray;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, DurationMicrosecondArray};
use datafusion::arrow::datatypes::{DataType, Decimal128Type};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use perigee_value::{ColumnType, Datum};

use super::cast::{self, Target};
use super::types::{is_bytes, is_string, is_time};
use super::{kernels, text};

/// A number that is before every date: 0000-00-00.
const NO_DATE: i64 = i64::MIN;

/// 838:59:59.999999, beyond the longest TIME.
const LONGEST: i64 = 3_020_399_999_999;

/// From here on a number has the digits of a date and a time, in millionths.
const BEYOND: i128 = 10_000_000_000 * SECOND;

/// Microseconds of a second.
const SECOND: i128 = 1_000_000;

/// `mysql_moment(x)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Moment {
    /// DATETIME or TIME.
    to: DataType,
    signature: Signature,
}

impl Moment {
    /// The function that gives values of this Arrow type.
    #[must_use]
    pub fn new(to: DataType) -> Self {
        Self {
            to,
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Moment {
    fn name(&self) -> &str {
        "mysql_moment"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let array = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        let is_text = is_string(array.data_type()) || is_bytes(array.data_type());
        let array: ArrayRef = match (is_time(&self.to), is_text) {
            (true, true) => {
                let micros = |text| leading(text, |text| cast::parse_time(text, 6)).unwrap_or(0);
                let texts = text::to_text(&array, 0)?;
                Arc::new(
                    texts
                        .iter()
                        .map(|t| t.map(micros))
                        .collect::<DurationMicrosecondArray>(),
                )
            }
            (true, false) => {
                let times = seconds(&array)?.into_iter().map(|v| v.map(time_of));
                Arc::new(times.collect::<DurationMicrosecondArray>())
            }
            (false, true) => {
                let micros =
                    |text| leading(text, |text| cast::parse_datetime(text, 6)).unwrap_or(NO_DATE);
                let texts = text::to_text(&array, 0)?;
                Arc::new(
                    texts
                        .iter()
                        .map(|t| t.map(micros))
                        .collect::<TimestampMicrosecondArray>(),
                )
            }
            (false, false) => {
                let moments = seconds(&array)?.into_iter().map(|v| v.map(moment_of));
                Arc::new(moments.collect::<TimestampMicrosecondArray>())
            }
        };
        kernels::shape(array, scalar)
    }
}

/// Numbers such as 20200101101112.5 in millionths.
fn seconds(array: &ArrayRef) -> DfResult<Vec<Option<i128>>> {
    let units = cast::convert(array, Target::Decimal(30, 6), 0)?;
    Ok(units.as_primitive::<Decimal128Type>().iter().collect())
}

fn moment_of(number: i128) -> i64 {
    let column = ColumnType::DateTime { fsp: 6 };
    let whole = i64::try_from(number / SECOND).ok().filter(|_| number >= 0);
    let moment = whole.map(|whole| column.coerce(Datum::Int(whole), text::BIGINT));
    match moment {
        Some(Ok(Datum::DateTime(micros))) => micros + (number % SECOND) as i64,
        _ => NO_DATE,
    }
}

fn time_of(number: i128) -> i64 {
    let column = ColumnType::Time { fsp: 6 };
    let whole = i64::try_from(number / SECOND).ok();
    let time = whole.map(|whole| column.coerce(Datum::Int(whole), text::BIGINT));
    match time {
        Some(Ok(Datum::Time(micros))) => micros + (number % SECOND) as i64,
        // MariaDB's ends: of the numbers that are no times, these are beyond all.
        _ if number < 0 => -LONGEST,
        _ if number >= BEYOND => LONGEST,
        _ => 0,
    }
}

/// What the longest beginning of a text is that is anything.
fn leading(text: &str, parse: impl Fn(&str) -> Option<i64>) -> Option<i64> {
    /// No date and no time is longer.
    const LONG: usize = 40;
    let text = text.trim_start();
    let ends = text
        .char_indices()
        .map(|(at, c)| at + c.len_utf8())
        .take(LONG);
    let mut ends: Vec<usize> = ends.collect();
    ends.push(text.len());
    ends.iter().rev().find_map(|end| parse(&text[..*end]))
}
