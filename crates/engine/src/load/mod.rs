//! Bulk loads: rows become sorted runs of records for each index, the runs become trees.

mod bulk;
mod collect;
mod distinct;
mod encode;
mod runs;

pub use bulk::BulkLoad;
pub use encode::{Chunk, Encoder};
