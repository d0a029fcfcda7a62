//! Random layouts, rows, records and programs, for differential tests.

mod generator;
mod program;
mod values;

pub use generator::{Generator, Options};
