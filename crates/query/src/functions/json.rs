//! JSON in plans.
//!
//! A JSON value is its text in normal form, of the Arrow type that nothing else has
//! ([`super::types::json`]). What it is equal to and ordered by are the bytes of [`order_of`], so
//! that comparisons, GROUP BY, ORDER BY and joins of JSON are those of bytes. The functions are the library's.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringViewArray};
use datafusion::arrow::datatypes::Field;
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{Expr, ScalarUDF};
use perigee_expr::functions::{self, FunctionError, json_scalar_text};

use super::cast::Target;
use super::library::{self, LibraryFunction};
use super::{text, types};
use crate::error::SqlError;

/// The bytes by which a JSON value, or what another value is as JSON, is compared.
#[must_use]
pub fn order_of(value: Expr) -> Expr {
    let order: Arc<ScalarUDF> = library::plain(named("json order"));
    order.call(vec![value])
}

fn named(name: &str) -> &'static functions::Function {
    functions::named(name).expect("the library has it")
}

/// `CAST(… AS JSON)`: texts are parsed, other values are scalars.
///
/// # Errors
/// 3141 for a text that is no JSON.
pub fn cast(array: &ArrayRef, fsp: u8) -> DfResult<ArrayRef> {
    if types::is_json(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    let metadata = [(text::FSP_KEY.to_owned(), fsp.to_string())].into();
    let field = Field::new("", array.data_type().clone(), true).with_metadata(metadata);
    LibraryFunction::of_array(named("cast as json"), array, &field)
}

/// What CAST to a type that is neither text nor JSON sees of JSON values: texts of scalars; anything
/// else is zero for numbers and NULL for dates.
///
/// # Errors
/// 1712 for what is no JSON.
pub fn scalars(array: &ArrayRef, target: Target) -> DfResult<ArrayRef> {
    let texts = text::as_view(array)?;
    let is_temporal = matches!(target, Target::Date | Target::DateTime(_) | Target::Time(_));
    let to_integer = matches!(target, Target::Signed | Target::Unsigned);
    let scalar = |text: &str| -> DfResult<Option<String>> {
        let scalar = json_scalar_text(text, to_integer).map_err(FunctionError::from);
        let scalar = scalar.map_err(|error| SqlError::from(error).into_df())?;
        Ok(scalar.or_else(|| (!is_temporal).then(|| "0".to_owned())))
    };
    let scalars = texts
        .iter()
        .map(|text| text.map_or(Ok(None), scalar))
        .collect::<DfResult<StringViewArray>>()?;
    Ok(Arc::new(scalars))
}
