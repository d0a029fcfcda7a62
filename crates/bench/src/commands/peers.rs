//! `perigee bench peers`: the 22 queries in one process with NDP, against DataFusion over Parquet
//! files of the same data, in the same run.

use futures::future::BoxFuture;
use serde::Serialize;

use super::setup::{BenchOptions, data_bytes, note};
use super::tpch::cores;
use crate::pairs::geometric_mean;
use crate::parquet::Parquet;
use crate::{BenchError, Embedded, answers, load};

/// Runs of each query on each side, interleaved; the best counts.
const RUNS: usize = 4;

/// What the command measures.
#[derive(Clone, Debug, Serialize)]
pub struct PeerFigures {
    /// TPC-H scale factor.
    pub scale: f64,
    /// Geometric mean over the queries of our time ÷ DataFusion's.
    pub vs_datafusion_parquet: f64,
    /// Each query: number, our seconds, DataFusion's seconds.
    pub queries: Vec<(usize, f64, f64)>,
}

/// Runs the command.
///
/// # Errors
/// If a process fails.
pub fn peers(options: &BenchOptions) -> BoxFuture<'_, Result<PeerFigures, BenchError>> {
    Box::pin(async move {
        let data = options.data()?;
        let memory = (2 * data_bytes(&data)).to_string();
        let args = ["--pool", &memory].map(str::to_owned);
        let server = Embedded::start(&options.binary, &options.stores("embedded")?, &args)?;
        let mut client = server.client(None).await?;
        load::load(&mut client, &data, |table, rows, time| {
            note(&format!(
                "load: {table}, {rows} rows in {:.2} s",
                time.as_secs_f64()
            ));
        })
        .await?;
        client.execute("SET ndp_mode = ON").await?;
        Parquet::write(&data).await?;
        let peer = Parquet::open(&data, cores()).await?;
        let mut queries = Vec::new();
        for (number, sql) in crate::tpch::queries(options.scale) {
            let (mut ours, mut theirs) = (f64::INFINITY, f64::INFINITY);
            for _ in 0..RUNS {
                let begin = std::time::Instant::now();
                let rows = client.query(&sql).await?;
                ours = ours.min(begin.elapsed().as_secs_f64());
                if let Some(reference) = answers::reference(options.scale, number) {
                    answers::expect_equal(
                        &format!("Q{number}"),
                        "reference",
                        &answers::to_text(&rows),
                        reference,
                    )?;
                }
                let (count, seconds) = peer.run(&sql).await?;
                theirs = theirs.min(seconds);
                if count != rows.len() {
                    let text = format!("Q{number}: {} rows, DataFusion has {count}", rows.len());
                    return Err(BenchError::Unexpected(text));
                }
            }
            note(&format!("Q{number}: {ours:.3} s, DataFusion {theirs:.3} s"));
            queries.push((number, ours, theirs));
        }
        let ratios: Vec<_> = queries
            .iter()
            .map(|(_, ours, theirs)| ours / theirs)
            .collect();
        let vs_datafusion_parquet = geometric_mean(&ratios);
        Ok(PeerFigures {
            scale: options.scale,
            vs_datafusion_parquet,
            queries,
        })
    })
}
