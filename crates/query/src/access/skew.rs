//! Which values the rows of a column have: frequent ones by themselves, as histograms know them, all others as if
//! each were as frequent as any other. What joins give depends on it: where both columns are skewed, the frequent
//! values meet.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::HashJoinExec;
use perigee_engine::catalog::{ColumnStats, Index, Table, TableStats};
use perigee_value::{ColumnType, Datum, key};

use super::cost::rows_per_key;
use super::estimate::conjunction_factor;
use super::exec::{PageScanExec, as_page_scan};
use super::filters::{below, of_inner, same_place};
use super::index_join::IndexJoinExec;
use super::join_key::scan_column;
use super::key_values::{KeyColumn, Values};

/// Conditions with more values are taken for none: each would have to be looked up.
const MOST_POINTS: usize = 256;

/// Values that are looked up in all of more than two columns that are equal, as many of each column,
const VALUES_OF_SEVERAL: usize = 256;

/// and so many of each at least.
const LEAST_VALUES: usize = 4;

/// The values of a column among some rows of its table, NULLs left out.
#[derive(Clone)]
pub(super) struct Spread {
    stats: Arc<TableStats>,
    column: KeyColumn,
    /// What conditions on the column let through.
    only: Option<Values>,
    /// Share of the values that this is.
    passing: f64,
}

impl Spread {
    /// The values in all rows of a table.
    pub fn of_table(table: &Table, stats: &Arc<TableStats>, column: u16) -> Option<Self> {
        let number = usize::from(column);
        let def = table.def.columns.get(number)?;
        stats.columns.get(number)?;
        Some(Self {
            stats: stats.clone(),
            column: KeyColumn {
                number,
                ty: def.ty,
                nullable: false,
                prefix: None,
            },
            only: None,
            passing: 1.0,
        })
    }

    /// The values in the rows of an access.
    pub fn of_access(scan: &PageScanExec, column: u16) -> Option<Self> {
        let all = Self::of_table(&scan.table, &scan.stats, column)?;
        let is_about = |filter: &&Arc<dyn PhysicalExpr>| all.column.of(filter).is_some();
        let about: Vec<_> = scan.filters.iter().filter(is_about).cloned().collect();
        let known = scan
            .known_keys
            .as_ref()
            .filter(|known| known.column == column);
        let only = match known {
            Some(known) => Some(known.values.clone()),
            None => all.column.of_all(&about),
        };
        let restricted = Self {
            passing: conjunction_factor(&about, &scan.stats).max(f64::MIN_POSITIVE),
            only,
            ..all.clone()
        };
        Some(match &restricted.only {
            Some(Values::Points(points)) if points.len() > MOST_POINTS => all,
            Some(Values::Points(_)) => restricted.of_points(),
            _ => restricted,
        })
    }

    /// With the shares of the only values that there are adding up to 1: statistics need not know each.
    fn of_points(mut self) -> Self {
        let values = self.frequent();
        self.passing = values.iter().map(|value| self.alone(value)).sum();
        self.passing = self.passing.max(f64::MIN_POSITIVE);
        self
    }

    /// True if conditions are on the column.
    pub fn is_restricted(&self) -> bool {
        self.only.is_some()
    }

    /// The probability that a value of the one and a value of the other, each taken from any row, are the same;
    /// `None` if they cannot be compared here.
    pub fn meets(&self, other: &Self) -> Option<f64> {
        Some(Meeting::of(&[self, other])?.same(0..2))
    }

    /// What looking up values in all rows of the table finds, given the probability that they are the same as one of
    /// these rows has.
    pub fn found(&self, share: f64) -> Found {
        let share = share * self.passing;
        Found {
            times: share * self.known().distinct.max(1) as f64,
            rows: share * (self.stats.rows as f64).max(1.0),
        }
    }

    fn known(&self) -> &ColumnStats {
        &self.stats.columns[self.column.number]
    }

    /// About how many different values there are.
    fn distinct(&self) -> f64 {
        let all = self.known().distinct.max(1) as f64;
        match &self.only {
            Some(Values::Points(points)) => points.len() as f64,
            Some(_) => (all * self.passing).max(1.0),
            None => all,
        }
    }

    /// Values whose share is known by itself.
    fn frequent(&self) -> Vec<Datum> {
        if let Some(Values::Points(points)) = &self.only {
            let KeyColumn { ty, nullable, .. } = self.column;
            let values = points.iter();
            let values = values.filter_map(|point| key::decode_part(ty, nullable, point).ok());
            return values.map(|(value, _)| value).collect();
        }
        let histogram = self.known().histogram.iter();
        let uppers = histogram.flat_map(|histogram| histogram.buckets());
        let uppers = uppers.map(|bucket| bucket.upper.clone());
        uppers.filter(|value| self.share(value) > 0.0).collect()
    }

