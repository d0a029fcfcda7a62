//! `mysql_nullable(x)`: `x`, which may be NULL whatever the planner thinks of it.
//!
//! DataFusion takes a scalar subquery for as nullable as its column, and so for never NULL if that is NOT
//! NULL; but without a row it is.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Subquery,
    Volatility,
};

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Nullable {
    signature: Signature,
}

impl Default for Nullable {
    fn default() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Nullable {
    fn name(&self) -> &str {
        "mysql_nullable"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let field = args.arg_fields[0].as_ref().clone();
        Ok(Arc::new(field.with_nullable(true)))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}

/// A scalar subquery as a value that may be NULL.
#[must_use]
pub fn subquery(subquery: Subquery) -> Expr {
    let is_nullable = subquery.subquery.schema().field(0).is_nullable();
    let value = Expr::ScalarSubquery(subquery);
    match is_nullable {
        true => value,
        false => Expr::ScalarFunction(ScalarFunction::new_udf(
            Arc::new(Nullable::default().into()),
            vec![value],
        )),
    }
}
