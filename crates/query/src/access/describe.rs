//! Table accesses as EXPLAIN shows them (taurus-ndp, Listing 2; SPEC's N16).

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use perigee_engine::catalog::{ColumnDef, HIDDEN_ROW_ID};
use perigee_engine::ndp::GroupMethod;
use perigee_engine::scan::ScanCounters;

use super::exec::{PageScanExec, as_page_scan};
use super::filters::RunTimeFilter;
use super::index_join::IndexJoinExec;
use super::join_table::JoinTableExec;
use super::placement::Placement;
use super::residual::Residual;
use crate::plan::common::definitions;

/// A table access, of which each form of EXPLAIN says what it has room for.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessRow {
    /// Table, by its name in the statement.
    pub table: String,
    /// How it is read: `ALL`, `index`, `range`, `ref`, `eq_ref`, `const`, in MySQL's words.
    pub access_type: &'static str,
    /// Indexes that could have been used.
    pub possible_keys: Vec<String>,
    /// The index used.
    pub key: Option<String>,
    /// The columns of the index that select its parts.
    pub key_parts: Vec<String>,
    /// What these are compared with, where that is known: the values of a lookup for each outer row.
    pub reference: Vec<String>,
    /// Rows the access is expected to visit; of a lookup, for one outer row.
    pub rows: u64,
    /// Share of them that is expected to remain, in per cent.
    pub filtered: f64,
    /// Columns that are delivered.
    pub columns: Vec<String>,
    /// What it is expected to cost, in microseconds, if that is known.
    pub cost: Option<f64>,
    /// The condition that rows meet, if there is one.
    pub condition: Option<String>,
    /// The index is a secondary one.
    pub secondary: bool,
    /// Rows are fetched from the clustered index, because this one lacks columns.
    pub fetches: bool,
    /// From the greatest key to the least.
    pub backwards: bool,
    /// Parts of the index that are read, if they are several.
    pub ranges: usize,
    /// Workers that scan at a time.
    pub workers: usize,
    /// Pages of a sample that rows were estimated from, and how many had a match.
    pub sample: Option<(u64, u64)>,
    /// It looks up the key of each outer row.
    pub looks_up: bool,
    /// What storage does.
    pub near: NearData,
    /// Why the plan that was to join it with a table in storage was not run, if it was not.
    pub not_joined: Option<&'static str>,
    /// What it did, if it ran: name and value of each counter.
    pub counters: Vec<(&'static str, u64)>,
    /// It ran compiled code.
    pub compiled: bool,
    /// What each run-time filter did, if it ran.
    pub filters: Vec<String>,
}

/// What storage does of an access, and why it does not do the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NearData {
    /// It evaluates the condition.
    pub condition: bool,
    /// It leaves out columns.
    pub columns: bool,
    /// It joins rows with a table: how.
    pub join: Option<String>,
    /// It aggregates; true if it sorts for that.
    pub aggregate: Option<bool>,
    /// Run-time filters that leave out rows.
    pub filters: Vec<String>,
    /// Rows after which it may stop.
    pub limit: Option<usize>,
    /// It picks rows out of their pages.
    pub key_batches: bool,
    /// Any of that is done by an NDP scan.
    pub any: bool,
    /// Why nothing is pushed, or a part is not.
    pub reasons: Vec<String>,
    /// What both sides cost, if that decided.
    pub placement: Option<Placement>,
    /// Conditions that are evaluated behind the access: on which columns, and why.
    pub residual: Vec<(String, String)>,
}

/// That storage picks rows out of their pages.
const KEY_BATCHES: &str = "Using NDP key batches";

