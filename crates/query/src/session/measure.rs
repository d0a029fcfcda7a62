//! What a statement did: measured around each statement of a client, for the digests and the slow log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use perigee_engine::scan::ScanCounters;
use perigee_sql_bind::Modes;

use super::Session;
use super::digests::Counted;
use super::money::Prices;
use super::slow_log::Entry;
use crate::error::Result;
use crate::result::{OkResult, ResultColumn, ResultSink};

/// What a statement did.
#[derive(Clone, Debug, Default)]
pub(super) struct Did {
    pub elapsed: Duration,
    /// When it ended, in microseconds since 1970.
    pub ended: i64,
    pub failed: bool,
    pub warnings: u64,
    pub rows_sent: u64,
    pub rows_affected: u64,
    /// It read a whole table.
    pub no_index: bool,
    pub near: Near,
    /// What its scans cost, in millionths of a dollar.
    pub micros: f64,
}

/// What the scans of a statement did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Near {
    /// Rows that scans delivered.
    pub rows: u64,
    pub pages_pushed: u64,
    pub bytes_read: u64,
    pub bytes_shipped: u64,
    batches: u64,
    storage_cpu: u64,
    frontend_cpu: u64,
}

impl Near {
    fn of(scans: &ScanCounters) -> Self {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            rows: value(&scans.rows),
            pages_pushed: value(&scans.pages_pushed),
            bytes_read: value(&scans.bytes_read_in_storage),
            bytes_shipped: value(&scans.bytes_shipped),
            batches: value(&scans.batches),
            storage_cpu: value(&scans.storage_cpu_nanos),
            frontend_cpu: value(&scans.frontend_cpu_nanos),
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            rows: self.rows - before.rows,
            pages_pushed: self.pages_pushed - before.pages_pushed,
            bytes_read: self.bytes_read - before.bytes_read,
            bytes_shipped: self.bytes_shipped - before.bytes_shipped,
            batches: self.batches - before.batches,
            storage_cpu: self.storage_cpu - before.storage_cpu,
            frontend_cpu: self.frontend_cpu - before.frontend_cpu,
        }
    }

    /// Bytes of pages that storage went through and did not have to send.
    pub fn bytes_saved(&self) -> u64 {
        self.bytes_read.saturating_sub(self.bytes_shipped)
    }

    /// What it costs, in millionths of a dollar.
    fn micros(self, prices: &Prices) -> f64 {
        let scans = ScanCounters::default();
        let set = |counter: &AtomicU64, value| counter.store(value, Ordering::Relaxed);
        set(&scans.bytes_read_in_storage, self.bytes_read);
        set(&scans.bytes_shipped, self.bytes_shipped);
        set(&scans.batches, self.batches);
        set(&scans.storage_cpu_nanos, self.storage_cpu);
        set(&scans.frontend_cpu_nanos, self.frontend_cpu);
        prices.cost(&scans).in_micros()
    }
}

/// What the running statement has done so far.
#[derive(Debug, Default)]
pub(super) struct Sent {
    rows: AtomicU64,
    affected: AtomicU64,
    no_index: AtomicBool,
}

impl Sent {
    /// Rows go to the client.
    pub fn add_rows(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// Rows were changed.
    pub fn add_affected(&self, rows: u64) {
        self.affected.fetch_add(rows, Ordering::Relaxed);
    }

    /// A plan reads a whole table.
    pub fn note_no_index(&self) {
        self.no_index.store(true, Ordering::Relaxed);
    }

    fn begin(&self) {
        self.rows.store(0, Ordering::Relaxed);
        self.affected.store(0, Ordering::Relaxed);
        self.no_index.store(false, Ordering::Relaxed);
    }
}

/// A statement that is measured.
pub(super) struct Begun {
    at: Instant,
    before: Near,
}

impl Session {
    /// A statement begins; `None` if nobody wants to know what it does.
    pub(super) fn begin_measuring(&self) -> Option<Begun> {
        let (digests, slow) = (&self.frontend.digests, &self.frontend.slow_log);
        if !digests.is_on() && !slow.is_on() {
            return None;
        }
        self.sent.begin();
        Some(Begun {
            at: Instant::now(),
            before: Near::of(&self.scans),
        })
    }

