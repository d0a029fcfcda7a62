//! The two servers: the same memory, the same durability, both on loopback.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use perigee_testkit::MariaDb;

use super::super::setup::{BenchOptions, wait_until_consolidated};
use perigee_workload::{Client, Embedded, WorkloadError};

/// Buffer pool of each server.
const BUFFER_POOL: &str = "512M";

/// A server under test; dropping it kills it.
pub(super) struct Server {
    pub name: &'static str,
    address: SocketAddr,
    kind: Kind,
}

enum Kind {
    Perigee(Embedded),
    MariaDb { _process: MariaDb },
}

impl Server {
    /// One process of ours that is everything.
    pub fn perigee(options: &BenchOptions) -> Result<Self, WorkloadError> {
        let args = ["--buffer-pool", "512MiB", "--pool", "256MiB"].map(str::to_owned);
        let process = Embedded::start(&options.binary, &options.stores("embedded")?, &args)?;
        Ok(Self {
            name: "Perigee",
            address: process.address(),
            kind: Kind::Perigee(process),
        })
    }

    /// MariaDB, which syncs its log at each commit.
    pub fn mariadb(options: &BenchOptions, dir: &str) -> Result<Self, WorkloadError> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .map_err(WorkloadError::io("find a free port"))?;
        let args = [
            "--skip-networking=0".to_owned(),
            format!("--bind-address={}", free.ip()),
            format!("--port={}", free.port()),
            format!("--innodb-buffer-pool-size={BUFFER_POOL}"),
            "--innodb-flush-log-at-trx-commit=1".to_owned(),
            "--innodb-log-file-size=1G".to_owned(),
        ];
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let process = MariaDb::start(&options.stores(dir)?, &args)
            .map_err(WorkloadError::io("start MariaDB"))?;
        Ok(Self {
            name: "MariaDB",
            address: free,
            kind: Kind::MariaDb { _process: process },
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A new connection.
    pub async fn client(&self, schema: Option<&str>) -> Result<Client, WorkloadError> {
        Client::connect(self.address, schema).await
    }

    /// Makes the schema that sysbench expects.
    pub async fn make_schema(&self) -> Result<(), WorkloadError> {
        let mut client = self.client(None).await?;
        client.execute("CREATE DATABASE sbtest").await?;
        client.close().await
    }

    /// Waits until the server has done what it does in the background.
    pub async fn settle(&self) -> Result<(), WorkloadError> {
        match &self.kind {
            Kind::Perigee(process) => {
                let mut client = process.client(None).await?;
                wait_until_consolidated(&mut client).await?;
                client.close().await
            }
            Kind::MariaDb { .. } => Ok(()),
        }
    }
}
