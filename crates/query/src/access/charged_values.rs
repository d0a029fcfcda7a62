//! Long values are charged to the process's memory for as long as they live.
//!
//! A scan delivers some MiB of them at once, but an operator above it may hold thousands of rows, some without
//! asking for memory: a filter, a join or a repartition that makes batches of the usual number of rows. So the
//! charge is kept by the buffers themselves and ends with the last operator that has them.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result as DfResult;

use crate::error::SqlError;
use crate::memory::ProcessMemory;
use crate::texts::{guarded, with_buffers};

/// Buffers below this size are not charged: only long values in large numbers matter.
const LEAST: usize = 64 << 10;

/// A column whose values are charged until they are dropped.
///
/// # Errors
/// 1038.
pub(super) fn charged(column: &ArrayRef, memory: &Arc<ProcessMemory>) -> DfResult<ArrayRef> {
    with_buffers(column, |buffer| {
        if buffer.len() < LEAST {
            return Ok(buffer.clone());
        }
        let charge = memory.charge(buffer.len()).map_err(SqlError::into_df)?;
        Ok(guarded(buffer, charge))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use datafusion::arrow::array::{BinaryViewArray, LargeStringArray, StringViewArray};

    use super::*;

    fn columns() -> [ArrayRef; 3] {
        let long = ["short".to_owned(), "é".repeat(100_000), "x".repeat(70_000)];
        [
            Arc::new(StringViewArray::from_iter_values(&long)),
            Arc::new(BinaryViewArray::from_iter_values(&long)),
            Arc::new(LargeStringArray::from_iter_values(&long)),
        ]
    }

    #[test]
    fn values_are_charged_until_the_last_use_ends() {
        for column in columns() {
            let memory = ProcessMemory::new(400_000);
            let charged = charged(&column, &memory).unwrap();
            assert_eq!(&charged, &column);
            let used = memory.used();
            assert!((200_000..=400_000).contains(&used), "{used}");
            let slice = charged.slice(1, 1);
            drop(charged);
            assert_eq!(memory.used(), used, "a part is there still");
            drop(slice);
            assert_eq!(memory.used(), 0);
        }
    }

    #[test]
    fn values_beyond_the_memory_are_refused() {
        for column in columns() {
            let memory = ProcessMemory::new(100_000);
            let error = SqlError::from(charged(&column, &memory).unwrap_err());
            assert_eq!((error.errno, error.sqlstate.as_str()), (1038, "HY001"));
            assert_eq!(memory.used(), 0);
        }
    }

    #[test]
    fn short_values_are_not_charged() {
        let column: ArrayRef = Arc::new(StringViewArray::from_iter_values(["a", "b"]));
        let memory = ProcessMemory::new(0);
        assert_eq!(&charged(&column, &memory).unwrap(), &column);
    }
}
