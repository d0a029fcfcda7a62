//! Decimals of more than 38 digits: columns of `Decimal256`, computed with [`Units`].
//!
//! Storage only stores them. What is computed over them, and all that is compared with them, is
//! computed here; decimals of up to 38 digits stay what they are.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewBuilder, Decimal128Array, Decimal256Array, Float64Array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal256Type, Float64Type, i256};
use datafusion::arrow::error::ArrowError;
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use perigee_expr::Arithmetic;
use perigee_value::{ColumnType, Datum, Units, ValueRef, Wide, decimal, parse_text_ref};

use super::types::{MAX_SCALE, MAX_WIDE_PRECISION, Number, decimal_type, number_of};
use super::{kernels, text};
use crate::error::SqlError;

/// Greatest precision of Arrow's type, which sums and operands of comparisons may have.
pub use perigee_sql_type::LONGEST_DECIMAL as ARROW_PRECISION;

/// True for the type of wide decimals.
#[must_use]
pub fn is_wide(ty: &DataType) -> bool {
    matches!(ty, DataType::Decimal256(..))
}

/// The type that has all digits of exact numbers of two types, if there is one.
#[must_use]
pub fn common_type(left: &DataType, right: &DataType) -> Option<DataType> {
    let exact = |ty| number_of(ty).and_then(Number::exact);
    let ((p, s), (q, t)) = (exact(left)?, exact(right)?);
    let scale = s.max(t);
    let precision = (p - s).max(q - t) + scale;
    let fits = precision <= ARROW_PRECISION;
    fits.then_some(DataType::Decimal256(precision, scale as i8))
}

/// The number of an array's element.
#[must_use]
pub fn units(value: i256) -> Units {
    Units::from_le_bytes(value.to_le_bytes())
}

/// A number as an array's element, if it has no more digits.
#[must_use]
pub fn native(units: Units, precision: u8) -> Option<i256> {
    let bytes = units.fits(precision).then(|| units.to_le_bytes())?;
    bytes.map(i256::from_le_bytes)
}

/// A stored value as an array's element.
#[must_use]
pub fn of_stored(wide: Wide) -> i256 {
    i256::from_le_bytes(wide.to_le_bytes())
}

/// An array's element as a value to store. What is longer than any type of a column allows is as
/// long as can be, so that it is out of range there.
#[must_use]
pub fn datum(value: Option<i256>) -> Datum {
    let Some(value) = value else {
        return Datum::Null;
    };
    let longest = if value < i256::ZERO { 0 } else { 0xff };
    let wide = Wide::from_le_bytes(value.to_le_bytes());
    Datum::Wide(wide.unwrap_or(Wide::from_bytes([longest; Wide::WIDTH])))
}

/// Exact numbers as units of their own scale: `Decimal256`.
///
/// # Errors
/// None for numbers and truth values.
pub fn exact(array: &ArrayRef) -> DfResult<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Decimal256(..) => Arc::clone(array),
        DataType::Decimal128(_, scale) => {
            cast(array, &DataType::Decimal256(ARROW_PRECISION, *scale))?
        }
        DataType::Boolean => exact(&cast(array, &DataType::Int64)?)?,
        _ => cast(array, &DataType::Decimal256(ARROW_PRECISION, 0))?,
    })
}

/// Digits behind the point of an exact number.
#[must_use]
pub fn scale_of(ty: &DataType) -> u8 {
    match ty {
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => {
            u8::try_from(*scale).unwrap_or(0)
        }
        _ => 0,
    }
}

/// Exact numbers, one by one, in units of their own scale.
///
/// # Errors
/// As [`exact`].
pub fn numbers(array: &ArrayRef) -> DfResult<Vec<Option<Units>>> {
    let array = exact(array)?;
    let values = array.as_primitive::<Decimal256Type>().iter();
    Ok(values.map(|value| value.map(units)).collect())
}

/// An array of decimals of a type, of which every number is one.
///
/// # Errors
/// 1690 for a number that is too long.
pub fn array(
    numbers: impl Iterator<Item = Option<Units>>,
    (precision, scale): (u8, u8),
) -> DfResult<ArrayRef> {
    let error = || SqlError::numeric_range("DECIMAL", "(…)").into_df();
    let checked = |number: Option<Units>| match number {
        Some(number) => native(number, precision).map(Some).ok_or_else(error),
        None => Ok(None),
    };
    let values = numbers.map(checked);
    Ok(match decimal_type(precision, scale) {
        DataType::Decimal128(precision, scale) => {
            let values = values.map(|value| Ok(value?.map(i256::as_i128)));
            let array: Decimal128Array = values.collect::<DfResult<_>>()?;
            Arc::new(array.with_precision_and_scale(precision, scale)?)
        }
        _ => {
            let array: Decimal256Array = values.collect::<DfResult<_>>()?;
            Arc::new(array.with_precision_and_scale(precision, scale as i8)?)
        }
    })
}

