//! Parallel query on top of NDP (taurus-ndp section VII.D): one worker in the frontend against two, with two NDP threads in
//! the Page Store either way; and one worker and one NDP thread against two and two.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use super::setup::{BenchOptions, ClusterShape, TWO_PAGE_STORES, note};
use crate::pairs::{Comparison, geometric_mean};
use perigee_workload::{Client, Cluster, WorkloadError, answers, load};

/// Queries that storage does nearly all of.
const QUERIES: [usize; 2] = [1, 6];

/// Pairs that are not counted: the Page Stores read the pages, and compile.
const WARMING: usize = 2;

/// Times of a query, in interleaved pairs.
#[derive(Clone, Debug, Serialize)]
pub struct PqFigures {
    /// The query's number.
    pub query: usize,
    /// Two workers against one; the store has two threads.
    pub two_over_one: Comparison,
    /// Two workers and two store threads against one and one.
    pub both_two_over_one: Comparison,
}

/// A way to run a query: a client of a cluster.
type Contender<'c> = (usize, &'c mut Client);

/// A cluster whose store has so many threads.
struct Degree {
    /// Stops its processes when it goes.
    _cluster: Cluster,
    client: Client,
}

impl Degree {
    async fn start(
        options: &BenchOptions,
        data: &Path,
        degree: usize,
    ) -> Result<Self, WorkloadError> {
        let shape = ClusterShape {
            name: &format!("pq-{degree}"),
            page_stores: 1,
            page_store_args: &["--ndp-threads".to_owned(), degree.to_string()],
            ..TWO_PAGE_STORES
        };
        let cluster = options.loaded_cluster(data, &shape).await?;
        let client = cluster.client(Some(load::SCHEMA)).await?;
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
pub(super) async fn pq(
    options: &BenchOptions,
    data: &Path,
) -> Result<Vec<PqFigures>, WorkloadError> {
    let mut one = Degree::start(options, data, 1).await?;
    let mut two = Degree::start(options, data, 2).await?;
    let mut all = Vec::new();
    for (number, sql) in perigee_workload::tpch::queries(options.scale) {
        if !QUERIES.contains(&number) {
            continue;
        }
        let (mut workers, mut both) = (Vec::new(), Vec::new());
        let mut expected = None;
        for pair in 0..WARMING + options.pairs.max(2) {
            let mut times = [0.0; 3];
            // Which one goes first changes.
            for step in 0..3 {
                let way = (step + pair) % 3;
                let (dop, client): Contender<'_> = match way {
                    0 => (1, &mut one.client),
                    1 => (1, &mut two.client),
                    _ => (2, &mut two.client),
                };
                let set = format!("SET parallel_default_dop = {dop}");
                client.execute(&set).await?;
                let begin = Instant::now();
                let rows = client.query(&sql).await?;
                times[way] = begin.elapsed().as_secs_f64();
                let text = answers::to_text(&rows);
                let expected = expected.get_or_insert_with(|| text.clone());
                let name = format!("Q{number}");
                answers::expect_equal(&name, "the answer of one worker", &text, expected)?;
            }
            if pair >= WARMING {
                workers.push((times[1], times[2]));
                both.push((times[0], times[2]));
            }
        }
        let figures = PqFigures {
            query: number,
            two_over_one: Comparison::of(&workers),
            both_two_over_one: Comparison::of(&both),
        };
        note(&format!(
            "two workers over one: Q{number} {:.2}, with two store threads over one {:.2}",
            figures.two_over_one.ratio, figures.both_two_over_one.ratio
        ));
        all.push(figures);
    }
    Ok(all)
}

/// Geometric mean over the queries.
pub(super) fn mean(figures: &[PqFigures], of: impl Fn(&PqFigures) -> &Comparison) -> f64 {
    let ratios: Vec<_> = figures.iter().map(|figures| of(figures).ratio).collect();
    geometric_mean(&ratios)
}
