//! What a column holds after an assignment, for the assignments behind it: in
//! `SET a = a + 0.4, b = a` the second one sees the first one's value as the column `a` stores it.
//!
//! A value that the column cannot hold becomes NULL here: the assignment itself reports the error.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use perigee_engine::catalog::ColumnDef;
use perigee_value::Datum;

use super::{enumeration, kernels};
use crate::error::SqlError;
use crate::values::{self, Column};

/// The function of one column.
#[derive(Debug)]
pub struct Stored {
    name: String,
    signature: Signature,
    /// The column in plans.
    field: FieldRef,
    /// Its type in storage, which has numbers of ENUMs.
    stored: DataType,
    column: ColumnDef,
}

/// Begins the names of these functions, which no user can write without quotes.
pub const PREFIX: &str = "/@stored";

impl Stored {
    /// The function for a column with this field in storage, under a name that is its own in the
    /// statement.
    #[must_use]
    pub fn new(name: String, field: &Field, column: ColumnDef) -> Self {
        Self {
            name,
            signature: Signature::any(1, Volatility::Immutable),
            field: Arc::new(enumeration::shown_field(field).with_nullable(true)),
            stored: field.data_type().clone(),
            column,
        }
    }
}

impl PartialEq for Stored {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Stored {}

impl Hash for Stored {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Stored {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(self.field.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let array = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        let column = Column::new(&array, &args.arg_fields[0]).map_err(SqlError::into_df)?;
        let stored: Vec<Datum> = (0..array.len())
            .map(|row| self.column.coerce(column.datum(row), column.ty()))
            .map(|value| value.unwrap_or(Datum::Null))
            .collect();
        let mut array = values::array(&self.stored, &stored).map_err(SqlError::into_df)?;
        if let Some(members) = &self.column.members {
            array = enumeration::texts(&array, members)?;
        }
        kernels::shape(array, scalar)
    }
}
