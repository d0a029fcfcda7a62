//! `perigee-bench yoursql`: the experiments of YourSQL on one machine. A selection of few rows and TPC-H Q2 with and without
//! near-data processing, over sizes of the buffer pool; and what the sampler estimates against what is true.

use futures::future::BoxFuture;
use serde::Serialize;

use super::setup::{BenchOptions, TWO_PAGE_STORES, data_bytes, note};
use super::turns::{Way, take_turns};
use crate::pairs::Comparison;
use perigee_workload::{Client, Cluster, WorkloadError, load, tpch};

/// Sizes of the buffer pool, in those of the other benchmarks, which is 20 % of the data (the paper's section 3, "Available
/// Memory Size").
const POOLS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];

/// A selection whose condition leaves out nearly all pages, as the paper's Query 1 does.
const SELECTION: &str = "SELECT l_orderkey, l_shipdate, l_linenumber FROM lineitem
    WHERE l_shipdate = '1995-01-17' AND l_comment LIKE '%special%packages%'";

/// The paper's join.
const JOIN: usize = 2;

/// Conditions of which statistics cannot tell how many rows they let through: on texts, on two columns that have to do with each
/// other, on what is computed.
const CONDITIONS: [(&str, &[&str]); 5] = [
    (
        "lineitem",
        &[
            "l_comment LIKE '%special%'",
            "l_comment LIKE '%the%'",
            "l_comment LIKE '%furiously%ideas%'",
            "l_comment LIKE 'a%s'",
            "l_comment NOT LIKE '%e%'",
            "l_shipdate < l_commitdate",
            "l_receiptdate > l_commitdate",
            "l_shipdate < l_commitdate AND l_commitdate < l_receiptdate",
            "l_receiptdate - INTERVAL 5 DAY < l_shipdate",
            "l_shipdate > '1998-01-01' AND l_receiptdate > '1998-01-01'",
            "l_shipdate < '1993-01-01' AND l_commitdate < '1993-01-01'",
            "l_returnflag = 'R' AND l_receiptdate < '1995-06-01'",
            "l_returnflag = 'N' AND l_linestatus = 'F'",
            "MONTH(l_shipdate) = 2",
            "YEAR(l_receiptdate) = 1994",
            "l_extendedprice / l_quantity < 1000",
            "l_extendedprice * (1 - l_discount) > 90000",
            "l_orderkey % 7 = 3",
            "l_partkey % 100 < 3",
            "LENGTH(l_comment) > 40",
            "UPPER(l_shipmode) = 'AIR'",
            "l_shipinstruct LIKE '%PERSON'",
            "l_quantity + l_linenumber > 50",
        ],
    ),
    (
        "orders",
        &[
            "o_comment LIKE '%special%requests%'",
            "o_comment LIKE '%pending%'",
            "o_comment NOT LIKE '%special%'",
            "o_orderpriority LIKE '%URGENT'",
            "o_orderstatus = 'F' AND o_orderdate < '1995-01-01'",
            "o_orderstatus = 'P' AND o_orderdate > '1995-03-01'",
            "LENGTH(o_comment) < 30",
            "o_totalprice / 1000 > 300",
            "o_custkey % 10 = 4",
            "QUARTER(o_orderdate) = 3",
            "SUBSTRING(o_clerk, 12) < '000000100'",
        ],
    ),
    (
        "part",
        &[
            "p_name LIKE '%green%'",
            "p_name LIKE '%almond%blue%'",
            "p_type LIKE '%BRASS'",
            "p_type NOT LIKE 'MEDIUM POLISHED%'",
            "p_size = 15 AND p_type LIKE '%BRASS'",
            "p_comment LIKE '%ly%'",
            "p_container LIKE 'SM%' AND p_size > 40",
        ],
    ),
    (
        "partsupp",
        &[
            "ps_comment LIKE '%furiously%'",
            "ps_comment LIKE '%Customer%Complaints%'",
            "ps_availqty * ps_supplycost > 5000000",
            "ps_availqty < ps_suppkey",
            "ps_suppkey % 4 = 1",
        ],
    ),
    (
        "customer",
        &[
            "c_comment LIKE '%special%'",
            "SUBSTRING(c_phone, 1, 2) IN ('13', '31', '23', '29')",
            "c_acctbal > 0 AND SUBSTRING(c_phone, 1, 2) = '20'",
            "c_mktsegment LIKE '%ING'",
        ],
    ),
];