    /// The most frequent ones of them, at most so many.
    fn most_frequent(&self, most: usize) -> Vec<Datum> {
        let mut values: Vec<_> = self.frequent();
        if values.len() > most {
            values.sort_by_cached_key(|value| std::cmp::Reverse((self.share(value) * 1e15) as u64));
            values.truncate(most);
        }
        values
    }

    /// Share of the rows that have a value.
    fn share(&self, value: &Datum) -> f64 {
        match self.lets_through(value) {
            true => (self.alone(value) / self.passing).min(1.0),
            false => 0.0,
        }
    }

    /// Share of the rows of the table that have a value; a value that has to be there is.
    fn alone(&self, value: &Datum) -> f64 {
        let share = self.known().equal(value);
        match self.only {
            Some(Values::Points(_)) => share.max(1e-3 / self.known().distinct.max(1) as f64),
            _ => share,
        }
    }

    fn lets_through(&self, value: &Datum) -> bool {
        let Some(only) = &self.only else { return true };
        let KeyColumn { ty, nullable, .. } = self.column;
        let mut encoded = Vec::new();
        if key::encode_form_part(ty, nullable, value.as_ref(), &mut encoded).is_err() {
            return false;
        }
        let point = Values::Points(vec![encoded]);
        matches!(point.and(only), Values::Points(left) if !left.is_empty())
    }
}

/// True if equal values of two columns are the same here.
fn comparable(one: ColumnType, other: ColumnType) -> bool {
    let is_integer = |ty| matches!(ty, ColumnType::Int { .. } | ColumnType::Bit { .. });
    one == other || one.is_string() && other.is_string() || is_integer(one) && is_integer(other)
}

/// Columns that are compared: how likely it is that values of theirs, each taken from any row, are the same. The
/// frequent values of all of them meet, though each pair of them may be compared with a key only, in which no
/// value is frequent.
pub(super) struct Meeting {
    columns: Vec<Shares>,
}

/// What of a column's rows has which values.
struct Shares {
    /// Those that are frequent in one of the columns.
    frequent: Vec<f64>,
    /// All others.
    rest: f64,
    /// How many different ones these are.
    others: f64,
}

impl Meeting {
    /// `None` if they cannot be compared here.
    pub fn of(columns: &[&Spread]) -> Option<Self> {
        let (first, others) = columns.split_first()?;
        let mut others = others.iter();
        if !others.all(|other| comparable(first.column.ty, other.column.ty)) {
            return None;
        }
        let of_each = match columns.len() {
            ..=2 => MOST_POINTS,
            several => (VALUES_OF_SEVERAL / several).max(LEAST_VALUES),
        };
        let mut values: Vec<Datum> = Vec::new();
        for value in columns
            .iter()
            .flat_map(|column| column.most_frequent(of_each))
        {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let shares = |column: &&Spread| {
            let frequent: Vec<_> = values.iter().map(|value| column.share(value)).collect();
            Shares {
                rest: 1.0 - frequent.iter().sum::<f64>().min(1.0),
                others: (column.distinct() - values.len() as f64).max(1.0),
                frequent,
            }
        };
        Some(Self {
            columns: columns.iter().map(shares).collect(),
        })
    }

    /// The probability that values of some of the columns, by their numbers, are all the same.
    pub fn same(&self, columns: impl IntoIterator<Item = usize>) -> f64 {
        let columns: Vec<_> = columns.into_iter().map(|at| &self.columns[at]).collect();
        let Some((first, others)) = columns.split_first() else {
            return 1.0;
        };
        let mut met = first.frequent.clone();
        let (mut rest, mut values) = (first.rest, first.others);
        for column in others {
            for (all, share) in met.iter_mut().zip(&column.frequent) {
                *all *= share;
            }
            rest *= column.rest;
            values = values.max(column.others);
        }
        let rest = rest / values.powi(others.len() as i32);
        (met.iter().sum::<f64>() + rest).min(1.0)
    }
}

/// The probability that a value of the columns `one`, which are all equal, is one of the columns `other`, which are, too;
/// `None` if they cannot be compared here, or nothing is known of one side.
pub(super) fn equal(one: &[Spread], other: &[Spread]) -> Option<f64> {
    if one.is_empty() || other.is_empty() {
        return None;
    }
    let all: Vec<&Spread> = one.iter().chain(other).collect();
    let meeting = Meeting::of(&all)?;
    let sides = meeting.same(0..one.len()) * meeting.same(one.len()..all.len());
    Some((meeting.same(0..all.len()) / sides.max(f64::MIN_POSITIVE)).min(1.0))
}

/// What looking up values in a column of a table finds, compared with looking up any of its values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// So many times as many rows as one of its values has on average.
    times: f64,
    /// Rows, each with the value that is looked up.
    rows: f64,
}

