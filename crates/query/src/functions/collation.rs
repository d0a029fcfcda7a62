//! Strings as `utf8mb4_bin` compares them: trailing spaces do not count; and bytes, of which all do.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::{kernels, text};

/// `mysql_pad(s)`: `s` without trailing spaces, so that equal strings become equal bytes. Comparing
/// results bytewise is the collation's order, but for strings that go on with a control character
/// where the other one ends (see `docs/sql.md`).
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Pad {
    signature: Signature,
}

/// Name of [`Pad`].
pub const PAD: &str = "mysql_pad";

impl Default for Pad {
    fn default() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Pad {
    fn name(&self) -> &str {
        PAD
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        // Keeps what the column's metadata say: a padded column is still that column.
        let field = args.arg_fields[0].as_ref();
        Ok(Arc::new(
            Field::new(PAD, DataType::Utf8View, field.is_nullable())
                .with_metadata(field.metadata().clone()),
        ))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let array = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        kernels::shape(trim(&array)?, scalar)
    }
}

fn trim(array: &ArrayRef) -> DfResult<ArrayRef> {
    let strings = text::as_view(array)?;
    // Nearly always nothing is to be done, and the array can be shared.
    let padded = |s: &str| s.ends_with(' ');
    if !strings.iter().flatten().any(padded) {
        return Ok(Arc::new(strings));
    }
    let trimmed: StringViewArray = strings
        .iter()
        .map(|s| s.map(|s| s.trim_end_matches(' ')))
        .collect();
    debug_assert_eq!(trimmed.len(), array.len());
    Ok(Arc::new(trimmed))
}

/// `mysql_latin(s)`: the bytes of `s` as characters, for LIKE over bytes.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Latin {
    signature: Signature,
}

impl Default for Latin {
    fn default() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Latin {
    fn name(&self) -> &str {
        "mysql_latin"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let array = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        let fsp = super::cast::fsp_of(&args.arg_fields[0]);
        kernels::shape(Arc::new(text::to_latin(&array, fsp)?), scalar)
    }
}
