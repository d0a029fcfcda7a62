//! MariaDB with InnoDB and the same tables, as a peer.

use std::fs;
use std::path::Path;
use std::time::Instant;

use perigee_testkit::MariaDb;

use super::setup::{BenchOptions, data_bytes, note};
use perigee_workload::tpch::{LOAD_OPTIONS, TABLES};
use perigee_workload::{Client, WorkloadError, load};

/// A loaded server with a buffer pool that holds everything. It stops when it is dropped.
pub struct InnoDb {
    server: MariaDb,
    /// Connected, in the schema of the tables.
    pub client: Client,
    /// Seconds that LOAD DATA took for lineitem.
    pub lineitem_seconds: f64,
}

impl InnoDb {
    /// Starts a server and loads the tables.
    ///
    /// # Errors
    /// If MariaDB is not installed or fails.
    pub async fn load(options: &BenchOptions, data: &Path) -> Result<Self, WorkloadError> {
        let pool = format!("--innodb-buffer-pool-size={}", 2 * data_bytes(data));
        let args = [
            pool.as_str(),
            "--innodb-flush-log-at-trx-commit=1",
            "--innodb-log-file-size=1G",
        ];
        let server = MariaDb::start(&options.stores("mariadb")?, &args)
            .map_err(WorkloadError::io("start MariaDB"))?;
        let mut client = Client::connect_socket(&server.socket(), None).await?;
        let schema = load::SCHEMA;
        client.execute(&format!("CREATE DATABASE {schema}")).await?;
        client.execute(&format!("USE {schema}")).await?;
        let mut lineitem_seconds = 0.0;
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
            lineitem_seconds = begin.elapsed().as_secs_f64(); // lineitem is the last table
            note(&format!(
                "MariaDB: {} in {lineitem_seconds:.2} s",
                table.name
            ));
        }
        client.execute("FLUSH TABLES").await?;
        for table in TABLES {
            let sql = format!("ANALYZE TABLE {}", table.name);
            client.query(&sql).await?;
        }
        Ok(Self {
            server,
            client,
            lineitem_seconds,
        })
    }

    /// Bytes of the tables' files.
    pub fn bytes(&self) -> u64 {
        let Ok(entries) = fs::read_dir(self.server.data_dir().join(load::SCHEMA)) else {
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
}
