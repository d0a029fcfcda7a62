//! `mysql_like(text, pattern)`: LIKE by the patterns of `perigee_value`, as storage has it. DataFusion's own
//! makes a regular expression of a pattern with wildcards in the middle, whose time and memory grow with the
//! product of text and pattern.

use std::sync::Arc;

use datafusion::arrow::array::BooleanBuilder;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result as DfResult;
use datafusion::common::cast::as_string_view_array;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use perigee_value::{Collation, LikePattern};

use crate::error::SqlError;
use crate::interrupt;

/// Its name.
pub const LIKE: &str = "mysql_like";

/// Escape character of LIKE without ESCAPE.
pub const ESCAPE: char = '\\';

/// Wildcards and bytes up to which a constant pattern is left to DataFusion, whose rules know more of it: it
/// compares with a text without wildcards, and finds the rows of a prefix.
const SIMPLE: (usize, usize) = (4, 256);

/// True for patterns that DataFusion matches well.
#[must_use]
pub fn is_simple(pattern: &str) -> bool {
    let (wildcards, bytes) = SIMPLE;
    let found = |c: &char| matches!(c, '%' | '_');
    pattern.len() <= bytes && pattern.chars().filter(found).count() <= wildcards
}

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Like {
    collation: Collation,
    signature: Signature,
}

impl Like {
    /// LIKE over texts of a collation.
    #[must_use]
    pub fn new(collation: Collation) -> Self {
        Self {
            collation,
            signature: Signature::any(2, Volatility::Immutable),
        }
    }

    /// The collation of a function that is LIKE.
    #[must_use]
    pub fn collation_of(function: &ScalarUDF) -> Option<Collation> {
        let function = function.inner().downcast_ref::<Self>()?;
        Some(function.collation)
    }
}

impl ScalarUDFImpl for Like {
    fn name(&self) -> &str {
        LIKE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let [text, pattern] = &args.args[..] else {
            return datafusion::common::internal_err!("Q1: {LIKE} has two arguments");
        };
        let text = cast(&text.to_array(args.number_rows)?, &DataType::Utf8View)?;
        let text = as_string_view_array(&text)?;
        let mut out = BooleanBuilder::with_capacity(args.number_rows);
        if let ColumnarValue::Scalar(pattern) = pattern {
            let pattern = pattern.try_as_str().flatten();
            let pattern =
                pattern.map(|pattern| LikePattern::collated(pattern, ESCAPE, self.collation));
            for text in text.iter() {
                out.append_option(match (text, &pattern) {
                    (Some(text), Some(pattern)) => Some(matches(pattern, text)?),
                    _ => None,
                });
            }
        } else {
            let pattern = cast(&pattern.to_array(args.number_rows)?, &DataType::Utf8View)?;
            let pattern = as_string_view_array(&pattern)?;
            for (text, pattern) in text.iter().zip(pattern.iter()) {
                out.append_option(match (text, pattern) {
                    (Some(text), Some(pattern)) => Some(matches(
                        &LikePattern::collated(pattern, ESCAPE, self.collation),
                        text,
                    )?),
                    _ => None,
                });
            }
        }
        Ok(ColumnarValue::Array(Arc::new(out.finish())))
    }
}

/// True if a text is LIKE a pattern; 1317 if the statement was stopped before that was known.
fn matches(pattern: &LikePattern, text: &str) -> DfResult<bool> {
    interrupt::check_df()?;
    let go_on = &mut || interrupt::check().is_ok();
    let found = pattern.matches_while(text.as_bytes(), go_on);
    found.ok_or_else(|| SqlError::interrupted().into_df())
}
