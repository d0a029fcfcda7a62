//! `perigee import`: rows of a server or of files into Perigee.
//!
//! 1. The source is looked at ([`server`], [`files`]) and becomes *jobs*, one a table, of *units*, each one LOAD DATA.
//! 2. The units are noted in the target, and its tables made ([`state`], [`target`]).
//! 3. Units are copied, several at a time, and checked off ([`copy`]).
//! 4. Foreign keys, views and procedures follow.
//! 5. The rows of both sides are compared ([`check`]).

mod check;
mod copy;
mod file_rows;
mod files;
mod load;
mod range;
mod read;
mod server;
pub(crate) mod snapshot;
mod state;
mod target;

use std::path::PathBuf;

use futures::future::BoxFuture;

use crate::{Endpoint, TransferError};
pub(crate) use copy::worse;

/// What every import is told.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Perigee. A schema in its URL is where the rows go; without one schemas keep their names.
    pub into: Endpoint,
    /// Connections that read, and tables at a time.
    pub jobs: usize,
    /// Bytes, by the source's estimate, that are committed at once: larger tables go in several units.
    pub unit_bytes: u64,
    /// Drops tables, views and procedures of the target that have the names of imported ones.
    pub replace: bool,
    /// Forgets what an earlier run of the same command finished.
    pub restart: bool,
    /// Says what would be done, and does nothing.
    pub dry_run: bool,
    /// Compares the rows at the end.
    pub check: bool,
}

/// How CSV files are written.
#[derive(Clone, Debug)]
pub struct CsvOptions {
    /// Between fields.
    pub delimiter: u8,
    /// What stands for NULL, without quotes.
    pub null: String,
    /// The first record has the names of the columns.
    pub header: bool,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            delimiter: b',',
            null: "\\N".to_owned(),
            header: true,
        }
    }
}

/// Files that are imported.
#[derive(Clone, Debug)]
pub struct FileSource {
    /// CSV and Parquet files, told apart by their extensions.
    pub paths: Vec<PathBuf>,
    /// The table, if it is not called as the file is.
    pub table: Option<String>,
    /// Adds the rows to those that the table has.
    pub append: bool,
    /// How the CSV files are written.
    pub csv: CsvOptions,
}

/// Imports the schemas that the source's URL names.
///
/// # Errors
/// What stops it, or that both sides differ in the end. What is done stays done, and the same command goes on from there.
pub fn import_server<'a>(
    source: &'a Endpoint,
    options: &'a ImportOptions,
) -> BoxFuture<'a, Result<(), TransferError>> {
    Box::pin(server::run(source, options))
}

/// Imports files.
///
/// # Errors
/// As [`import_server`].
pub fn import_files<'a>(
    source: &'a FileSource,
    options: &'a ImportOptions,
) -> BoxFuture<'a, Result<(), TransferError>> {
    Box::pin(files::run(source, options))
}
