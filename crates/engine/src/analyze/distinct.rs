//! [`PageValues`]: how many different values a column has, from some of the pages of its table.
//!
//! A value counts once for each page it is on, however often it is there: rows that were written
//! together lie together, and a page full of one value tells no more than one row with it. With *n*
//! such counts on *m* of *M* pages, *d* different values among them, *f* of which are on one page
//! only, the column has about `n·d ÷ (n − f + f·m÷M)` values (Haas and Stokes, *Estimating the Number
//! of Classes in a Finite Population*, 1998: their estimator Duj1 over pages instead of rows).

use std::collections::HashMap;

/// Values that are remembered; beyond that, every other one by its hash is left out. The error of
/// what is counted is then 1.6 to 2.2 % (1 / √n).
const MOST: usize = 4096;

/// What is remembered of a value.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Pages it is on.
    pages: u32,
    /// The last one of them.
    last: u32,
}

/// The values of a column on some pages.
#[derive(Clone, Debug, Default)]
pub(super) struct PageValues {
    /// Only hashes with so many leading zeros are remembered.
    zeros: u32,
    values: HashMap<u64, Seen>,
    page: u32,
}

impl PageValues {
    /// Begins the next page.
    pub(super) fn next_page(&mut self) {
        self.page += 1;
    }

    /// Adds a value of the page by its hash.
    pub(super) fn add(&mut self, hash: u64) {
        if hash.leading_zeros() < self.zeros {
            return;
        }
        let page = self.page;
        let none = Seen {
            pages: 0,
            last: u32::MAX,
        };
        let seen = self.values.entry(hash).or_insert(none);
        if seen.last != page {
            seen.pages += 1;
            seen.last = page;
        }
        while self.values.len() > MOST {
            self.zeros += 1;
            let zeros = self.zeros;
            self.values.retain(|hash, _| hash.leading_zeros() >= zeros);
        }
    }

    /// About how many different values there are on all pages, of which this is the share that was
    /// seen.
    pub(super) fn estimate(&self, seen_share: f64) -> u64 {
        let scale = f64::from(self.zeros).exp2();
        let counts: u64 = self.values.values().map(|seen| u64::from(seen.pages)).sum();
        let once = self.values.values().filter(|seen| seen.pages == 1).count();
        let (n, d, f) = (
            counts as f64 * scale,
            self.values.len() as f64 * scale,
            once as f64 * scale,
        );
        let rest = n - f + f * seen_share;
        if rest <= 0.0 {
            return 0;
        }
        (n * d / rest).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::hash_value;
    use perigee_value::ValueRef;

    /// The estimate for 1 in 30 pages of a hundred rows each, with the column's value by row.
    fn estimate(pages: i64, value: impl Fn(i64) -> i64) -> f64 {
        let mut values = PageValues::default();
        for page in (0..pages).step_by(30) {
            values.next_page();
            for row in page * 100..(page + 1) * 100 {
                values.add(hash_value(ValueRef::Int(value(row))));
            }
        }
        values.estimate(1.0 / 30.0) as f64
    }

    #[test]
    fn estimates_hold_however_values_lie() {
        let pages = 30_000;
        let rows = pages * 100;
        let scattered = |row: i64| (row.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 20).abs();
        for (what, got, truth, factor) in [
            ("unique", estimate(pages, |row| row), rows as f64, 1.1),
            (
                "four in a row",
                estimate(pages, |row| row / 4),
                rows as f64 / 4.0,
                1.1,
            ),
            ("few", estimate(pages, |row| row % 7), 7.0, 1.01),
            (
                "scattered",
                estimate(pages, |row| scattered(row) % 50_000),
                50_000.0,
                1.2,
            ),
            (
                "long runs",
                estimate(pages, |row| row / 5000),
                rows as f64 / 5000.0,
                1.3,
            ),
        ] {
            let error = f64::max(got / truth, truth / got);
            assert!(
                error < factor,
                "{what}: {got} values are estimated for {truth}"
            );
        }
    }
}
