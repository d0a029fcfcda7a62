//! Texts and numbers that are compared with a DATE, DATETIME or TIME, as such.
//!
//! What is no date is 0000-00-00 there, before all dates, and what is no time is 00:00:00; NULL stays NULL. A date that
//! there is not, such as 2010-02-30, is the last microsecond before the next one that there is. MariaDB
//! compares so whatever stands on the other side, MySQL compares a number that is no constant as a number, which
//! differs only for numbers that are no dates.

use std::sync::Arc;

use datafusion::arrow::array::TimestampMicrosecondArray;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, DurationMicrosecondArray};
use datafusion::arrow::datatypes::{DataType, Decimal128Type};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use perigee_expr::scalar::{NO_DATE, moment_of, time_of};
use perigee_value::{compared_moment, compared_time};

use super::cast::{self, Target};
use super::types::{MAX_PRECISION, is_bytes, is_string, is_time};
use super::{kernels, text};

/// Digits of numbers behind the point that are looked at.
const SCALE: u8 = 10;

/// A microsecond in units of such numbers.
const MICRO: i128 = 10_i128.pow(SCALE as u32 - 6);

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

    /// With the type: a join may compare one column with dates and with times.
    fn schema_name(&self, args: &[Expr]) -> DfResult<String> {
        let args: Vec<_> = args.iter().map(ToString::to_string).collect();
        Ok(format!("{}({},{})", self.name(), args.join(","), self.to))
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
                let texts = text::to_text(&array, 0)?;
                let times = texts.iter().map(|t| t.map(|t| compared_time(t.as_bytes())));
                Arc::new(times.collect::<DurationMicrosecondArray>())
            }
            (true, false) => {
                let times = micros(&array)?.into_iter().map(|v| v.map(time_of));
                Arc::new(times.collect::<DurationMicrosecondArray>())
            }
            (false, true) => {
                let moment = |t: &str| compared_moment(t.as_bytes()).unwrap_or(NO_DATE);
                let texts = text::to_text(&array, 0)?;
                let moments = texts.iter().map(|t| t.map(moment));
                Arc::new(moments.collect::<TimestampMicrosecondArray>())
            }
            (false, false) => {
                let moments = micros(&array)?.into_iter().map(|v| v.map(moment_of));
                Arc::new(moments.collect::<TimestampMicrosecondArray>())
            }
        };
        kernels::shape(array, scalar)
    }
}

/// Numbers such as 20200101101112.5 in millionths; the seventh digit behind the point and those after it are cut off.
fn micros(array: &ArrayRef) -> DfResult<Vec<Option<i128>>> {
    let units = cast::convert(array, Target::Decimal(MAX_PRECISION, SCALE), 0)?;
    let units = units.as_primitive::<Decimal128Type>();
    Ok(units.iter().map(|v| v.map(|v| v / MICRO)).collect())
}
