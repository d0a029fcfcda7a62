//! Table accesses as EXPLAIN shows them (taurus-ndp, Listing 2; SPEC's N16).

use std::fmt::Write;
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use perigee_engine::catalog::{ColumnDef, HIDDEN_ROW_ID, Sample};
use perigee_engine::ndp::GroupMethod;
use perigee_engine::scan::ScanCounters;

use super::exec::{PageScanExec, ScanAggregate, as_page_scan};
use super::filters::RunTimeFilter;
use super::index_join::IndexJoinExec;
use super::join_table::JoinTableExec;
use super::residual::Residual;
use crate::plan::common::definitions;

/// One row of EXPLAIN.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessRow {
    /// Table.
    pub table: String,
    /// How it is read: `ALL`, `index`, `range`, `ref`, `eq_ref`, `const`, in MySQL's words.
    pub access_type: &'static str,
    /// Indexes that could have been used.
    pub possible_keys: Option<String>,
    /// The index used.
    pub key: Option<String>,
    /// Rows the access is expected to visit.
    pub rows: u64,
    /// Share of them that is expected to remain, in per cent.
    pub filtered: f64,
    /// Everything else, near-data processing above all.
    pub extra: String,
    /// What it did, if it ran: name and value of each counter.
    pub counters: Vec<(&'static str, u64)>,
    /// What each run-time filter did, if it ran.
    pub filters: Vec<String>,
}

/// That storage picks rows out of their pages.
const KEY_BATCHES: &str = "Using NDP key batches";

/// The table accesses of a plan, in the order in which they are written in it.
#[must_use]
pub fn describe(plan: &Arc<dyn ExecutionPlan>) -> Vec<AccessRow> {
    let mut rows = Vec::new();
    for (_, plan) in definitions(plan) {
        visit(&plan, &Residual::default(), &mut rows);
    }
    visit(plan, &Residual::default(), &mut rows);
    rows
}

/// `residual` are the conditions above the plan that may be the access's.
fn visit(plan: &Arc<dyn ExecutionPlan>, residual: &Residual, rows: &mut Vec<AccessRow>) {
    let residual = match plan.downcast_ref::<FilterExec>() {
        Some(filter) => residual.and(filter.predicate()),
        // Above a join names may be those of several tables.
        None if plan.children().len() > 1 => Residual::default(),
        None => residual.clone(),
    };
    if let Some(scan) = as_page_scan(plan) {
        let mut row = row(scan);
        for (reason, columns) in residual.of(scan) {
            let columns = columns.join(", ");
            let _ = write!(row.extra, "; condition on {columns} not pushed: {reason}");
        }
        rows.push(row);
    }
    if let Some(join) = plan.downcast_ref::<JoinTableExec>() {
        return visit_join_table(join, rows);
    }
    for child in plan.children() {
        visit(child, &residual, rows);
    }
    // The inner table is read for each outer row, so it comes behind those.
    if let Some(join) = plan.downcast_ref::<IndexJoinExec>() {
        rows.push(inner_row(join));
    }
}

/// What becomes a table, and the scan that is joined with it, or what ran in its place.
fn visit_join_table(join: &JoinTableExec, rows: &mut Vec<AccessRow>) {
    visit(join.table(), &Residual::default(), rows);
    if let Some(scan) = join.scan() {
        rows.push(row(scan));
    }
    if let Some((otherwise, why)) = join.otherwise() {
        let first = rows.len();
        visit(otherwise, &Residual::default(), rows);
        for row in &mut rows[first..] {
            let _ = write!(row.extra, "; not joined with a table: {why}");
        }
    }
}

/// The inner table of an index nested-loop join; rows are those for one outer row.
fn inner_row(join: &IndexJoinExec) -> AccessRow {
    let scan = join.inner();
    let index = &scan.table.indexes[scan.path.index];
    let how = match join.uses_key_batches() {
        // A path that fetches says so itself.
        true if !scan.path.fetch => format!("index lookups for each outer row; {KEY_BATCHES}"),
        _ => "index lookups for each outer row".to_owned(),
    };
    AccessRow {
        access_type: if join.is_unique() { "eq_ref" } else { "ref" },
        key: Some(index.name.clone()),
        rows: join.matches().round().max(1.0) as u64,
        filtered: (100.0 * scan.filter_factor()).min(100.0),
        extra: format!("{how}; {}", extra(scan)),
        counters: join.counters(),
        ..row(scan)
    }
}