/// An estimate is near if it is no more than so many points of a percentage off.
const NEAR: f64 = 2.0;

/// What the command measures.
#[derive(Clone, Debug, Serialize)]
pub struct YourSqlFigures {
    /// TPC-H scale factor.
    pub scale: f64,
    /// Of the estimates that a sample made, those that are not more than two points of a percentage off.
    pub near: f64,
    /// The largest error of an estimate, in points of a percentage.
    pub sampler_error: f64,
    /// The largest share of a table's pages that a sample looked at.
    pub sampled_pages: f64,
    /// The selection and the join, in each size of the buffer pool.
    pub queries: Vec<PoolFigures>,
    /// Each estimate.
    pub estimates: Vec<EstimateFigures>,
}

/// A query with near-data processing against without, in a buffer pool.
#[derive(Clone, Debug, Serialize)]
pub struct PoolFigures {
    /// The selection or the join.
    pub query: &'static str,
    /// Size of the buffer pool ÷ 20 % of the data.
    pub pool: f64,
    /// Bytes from the stores, without and with it.
    pub bytes: [u64; 2],
    /// Times, with it against without.
    pub on_over_off: Comparison,
}

/// What was estimated of a condition, and what is true.
#[derive(Clone, Debug, Serialize)]
pub struct EstimateFigures {
    /// The table.
    pub table: &'static str,
    /// The condition.
    pub condition: &'static str,
    /// Pages of the sample; none if statistics were thought to be enough.
    pub pages: Option<u64>,
    /// Share of the rows, in percent, as estimated.
    pub estimated: f64,
    /// The true one.
    pub real: f64,
}

impl EstimateFigures {
    /// Points of a percentage between both.
    fn error(&self) -> f64 {
        (self.estimated - self.real).abs()
    }
}

impl YourSqlFigures {
    /// The figures for a person.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = format!(
            "estimates from samples within {NEAR} points: {:.1} %, at worst {:.2} points off, from {:.2} % of the pages at most\n",
            100.0 * self.near,
            self.sampler_error,
            100.0 * self.sampled_pages,
        );
        for figures in &self.queries {
            let PoolFigures {
                query,
                pool,
                bytes: [off, on],
                on_over_off: Comparison {
                    ratio, low, high, ..
                },
            } = figures;
            out += &format!(
                "{query}, pool {pool} ×: time {ratio:.3} [{low:.3}, {high:.3}], {off} bytes without NDP, {on} with it\n"
            );
        }
        for estimate in &self.estimates {
            let EstimateFigures {
                table,
                condition,
                pages,
                estimated,
                real,
            } = estimate;
            let from = match pages {
                Some(pages) => format!("from {pages} pages"),
                None => "without a sample".to_owned(),
            };
            out +=
                &format!("{table}, {condition}: {estimated:.2} % {from}, in truth {real:.2} %\n");
        }
        out
    }
}

/// Runs the command.
///
/// # Errors
/// If a process fails or answers differ.
pub fn yoursql(options: &BenchOptions) -> BoxFuture<'_, Result<YourSqlFigures, WorkloadError>> {
    Box::pin(async move {
        let data = options.data()?;
        let (mut queries, mut samples) = (Vec::new(), None);
        for pool in POOLS {
            note(&format!("a buffer pool of {pool} ×"));
            let bytes = data_bytes(&data) as f64 / 5.0 * pool;
            let cluster = options
                .loaded_cluster_in(&data, &TWO_PAGE_STORES, bytes as u64)
                .await?;
            let mut client = cluster.client(Some(load::SCHEMA)).await?;
            if samples.is_none() {
                samples = Some(estimates(&mut client).await?);
            }
            let join = tpch::queries(options.scale).into_iter();
            let join = join
                .filter(|(number, _)| *number == JOIN)
                .map(|(_, sql)| sql);
            let join = join.collect::<String>();
            for (query, sql) in [("selection", SELECTION), ("Q2", &join)] {
                let pairs = options.pairs.max(2);
                queries.push(compare(&cluster, &mut client, (query, sql), pool, pairs).await?);
            }
            client.close().await?;
        }
        let (estimates, sampled_pages) = samples.unwrap_or_default();
        Ok(summary(options.scale, queries, estimates, sampled_pages))
    })
}

