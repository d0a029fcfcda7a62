//! `perigee-bench load`: bulk load and size on disk, against MariaDB with InnoDB in the same run.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use futures::future::BoxFuture;
use serde::Serialize;

use super::innodb::InnoDb;
use super::setup::{BenchOptions, data_bytes, note, status, wait_until_consolidated};
use perigee_workload::tpch::TABLES;
use perigee_workload::{Embedded, WorkloadError, load};

/// What the command measures.
#[derive(Clone, Debug, Serialize)]
pub struct LoadFigures {
    /// TPC-H scale factor.
    pub scale: f64,
    /// Our time to load lineitem, synced and consolidated, ÷ MariaDB's LOAD DATA.
    pub vs_mariadb_load: f64,
    /// Our seconds until LOAD DATA returned.
    pub load_seconds: f64,
    /// Our seconds until everything was consolidated, too.
    pub consolidated_seconds: f64,
    /// MariaDB's seconds.
    pub mariadb_seconds: f64,
    /// Bytes of the Page Store's files ÷ bytes of InnoDB's files, all tables and indexes.
    pub size_vs_innodb: f64,
    /// The same of live pages, which are a part of these files.
    pub live_vs_innodb: f64,
    /// Bytes of log ÷ bytes of live pages.
    pub log_amplification: f64,
    /// Bytes of the Page Store's files.
    pub disk_bytes: u64,
    /// Bytes of live pages.
    pub live_page_bytes: u64,
    /// Bytes of InnoDB's files.
    pub innodb_bytes: u64,
}

/// Runs the command.
///
/// # Errors
/// If a process fails, or MariaDB is not installed.
pub fn load(options: &BenchOptions) -> BoxFuture<'_, Result<LoadFigures, WorkloadError>> {
    Box::pin(async move {
        let data = options.data()?;
        let (ours, load_seconds) = load_perigee(options, &data).await?;
        let innodb = InnoDb::load(options, &data).await?;
        let (mariadb_seconds, innodb_bytes) = (innodb.lineitem_seconds, innodb.bytes());
        note(&format!(
            "lineitem: {:.1} s, MariaDB {mariadb_seconds:.1} s",
            ours.consolidated
        ));
        Ok(LoadFigures {
            scale: options.scale,
            vs_mariadb_load: ours.consolidated / mariadb_seconds,
            load_seconds,
            consolidated_seconds: ours.consolidated,
            mariadb_seconds,
            size_vs_innodb: ours.disk_bytes as f64 / innodb_bytes as f64,
            live_vs_innodb: ours.live_bytes as f64 / innodb_bytes as f64,
            log_amplification: ours.log_bytes as f64 / ours.live_bytes as f64,
            disk_bytes: ours.disk_bytes,
            live_page_bytes: ours.live_bytes,
            innodb_bytes,
        })
    })
}

/// Bytes that the files below a directory take on disk.
fn bytes_below(dir: &Path) -> Result<u64, WorkloadError> {
    let read = || WorkloadError::io(format!("read {}", dir.display()));
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir).map_err(read())? {
        let entry = entry.map_err(read())?;
        let metadata = entry.metadata().map_err(read())?;
        bytes += match metadata.is_dir() {
            true => bytes_below(&entry.path())?,
            // In sectors, whatever the file system's blocks are.
            false => 512 * metadata.blocks(),
        };
    }
    Ok(bytes)
}

/// What our load took.
struct Ours {
    consolidated: f64,
    disk_bytes: u64,
    live_bytes: u64,
    log_bytes: u64,
}

async fn load_perigee(options: &BenchOptions, data: &Path) -> Result<(Ours, f64), WorkloadError> {
    let memory = (2 * data_bytes(data)).to_string();
    let args = ["--pool", &memory].map(str::to_owned);
    let dir = options.stores("embedded")?;
    let server = Embedded::start(&options.binary, &dir, &args)?;
    let mut client = server.client(None).await?;
    client
        .execute(&format!("CREATE DATABASE {0}", load::SCHEMA))
        .await?;
    client.execute(&format!("USE {}", load::SCHEMA)).await?;
    let (mut loaded, mut consolidated) = (0.0, 0.0);
    for table in TABLES {
        client.execute(&table.create()).await?;
        let begin = Instant::now();
        let rows = load::load_table(&mut client, data, table.name).await?;
        let seconds = begin.elapsed().as_secs_f64();
        wait_until_consolidated(&mut client).await?;
        note(&format!(
            "load: {}, {rows} rows in {seconds:.2} s",
            table.name
        ));
        if table.name == "lineitem" {
            (loaded, consolidated) = (seconds, begin.elapsed().as_secs_f64());
        }
    }
    let live_bytes = status(&mut client, "perigee_page_store_live_bytes").await?;
    let log_bytes = status(&mut client, "perigee_log_bytes_written").await?;
    let disk_bytes = bytes_below(&dir.join("serve/pages"))?;
    Ok((
        Ours {
            consolidated,
            disk_bytes,
            live_bytes,
            log_bytes,
        },
        loaded,
    ))
}
