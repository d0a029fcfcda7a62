//! MySQL's functions of JSON: one line of a table each, computed a row at a time.
//!
//! A JSON value is its text in normal form, of the Arrow type that nothing else has
//! ([`super::types::json`]). What it is equal to and ordered by are the bytes of [`order_of`], so
//! that comparisons, GROUP BY, ORDER BY and joins of JSON are those of bytes.

mod argument;
mod evaluate;

use std::rc::Rc;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BinaryViewBuilder, Int64Builder, LargeStringBuilder, StringViewArray,
    StringViewBuilder,
};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use perigee_value::json::{Json, Number};

use super::cast::Target;
use super::{kernels, text, types};
use crate::error::{Result, SqlError};
use argument::{Argument, Call};
use evaluate::DEFINITIONS;

/// What a function gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Json,
    Text,
    Int,
    /// Bytes to compare by.
    Order,
}

/// One result.
enum Output {
    Json(Json),
    Text(String),
    Int(i64),
    Order(Vec<u8>),
}

/// What a function makes of a row; `None` is NULL.
type Evaluate = fn(&Call<'_>) -> Result<Option<Output>>;

/// A function.
struct Definition {
    name: &'static str,
    /// Least and greatest number of arguments.
    arguments: (usize, usize),
    /// From the least number on they come by two.
    pairs: bool,
    result: Kind,
    evaluate: Evaluate,
}

/// A function of the table.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct JsonFunction {
    /// Index into [`DEFINITIONS`].
    index: usize,
    signature: Signature,
}

/// All functions of the table.
pub fn all() -> impl Iterator<Item = JsonFunction> {
    (0..DEFINITIONS.len()).map(JsonFunction::new)
}

/// The bytes by which a JSON value, or what another value is as JSON, is compared.
#[must_use]
pub fn order_of(value: Expr) -> Expr {
    let index = DEFINITIONS.iter().position(|d| d.result == Kind::Order);
    let function = JsonFunction::new(index.expect("the table has it"));
    crate::plan::operators::call(function.into(), vec![value])
}

/// Our name of a function that MySQL calls so, and whether it takes so many arguments.
#[must_use]
pub fn named(mysql: &str, arguments: usize) -> Option<(&'static str, bool)> {
    let definition = DEFINITIONS
        .iter()
        .filter(|d| d.result != Kind::Order)
        .find(|d| mysql.starts_with("json_") && d.mysql_name() == mysql)?;
    let (least, most) = definition.arguments;
    let fits = (least..=most).contains(&arguments);
    let paired = !definition.pairs || (arguments.wrapping_sub(least)) % 2 == 0;
    Some((definition.name, fits && paired))
}

/// `value MEMBER OF (array)`.
pub const MEMBER_OF: &str = "mysql_member_of";

/// `JSON_EXTRACT`, which `->` stands for.
pub const EXTRACT: &str = "mysql_json_extract";

/// `JSON_UNQUOTE`, which `->>` has around it.
pub const UNQUOTE: &str = "mysql_json_unquote";

impl Definition {
    /// The name in MySQL's messages.
    fn mysql_name(&self) -> String {
        let name = self.name.strip_prefix("mysql_").unwrap_or(self.name);
        name.replace("member_of", "member of")
    }
}

impl JsonFunction {
    fn new(index: usize) -> Self {
        let any = vec![TypeSignature::VariadicAny, TypeSignature::Nullary];
        Self {
            index,
            signature: Signature::one_of(any, Volatility::Immutable),
        }
    }

    fn definition(&self) -> &'static Definition {
        &DEFINITIONS[self.index]
    }
}