/// Converts numbers to decimals; what is too long is the type's least or greatest, as in MySQL.
///
/// # Errors
/// None for numbers.
pub fn to_decimal(array: &ArrayRef, (precision, scale): (u8, u8)) -> DfResult<ArrayRef> {
    let power = Units::pow10(usize::from(precision));
    let most = power.and_then(|power| power.minus(Units::from(1)));
    let most = most.expect("a precision is no more than 65");
    let clamped = |number: Option<Units>, negative: bool| match (number, negative) {
        (Some(number), _) => number.clamp(-most, most),
        (None, true) => -most,
        (None, false) => most,
    };
    let from = scale_of(array.data_type());
    if array.data_type().is_floating() {
        let doubles = cast(array, &DataType::Float64)?;
        let doubles = doubles.as_primitive::<Float64Type>().iter();
        let numbers = doubles.map(|v| Some(clamped(Units::from_f64(v?, scale), v? < 0.0)));
        return self::array(numbers, (precision, scale));
    }
    let numbers = numbers(array)?.into_iter();
    let numbers = numbers.map(|v| Some(clamped(v?.rescale(from, scale), v?.is_negative())));
    self::array(numbers, (precision, scale))
}

/// Doubles that are nearest to wide decimals.
#[must_use]
pub fn to_double(array: &ArrayRef) -> ArrayRef {
    let scale = scale_of(array.data_type());
    let values = array.as_primitive::<Decimal256Type>().iter();
    let doubles = values.map(|value| value.map(|value| units(value).to_f64(scale)));
    Arc::new(doubles.collect::<Float64Array>())
}

/// Wide decimals rounded to integers, as far as 128 bits hold them.
#[must_use]
pub fn to_integers(array: &ArrayRef) -> ArrayRef {
    let scale = scale_of(array.data_type());
    let rounded = |value: i256| {
        let whole = units(value).rescale(scale, 0).and_then(Units::to_i128);
        let end = if value < i256::ZERO {
            i128::MIN
        } else {
            i128::MAX
        };
        whole.unwrap_or(end)
    };
    let values = array.as_primitive::<Decimal256Type>().iter();
    Arc::new(
        values
            .map(|value| value.map(rounded))
            .collect::<Decimal128Array>(),
    )
}

/// `left op right`, of scales `scales`, in units of `scale`; `None` if it is too long. A divisor is
/// not zero.
fn compute(
    op: Arithmetic,
    (left, right): (Units, Units),
    scales: (u8, u8),
    scale: u8,
) -> Option<Units> {
    let common = scales.0.max(scales.1);
    let aligned = || {
        Some((
            left.rescale(scales.0, common)?,
            right.rescale(scales.1, common)?,
        ))
    };
    // Operands may have digits that are not shown.
    let shown = |value: Option<Units>, from: u8| match from == scale {
        true => value,
        false => value?.rescale(from, scale),
    };
    match op {
        Arithmetic::Add => shown(aligned().and_then(|(a, b)| a.plus(b)), common),
        Arithmetic::Subtract => shown(aligned().and_then(|(a, b)| a.minus(b)), common),
        Arithmetic::Multiply => {
            let drop = (scales.0 + scales.1).saturating_sub(scale);
            shown(left.times(right, drop), scales.0 + scales.1 - drop)
        }
        Arithmetic::Divide => left.divide(right, scales, scale),
        Arithmetic::IntDivide => aligned().and_then(|(a, b)| a.quotient(b)),
        Arithmetic::Modulo => shown(aligned().and_then(|(a, b)| a.remainder(b)), common),
    }
}

/// Arithmetic over exact numbers of which one, or the result, is wide. `overflow` is the error of a
/// result outside of its type.
///
/// # Errors
/// That error.
pub fn arithmetic(
    op: Arithmetic,
    (left, right): (&ColumnarValue, &ColumnarValue),
    ty: &DataType,
    rows: usize,
    overflow: impl Fn() -> ArrowError,
) -> DfResult<ArrayRef> {
    let scales = (scale_of(&left.data_type()), scale_of(&right.data_type()));
    // Integers pass through the decimals that hold them.
    let (precision, scale) = match ty {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            (*precision, *scale)
        }
        _ => (decimal::MAX_PRECISION, 0),
    };
    let kernel = |a: i256, b: i256| {
        if op.divides() && b == i256::ZERO {
            return Ok(None);
        }
        let value = compute(op, (units(a), units(b)), scales, scale as u8);
        let value = value.and_then(|value| native(value, precision));
        value.map(Some).ok_or_else(&overflow)
    };
    let left = kernels::operand::<Decimal256Type>(left, exact)?;
    let right = kernels::operand::<Decimal256Type>(right, exact)?;
    let array: Decimal256Array = kernels::binary(&left, &right, rows, kernel)?;
    let array: ArrayRef = Arc::new(array.with_precision_and_scale(precision, scale)?);
    match ty {
        DataType::Decimal256(..) => Ok(array),
        DataType::Decimal128(..) => Ok(cast(&array, ty)?),
        _ => integers(&array, ty, overflow),
    }
}

