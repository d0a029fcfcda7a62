//! From a SELECT's syntax tree to a DataFusion plan with MySQL's meaning.

mod aggregate_order;
mod apply;
mod between;
pub mod branches;
mod charged_window;
mod clause;
pub mod collation;
pub mod common;
mod constants;
mod field;
mod fractions;
mod frames;
mod held_rows;
mod keys;
pub mod level;
mod lists;
mod long_lists;
pub mod lower;
mod membership;
pub mod metadata;
mod moments;
pub mod null_safe;
pub mod operators;
mod quotients;
mod repeatable;
pub mod rewrite;
pub mod select;
pub mod state;
pub mod stoppable;
pub mod typing;
pub mod union;
mod wide_union;

#[cfg(test)]
mod tests;
