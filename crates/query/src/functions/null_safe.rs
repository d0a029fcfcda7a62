//! `mysql_null_safe(x)`: a key that is never NULL, and equal for exactly those values that `<=>` calls the
//! same. It stands on both sides of an ordinary equality in the place of `<=>` between columns, see
//! [`crate::plan::null_safe`].

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Float32Array, Float64Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::kernels;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct NullSafeKey {
    signature: Signature,
}

/// The key of NULL; no value has it, since a value's key says that it is one.
const NULL: &[u8] = &[];

/// Its name.
pub const NULL_SAFE: &str = "mysql_null_safe";

impl Default for NullSafeKey {
    fn default() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for NullSafeKey {
    fn name(&self) -> &str {
        NULL_SAFE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// With the casts in the argument, which names of columns leave out: a join may have keys of one column by several
    /// types, each in a column of its own.
    fn schema_name(&self, args: &[Expr]) -> DfResult<String> {
        let args: Vec<_> = args.iter().map(ToString::to_string).collect();
        Ok(format!("{NULL_SAFE}({})", args.join(",")))
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Binary)
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(Arc::new(Field::new(NULL_SAFE, DataType::Binary, false)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let array = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        kernels::shape(keys(&array)?, scalar)
    }
}

/// The keys of values: those of another type are others, but NULL has no type. The optimizer asks what an expression is
/// where a column is NULL, and then has one without a type.
fn keys(array: &ArrayRef) -> DfResult<ArrayRef> {
    let nulls = array.logical_nulls();
    if nulls.as_ref().map_or(0, NullBuffer::null_count) == array.len() {
        let keys = std::iter::repeat_n(NULL, array.len());
        return Ok(Arc::new(BinaryArray::from_iter_values(keys)));
    }
    let array = with_one_zero(array);
    let converter = RowConverter::new(vec![SortField::new(array.data_type().clone())])?;
    let rows = converter.convert_columns(&[array])?;
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
        return Ok(Arc::new(rows.try_into_binary()?));
    };
    let keys = rows.iter().zip(&nulls);
    let keys = keys.map(|(row, is_value)| match is_value {
        true => row.as_ref().to_vec(),
        false => NULL.to_vec(),
    });
    Ok(Arc::new(BinaryArray::from_iter_values(keys)))
}

/// Doubles without the negative zero, which equals the other one.
fn with_one_zero(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>();
            let values: Float32Array = values.unary(|value| value + 0.0);
            Arc::new(values)
        }
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>();
            let values: Float64Array = values.unary(|value| value + 0.0);
            Arc::new(values)
        }
        _ => array.clone(),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{
        BinaryArray, Date32Array, Int64Array, NullArray, StringViewArray,
    };

    use super::*;

    fn keys_of(array: ArrayRef) -> BinaryArray {
        keys(&array).expect("it has keys").as_binary().clone()
    }

    #[test]
    fn a_key_tells_null_from_every_value() {
        let texts = StringViewArray::from(vec![None, Some(""), Some("\0"), None, Some("")]);
        let keys = keys_of(Arc::new(texts));
        assert_eq!(keys.null_count(), 0);
        assert_eq!(keys.value(0), keys.value(3));
        assert_eq!(keys.value(1), keys.value(4));
        assert_ne!(keys.value(0), keys.value(1));
        assert_ne!(keys.value(1), keys.value(2));
    }

    #[test]
    fn null_of_every_type_has_one_key() {
        let arrays: [ArrayRef; 4] = [
            Arc::new(NullArray::new(1)),
            Arc::new(Int64Array::from(vec![None])),
            Arc::new(StringViewArray::from(vec![None, Some("")])),
            Arc::new(Date32Array::from(vec![None, Some(0)])),
        ];
        for array in arrays {
            let keys = keys_of(array);
            assert_eq!(keys.value(0), NULL);
            assert!(keys.iter().skip(1).flatten().all(|key| key != NULL));
        }
    }

    #[test]
    fn both_zeros_have_one_key() {
        let keys = keys_of(Arc::new(Float64Array::from(vec![0.0, -0.0, 1.0])));
        assert_eq!(keys.value(0), keys.value(1));
        assert_ne!(keys.value(0), keys.value(2));
    }
}
