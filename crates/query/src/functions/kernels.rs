//! Loops over one or two columns, each an array or a constant.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, PrimitiveBuilder,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Result as DfResult, ScalarValue, internal_datafusion_err};
use datafusion::logical_expr::ColumnarValue;

/// A primitive column or constant.
pub enum Operand<T: ArrowPrimitiveType> {
    /// One value a row.
    Array(PrimitiveArray<T>),
    /// The same value in every row.
    Constant(Option<T::Native>),
}

/// The two arguments of a function of two arguments.
pub fn two(args: Vec<ColumnarValue>) -> DfResult<[ColumnarValue; 2]> {
    args.try_into()
        .map_err(|_| internal_datafusion_err!("a function of two arguments"))
}

/// The result as a constant if every argument was one.
pub fn shape(array: ArrayRef, scalar: bool) -> DfResult<ColumnarValue> {
    if scalar {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
            &array, 0,
        )?));
    }
    Ok(ColumnarValue::Array(array))
}

/// Converts an argument, constants only once.
pub fn operand<T: ArrowPrimitiveType>(
    value: &ColumnarValue,
    convert: impl Fn(&ArrayRef) -> DfResult<ArrayRef>,
) -> DfResult<Operand<T>> {
    Ok(match value {
        ColumnarValue::Array(array) => Operand::Array(convert(array)?.as_primitive::<T>().clone()),
        ColumnarValue::Scalar(scalar) => {
            let array = convert(&scalar.to_array()?)?;
            let array = array.as_primitive::<T>();
            Operand::Constant(array.is_valid(0).then(|| array.value(0)))
        }
    })
}

impl<T: ArrowPrimitiveType> Operand<T> {
    fn get(&self, row: usize) -> Option<T::Native> {
        match self {
            Self::Array(array) => array.is_valid(row).then(|| array.value(row)),
            Self::Constant(value) => *value,
        }
    }
}

/// Applies `compute` to every row where both sides are not NULL. Two constants give one row.
pub fn binary<A, B, O>(
    left: &Operand<A>,
    right: &Operand<B>,
    rows: usize,
    compute: impl Fn(A::Native, B::Native) -> Result<Option<O::Native>, ArrowError>,
) -> DfResult<PrimitiveArray<O>>
where
    A: ArrowPrimitiveType,
    B: ArrowPrimitiveType,
    O: ArrowPrimitiveType,
{
    let rows = match (left, right) {
        (Operand::Constant(_), Operand::Constant(_)) => 1,
        _ => rows,
    };
    let mut out = PrimitiveBuilder::<O>::with_capacity(rows);
    match (left, right) {
        (Operand::Array(a), Operand::Array(b)) if a.null_count() + b.null_count() == 0 => {
            for (a, b) in a.values().iter().zip(b.values()) {
                out.append_option(compute(*a, *b)?);
            }
        }
        (Operand::Array(a), Operand::Constant(Some(b))) if a.null_count() == 0 => {
            for a in a.values() {
                out.append_option(compute(*a, *b)?);
            }
        }
        (Operand::Constant(Some(a)), Operand::Array(b)) if b.null_count() == 0 => {
            for b in b.values() {
                out.append_option(compute(*a, *b)?);
            }
        }
        _ => {
            for row in 0..rows {
                out.append_option(match (left.get(row), right.get(row)) {
                    (Some(a), Some(b)) => compute(a, b)?,
                    _ => None,
                });
            }
        }
    }
    Ok(out.finish())
}

/// Applies `compute` to every value that is not NULL.
pub fn unary<A, O>(
    array: &ArrayRef,
    compute: impl Fn(A::Native) -> Result<Option<O::Native>, ArrowError>,
) -> DfResult<ArrayRef>
where
    A: ArrowPrimitiveType,
    O: ArrowPrimitiveType,
{
    let array = array.as_primitive::<A>();
    let mut out = PrimitiveBuilder::<O>::with_capacity(array.len());
    for value in array {
        out.append_option(match value {
            Some(value) => compute(value)?,
            None => None,
        });
    }
    Ok(Arc::new(out.finish()))
}

/// A number without the negative zero. That equals the other one, but Arrow orders the two, and lists of values find
/// one of them only.
pub fn no_negative_zero(value: f64) -> f64 {
    value + 0.0
}
