//! Values of plans as values that the engine stores, and back.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, PrimitiveArray, StringViewArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, Field, Float64Type, Int64Type, TimestampMicrosecondType, UInt64Type,
};
use perigee_value::{ColumnType, Datum};

use crate::error::{Result, SqlError};
use crate::functions::cast::fsp_of;
use crate::functions::wide;
use crate::result::type_of;

/// A column of a plan's output whose values can be taken one by one.
pub struct Column {
    array: ArrayRef,
    ty: ColumnType,
}

impl Column {
    /// The column with this field.
    ///
    /// # Errors
    /// 1235 for types that no table has.
    pub fn new(array: &ArrayRef, field: &Field) -> Result<Self> {
        let bigint = |unsigned| ColumnType::Int { bytes: 8, unsigned };
        let (ty, wide) = match array.data_type() {
            DataType::Null => (bigint(false), DataType::Null),
            DataType::Boolean => (bigint(false), DataType::Boolean),
            ty if ty.is_unsigned_integer() => (bigint(true), DataType::UInt64),
            ty if ty.is_integer() => (bigint(false), DataType::Int64),
            ty @ DataType::Decimal128(precision, scale) => {
                let (precision, scale) = (*precision, u8::try_from(*scale).unwrap_or(0));
                (ColumnType::Decimal { precision, scale }, ty.clone())
            }
            ty @ DataType::Decimal256(..) => {
                let precision = ColumnType::MAX_PRECISION;
                let scale = wide::scale_of(ty);
                (ColumnType::Decimal { precision, scale }, ty.clone())
            }
            DataType::Float32 => (ColumnType::Float, DataType::Float64),
            DataType::Float64 => (ColumnType::Double, DataType::Float64),
            DataType::Date32 => (ColumnType::Date, DataType::Date32),
            ty @ DataType::Timestamp(..) => {
                let stamp = type_of(field).filter(|ty| ty.is_timestamp());
                let fsp = fsp_of(field);
                (stamp.unwrap_or(ColumnType::DateTime { fsp }), ty.clone())
            }
            ty @ DataType::Duration(..) => {
                let fsp = fsp_of(field);
                (ColumnType::Time { fsp }, ty.clone())
            }
            DataType::LargeUtf8 => (ColumnType::Json, DataType::Utf8View),
            DataType::Utf8 | DataType::Utf8View => (bigint(false), DataType::Utf8View),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                (bigint(false), DataType::BinaryView)
            }
            other => return Err(SqlError::not_supported(format!("values of type {other}"))),
        };
        let array = match *array.data_type() == wide {
            true => array.clone(),
            false => cast(array, &wide).map_err(SqlError::unknown)?,
        };
        Ok(Self { array, ty })
    }

    /// The value of a row.
    #[must_use]
    pub fn datum(&self, row: usize) -> Datum {
        let array = &self.array;
        if array.is_null(row) {
            return Datum::Null;
        }
        match array.data_type() {
            DataType::Boolean => Datum::Bool(array.as_boolean().value(row)),
            DataType::UInt64 => Datum::UInt(array.as_primitive::<UInt64Type>().value(row)),
            DataType::Int64 => Datum::Int(array.as_primitive::<Int64Type>().value(row)),
            DataType::Decimal128(..) => {
                Datum::Decimal(array.as_primitive::<Decimal128Type>().value(row))
            }
            DataType::Decimal256(..) => {
                wide::datum(Some(array.as_primitive::<Decimal256Type>().value(row)))
            }
            DataType::Float64 => Datum::Double(array.as_primitive::<Float64Type>().value(row)),
            DataType::Date32 => Datum::Date(array.as_primitive::<Date32Type>().value(row)),
            DataType::Timestamp(..) => {
                Datum::DateTime(array.as_primitive::<TimestampMicrosecondType>().value(row))
            }
            DataType::Duration(..) => {
                Datum::Time(array.as_primitive::<DurationMicrosecondType>().value(row))
            }
            DataType::Utf8View => {
                Datum::String(array.as_string_view().value(row).as_bytes().to_vec())
            }
            DataType::BinaryView => Datum::String(array.as_binary_view().value(row).to_vec()),
            _ => Datum::Null,
        }
    }

    /// Type of the values, for [`ColumnType::coerce`]; strings need none.
    #[must_use]
    pub fn ty(&self) -> ColumnType {
        self.ty
    }
}

