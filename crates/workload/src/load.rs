//! Loading TPC-H into a server over the MySQL protocol, as any user would.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::tpch::{LOAD_OPTIONS, TABLES, write_table};
use crate::{Client, WorkloadError};

/// Name of the schema that workloads use.
pub const SCHEMA: &str = "tpch";

/// Writes the files of all tables into `dir`, unless they are there for this scale already; calls
/// `progress` with each table's name before it is made.
///
/// # Errors
/// If a file cannot be written.
pub fn generate(
    dir: &Path,
    scale: f64,
    mut progress: impl FnMut(&str),
) -> Result<(), WorkloadError> {
    fs::create_dir_all(dir).map_err(WorkloadError::io(format!("create {}", dir.display())))?;
    for table in TABLES {
        progress(table.name);
        let path = file(dir, table.name);
        let what = || format!("write {}", path.display());
        if path.exists() {
            continue;
        }
        // Under another name until it is whole: an interrupted run leaves no half table behind.
        let partial = path.with_extension("partial");
        let mut out = BufWriter::with_capacity(
            1 << 20,
            File::create(&partial).map_err(WorkloadError::io(what()))?,
        );
        write_table(table.name, scale, &mut out).map_err(WorkloadError::io(what()))?;
        out.flush().map_err(WorkloadError::io(what()))?;
        fs::rename(&partial, &path).map_err(WorkloadError::io(what()))?;
    }
    Ok(())
}

/// The file of a table.
#[must_use]
pub fn file(dir: &Path, table: &str) -> PathBuf {
    dir.join(format!("{table}.tbl"))
}

/// Makes the schema and loads all tables; calls `progress` with each table and its time.
///
/// # Errors
/// What the server answers.
pub async fn load(
    client: &mut Client,
    dir: &Path,
    mut progress: impl FnMut(&str, u64, Duration),
) -> Result<(), WorkloadError> {
    client
        .execute(&format!("CREATE DATABASE IF NOT EXISTS {SCHEMA}"))
        .await?;
    client.execute(&format!("USE {SCHEMA}")).await?;
    for table in TABLES {
        client.execute(&table.create()).await?;
        let begin = Instant::now();
        let rows = load_table(client, dir, table.name).await?;
        progress(table.name, rows, begin.elapsed());
    }
    Ok(())
}

/// Loads one table's file; returns the number of rows.
///
/// # Errors
/// What the server answers.
pub async fn load_table(
    client: &mut Client,
    dir: &Path,
    table: &str,
) -> Result<u64, WorkloadError> {
    let path = file(dir, table);
    client
        .execute(&format!(
            "LOAD DATA LOCAL INFILE '{}' INTO TABLE {table} {LOAD_OPTIONS}",
            path.display()
        ))
        .await
}
