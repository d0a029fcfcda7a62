//! TPC-H: tables, data and queries.

mod data;
mod queries;
mod schema;

pub use data::{row_count, write_table};
pub use queries::queries;
pub use schema::{LOAD_OPTIONS, TABLES, Table};
