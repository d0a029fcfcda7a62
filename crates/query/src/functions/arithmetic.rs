//! `+ - * / DIV %` with MySQL's types, rounding and errors.
//!
//! Exact operands are computed in 128 bits over the primitives of `perigee_value::decimal`, which
//! the expression programs in storage use too; a result outside its type is error 1690, division by
//! zero is NULL. Wide decimals are computed by `wide`.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Float64Type, Int64Type, UInt64Type,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use perigee_expr::Arithmetic;
use perigee_expr::scalar::arithmetic_type;
use perigee_value::decimal;

use super::types::{Number, decimal_type, is_string, mysql_name, number_of, number_of_operand};
use super::{kernels, text, wide};
use crate::error::SqlError;
use crate::{diagnostics, interrupt};

/// One operator as a scalar function of two arguments of any numeric types.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ArithmeticFunction {
    op: Op,
    /// The type of the result, once it is known: it depends on the digits of literals, and what the optimizer
    /// computes beforehand has other digits.
    ty: Option<DataType>,
    signature: Signature,
}

/// [`Arithmetic`], hashable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Op(Arithmetic);

/// All operators.
pub const OPERATORS: [Arithmetic; 6] = [
    Arithmetic::Add,
    Arithmetic::Subtract,
    Arithmetic::Multiply,
    Arithmetic::Divide,
    Arithmetic::IntDivide,
    Arithmetic::Modulo,
];

/// Name of the function of an operator.
#[must_use]
pub fn function_name(op: Arithmetic) -> &'static str {
    match op {
        Arithmetic::Add => "mysql_add",
        Arithmetic::Subtract => "mysql_sub",
        Arithmetic::Multiply => "mysql_mul",
        Arithmetic::Divide => "mysql_div",
        Arithmetic::IntDivide => "mysql_intdiv",
        Arithmetic::Modulo => "mysql_mod",
    }
}

/// The operator as SQL writes it.
#[must_use]
pub fn symbol(op: Arithmetic) -> &'static str {
    match op {
        Arithmetic::Add => "+",
        Arithmetic::Subtract => "-",
        Arithmetic::Multiply => "*",
        Arithmetic::Divide => "/",
        Arithmetic::IntDivide => "DIV",
        Arithmetic::Modulo => "%",
    }
}

/// The operator of a function name.
#[must_use]
pub fn operator_of(name: &str) -> Option<Arithmetic> {
    OPERATORS.into_iter().find(|op| function_name(*op) == name)
}

impl ArithmeticFunction {
    /// The function of `op`.
    #[must_use]
    pub fn new(op: Arithmetic) -> Self {
        Self {
            op: Op(op),
            ty: None,
            signature: Signature::any(2, Volatility::Immutable),
        }
    }

    /// The function of `op` whose result has this type.
    #[must_use]
    pub fn typed(op: Arithmetic, ty: DataType) -> Self {
        Self {
            ty: Some(ty),
            ..Self::new(op)
        }
    }

    /// Type of the result over operands of these types.
    ///
    /// # Errors
    /// 1235 for operands that are no numbers.
    pub fn result_type(op: Arithmetic, left: Number, right: Number) -> DataType {
        match arithmetic_type(op, left, right) {
            Number::Decimal(precision, scale) => decimal_type(precision, scale),
            Number::Double => DataType::Float64,
            Number::UInt(_) => DataType::UInt64,
            _ => DataType::Int64,
        }
    }
}

