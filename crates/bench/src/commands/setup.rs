//! What the bench commands share: options, data, clusters as in the paper's section VII.B.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use perigee_workload::{Client, Cluster, ClusterOptions, Link, WorkloadError, load, tpch};

/// How long Page Stores may take to consolidate what was loaded.
const CONSOLIDATION_LIMIT: Duration = Duration::from_secs(600);

/// What a bench command is asked to do.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// The `perigee` binary, for processes.
    pub binary: PathBuf,
    /// TPC-H scale factor.
    pub scale: f64,
    /// Directory for data and stores; data is kept between runs.
    pub dir: PathBuf,
    /// Interleaved pairs of runs for each query.
    pub pairs: usize,
}

/// What a cluster is made of besides a frontend and a Log Store.
pub struct ClusterShape<'a> {
    /// Directory of the stores below [`BenchOptions::dir`].
    pub name: &'a str,
    /// Number of Page Stores.
    pub page_stores: usize,
    /// Further arguments of each.
    pub page_store_args: &'a [String],
    /// Further arguments of the frontend.
    pub frontend_args: &'a [&'a str],
    /// What lies between the frontend and the stores.
    pub link: Option<Arc<Link>>,
}

/// Two Page Stores, as they are by default.
pub const TWO_PAGE_STORES: ClusterShape<'_> = ClusterShape {
    name: "cluster",
    page_stores: 2,
    page_store_args: &[],
    frontend_args: &[],
    link: None,
};

impl BenchOptions {
    /// Directory of the data files, made if they are not there.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn data(&self) -> Result<PathBuf, WorkloadError> {
        let data = self.dir.join(format!("tpch-{}", self.scale));
        load::generate(&data, self.scale, |table| note(&format!("data: {table}")))?;
        Ok(data)
    }

    /// An empty directory for stores.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn stores(&self, name: &str) -> Result<PathBuf, WorkloadError> {
        let dir = self.dir.join(name);
        match fs::remove_dir_all(&dir) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(WorkloadError::io(format!("remove {}", dir.display()))(e));
            }
            _ => {}
        }
        fs::create_dir_all(&dir).map_err(WorkloadError::io(format!("create {}", dir.display())))?;
        Ok(dir)
    }

    /// An empty cluster with a buffer pool of so many bytes.
    ///
    /// # Errors
    /// If a process does not start.
    pub fn cluster(&self, shape: &ClusterShape<'_>, pool: u64) -> Result<Cluster, WorkloadError> {
        let mut frontend_args = vec!["--buffer-pool".to_owned(), pool.to_string()];
        frontend_args.extend(shape.frontend_args.iter().map(|&arg| arg.to_owned()));
        Cluster::start(ClusterOptions {
            page_stores: shape.page_stores,
            frontend_args,
            page_store_args: shape.page_store_args.to_vec(),
            link: shape.link.clone(),
            ..ClusterOptions::new(self.binary.clone(), self.stores(shape.name)?)
        })
    }

    /// A cluster with the data loaded and consolidated; the buffer pool is 20 % of the data.
    ///
    /// # Errors
    /// If a process or the load fails.
    pub async fn loaded_cluster(
        &self,
        data: &Path,
        shape: &ClusterShape<'_>,
    ) -> Result<Cluster, WorkloadError> {
        self.loaded_cluster_in(data, shape, data_bytes(data) / 5)
            .await
    }

    /// The same with a buffer pool of so many bytes.
    ///
    /// # Errors
    /// If a process or the load fails.
    pub async fn loaded_cluster_in(
        &self,
        data: &Path,
        shape: &ClusterShape<'_>,
        pool: u64,
    ) -> Result<Cluster, WorkloadError> {
        let cluster = self.cluster(shape, pool)?;
        let mut client = cluster.client(None).await?;
        load::load(&mut client, data, |table, rows, time| {
            note(&format!(
                "load: {table}, {rows} rows in {:.2} s",
                time.as_secs_f64()
            ));
        })
        .await?;
        wait_until_consolidated(&mut client).await?;
        client.close().await?;
        Ok(cluster)
    }
}

/// Bytes of the data files.
#[must_use]
pub fn data_bytes(data: &Path) -> u64 {
    let files = tpch::TABLES
        .iter()
        .map(|table| load::file(data, table.name));
    files
        .filter_map(|file| fs::metadata(file).ok())
        .map(|metadata| metadata.len())
        .sum()
}

/// Says on standard error what is going on; standard output is for the figures.
pub fn note(text: &str) {
    eprintln!("{text}");
}

/// Waits until Page Stores have made page versions of all log.
///
/// # Errors
/// If they do not in ten minutes.
pub async fn wait_until_consolidated(client: &mut Client) -> Result<(), WorkloadError> {
    let begin = Instant::now();
    while status(client, "perigee_page_store_backlog_bytes").await? > 0 {
        if begin.elapsed() > CONSOLIDATION_LIMIT {
            return Err(WorkloadError::Process(
                "the Page Store does not consolidate".to_owned(),
            ));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// A status variable of the server.
///
/// # Errors
/// If it has none of this name.
pub async fn status(client: &mut Client, name: &str) -> Result<u64, WorkloadError> {
    Ok(client
        .number(&format!("SHOW GLOBAL STATUS LIKE '{name}'"))
        .await? as u64)
}
