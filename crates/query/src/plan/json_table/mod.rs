//! JSON_TABLE: the rows of documents beside the rows that the documents are of.

mod exec;
mod node;

pub use node::{JsonTableNode, JsonTables};
