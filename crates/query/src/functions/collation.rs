//! Strings as their collation compares them: without trailing spaces, or as their forms; and bytes, of which all count.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, StringViewArray, StringViewBuilder};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result as DfResult, internal_datafusion_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use perigee_value::Collation;

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

/// A string as what a collation compares or LIKE takes for it, character by character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Instead {
    /// [`Collation::form`].
    Form,
    /// [`Collation::alike_text`].
    Alike,
}

/// `mysql_form_X(s)`, what `s` is compared by in the collation X; and `mysql_alike_X(s)`, `s` with the characters that
/// stand for its characters in LIKE.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Collated {
    name: String,
    instead: Instead,
    collation: Collation,
    signature: Signature,
}

impl Collated {
    /// What a string is compared by.
    #[must_use]
    pub fn form(collation: Collation) -> Self {
        Self::new(Instead::Form, "form", collation)
    }

    /// A string of the characters that stand for its characters.
    #[must_use]
    pub fn alike(collation: Collation) -> Self {
        Self::new(Instead::Alike, "alike", collation)
    }

    fn new(instead: Instead, name: &str, collation: Collation) -> Self {
        Self {
            name: format!("mysql_{name}_{}", collation.name()),
            instead,
            collation,
            signature: Signature::any(1, Volatility::Immutable),
        }
    }

    /// The collation if a function is a form.
    #[must_use]
    pub fn form_of(function: &ScalarUDF) -> Option<Collation> {
        Self::of(function, Instead::Form)
    }

    /// The collation if a function is a text of alike characters.
    #[must_use]
    pub fn alike_of(function: &ScalarUDF) -> Option<Collation> {
        Self::of(function, Instead::Alike)
    }

    /// True if a function is one of the two.
    #[must_use]
    pub fn is(function: &ScalarUDF) -> bool {
        function.inner().downcast_ref::<Self>().is_some()
    }

    fn of(function: &ScalarUDF, instead: Instead) -> Option<Collation> {
        let function = function.inner().downcast_ref::<Self>()?;
        (function.instead == instead).then_some(function.collation)
    }

    /// What a string becomes.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        let bytes = match self.instead {
            Instead::Form => self.collation.form(text.as_bytes()),
            Instead::Alike => self.collation.alike_text(text.as_bytes()),
        };
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl ScalarUDFImpl for Collated {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let field = of_column(&self.name, &args);
        if self.instead == Instead::Alike {
            return Ok(field);
        }
        let mut metadata = field.metadata().clone();
        metadata::set_form(&mut metadata);
        // What the planner makes of a constant is a literal with this metadata.
        let constant = args.scalar_arguments.first().copied().flatten();
        if let Some(Some(text)) = constant.and_then(|value| value.try_as_str()) {
            metadata::set_text_of_form(&mut metadata, text);
        }
        Ok(Arc::new(field.as_ref().clone().with_metadata(metadata)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let array = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        let strings = text::as_view(&array)?;
        let mut out = StringViewBuilder::with_capacity(strings.len());
        for string in &strings {
            let Some(string) = string else {
                out.append_null();
                continue;
            };
            let bytes = match self.instead {
                Instead::Form => self.collation.form(string.as_bytes()),
                Instead::Alike => self.collation.alike_text(string.as_bytes()),
            };
            let text = std::str::from_utf8(&bytes);
            out.append_value(text.map_err(|_| internal_datafusion_err!("Q9: a form is UTF-8"))?);
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