    /// The statement ended, with an outcome.
    pub(super) fn end_measuring<T>(
        &self,
        begun: Option<Begun>,
        outcome: &Result<T>,
        (text, counted): (&str, &mut Option<Counted>),
    ) {
        let Some(begun) = begun else {
            return;
        };
        let near = Near::of(&self.scans).since(begun.before);
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let did = Did {
            elapsed: begun.at.elapsed(),
            ended: now.map_or(0, |now| now.as_micros() as i64),
            failed: outcome.is_err(),
            warnings: u64::from(self.warning_count()),
            rows_sent: value(&self.sent.rows),
            rows_affected: value(&self.sent.affected),
            no_index: self.sent.no_index.load(Ordering::Relaxed),
            near,
            micros: match near == Near::default() {
                true => 0.0,
                false => near.micros(&Prices::of(&self.variables)),
            },
        };
        let digests = &self.frontend.digests;
        if digests.is_on() {
            let ansi_quotes = self.modes().has(Modes::ANSI_QUOTES);
            let statement = (text, ansi_quotes);
            digests.count(counted, self.schema.as_deref(), statement, &did);
        }
        self.log_if_slow(text, &did);
    }

    fn log_if_slow(&self, text: &str, did: &Did) {
        let slow = &self.frontend.slow_log;
        if !slow.is_on() {
            return;
        }
        let is_slow = did.elapsed.as_secs_f64() >= self.variables.number("long_query_time");
        if is_slow || (did.no_index && slow.logs_unindexed()) {
            slow.log(&Entry {
                info: &self.info,
                schema: self.schema.as_deref(),
                text,
                did,
            });
        }
    }
}

/// Hands results on and counts their rows. Of two of which one hands on to the other, both have the same numbers.
pub(super) struct Counting<'a> {
    out: &'a mut dyn ResultSink,
    sent: Arc<Sent>,
    rows: u64,
    affected: u64,
}

impl<'a> Counting<'a> {
    /// Counts what goes to `out`.
    pub fn new(out: &'a mut dyn ResultSink, sent: &Arc<Sent>) -> Self {
        Self {
            out,
            sent: sent.clone(),
            rows: 0,
            affected: 0,
        }
    }
}

#[async_trait]
impl ResultSink for Counting<'_> {
    async fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        self.out.columns(columns).await
    }

    async fn shared_columns(&mut self, columns: &Arc<[ResultColumn]>) -> Result<()> {
        self.out.shared_columns(columns).await
    }

    async fn rows(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        self.sent.rows.store(self.rows, Ordering::Relaxed);
        self.out.rows(batch).await
    }

    async fn finish(&mut self, warnings: u16) -> Result<()> {
        self.out.finish(warnings).await
    }

    async fn ok(&mut self, ok: OkResult) -> Result<()> {
        self.affected += ok.affected_rows;
        self.sent.affected.store(self.affected, Ordering::Relaxed);
        self.out.ok(ok).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_did_what_its_session_did_more() {
        let scans = ScanCounters::default();
        let set = |counter: &AtomicU64, value| counter.store(value, Ordering::Relaxed);
        set(&scans.bytes_read_in_storage, 1000);
        let before = Near::of(&scans);
        set(&scans.bytes_read_in_storage, 9000);
        set(&scans.bytes_shipped, 3000);
        set(&scans.rows, 7);
        let near = Near::of(&scans).since(before);
        assert_eq!(
            (near.bytes_read, near.bytes_shipped, near.rows),
            (8000, 3000, 7)
        );
        assert_eq!(near.bytes_saved(), 5000);
    }
}
