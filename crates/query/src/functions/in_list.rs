//! `mysql_in(x, a, b, …)`: `x IN (a, b, …)` until types are known. The typing pass replaces it.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result as DfResult, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// The placeholder.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct In {
    signature: Signature,
}

/// Its name.
pub const IN_LIST: &str = "mysql_in";

impl Default for In {
    fn default() -> Self {
        Self {
            signature: Signature::variadic_any(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for In {
    fn name(&self) -> &str {
        IN_LIST
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        internal_err!("Q1: the typing pass left {IN_LIST} in a plan")
    }
}