impl ScalarUDFImpl for JsonFunction {
    fn name(&self) -> &str {
        self.definition().name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(match self.definition().result {
            Kind::Json => types::json(),
            Kind::Text => DataType::Utf8View,
            Kind::Int => DataType::Int64,
            Kind::Order => DataType::BinaryView,
        })
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let ty = self.return_type(&[])?;
        Ok(Arc::new(Field::new(self.name(), ty, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let constant = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        let scalar = args.args.iter().all(constant);
        let rows = if scalar { 1 } else { args.number_rows };
        let mut arguments = Vec::with_capacity(args.args.len());
        for (arg, field) in args.args.iter().zip(&args.arg_fields) {
            let array = arg.to_array(if constant(arg) { 1 } else { rows })?;
            let argument = Argument::new(&array, field, constant(arg));
            arguments.push(argument.map_err(SqlError::into_df)?);
        }
        let definition = self.definition();
        let function = definition.mysql_name();
        let outputs = (0..rows).map(|row| {
            let call = Call {
                function: &function,
                arguments: &arguments,
                row,
            };
            (definition.evaluate)(&call)
        });
        let array = collect(definition.result, outputs).map_err(SqlError::into_df)?;
        kernels::shape(array, scalar)
    }
}

/// Results as an array.
fn collect(kind: Kind, outputs: impl Iterator<Item = Result<Option<Output>>>) -> Result<ArrayRef> {
    Ok(match kind {
        Kind::Json => {
            let mut out = LargeStringBuilder::new();
            for output in outputs {
                match output? {
                    Some(Output::Json(value)) => {
                        value.check_depth().map_err(|_| SqlError::json_too_deep())?;
                        out.append_value(value.to_string());
                    }
                    _ => out.append_null(),
                }
            }
            Arc::new(out.finish())
        }
        Kind::Text => {
            let mut out = StringViewBuilder::new();
            for output in outputs {
                out.append_option(match output? {
                    Some(Output::Text(text)) => Some(text),
                    _ => None,
                });
            }
            Arc::new(out.finish())
        }
        Kind::Int => {
            let mut out = Int64Builder::new();
            for output in outputs {
                out.append_option(match output? {
                    Some(Output::Int(number)) => Some(number),
                    _ => None,
                });
            }
            Arc::new(out.finish())
        }
        Kind::Order => {
            let mut out = BinaryViewBuilder::new();
            for output in outputs {
                out.append_option(match output? {
                    Some(Output::Order(bytes)) => Some(bytes),
                    _ => None,
                });
            }
            Arc::new(out.finish())
        }
    })
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
    let arguments = [Argument::new(array, &field, false).map_err(SqlError::into_df)?];
    let outputs = (0..datafusion::arrow::array::Array::len(array)).map(|row| {
        let call = Call {
            function: "cast_as_json",
            arguments: &arguments,
            row,
        };
        let value = match call.is_text(0) {
            true => call.document(0)?.map(Rc::unwrap_or_clone),
            false => call.value(0)?,
        };
        Ok(value.map(Output::Json))
    });
    collect(Kind::Json, outputs).map_err(SqlError::into_df)
}

/// What CAST to a type that is neither text nor JSON sees of JSON values: texts of scalars; anything
/// else is zero for numbers and NULL for dates.
///
/// # Errors
/// 1712 for what is no JSON.
pub fn scalars(array: &ArrayRef, target: Target) -> DfResult<ArrayRef> {
    let texts = text::as_view(array)?;
    let scalar = |text: &str| -> Result<Option<String>> {
        let value = Json::read(text).map_err(SqlError::corrupt)?;
        let is_temporal = matches!(target, Target::Date | Target::DateTime(_) | Target::Time(_));
        Ok(match (&value, target) {
            (
                Json::Number(number @ (Number::Double(_) | Number::Decimal(_))),
                Target::Signed | Target::Unsigned,
            ) => Some(format!("{:.0}", number.to_f64().round_ties_even())),
            _ => value
                .scalar_text()
                .or_else(|| (!is_temporal).then(|| "0".to_owned())),
        })
    };
    let scalars: Result<StringViewArray> = texts
        .iter()
        .map(|text| text.map_or(Ok(None), scalar))
        .collect();
    Ok(Arc::new(scalars.map_err(SqlError::into_df)?))
}
