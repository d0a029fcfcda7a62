//! Keys of rows that come as columns.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use perigee_value::{ColumnType, RowLayout, ValueRef, key};

use crate::EngineError;

/// The first columns of a layout's key in rows.
#[derive(Debug)]
pub(super) struct RowKeys {
    /// Where each is in a row, and its type; none is nullable.
    parts: Vec<(usize, ColumnType)>,
}

impl RowKeys {
    /// Appends to a projection the columns of these that it lacks. `None` if a key could not be made of their values.
    pub fn in_rows(layout: &RowLayout, columns: &[u16], projection: &mut Vec<u16>) -> Option<Self> {
        let mut parts = Vec::with_capacity(columns.len());
        for column in columns {
            let place = &layout.columns[usize::from(*column)];
            if place.ty.is_wide() || place.ty.is_long() || place.null_bit.is_some() {
                return None;
            }
            let known = projection.iter().position(|known| known == column);
            let at = known.unwrap_or_else(|| {
                projection.push(*column);
                projection.len() - 1
            });
            parts.push((at, place.ty));
        }
        Some(Self { parts })
    }

    /// The key of each row.
    pub fn of(&self, rows: &RecordBatch) -> Result<Vec<Vec<u8>>, EngineError> {
        let key = |row| {
            let mut key = Vec::new();
            for (at, ty) in &self.parts {
                let value = value(rows.column(*at), row);
                let wrong = |e| EngineError::Corrupt(format!("N5: a row without its key: {e}"));
                key::encode_part(*ty, false, value, &mut key).map_err(wrong)?;
            }
            Ok(key)
        };
        (0..rows.num_rows()).map(key).collect()
    }
}

/// A value of a column that scans deliver; NULL for one of a type that no key has.
fn value(values: &ArrayRef, row: usize) -> ValueRef<'_> {
    macro_rules! number {
        ($arrow:ty, $value:path) => {
            $value(values.as_primitive::<$arrow>().value(row).into())
        };
    }
    if values.is_null(row) {
        return ValueRef::Null;
    }
    match values.data_type() {
        DataType::Int8 => number!(Int8Type, ValueRef::Int),
        DataType::Int16 => number!(Int16Type, ValueRef::Int),
        DataType::Int32 => number!(Int32Type, ValueRef::Int),
        DataType::Int64 => number!(Int64Type, ValueRef::Int),
        DataType::UInt8 => number!(UInt8Type, ValueRef::UInt),
        DataType::UInt16 => number!(UInt16Type, ValueRef::UInt),
        DataType::UInt32 => number!(UInt32Type, ValueRef::UInt),
        DataType::UInt64 => number!(UInt64Type, ValueRef::UInt),
        DataType::Decimal128(..) => number!(Decimal128Type, ValueRef::Decimal),
        DataType::Float32 => number!(Float32Type, ValueRef::Double),
        DataType::Float64 => number!(Float64Type, ValueRef::Double),
        DataType::Date32 => number!(Date32Type, ValueRef::Date),
        DataType::Timestamp(..) => number!(TimestampMicrosecondType, ValueRef::DateTime),
        DataType::Duration(_) => number!(DurationMicrosecondType, ValueRef::Time),
        DataType::Utf8View => ValueRef::String(values.as_string_view().value(row).as_bytes()),
        DataType::BinaryView => ValueRef::String(values.as_binary_view().value(row)),
        _ => ValueRef::Null,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Date32Array, Int32Array, StringViewArray};
    use perigee_value::{Collation, Datum};

    use super::*;

    #[test]
    fn keys_of_columns_are_those_of_records() {
        let chars = 10;
        let collation = Collation::UTF8MB4_BIN;
        let types = [
            ColumnType::Date,
            ColumnType::Varchar { chars, collation },
            ColumnType::Int {
                bytes: 4,
                unsigned: false,
            },
        ];
        let layout = RowLayout::clustered(&types.map(|ty| (ty, false)), &[2, 1]).unwrap();
        let mut projection = vec![0, 1];
        let keys = RowKeys::in_rows(&layout, &layout.key, &mut projection).unwrap();
        assert_eq!(projection, [0, 1, 2]);
        let arrays: [(_, ArrayRef); 3] = [
            ("0", Arc::new(Date32Array::from(vec![1, 2]))),
            ("1", Arc::new(StringViewArray::from(vec!["ä ", ""]))),
            ("2", Arc::new(Int32Array::from(vec![-7, 1 << 30]))),
        ];
        let rows = RecordBatch::try_from_iter(arrays).unwrap();
        let key = |number: i64, text: &str| {
            let mut key = Vec::new();
            let text = Datum::String(text.as_bytes().to_vec());
            key::encode_key(&layout, &[Datum::Int(number), text], &mut key).unwrap();
            key
        };
        assert_eq!(keys.of(&rows).unwrap(), [key(-7, "ä"), key(1 << 30, "")]);
    }
}
