//! `perigee-bench scan`: the Page Store half of NDP on TPC-H Q6 and Q1, over lineitem pages in memory,
//! on one thread, against this machine's memory bandwidth and loops written by hand.

mod pages;
mod q1;
mod q6;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use perigee_expr::{ExprError, Program};
use perigee_ndp::{Aggregate, Backend, Descriptor, Execution, NdpError, Scanner};
use perigee_types::{DbId, IndexId, PAGE_SIZE, TrxId};
use perigee_value::RowLayout;
use serde::Serialize;

use self::pages::{Page, page_ref};
use super::setup::note;
use perigee_workload::WorkloadError;

/// Runs of each contender, interleaved; the best counts.
const RUNS: usize = 7;

/// Bytes of pages: more than any cache has.
const BYTES: usize = 1 << 30;

/// What the command measures.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ScanFigures {
    /// Q6: bytes of pages a second ÷ bytes a second that one thread reads from memory.
    pub q6_bandwidth_ratio: f64,
    /// Q6: our time ÷ the time of a loop written by hand over the same pages.
    pub jit_over_native: f64,
    /// Q6: nanoseconds a record.
    pub q6_ns_per_record: f64,
    /// The same of Q1.
    pub q1_bandwidth_ratio: f64,
    /// The same of Q1.
    pub q1_over_native: f64,
    /// The same of Q1.
    pub q1_ns_per_record: f64,
    /// Bytes of pages scanned.
    pub bytes: u64,
    /// Records scanned.
    pub records: u64,
    /// Bytes a second that one thread reads from memory.
    pub memory_bytes_per_second: f64,
    /// Bytes of pages a second, in Q6.
    pub scan_bytes_per_second: f64,
    /// The scans ran machine code.
    pub compiled: bool,
}

/// What a descriptor asks of each page.
type Pushed = (Program, Aggregate);

/// Aggregates of each group: its keys and their values.
type Answer = BTreeMap<Vec<Vec<u8>>, Vec<i128>>;

/// A loop over pages, written by hand for one query.
type ByHand = dyn Fn(&[Page]) -> Answer;

/// A query as storage runs it, and as one would write it by hand.
struct Query {
    name: &'static str,
    pushed: Pushed,
    native: Box<ByHand>,
}

/// Runs the command.
///
/// # Errors
/// If the contenders disagree.
pub fn scan() -> Result<ScanFigures, WorkloadError> {
    note("making lineitem pages");
    let layout = pages::lineitem();
    let pages = pages::pages(&layout, BYTES)?;
    let slots = pages.iter().map(|page| page_ref(page).slot_count());
    let records: u64 = slots.map(u64::from).sum();
    let bytes = (pages.len() * PAGE_SIZE) as u64;
    let q6 = measure(q6::query(&layout), &layout, &pages)?;
    let q1 = measure(q1::query(&layout), &layout, &pages)?;
    Ok(ScanFigures {
        q6_bandwidth_ratio: q6.memory / q6.ours,
        jit_over_native: q6.ours / q6.by_hand,
        q6_ns_per_record: q6.ours * 1e9 / records as f64,
        q1_bandwidth_ratio: q1.memory / q1.ours,
        q1_over_native: q1.ours / q1.by_hand,
        q1_ns_per_record: q1.ours * 1e9 / records as f64,
        bytes,
        records,
        memory_bytes_per_second: bytes as f64 / q6.memory,
        scan_bytes_per_second: bytes as f64 / q6.ours,
        compiled: q6.compiled && q1.compiled,
    })
}

/// Seconds of each contender's best run.
struct Times {
    ours: f64,
    by_hand: f64,
    memory: f64,
    compiled: bool,
}

fn measure(
    query: Result<Query, ExprError>,
    layout: &RowLayout,
    pages: &[Page],
) -> Result<Times, WorkloadError> {
    let query =
        query.map_err(|e| WorkloadError::Unexpected(format!("a query as a program: {e}")))?;
    note(&format!("{} by the scan and by hand", query.name));
    let scanner = Arc::new(scanner(query.pushed, layout)?);
    let mut times = Times {
        ours: f64::INFINITY,
        by_hand: f64::INFINITY,
        memory: f64::INFINITY,
        compiled: scanner.is_compiled(),
    };
    for _ in 0..RUNS {
        let (answer, ours) = timed(|| run_scanner(&scanner, pages))?;
        let (expected, by_hand) = timed(|| Ok((query.native)(pages)))?;
        if answer != expected {
            let name = query.name;
            let text = format!("{name} is {answer:?} by the scan and {expected:?} by hand");
            return Err(WorkloadError::Unexpected(text));
        }
        let (_, memory) = timed(|| Ok(pages::read_all(pages)))?;
        times.ours = times.ours.min(ours);
        times.by_hand = times.by_hand.min(by_hand);
        times.memory = times.memory.min(memory);
    }
    Ok(times)
}

fn timed<T>(run: impl FnOnce() -> Result<T, WorkloadError>) -> Result<(T, f64), WorkloadError> {
    let begin = Instant::now();
    let result = run()?;
    Ok((result, begin.elapsed().as_secs_f64()))
}

fn scanner((predicate, aggregate): Pushed, layout: &RowLayout) -> Result<Scanner, WorkloadError> {
    let mut descriptor = Descriptor::new(DbId(1), IndexId(1), layout.clone(), TrxId(1));
    descriptor.predicate = Some(predicate);
    descriptor.aggregate = Some(aggregate);
    Scanner::new(descriptor, Backend::Jit).map_err(|e| unexpected(&e))
}

fn unexpected(error: &NdpError) -> WorkloadError {
    WorkloadError::Unexpected(error.to_string())
}

/// The answer by the product's own code, as a Page Store runs it.
fn run_scanner(scanner: &Arc<Scanner>, pages: &[Page]) -> Result<Answer, WorkloadError> {
    let mut execution = Execution::new(scanner.clone());
    let mut answer = Answer::new();
    // A request has at most a thousand pages or so.
    for request in pages.chunks(1000) {
        for (index, page) in (0..).zip(request) {
            if let Some(next) = request.get(index as usize + 1) {
                execution.announce(next);
            }
            execution
                .page(index, page_ref(page))
                .map_err(|e| unexpected(&e))?;
        }
        let finished = scanner
            .finish(execution.take(), &[])
            .map_err(|e| unexpected(&e))?;
        merge(&finished.batch, &mut answer);
    }
    Ok(answer)
}

/// Adds partial sums and counts.
fn merge(batch: &RecordBatch, answer: &mut Answer) {
    let is_key = |array: &&Arc<dyn Array>| *array.data_type() == DataType::Utf8View;
    let (keys, values): (Vec<_>, Vec<_>) = batch.columns().iter().partition(is_key);
    for row in 0..batch.num_rows() {
        let key = keys.iter().map(|array| array.as_string_view().value(row));
        let key = key.map(|text| text.as_bytes().to_vec()).collect();
        let sums = answer.entry(key).or_insert_with(|| vec![0; values.len()]);
        for (sum, array) in sums.iter_mut().zip(&values) {
            *sum += match array.as_primitive_opt::<Int64Type>() {
                Some(counts) => counts.value(row).into(),
                None => array.as_primitive::<Decimal128Type>().value(row),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_and_loops_by_hand_agree() {
        let layout = pages::lineitem();
        let pages = pages::pages(&layout, 2 << 20).expect("pages of lineitem");
        for query in [q6::query(&layout), q1::query(&layout)] {
            let times = measure(query, &layout, &pages).expect("equal answers");
            assert!(times.compiled);
        }
    }
}