impl AccessRow {
    /// The column `Extra`.
    #[must_use]
    pub fn extra(&self) -> String {
        let mut parts = Vec::new();
        if self.looks_up {
            parts.push("index lookups for each outer row".to_owned());
            // A path that fetches says so itself.
            if self.near.key_batches && !self.fetches {
                parts.push(KEY_BATCHES.to_owned());
            }
        }
        parts.extend(self.near_parts());
        if let Some((pages, matching)) = self.sample {
            parts.push(format!(
                "rows estimated from a sample of {pages} pages, {matching} with a match"
            ));
        }
        if self.ranges > 1 {
            parts.push(format!("{} ranges", self.ranges));
        }
        if self.is_covered() {
            parts.push("Using index".to_owned());
        }
        if self.near.key_batches && self.fetches {
            parts.push(KEY_BATCHES.to_owned());
        }
        if !self.fetches && self.workers > 1 {
            parts.push(format!("Parallel scan ({} workers)", self.workers));
        }
        if self.backwards {
            parts.push("Backward index scan".to_owned());
        }
        for (columns, reason) in &self.near.residual {
            parts.push(format!("condition on {columns} not pushed: {reason}"));
        }
        if let Some(why) = self.not_joined {
            parts.push(format!("not joined with a table: {why}"));
        }
        parts.join("; ")
    }

    /// True if a secondary index has all columns that are needed.
    #[must_use]
    pub fn is_covered(&self) -> bool {
        self.secondary && !self.fetches
    }

    /// What storage does, and why it does not do the rest.
    fn near_parts(&self) -> Vec<String> {
        let near = &self.near;
        let mut parts = near.parts(self.condition.as_deref());
        if !near.any {
            if let Some(condition) = &self.condition {
                parts.push(format!("Using where {condition}"));
            }
            parts.push(format!("NDP not used: {}", near.reasons.join("; ")));
        } else if !near.reasons.is_empty() {
            parts.push(format!("not pushed: {}", near.reasons.join(", ")));
        }
        parts.extend(near.placement.as_ref().map(ToString::to_string));
        parts
    }
}

impl NearData {
    /// What is pushed.
    fn parts(&self, condition: Option<&str>) -> Vec<String> {
        let mut parts = Vec::new();
        if self.condition
            && let Some(condition) = condition
        {
            parts.push(format!("Using pushed NDP condition {condition}"));
        }
        if self.columns {
            parts.push("Using pushed NDP columns".to_owned());
        }
        if let Some(join) = &self.join {
            parts.push(format!("Using pushed NDP {join}"));
        }
        if let Some(sorted) = self.aggregate {
            let how = if sorted { ", groups sorted" } else { "" };
            parts.push(format!("Using pushed NDP aggregate{how}"));
        }
        parts.extend(self.filters.iter().map(|filter| format!("Using {filter}")));
        if let Some(limit) = self.limit {
            parts.push(format!("Using pushed NDP limit {limit}"));
        }
        parts
    }
}

impl IndexJoinExec {
    /// The inner table; rows are those for one outer row.
    #[must_use]
    pub fn described(&self) -> AccessRow {
        let scan = self.inner();
        let index = &scan.table.indexes[scan.path.index];
        let mut row = scan.described(&Residual::default());
        row.near.key_batches = self.uses_key_batches();
        AccessRow {
            access_type: if self.is_unique() { "eq_ref" } else { "ref" },
            key: Some(index.name.clone()),
            key_parts: scan.key_names(self.key_values().count()),
            rows: self.matches().round().max(1.0) as u64,
            filtered: (100.0 * scan.filter_factor()).min(100.0),
            cost: None,
            looks_up: true,
            counters: self.counters(),
            ..row
        }
    }
}

