//! Rows at hand: put in order, made distinct, cut, and turned into a batch.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch, RecordBatchOptions, StringViewArray,
    StringViewBuilder,
};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, DurationMicrosecondType, Field,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Schema, SchemaRef,
    TimeUnit, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use perigee_engine::scan::Records;
use perigee_value::{Collation, ColumnType, Members, RecordView, RowLayout, ValueRef};

use crate::functions::{enumeration, wide};

/// A column to order by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) column: u16,
    pub(super) descending: bool,
}

/// Clustered records.
pub(super) struct Rows<'a> {
    pub(super) layout: &'a RowLayout,
    pub(super) records: &'a Records,
}

/// Some rows, in an order.
pub(super) enum Picked {
    /// Rows that follow each other.
    Run(Range<usize>),
    /// Rows by number.
    Rows(Vec<u32>),
}

impl Picked {
    fn len(&self) -> usize {
        match self {
            Self::Run(run) => run.len(),
            Self::Rows(rows) => rows.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        let (run, rows) = match self {
            Self::Run(run) => (run.clone(), &[][..]),
            Self::Rows(rows) => (0..0, &rows[..]),
        };
        run.chain(rows.iter().map(|row| *row as usize))
    }
}

impl Rows<'_> {
    pub(super) fn value(&self, row: usize, column: u16) -> ValueRef<'_> {
        RecordView::new(self.layout, self.records.get(row)).value(usize::from(column))
    }

    /// The rows of a result: ordered, with different values in the columns `distinct`, without the
    /// first `skip`, and at most `most`.
    pub(super) fn picked(
        &self,
        order: &[Order],
        distinct: Option<&[u16]>,
        skip: usize,
        most: usize,
    ) -> Picked {
        let cut = |len: usize| {
            let start = skip.min(len);
            start..start + most.min(len - start)
        };
        if order.is_empty() && distinct.is_none() {
            return Picked::Run(cut(self.records.len()));
        }
        let mut rows: Vec<u32> = (0..self.records.len() as u32).collect();
        // Rows that are to be one have to be neighbours.
        let others = distinct.unwrap_or_default();
        rows.sort_by(|a, b| {
            let (a, b) = (*a as usize, *b as usize);
            self.compare(a, b, order)
                .then_with(|| self.compare_columns(a, b, others))
        });
        if let Some(columns) = distinct {
            rows.dedup_by(|a, b| {
                self.compare_columns(*a as usize, *b as usize, columns) == Ordering::Equal
            });
        }
        let cut = cut(rows.len());
        rows.truncate(cut.end);
        rows.drain(..cut.start);
        Picked::Rows(rows)
    }

    fn compare(&self, a: usize, b: usize, order: &[Order]) -> Ordering {
        let by = |order: &Order| {
            let (a, b) = (self.value(a, order.column), self.value(b, order.column));
            let ordering = compare(a, b);
            if order.descending {
                ordering.reverse()
            } else {
                ordering
            }
        };
        order
            .iter()
            .map(by)
            .find(|ordering| ordering.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    fn compare_columns(&self, a: usize, b: usize, columns: &[u16]) -> Ordering {
        columns
            .iter()
            .map(|column| compare(self.value(a, *column), self.value(b, *column)))
            .find(|ordering| ordering.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// The columns of the rows, with the texts of those that have `members`; `None` if a value cannot be
    /// delivered.
    pub(super) fn batch(
        &self,
        picked: &Picked,
        columns: &[u16],
        members: &[Option<Arc<Members>>],
        schema: &SchemaRef,
    ) -> Option<RecordBatch> {
        let arrays = columns
            .iter()
            .zip(members)
            .zip(schema.fields())
            .map(|((column, members), field)| {
                let values = picked.iter().map(|row| self.value(row, *column));
                let (ty, count) = (field.data_type(), picked.len());
                match members {
                    None => array(ty, values, count),
                    Some(members) => {
                        let numbers = array(&DataType::UInt64, values, count)?;
                        enumeration::texts(&numbers, members).ok()
                    }
                }
            })
            .collect::<Option<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(picked.len()));
        RecordBatch::try_new_with_options(schema.clone(), arrays, &options).ok()
    }
}

/// NULL is least; strings compare by bytes, without trailing spaces.
pub(super) fn compare(a: ValueRef<'_>, b: ValueRef<'_>) -> Ordering {
    match (a, b) {
        (ValueRef::Int(a), ValueRef::Int(b))
        | (ValueRef::DateTime(a), ValueRef::DateTime(b))
        | (ValueRef::Time(a), ValueRef::Time(b)) => a.cmp(&b),
        (ValueRef::UInt(a), ValueRef::UInt(b)) => a.cmp(&b),
        (ValueRef::Decimal(a), ValueRef::Decimal(b)) => a.cmp(&b),
        (ValueRef::Wide(a), ValueRef::Wide(b)) => a.cmp(&b),
        (ValueRef::Date(a), ValueRef::Date(b)) => a.cmp(&b),
        (ValueRef::String(a), ValueRef::String(b)) => trim_end(a).cmp(trim_end(b)),
        (a, b) => b.is_null().cmp(&a.is_null()),
    }
}

fn trim_end(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte != b' ');
    &text[..end.map_or(0, |last| last + 1)]
}

/// True for types that [`compare`] orders as ORDER BY does.
pub(super) fn is_ordered(ty: ColumnType) -> bool {
    match ty {
        ColumnType::Int { .. }
        | ColumnType::Decimal { .. }
        | ColumnType::Date
        | ColumnType::DateTime { .. }
        | ColumnType::Timestamp { .. }
        | ColumnType::Time { .. }
        | ColumnType::Year
        | ColumnType::Bit { .. } => true,
        ColumnType::Char { collation, .. } | ColumnType::Varchar { collation, .. } => {
            collation == Collation::UTF8MB4_BIN
        }
        _ => false,
    }
}

/// True for types whose equal values are the same values.
pub(super) fn is_bytewise(ty: ColumnType) -> bool {
    is_ordered(ty) && !matches!(ty, ColumnType::Varchar { .. })
}

/// True for Arrow types that [`array`] makes.
pub(super) fn is_delivered(ty: &DataType) -> bool {
    array(ty, std::iter::empty(), 0).is_some()
}

/// A schema whose columns may all be NULL.
pub(super) fn nullable(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter();
    let fields: Vec<Field> = fields
        .map(|field| Field::new(field.name(), field.data_type().clone(), true))
        .collect();
    Arc::new(Schema::new(fields))
}

/// Values as an array; `None` if there is one that is not of the type.
pub(super) fn array<'v>(
    ty: &DataType,
    values: impl Iterator<Item = ValueRef<'v>>,
    count: usize,
) -> Option<ArrayRef> {
    use ValueRef::{Date, DateTime, Decimal, Double, Int, Time, UInt};
    macro_rules! numbers {
        ($arrow:ty, $kind:path, $convert:expr) => {
            Arc::new(primitive::<$arrow>(values, |value| match value {
                $kind(v) => $convert(v),
                _ => None,
            })?)
        };
    }
    Some(match ty {
        DataType::Int8 => numbers!(Int8Type, Int, |v| i8::try_from(v).ok()),
        DataType::Int16 => numbers!(Int16Type, Int, |v| i16::try_from(v).ok()),
        DataType::Int32 => numbers!(Int32Type, Int, |v| i32::try_from(v).ok()),
        DataType::Int64 => numbers!(Int64Type, Int, Some),
        DataType::UInt8 => numbers!(UInt8Type, UInt, |v| u8::try_from(v).ok()),
        DataType::UInt16 => numbers!(UInt16Type, UInt, |v| u16::try_from(v).ok()),
        DataType::UInt32 => numbers!(UInt32Type, UInt, |v| u32::try_from(v).ok()),
        DataType::UInt64 => numbers!(UInt64Type, UInt, Some),
        DataType::Float32 => numbers!(Float32Type, Double, |v| Some(v as f32)),
        DataType::Float64 => numbers!(Float64Type, Double, Some),
        DataType::Date32 => numbers!(Date32Type, Date, Some),
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            numbers!(TimestampMicrosecondType, DateTime, Some)
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            numbers!(DurationMicrosecondType, Time, Some)
        }
        DataType::Decimal128(precision, scale) => {
            let units = primitive::<Decimal128Type>(values, |value| match value {
                Decimal(v) => Some(v),
                _ => None,
            });
            Arc::new(units?.with_precision_and_scale(*precision, *scale).ok()?)
        }
        DataType::Decimal256(precision, scale) => {
            let units = primitive::<Decimal256Type>(values, |value| match value {
                ValueRef::Wide(v) => Some(wide::of_stored(v)),
                _ => None,
            });
            Arc::new(units?.with_precision_and_scale(*precision, *scale).ok()?)
        }
        DataType::Utf8View => Arc::new(strings(values, count)?),
        _ => return None,
    })
}

