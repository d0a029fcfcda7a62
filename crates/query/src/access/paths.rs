//! Access paths: which index of a table to use, and which part of it, by cost (SPEC's F5).
//!
//! The cost is in pages: leaf pages read in sequence count one, a row fetched from the clustered
//! index by its key counts as much as [`FETCH_COST`] pages, because it descends a tree of its own.
//! Joins weigh lookups for each outer row ([`lookups_cost`]) against one access ([`path_cost`]).

use std::ops::Bound;
use std::sync::Arc;

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;
use perigee_engine::catalog::{HIDDEN_ROW_ID, Index, Table, TableStats};
use perigee_engine::ndp::KeyRange;
use perigee_value::{ColumnType, Datum, key};

use super::estimate::{column_against_constant, conjunction_factor};

/// Cost of fetching one row by its clustered key, in sequential leaf pages.
const FETCH_COST: f64 = 0.5;

/// Cost of reading one leaf page that is not in the buffer pool on its own, in pages of a batch
/// read: lookups wait for storage page by page.
const SINGLE_READ_COST: f64 = 4.0;

/// Cost of a row found by a lookup beyond its tree's descent, in pages.
const ROW_COST: f64 = 0.02;

/// How a table is accessed.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessPath {
    /// Index number in `Table::indexes`.
    pub index: usize,
    /// The part of it.
    pub range: KeyRange,
    /// Number of leading key columns that are compared for equality.
    pub equal_columns: usize,
    /// Rows are fetched from the clustered index, because this one lacks columns; then the range is
    /// that of a single key prefix.
    pub fetch: bool,
    /// Share of the index's entries in the range.
    pub share: f64,
    /// Indexes that the predicate could use.
    pub possible: Vec<usize>,
}

/// The cheapest path for a predicate (a conjunction over table columns) when `needed` columns of the
/// table are read.
#[must_use]
pub fn choose(
    table: &Table,
    stats: &TableStats,
    filters: &[Arc<dyn PhysicalExpr>],
    needed: &[u16],
) -> AccessPath {
    let full = AccessPath {
        index: 0,
        range: KeyRange::ALL,
        equal_columns: 0,
        fetch: false,
        share: 1.0,
        possible: Vec::new(),
    };
    let mut best = (leaf_pages(table, stats, 0), full);
    let mut possible = Vec::new();
    for (number, index) in table.indexes.iter().enumerate() {
        let Some(path) = path_by(table, stats, filters, needed, number, index) else {
            continue;
        };
        if path.share < 1.0 {
            possible.push(number);
        }
        let cost = path_cost(table, stats, &path);
        if cost < best.0 {
            best = (cost, path);
        }
    }
    AccessPath { possible, ..best.1 }
}

/// Cost of an access by a path.
#[must_use]
pub fn path_cost(table: &Table, stats: &TableStats, path: &AccessPath) -> f64 {
    let pages = leaf_pages(table, stats, path.index) * path.share;
    let fetched = if path.fetch {
        stats.rows as f64 * path.share * FETCH_COST
    } else {
        0.0
    };
    pages + fetched
}

/// Rows that are expected to have one value of the first `columns` key columns of an index.
#[must_use]
pub fn rows_per_key(stats: &TableStats, index: &Index, columns: usize) -> f64 {
    if index.unique && columns >= index.key_columns {
        return 1.0;
    }
    let rows = (stats.rows as f64).max(1.0);
    let distinct = index.layout.key[..columns].iter().map(|position| {
        let column = usize::from(index.columns[usize::from(*position)]);
        // Without statistics: ten rows a value.
        stats
            .columns
            .get(column)
            .map_or(rows / 10.0, |c| c.distinct as f64)
            .max(1.0)
    });
    rows / distinct.product::<f64>().min(rows)
}

/// Cost of looking up `keys` keys in an index, each with `matches` rows: descents of the index, of
/// the clustered index for each entry of a secondary one, and reads of pages that are not in the
/// buffer pool. `resident` is the share of an index's leaf pages that are.
#[must_use]
pub fn lookups_cost(
    table: &Table,
    stats: &TableStats,
    index: usize,
    (keys, matches): (f64, f64),
    resident: impl Fn(usize) -> f64,
) -> f64 {
    let rows = keys * matches;
    let missed = |index: usize, reads: f64| {
        touched(leaf_pages(table, stats, index), reads) * (1.0 - resident(index)).clamp(0.0, 1.0)
    };
    let (fetched, missed) = match index {
        0 => (0.0, missed(0, keys)),
        _ => (rows, missed(index, keys) + missed(0, rows)),
    };
    (keys + fetched) * FETCH_COST + rows * ROW_COST + missed * SINGLE_READ_COST
}

/// How many of so many pages are touched by reads at random places.
fn touched(pages: f64, reads: f64) -> f64 {
    let pages = pages.max(1.0);
    pages * (1.0 - (-reads / pages).exp())
}

pub(super) fn leaf_pages(table: &Table, stats: &TableStats, index: usize) -> f64 {
    let known = stats
        .leaf_pages
        .get(index)
        .copied()
        .filter(|pages| *pages > 0);
    // Without a count: a page holds some hundred entries, rows are longer than entries.
    let guess = stats.rows as f64 / if index == 0 { 100.0 } else { 400.0 };
    let _ = table;
    known.map_or(guess.max(1.0), |pages| pages as f64)
}

