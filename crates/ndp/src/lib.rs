//! Near-data processing, both halves: what a Page Store makes of a page, and how the frontend
//! completes it (taurus-ndp sections III to V; `docs/ndp.md`).
//!
//! A scan sends a [`Descriptor`]. Whoever has pages, be it a Page Store or the frontend itself
//! (pages that are cached, that a store declined, or that were not pushed), runs an [`Execution`]
//! over them and gets an [`NdpBatch`]: reduced columns or partial aggregate states, and whole
//! *ambiguous* records, whose visibility storage cannot tell. The frontend resolves those through
//! undo and [`Scanner::finish`] completes the batch to Arrow arrays.
//!
//! Law: the finished rows are those of a plain scan of the visible versions, for every page,
//! descriptor and watermark, whichever pages were processed where.
//!
//! The crate is pure: no I/O, no threads, no clock. It knows neither SQL text nor undo.

mod aggregate;
mod ahead;
mod arrow;
mod batch;
mod chunk;
mod descriptor;
mod dump;
mod error;
mod execution;
mod expression;
mod filter;
mod finish;
mod gather;
mod join;
mod narrow;
mod scanner;
mod schema;
mod visibility;

pub use aggregate::{AggregateBudget, GroupMemory};
pub use batch::{Ambiguous, AmbiguousKind, MAX_COLUMNS, MAX_ROWS, NdpBatch, PageRun};
pub use descriptor::{
    Aggregate, DESCRIPTOR_VERSION, Descriptor, GroupMethod, Grouping, KeyRange, MAX_AGGREGATES,
    MAX_DESCRIPTOR_LEN, hash_bytes,
};
pub use error::NdpError;
pub use execution::Execution;
pub use expression::Backend;
pub use filter::{
    Best, FILTER_VERSION, Filter, Filters, KeySet, MAX_BEST, MAX_FILTER_LEN, MAX_LISTED_KEYS,
    TopKeys,
};
pub use finish::Finished;
pub use join::{
    JOIN_TABLE_VERSION, Join, JoinKind, JoinTable, JoinTableBuilder, MAX_JOIN_COLUMNS,
    MAX_JOIN_STRINGS, MAX_JOIN_TABLE_LEN, MAX_JOIN_TABLE_MEMORY, TableRefused, joins_column,
};
pub use perigee_expr::PROGRAM_VERSION as EXPRESSION_VERSION;
pub use scanner::Scanner;
pub use schema::{column_data_type, value_data_type};