fn primitive<'v, T: ArrowPrimitiveType>(
    values: impl Iterator<Item = ValueRef<'v>>,
    convert: impl Fn(ValueRef<'v>) -> Option<T::Native>,
) -> Option<PrimitiveArray<T>> {
    let values = values.map(|value| match value {
        ValueRef::Null => Some(None),
        value => convert(value).map(Some),
    });
    values.collect()
}

fn strings<'v>(
    values: impl Iterator<Item = ValueRef<'v>>,
    count: usize,
) -> Option<StringViewArray> {
    let mut builder = StringViewBuilder::with_capacity(count);
    for value in values {
        match value {
            ValueRef::Null => builder.append_null(),
            ValueRef::String(text) => builder.append_value(std::str::from_utf8(text).ok()?),
            _ => return None,
        }
    }
    Some(builder.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_compare_without_trailing_spaces() {
        let text = |t: &'static str| ValueRef::String(t.as_bytes());
        assert_eq!(compare(text("a  "), text("a")), Ordering::Equal);
        assert_eq!(compare(text(" "), text("")), Ordering::Equal);
        assert_eq!(compare(text("a b"), text("a")), Ordering::Greater);
        assert_eq!(compare(ValueRef::Null, text("")), Ordering::Less);
        assert_eq!(
            compare(ValueRef::Int(-1), ValueRef::Null),
            Ordering::Greater
        );
        assert_eq!(compare(ValueRef::Null, ValueRef::Null), Ordering::Equal);
    }

    #[test]
    fn values_of_another_type_are_not_delivered() {
        let one = |ty, value| array(&ty, std::iter::once(value), 1).is_some();
        assert!(one(DataType::Int8, ValueRef::Int(-128)));
        assert!(!one(DataType::Int8, ValueRef::Int(128)));
        assert!(!one(DataType::Int64, ValueRef::UInt(1)));
        assert!(!one(DataType::Utf8View, ValueRef::String(&[0xff])));
        assert!(one(DataType::Utf8View, ValueRef::Null));
        assert!(!is_delivered(&DataType::BinaryView));
    }
}
