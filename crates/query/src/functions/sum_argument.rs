//! `mysql_sum_arg(x)`: what SUM adds up. Integers become exact decimals, so that no sum overflows;
//! strings become doubles. The typing pass replaces it by a cast, or by nothing.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::types::{MAX_PRECISION, MAX_WIDE_PRECISION, Number, mysql_name, number_of};
use super::{cast, kernels};
use crate::error::SqlError;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct SumArgument {
    signature: Signature,
}

/// Its name.
pub const SUM_ARGUMENT: &str = "mysql_sum_arg";

impl Default for SumArgument {
    fn default() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

/// Most digits of decimals whose sum has its digits in 128 bits: ten more are those of 10^10 rows of the greatest
/// values. Storage adds the others up in 192 bits and gives out parts of at most 38 digits each.
const MAX_NARROW: u8 = MAX_PRECISION - 10;

/// Type of the values that SUM adds up for arguments of type `ty`.
pub fn sum_type(ty: &DataType) -> DfResult<DataType> {
    Ok(match number_of(ty) {
        // 20 digits hold every BIGINT; the sum gets ten more.
        Some(Number::Int(_) | Number::UInt(_)) => DataType::Decimal128(20, 0),
        // Ten digits more come from the sum itself: 22 in all, as in MySQL.
        Some(Number::Decimal(p, s)) if p > MAX_NARROW => {
            DataType::Decimal256((p + 12).min(MAX_WIDE_PRECISION), s as i8)
        }
        Some(Number::Decimal(..)) => ty.clone(),
        Some(Number::Double | Number::Null) => DataType::Float64,
        None => {
            let what = format!("SUM or AVG of {}", mysql_name(ty));
            return Err(SqlError::not_supported(what).into_df());
        }
    })
}

impl ScalarUDFImpl for SumArgument {
    fn name(&self) -> &str {
        SUM_ARGUMENT
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        sum_type(&types[0])
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let array = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        let array = match args.return_field.data_type() {
            DataType::Decimal128(p, s) | DataType::Decimal256(p, s) => {
                cast::convert(&array, cast::Target::Decimal(*p, *s as u8), 0)?
            }
            _ => cast::convert(&array, cast::Target::Double, 0)?,
        };
        kernels::shape(Arc::clone(&array), scalar)
    }
}
