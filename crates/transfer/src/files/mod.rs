//! Files: CSV and Parquet, read and written. Synchronous; what reads or writes runs on a thread that may wait.

pub(crate) mod arrow_text;
pub(crate) mod csv;
pub(crate) mod partial;

use std::path::Path;

/// The entry of a Parquet file's metadata that has the statement by which its table was made.
pub(crate) const CREATE_TABLE: &str = "perigee.create_table";

/// What a file is, by its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Columns, with their types.
    Parquet,
    /// Text.
    Csv,
}

impl Format {
    /// The format that a file's extension names.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "parquet" => Some(Self::Parquet),
            "csv" | "tsv" | "txt" => Some(Self::Csv),
            _ => None,
        }
    }

    /// Its usual extension.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
        }
    }
}
