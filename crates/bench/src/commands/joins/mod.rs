//! `perigee-bench joins`: joins of four to ten tables over skewed data whose columns depend on each other. The plan
//! that is chosen is measured against the best one found by writing the tables in other orders and having them kept.

mod data;
mod queries;

use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

use futures::future::BoxFuture;
use perigee_testkit::Rng;
use serde::Serialize;

use self::data::TABLES;
use self::queries::{QUERIES, Query};
use super::setup::{BenchOptions, note};
use crate::pairs::geometric_mean;
use perigee_workload::Embedded;
use perigee_workload::Rows;
use perigee_workload::{Client, WorkloadError, load};

/// Orders that are tried for each query.
const ORDERS: usize = 32;

/// An order is given up when it takes so many times as long as the best one by then, and
const CUT_OFF: f64 = 1.5;

/// at least so long, in seconds: less is not measured well.
const LEAST_CUT_OFF: f64 = 0.05;

/// The server's error for a statement that takes too long.
const TOO_LONG: u16 = 3024;

/// What the command measures.
#[derive(Clone, Debug, Serialize)]
pub struct JoinFigures {
    /// 1 is some 400,000 rows.
    pub scale: f64,
    /// Geometric mean of the times of the plans chosen ÷ those of the best plans found.
    pub chosen_over_best: f64,
    /// The greatest of these ratios.
    pub worst: f64,
    /// The same for the order as it is written.
    pub written_over_best: f64,
    /// The greatest of these, where an order that was given up counts with the time it had.
    pub worst_written: f64,
    /// Each query.
    pub queries: Vec<JoinFigure>,
}

/// One query.
#[derive(Clone, Debug, Serialize)]
pub struct JoinFigure {
    /// Its tables.
    pub tables: usize,
    /// Its conditions, but for those that connect the tables.
    pub conditions: String,
    /// Seconds of the plan that is chosen.
    pub chosen: f64,
    /// Seconds of the best plan found.
    pub best: f64,
    /// Seconds of the order as it is written, or more.
    pub written: f64,
    /// `chosen` ÷ `best`.
    pub ratio: f64,
    /// The best order found; the one chosen if there is none better.
    pub best_order: Option<String>,
    /// Orders that were tried.
    pub orders: usize,
    /// Those of them that took too long.
    pub given_up: usize,
}

impl JoinFigures {
    /// For a person to read.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = String::from("tables  chosen ms  best ms  written ms  ratio  conditions\n");
        for query in &self.queries {
            let _ = writeln!(
                out,
                "{:6} {:10.1} {:8.1} {:11.1} {:6.2}  {}",
                query.tables,
                query.chosen * 1e3,
                query.best * 1e3,
                query.written * 1e3,
                query.ratio,
                query.conditions
            );
        }
        let _ = writeln!(
            out,
            "chosen over best: {:.2} (geometric mean), {:.2} at worst\nwritten over best: {:.2}, {:.2} at worst",
            self.chosen_over_best, self.worst, self.written_over_best, self.worst_written
        );
        out
    }
}

/// Runs the command.
///
/// # Errors
/// If a process fails or answers differ.
pub fn joins(options: &BenchOptions) -> BoxFuture<'_, Result<JoinFigures, WorkloadError>> {
    Box::pin(async move {
        let server = Embedded::start(&options.binary, &options.stores("joins")?, &[])?;
        let mut client = server.client(None).await?;
        load_all(&mut client, &options.stores("joins-data")?, options.scale).await?;
        let mut queries = Vec::new();
        let mut rng = Rng(14);
        for (number, query) in QUERIES.iter().enumerate() {
            let trial = Trial {
                query,
                runs: options.pairs.max(1),
            };
            let figure = trial.run(&mut client, &mut rng).await?;
            note(&format!(
                "{} of {}: {:.1} ms, best {:.1} ms",
                number + 1,
                QUERIES.len(),
                figure.chosen * 1e3,
                figure.best * 1e3
            ));
            queries.push(figure);
        }
        client.close().await?;
        let chosen: Vec<f64> = queries.iter().map(|query| query.ratio).collect();
        let written: Vec<f64> = queries.iter().map(|q| q.written / q.best).collect();
        let worst = |ratios: &[f64]| ratios.iter().copied().fold(1.0, f64::max);
        Ok(JoinFigures {
            scale: options.scale,
            chosen_over_best: geometric_mean(&chosen),
            worst: worst(&chosen),
            written_over_best: geometric_mean(&written),
            worst_written: worst(&written),
            queries,
        })
    })
}

