//! Results of functions, row by row, as an array.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BinaryViewBuilder, Float64Builder, Int64Builder, NullArray, StringViewBuilder,
    UInt64Builder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result as DfResult, internal_err};
use perigee_expr::functions::Value;
use perigee_value::Units;

use super::{kernels, text, wide};
use crate::error::SqlError;

/// Most bytes of texts that are computed for a batch of rows. No operator asks for this memory before they are
/// there.
const MAX_BATCH: usize = 256 << 20;

/// The values of one column as they are computed.
pub struct Results {
    column: Column,
    ty: DataType,
    /// Texts have a character for each byte of the result.
    over_bytes: bool,
    /// Bytes of texts.
    bytes: usize,
}

enum Column {
    Null(usize),
    Text(StringViewBuilder),
    Bytes(BinaryViewBuilder),
    /// Also dates and times, in days and microseconds.
    Int(Int64Builder),
    UInt(UInt64Builder),
    Double(Float64Builder),
    Decimal(Vec<Option<Units>>, (u8, u8)),
}

impl Results {
    /// An empty column of a type.
    ///
    /// # Errors
    /// If no function has results of the type.
    pub fn new(ty: &DataType, rows: usize, over_bytes: bool) -> DfResult<Self> {
        let column = match ty {
            DataType::Null => Column::Null(0),
            // JSON is text that becomes its type at the end.
            DataType::Utf8View | DataType::LargeUtf8 => {
                Column::Text(StringViewBuilder::with_capacity(rows))
            }
            DataType::BinaryView => Column::Bytes(BinaryViewBuilder::with_capacity(rows)),
            DataType::UInt64 => Column::UInt(UInt64Builder::with_capacity(rows)),
            DataType::Float64 => Column::Double(Float64Builder::with_capacity(rows)),
            DataType::Decimal128(p, _) | DataType::Decimal256(p, _) => {
                Column::Decimal(Vec::with_capacity(rows), (*p, wide::scale_of(ty)))
            }
            DataType::Int64
            | DataType::Date32
            | DataType::Timestamp(..)
            | DataType::Duration(_) => Column::Int(Int64Builder::with_capacity(rows)),
            other => return internal_err!("Q1: a function with a result of type {other}"),
        };
        let ty = ty.clone();
        Ok(Self {
            column,
            ty,
            over_bytes,
            bytes: 0,
        })
    }

    /// Appends a value.
    ///
    /// # Errors
    /// 1038 if the texts are too long together.
    pub fn push(&mut self, value: Value<'_>) -> DfResult<()> {
        self.bytes += match &value {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        if self.bytes > MAX_BATCH {
            let detail = format!("the texts of a batch of rows take more than {MAX_BATCH} bytes");
            return Err(SqlError::out_of_memory(detail).into_df());
        }
        match (&mut self.column, value) {
            (Column::Null(rows), _) => *rows += 1,
            (column, Value::Null) => column.push_null(),
            (Column::Text(out), Value::Text(text)) => out.append_value(text),
            (Column::Bytes(out), Value::Text(text)) if self.over_bytes => {
                out.append_value(text::from_latin(&text));
            }
            (Column::Bytes(out), Value::Bytes(bytes)) => out.append_value(bytes),
            (Column::Int(out), Value::Date(v)) => out.append_value(v.into()),
            (Column::Int(out), Value::Int(v) | Value::DateTime(v) | Value::Time(v)) => {
                out.append_value(v);
            }
            (Column::UInt(out), Value::UInt(v)) => out.append_value(v),
            (Column::Double(out), Value::Double(v)) => {
                out.append_value(kernels::no_negative_zero(v));
            }
            (Column::Decimal(out, (_, to)), Value::Decimal(units, from)) => {
                out.push(units.rescale(from, *to));
            }
            (Column::Decimal(out, (_, to)), Value::Int(v)) => {
                out.push(Units::from(i128::from(v)).rescale(0, *to));
            }
            (_, value) => return internal_err!("Q1: a result of type {} is {value:?}", self.ty),
        }
        Ok(())
    }

    /// The array.
    ///
    /// # Errors
    /// Those of Arrow.
    pub fn finish(self) -> DfResult<ArrayRef> {
        let array: ArrayRef = match self.column {
            Column::Null(rows) => Arc::new(NullArray::new(rows)),
            Column::Text(mut out) => Arc::new(out.finish()),
            Column::Bytes(mut out) => Arc::new(out.finish()),
            Column::Int(mut out) => Arc::new(out.finish()),
            Column::UInt(mut out) => Arc::new(out.finish()),
            Column::Double(mut out) => Arc::new(out.finish()),
            Column::Decimal(numbers, shape) => wide::array(numbers.into_iter(), shape)?,
        };
        Ok(match self.ty {
            DataType::Date32 => cast(&cast(&array, &DataType::Int32)?, &self.ty)?,
            ty if ty == *array.data_type() => array,
            ty => cast(&array, &ty)?,
        })
    }
}

impl Column {
    fn push_null(&mut self) {
        match self {
            Self::Null(rows) => *rows += 1,
            Self::Text(out) => out.append_null(),
            Self::Bytes(out) => out.append_null(),
            Self::Int(out) => out.append_null(),
            Self::UInt(out) => out.append_null(),
            Self::Double(out) => out.append_null(),
            Self::Decimal(out, _) => out.push(None),
        }
    }
}