/// The path over one index, if it is of use: a range of it, or all of it if it has every column
/// that is needed.
fn path_by(
    table: &Table,
    stats: &TableStats,
    filters: &[Arc<dyn PhysicalExpr>],
    needed: &[u16],
    number: usize,
    index: &Index,
) -> Option<AccessPath> {
    let fetch = number > 0 && !index.covers(needed);
    let range = range_of(table, index, filters);
    if range.filters.is_empty() {
        let path = AccessPath {
            index: number,
            range: KeyRange::ALL,
            equal_columns: 0,
            fetch: false,
            share: 1.0,
            possible: Vec::new(),
        };
        return (!fetch).then_some(path);
    }
    // A lookup by key prefix fetches; a range over a part of the key does not.
    if fetch && (range.equal_columns == 0 || range.lower != range.upper) {
        return None;
    }
    let bound = |prefix: Vec<u8>, strict: bool| match prefix.is_empty() {
        true => Bound::Unbounded,
        false if strict => Bound::Excluded(prefix),
        false => Bound::Included(prefix),
    };
    Some(AccessPath {
        index: number,
        share: conjunction_factor(&range.filters, stats),
        range: KeyRange {
            lower: bound(range.lower, range.lower_strict),
            upper: bound(range.upper, range.upper_strict),
        },
        equal_columns: range.equal_columns,
        fetch,
        possible: Vec::new(),
    })
}

/// The part of an index that a conjunction selects.
#[derive(Default)]
struct Selected {
    lower: Vec<u8>,
    lower_strict: bool,
    upper: Vec<u8>,
    upper_strict: bool,
    equal_columns: usize,
    /// The comparisons that made it.
    filters: Vec<Arc<dyn PhysicalExpr>>,
}

fn range_of(table: &Table, index: &Index, filters: &[Arc<dyn PhysicalExpr>]) -> Selected {
    let mut selected = Selected::default();
    for key_column in &index.layout.key[..index.key_columns] {
        let column = index.columns[usize::from(*key_column)];
        if column == HIDDEN_ROW_ID {
            break;
        }
        let def = &table.def.columns[usize::from(column)];
        let comparisons = comparisons_of(usize::from(column), def.ty, filters);
        if let Some((_, value, expr)) = comparisons.iter().find(|(op, ..)| *op == Operator::Eq) {
            let Some(part) = encode(def.ty, def.nullable, value) else {
                break;
            };
            selected.lower.extend_from_slice(&part);
            selected.upper.extend_from_slice(&part);
            selected.equal_columns += 1;
            selected.filters.push(expr.clone());
            continue;
        }
        add_bounds(&mut selected, def.ty, def.nullable, &comparisons);
        break;
    }
    selected
}

type ColumnComparison = (Operator, Datum, Arc<dyn PhysicalExpr>);

/// Comparisons of a column with constants of its own type.
fn comparisons_of(
    column: usize,
    ty: ColumnType,
    filters: &[Arc<dyn PhysicalExpr>],
) -> Vec<ColumnComparison> {
    filters
        .iter()
        .filter_map(|expr| {
            let binary = expr.downcast_ref::<BinaryExpr>()?;
            let (found, op, value) = column_against_constant(binary)?;
            let fits = found == column && value != Datum::Null && is_value_of(ty, &value);
            fits.then(|| (op, value, expr.clone()))
        })
        .collect()
}

/// True if a constant can be encoded as a key part of the column as it is. Decimals are compared in
/// the column's scale after planning; strings are equal or not as the collation says.
fn is_value_of(ty: ColumnType, value: &Datum) -> bool {
    match value {
        Datum::Int(_) => matches!(
            ty,
            ColumnType::Int {
                unsigned: false,
                ..
            }
        ),
        Datum::UInt(_) => matches!(ty, ColumnType::Int { unsigned: true, .. }),
        Datum::Date(_) => ty == ColumnType::Date,
        Datum::DateTime(_) => matches!(ty, ColumnType::DateTime { .. }),
        Datum::String(_) => matches!(ty, ColumnType::Char { .. } | ColumnType::Varchar { .. }),
        _ => false,
    }
}

fn encode(ty: ColumnType, nullable: bool, value: &Datum) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    key::encode_part(ty, nullable, value.as_ref(), &mut out).ok()?;
    Some(out)
}

/// Adds the tightest bounds that comparisons of the first column without equality give.
fn add_bounds(
    selected: &mut Selected,
    ty: ColumnType,
    nullable: bool,
    comparisons: &[ColumnComparison],
) {
    let prefix = selected.lower.clone();
    let (mut lower, mut upper): (Option<(Vec<u8>, bool)>, Option<(Vec<u8>, bool)>) = (None, None);
    for (op, value, expr) in comparisons {
        let Some(part) = encode(ty, nullable, value) else {
            continue;
        };
        let strict = matches!(op, Operator::Lt | Operator::Gt);
        match op {
            Operator::Gt | Operator::GtEq => {
                lower = lower.max(Some((part, strict)));
            }
            Operator::Lt | Operator::LtEq => {
                // Of two equal upper bounds the strict one is tighter.
                let tighter =
                    |(old, old_strict): &(Vec<u8>, bool)| (&part, !strict) < (old, !*old_strict);
                if upper.as_ref().is_none_or(tighter) {
                    upper = Some((part, strict));
                }
            }
            _ => continue,
        }
        selected.filters.push(expr.clone());
    }
    if let Some((part, strict)) = lower {
        selected.lower.extend_from_slice(&part);
        selected.lower_strict = strict;
    } else if upper.is_some() && nullable {
        // NULL comes first and is not below anything.
        selected.lower = [
            prefix.as_slice(),
            &encode(ty, nullable, &Datum::Null).unwrap_or_default(),
        ]
        .concat();
        selected.lower_strict = true;
    }
    if let Some((part, strict)) = upper {
        selected.upper.extend_from_slice(&part);
        selected.upper_strict = strict;
    }
}