/// Whole numbers as integers of a type.
fn integers(
    array: &ArrayRef,
    ty: &DataType,
    overflow: impl Fn() -> ArrowError,
) -> DfResult<ArrayRef> {
    let integers = cast(array, ty);
    let integers = integers
        .ok()
        .filter(|i| i.null_count() == array.null_count());
    integers.ok_or_else(|| overflow().into())
}

/// `mysql_decimal_key(x)`: exact numbers as bytes that compare as they do. So numbers are compared
/// that no type of Arrow's has all digits of, because one is very long before the point and another
/// one behind it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct DecimalKey {
    signature: Signature,
}

impl Default for DecimalKey {
    fn default() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for DecimalKey {
    fn name(&self) -> &str {
        "mysql_decimal_key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::BinaryView)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let array = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        let scale = scale_of(array.data_type());
        let mut keys = BinaryViewBuilder::with_capacity(array.len());
        for number in numbers(&array)? {
            keys.append_option(number.map(|number| key(number, scale)));
        }
        kernels::shape(Arc::new(keys.finish()), scalar)
    }
}

/// The integer part without fraction, and the fraction: two stored decimals.
fn key(number: Units, scale: u8) -> Vec<u8> {
    let parts = Units::pow10(usize::from(scale)).and_then(|power| {
        let fraction = number.remainder(power)?.rescale(scale, MAX_SCALE)?;
        Some([number.quotient(power)?, fraction])
    });
    let parts = parts.expect("76 digits and 30 more are few");
    let stored = parts.map(|part| native(part, ARROW_PRECISION).expect("76 digits"));
    let ordered = |value: i256| {
        let mut bytes = value.to_be_bytes();
        bytes[0] ^= 0x80;
        bytes
    };
    stored.map(ordered).concat()
}

/// `mysql_sum(x)`: what SUM adds up to, checked to have no more digits than a DECIMAL has.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct SumInRange {
    signature: Signature,
}

impl Default for SumInRange {
    fn default() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for SumInRange {
    fn name(&self) -> &str {
        "mysql_sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        Ok(types[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let array = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        let mut sums = numbers(&array)?.into_iter().flatten();
        if sums.any(|sum| !sum.fits(MAX_WIDE_PRECISION)) {
            return Err(SqlError::numeric_range("DECIMAL", "SUM(…)").into_df());
        }
        kernels::shape(array, scalar)
    }
}

/// Texts that are numbers as wide decimals; `None` if one is none, or is out of range.
///
/// # Errors
/// None for texts.
pub fn of_texts(array: &ArrayRef, (precision, scale): (u8, u8)) -> DfResult<Option<ArrayRef>> {
    let ty = ColumnType::Decimal { precision, scale };
    let texts = text::as_view(array)?;
    let parsed = |text: &str| match parse_text_ref(ty, text.trim().as_bytes()) {
        Ok(ValueRef::Wide(wide)) => Some(Some(of_stored(wide))),
        _ => None,
    };
    let values = texts.iter().map(|text| text.map_or(Some(None), parsed));
    let Some(values) = values.collect::<Option<Decimal256Array>>() else {
        return Ok(None);
    };
    let values = values.with_precision_and_scale(precision, scale as i8)?;
    Ok(Some(Arc::new(values)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_as_numbers() {
        let numbers = [
            ("-1000000000000000000000000000000000000000", 0),
            ("-12", 1),
            ("-11", 1),
            ("-1", 0),
            ("-5", 1),
            ("-1", 30),
            ("0", 5),
            ("1", 30),
            ("1", 29),
            ("5", 1),
            ("10", 1),
            ("1000000000000000000000000000001", 30),
            (
                "99999999999999999999999999999999999999999999999999999999999999999",
                0,
            ),
        ];
        let key = |(text, scale): (&str, u8)| {
            let number = i256::from_string(text).expect("digits");
            key(units(number), scale)
        };
        assert!(numbers.map(key).is_sorted());
        assert_eq!(key(("10", 1)), key(("1", 0)));
        assert_ne!(key(("10", 1)), key(("1", 1)));
    }

    #[test]
    fn values_that_no_column_has_stay_out_of_range() {
        let most = i256::from_string(&"9".repeat(65)).expect("digits");
        let Datum::Wide(wide) = datum(Some(most)) else {
            panic!("a value")
        };
        assert_eq!(of_stored(wide), most);
        let sum = i256::from_string(&"9".repeat(75)).expect("digits");
        for (sum, negative) in [(sum, false), (sum.wrapping_neg(), true)] {
            let Datum::Wide(wide) = datum(Some(sum)) else {
                panic!("a value")
            };
            assert!(!wide.units().fits(65));
            assert_eq!(wide.units().is_negative(), negative);
        }
        assert_eq!(datum(None), Datum::Null);
    }
}