fn summary(
    scale: f64,
    queries: Vec<PoolFigures>,
    estimates: Vec<EstimateFigures>,
    sampled_pages: f64,
) -> YourSqlFigures {
    let sampled: Vec<_> = estimates.iter().filter(|e| e.pages.is_some()).collect();
    let near = sampled.iter().filter(|e| e.error() <= NEAR).count();
    YourSqlFigures {
        scale,
        near: near as f64 / sampled.len().max(1) as f64,
        sampler_error: sampled.iter().map(|e| e.error()).fold(0.0, f64::max),
        sampled_pages,
        queries,
        estimates,
    }
}

/// Runs a query in pairs.
async fn compare(
    cluster: &Cluster,
    client: &mut Client,
    (query, sql): (&'static str, &str),
    pool: f64,
    pairs: usize,
) -> Result<PoolFigures, WorkloadError> {
    let ways = ["OFF", "ON"].map(|mode| Way {
        set: format!("ndp_mode = {mode}"),
        sql: sql.to_owned(),
    });
    let runs = take_turns(cluster, client, query, &ways, pairs).await?;
    let seconds: Vec<_> = runs
        .iter()
        .map(|run| (run[0].seconds, run[1].seconds))
        .collect();
    let last = runs.last().expect("there are two pairs at least");
    Ok(PoolFigures {
        query,
        pool,
        bytes: [last[0].bytes, last[1].bytes],
        on_over_off: Comparison::of(&seconds),
    })
}

/// What the plans of the conditions expect, and the largest share of a table's pages that a sample looked at.
async fn estimates(client: &mut Client) -> Result<(Vec<EstimateFigures>, f64), WorkloadError> {
    let (mut out, mut most) = (Vec::new(), 0.0_f64);
    for (table, conditions) in CONDITIONS {
        let rows = client
            .number(&format!("SELECT COUNT(*) FROM {table}"))
            .await?;
        let bytes = format!(
            "SELECT data_length FROM information_schema.tables
             WHERE table_schema = DATABASE() AND table_name = '{table}'"
        );
        let leaves = client.number(&bytes).await? / perigee_types::PAGE_SIZE as f64;
        for &condition in conditions {
            note(condition);
            let from = format!("FROM {table} WHERE {condition}");
            let plan = client.query(&format!("EXPLAIN SELECT * {from}")).await?;
            let (estimated, pages) = plan.first().map(|line| estimate(line)).unwrap_or_default();
            let passed = client.number(&format!("SELECT COUNT(*) {from}")).await?;
            most = most.max(pages.unwrap_or(0) as f64 / leaves.max(1.0));
            out.push(EstimateFigures {
                table,
                condition,
                pages,
                estimated,
                real: 100.0 * passed / rows,
            });
        }
    }
    Ok((out, most))
}

/// The share of rows, in percent, that a line of EXPLAIN expects, and the pages of the sample that it has it from.
fn estimate(line: &[Option<String>]) -> (f64, Option<u64>) {
    let [.., filtered, extra] = line else {
        return (0.0, None);
    };
    let filtered = filtered.as_deref().and_then(|text| text.parse().ok());
    let sample = extra
        .as_deref()
        .and_then(|text| text.split("a sample of ").nth(1));
    let pages = sample.and_then(|text| text.split(' ').next()?.parse().ok());
    (filtered.unwrap_or(0.0), pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_explain_says_what_a_sample_said() {
        let line = |extra: &str| vec![None, Some("12.50".to_owned()), Some(extra.to_owned())];
        let sampled = "Using where (x); rows estimated from a sample of 64 pages, 3 with a match";
        assert_eq!(estimate(&line(sampled)), (12.5, Some(64)));
        assert_eq!(estimate(&line("Using where (x)")), (12.5, None));
    }
}
