//! How storage groups: whether it pays, and whether by hashing or by sorting, by the groups that are expected
//! and the memory that there is for them.
//!
//! A run in storage aggregates the pages of one batch read at most, in a part of the memory that a store has for
//! one. What exceeds it goes to the frontend as partial rows, which merges all that it gets.

use std::num::NonZeroU64;
use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use perigee_engine::Prices;
use perigee_engine::ndp::{Aggregate, GroupMethod, Grouping};
use perigee_expr::{AggregateFunction, Program, Type};

use super::Reason;
use super::exec::PageScanExec;
use super::group_values::most_values;
use super::placement::GroupWork;
use super::settings::GROUP_MEMORY;

/// Threads of a store that share the memory for one request, as far as plans know.
const THREADS: f64 = 2.0;

/// Bytes of a group in a hash table beside its states: its code, its key, its place.
const HASHED_KEY: f64 = 64.0;

/// Bytes of the key of a sorted group, if it is short.
const SORTED_KEY: f64 = 16.0;

/// Parts of the memory for sorted groups that are kept, and that are new.
const KEPT: f64 = 11.0 / 16.0;
const NEW: f64 = 2.0 / 16.0;

/// Microseconds to find the group of a row: by hashing, by sorting (`perigee-bench columnburst` measures both).
pub(super) const HASHED_ROW: f64 = 0.012;
const SORTED_ROW: f64 = 0.045;

/// Microseconds that a partial row costs: sent, and merged in the frontend.
pub(super) const PARTIAL_ROW: f64 = 0.15;

/// How the groups of an access are found in storage.
///
/// # Errors
/// If aggregating in the scan does not leave far fewer rows, nor costs no table.
pub(super) fn grouping_of(
    scan: &PageScanExec,
    keys: &[Arc<dyn PhysicalExpr>],
    aggregate: &Aggregate,
) -> Result<(Grouping, GroupWork), Reason> {
    let columns = keys.iter().map(|key| columns_of(scan, key));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let rows = scan.estimated_rows().max(1.0);
    let values = |column: &usize| {
        let stats = scan.stats.columns.get(*column);
        KeyValues {
            distinct: stats.map_or(rows, |stats| stats.distinct as f64),
            width: stats.map_or(8.0, |stats| f64::from(stats.average_width)),
        }
    };
    let of_keys = columns.iter().map(|key| key.iter().map(values).collect());
    let groups = expected(scan, &of_keys.collect::<Vec<_>>(), aggregate);
    let in_order = is_in_order(scan, keys, &columns.concat());
    method_of(scan, groups, keys.is_empty(), in_order)
}

/// How the groups of joined rows of an access are found, whose keys are made of columns with these values, key by key.
///
/// # Errors
/// As [`grouping_of`].
pub(super) fn grouping_of_joined(
    scan: &PageScanExec,
    of_keys: &[Vec<KeyValues>],
    aggregate: &Aggregate,
) -> Result<(Grouping, GroupWork), Reason> {
    let groups = expected(scan, of_keys, aggregate);
    method_of(scan, groups, of_keys.is_empty(), false)
}

/// What is known of the values of a column that keys of groups are made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyValues {
    /// Different ones.
    pub distinct: f64,
    /// Bytes of one.
    pub width: f64,
}

fn method_of(
    scan: &PageScanExec,
    groups: Groups,
    is_scalar: bool,
    in_order: bool,
) -> Result<(Grouping, GroupWork), Reason> {
    let width = groups.key_bytes + groups.state_bytes;
    if is_scalar {
        let of_rows = groups.rows;
        return Ok((Grouping::default(), GroupWork { of_rows, width }));
    }
    let settings = &scan.context.settings;
    let knows_sorting = scan.context.engine.storage_knows_sorting();
    let forced = settings.group_method.filter(|_| knows_sorting);
    let choice = match forced {
        Some(method) => groups.with(method),
        None => groups.cheapest(knows_sorting),
    };
    if !in_order {
        check(scan, &groups, choice)?;
    }
    // Groups that come one after the other take no memory.
    let method = match in_order && forced.is_none() {
        true => GroupMethod::Hash,
        false => choice.method,
    };
    let asked = settings.group_memory;
    let grouping = Grouping {
        method,
        memory: NonZeroU64::new(asked).filter(|_| knows_sorting && asked != GROUP_MEMORY),
    };
    let of_rows = match in_order {
        true => (groups.all_rows / groups.groups).max(1.0),
        false => choice.of_rows,
    };
    Ok((grouping, GroupWork { of_rows, width }))
}

