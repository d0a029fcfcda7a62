//! What one run of a query costs: bytes from the stores, pages, CPU of the frontend, time.

use std::time::{Duration, Instant};

use crate::{Client, Cluster, Rows, WorkloadError};

/// Status variables of the frontend that a measurement reads.
const BYTES: &str = "perigee_page_store_bytes_received";
const PAGES: &str = "perigee_pages_shipped";
const PUSHED: &str = "ndp_pages_pushed";

/// Cost of one run.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Cost {
    /// Bytes that crossed the sockets from the Page Stores to the frontend.
    pub bytes: u64,
    /// Whole pages shipped.
    pub pages: u64,
    /// Pages reduced in storage.
    pub pages_pushed: u64,
    /// CPU time of the frontend's process, by the kernel, in seconds.
    pub cpu: f64,
    /// Time until the last row had arrived at the client, in seconds.
    pub seconds: f64,
}

impl Cost {
    /// Adds another run.
    pub fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.pages += other.pages;
        self.pages_pushed += other.pages_pushed;
        self.cpu += other.cpu;
        self.seconds += other.seconds;
    }
}

/// Runs a query and returns its rows and what it cost.
///
/// # Errors
/// What the server answers, or a process that is gone.
pub async fn measure(
    cluster: &Cluster,
    client: &mut Client,
    sql: &str,
) -> Result<(Rows, Cost), WorkloadError> {
    let before = counters(client).await?;
    let cpu = cluster.frontend_cpu()?;
    let begin = Instant::now();
    let rows = client.query(sql).await?;
    let seconds = begin.elapsed();
    let cpu = cluster.frontend_cpu()?.saturating_sub(cpu);
    let after = counters(client).await?;
    Ok((rows, cost(before, after, cpu, seconds)))
}

fn cost(before: [u64; 3], after: [u64; 3], cpu: Duration, time: Duration) -> Cost {
    let [bytes, pages, pages_pushed] = [0, 1, 2].map(|i| after[i] - before[i]);
    Cost {
        bytes,
        pages,
        pages_pushed,
        cpu: cpu.as_secs_f64(),
        seconds: time.as_secs_f64(),
    }
}

async fn counters(client: &mut Client) -> Result<[u64; 3], WorkloadError> {
    let mut out = [0; 3];
    for (value, name) in out.iter_mut().zip([BYTES, PAGES, PUSHED]) {
        *value = client
            .number(&format!("SHOW GLOBAL STATUS LIKE '{name}'"))
            .await? as u64;
    }
    Ok(out)
}
