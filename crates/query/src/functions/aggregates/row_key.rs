//! `row_key(…)`: several values as one string of bytes. Rows are equal if their keys are, and in the order of their
//! keys.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BinaryArray, Float64Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::Result as DfResult;
use datafusion::common::cast::as_float64_array;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::functions::kernels;
use crate::plan::operators::call;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RowKey {
    /// For each value, whether the order is the other way round. NULL is the least value.
    descending: Vec<bool>,
    /// A row with a NULL has no key.
    strict: bool,
    signature: Signature,
}

fn key(values: Vec<Expr>, descending: Vec<bool>, strict: bool) -> Expr {
    let signature = Signature::any(values.len(), Volatility::Immutable);
    let function = RowKey {
        descending,
        strict,
        signature,
    };
    call(ScalarUDF::from(function), values)
}

/// The key of values, by which rows are equal; NULL for a row with a NULL.
#[must_use]
pub fn equality_key(values: Vec<Expr>) -> Expr {
    let descending = vec![false; values.len()];
    key(values, descending, true)
}

/// The key by which rows are sorted; for each value, whether it descends.
#[must_use]
pub fn order_key(values: Vec<Expr>, descending: Vec<bool>) -> Expr {
    key(values, descending, false)
}

impl ScalarUDFImpl for RowKey {
    fn name(&self) -> &str {
        "row_key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Binary)
    }

    fn schema_name(&self, args: &[Expr]) -> DfResult<String> {
        let args: Vec<_> = args
            .iter()
            .zip(&self.descending)
            .map(|(arg, descending)| format!("{arg}{}", if *descending { " DESC" } else { "" }))
            .collect();
        let name = if self.strict { "row_key" } else { "order_key" };
        Ok(format!("{name}({})", args.join(", ")))
    }

    fn display_name(&self, args: &[Expr]) -> DfResult<String> {
        self.schema_name(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let is_constant = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        let is_scalar = args.args.iter().all(is_constant);
        let rows = if is_scalar { 1 } else { args.number_rows };
        let columns = args.args.iter().map(|arg| arg.to_array(rows));
        let columns = columns.collect::<DfResult<Vec<_>>>()?;
        let columns = columns.iter().map(one_zero).collect::<DfResult<Vec<_>>>()?;
        let fields = columns.iter().zip(&self.descending);
        let fields = fields.map(|(column, descending)| {
            let options = SortOptions {
                descending: *descending,
                nulls_first: !*descending,
            };
            SortField::new_with_options(column.data_type().clone(), options)
        });
        let converter = RowConverter::new(fields.collect())?;
        let keys = converter.convert_columns(&columns)?.try_into_binary()?;
        let keys: ArrayRef = match self.strict {
            true => Arc::new(with_nulls(keys, &columns)),
            false => Arc::new(keys),
        };
        kernels::shape(keys, is_scalar)
    }
}

/// Doubles of which both zeros are one value; anything else as it is.
fn one_zero(column: &ArrayRef) -> DfResult<ArrayRef> {
    if *column.data_type() != DataType::Float64 {
        return Ok(Arc::clone(column));
    }
    let doubles = as_float64_array(column)?;
    let doubles: Float64Array = doubles.unary(|value| value + 0.0);
    Ok(Arc::new(doubles))
}

/// Keys that are NULL in the rows with a NULL.
fn with_nulls(keys: BinaryArray, columns: &[ArrayRef]) -> BinaryArray {
    let nulls = columns.iter().map(|column| column.logical_nulls());
    let nulls = nulls.fold(None, |all: Option<NullBuffer>, own| {
        NullBuffer::union(all.as_ref(), own.as_ref())
    });
    let (offsets, values, _) = keys.into_parts();
    BinaryArray::new(offsets, values, nulls)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use datafusion::arrow::array::{AsArray, Int64Array, StringViewArray};
    use datafusion::arrow::datatypes::Field;
    use datafusion::config::ConfigOptions;

    use super::*;

    fn keys(descending: &[bool], strict: bool, columns: Vec<ArrayRef>) -> BinaryArray {
        let function = RowKey {
            descending: descending.to_vec(),
            strict,
            signature: Signature::any(columns.len(), Volatility::Immutable),
        };
        let number_rows = columns[0].len();
        let arg_fields = columns.iter().map(|column| {
            let field = Field::new("", column.data_type().clone(), true);
            Arc::new(field)
        });
        let arg_fields = arg_fields.collect();
        let args = ScalarFunctionArgs {
            args: columns.into_iter().map(ColumnarValue::Array).collect(),
            arg_fields,
            number_rows,
            return_field: Arc::new(Field::new("", DataType::Binary, true)),
            config_options: Arc::new(ConfigOptions::default()),
        };
        let keys = function.invoke_with_args(args).unwrap();
        keys.to_array(number_rows).unwrap().as_binary().clone()
    }

    #[test]
    fn keys_are_ordered_and_rows_with_a_null_have_none() {
        let numbers = Arc::new(Int64Array::from(vec![Some(1), Some(2), None, Some(1)]));
        let texts = vec![Some("b"), Some("a"), Some("a"), Some("a")];
        let texts: ArrayRef = Arc::new(StringViewArray::from(texts));
        let both = || vec![Arc::clone(&numbers) as ArrayRef, Arc::clone(&texts)];
        let strict = keys(&[false, false], true, both());
        assert!(strict.is_null(2) && strict.value(3) < strict.value(0));
        let ordered = keys(&[true, false], false, both());
        let mut places = vec![0, 1, 2, 3];
        places.sort_by_key(|place| ordered.value(*place).to_vec());
        assert_eq!(places, [1, 3, 0, 2]);
        let zeros: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0]));
        let zeros = keys(&[false], true, vec![zeros]);
        assert_eq!(zeros.value(0), zeros.value(1));
    }
}
