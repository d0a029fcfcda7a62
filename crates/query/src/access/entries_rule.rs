//! The rule that looks at the entries of a secondary index before it fetches rows (pushdowndb section IV; MySQL's index
//! condition pushdown, by storage).
//!
//! An access that needs columns which no index has becomes an index nested-loop join of a table with itself: a scan
//! of an index's entries, with those conditions that are about its columns, and lookups of the rows by primary key, with
//! the others. The scan is one as any other: storage filters it where that pays, and ships nothing but keys.

use std::sync::Arc;

use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::Transformed;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;

use super::exec::{PageScanExec, as_page_scan};
use super::index_join::IndexJoinExec;
use super::join_rule::SAFETY;
use super::own_rows::{own_rows, primary_key};
use super::settings::Used;
use crate::plan::rewrite::{Rewrite, Rewritten};

/// The rule.
pub(super) const ENTRIES_FIRST: Rewrite = Rewrite::upwards("IndexEntriesFirst", replace);

fn replace(node: Arc<dyn ExecutionPlan>) -> Rewritten {
    let Some(scan) = as_page_scan(&node).filter(|scan| is_plain(scan)) else {
        return Ok(Transformed::no(node));
    };
    let Some(key) = primary_key(scan) else {
        return Ok(Transformed::no(node));
    };
    let indexes = 1..scan.table.indexes.len();
    let candidates = indexes.filter_map(|index| Candidate::of(scan, &key, index));
    let best = candidates.min_by(|a, b| a.cost.total_cmp(&b.cost));
    let settings = &scan.context.settings;
    // FORCE INDEX: all of the table is the last resort.
    let is_last = settings.indexes.forced && !scan.path.is_part();
    let replaced = match is_last || settings.index_conditions == Used::Always {
        true => f64::MAX,
        false => scan.cost(),
    };
    match best.filter(|best| best.cost < replaced) {
        Some(best) => Ok(Transformed::yes(Arc::new(best.join(scan)?))),
        None => Ok(Transformed::no(node)),
    }
}

/// True if nothing but columns and conditions is wanted of an access. What locks does so before it reads, by its path.
fn is_plain(scan: &PageScanExec) -> bool {
    scan.context.settings.index_conditions != Used::Off
        && scan.context.locker.is_none()
        && scan.order.is_none()
        && scan.limit.is_none()
        && scan.aggregate.is_none()
        && !scan.filters.is_empty()
}

/// A way to look at entries first.
struct Candidate {
    /// The scan of the entries, which delivers primary keys.
    entries: PageScanExec,
    /// The conditions that are left for the rows.
    rest: Vec<Arc<dyn PhysicalExpr>>,
    cost: f64,
}

impl Candidate {
    /// By this index; `None` if no condition is about its columns alone, or if it has all that is needed anyway.
    fn of(scan: &PageScanExec, key: &[usize], index: usize) -> Option<Self> {
        let own = &scan.table.indexes[index];
        if !scan.context.settings.indexes.allows(index) || own.covers(&scan.needed()) {
            return None;
        }
        let is_about_entries = |filter: &Arc<dyn PhysicalExpr>| {
            let columns = collect_columns(filter);
            let columns: Vec<_> = columns.iter().map(|c| scan.column(c.index())).collect();
            own.covers(&columns)
        };
        let (about_entries, rest): (Vec<_>, Vec<_>) =
            scan.filters.iter().cloned().partition(is_about_entries);
        if about_entries.is_empty() {
            return None;
        }
        let mut entries = scan.clone();
        entries.projection = key.to_vec();
        entries.filters = about_entries;
        entries.sampled = scan.sampled.filter(|_| rest.is_empty());
        entries.known_keys = scan.known_keys.clone().filter(|_| rest.is_empty());
        let needed = entries.needed();
        entries.path = entries.wanted(&needed).path_by(index, own);
        let matches = entries
            .estimated_rows()
            .min(scan.stats.rows as f64 * entries.path.share);
        let model = scan.cost_model();
        let cost =
            model.path(&entries.path, matches) + SAFETY * model.lookups(0, false, matches, 1.0);
        Some(Self {
            entries: entries.rebuilt(),
            rest,
            cost,
        })
    }

    /// The access as a join.
    fn join(self, scan: &PageScanExec) -> DfResult<IndexJoinExec> {
        let key: Vec<_> = (0..self.entries.projection.len()).collect();
        own_rows(Arc::new(self.entries), &key, scan, self.rest)
    }
}
