//! `perigee import` and `perigee export`: their command lines.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use perigee_transfer::export::{self, ExportOptions, Format};
use perigee_transfer::import::{self, CsvOptions, FileSource, ImportOptions};
use perigee_transfer::{Endpoint, TransferError};

use crate::size::Size;

const IMPORT_EXAMPLES: &str = "\
Examples:
  # The schema `shop` of a MariaDB or MySQL server, with tables, rows, views and procedures:
  perigee import mysql://reader:secret@db.example:3306/shop --into mysql://root@127.0.0.1:3306

  # First see what would be done:
  perigee import mysql://reader:secret@db.example/shop,stock --into mysql://root@127.0.0.1 --dry-run

  # Files; the table is called as the file is, here `orders`:
  perigee import orders.csv --into mysql://root@127.0.0.1/shop
  perigee import backup/shop --into mysql://root@127.0.0.1/shop

A run that is killed goes on where it stopped when the same command is run again. At the end the rows of both \
sides are compared; a difference ends the command with an error. docs/import.md says more.";

const EXPORT_EXAMPLES: &str = "\
Examples:
  # All tables of `shop`, each to a Parquet file backup/shop/TABLE.parquet:
  perigee export mysql://root@127.0.0.1/shop --to backup

  # Two tables as CSV:
  perigee export mysql://root@127.0.0.1/shop --tables orders,customers --format csv --to backup

  # The result of a query:
  perigee export mysql://root@127.0.0.1/shop --query 'SELECT * FROM orders WHERE total > 100' --to large.parquet

`perigee import backup/shop --into mysql://root@127.0.0.1/shop` reads the files back. docs/import.md says more.";

/// What both commands have.
#[derive(Debug, Args)]
struct Common {
    /// Connections that read, and tables at a time; one a core if not given, at least two
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// What separates the fields of CSV files: one character, or \t
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = delimiter)]
    delimiter: u8,
    /// What stands for NULL in CSV files, without quotes; a text in quotes never does
    #[arg(long, value_name = "TEXT", default_value = "\\N")]
    null: String,
    /// The first line of CSV files has no names of columns
    #[arg(long)]
    no_header: bool,
}

impl Common {
    fn jobs(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        self.jobs.unwrap_or(cores.max(2)).max(1)
    }

    fn csv(&self) -> CsvOptions {
        CsvOptions {
            delimiter: self.delimiter,
            null: self.null.clone(),
            header: !self.no_header,
        }
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ => Err("use one character of ASCII that is no quote and no line end, or \\t".to_owned()),
    }
}

/// Copy a MySQL or MariaDB server, or CSV and Parquet files, into a running Perigee
#[derive(Debug, Args)]
#[command(after_help = IMPORT_EXAMPLES)]
pub struct Import {
    /// mysql://user:password@host:port/schema[,schema…], or files (.parquet, .csv, .tsv), or directories with such files
    #[arg(required = true, value_name = "SOURCE")]
    source: Vec<String>,
    /// Perigee: mysql://user:password@host:port. With a /schema, that is where the rows go
    #[arg(long, value_name = "URL")]
    into: Endpoint,
    /// File with the password for the source
    #[arg(long, value_name = "FILE")]
    source_password_file: Option<PathBuf>,
    /// File with the password for Perigee
    #[arg(long, value_name = "FILE")]
    into_password_file: Option<PathBuf>,
    /// Replace what Perigee has under the names of imported tables, views and procedures
    #[arg(long)]
    replace: bool,
    /// Begin again, whatever an earlier run of the same command has finished
    #[arg(long)]
    restart: bool,
    /// Do not compare the rows at the end
    #[arg(long)]
    no_check: bool,
    /// Bytes, by the source's estimate, that are committed at once. A larger table with integers as the first column of its
    /// primary key goes in several units, and an import that was killed goes on behind the last one
    #[arg(long, value_name = "SIZE", default_value = "8GiB")]
    unit: Size,
    /// The table that the files are for, if they are not called as it is
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// Add the rows of files to those that the table has
    #[arg(long)]
    append: bool,
    #[command(flatten)]
    common: Common,
}

/// How files are written.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Written {
    Parquet,
    Csv,
}

/// Write tables, or the result of a query, of a running Perigee to Parquet or CSV files
#[derive(Debug, Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub struct Export {
    /// mysql://user:password@host:port/schema[,schema…]
    #[arg(value_name = "URL")]
    source: Endpoint,
    /// Directory for the files of tables, each SCHEMA/TABLE.parquet or .csv; the file for a query
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
    /// The tables, or views, if not all tables
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        conflicts_with = "query"
    )]
    tables: Vec<String>,
    /// A query instead of tables
    #[arg(long, value_name = "SQL")]
    query: Option<String>,
    /// How the files are written; for a query by default what the file's extension says
    #[arg(long, value_enum)]
    format: Option<Written>,
    /// Replace files that are there
    #[arg(long)]
    overwrite: bool,
    /// File with the password
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

fn with_password(server: Endpoint, file: Option<&PathBuf>) -> Result<Endpoint, TransferError> {
    match file {
        Some(file) => server.with_password_file(file),
        None => Ok(server),
    }
}

/// Runs an import.
pub async fn import(command: Import) -> Result<(), String> {
    let common = &command.common;
    let into = with_password(command.into.clone(), command.into_password_file.as_ref());
    let options = ImportOptions {
        into: into.map_err(|e| e.to_string())?,
        jobs: common.jobs(),
        unit_bytes: command.unit.0.max(1),
        replace: command.replace,
        restart: command.restart,
        dry_run: common.dry_run,
        check: !command.no_check,
    };
    let is_server = |source: &String| source.contains("://");
    let done = match command.source.as_slice() {
        [url] if is_server(url) => {
            if command.table.is_some() || command.append {
                return Err("--table and --append are for files".to_owned());
            }
            let source = with_password(url.parse()?, command.source_password_file.as_ref());
            let source = source.map_err(|e| e.to_string())?;
            import::import_server(&source, &options).await
        }
        sources if sources.iter().any(is_server) => {
            return Err(
                "a source is one server, with all its schemas in one URL, or files".to_owned(),
            );
        }
        paths => {
            let source = FileSource {
                paths: paths.iter().map(PathBuf::from).collect(),
                table: command.table,
                append: command.append,
                csv: common.csv(),
            };
            import::import_files(&source, &options).await
        }
    };
    done.map_err(|e| e.to_string())
}

/// Runs an export.
pub async fn export(command: Export) -> Result<(), String> {
    let source = with_password(command.source, command.password_file.as_ref());
    let by_name = command.query.as_ref().and_then(|_| Format::of(&command.to));
    let format = match command.format {
        Some(Written::Parquet) => Format::Parquet,
        Some(Written::Csv) => Format::Csv,
        None => by_name.unwrap_or(Format::Parquet),
    };
    let options = ExportOptions {
        to: command.to,
        tables: command.tables,
        query: command.query,
        format,
        csv: command.common.csv(),
        overwrite: command.overwrite,
        jobs: command.common.jobs(),
        dry_run: command.common.dry_run,
    };
    let source = source.map_err(|e| e.to_string())?;
    export::export(&source, &options)
        .await
        .map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters_are_one_character() {
        assert_eq!(delimiter(";"), Ok(b';'));
        assert_eq!(delimiter("\\t"), Ok(b'\t'));
        for wrong in ["", "ab", "\"", "\n", "ä"] {
            assert!(delimiter(wrong).is_err(), "{wrong}");
        }
    }
}
