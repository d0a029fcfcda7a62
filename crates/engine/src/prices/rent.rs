//! What it has cost that the pages of an index are not in the buffer pool.
//!
//! A scan that storage reduces leaves nothing behind: the next one costs as much again, where a scan of whole pages
//! would have found them in the pool (taurus-ndp section VII.E: the tables of Q4). Nobody knows whether there will be
//! a next one, so an index is read whole once its scans have paid as much for not having it as reading it whole costs.
//! Whatever comes, that is at most twice what the best choice would have cost.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use perigee_types::IndexId;

/// What was paid so long ago counts half.
const HALF: Duration = Duration::from_secs(300);

/// Indexes that are remembered.
const MOST: usize = 4096;

/// What was paid for each index, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct Rents(Mutex<HashMap<IndexId, (f64, Instant)>>);

impl Rents {
    /// What was paid for an index.
    pub fn paid(&self, index: IndexId) -> f64 {
        let paid = self.0.lock().get(&index).copied();
        paid.map_or(0.0, |paid| now(paid, Instant::now()))
    }

    /// A scan pays.
    pub fn pay(&self, index: IndexId, rent: f64) {
        let (mut paid, at) = (self.0.lock(), Instant::now());
        if paid.len() >= MOST && !paid.contains_key(&index) {
            let least = paid
                .iter()
                .min_by(|a, b| now(*a.1, at).total_cmp(&now(*b.1, at)));
            if let Some(least) = least.map(|(index, _)| *index) {
                paid.remove(&least);
            }
        }
        let before = paid.get(&index).map_or(0.0, |paid| now(*paid, at));
        paid.insert(index, (before + rent, at));
    }

    /// The index is read whole.
    pub fn settle(&self, index: IndexId) {
        self.0.lock().remove(&index);
    }
}

fn now((paid, at): (f64, Instant), now: Instant) -> f64 {
    let halves = now.duration_since(at).as_secs_f64() / HALF.as_secs_f64();
    paid * 0.5_f64.powf(halves)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rents_add_up_fade_and_are_settled() {
        let rents = Rents::default();
        let (one, other) = (IndexId(1), IndexId(2));
        rents.pay(one, 10.0);
        rents.pay(one, 30.0);
        assert!((39.9..40.1).contains(&rents.paid(one)));
        assert_eq!(rents.paid(other), 0.0);
        let begin = Instant::now();
        assert_eq!(now((40.0, begin), begin + 2 * HALF), 10.0);
        rents.settle(one);
        assert_eq!(rents.paid(one), 0.0);
    }

    #[test]
    fn only_so_many_are_remembered_those_with_the_highest_rent() {
        let rents = Rents::default();
        for index in 0..2 * MOST as u32 {
            rents.pay(IndexId(index), f64::from(index));
        }
        assert_eq!(rents.0.lock().len(), MOST);
        assert!(rents.paid(IndexId(2 * MOST as u32 - 1)) > 8000.0);
    }
}