impl ScalarUDFImpl for ArithmeticFunction {
    fn name(&self) -> &str {
        function_name(self.op.0)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        if let Some(ty) = &self.ty {
            return Ok(ty.clone());
        }
        let number = |i: usize| numeric(types.get(i), None);
        Ok(Self::result_type(self.op.0, number(0)?, number(1)?))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        interrupt::check_df()?;
        let number = |i: usize| {
            numeric(
                args.arg_fields.get(i).map(|f| f.data_type()),
                args.scalar_arguments[i],
            )
        };
        let ty = match &self.ty {
            Some(ty) => ty.clone(),
            None => Self::result_type(self.op.0, number(0)?, number(1)?),
        };
        let nullable = self.op.0.divides() || args.arg_fields.iter().any(|f| f.is_nullable());
        Ok(Arc::new(Field::new(self.name(), ty, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let rows = args.number_rows;
        let scalar = args
            .args
            .iter()
            .all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let [left, right] = kernels::two(args.args)?;
        let nulls = nulls_of(&left, &right, rows)?;
        let array = match args.return_field.data_type() {
            DataType::Float64 => double(self.op.0, &left, &right, rows)?,
            ty => exact(self.op.0, &left, &right, ty, rows)?,
        };
        if array.null_count() > 0 {
            // The other NULLs are quotients.
            let zeros = array.null_count().saturating_sub(nulls.min(array.len()));
            diagnostics::divided_by_zero_df(zeros as u64)?;
        }
        kernels::shape(array, scalar)
    }
}

/// Rows in which an operand is NULL; of two constants there is one row.
fn nulls_of(left: &ColumnarValue, right: &ColumnarValue, rows: usize) -> DfResult<usize> {
    Ok(match (left, right) {
        (ColumnarValue::Scalar(one), _) | (_, ColumnarValue::Scalar(one)) if one.is_null() => rows,
        (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)) => 0,
        (ColumnarValue::Array(array), ColumnarValue::Scalar(_))
        | (ColumnarValue::Scalar(_), ColumnarValue::Array(array)) => array.logical_null_count(),
        (ColumnarValue::Array(a), ColumnarValue::Array(b)) => {
            let (a, b) = (a.logical_nulls(), b.logical_nulls());
            let either = NullBuffer::union(a.as_ref(), b.as_ref());
            either.map_or(0, |nulls| nulls.null_count())
        }
    })
}

/// `-x` of a BIGINT UNSIGNED, which is a BIGINT; of other numbers it is `0 - x`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Negate {
    signature: Signature,
}

impl Default for Negate {
    fn default() -> Self {
        Self {
            signature: Signature::exact(vec![DataType::UInt64], Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Negate {
    fn name(&self) -> &str {
        "mysql_negate"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let operand = args.args.remove(0);
        let scalar = matches!(operand, ColumnarValue::Scalar(_));
        let zero = ColumnarValue::Scalar(ScalarValue::Int64(Some(0)));
        let array = exact(
            Arithmetic::Subtract,
            &zero,
            &operand,
            &DataType::Int64,
            args.number_rows,
        )?;
        kernels::shape(array, scalar)
    }
}

fn numeric(ty: Option<&DataType>, literal: Option<&ScalarValue>) -> DfResult<Number> {
    let ty = ty.unwrap_or(&DataType::Null);
    number_of_operand(ty, literal).ok_or_else(|| {
        SqlError::not_supported(format!("arithmetic with {}", mysql_name(ty))).into_df()
    })
}

fn double(
    op: Arithmetic,
    left: &ColumnarValue,
    right: &ColumnarValue,
    rows: usize,
) -> DfResult<ArrayRef> {
    let (left, right) = (to_double(left)?, to_double(right)?);
    let compute = |a: f64, b: f64| -> Result<Option<f64>, ArrowError> {
        let value = match op {
            Arithmetic::Add => a + b,
            Arithmetic::Subtract => a - b,
            Arithmetic::Multiply => a * b,
            _ if b == 0.0 => return Ok(None),
            Arithmetic::Modulo => a % b,
            _ => a / b,
        };
        if value.is_finite() {
            Ok(Some(kernels::no_negative_zero(value)))
        } else {
            Err(overflow(op, "DOUBLE"))
        }
    };
    let array: PrimitiveArray<Float64Type> = kernels::binary(&left, &right, rows, compute)?;
    Ok(Arc::new(array))
}

/// Exact operands, as units of their own scales.
fn exact(
    op: Arithmetic,
    left: &ColumnarValue,
    right: &ColumnarValue,
    ty: &DataType,
    rows: usize,
) -> DfResult<ArrayRef> {
    if op == Arithmetic::IntDivide && (is_double(left) || is_double(right)) {
        return int_divide_doubles(left, right, ty, rows);
    }
    let types = [&left.data_type(), &right.data_type(), ty];
    if types.into_iter().any(wide::is_wide) {
        let kind = mysql_name(ty);
        return wide::arithmetic(op, (left, right), ty, rows, || overflow(op, kind));
    }
    let ((left, s1), (right, s2)) = (to_exact(left)?, to_exact(right)?);
    match ty {
        DataType::Decimal128(precision, scale) => {
            let compute = decimal_kernel(op, (s1, s2), (*precision, *scale as u8));
            let array: PrimitiveArray<Decimal128Type> =
                kernels::binary(&left, &right, rows, compute)?;
            Ok(Arc::new(
                array.with_precision_and_scale(*precision, *scale)?,
            ))
        }
        DataType::UInt64 => integers::<UInt64Type>(op, (&left, s1), (&right, s2), rows),
        _ => integers::<Int64Type>(op, (&left, s1), (&right, s2), rows),
    }
}

type Units = kernels::Operand<Decimal128Type>;

fn decimal_kernel(
    op: Arithmetic,
    (s1, s2): (u8, u8),
    (precision, scale): (u8, u8),
) -> impl Fn(i128, i128) -> Result<Option<i128>, ArrowError> {
    let common = s1.max(s2);
    let (grow1, grow2) = (decimal::pow10(common - s1), decimal::pow10(common - s2));
    let drop = (s1 + s2).saturating_sub(scale);
    // Operands may have digits that are not shown.
    let product = s1 + s2 - drop;
    let shown = move |value: Option<i128>, from: u8| match from == scale {
        true => value,
        false => decimal::rescale(value?, from, scale),
    };
    move |a, b| {
        let aligned = || Some((a.checked_mul(grow1)?, b.checked_mul(grow2)?));
        let value = match op {
            Arithmetic::Add => shown(aligned().and_then(|(a, b)| a.checked_add(b)), common),
            Arithmetic::Subtract => shown(aligned().and_then(|(a, b)| a.checked_sub(b)), common),
            Arithmetic::Multiply => shown(decimal::multiply(a, b, drop), product),
            _ if b == 0 => return Ok(None),
            Arithmetic::Modulo => shown(aligned().and_then(|(a, b)| a.checked_rem(b)), common),
            Arithmetic::IntDivide => aligned().and_then(|(a, b)| a.checked_div(b)),
            Arithmetic::Divide => decimal::divide(a, b, (s1, s2), scale),
        };
        match value {
            Some(value) if decimal::fits(value, precision) => Ok(Some(value)),
            _ => Err(overflow(op, "DECIMAL")),
        }
    }
}

fn integers<T>(
    op: Arithmetic,
    (left, s1): (&Units, u8),
    (right, s2): (&Units, u8),
    rows: usize,
) -> DfResult<ArrayRef>
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i128>,
{
    let kind = mysql_name(&T::DATA_TYPE);
    let (grow1, grow2) = (
        decimal::pow10(s1.max(s2) - s1),
        decimal::pow10(s1.max(s2) - s2),
    );
    let compute = |a: i128, b: i128| {
        let value = match op {
            Arithmetic::Add => a.checked_add(b),
            Arithmetic::Subtract => a.checked_sub(b),
            Arithmetic::Multiply => a.checked_mul(b),
            _ if b == 0 => return Ok(None),
            Arithmetic::Modulo => a.checked_rem(b),
            // Only IntDivide has operands with a scale here; the quotient is cut.
            _ => match (a.checked_mul(grow1), b.checked_mul(grow2)) {
                (Some(a), Some(b)) => a.checked_div(b),
                _ => None,
            },
        };
        let fitting = value.and_then(|v| T::Native::try_from(v).ok());
        fitting.map(Some).ok_or_else(|| overflow(op, kind))
    };
    let array: PrimitiveArray<T> = kernels::binary(left, right, rows, compute)?;
    Ok(Arc::new(array))
}

fn int_divide_doubles(
    left: &ColumnarValue,
    right: &ColumnarValue,
    ty: &DataType,
    rows: usize,
) -> DfResult<ArrayRef> {
    let (left, right) = (to_double(left)?, to_double(right)?);
    let compute = |a: f64, b: f64| {
        if b == 0.0 {
            return Ok(None);
        }
        let value = (a / b).trunc();
        if value.abs() < 9.2e18 {
            Ok(Some(value as i64))
        } else {
            Err(overflow(Arithmetic::IntDivide, "BIGINT"))
        }
    };
    let array: PrimitiveArray<Int64Type> = kernels::binary(&left, &right, rows, compute)?;
    Ok(cast(&array, ty)?)
}

fn is_double(value: &ColumnarValue) -> bool {
    number_of(&value.data_type()) == Some(Number::Double)
}

fn to_double(value: &ColumnarValue) -> DfResult<kernels::Operand<Float64Type>> {
    kernels::operand(value, |array| match array.data_type() {
        ty if is_string(ty) => text::to_double(array),
        DataType::Boolean => Ok(cast(&cast(array, &DataType::Int64)?, &DataType::Float64)?),
        _ => super::cast::numbers_to_double(array),
    })
}

fn to_exact(value: &ColumnarValue) -> DfResult<(Units, u8)> {
    let scale = match value.data_type() {
        DataType::Decimal128(_, scale) => scale as u8,
        _ => 0,
    };
    let units = kernels::operand(value, |array| match array.data_type() {
        DataType::Decimal128(..) => Ok(Arc::clone(array)),
        DataType::Boolean => Ok(cast(
            &cast(array, &DataType::Int64)?,
            &DataType::Decimal128(20, 0),
        )?),
        _ => Ok(cast(array, &DataType::Decimal128(20, 0))?),
    })?;
    Ok((units, scale))
}

fn overflow(op: Arithmetic, kind: &str) -> ArrowError {
    let error = SqlError::numeric_range(kind, format!("(… {} …)", symbol(op)));
    ArrowError::ExternalError(Box::new(error))
}