fn row(scan: &PageScanExec) -> AccessRow {
    let index = &scan.table.indexes[scan.path.index];
    let names = |numbers: &[usize]| {
        let names: Vec<_> = numbers
            .iter()
            .map(|n| scan.table.indexes[*n].name.as_str())
            .collect();
        (!names.is_empty()).then(|| names.join(","))
    };
    let visited = scan.stats.rows as f64 * scan.path.share;
    AccessRow {
        table: scan
            .context
            .alias
            .clone()
            .unwrap_or_else(|| scan.table.def.name.clone()),
        access_type: access_type(scan),
        possible_keys: names(&scan.path.possible),
        key: (access_type(scan) != "ALL").then(|| index.name.clone()),
        rows: visited.ceil() as u64,
        filtered: (100.0 * scan.estimated_rows() / visited.max(1.0)).min(100.0),
        extra: extra(scan),
        counters: scan.counters().map(|c| c.snapshot()).unwrap_or_default(),
        filters: scan
            .run_time_filters
            .iter()
            .map(|f| effect(scan, f))
            .collect(),
    }
}

/// What a run-time filter was, and what it left out.
fn effect(scan: &PageScanExec, filter: &RunTimeFilter) -> String {
    let name = filter;
    let filter = &filter.filter;
    let Some(kind) = filter.kind() else {
        return format!("{name}: none came");
    };
    let width = |column: &usize| {
        let stats = scan.stats.columns.get(*column);
        stats.map_or(8.0, |stats| f64::from(stats.average_width))
    };
    let rows = filter.rows();
    let spared = rows as f64 * scan.projection.iter().map(width).sum::<f64>();
    let bytes = filter.bytes();
    format!("{name}: {kind}, {bytes} bytes, left out {rows} rows of about {spared:.0} bytes")
}

fn access_type(scan: &PageScanExec) -> &'static str {
    let path = &scan.path;
    let index = &scan.table.indexes[path.index];
    let equal = path.is_equality;
    if equal && index.unique && path.equal_columns == index.key_columns {
        "const"
    } else if equal {
        "ref"
    } else if path.is_part() {
        "range"
    } else if path.index > 0 || scan.order.is_some() {
        "index"
    } else {
        "ALL"
    }
}

fn extra(scan: &PageScanExec) -> String {
    let mut parts = Vec::new();
    let reasons: Vec<_> = scan.ndp.reasons.iter().map(ToString::to_string).collect();
    if scan.ndp.filter
        && let Some(condition) = condition(scan)
    {
        parts.push(format!("Using pushed NDP condition {condition}"));
    }
    if scan.ndp.columns {
        parts.push("Using pushed NDP columns".to_owned());
    }
    if let Some(join) = &scan.join {
        parts.push(format!("Using pushed NDP {join}"));
    }
    if scan.ndp.aggregate {
        let sorted = |a: &ScanAggregate| a.grouping.method == GroupMethod::Sort;
        let how = match scan.aggregate.as_ref().is_some_and(sorted) {
            true => ", groups sorted",
            false => "",
        };
        parts.push(format!("Using pushed NDP aggregate{how}"));
    }
    for filter in &scan.run_time_filters {
        parts.push(format!("Using {filter}"));
    }
    if let Some(limit) = scan.limit.filter(|_| scan.ndp.any()) {
        parts.push(format!("Using pushed NDP limit {limit}"));
    }
    if !scan.ndp.any() {
        if let Some(condition) = condition(scan) {
            parts.push(format!("Using where {condition}"));
        }
        parts.push(format!("NDP not used: {}", reasons.join("; ")));
    } else if !reasons.is_empty() {
        parts.push(format!("not pushed: {}", reasons.join(", ")));
    }
    if let Some(placement) = &scan.ndp.placement {
        parts.push(placement.to_string());
    }
    if let Some(sampled) = &scan.sampled {
        let Sample {
            pages,
            matching_pages,
            ..
        } = sampled.sample;
        parts.push(format!(
            "rows estimated from a sample of {pages} pages, {matching_pages} with a match"
        ));
    }
    if scan.path.spans.len() > 1 {
        parts.push(format!("{} ranges", scan.path.spans.len()));
    }
    if !scan.path.fetch && scan.path.index > 0 {
        parts.push("Using index".to_owned());
    }
    if scan.path.fetch && scan.uses_key_batches() {
        parts.push(KEY_BATCHES.to_owned());
    }
    if !scan.path.fetch && scan.workers() > 1 {
        parts.push(format!("Parallel scan ({} workers)", scan.workers()));
    }
    if scan.order.as_ref().is_some_and(|order| order.reverse) {
        parts.push("Backward index scan".to_owned());
    }
    parts.join("; ")
}

