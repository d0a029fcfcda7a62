//! `perigee bench load`: bulk load and size on disk, against MariaDB with InnoDB in the same run.

use std::fs;
use std::path::Path;
use std::time::Instant;

use futures::future::BoxFuture;
use perigee_testkit::MariaDb;
use serde::Serialize;

use super::setup::{BenchOptions, data_bytes, note, status, wait_until_consolidated};
use crate::tpch::{LOAD_OPTIONS, TABLES};
use crate::{BenchError, Client, Embedded, load};

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
    /// Bytes of live pages ÷ bytes of InnoDB's files, all tables and indexes.
    pub size_vs_innodb: f64,
    /// Bytes of log ÷ bytes of live pages.
    pub log_amplification: f64,
    /// Bytes of live pages.
    pub live_page_bytes: u64,
    /// Bytes of InnoDB's files.
    pub innodb_bytes: u64,
}

/// Runs the command.
///
/// # Errors
/// If a process fails, or MariaDB is not installed.
pub fn load(options: &BenchOptions) -> BoxFuture<'_, Result<LoadFigures, BenchError>> {
    Box::pin(async move {
        let data = options.data()?;
        let (ours, load_seconds) = load_perigee(options, &data).await?;
        let (mariadb_seconds, innodb_bytes) = load_mariadb(options, &data).await?;
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
            size_vs_innodb: ours.live_bytes as f64 / innodb_bytes as f64,
            log_amplification: ours.log_bytes as f64 / ours.live_bytes as f64,
            live_page_bytes: ours.live_bytes,
            innodb_bytes,
        })
    })
}

/// What our load took.
struct Ours {
    consolidated: f64,
    live_bytes: u64,
    log_bytes: u64,
}

async fn load_perigee(options: &BenchOptions, data: &Path) -> Result<(Ours, f64), BenchError> {
    let memory = (2 * data_bytes(data)).to_string();
    let args = ["--pool", &memory].map(str::to_owned);
    let server = Embedded::start(&options.binary, &options.stores("embedded")?, &args)?;
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
    Ok((
        Ours {
            consolidated,
            live_bytes,
            log_bytes,
        },
        loaded,
    ))
}

async fn load_mariadb(options: &BenchOptions, data: &Path) -> Result<(f64, u64), BenchError> {
    let pool = format!("--innodb-buffer-pool-size={}", 2 * data_bytes(data));
    let args = [
        pool.as_str(),
        "--innodb-flush-log-at-trx-commit=1",
        "--innodb-log-file-size=1G",
    ];
    let server = MariaDb::start(&options.stores("mariadb")?, &args)
        .map_err(BenchError::io("start MariaDB"))?;
    let mut client = Client::connect_socket(&server.socket(), None).await?;
    client
        .execute(&format!("CREATE DATABASE {0}", load::SCHEMA))
        .await?;
    client.execute(&format!("USE {}", load::SCHEMA)).await?;
    let mut lineitem = 0.0;
    for table in TABLES {
        client.execute(&table.create()).await?;
        let file = load::file(data, table.name);
        let sql = format!(
            "LOAD DATA LOCAL INFILE '{}' INTO TABLE {} {LOAD_OPTIONS}",
            file.display(),
            table.name
        );
        let begin = Instant::now();
        client.execute(&sql).await?;
        lineitem = begin.elapsed().as_secs_f64(); // lineitem is the last table
        note(&format!("MariaDB: {} in {lineitem:.2} s", table.name));
    }
    client.execute("FLUSH TABLES").await?;
    Ok((
        lineitem,
        innodb_bytes(&server.data_dir().join(load::SCHEMA)),
    ))
}

/// Bytes of all `.ibd` files in a directory.
fn innodb_bytes(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    let is_table = |path: &Path| path.extension().is_some_and(|e| e == "ibd");
    entries
        .flatten()
        .filter(|entry| is_table(&entry.path()))
        .filter_map(|entry| entry.metadata().ok())
        .map(|metadata| metadata.len())
        .sum()
}