/// Groups of few rows are not made in storage: where costs decide, if they cost more than the rows.
fn check(scan: &PageScanExec, groups: &Groups, choice: Choice) -> Result<(), Reason> {
    let (of_rows, engine) = (choice.of_rows, &scan.context.engine);
    let settings = &scan.context.settings;
    if !settings.decide_by_cost(engine) {
        let least = settings.thresholds.min_rows_per_group();
        return match of_rows < least {
            true => Err(Reason::ManyGroups {
                groups: groups.groups,
                of_rows,
                least,
            }),
            false => Ok(()),
        };
    }
    let Prices {
        byte,
        storage,
        reduced,
        whole,
        ..
    } = engine.prices();
    let byte = byte + storage.byte + reduced.byte;
    let row = reduced.row + scan.width() * byte + whole.row;
    let width = groups.key_bytes + groups.state_bytes;
    let grouped = choice.row() + (PARTIAL_ROW + width * byte) / of_rows;
    match grouped < row {
        true => Ok(()),
        false => Err(Reason::DearGroups {
            groups: groups.groups,
            of_rows,
        }),
    }
}

/// The table columns that a key is made of.
fn columns_of(scan: &PageScanExec, key: &Arc<dyn PhysicalExpr>) -> Result<Vec<usize>, Reason> {
    let columns = collect_columns(key).into_iter();
    columns
        .map(|column| {
            let column = scan.projection.get(column.index()).copied();
            column.ok_or(Reason::AggregateForm("a projection"))
        })
        .collect()
}

/// True if the index delivers the groups one after the other.
fn is_in_order(scan: &PageScanExec, keys: &[Arc<dyn PhysicalExpr>], columns: &[usize]) -> bool {
    let index = &scan.table.indexes[scan.path.index];
    let is_column = |key: &Arc<dyn PhysicalExpr>| key.downcast_ref::<Column>().is_some();
    let is_key = |column: &u16| columns.contains(&usize::from(index.columns[usize::from(*column)]));
    let mut leading = index.layout.key.iter().take(columns.len());
    !columns.is_empty() && keys.iter().all(is_column) && leading.all(is_key)
}

/// What statistics tell of the groups.
fn expected(scan: &PageScanExec, of_keys: &[Vec<KeyValues>], aggregate: &Aggregate) -> Groups {
    let rows = scan.estimated_rows().max(1.0);
    let programs = aggregate.group_by.iter();
    let of_key = |(columns, program): (&Vec<KeyValues>, _)| {
        let values: f64 = columns
            .iter()
            .map(|column| column.distinct.max(1.0))
            .product();
        values.min(most_values(program))
    };
    let groups: f64 = of_keys.iter().zip(programs).map(of_key).product();
    let states = aggregate.functions.iter().map(state_bytes);
    Groups {
        groups: groups.min(rows),
        all_rows: rows,
        rows: rows.min(scan.rows_of_a_read()).max(1.0),
        key_bytes: of_keys.iter().flatten().map(|column| column.width).sum(),
        state_bytes: states.sum(),
        memory: scan.context.settings.group_memory.min(GROUP_MEMORY) as f64,
    }
}

/// Bytes of a function's state, about.
fn state_bytes((function, argument): &(AggregateFunction, Option<Program>)) -> f64 {
    let ty = argument.as_ref().map(Program::result_type);
    match (function, ty) {
        (AggregateFunction::CountAll | AggregateFunction::Count, _) => 8.0,
        (AggregateFunction::Sum, Some(Type::Double)) => 80.0,
        (AggregateFunction::Sum, _) => 17.0,
        (_, Some(Type::String | Type::Collated(_))) => 50.0,
        _ => 9.0,
    }
}

/// What is known of an aggregation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Groups {
    /// Different keys.
    pub groups: f64,
    /// Rows.
    pub all_rows: f64,
    /// Rows of one batch read, which come in any order.
    pub rows: f64,
    /// Bytes of a key,
    pub key_bytes: f64,
    /// and of the states of a group.
    pub state_bytes: f64,
    /// Memory for one request.
    pub memory: f64,
}

/// How to group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Choice {
    pub method: GroupMethod,
    /// Rows that storage makes one of.
    pub of_rows: f64,
}

impl Choice {
    /// What it costs to find the group of a row.
    fn row(&self) -> f64 {
        match self.method {
            GroupMethod::Hash => HASHED_ROW,
            GroupMethod::Sort => SORTED_ROW,
        }
    }
}

