//! `mysql_between(x, low, x, high)`: `x BETWEEN low AND high` until types are known. The typing pass replaces it.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result as DfResult, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// The placeholder.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Between {
    signature: Signature,
}

/// Its name.
pub const BETWEEN: &str = "mysql_between";

impl Default for Between {
    fn default() -> Self {
        Self {
            signature: Signature::any(4, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Between {
    fn name(&self) -> &str {
        BETWEEN
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        internal_err!("Q1: the typing pass left {BETWEEN} in a plan")
    }
}
