//! Access paths: which index of a table to use, and which parts of it, by cost (SPEC's F5).

use std::sync::Arc;

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use perigee_engine::catalog::{HIDDEN_ROW_ID, Hidden, Index, Table, TableStats};
use perigee_engine::scan::{KeySpan, KeySpans};
use perigee_value::{Collation, Weight};

use super::cost::{CostModel, rows_per_key};
use super::estimate::{conjunction_factor, equal_share};
use super::key_values::{KeyColumn, Values, parts_of};
use super::settings::IndexChoice;

/// Share of an index that a range is taken to select if nothing is known of its column.
const UNKNOWN_RANGE: f64 = 0.33;

/// Most parts of an index that an access reads; of more, all that lies between the first and the last.
const MOST_SPANS: usize = 1 << 16;

/// How a table is accessed.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessPath {
    /// Index number in `Table::indexes`.
    pub index: usize,
    /// The parts of it.
    pub spans: KeySpans,
    /// Number of leading key columns that have one value in all parts.
    pub equal_columns: usize,
    /// Nothing but those selects the parts, which are one.
    pub is_equality: bool,
    /// Rows are fetched from the clustered index, because this one lacks columns.
    pub fetch: bool,
    /// Share of the index's entries in the parts.
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
            spans: KeySpans::all(),
            equal_columns: 0,
            is_equality: false,
            fetch,
            share: 1.0,
            possible: Vec::new(),
        }
    }

    /// True if it is not all of the index.
    #[must_use]
    pub fn is_part(&self) -> bool {
        !self.spans.is_all()
    }
}

/// What an access reads: the table, a conjunction over its columns, the columns it needs.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    pub table: &'a Table,
    pub stats: &'a TableStats,
    pub filters: &'a [Arc<dyn PhysicalExpr>],
    /// Conditions that the access does not evaluate, but somebody does.
    pub hints: &'a [Arc<dyn PhysicalExpr>],
    pub needed: &'a [u16],
    /// Share of the rows that is expected to pass the conjunction.
    pub factor: f64,
    /// What hints leave of the indexes.
    pub indexes: IndexChoice,
}