/// The condition in MySQL's spelling, with qualified column names.
fn condition(scan: &PageScanExec) -> Option<String> {
    let program = scan.predicate().ok().flatten()?;
    let record_index = if scan.path.fetch { 0 } else { scan.path.index };
    let def = &scan.table.def;
    let names: Vec<String> = scan.table.indexes[record_index]
        .columns
        .iter()
        .map(|column| match *column {
            HIDDEN_ROW_ID => "row_id".to_owned(),
            column => match &def.columns[usize::from(column)] {
                ColumnDef {
                    hidden: Some(_),
                    generated: Some(generated),
                    ..
                } => generated.expression.clone(),
                column => format!("{}.{}.{}", def.schema, def.name, column.name),
            },
        })
        .collect();
    Some(program.display(&names))
}

/// Adds what the scans of a plan did to `total`.
pub fn count_scans(plan: &Arc<dyn ExecutionPlan>, total: &ScanCounters) {
    for (_, plan) in definitions(plan) {
        count_below(&plan, total);
    }
    count_below(plan, total);
}

fn count_below(plan: &Arc<dyn ExecutionPlan>, total: &ScanCounters) {
    if let Some(counters) = as_page_scan(plan).and_then(PageScanExec::counters) {
        total.absorb(&counters);
    }
    let joined = plan.downcast_ref::<JoinTableExec>();
    if let Some(counters) = joined
        .and_then(JoinTableExec::scan)
        .and_then(PageScanExec::counters)
    {
        total.absorb(&counters);
    }
    for child in plan.children() {
        count_below(child, total);
    }
}

/// The accesses of a plan that ran, with what each did, for EXPLAIN ANALYZE.
#[must_use]
pub fn analyze(plan: &Arc<dyn ExecutionPlan>) -> String {
    let mut out = String::new();
    for access in describe(plan) {
        let key = access.key.as_deref().unwrap_or("-");
        let _ = writeln!(
            out,
            "{}: {} by {key}, {} rows expected; {}",
            access.table, access.access_type, access.rows, access.extra
        );
        let compiled = access
            .counters
            .iter()
            .find(|(name, _)| *name == "pages_compiled")
            .map_or(0, |c| c.1);
        // Each access is one scan, and samples are taken before there is one.
        let other = [
            "scans",
            "samples",
            "pages_sampled",
            "key_batches",
            "keys_fetched",
        ];
        let counters = access.counters.iter();
        let counters = counters.filter(|(name, _)| !other.contains(name));
        for (name, value) in counters {
            let _ = writeln!(out, "    {name}: {value}");
        }
        for filter in &access.filters {
            let _ = writeln!(out, "    {filter}");
        }
        if access.counters.iter().any(|(name, _)| *name == "lookups") {
            continue; // joins compile for each request
        }
        let _ = writeln!(
            out,
            "    code: {}",
            if compiled > 0 || is_compiled(plan, &access.table) {
                "compiled"
            } else {
                "interpreted"
            }
        );
    }
    out
}

fn is_compiled(plan: &Arc<dyn ExecutionPlan>, table: &str) -> bool {
    let joined = plan.downcast_ref::<JoinTableExec>();
    let scan = as_page_scan(plan).or_else(|| joined.and_then(JoinTableExec::scan));
    let here = scan.is_some_and(|scan| scan.table().def.name == table && scan.is_compiled());
    here || plan
        .children()
        .into_iter()
        .any(|child| is_compiled(child, table))
}
