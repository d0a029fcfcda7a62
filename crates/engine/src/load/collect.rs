//! Gathering statistics of a column while rows go by.

use std::borrow::Cow;
use std::cmp::Ordering;

use perigee_value::{Datum, RecordView, ValueRef, Wide};

use super::distinct::{Distinct, hash};
use super::sample::Sample;
use crate::catalog::{ColumnStats, Histogram, compare, cut};

/// Bytes of a string that count for its identity: enough to tell real values apart, and a bound on
/// the work for long ones.
const HASHED_BYTES: usize = 64;

/// Statistics of the rows of one column seen so far.
#[derive(Clone, Debug, Default)]
pub struct Collector {
    distinct: Distinct,
    nulls: u64,
    rows: u64,
    bytes: u64,
    bounds: Option<(Datum, Datum)>,
    sample: Sample,
}

impl Collector {
    /// A collector of all rows, not of a part of them: it keeps a larger sample.
    #[must_use]
    pub fn of_all() -> Self {
        Self {
            sample: Sample::whole(),
            ..Self::default()
        }
    }

    /// Adds the value of a column of a record.
    pub fn add(&mut self, record: &RecordView<'_>, column: usize) {
        let value = record.value(column);
        self.rows += 1;
        if value.is_null() {
            self.nulls += 1;
            return;
        }
        self.bytes += width(value);
        let weights;
        let value = match form_of(record, column, value) {
            Some(of_value) => {
                weights = of_value;
                ValueRef::String(&weights)
            }
            None => value,
        };
        self.distinct.add(hash_value(value));
        // Nobody compares long values with statistics.
        if record.layout().columns[column].ty.is_long() {
            return;
        }
        self.sample.add(value);
        match &mut self.bounds {
            None => self.bounds = Some((value.to_datum(), value.to_datum())),
            Some((min, max)) => {
                if compare(value, min.as_ref()) == Ordering::Less {
                    *min = value.to_datum();
                } else if compare(value, max.as_ref()) == Ordering::Greater {
                    *max = value.to_datum();
                }
            }
        }
    }

    /// Adds what another collector of the same column has seen.
    pub fn merge(&mut self, other: Self) {
        self.distinct.merge(&other.distinct);
        self.nulls += other.nulls;
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.sample.merge(other.sample);
        self.bounds = match (self.bounds.take(), other.bounds) {
            (Some((a, b)), Some((c, d))) => Some((
                if compare(c.as_ref(), a.as_ref()) == Ordering::Less {
                    c
                } else {
                    a
                },
                if compare(d.as_ref(), b.as_ref()) == Ordering::Greater {
                    d
                } else {
                    b
                },
            )),
            (one, other) => one.or(other),
        };
    }

    /// The statistics, with a histogram of at most so many buckets.
    #[must_use]
    pub fn finish(self, buckets: usize) -> ColumnStats {
        let distinct = self.distinct.estimate();
        self.finish_as(1.0, distinct, buckets)
    }

    /// The statistics of `factor` times as many rows, in which there are `distinct` values.
    #[must_use]
    pub fn finish_as(self, factor: f64, distinct: u64, buckets: usize) -> ColumnStats {
        let seen = self.rows - self.nulls;
        let values = (seen as f64 * factor).round() as u64;
        let distinct = distinct.min(values);
        let (min, max) = self.bounds.unzip();
        let short = |bound: Datum| match bound {
            Datum::String(text) => Datum::String(cut(&text).to_vec()),
            other => other,
        };
        let (min, max) = (min.map(short), max.map(short));
        let sample = with_ends(self.sample.into_sorted(), &min, &max);
        ColumnStats {
            distinct,
            nulls: (self.nulls as f64 * factor).round() as u64,
            min,
            max,
            average_width: if seen > 0 {
                self.bytes as f32 / seen as f32
            } else {
                0.0
            },
            histogram: Histogram::of(&sample, distinct, buckets),
        }
    }
}

/// A sample, in order, with the least and the greatest value, which are known whether they are in it or not: otherwise
/// a histogram would say that there is nothing at either end.
fn with_ends(mut sample: Vec<Datum>, min: &Option<Datum>, max: &Option<Datum>) -> Vec<Datum> {
    let differ = |one: &Datum, other: &Datum| compare(one.as_ref(), other.as_ref()).is_ne();
    if let (Some(min), Some(first)) = (min, sample.first())
        && differ(min, first)
    {
        sample.insert(0, min.clone());
    }
    if let (Some(max), Some(last)) = (max, sample.last())
        && differ(max, last)
    {
        sample.push(max.clone());
    }
    sample
}

fn width(value: ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Null | ValueRef::Bool(_) => 1,
        ValueRef::Date(_) => 4,
        ValueRef::Wide(_) => Wide::WIDTH as u64,
        ValueRef::String(text) => text.len() as u64,
        ValueRef::Overflow(outside) => u64::from(outside.len),
        _ => 8,
    }
}

/// The form of a string of a column whose strings compare by it: statistics are about these.
fn form_of<'a>(
    record: &RecordView<'_>,
    column: usize,
    value: ValueRef<'a>,
) -> Option<Cow<'a, [u8]>> {
    match (record.layout().columns[column].ty.collation(), value) {
        (Some(collation), ValueRef::String(text)) if collation.has_form() => {
            Some(collation.form(text))
        }
        _ => None,
    }
}

/// Hash of the value of a column: equal values of a column have equal ones.
pub fn hash_column(record: &RecordView<'_>, column: usize) -> u64 {
    let value = record.value(column);
    match form_of(record, column, value) {
        Some(form) => hash_value(ValueRef::String(&form)),
        None => hash_value(value),
    }
}

/// Hash of a value.
pub fn hash_value(value: ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Null => 0,
        ValueRef::Int(v) | ValueRef::DateTime(v) | ValueRef::Time(v) => hash(&v.to_le_bytes()),
        ValueRef::UInt(v) => hash(&v.to_le_bytes()),
        ValueRef::Decimal(v) => hash(&v.to_le_bytes()),
        ValueRef::Wide(v) => hash(v.as_bytes()),
        ValueRef::Double(v) => hash(&v.to_bits().to_le_bytes()),
        ValueRef::Date(v) => hash(&v.to_le_bytes()),
        ValueRef::Bool(v) => hash(&[u8::from(v)]),
        ValueRef::Overflow(outside) => hash(&outside.chain.to_le_bytes()),
        ValueRef::String(text) => hash(&text[..text.len().min(HASHED_BYTES)]),
    }
}