impl<'a> Wanted<'a> {
    /// All conditions that rows will meet.
    fn conditions(&self) -> impl Iterator<Item = &'a Arc<dyn PhysicalExpr>> {
        self.filters.iter().chain(self.hints)
    }

    /// The cheapest path.
    #[must_use]
    pub fn cheapest(&self, model: &CostModel<'_>) -> AccessPath {
        let delivered = self.stats.rows as f64 * self.factor;
        let mut best: Option<(f64, AccessPath)> = None;
        let mut possible = Vec::new();
        for path in self.paths() {
            let path = match self.indexes.allows(path.index) {
                true => path,
                // All rows can always be read.
                false if path.index == 0 => AccessPath::all_of(0, false),
                false => continue,
            };
            if path.is_part() {
                possible.push(path.index);
            } else if path.fetch {
                continue; // all rows by their keys: never better than all of the clustered index
            }
            let is_last = self.indexes.forced && !path.is_part();
            let cost = match is_last {
                true => f64::MAX,
                false => model.path(&path, delivered),
            };
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

    /// The narrowest path over an index.
    pub(super) fn path_by(&self, number: usize, index: &Index) -> AccessPath {
        let fetch = number > 0 && !index.covers(self.needed);
        let Some(selected) = self.selected(index).filter(|s| !s.spans.is_all()) else {
            return AccessPath::all_of(number, fetch);
        };
        AccessPath {
            index: number,
            share: selected.share.clamp(0.0, 1.0),
            spans: selected.spans,
            equal_columns: selected.equal_columns,
            is_equality: selected.is_equality,
            fetch,
            possible: Vec::new(),
        }
    }

    /// The parts of an index that the conditions select; `None` if that is all of it.
    fn selected(&self, index: &Index) -> Option<Selected> {
        let columns = key_columns(self.table, index);
        let known: Vec<_> = columns.map(|c| Known::of(c, self.conditions())).collect();
        let mut selected = self.product(index, &known);
        // Alternatives that are about several columns.
        for filter in self.conditions() {
            let alternatives = parts_of(filter, Operator::Or);
            let is_known = || known.iter().any(|column| column.has(filter));
            if alternatives.len() < 2 || is_known() {
                continue;
            }
            let Some(union) = self.union(index, &known, &alternatives) else {
                continue;
            };
            selected = Some(match selected {
                None => union,
                Some(all) => {
                    let spans = all.spans.and(&union.spans);
                    Selected {
                        is_equality: all.is_equality && spans == all.spans,
                        spans,
                        share: all.share.min(union.share),
                        ..all
                    }
                }
            });
        }
        selected
    }

    /// What one of several conditions selects together with what is known, if each of them selects some
    /// parts.
    fn union(
        &self,
        index: &Index,
        known: &[Known],
        alternatives: &[&Arc<dyn PhysicalExpr>],
    ) -> Option<Selected> {
        let (mut spans, mut share) = (Vec::new(), 0.0);
        for alternative in alternatives {
            let filters = parts_of(alternative, Operator::And);
            let columns = known.iter().map(|known| known.with(&filters));
            let selected = self.product(index, &columns.collect::<Vec<_>>())?;
            spans.extend_from_slice(&selected.spans);
            share += selected.share;
            if spans.len() > MOST_SPANS {
                spans = vec![KeySpans::union(spans).hull()];
            }
        }
        Some(Selected {
            spans: KeySpans::union(spans),
            equal_columns: 0,
            is_equality: false,
            share,
        })
    }

    /// The keys whose leading columns have values that are known: of each column but the last single
    /// ones. `None` if nothing is known of the first column.
    fn product(&self, index: &Index, columns: &[Known]) -> Option<Selected> {
        let mut prefixes = vec![Vec::new()];
        // Values that rows may have, of which each may have several prefixes.
        let mut values = 1.0;
        let (mut single, mut equal_columns) = (0, 0);
        let mut ranged = None;
        for column in columns {
            match &column.values {
                Some(Values::Points(points)) if prefixes.len() * points.len() <= MOST_SPANS => {
                    if points.len() == 1 && single == equal_columns {
                        equal_columns += 1;
                    }
                    single += 1;
                    values *= column.count(points.len()) as f64;
                    let with = |prefix: &Vec<u8>| -> Vec<Vec<u8>> {
                        let keys = points.iter().map(|point| [&prefix[..], point].concat());
                        keys.collect()
                    };
                    prefixes = prefixes.iter().flat_map(with).collect();
                }
                Some(values) => {
                    ranged = Some((column, values.spans()));
                    break;
                }
                None => break,
            }
        }
        if single == 0 && ranged.is_none() {
            return None;
        }
        let mut share = self.share_of_keys(index, &columns[..single], values);
        let spans = match &ranged {
            None => prefixes.iter().map(|key| KeySpan::prefix(key)).collect(),
            Some((column, spans)) => {
                share *= match self.stats.columns.is_empty() {
                    true => UNKNOWN_RANGE,
                    false => conjunction_factor(&column.filters, self.stats),
                };
                behind(&prefixes, spans)
            }
        };
        Some(Selected {
            spans: KeySpans::union(spans),
            equal_columns,
            is_equality: single > 0 && single == equal_columns && ranged.is_none(),
            share,
        })
    }

    /// Share of an index's entries that have one of `keys` values in its first columns.
    fn share_of_keys(&self, index: &Index, columns: &[Known], keys: f64) -> f64 {
        let rows = (self.stats.rows as f64).max(1.0);
        if columns.is_empty() {
            return 1.0;
        }
        if index.unique && columns.len() >= index.key_columns {
            return keys / rows;
        }
        let average = keys * rows_per_key(self.stats, index, columns.len()) / rows;
        let shares = columns.iter().filter_map(|known| {
            let column = self.stats.columns.get(known.column.number)?;
            // Of a TEXT there are no statistics but those of its prefix, which the average has.
            if known.column.prefix.is_some() && column.histogram.is_none() {
                return None;
            }
            let share = conjunction_factor(&known.filters, self.stats);
            let points = match &known.values {
                Some(Values::Points(points)) => known.count(points.len()).max(1) as f64,
                _ => 1.0,
            };
            Some((share, column.distinct.max(1) as f64 / points))
        });
        equal_share(average, shares)
    }
}

/// The key columns of an index, up to the first that is none of the table's.
fn key_columns<'t>(table: &'t Table, index: &'t Index) -> impl Iterator<Item = KeyColumn> + 't {
    let key = index.layout.key[..index.key_columns].iter();
    let numbers = key.map(|position| index.columns[usize::from(*position)]);
    let numbers = numbers.take_while(|number| *number != HIDDEN_ROW_ID);
    numbers.map(|number| {
        let def = &table.def.columns[usize::from(number)];
        let (of, prefix) = match def.hidden {
            Some(Hidden::Prefix { of, length }) => (of, Some(length)),
            _ => (number, None),
        };
        KeyColumn {
            number: usize::from(of),
            ty: def.ty,
            nullable: def.nullable,
            prefix,
        }
    })
}

/// True if a condition that storage cannot evaluate selects parts of an index: by the beginnings of a column, or by
/// bytes.
pub(super) fn selects_parts(table: &Table, condition: &Arc<dyn PhysicalExpr>) -> bool {
    parts(table).any(|column| column.of(condition).is_some())
}

/// True if a table has keys for such conditions.
pub(super) fn has_parts(table: &Table) -> bool {
    parts(table).next().is_some()
}

/// Key columns that are beginnings of columns, or have bytes.
fn parts(table: &Table) -> impl Iterator<Item = KeyColumn> + '_ {
    let indexes = table.indexes.iter();
    let columns = indexes.flat_map(|index| key_columns(table, index));
    let is_bytes = |column: &KeyColumn| column.ty.collation() == Some(Collation::BINARY);
    columns.filter(move |column| column.prefix.is_some() || is_bytes(column))
}

