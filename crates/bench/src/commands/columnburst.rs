//! `perigee-bench columnburst`: the paper's experiment on one machine. Its three queries with and without near-data
//! processing, and grouping in little memory of the Page Stores: by sorting, by hashing, and in the frontend.

use futures::future::BoxFuture;
use serde::Serialize;

use super::setup::{BenchOptions, TWO_PAGE_STORES};
use super::turns::{Way, take_turns};
use crate::pairs::{Comparison, geometric_mean};
use perigee_workload::{Client, Cluster, WorkloadError, load};

/// The queries of the paper's section 4.
const QUERIES: [usize; 3] = [6, 13, 14];

/// Memory of a Page Store for the groups of one request.
const MEMORIES: [u64; 3] = [64 << 10, 1 << 20, 16 << 20];

/// Groupings of lineitem, by the number of groups at scale 1, in no order but for the last, whose groups come
/// near each other.
const GROUPINGS: [(&str, &str); 5] = [
    (
        "7 groups",
        "SELECT l_shipmode, COUNT(*), SUM(l_quantity) FROM lineitem GROUP BY l_shipmode",
    ),
    (
        "2,526 groups",
        "SELECT l_shipdate, COUNT(*), SUM(l_quantity) FROM lineitem GROUP BY l_shipdate",
    ),
    (
        "10,000 groups",
        "SELECT l_suppkey, COUNT(*), SUM(l_quantity) FROM lineitem GROUP BY l_suppkey",
    ),
    (
        "200,000 groups",
        "SELECT l_partkey, COUNT(*), SUM(l_quantity) FROM lineitem GROUP BY l_partkey",
    ),
    (
        "1,500,000 groups in order",
        "SELECT l_orderkey DIV 1, COUNT(*), SUM(l_quantity) FROM lineitem GROUP BY l_orderkey DIV 1",
    ),
];

/// Who groups: the frontend, which gets the rows that it needs; storage by hashing; storage by sorting.
const WAYS: [&str; 3] = [
    "ndp_min_rows_per_group = 1e9, ndp_group_method = AUTO",
    "ndp_min_rows_per_group = 0, ndp_group_method = HASH",
    "ndp_min_rows_per_group = 0, ndp_group_method = SORT",
];

/// What the command measures.
#[derive(Clone, Debug, Serialize)]
pub struct ColumnBurstFigures {
    /// TPC-H scale factor.
    pub scale: f64,
    /// Time by sorting ÷ by hashing in the least memory, geometric mean over the groupings.
    pub sort_over_hash_time: f64,
    /// The same of the bytes.
    pub sort_over_hash_bytes: f64,
    /// Time of what the plan chooses ÷ the least time of the three ways, the worst of all groupings and memories.
    pub worst_choice: f64,
    /// The paper's queries.
    pub queries: Vec<BurstQuery>,
    /// Each grouping in each memory.
    pub groupings: Vec<GroupingFigures>,
}

/// A query of the paper, with near-data processing against without.
#[derive(Clone, Debug, Serialize)]
pub struct BurstQuery {
    /// Its number.
    pub query: usize,
    /// Bytes from the stores, without and with it.
    pub bytes: [u64; 2],
    /// Times, with it against without.
    pub on_over_off: Comparison,
}

/// A grouping in so much memory.
#[derive(Clone, Debug, Serialize)]
pub struct GroupingFigures {
    /// What is grouped.
    pub name: &'static str,
    /// Bytes of memory for the groups of one request.
    pub memory: u64,
    /// Bytes from the stores: grouped in the frontend, by hashing, by sorting, and as the plan chooses.
    pub bytes: [u64; 4],
    /// Least seconds of the same.
    pub seconds: [f64; 4],
    /// Times by sorting against by hashing.
    pub sort_over_hash: Comparison,
    /// Times of the better of both against the frontend's.
    pub storage_over_frontend: Comparison,
}

impl ColumnBurstFigures {
    /// The figures for a person.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = format!(
            "sorting over hashing in the least memory: time {:.2}, bytes {:.2}; worst choice {:.2}\n",
            self.sort_over_hash_time, self.sort_over_hash_bytes, self.worst_choice
        );
        for BurstQuery {
            query,
            bytes: [off, on],
            on_over_off,
        } in &self.queries
        {
            let ratio = on_over_off.ratio;
            out += &format!("Q{query}: {off} bytes without NDP, {on} with it, time {ratio:.2}\n");
        }
        for grouping in &self.groupings {
            let GroupingFigures {
                name,
                memory,
                bytes,
                seconds,
                sort_over_hash,
                ..
            } = grouping;
            let kib = memory >> 10;
            let ratio = sort_over_hash.ratio;
            out += &format!(
                "{name} in {kib} KiB (frontend, hash, sort, chosen): bytes {bytes:?}, \
                 seconds {seconds:.3?}, sort over hash {ratio:.2}\n"
            );
        }
        out
    }
}

