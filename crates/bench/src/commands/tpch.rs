//! `perigee-bench tpch`: the paper's experiment of section VII.B and C on one machine.

use std::path::Path;

use futures::future::BoxFuture;
use serde::Serialize;

use super::pq::{self, PqFigures};
use super::setup::{BenchOptions, TWO_PAGE_STORES, note};
use crate::pairs::Comparison;
use crate::parquet::Parquet;
use perigee_workload::sequence::{Named, expect_same, named, sequence};
use perigee_workload::{WorkloadError, Client, Cluster, Cost, answers, load, measure, report};

/// Fewer bytes than this share of the bytes without NDP count as a gain.
const GAIN: f64 = 0.95;

/// The two contenders.
const MODES: [&str; 2] = ["ndp_mode = OFF", "ndp_mode = ON"];

/// A scan of all rows of the largest table that storage filters and projects: every row crosses the
/// network, and the frontend keeps none of them.
const WHOLE_SCAN: &str = "SELECT COUNT(DISTINCT l_quantity) FROM lineitem WHERE l_discount < 0.11";

/// A scan of a table that is in the buffer pool, so that storage is asked for nothing.
const REGULAR_SCAN: &str = "SELECT SUM(p_size), MAX(p_retailprice) FROM part";

/// Pairs of runs of a query on frontends that have just started.
const COLD_PAIRS: usize = 3;

/// Pairs of [`REGULAR_SCAN`], of which each run takes some milliseconds: what is looked for is a difference
/// of one per cent.
const REGULAR_PAIRS: usize = 1000;

/// What the command measures.
#[derive(Clone, Debug, Serialize)]
pub struct TpchFigures {
    /// TPC-H scale factor.
    pub scale: f64,
    /// Bytes shipped over the 22 queries, NDP on ÷ off, each mode from a cold start.
    pub bytes_ratio: f64,
    /// CPU time of the frontend over the 22 queries, on ÷ off.
    pub frontend_cpu_ratio: f64,
    /// Time of the 22 queries, on ÷ off.
    pub time_ratio: f64,
    /// Queries that gain: at least 5 % fewer bytes and not slower, or an index plan at least as
    /// fast.
    pub gaining: usize,
    /// The worst ratio of times on ÷ off among queries that are slower beyond doubt, warm or cold, else 1.
    pub worst_slowdown: f64,
    /// Time of the 22 queries without NDP ÷ DataFusion over Parquet; both in sequence, once, from a
    /// cold start.
    pub off_vs_datafusion_parquet: f64,
    /// Most memory the frontend's process had, in bytes.
    pub frontend_peak_memory: u64,
    /// Bytes by which an NDP scan of all rows of lineitem raises the memory of a fresh frontend.
    pub ndp_scan_memory: u64,
    /// Times of a scan without near-data processing: where it is allowed, on those where it is
    /// switched off.
    pub regular_scan: Comparison,
    /// Time of Q1 and Q6 with two workers and two store threads ÷ with one and one, geometric mean.
    pub pq_two_over_one: f64,
    /// The same for each.
    pub pq: Vec<PqFigures>,
    /// Each query.
    pub queries: Vec<QueryFigures>,
}

/// Figures of one query.
#[derive(Clone, Debug, Serialize)]
pub struct QueryFigures {
    /// Its number.
    pub query: usize,
    /// Cost without NDP, cold sequence.
    pub off: Cost,
    /// Cost with NDP, cold sequence.
    pub on: Cost,
    /// Times of interleaved warm pairs, on against off.
    pub slowdown: Comparison,
    /// The query on frontends that have just started.
    pub cold: ColdFigures,
    /// Seconds of DataFusion over Parquet, in one sequence too.
    pub datafusion_parquet: f64,
    /// The query gains from NDP.
    pub gains: bool,
}

/// Figures of a query that finds nothing in the buffer pool, in whichever mode.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ColdFigures {
    /// Bytes from the stores without NDP, and with it.
    pub bytes: [u64; 2],
    /// Times of interleaved pairs, on against off.
    pub slowdown: Comparison,
}

impl QueryFigures {
    /// Ratios of times on ÷ off, warm and cold, where NDP is slower beyond doubt.
    fn slowdowns(&self) -> impl Iterator<Item = f64> {
        let both = [self.slowdown, self.cold.slowdown];
        both.into_iter()
            .filter(Comparison::is_slower)
            .map(|slowdown| slowdown.ratio)
    }
}

