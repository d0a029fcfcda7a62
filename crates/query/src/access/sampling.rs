//! Which accesses are worth a sample, and what one says of them (`docs/access-paths.md`).
//!
//! A plan is made twice where that pays: what statistics cannot tell of its accesses is sampled in between. The
//! second time the answers are known, as they are to statements that follow.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use perigee_engine::catalog::Sample;
use perigee_engine::scan::{KeySpan, ScanCounters};
use perigee_engine::{SampleHow, SampleOf};

use super::engine_error;
use super::estimate::{conjunction_factor, filter_factor, is_certain};
use super::exec::PageScanExec;
use super::known_keys::{KeyWish, LEAST_COST};
use super::table::TableAccess;

/// An access of fewer leaf pages is not sampled: whatever the answer were, the access would cost little.
const LEAST_PAGES: f64 = 100.0;

/// One leaf page in so many is looked at, but for [`FEW_PAGES`].
const PART: f64 = 100.0;

/// As many leaf pages are looked at in any case.
const FEW_PAGES: f64 = 4.0;

/// An access must be expected to cost so many times as much as the sample.
const WORTH: f64 = 5.0;

/// A condition has to be true for so many rows of a sample, as far as is known, for more conditions on these rows
/// to be told by it.
const ENOUGH_ROWS: f64 = 20.0;

/// Conditions of several columns are sampled together if their estimate would be so many times as large were one
/// implied by the other.
const UNCERTAIN: f64 = 1.5;

/// A share of rows that a sample says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SampledShare {
    /// Share of the table's rows that pass the access's conditions.
    pub share: f64,
    /// The sample.
    pub sample: Sample,
}

/// A sample that an access asks for.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    of: SampleOf,
    pages: usize,
    ndp: bool,
    /// Share of the table's rows that is asked about.
    asked: f64,
    /// What is expected without a sample, of these.
    expected: f64,
}

impl Wish {
    /// What the access would like to know, if that is worth its cost.
    pub fn of(scan: &PageScanExec) -> Option<Self> {
        let (settings, stats) = (&scan.context.settings, &scan.stats);
        if scan.filters.is_empty() || settings.sample_pages == 0 {
            return None;
        }
        let (model, cost) = (scan.cost_model(), scan.cost());
        if cost < WORTH * model.sample(FEW_PAGES) {
            return None;
        }
        let (span, in_range) = range(scan);
        let leaves = model.leaf_pages(0) * in_range;
        let pages = (leaves / PART).max(FEW_PAGES);
        let pages = pages.min(settings.sample_pages as f64).floor();
        if leaves < LEAST_PAGES || cost < WORTH * model.sample(pages) {
            return None;
        }
        let rows = pages * stats.rows as f64 / model.leaf_pages(0);
        let Asked { filters, known } = asked(scan, rows, in_range)?;
        let predicate = scan.program_of(&filters)?;
        Some(Self {
            of: SampleOf {
                table: scan.table.clone(),
                index: 0,
                span,
                predicate,
            },
            pages: pages as usize,
            ndp: settings.forbidden().is_none(),
            asked: match known {
                Some(known) => known,
                None => in_range,
            },
            expected: match known {
                Some(_) => conjunction_factor(&filters, stats),
                None => (conjunction_factor(&filters, stats) / in_range).min(1.0),
            },
        })
    }

    /// What a sample said, if one was taken.
    pub fn known(&self) -> Option<SampledShare> {
        let sample = self.of.known().filter(|sample| sample.rows > 0)?;
        let share = self.asked * share_of(&sample, self.expected);
        Some(SampledShare { share, sample })
    }
}

/// The part of the clustered index that is sampled: what the conditions select of it, if that is one part. And the
/// share of the rows in it.
fn range(scan: &PageScanExec) -> (KeySpan, f64) {
    let needed = scan.needed();
    let clustered = scan.wanted(&needed).paths().next();
    let part = clustered.filter(|path| path.is_part() && path.spans.len() == 1);
    part.map_or((KeySpan::all(), 1.0), |path| {
        (path.spans.hull(), path.share.max(f64::MIN_POSITIVE))
    })
}