/// An array of the type that a table's column has in plans.
///
/// # Errors
/// 1105 if a value is not of the type.
pub fn array(ty: &DataType, values: &[Datum]) -> Result<ArrayRef> {
    fn primitive<T: ArrowPrimitiveType>(
        values: &[Datum],
        ty: &DataType,
        value: impl Fn(&Datum) -> Option<T::Native>,
    ) -> Result<ArrayRef> {
        let array: PrimitiveArray<T> = values.iter().map(value).collect();
        cast(&array, ty).map_err(SqlError::unknown)
    }
    match ty {
        DataType::Boolean => {
            let truth = |v: &Datum| match v {
                Datum::Bool(v) => Some(*v),
                _ => None,
            };
            Ok(Arc::new(values.iter().map(truth).collect::<BooleanArray>()))
        }
        ty if ty.is_unsigned_integer() => primitive::<UInt64Type>(values, ty, |v| match v {
            Datum::UInt(v) => Some(*v),
            _ => None,
        }),
        ty if ty.is_integer() => primitive::<Int64Type>(values, ty, |v| match v {
            Datum::Int(v) => Some(*v),
            _ => None,
        }),
        DataType::Decimal128(precision, scale) => {
            let units = values.iter().map(|v| match v {
                Datum::Decimal(v) => Some(*v),
                _ => None,
            });
            let array: PrimitiveArray<Decimal128Type> = units.collect();
            let array = array.with_precision_and_scale(*precision, *scale);
            Ok(Arc::new(array.map_err(SqlError::unknown)?))
        }
        DataType::Decimal256(precision, scale) => {
            let units = values.iter().map(|v| match v {
                Datum::Wide(v) => Some(wide::of_stored(*v)),
                _ => None,
            });
            let array: PrimitiveArray<Decimal256Type> = units.collect();
            let array = array.with_precision_and_scale(*precision, *scale);
            Ok(Arc::new(array.map_err(SqlError::unknown)?))
        }
        DataType::Float32 | DataType::Float64 => {
            primitive::<Float64Type>(values, ty, |v| match v {
                Datum::Double(v) => Some(*v),
                _ => None,
            })
        }
        DataType::Date32 => primitive::<Date32Type>(values, ty, |v| match v {
            Datum::Date(v) => Some(*v),
            _ => None,
        }),
        DataType::Timestamp(..) => primitive::<TimestampMicrosecondType>(values, ty, |v| match v {
            Datum::DateTime(v) => Some(*v),
            _ => None,
        }),
        DataType::Duration(..) => primitive::<DurationMicrosecondType>(values, ty, |v| match v {
            Datum::Time(v) => Some(*v),
            _ => None,
        }),
        DataType::BinaryView => {
            let bytes = values.iter().map(|v| match v {
                Datum::String(v) => Some(v.as_slice()),
                _ => None,
            });
            Ok(Arc::new(bytes.collect::<BinaryViewArray>()))
        }
        _ => {
            let texts = values.iter().map(|v| match v {
                Datum::String(v) => std::str::from_utf8(v).ok(),
                _ => None,
            });
            let array: StringViewArray = texts.collect();
            cast(&array, ty).map_err(SqlError::unknown)
        }
    }
}

/// Bytes that a value takes in memory, about.
#[must_use]
pub fn size(value: &Datum) -> usize {
    let text = match value {
        Datum::String(text) => text.capacity(),
        _ => 0,
    };
    size_of::<Datum>() + text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::TimeUnit;

    #[test]
    fn values_survive_an_array() {
        let cases = [
            (DataType::Int8, Datum::Int(-5)),
            (DataType::UInt32, Datum::UInt(7)),
            (DataType::Decimal128(5, 2), Datum::Decimal(-123)),
            (DataType::Decimal256(39, 2), Datum::Wide((-123).into())),
            (DataType::Float32, Datum::Double(0.5)),
            (DataType::Float64, Datum::Double(0.1)),
            (DataType::Date32, Datum::Date(9000)),
            (
                DataType::Timestamp(TimeUnit::Microsecond, None),
                Datum::DateTime(-1),
            ),
            (DataType::Utf8View, Datum::String(b"x".to_vec())),
        ];
        for (ty, value) in cases {
            let values = [value, Datum::Null];
            let array = array(&ty, &values).unwrap();
            assert_eq!(*array.data_type(), ty);
            let column = Column::new(&array, &Field::new("c", ty, true)).unwrap();
            assert_eq!([column.datum(0), column.datum(1)], values);
        }
    }
}