impl PageScanExec {
    /// The access, with the conditions above it that may be its own.
    #[must_use]
    pub fn described(&self, residual: &Residual) -> AccessRow {
        let (path, table) = (&self.path, &self.table);
        let index = &table.indexes[path.index];
        let possible = path.possible.iter();
        let visited = self.stats.rows as f64 * path.share;
        let access_type = access_type(self);
        let counters = self.counters().map(|c| c.snapshot()).unwrap_or_default();
        let alias = self.context.alias.clone();
        AccessRow {
            table: alias.unwrap_or_else(|| table.def.name.clone()),
            access_type,
            possible_keys: possible.map(|n| table.indexes[*n].name.clone()).collect(),
            key: (access_type != "ALL").then(|| index.name.clone()),
            key_parts: match path.is_part() {
                true => self.key_names(path.equal_columns + usize::from(!path.is_equality)),
                false => Vec::new(),
            },
            reference: match access_type {
                "const" | "ref" => vec!["const".to_owned(); path.equal_columns],
                _ => Vec::new(),
            },
            rows: visited.ceil() as u64,
            filtered: (100.0 * self.estimated_rows() / visited.max(1.0)).min(100.0),
            columns: self.delivered_names(),
            cost: Some(self.cost()),
            condition: condition(self),
            secondary: path.index > 0,
            fetches: path.fetch,
            backwards: self.order.as_ref().is_some_and(|order| order.reverse),
            ranges: path.spans.len(),
            workers: self.workers(),
            sample: self
                .sampled
                .as_ref()
                .map(|sampled| (sampled.sample.pages, sampled.sample.matching_pages)),
            looks_up: false,
            near: near(self, residual),
            not_joined: None,
            compiled: self.is_compiled()
                || counters
                    .iter()
                    .any(|(name, pages)| *name == "pages_compiled" && *pages > 0),
            counters,
            filters: self
                .run_time_filters
                .iter()
                .map(|f| effect(self, f))
                .collect(),
        }
    }

    /// Names of the first columns of the path's key.
    fn key_names(&self, count: usize) -> Vec<String> {
        let index = &self.table.indexes[self.path.index];
        let key = index.layout.key.iter().take(count.min(index.key_columns));
        key.map(|place| self.shown_name(index.columns[usize::from(*place)]))
            .collect()
    }

    /// Names of the columns that it delivers.
    fn delivered_names(&self) -> Vec<String> {
        let columns = self.projection.iter();
        columns
            .map(|column| self.shown_name(self.column(*column)))
            .collect()
    }

    /// The name of a column, or the expression that a functional key has a column for.
    fn shown_name(&self, column: u16) -> String {
        match self.table.def.columns.get(usize::from(column)) {
            Some(ColumnDef {
                hidden: Some(_),
                generated: Some(generated),
                ..
            }) => generated.expression.clone(),
            _ => self.column_name(column),
        }
    }
}

/// What storage does of an access.
fn near(scan: &PageScanExec, residual: &Residual) -> NearData {
    let ndp = &scan.ndp;
    let sorts = || {
        let aggregate = scan.aggregate.as_ref();
        aggregate.is_some_and(|a| a.grouping.method == GroupMethod::Sort)
    };
    let residual = residual.of(scan).into_iter();
    NearData {
        condition: ndp.filter,
        columns: ndp.columns,
        join: scan.join.as_ref().map(ToString::to_string),
        aggregate: ndp.aggregate.then(sorts),
        filters: scan
            .run_time_filters
            .iter()
            .map(ToString::to_string)
            .collect(),
        limit: scan.limit.filter(|_| ndp.any()),
        key_batches: scan.path.fetch && scan.uses_key_batches(),
        any: ndp.any(),
        reasons: ndp.reasons.iter().map(ToString::to_string).collect(),
        placement: ndp.placement,
        residual: residual
            .map(|(reason, columns)| (columns.join(", "), reason))
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
                column => format!("{}.{}.{}", def.shown_schema(), def.name, column.name),
            },
        })
        .collect();
    Some(program.display(&names))
}

/// True if a plan reads all rows of a table, outside of its common table expressions.
#[must_use]
pub fn reads_whole_tables(plan: &Arc<dyn ExecutionPlan>) -> bool {
    as_page_scan(plan).is_some_and(|scan| !scan.path.is_part())
        || plan.children().into_iter().any(reads_whole_tables)
}

/// Adds what the scans of a plan did to `total`.
pub fn count_scans(plan: &Arc<dyn ExecutionPlan>, total: &ScanCounters) {
    for part in definitions(plan) {
        count_below(&part.plan, total);
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