/// Runs the command.
///
/// # Errors
/// If a process fails or answers differ.
pub fn columnburst(
    options: &BenchOptions,
) -> BoxFuture<'_, Result<ColumnBurstFigures, WorkloadError>> {
    Box::pin(async move {
        let data = options.data()?;
        let cluster = options.loaded_cluster(&data, &TWO_PAGE_STORES).await?;
        let mut client = cluster.client(Some(load::SCHEMA)).await?;
        let pairs = options.pairs.max(2);
        let mut queries = Vec::new();
        for (number, sql) in perigee_workload::tpch::queries(options.scale) {
            if QUERIES.contains(&number) {
                let figures = query(&cluster, &mut client, (number, &sql), pairs).await?;
                queries.push(figures);
            }
        }
        let mut groupings = Vec::new();
        for (name, sql) in GROUPINGS {
            for memory in MEMORIES {
                let contest = Contest { name, sql, memory };
                groupings.push(contest.run(&cluster, &mut client, pairs).await?);
            }
        }
        Ok(summary(options.scale, queries, groupings))
    })
}

fn summary(
    scale: f64,
    queries: Vec<BurstQuery>,
    groupings: Vec<GroupingFigures>,
) -> ColumnBurstFigures {
    let least = groupings.iter().filter(|g| g.memory == MEMORIES[0]);
    let times: Vec<_> = least.clone().map(|g| g.sort_over_hash.ratio).collect();
    let bytes = least.map(|g| g.bytes[2] as f64 / g.bytes[1] as f64);
    let regrets = groupings.iter().map(|g| {
        let [best @ .., chosen] = g.seconds;
        chosen / best.into_iter().fold(f64::INFINITY, f64::min)
    });
    ColumnBurstFigures {
        scale,
        sort_over_hash_time: geometric_mean(&times),
        sort_over_hash_bytes: geometric_mean(&bytes.collect::<Vec<_>>()),
        worst_choice: regrets.fold(1.0, f64::max),
        queries,
        groupings,
    }
}

/// Runs a query of the paper in pairs.
async fn query(
    cluster: &Cluster,
    client: &mut Client,
    (number, sql): (usize, &str),
    pairs: usize,
) -> Result<BurstQuery, WorkloadError> {
    let ways = ["OFF", "ON"].map(|mode| Way {
        set: format!("ndp_mode = {mode}, ndp_group_memory = DEFAULT"),
        sql: sql.to_owned(),
    });
    let runs = take_turns(cluster, client, &format!("Q{number}"), &ways, pairs).await?;
    let seconds: Vec<_> = runs
        .iter()
        .map(|run| (run[0].seconds, run[1].seconds))
        .collect();
    let last = runs.last().expect("there are two pairs at least");
    Ok(BurstQuery {
        query: number,
        bytes: [last[0].bytes, last[1].bytes],
        on_over_off: Comparison::of(&seconds),
    })
}

/// A grouping, and the memory for it.
struct Contest {
    name: &'static str,
    sql: &'static str,
    memory: u64,
}

impl Contest {
    async fn run(
        &self,
        cluster: &Cluster,
        client: &mut Client,
        pairs: usize,
    ) -> Result<GroupingFigures, WorkloadError> {
        let chosen = "ndp_min_rows_per_group = DEFAULT, ndp_group_method = AUTO";
        let ways = [WAYS[0], WAYS[1], WAYS[2], chosen].map(|way| Way {
            set: format!("ndp_mode = ON, ndp_group_memory = {}, {way}", self.memory),
            sql: self.sql.to_owned(),
        });
        let name = format!("{} in {} KiB", self.name, self.memory >> 10);
        let runs = take_turns(cluster, client, &name, &ways, pairs).await?;
        let last = runs.last().expect("there are two pairs at least");
        let seconds = [0, 1, 2, 3].map(|way| {
            let seconds = runs.iter().map(|run| run[way].seconds);
            seconds.fold(f64::INFINITY, f64::min)
        });
        let compared = |base: usize, other: usize| {
            let both = runs
                .iter()
                .map(|run| (run[base].seconds, run[other].seconds));
            Comparison::of(&both.collect::<Vec<_>>())
        };
        let better = if seconds[2] < seconds[1] { 2 } else { 1 };
        Ok(GroupingFigures {
            name: self.name,
            memory: self.memory,
            bytes: [0, 1, 2, 3].map(|way| last[way].bytes),
            seconds,
            sort_over_hash: compared(1, 2),
            storage_over_frontend: compared(0, better),
        })
    }
}
