//! Aggregate functions that DataFusion does not have.
//!
//! Each group is an accumulator of its own, whose size is charged to the statement. What a function keeps is no more
//! than its arguments.

pub mod bits;
pub mod group_concat;
pub mod json;
mod kept_rows;
pub mod row_key;