impl Found {
    /// What looking up the values of `probes`, columns that are all equal, in all rows of a table finds.
    pub fn of(
        table: &Table,
        stats: &Arc<TableStats>,
        column: u16,
        probes: &[Spread],
    ) -> Option<Self> {
        let own = Spread::of_table(table, stats, column)?;
        let share = equal(std::slice::from_ref(&own), probes)?;
        Some(own.found(share))
    }
}

/// Rows of a table that are expected to have the key of a row that is looked up, given what is known of each of the
/// leading key columns of an index.
pub(super) fn rows_per_probe(stats: &TableStats, index: &Index, found: &[Option<Found>]) -> f64 {
    let average = rows_per_key(stats, index, found.len());
    if index.unique && found.len() >= index.key_columns {
        return average;
    }
    let found = found.iter().flatten();
    let most = found
        .clone()
        .fold(f64::INFINITY, |most, found| most.min(found.rows));
    found
        .fold(average, |rows, found| rows * found.times)
        .min(most)
}

/// The values that an expression over the rows of a plan has: those of all columns of tables that it is equal to in
/// these rows, as joins compare it.
pub(super) fn spreads_of(
    plan: &Arc<dyn ExecutionPlan>,
    expr: &Arc<dyn PhysicalExpr>,
) -> Vec<Spread> {
    if let Some(scan) = as_page_scan(plan) {
        let column = scan_column(scan, expr).filter(|_| scan.aggregate.is_none());
        let spread = column.and_then(|column| Spread::of_access(scan, column.number));
        return spread.into_iter().collect();
    }
    if let Some(join) = plan.downcast_ref::<IndexJoinExec>() {
        return spreads_of_lookups(plan, join, expr);
    }
    // Groups have each value once.
    if plan.is::<AggregateExec>() {
        return Vec::new();
    }
    let inputs = plan.children().into_iter();
    let inputs = inputs.zip(below(plan, &[(0, expr.clone())]));
    let mut spreads =
        inputs.filter_map(|(input, parts)| Some(spreads_of(input, &parts.first()?.1)));
    let join = plan.downcast_ref::<HashJoinExec>();
    match join.is_some_and(|join| *join.join_type() == JoinType::Inner) {
        true => spreads.flatten().collect(),
        // Rows that meet nothing may be kept, and inputs of a union are not joined.
        false => spreads
            .find(|spreads| !spreads.is_empty())
            .unwrap_or_default(),
    }
}

