//! From a bound query to a DataFusion plan with MySQL's meaning.

mod aggregate_order;
pub mod apply;
pub mod branches;
mod charged_window;
pub mod collation;
pub mod common;
mod comparable;
mod field;
mod fractions;
mod frames;
mod grouping;
mod held_rows;
mod in_order;
mod in_turn;
mod json_table;
mod keys;
mod lists;
pub mod lower;
mod membership;
pub mod metadata;
mod moments;
pub mod null_safe;
pub mod operators;
mod repeatable;
pub mod rewrite;
pub mod state;
pub mod stoppable;
pub mod wide_union;

#[cfg(test)]
pub(crate) mod tests;
