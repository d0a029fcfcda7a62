//! Strings as their collation compares them: trailing spaces do not count, and in `utf8mb4_general_ci`
//! characters have weights; and bytes, of which all do.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, StringViewArray, StringViewBuilder};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use perigee_value::{Collation, collation};

use super::types::is_string;
use super::{kernels, text};
use crate::plan::metadata;

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
        Ok(of_column(PAD, &args))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let array = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        kernels::shape(trim(&array)?, scalar)
    }
}

/// The field of what is compared instead of a column. It keeps what the column's metadata say: it is
/// still that column.
fn of_column(function: &str, args: &ReturnFieldArgs<'_>) -> FieldRef {
    let field = args.arg_fields[0].as_ref();
    let compared = Field::new(function, DataType::Utf8View, field.is_nullable());
    Arc::new(compared.with_metadata(field.metadata().clone()))
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

/// `mysql_weights(s)`: the weights of the characters of `s`, as a string of as many characters.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Weights {
    signature: Signature,
}

/// Name of [`Weights`].
pub const WEIGHTS: &str = "mysql_weights";

impl Default for Weights {
    fn default() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Weights {
    fn name(&self) -> &str {
        WEIGHTS
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        // A CHAR column's weights have no trailing spaces either.
        Ok(of_column(WEIGHTS, &args))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let array = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        let strings = text::as_view(&array)?;
        let mut out = StringViewBuilder::with_capacity(strings.len());
        let mut weights = String::new();
        for string in &strings {
            out.append_option(string.map(|string| {
                weights.clear();
                weights.extend(string.chars().map(collation::weight));
                &*weights
            }));
        }
        kernels::shape(Arc::new(out.finish()), scalar)
    }
}

/// `mysql_collate(s, 'name')`: `s`, with a COLLATE clause.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Collate {
    signature: Signature,
}

/// Name of [`Collate`].
pub const COLLATE: &str = "mysql_collate";

impl Default for Collate {
    fn default() -> Self {
        Self {
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Collate {
    fn name(&self) -> &str {
        COLLATE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let name = args.scalar_arguments[1].and_then(|name| name.try_as_str().flatten());
        let collation = name.and_then(Collation::named);
        // An expression, no column.
        let field = args.arg_fields[0].as_ref();
        let mut metadata = HashMap::new();
        if let Some(collation) = collation.filter(|_| is_string(field.data_type())) {
            metadata::set_collation(&mut metadata, collation);
        }
        let field = Field::new(COLLATE, field.data_type().clone(), field.is_nullable());
        Ok(Arc::new(field.with_metadata(metadata)))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
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