/// Runs the command.
///
/// # Errors
/// If a process fails or answers differ.
pub fn tpch(options: &BenchOptions) -> BoxFuture<'_, Result<TpchFigures, WorkloadError>> {
    Box::pin(async move {
        let data = options.data()?;
        let mut cluster = options.loaded_cluster(&data, &TWO_PAGE_STORES).await?;
        let queries = perigee_workload::tpch::queries(options.scale);
        let args = cluster.frontend_args().to_vec();

        cluster.restart_frontend_with(args.clone())?;
        let ndp_scan_memory = scan_memory(&cluster).await?;
        cluster.restart_frontend_with(args.clone())?;
        let named = named(&queries);
        let off = in_mode(&cluster, "OFF", &named).await?;
        cluster.restart_frontend_with(args.clone())?;
        let on = in_mode(&cluster, "ON", &named).await?;
        expect_same(&named, "the answer without NDP", &on, &off)?;
        let peer = peer_sequence(&data, &queries).await?;
        let mut colds = Vec::new();
        for (name, sql) in &named {
            note(&format!("cold pairs: {name}"));
            colds.push(cold(&mut cluster, &args, sql).await?);
        }
        let mut client = cluster.client(Some(load::SCHEMA)).await?;
        let mut figures = Vec::new();
        for (i, (number, sql)) in queries.iter().enumerate() {
            note(&format!("pairs: Q{number}"));
            let slowdown = Comparison::of(&interleave(&mut client, sql, options.pairs).await?);
            let datafusion_parquet = peer[i];
            let (off, on) = (off[i].1, on[i].1);
            let gains = gains(&mut client, sql, &colds[i], &slowdown).await?;
            figures.push(QueryFigures {
                query: *number,
                off,
                on,
                slowdown,
                cold: colds[i],
                datafusion_parquet,
                gains,
            });
        }
        let regular_scan = regular_scan(&mut client).await?;
        let memory = [cluster.frontend_memory()?.1, ndp_scan_memory];
        drop(cluster);
        let pq = pq::pq(options, &data).await?;
        Ok(summary(options.scale, memory, (regular_scan, pq), figures))
    })
}

/// A client of a frontend that has run what the first query of a process needs once, and nothing else.
async fn first_client(cluster: &Cluster, variable: &str) -> Result<Client, WorkloadError> {
    let mut client = cluster.client(Some(load::SCHEMA)).await?;
    client.execute(&format!("SET {variable}")).await?;
    let warm = "SELECT COUNT(DISTINCT n_name) FROM nation WHERE n_nationkey < 9";
    client.query(warm).await?;
    Ok(client)
}

/// A query on frontends that have just started, one for each run.
async fn cold(
    cluster: &mut Cluster,
    args: &[String],
    sql: &str,
) -> Result<ColdFigures, WorkloadError> {
    let (mut bytes, mut times) = ([0; 2], Vec::new());
    for pair in 0..COLD_PAIRS {
        let mut seconds = [0.0; 2];
        for mode in in_turn(pair) {
            cluster.restart_frontend_with(args.to_vec())?;
            let mut client = first_client(cluster, MODES[mode]).await?;
            let (_, cost) = measure(cluster, &mut client, sql).await?;
            (bytes[mode], seconds[mode]) = (cost.bytes, cost.seconds);
            client.close().await?;
        }
        times.push((seconds[0], seconds[1]));
    }
    let slowdown = Comparison::of(&times);
    Ok(ColdFigures { bytes, slowdown })
}

/// The modes' places in [`MODES`]. Which one goes first changes from pair to pair, so that neither always
/// finds what the other warmed.
fn in_turn(pair: usize) -> [usize; 2] {
    if pair.is_multiple_of(2) {
        [0, 1]
    } else {
        [1, 0]
    }
}

/// What [`WHOLE_SCAN`] adds to the memory of a frontend that has just started.
async fn scan_memory(cluster: &Cluster) -> Result<u64, WorkloadError> {
    let mut client = first_client(cluster, "ndp_min_pages = 0").await?;
    let before = cluster.frontend_memory()?.1;
    client.query(WHOLE_SCAN).await?;
    client.close().await?;
    Ok(cluster.frontend_memory()?.1.saturating_sub(before))
}

/// All queries one after the other in one mode, on a frontend that has just started.
async fn in_mode(
    cluster: &Cluster,
    mode: &str,
    queries: &[Named],
) -> Result<Vec<(String, Cost)>, WorkloadError> {
    note(&format!("NDP {mode}"));
    sequence(cluster, &[format!("ndp_mode = {mode}")], queries, note).await
}

/// Seconds of a query without near-data processing and with it, in turn.
async fn interleave(
    client: &mut Client,
    sql: &str,
    pairs: usize,
) -> Result<Vec<(f64, f64)>, WorkloadError> {
    let mut times = Vec::new();
    for pair in 0..pairs.max(2) {
        let mut pair_times = [0.0; 2];
        for mode in in_turn(pair) {
            client.execute(&format!("SET {}", MODES[mode])).await?;
            let begin = std::time::Instant::now();
            client.query(sql).await?;
            pair_times[mode] = begin.elapsed().as_secs_f64();
        }
        times.push((pair_times[0], pair_times[1]));
    }
    client.execute("SET ndp_mode = ON").await?;
    Ok(times)
}