async fn load_all(client: &mut Client, dir: &Path, scale: f64) -> Result<(), WorkloadError> {
    client.execute("CREATE DATABASE joins").await?;
    client.execute("USE joins").await?;
    for table in TABLES {
        table.write(dir, scale)?;
        client.execute(&table.create()).await?;
        let rows = load::load_table(client, dir, table.name).await?;
        note(&format!("load: {}, {rows} rows", table.name));
    }
    Ok(())
}

/// A query and how often it runs.
struct Trial<'a> {
    query: &'a Query,
    runs: usize,
}

impl Trial<'_> {
    async fn run(&self, client: &mut Client, rng: &mut Rng) -> Result<JoinFigure, WorkloadError> {
        let written = self.query.sql(&self.query.written());
        switch(client, true).await?;
        let answer = client.query(&written).await?; // pages that it needs are there from now on
        let mut chosen = self.least(client, &written, &answer).await?;
        let mut best: (f64, Option<Vec<usize>>) = (chosen, None);
        let (mut tried, mut given_up, mut as_written) = (Vec::new(), 0, f64::INFINITY);
        switch(client, false).await?;
        for number in 0..ORDERS {
            let order = match number {
                0 => self.query.written(),
                _ => self.query.any_order(rng),
            };
            if tried.contains(&order) {
                continue;
            }
            let limit = (CUT_OFF * best.0).max(LEAST_CUT_OFF);
            let seconds = self
                .within(client, &self.query.sql(&order), &answer, limit)
                .await?;
            if number == 0 {
                as_written = seconds.unwrap_or(limit);
            }
            given_up += usize::from(seconds.is_none());
            if let Some(seconds) = seconds.filter(|seconds| *seconds < best.0) {
                best = (seconds, Some(order.clone()));
            }
            tried.push(order);
        }
        // The two in turn: which one is faster does not depend on what else the machine did.
        if let Some(order) = &best.1 {
            let sql = self.query.sql(order);
            (chosen, best.0) = (f64::INFINITY, f64::INFINITY);
            for _ in 0..self.runs {
                switch(client, false).await?;
                best.0 = best.0.min(self.once(client, &sql, &answer).await?);
                switch(client, true).await?;
                chosen = chosen.min(self.once(client, &written, &answer).await?);
            }
        }
        let is_better = best.0 < chosen;
        let least = best.0.min(chosen);
        Ok(JoinFigure {
            tables: self.query.tables.len(),
            conditions: self.query.conditions.to_owned(),
            chosen,
            best: least,
            written: as_written.max(least),
            ratio: chosen / least,
            best_order: best.1.filter(|_| is_better).map(|order| self.names(&order)),
            orders: tried.len(),
            given_up,
        })
    }

    fn names(&self, order: &[usize]) -> String {
        let names: Vec<_> = order
            .iter()
            .map(|table| self.query.tables[*table])
            .collect();
        names.join(", ")
    }

    /// Seconds of the fastest of several runs.
    async fn least(
        &self,
        client: &mut Client,
        sql: &str,
        answer: &Rows,
    ) -> Result<f64, WorkloadError> {
        let mut least = f64::INFINITY;
        for _ in 0..self.runs {
            least = least.min(self.once(client, sql, answer).await?);
        }
        Ok(least)
    }

    async fn once(
        &self,
        client: &mut Client,
        sql: &str,
        answer: &Rows,
    ) -> Result<f64, WorkloadError> {
        let begin = Instant::now();
        let rows = client.query(sql).await?;
        let seconds = begin.elapsed().as_secs_f64();
        match rows == *answer {
            true => Ok(seconds),
            false => Err(WorkloadError::Unexpected(format!(
                "{sql} gives {rows:?}, not {answer:?}"
            ))),
        }
    }

    /// Seconds of a run, if it ends within so many.
    async fn within(
        &self,
        client: &mut Client,
        sql: &str,
        answer: &Rows,
        limit: f64,
    ) -> Result<Option<f64>, WorkloadError> {
        let milliseconds = (limit * 1e3).ceil();
        client
            .execute(&format!("SET max_execution_time = {milliseconds}"))
            .await?;
        let outcome = self.once(client, sql, answer).await;
        client.execute("SET max_execution_time = 0").await?;
        match outcome {
            Ok(seconds) => Ok(Some(seconds)),
            Err(error) if error.code() == Some(TOO_LONG) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Has joins ordered by cost, or left as they are written.
async fn switch(client: &mut Client, on: bool) -> Result<(), WorkloadError> {
    let on = if on { "ON" } else { "OFF" };
    let set = format!("SET optimizer_join_order = {on}");
    client.execute(&set).await.map(drop)
}
