//! The peer: DataFusion over Parquet files of the same data.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::config::TableParquetOptions;
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::error::DataFusionError;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::{CsvReadOptions, ParquetReadOptions, SessionConfig, SessionContext};

use crate::http::HttpFiles;
use perigee_workload::tpch::TABLES;
use perigee_workload::{WorkloadError, load};

/// DataFusion with the tables of TPC-H as Parquet files.
pub struct Parquet {
    context: SessionContext,
}

impl Parquet {
    /// Writes Parquet files of the data in `dir`, unless they are there.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub async fn write(dir: &Path) -> Result<(), WorkloadError> {
        for table in TABLES {
            let path = file(dir, table.name);
            if !path.exists() {
                let written = write(dir, table.name, table.definition, &path).await;
                written.map_err(peer)?;
            }
        }
        Ok(())
    }

    /// Opens the files in `dir` with `partitions` partitions a query.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub async fn open(dir: &Path, partitions: usize) -> Result<Self, WorkloadError> {
        let place = |table: &str| file(dir, table).to_string_lossy().into_owned();
        Self::with_tables(context(partitions), place).await
    }

    /// Opens the files that the HTTP server at `address` has, and nothing besides.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub async fn open_http(address: SocketAddr, partitions: usize) -> Result<Self, WorkloadError> {
        let context = context(partitions);
        let url = format!("http://{address}");
        let parsed = ObjectStoreUrl::parse(&url).map_err(peer)?;
        let files = Arc::new(HttpFiles::new(address));
        context.register_object_store(parsed.as_ref(), files);
        Self::with_tables(context, |table| format!("{url}/{table}.parquet")).await
    }

    async fn with_tables(
        context: SessionContext,
        place: impl Fn(&str) -> String,
    ) -> Result<Self, WorkloadError> {
        for table in TABLES {
            let options = ParquetReadOptions::default();
            context
                .register_parquet(table.name, place(table.name), options)
                .await
                .map_err(peer)?;
        }
        Ok(Self { context })
    }

    /// Runs a query; gives the number of rows and the time in seconds.
    ///
    /// # Errors
    /// What DataFusion says.
    pub async fn run(&self, sql: &str) -> Result<(usize, f64), WorkloadError> {
        let begin = Instant::now();
        let batches = self
            .context
            .sql(sql)
            .await
            .map_err(peer)?
            .collect()
            .await
            .map_err(peer)?;
        let rows = batches.iter().map(|batch| batch.num_rows()).sum();
        Ok((rows, begin.elapsed().as_secs_f64()))
    }
}

fn context(partitions: usize) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(partitions);
    SessionContext::new_with_config(config)
}

fn file(dir: &Path, table: &str) -> PathBuf {
    dir.join(format!("{table}.parquet"))
}

fn peer(error: DataFusionError) -> WorkloadError {
    WorkloadError::Unexpected(format!("DataFusion over Parquet: {error}"))
}

async fn write(
    dir: &Path,
    table: &str,
    definition: &str,
    path: &Path,
) -> Result<(), DataFusionError> {
    let context = SessionContext::new();
    let schema = schema(definition);
    let source = load::file(dir, table).to_string_lossy().into_owned();
    let options = CsvReadOptions::new()
        .schema(&schema)
        .delimiter(b'|')
        .has_header(false)
        .file_extension(".tbl");
    let frame = context.read_csv(source, options).await?;
    let columns: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    let frame = frame.select_columns(&columns[..columns.len() - 1])?;
    let partial = path.with_extension("partial.parquet");
    let target = partial.to_string_lossy().into_owned();
    let single = DataFrameWriteOptions::new().with_single_file_output(true);
    frame
        .write_parquet(&target, single, Some(TableParquetOptions::default()))
        .await?;
    std::fs::rename(&partial, path)?;
    Ok(())
}

/// The columns of a CREATE TABLE, and one more for the empty field that ends each line.
fn schema(definition: &str) -> Schema {
    let mut fields = Vec::new();
    for column in definition.split(", ").map(str::trim) {
        let mut words = column.split_whitespace();
        let (Some(name), Some(ty)) = (words.next(), words.next()) else {
            continue;
        };
        let ty = match ty.split('(').next() {
            Some("INT") => DataType::Int32,
            Some("DECIMAL") => DataType::Decimal128(15, 2),
            Some("DATE") => DataType::Date32,
            Some("CHAR" | "VARCHAR") => DataType::Utf8View,
            _ => continue, // a key, or the rest of one
        };
        fields.push(Field::new(name, ty, false));
    }
    fields.push(Field::new("end_of_line", DataType::Utf8, true));
    Schema::new(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http;

    #[tokio::test]
    async fn files_behind_http_give_the_same_answers() -> Result<(), WorkloadError> {
        let dir = tempfile::tempdir().map_err(WorkloadError::io("make a directory"))?;
        load::generate(dir.path(), 0.01, |_| ())?;
        Parquet::write(dir.path()).await?;
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await;
        let listener = listener.map_err(WorkloadError::io("listen"))?;
        let address = listener.local_addr().map_err(WorkloadError::io("listen"))?;
        let server = tokio::spawn(http::serve(listener, dir.path().to_owned()));
        let local = Parquet::open(dir.path(), 2).await?;
        let remote = Parquet::open_http(address, 2).await?;
        for (number, sql) in perigee_workload::tpch::queries(0.01) {
            let (local, remote) = (local.run(&sql).await?.0, remote.run(&sql).await?.0);
            assert_eq!(local, remote, "rows of Q{number}");
        }
        server.abort();
        let gone = Parquet::open_http(address, 2).await;
        assert!(gone.is_err(), "the server is gone");
        Ok(())
    }

    #[test]
    fn schemas_follow_the_table_definitions() {
        let widths = [3, 4, 7, 8, 9, 5, 9, 16];
        for (table, width) in TABLES.iter().zip(widths) {
            assert_eq!(
                schema(table.definition).fields().len(),
                width + 1,
                "{}",
                table.name
            );
        }
    }
}