/// What ordinary scans pay for near-data processing being there.
async fn regular_scan(client: &mut Client) -> Result<Comparison, WorkloadError> {
    note("pairs: a scan of what is in the buffer pool");
    client.execute("SET ndp_mode = OFF").await?;
    client.query(REGULAR_SCAN).await?;
    client.execute("SET ndp_mode = ON").await?;
    let plan = client.query(&format!("EXPLAIN {REGULAR_SCAN}")).await?;
    let plan = answers::to_text(&plan);
    if plan.contains("Using pushed NDP") {
        let text = format!("a table in the buffer pool is scanned in storage:\n{plan}");
        return Err(WorkloadError::Unexpected(text));
    }
    let times = interleave(client, REGULAR_SCAN, REGULAR_PAIRS).await?;
    Ok(Comparison::by_median(&times))
}

/// Seconds of the queries one after the other by a peer that has just opened its files.
async fn peer_sequence(data: &Path, queries: &[(usize, String)]) -> Result<Vec<f64>, WorkloadError> {
    Parquet::write(data).await?;
    let peer = Parquet::open(data, cores()).await?;
    let mut times = Vec::new();
    for (number, sql) in queries {
        let (_, seconds) = peer.run(sql).await?;
        note(&format!(
            "DataFusion over Parquet: Q{number} {seconds:.3} s"
        ));
        times.push(seconds);
    }
    Ok(times)
}

/// At least 5 % fewer bytes from a cold start and not slower, or a plan by index for which the pairs do not
/// show that it is slower.
async fn gains(
    client: &mut Client,
    sql: &str,
    cold: &ColdFigures,
    slowdown: &Comparison,
) -> Result<bool, WorkloadError> {
    if slowdown.is_slower() || cold.slowdown.is_slower() {
        return Ok(false);
    }
    let [off, on] = cold.bytes;
    if (on as f64) <= GAIN * off as f64 {
        return Ok(true);
    }
    let plan = answers::to_text(&client.query(&format!("EXPLAIN {sql}")).await?);
    let by_index = ["\tref\t", "\teq_ref\t", "\trange\t"]
        .iter()
        .any(|ty| plan.contains(ty));
    Ok(by_index && slowdown.low <= 1.0)
}

fn summary(
    scale: f64,
    memory: [u64; 2],
    (regular_scan, pq): (Comparison, Vec<PqFigures>),
    queries: Vec<QueryFigures>,
) -> TpchFigures {
    let (mut off, mut on) = (Cost::default(), Cost::default());
    for query in &queries {
        off.add(&query.off);
        on.add(&query.on);
    }
    let slower = queries.iter().flat_map(QueryFigures::slowdowns);
    TpchFigures {
        scale,
        bytes_ratio: on.bytes as f64 / off.bytes as f64,
        frontend_cpu_ratio: on.cpu / off.cpu,
        time_ratio: on.seconds / off.seconds,
        gaining: queries.iter().filter(|q| q.gains).count(),
        worst_slowdown: slower.fold(1.0, f64::max),
        off_vs_datafusion_parquet: off.seconds
            / queries.iter().map(|q| q.datafusion_parquet).sum::<f64>(),
        frontend_peak_memory: memory[0],
        ndp_scan_memory: memory[1],
        regular_scan,
        pq_two_over_one: pq::two_over_one(&pq),
        pq,
        queries,
    }
}

impl TpchFigures {
    /// The figures as a table for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = format!(
            "bytes on/off {:.3}, frontend CPU on/off {:.3}, time on/off {:.3}, {} queries gain, \
             worst slowdown {:.2}, off against DataFusion over Parquet {:.2}, two workers over one {:.2}, \
             a regular scan {:.3} [{:.3}, {:.3}]\n",
            self.bytes_ratio,
            self.frontend_cpu_ratio,
            self.time_ratio,
            self.gaining,
            self.worst_slowdown,
            self.off_vs_datafusion_parquet,
            self.pq_two_over_one,
            self.regular_scan.ratio,
            self.regular_scan.low,
            self.regular_scan.high
        );
        for q in &self.queries {
            let (bytes, cpu) = (
                report::reduction(q.off.bytes as f64, q.on.bytes as f64),
                report::reduction(q.off.cpu, q.on.cpu),
            );
            out += &format!(
                "Q{:<3} bytes {:>6.1} %  CPU {:>6.1} %  time off {:.3} s on {:.3} s  pairs {:.2} \
                 [{:.2}, {:.2}]  cold bytes {:.3}, pairs {:.2}  DataFusion {:.3} s{}\n",
                q.query,
                -bytes,
                -cpu,
                q.off.seconds,
                q.on.seconds,
                q.slowdown.ratio,
                q.slowdown.low,
                q.slowdown.high,
                q.cold.bytes[1] as f64 / q.cold.bytes[0].max(1) as f64,
                q.cold.slowdown.ratio,
                q.datafusion_parquet,
                if q.gains { "  gains" } else { "" }
            );
        }
        out
    }
}

/// Partitions of a query: one a core.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}