/// What conditions say of a key column.
#[derive(Clone)]
struct Known {
    column: KeyColumn,
    /// The values that they let through; `None` if they say nothing.
    values: Option<Values>,
    /// Those that say something.
    filters: Vec<Arc<dyn PhysicalExpr>>,
}

impl Known {
    fn of<'f>(column: KeyColumn, filters: impl Iterator<Item = &'f Arc<dyn PhysicalExpr>>) -> Self {
        let nothing = Self {
            column,
            values: None,
            filters: Vec::new(),
        };
        nothing.with(&filters.collect::<Vec<_>>())
    }

    /// With what more conditions say.
    fn with(&self, filters: &[&Arc<dyn PhysicalExpr>]) -> Self {
        let mut out = self.clone();
        for filter in filters {
            let Some(values) = self.column.of(filter) else {
                continue;
            };
            out.filters.push(Arc::clone(filter));
            out.values = Some(match out.values {
                Some(known) => known.and(&values),
                None => values,
            });
        }
        out
    }

    /// How many values so many points stand for.
    fn count(&self, points: usize) -> usize {
        match (self.column.prefix, self.column.ty.collation()) {
            (Some(_), Some(collation)) if collation.weight() == Weight::OfSome => 1,
            _ => points,
        }
    }

    fn has(&self, filter: &Arc<dyn PhysicalExpr>) -> bool {
        self.filters.iter().any(|known| Arc::ptr_eq(known, filter))
    }
}

/// The parts of an index that conditions select.
struct Selected {
    spans: KeySpans,
    equal_columns: usize,
    is_equality: bool,
    /// Share of the index's entries.
    share: f64,
}

/// The keys that begin with one of some prefixes, in order, and go on in one of some spans.
fn behind(prefixes: &[Vec<u8>], spans: &KeySpans) -> Vec<KeySpan> {
    let hull;
    let spans: &[KeySpan] = match prefixes.len() * spans.len() <= MOST_SPANS {
        true => spans,
        false => {
            hull = [spans.hull()];
            &hull
        }
    };
    let with = |prefix: &Vec<u8>, span: &KeySpan| KeySpan {
        lower: [&prefix[..], &span.lower].concat(),
        upper: match &span.upper {
            Some(upper) => Some([&prefix[..], upper].concat()),
            None => KeySpan::prefix(prefix).upper,
        },
    };
    let of_prefix = |prefix| spans.iter().map(move |span| with(prefix, span));
    prefixes.iter().flat_map(of_prefix).collect()
}
