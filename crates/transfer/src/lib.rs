//! Moving data into and out of a running Perigee: `perigee import` and `perigee export`.
//!
//! Both are MySQL clients. An import copies schemas, tables, rows, views and procedures of a MySQL or MariaDB server, or the
//! rows of CSV and Parquet files; an export writes tables, or the result of a query, to such files. Rows go into Perigee by
//! `LOAD DATA LOCAL`, the fastest way that a client has. What a run has finished is noted in the target
//! ([`import`]'s `state`), so that the same command resumes an import that was killed. At the end the rows of both sides are
//! compared by count and checksum.
//!
//! This crate knows no storage and no SQL engine. Types and their texts come from `perigee-value`.

mod catalog;
mod checksum;
mod connect;
mod ddl;
mod endpoint;
mod error;
pub mod export;
mod files;
pub mod import;
mod kind;
mod lines;
mod names;
mod progress;
mod readers;

pub use endpoint::Endpoint;
pub use error::TransferError;
