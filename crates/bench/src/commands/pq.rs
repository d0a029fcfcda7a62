//! Parallel query on top of NDP (taurus-ndp section VII.D): one worker in the frontend and one NDP
//! thread in the Page Store against two and two.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use super::setup::{BenchOptions, ClusterShape, note};
use crate::pairs::{Comparison, geometric_mean};
use perigee_workload::{WorkloadError, Client, Cluster, answers, load};

/// Queries that storage does nearly all of.
const QUERIES: [usize; 2] = [1, 6];

/// Pairs that are not counted: the Page Stores read the pages, and compile.
const WARMING: usize = 2;

/// Times of a query, two workers and two store threads against one and one.
#[derive(Clone, Debug, Serialize)]
pub struct PqFigures {
    /// The query's number.
    pub query: usize,
    /// Interleaved pairs.
    pub two_over_one: Comparison,
}

/// A cluster whose scans have so many workers and store threads.
struct Degree {
    /// Stops its processes when it goes.
    _cluster: Cluster,
    client: Client,
}

impl Degree {
    async fn start(options: &BenchOptions, data: &Path, degree: usize) -> Result<Self, WorkloadError> {
        let shape = ClusterShape {
            name: &format!("pq-{degree}"),
            page_stores: 1,
            page_store_args: &["--ndp-threads".to_owned(), degree.to_string()],
            link: None,
        };
        let cluster = options.loaded_cluster(data, &shape).await?;
        let mut client = cluster.client(Some(load::SCHEMA)).await?;
        let set = format!("SET parallel_default_dop = {degree}");
        client.execute(&set).await?;
        Ok(Self {
            _cluster: cluster,
            client,
        })
    }
}

/// Measures Q1 and Q6.
///
/// # Errors
/// If a process fails or answers differ.
pub(super) async fn pq(options: &BenchOptions, data: &Path) -> Result<Vec<PqFigures>, WorkloadError> {
    let mut one = Degree::start(options, data, 1).await?;
    let mut two = Degree::start(options, data, 2).await?;
    let mut all = Vec::new();
    for (number, sql) in perigee_workload::tpch::queries(options.scale) {
        if !QUERIES.contains(&number) {
            continue;
        }
        let (mut pairs, mut texts) = (Vec::new(), [String::new(), String::new()]);
        for pair in 0..WARMING + options.pairs.max(2) {
            let mut times = [0.0; 2];
            // Which one goes first changes.
            let order = if pair % 2 == 0 { [0, 1] } else { [1, 0] };
            for degree in order {
                let client = &mut [&mut one, &mut two][degree].client;
                let begin = Instant::now();
                let rows = client.query(&sql).await?;
                times[degree] = begin.elapsed().as_secs_f64();
                texts[degree] = answers::to_text(&rows);
            }
            answers::expect_equal(
                &format!("Q{number}"),
                "the answer of one worker",
                &texts[1],
                &texts[0],
            )?;
            if pair >= WARMING {
                pairs.push((times[0], times[1]));
            }
        }
        let two_over_one = Comparison::of(&pairs);
        note(&format!(
            "two workers over one: Q{number} {:.2}",
            two_over_one.ratio
        ));
        all.push(PqFigures {
            query: number,
            two_over_one,
        });
    }
    Ok(all)
}

/// Geometric mean over the queries.
pub(super) fn two_over_one(figures: &[PqFigures]) -> f64 {
    let ratios: Vec<_> = figures.iter().map(|f| f.two_over_one.ratio).collect();
    geometric_mean(&ratios)
}
