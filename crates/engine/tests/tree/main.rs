//! Buffer pool, mini-transactions and B+-trees over the storage layer, with stores in memory and
//! on disk.
#![allow(clippy::unwrap_used, reason = "test code")]

mod batch;
mod build;
mod concurrency;
mod database;
mod disk;
mod merge;
mod model;
mod pool;
