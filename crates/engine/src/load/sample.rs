//! [`Sample`]: some of the values of a column, each with the same probability.
//!
//! Every value draws a number; those with a number below a limit are kept. When there are too many,
//! the limit is halved. Samples of two parts are merged at the lower limit of both, so it does not
//! matter how rows were divided (Bernoulli sampling).

use std::sync::atomic::{AtomicU64, Ordering};

use perigee_value::{Datum, ValueRef};

use super::distinct::mix;
use crate::catalog::{compare, kept};

/// Values that are kept of a part: a load's threads spend a few nanoseconds a value for them.
const PART: usize = 2048;

/// Values that are kept in all: with them the ends of a histogram's buckets are off by 0.4 % of the
/// rows (one standard deviation, at most: 1 / (2 √n)), a quarter of a bucket.
const WHOLE: usize = 16_384;

/// Numbers the samples, so that no two draw the same numbers.
static SAMPLES: AtomicU64 = AtomicU64::new(0);

/// Some values.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The values and what they have drawn.
    values: Vec<(u64, Datum)>,
    /// Those that drew less are kept.
    limit: u64,
    /// Values to leave out before the next one that is kept.
    skip: u64,
    most: usize,
    random: u64,
}

impl Default for Sample {
    fn default() -> Self {
        Self::of(PART)
    }
}

impl Sample {
    /// A sample of all values, not of a part of them.
    pub(super) fn whole() -> Self {
        Self::of(WHOLE)
    }

    fn of(most: usize) -> Self {
        Self {
            values: Vec::new(),
            limit: u64::MAX,
            skip: 0,
            most,
            random: SAMPLES
                .fetch_add(1, Ordering::Relaxed)
                .wrapping_mul(0x5851_f42d_4c95_7f2d),
        }
    }

    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(1);
        mix(self.random)
    }

    /// Adds a value.
    pub fn add(&mut self, value: ValueRef<'_>) {
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        // Below the limit, evenly.
        let drawn = (u128::from(self.draw()) * u128::from(self.limit)) >> 64;
        self.values.push((drawn as u64, kept(value)));
        if self.values.len() > self.most {
            self.halve();
        }
        self.skip = self.gap();
    }

    /// How many values draw a number that is too high before one does not: a geometric number.
    fn gap(&mut self) -> u64 {
        if self.limit == u64::MAX {
            return 0;
        }
        let kept = self.limit as f64 / u64::MAX as f64;
        let uniform = (self.draw() as f64 + 1.0) / (u64::MAX as f64 + 2.0);
        (uniform.ln() / (-kept).ln_1p()) as u64
    }

    fn halve(&mut self) {
        while self.values.len() > self.most {
            self.limit /= 2;
            self.values.retain(|(drawn, _)| *drawn < self.limit);
        }
    }

    /// Adds the sample of other values.
    pub fn merge(&mut self, other: Self) {
        self.most = WHOLE;
        let limit = self.limit.min(other.limit);
        if limit < self.limit {
            self.limit = limit;
            self.values.retain(|(drawn, _)| *drawn < limit);
        }
        let others = other.values.into_iter();
        self.values
            .extend(others.filter(|(drawn, _)| *drawn < limit));
        self.halve();
        self.skip = self.gap();
    }

    /// The values in order.
    #[must_use]
    pub fn into_sorted(self) -> Vec<Datum> {
        let mut values: Vec<_> = self.values.into_iter().map(|(_, value)| value).collect();
        values.sort_by(|a, b| compare(a.as_ref(), b.as_ref()));
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: &Datum) -> f64 {
        match value {
            Datum::Int(v) => *v as f64,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn few_values_are_all_kept() {
        let mut sample = Sample::default();
        (0..PART as i64)
            .rev()
            .for_each(|v| sample.add(ValueRef::Int(v)));
        let expected: Vec<_> = (0..PART as i64).map(Datum::Int).collect();
        assert_eq!(sample.into_sorted(), expected);
    }

    #[test]
    fn parts_count_by_their_size() {
        // The values below 200,000 come in one part, the others in parts of a thousandth.
        let rows = 400_000_i64;
        let mut whole = Sample::default();
        (0..rows / 2).for_each(|v| whole.add(ValueRef::Int(v)));
        for first in (rows / 2..rows).step_by(400) {
            let mut part = Sample::default();
            (first..first + 400).for_each(|v| part.add(ValueRef::Int(v)));
            whole.merge(part);
        }
        let values = whole.into_sorted();
        assert!(
            values.len() > PART / 4 && values.len() <= WHOLE,
            "{}",
            values.len()
        );
        for quarter in 1..4 {
            let at = values.partition_point(|v| number(v) < (rows / 4 * quarter) as f64);
            let share = at as f64 / values.len() as f64;
            let error = (share - quarter as f64 / 4.0).abs();
            assert!(
                error < 0.07,
                "{share} of the values are in {quarter} quarters"
            );
        }
    }

    #[test]
    fn a_whole_sample_of_many_values_is_even() {
        let mut sample = Sample::whole();
        let rows = 1_000_000;
        (0..rows).for_each(|v| sample.add(ValueRef::Int(v)));
        let values = sample.into_sorted();
        assert!(
            (WHOLE / 3..=WHOLE).contains(&values.len()),
            "{}",
            values.len()
        );
        for (at, value) in values.iter().enumerate() {
            let expected = at as f64 / values.len() as f64;
            let error = (number(value) / rows as f64 - expected).abs();
            assert!(error < 0.04, "{value:?} at {at} of {}", values.len());
        }
    }
}