/// The same over the rows of lookups.
fn spreads_of_lookups(
    plan: &Arc<dyn ExecutionPlan>,
    join: &IndexJoinExec,
    expr: &Arc<dyn PhysicalExpr>,
) -> Vec<Spread> {
    let scan = join.inner();
    let of_table = |column: u16| Spread::of_access(scan, column);
    let mut looked_up = join.looked_up().into_iter().filter(|_| join.is_inner());
    let of_outer = below(plan, &[(0, expr.clone())])
        .into_iter()
        .flatten()
        .next();
    let (mut spreads, met) = match of_outer {
        Some((_, of_outer)) => {
            let key = looked_up.find(|(_, value)| same_place(value, &of_outer));
            let met = key.and_then(|(column, _)| of_table(column));
            (spreads_of(join.input(), &of_outer), met)
        }
        None => {
            let column = of_inner(join, expr).and_then(|expr| join.column_of_table(&expr));
            let Some(column) = column else {
                return Vec::new();
            };
            let key = looked_up.find(|(key, _)| *key == column);
            let outer = key.map_or_else(Vec::new, |(_, value)| spreads_of(join.input(), value));
            (outer, of_table(column))
        }
    };
    spreads.extend(met);
    spreads
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use perigee_engine::catalog::Histogram;

    use super::*;

    const INT: ColumnType = ColumnType::Int {
        bytes: 4,
        unsigned: false,
    };

    /// A column with these values in its rows.
    fn column(mut values: Vec<i64>) -> Spread {
        values.sort_unstable();
        let mut distinct = values.clone();
        distinct.dedup();
        let distinct = distinct.len() as u64;
        let sample: Vec<_> = values.iter().map(|value| Datum::Int(*value)).collect();
        let stats = TableStats {
            rows: values.len() as u64,
            columns: vec![ColumnStats {
                distinct,
                histogram: Histogram::of(&sample, distinct, 64),
                ..ColumnStats::default()
            }],
            leaf_pages: vec![100],
        };
        Spread {
            stats: Arc::new(stats),
            column: KeyColumn {
                number: 0,
                ty: INT,
                nullable: false,
                prefix: None,
            },
            only: None,
            passing: 1.0,
        }
    }

    fn only(values: &[i64], spread: &Spread) -> Spread {
        let encoded = values.iter().map(|value| {
            let mut out = Vec::new();
            key::encode_part(INT, false, Datum::Int(*value).as_ref(), &mut out).unwrap();
            out
        });
        let restricted = Spread {
            only: Some(Values::Points(encoded.collect())),
            ..spread.clone()
        };
        restricted.of_points()
    }

    /// The probability itself.
    fn truth(one: &[i64], other: &[i64]) -> f64 {
        let met = one
            .iter()
            .map(|value| other.iter().filter(|v| *v == value).count());
        met.sum::<usize>() as f64 / (one.len() * other.len()) as f64
    }

    /// Half of the rows have the value 7, a quarter 8, the others are different.
    fn skewed() -> Vec<i64> {
        let value = |n: i64| match n % 4 {
            0 | 1 => 7,
            2 => 8,
            _ => n,
        };
        (0..2000).map(value).collect()
    }

    #[test]
    fn frequent_values_meet() {
        let even: Vec<i64> = (0..2000).map(|n| n % 500).collect();
        for (one, other) in [
            (skewed(), skewed()),
            (skewed(), even.clone()),
            (even.clone(), even.clone()),
        ] {
            let truth = truth(&one, &other);
            let share = column(one).meets(&column(other)).unwrap();
            assert!((share / truth - 1.0).abs() < 0.35, "{share} of {truth}");
        }
        let average = 1.0 / column(skewed()).distinct();
        let share = column(skewed()).meets(&column(skewed())).unwrap();
        assert!(share > 100.0 * average, "{share}");
    }

    #[test]
    fn frequent_values_meet_at_a_key() {
        let key: Vec<i64> = (0..2000).collect();
        let all = [column(skewed()), column(key), column(skewed())];
        let truth = truth(&skewed(), &skewed()) / 2000.0;
        let meeting = Meeting::of(&all.each_ref()).unwrap();
        let share = meeting.same(0..3);
        assert!((share / truth - 1.0).abs() < 0.35, "{share} of {truth}");
        let pairs = meeting.same(0..2) * meeting.same(1..3);
        assert!(share > 100.0 * pairs, "{share}, {pairs} by pairs");
        // Given that the first two met.
        let met = equal(&all[..2], &all[2..]).unwrap();
        assert!((met - share * 2000.0).abs() < 0.1, "{met}");
        // Evenly spread values are as independent as their pairs.
        let even: Vec<i64> = (0..2000).map(|n| n % 500).collect();
        let all = [0; 3].map(|_| column(even.clone()));
        let share = Meeting::of(&all.each_ref()).unwrap().same(0..3) * 500.0 * 500.0;
        assert!((share - 1.0).abs() < 0.1, "{share}");
        assert!(equal(&all[..1], &[]).is_none());
    }

    #[test]
    fn conditions_on_the_column_count() {
        let spread = column(skewed());
        let share = |one: &[i64], other: &Spread| only(one, &spread).meets(other).unwrap();
        assert!((share(&[7], &spread) - 0.5).abs() < 0.01);
        assert!(share(&[11], &spread) < 0.002);
        assert!((share(&[7], &only(&[7], &spread)) - 1.0).abs() < 1e-6);
        assert!(share(&[7], &only(&[8], &spread)) < 1e-6);
        // Two thirds and one third of what is left.
        assert!((share(&[7, 8], &spread) - (1.0 / 3.0 + 0.25 / 3.0)).abs() < 0.01);
        // The only value, though the histogram does not have it.
        let unknown = only(&[-5], &spread);
        assert!((unknown.meets(&unknown).unwrap() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn values_of_other_kinds_are_not_compared() {
        let mut dates = column(skewed());
        dates.column.ty = ColumnType::Date;
        assert_eq!(column(skewed()).meets(&dates), None);
    }
}
