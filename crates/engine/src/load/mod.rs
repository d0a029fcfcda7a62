//! Bulk loads: rows become sorted runs of records for each index, the runs become trees.

mod bulk;
mod collect;
mod distinct;
mod encode;
mod runs;
mod sample;

pub use bulk::BulkLoad;
pub(crate) use bulk::{FILL, Target, build_from};
#[cfg(test)]
pub(crate) use collect::hash_value;
pub(crate) use collect::{Collector, hash_column};
pub(crate) use encode::push_entry;
pub use encode::{Chunk, Encoder};
pub(crate) use runs::{Runs, sorted};