/// The conditions to sample.
struct Asked {
    filters: Vec<Arc<dyn PhysicalExpr>>,
    /// Share of the rows that the others let through, which the sample says nothing of; `None` if there are none.
    known: Option<f64>,
}

/// What of the conditions of an access a sample of so many rows can tell and statistics cannot.
fn asked(scan: &PageScanExec, rows: f64, in_range: f64) -> Option<Asked> {
    let (filters, stats) = (&scan.filters, &scan.stats);
    let (certain, uncertain): (Vec<_>, Vec<_>) = filters
        .iter()
        .cloned()
        .partition(|filter| is_certain(filter, stats));
    // As if each of them implied the others: more rows do not pass.
    let most = certain.iter().map(|filter| filter_factor(filter, stats));
    let most = most.fold(1.0, f64::min);
    let enough = rows * (most / in_range).min(1.0) >= ENOUGH_ROWS;
    let correlated =
        columns(&certain) > 1 && most > UNCERTAIN * conjunction_factor(&certain, stats);
    match (uncertain.is_empty(), enough) {
        (false, false) => Some(Asked {
            known: Some(conjunction_factor(&certain, stats)),
            filters: uncertain,
        }),
        (false, true) => Some(Asked {
            filters: filters.clone(),
            known: None,
        }),
        (true, true) if correlated => Some(Asked {
            filters: filters.clone(),
            known: None,
        }),
        _ => None,
    }
}

/// How many columns conditions are about.
fn columns(filters: &[Arc<dyn PhysicalExpr>]) -> usize {
    let columns = filters.iter().flat_map(collect_columns);
    columns.collect::<HashSet<_>>().len()
}

/// The share of rows that match. No match says only that they are few: then no more are expected than one in
/// twice as many rows as were seen.
fn share_of(sample: &Sample, expected: f64) -> f64 {
    let rows = sample.rows as f64;
    match sample.matching_rows {
        0 => expected.min(0.5 / rows),
        matching => matching as f64 / rows,
    }
}

/// Takes the samples that the accesses of a plan ask for and that are not known, and finds the keys by which small
/// tables may be joined. True if the plan should be made anew: an estimate that the order of its joins depends on may be
/// another one now.
///
/// # Errors
/// If the statement was stopped.
pub async fn sample(plan: &LogicalPlan, scans: &ScanCounters) -> DfResult<bool> {
    let mut accesses = Vec::new();
    let mut joins = false;
    plan.apply_with_subqueries(|node| {
        joins |= matches!(node, LogicalPlan::Join(_));
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(access) = provider.downcast_ref::<TableAccess>()
            && let Ok(planned) = access.plan(scan.projection.as_ref(), &scan.filters, scan.fetch)
        {
            accesses.push(planned);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let mut known = false;
    let unknown = accesses.iter().filter(|access| access.sampled.is_none());
    let wishes = unknown.filter_map(|access| Some((access, Wish::of(access)?)));
    let taking = wishes.map(|(access, wish)| async move {
        let context = &access.context;
        let how = SampleHow {
            pages: wish.pages,
            ndp: wish.ndp,
            time: context.settings.sample_time,
            cancel: context.cancel.clone(),
        };
        context.engine.sample(&wish.of, &how).await
    });
    for sample in futures::future::join_all(taking).await {
        if let Some(sample) = sample.map_err(engine_error)? {
            known = true;
            scans.count_sample(&sample);
        }
    }
    let cost: f64 = accesses.iter().map(PageScanExec::cost).sum();
    if joins && cost >= LEAST_COST {
        for access in &accesses {
            if let Some(wish) = KeyWish::of(access).filter(KeyWish::is_open) {
                known |= wish.look(access).await.map_err(engine_error)?;
            }
        }
    }
    Ok(known && joins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_match_is_not_no_row() {
        let sample = |rows, matching_rows| Sample {
            pages: 10,
            matching_pages: 1,
            rows,
            matching_rows,
        };
        assert_eq!(share_of(&sample(1000, 10), 0.5), 0.01);
        assert_eq!(share_of(&sample(1000, 0), 0.5), 0.0005);
        assert_eq!(share_of(&sample(1000, 0), 1e-7), 1e-7);
    }
}