impl Groups {
    /// The cheaper method of those that storage knows.
    pub(super) fn cheapest(&self, knows_sorting: bool) -> Choice {
        let hash = self.with(GroupMethod::Hash);
        let sort = self.with(GroupMethod::Sort);
        let cost = |choice: Choice| choice.row() + PARTIAL_ROW / choice.of_rows;
        match knows_sorting && cost(sort) < cost(hash) {
            true => sort,
            false => hash,
        }
    }

    /// What a method makes of the rows.
    pub(super) fn with(&self, method: GroupMethod) -> Choice {
        let memory = self.memory / THREADS;
        let of_rows =
            match method {
                GroupMethod::Hash => self
                    .of_hashed(memory / (HASHED_KEY.max(2.0 * self.key_bytes) + self.state_bytes)),
                GroupMethod::Sort => self
                    .of_sorted(memory / (SORTED_KEY.max(self.key_bytes + 4.0) + self.state_bytes)),
            };
        Choice { method, of_rows }
    }

    /// Different keys among so many rows.
    fn among(&self, rows: f64) -> f64 {
        let groups = self.groups.max(1.0);
        groups * -(-rows / groups).exp_m1()
    }

    /// Rows until so many different keys have been seen.
    fn rows_until(&self, keys: f64) -> f64 {
        let groups = self.groups.max(1.0);
        -groups * (-keys / groups).ln_1p()
    }

    /// Rows of a group if a table of so many groups is given out whenever it is full.
    fn of_hashed(&self, table: f64) -> f64 {
        let found = self.among(self.rows).max(1.0);
        match found <= table {
            true => self.rows / found,
            false => self.rows_until(table) / table,
        }
    }

    /// Rows of a group if there is memory for so many: a part of them is kept, those with the least keys, and
    /// the others are given out whenever there are as many as the part for new ones.
    fn of_sorted(&self, all: f64) -> f64 {
        let (kept, new) = (all * KEPT, all * NEW);
        let found = self.among(self.rows).max(1.0);
        if found <= kept {
            return self.rows / found;
        }
        let times = self.rows / self.rows_until(new);
        let given_out = times * new * (1.0 - kept / self.groups) + kept;
        self.rows / given_out.min(self.rows).max(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(groups: f64, memory: f64) -> Groups {
        Groups {
            groups,
            all_rows: 120_000.0,
            rows: 120_000.0,
            key_bytes: 8.0,
            state_bytes: 25.0,
            memory,
        }
    }

    #[test]
    fn groups_that_fit_are_hashed() {
        let few = groups(1000.0, 16e6).cheapest(true);
        assert_eq!(few.method, GroupMethod::Hash);
        assert!((119.0..121.0).contains(&few.of_rows), "{few:?}");
        // Not more groups are in a batch read than it has rows.
        let many = groups(5.4e6, 16e6).cheapest(true);
        assert_eq!(many.method, GroupMethod::Hash);
        assert!((1.0..1.02).contains(&many.of_rows), "{many:?}");
    }

    #[test]
    fn groups_that_do_not_fit_are_sorted_where_that_makes_fewer_rows() {
        // By hashing there is room for 700 groups, by sorting for 1,000 and some that are new.
        let small = groups(1200.0, 128e3);
        let (hash, sort) = (small.with(GroupMethod::Hash), small.with(GroupMethod::Sort));
        assert!(sort.of_rows > hash.of_rows, "{hash:?} {sort:?}");
        assert_eq!(small.cheapest(true).method, GroupMethod::Sort);
        assert_eq!(small.cheapest(false).method, GroupMethod::Hash);
        let more = groups(1200.0, 1e6).cheapest(true);
        assert_eq!(more.method, GroupMethod::Hash);
    }

    #[test]
    fn more_memory_never_makes_more_rows() {
        for method in [GroupMethod::Hash, GroupMethod::Sort] {
            for count in [10.0, 1e3, 1e4, 1e5, 1e6] {
                let mut before = 0.0;
                for memory in [1e4, 1e5, 1e6, 1e7, 1e8] {
                    let of_rows = groups(count, memory).with(method).of_rows;
                    assert!(
                        of_rows >= 0.999 * before,
                        "{method:?} {count} {memory}: {of_rows}"
                    );
                    assert!(of_rows >= 0.999, "{of_rows}");
                    before = of_rows;
                }
            }
        }
    }
}
