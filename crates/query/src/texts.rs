//! The buffers that hold the texts of columns. Batches share them: a column that was taken from others has views
//! that point into their buffers, and keeps all of those alive.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, GenericByteViewArray, LargeStringArray, RecordBatch,
    RecordBatchOptions, StringViewArray,
};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::{ByteViewType, DataType};
use datafusion::common::Result as DfResult;

/// Bytes of buffers up to which a column is not copied to let them go.
const SPARSE: usize = 64 << 10;

/// Bytes, and what is dropped when nobody has them any more.
struct Guarded<G> {
    buffer: Buffer,
    _guard: G,
}

impl<G> AsRef<[u8]> for Guarded<G> {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

/// A buffer of the same bytes, at the same place, that drops `guard` with its last user.
pub(crate) fn guarded(buffer: &Buffer, guard: impl Send + 'static) -> Buffer {
    Buffer::from(Bytes::from_owner(Guarded {
        buffer: buffer.clone(),
        _guard: guard,
    }))
}

/// The column with others of the same bytes in place of the buffers that its views point to.
///
/// # Errors
/// Those of `change`.
pub(crate) fn with_buffers(
    column: &ArrayRef,
    mut change: impl FnMut(&Buffer) -> DfResult<Buffer>,
) -> DfResult<ArrayRef> {
    Ok(match column.data_type() {
        DataType::Utf8View => {
            let (views, buffers, nulls) = column.as_string_view().clone().into_parts();
            let buffers: Arc<[Buffer]> = buffers.iter().map(change).collect::<DfResult<_>>()?;
            Arc::new(StringViewArray::try_new(views, buffers, nulls)?)
        }
        DataType::BinaryView => {
            let (views, buffers, nulls) = column.as_binary_view().clone().into_parts();
            let buffers: Arc<[Buffer]> = buffers.iter().map(change).collect::<DfResult<_>>()?;
            Arc::new(BinaryViewArray::try_new(views, buffers, nulls)?)
        }
        DataType::LargeUtf8 => {
            let (offsets, values, nulls) = column.as_string::<i64>().clone().into_parts();
            let values = change(&values)?;
            Arc::new(LargeStringArray::try_new(offsets, values, nulls)?)
        }
        _ => column.clone(),
    })
}

/// The rows with other columns of the same types.
///
/// # Errors
/// Those of `change`.
pub(crate) fn with_columns(
    batch: &RecordBatch,
    change: impl FnMut(&ArrayRef) -> DfResult<ArrayRef>,
) -> DfResult<RecordBatch> {
    let columns = batch
        .columns()
        .iter()
        .map(change)
        .collect::<DfResult<_>>()?;
    // There may be no columns.
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let changed = RecordBatch::try_new_with_options(batch.schema(), columns, &options)?;
    Ok(changed)
}

/// The values of a column without the buffers of others. Few texts may keep all buffers alive that they
/// were taken from, and who counts memory counts those again for each batch.
pub(crate) fn compact(column: ArrayRef) -> ArrayRef {
    fn is_sparse<T: ByteViewType>(views: &GenericByteViewArray<T>) -> bool {
        let buffers: usize = views.data_buffers().iter().map(|b| b.capacity()).sum();
        buffers > SPARSE && buffers > 2 * views.total_buffer_bytes_used()
    }
    if let Some(views) = column.as_string_view_opt()
        && is_sparse(views)
    {
        return Arc::new(views.gc());
    }
    if let Some(views) = column.as_binary_view_opt()
        && is_sparse(views)
    {
        return Arc::new(views.gc());
    }
    column
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    #[test]
    fn a_guard_goes_with_the_last_user() {
        let texts = ["short".to_owned(), "é".repeat(1000), "x".repeat(700)];
        let columns: [ArrayRef; 3] = [
            Arc::new(StringViewArray::from_iter_values(&texts)),
            Arc::new(BinaryViewArray::from_iter_values(&texts)),
            Arc::new(LargeStringArray::from_iter_values(&texts)),
        ];
        for column in columns {
            let guard = Arc::new(());
            let changed = with_buffers(&column, |b| Ok(guarded(b, guard.clone()))).unwrap();
            assert_eq!(&changed, &column);
            assert!(Arc::strong_count(&guard) > 1);
            let part = changed.slice(1, 1);
            drop(changed);
            assert!(Arc::strong_count(&guard) > 1, "a part is there still");
            drop(part);
            assert_eq!(Arc::strong_count(&guard), 1);
        }
    }

    #[test]
    fn few_texts_let_go_of_many() {
        let texts = (0..1000).map(|n| format!("{n:0>200}"));
        let all: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts));
        let few = all.slice(500, 2);
        let copied = compact(few.clone());
        assert_eq!(&copied, &few);
        assert!(copied.get_buffer_memory_size() < 1000);
        let most = all.slice(0, 900);
        assert_eq!(
            compact(most.clone()).get_buffer_memory_size(),
            most.get_buffer_memory_size(),
            "it is not copied"
        );
    }
}
