//! Long values in what scans and lookups deliver: rows come with their items as they are stored, and
//! the values themselves take their places just before the rows are handed over. So a row that a
//! condition leaves out costs no overflow page, and what is in memory is bounded.

use std::sync::Arc;

use arrow_array::builder::{BinaryViewBuilder, LargeStringBuilder, StringViewBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use perigee_ndp::column_data_type;
use perigee_value::{OverflowRef, RowLayout};

use super::CancelToken;
use crate::EngineError;
use crate::buffer::BufferPool;
use crate::overflow::read_chain;

/// Bytes of long values that are delivered together, if that is more than one row.
const BYTES_PER_BATCH: usize = 4 << 20;

/// The long columns of rows that are delivered.
#[derive(Debug)]
pub(super) struct LongColumns {
    /// Their places.
    columns: Vec<usize>,
    /// Of the rows with the values in place.
    schema: SchemaRef,
}

impl LongColumns {
    /// Those of a projection of a layout; `None` if there are none.
    pub fn of(layout: &RowLayout, projection: &[u16], stored: &SchemaRef) -> Option<Self> {
        let ty = |column: &u16| layout.columns[usize::from(*column)].ty;
        let columns: Vec<_> = projection
            .iter()
            .enumerate()
            .filter(|(_, column)| ty(column).is_long())
            .map(|(place, _)| place)
            .collect();
        if columns.is_empty() {
            return None;
        }
        let fields = stored.fields().iter().enumerate().map(|(place, field)| {
            let ty = column_data_type(ty(&projection[place]));
            Field::new(field.name(), ty, field.is_nullable())
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Some(Self { columns, schema })
    }

    /// Schema of the rows with the values in place.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many of the first rows are delivered together.
    pub fn rows_together(&self, rows: &RecordBatch) -> usize {
        let mut bytes = 0;
        for row in 0..rows.num_rows() {
            for column in &self.columns {
                let items = rows.column(*column).as_binary_view();
                if !items.is_null(row) {
                    bytes += match OverflowRef::of_item(items.value(row)) {
                        Ok(reference) => reference.len as usize,
                        Err(value) => value.len(),
                    };
                }
            }
            if bytes > BYTES_PER_BATCH {
                return row.max(1);
            }
        }
        rows.num_rows()
    }

    /// The rows with the values in place.
    pub async fn fetch(
        &self,
        pool: &BufferPool,
        rows: &RecordBatch,
        cancel: &CancelToken,
    ) -> Result<RecordBatch, EngineError> {
        let mut columns = rows.columns().to_vec();
        for column in &self.columns {
            let items = rows.column(*column).as_binary_view();
            let mut values = Values::new(self.schema.field(*column).data_type());
            for row in 0..items.len() {
                if items.is_null(row) {
                    values.push_null();
                    continue;
                }
                match OverflowRef::of_item(items.value(row)) {
                    Err(value) => values.push(value)?,
                    Ok(reference) => {
                        if cancel.is_cancelled() {
                            return Err(EngineError::Cancelled);
                        }
                        values.push(&read_chain(pool, reference).await?)?;
                    }
                }
            }
            columns[*column] = values.finish();
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|e| EngineError::Corrupt(format!("long values: {e}")))
    }
}

/// Values of a column.
enum Values {
    Text(StringViewBuilder),
    Json(LargeStringBuilder),
    Bytes(BinaryViewBuilder),
}

impl Values {
    fn new(ty: &DataType) -> Self {
        match ty {
            DataType::BinaryView => Self::Bytes(BinaryViewBuilder::new()),
            DataType::LargeUtf8 => Self::Json(LargeStringBuilder::new()),
            _ => Self::Text(StringViewBuilder::new()),
        }
    }

    fn push_null(&mut self) {
        match self {
            Self::Text(values) => values.append_null(),
            Self::Json(values) => values.append_null(),
            Self::Bytes(values) => values.append_null(),
        }
    }

    fn push(&mut self, value: &[u8]) -> Result<(), EngineError> {
        let text = || {
            std::str::from_utf8(value)
                .map_err(|e| EngineError::Corrupt(format!("a text of {} bytes: {e}", value.len())))
        };
        match self {
            Self::Bytes(values) => values.append_value(value),
            Self::Text(values) => values.append_value(text()?),
            Self::Json(values) => values.append_value(text()?),
        }
        Ok(())
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Text(mut values) => Arc::new(values.finish()),
            Self::Json(mut values) => Arc::new(values.finish()),
            Self::Bytes(mut values) => Arc::new(values.finish()),
        }
    }
}
