//! `perigee-bench tpch`: the paper's experiment of section VII.B and C on one machine.

use std::path::Path;

use futures::future::BoxFuture;
use serde::Serialize;

use super::pq::{self, PqFigures};
use super::setup::{BenchOptions, TWO_PAGE_STORES, note};
use crate::pairs::Comparison;
use crate::parquet::Parquet;
use perigee_workload::sequence::{Named, expect_same, named, sequence};
use perigee_workload::{
    Client, Cluster, Cost, Role, WorkloadError, answers, load, measure, report,
};

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
const COLD_PAIRS: usize = 5;

/// Time that a query's pairs may take, if they are more than were asked for.
const PAIRS_SECONDS: f64 = 20.0;

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
    /// The same of the sequences in which off came first, and of those in which on did.
    pub time_ratio_by_order: [f64; 2],
    /// Queries that gain: at least 5 % fewer bytes and not slower, or an index plan at least as
    /// fast.
    pub gaining: usize,
    /// The greatest upper end of the 95 % intervals of the ratios of times on ÷ off, warm and cold.
    pub worst_slowdown: f64,
    /// Queries that are slower with NDP beyond doubt, warm or cold.
    pub slower: Vec<usize>,
    /// Queries whose plans differ between off and on: other accesses, or in another order.
    pub other_plans: Vec<usize>,
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
    /// Time of Q1 and Q6 with two workers ÷ with one, geometric mean; the store has two threads.
    pub pq_two_over_one: f64,
    /// The same with two workers and two store threads ÷ with one and one.
    pub pq_both_two_over_one: f64,
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
    /// Cost without NDP, of both sequences from a cold start.
    pub off: Cost,
    /// Cost with NDP.
    pub on: Cost,
    /// The accesses of the plans, without NDP and with it: `table type key` of each.
    pub plans: [String; 2],
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
    /// Times on against off, warm and cold.
    fn slowdowns(&self) -> [&Comparison; 2] {
        [&self.slowdown, &self.cold.slowdown]
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
        let sequences = sequences(&mut cluster, &args, &named).await?;
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
            let [off, on] = [0, 1].map(|mode| {
                let mut sum = sequences[0][mode][i];
                sum.add(&sequences[1][mode][i]);
                sum
            });
            let pairs = pairs_of(options.pairs, (off.seconds + on.seconds) / 2.0);
            let slowdown = Comparison::of(&interleave(&mut client, sql, pairs).await?);
            let datafusion_parquet = peer[i];
            let plans = plans(&mut client, sql).await?;
            let gains = gains(&mut client, sql, &colds[i], &slowdown).await?;
            figures.push(QueryFigures {
                query: *number,
                off,
                on,
                plans,
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
        let time_ratio_by_order = sequences.map(|modes| {
            let [off, on] = modes.map(|costs| costs.iter().map(|cost| cost.seconds).sum::<f64>());
            on / off
        });
        let others = Others {
            memory,
            regular_scan,
            pq,
            time_ratio_by_order,
        };
        Ok(summary(options.scale, others, figures))
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

/// Costs of the queries, without NDP and with it.
type Modes = [Vec<Cost>; 2];

/// The queries one after the other without NDP, then with it; then the other way round; each time from a cold start.
async fn sequences(
    cluster: &mut Cluster,
    args: &[String],
    queries: &[Named],
) -> Result<[Modes; 2], WorkloadError> {
    let mut all = [Modes::default(), Modes::default()];
    let mut expected = None;
    for (turn, of_turn) in all.iter_mut().enumerate() {
        for mode in in_turn(turn) {
            restart(cluster, args)?;
            let answers = in_mode(cluster, MODES[mode], queries).await?;
            of_turn[mode] = answers.iter().map(|(_, cost)| *cost).collect();
            let expected = expected.get_or_insert_with(|| answers.clone());
            expect_same(queries, "the answer in the other mode", &answers, expected)?;
        }
    }
    Ok(all)
}

/// Starts all that keeps pages anew: frontend and Page Stores.
fn restart(cluster: &mut Cluster, args: &[String]) -> Result<(), WorkloadError> {
    for number in 0..TWO_PAGE_STORES.page_stores {
        cluster.stop(Role::PageStore(number))?;
        cluster.restart(Role::PageStore(number))?;
    }
    cluster.restart_frontend_with(args.to_vec())
}

/// Pairs of a query that takes so long in both modes together: more of short ones.
fn pairs_of(least: usize, seconds: f64) -> usize {
    ((PAIRS_SECONDS / seconds.max(0.01)) as usize).clamp(least, 4 * least)
}

/// The accesses of a query's plans, without NDP and with it.
async fn plans(client: &mut Client, sql: &str) -> Result<[String; 2], WorkloadError> {
    let mut plans = [String::new(), String::new()];
    for (plan, mode) in plans.iter_mut().zip(MODES) {
        client.execute(&format!("SET {mode}")).await?;
        let rows = client.query(&format!("EXPLAIN {sql}")).await?;
        let cell = |row: &[Option<String>], at: usize| row.get(at).cloned().flatten();
        let accesses = rows.iter().map(|row| {
            let cells = [2, 4, 6].map(|at| cell(row, at).unwrap_or_else(|| "-".to_owned()));
            cells.join(" ")
        });
        *plan = accesses.collect::<Vec<_>>().join(", ");
    }
    Ok(plans)
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
            restart(cluster, args)?;
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
    note(mode);
    sequence(cluster, &[mode.to_owned()], queries, note).await
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
async fn peer_sequence(
    data: &Path,
    queries: &[(usize, String)],
) -> Result<Vec<f64>, WorkloadError> {
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

/// What is measured beside the queries.
struct Others {
    /// Of the frontend at most, and what an NDP scan adds.
    memory: [u64; 2],
    regular_scan: Comparison,
    pq: Vec<PqFigures>,
    time_ratio_by_order: [f64; 2],
}

fn summary(scale: f64, others: Others, queries: Vec<QueryFigures>) -> TpchFigures {
    let Others {
        memory,
        regular_scan,
        pq,
        time_ratio_by_order,
    } = others;
    let (mut off, mut on) = (Cost::default(), Cost::default());
    for query in &queries {
        off.add(&query.off);
        on.add(&query.on);
    }
    let upper_ends = queries
        .iter()
        .flat_map(QueryFigures::slowdowns)
        .map(|of| of.high);
    let those = |test: fn(&QueryFigures) -> bool| -> Vec<usize> {
        let found = queries.iter().filter(|query| test(query));
        found.map(|query| query.query).collect()
    };
    TpchFigures {
        scale,
        bytes_ratio: on.bytes as f64 / off.bytes as f64,
        frontend_cpu_ratio: on.cpu / off.cpu,
        time_ratio: on.seconds / off.seconds,
        gaining: queries.iter().filter(|q| q.gains).count(),
        time_ratio_by_order,
        worst_slowdown: upper_ends.fold(0.0, f64::max),
        slower: those(|query| query.slowdowns().into_iter().any(Comparison::is_slower)),
        other_plans: those(|query| query.plans[0] != query.plans[1]),
        off_vs_datafusion_parquet: off.seconds
            / 2.0
            / queries.iter().map(|q| q.datafusion_parquet).sum::<f64>(),
        frontend_peak_memory: memory[0],
        ndp_scan_memory: memory[1],
        regular_scan,
        pq_two_over_one: pq::mean(&pq, |of| &of.two_over_one),
        pq_both_two_over_one: pq::mean(&pq, |of| &of.both_two_over_one),
        pq,
        queries,
    }
}

impl TpchFigures {
    /// The figures as a table for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = format!(
            "bytes on/off {:.3}, frontend CPU on/off {:.3}, time on/off {:.3} (off first {:.3}, on first {:.3}), \
             {} queries gain, worst slowdown {:.2}, slower beyond doubt {:?}, other plans {:?}, off against DataFusion \
             over Parquet {:.2}, two workers over one {:.2}, and two store threads over one {:.2}, \
             a regular scan {:.3} [{:.3}, {:.3}]\n",
            self.bytes_ratio,
            self.frontend_cpu_ratio,
            self.time_ratio,
            self.time_ratio_by_order[0],
            self.time_ratio_by_order[1],
            self.gaining,
            self.worst_slowdown,
            self.slower,
            self.other_plans,
            self.off_vs_datafusion_parquet,
            self.pq_two_over_one,
            self.pq_both_two_over_one,
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
                 [{:.2}, {:.2}]  cold bytes {:.3}, pairs {:.2} [{:.2}, {:.2}]  DataFusion {:.3} s{}\n",
                q.query,
                -bytes,
                -cpu,
                q.off.seconds / 2.0,
                q.on.seconds / 2.0,
                q.slowdown.ratio,
                q.slowdown.low,
                q.slowdown.high,
                q.cold.bytes[1] as f64 / q.cold.bytes[0].max(1) as f64,
                q.cold.slowdown.ratio,
                q.cold.slowdown.low,
                q.cold.slowdown.high,
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
