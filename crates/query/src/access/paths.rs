//! Access paths: which index of a table to use, and which part of it, by cost (SPEC's F5).

use std::ops::Bound;
use std::sync::Arc;

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use perigee_engine::catalog::{HIDDEN_ROW_ID, Index, Table, TableStats};
use perigee_engine::ndp::KeyRange;
use perigee_value::{Collation, ColumnType, Datum, key};

use super::cost::{CostModel, rows_per_key};
use super::estimate::{column_against_constant, conjunction_factor, equal_share};
use crate::functions::collation;

/// Share of an index that a range is taken to select if nothing is known of its column.
const UNKNOWN_RANGE: f64 = 0.33;

/// How a table is accessed.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessPath {
    /// Index number in `Table::indexes`.
    pub index: usize,
    /// The part of it.
    pub range: KeyRange,
    /// Number of leading key columns that are compared for equality.
    pub equal_columns: usize,
    /// Rows are fetched from the clustered index, because this one lacks columns.
    pub fetch: bool,
    /// Share of the index's entries in the range.
    pub share: f64,
    /// Indexes that the predicate could use.
    pub possible: Vec<usize>,
}

impl AccessPath {
    /// All of an index.
    #[must_use]
    pub fn all_of(index: usize, fetch: bool) -> Self {
        Self {
            index,
            range: KeyRange::ALL,
            equal_columns: 0,
            fetch,
            share: 1.0,
            possible: Vec::new(),
        }
    }

    /// True if it is not all of the index.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.range != KeyRange::ALL
    }
}

/// What an access reads: the table, a conjunction over its columns, the columns it needs.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    pub table: &'a Table,
    pub stats: &'a TableStats,
    pub filters: &'a [Arc<dyn PhysicalExpr>],
    pub needed: &'a [u16],
}

impl Wanted<'_> {
    /// The cheapest path.
    #[must_use]
    pub fn cheapest(&self, model: &CostModel<'_>) -> AccessPath {
        let delivered = self.stats.rows as f64 * conjunction_factor(self.filters, self.stats);
        let mut best: Option<(f64, AccessPath)> = None;
        let mut possible = Vec::new();
        for path in self.paths() {
            if path.is_part() {
                possible.push(path.index);
            } else if path.fetch {
                continue; // all rows by their keys: never better than all of the clustered index
            }
            let cost = model.path(&path, delivered);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, path));
            }
        }
        let (_, path) = best.expect("a table has a clustered index, which has every column");
        AccessPath { possible, ..path }
    }

    /// The narrowest path over each index.
    pub fn paths(&self) -> impl Iterator<Item = AccessPath> {
        let indexes = self.table.indexes.iter().enumerate();
        indexes.map(|(number, index)| self.path_by(number, index))
    }

    fn path_by(&self, number: usize, index: &Index) -> AccessPath {
        let fetch = number > 0 && !index.covers(self.needed);
        let selected = range_of(self.table, index, self.filters);
        if selected.equal_columns == 0 && selected.ranged.is_empty() {
            return AccessPath::all_of(number, fetch);
        }
        let bound = |prefix: &[u8], strict: bool| match prefix.is_empty() {
            true => Bound::Unbounded,
            false if strict => Bound::Excluded(prefix.to_vec()),
            false => Bound::Included(prefix.to_vec()),
        };
        AccessPath {
            index: number,
            share: self.share(index, &selected),
            range: KeyRange {
                lower: bound(&selected.lower, selected.lower_strict),
                upper: bound(&selected.upper, selected.upper_strict),
            },
            equal_columns: selected.equal_columns,
            fetch,
            possible: Vec::new(),
        }
    }

    /// Share of an index's entries that lie in the selected part.
    fn share(&self, index: &Index, selected: &Selected) -> f64 {
        let rows = (self.stats.rows as f64).max(1.0);
        let equal = match selected.equal_columns {
            0 => 1.0,
            columns if index.unique && columns >= index.key_columns => 1.0 / rows,
            columns => {
                let average = rows_per_key(self.stats, index, columns) / rows;
                equal_share(self.stats, average, &selected.equal)
            }
        };
        let ranged = match selected.ranged.is_empty() {
            true => 1.0,
            false if self.stats.columns.is_empty() => UNKNOWN_RANGE,
            false => conjunction_factor(&selected.ranged, self.stats),
        };
        (equal * ranged).min(1.0)
    }
}

/// The part of an index that a conjunction selects.
#[derive(Default)]
struct Selected {
    lower: Vec<u8>,
    lower_strict: bool,
    upper: Vec<u8>,
    upper_strict: bool,
    equal_columns: usize,
    /// What those are compared with.
    equal: Vec<(usize, Datum)>,
    /// The comparisons that bound the key column behind those.
    ranged: Vec<Arc<dyn PhysicalExpr>>,
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
        if let Some((_, value, _)) = comparisons.iter().find(|(op, ..)| *op == Operator::Eq) {
            let Some(part) = encode(def.ty, def.nullable, value) else {
                break;
            };
            selected.lower.extend_from_slice(&part);
            selected.upper.extend_from_slice(&part);
            selected.equal_columns += 1;
            selected.equal.push((usize::from(column), value.clone()));
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
            let fits = found == column
                && value != Datum::Null
                && is_value_of(ty, &value)
                && compares_as_keys(ty, binary);
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
        Datum::UInt(_) => ty.is_unsigned(),
        Datum::Date(_) => ty == ColumnType::Date,
        Datum::DateTime(_) => matches!(
            ty,
            ColumnType::DateTime { .. } | ColumnType::Timestamp { .. }
        ),
        Datum::Time(_) => matches!(ty, ColumnType::Time { .. }),
        Datum::String(_) => matches!(ty, ColumnType::Char { .. } | ColumnType::Varchar { .. }),
        _ => false,
    }
}

/// True if a comparison with a constant is one in the collation of the column, and so of its keys.
fn compares_as_keys(ty: ColumnType, comparison: &BinaryExpr) -> bool {
    let by_weights = |expr: &Arc<dyn PhysicalExpr>| {
        let mut expr = expr;
        while let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() {
            if function.name() == collation::WEIGHTS {
                return true;
            }
            match function.args().first() {
                Some(argument) => expr = argument,
                None => return false,
            }
        }
        false
    };
    let weighed = by_weights(comparison.left()) || by_weights(comparison.right());
    weighed == (ty.collation() == Some(Collation::UTF8MB4_GENERAL_CI))
}

fn encode(ty: ColumnType, nullable: bool, value: &Datum) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    key::encode_part(ty, nullable, value.as_ref(), &mut out).ok()?;
    Some(out)
}

/// An encoded value at an end of a range, and whether it is outside.
type Edge = (Vec<u8>, bool);

/// Adds the tightest bounds that comparisons of the first column without equality give.
fn add_bounds(
    selected: &mut Selected,
    ty: ColumnType,
    nullable: bool,
    comparisons: &[ColumnComparison],
) {
    let prefix = selected.lower.clone();
    let (mut lower, mut upper): (Option<Edge>, Option<Edge>) = (None, None);
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
                let tighter = |(old, old_strict): &Edge| (&part, !strict) < (old, !*old_strict);
                if upper.as_ref().is_none_or(tighter) {
                    upper = Some((part, strict));
                }
            }
            _ => continue,
        }
        selected.ranged.push(expr.clone());
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
