//! Gathering statistics while rows are loaded.

use std::cmp::Ordering;

use perigee_value::{Datum, RecordView, ValueRef, string};

use super::distinct::{Distinct, hash};
use crate::catalog::ColumnStats;

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
}

impl Collector {
    /// Adds the value of a column of a record.
    pub fn add(&mut self, record: &RecordView<'_>, column: usize) {
        let value = record.value(column);
        self.rows += 1;
        if value.is_null() {
            self.nulls += 1;
            return;
        }
        self.bytes += width(value);
        self.distinct.add(hash_value(value));
        // Nobody compares long values with statistics.
        if record.layout().columns[column].ty.is_long() {
            return;
        }
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

    /// The statistics.
    #[must_use]
    pub fn finish(self) -> ColumnStats {
        let values = self.rows - self.nulls;
        let (min, max) = self.bounds.unzip();
        ColumnStats {
            distinct: self.distinct.estimate().min(values),
            nulls: self.nulls,
            min,
            max,
            average_width: if values > 0 {
                self.bytes as f32 / values as f32
            } else {
                0.0
            },
        }
    }
}

fn width(value: ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Null | ValueRef::Bool(_) => 1,
        ValueRef::Date(_) => 4,
        ValueRef::String(text) => text.len() as u64,
        ValueRef::Overflow(outside) => u64::from(outside.len),
        _ => 8,
    }
}

fn hash_value(value: ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Null => 0,
        ValueRef::Int(v) | ValueRef::DateTime(v) => hash(&v.to_le_bytes()),
        ValueRef::UInt(v) => hash(&v.to_le_bytes()),
        ValueRef::Decimal(v) => hash(&v.to_le_bytes()),
        ValueRef::Double(v) => hash(&v.to_bits().to_le_bytes()),
        ValueRef::Date(v) => hash(&v.to_le_bytes()),
        ValueRef::Bool(v) => hash(&[u8::from(v)]),
        ValueRef::Overflow(outside) => hash(&outside.chain.to_le_bytes()),
        ValueRef::String(text) => hash(&text[..text.len().min(HASHED_BYTES)]),
    }
}

/// Order of two values of one type.
fn compare(a: ValueRef<'_>, b: ValueRef<'_>) -> Ordering {
    match (a, b) {
        (ValueRef::Int(a), ValueRef::Int(b)) | (ValueRef::DateTime(a), ValueRef::DateTime(b)) => {
            a.cmp(&b)
        }
        (ValueRef::UInt(a), ValueRef::UInt(b)) => a.cmp(&b),
        (ValueRef::Decimal(a), ValueRef::Decimal(b)) => a.cmp(&b),
        (ValueRef::Double(a), ValueRef::Double(b)) => a.total_cmp(&b),
        (ValueRef::Date(a), ValueRef::Date(b)) => a.cmp(&b),
        (ValueRef::String(a), ValueRef::String(b)) => string::compare(a, b),
        _ => Ordering::Equal,
    }
}
