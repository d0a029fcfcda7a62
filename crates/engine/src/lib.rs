//! The storage engine inside a frontend: buffer pool, mini-transactions, B+-trees; on top of them
//! transactions, catalog, loads and scans.
//!
//! Everything is in pages, and pages are changed through the log (*the log is the database*): a
//! frontend has no files.

pub mod btree;
pub mod buffer;
mod error;
pub mod mtr;

pub use error::EngineError;
