//! How long things take: a histogram that costs a few additions to count into.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the ranges, in seconds: from what memory takes to what only a disk in trouble does.
pub const LATENCY_BOUNDS: [f64; 14] = [
    50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 1.0,
    5.0,
];

const RANGES: usize = LATENCY_BOUNDS.len() + 1;

/// Durations since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// How many were at most as long as each of [`LATENCY_BOUNDS`] and longer than the one before; the
    /// last ones were longer than all.
    pub counts: [u64; RANGES],
    /// All of them together.
    pub sum: Duration,
}

impl Latencies {
    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Durations as they are counted.
#[derive(Debug, Default)]
pub(crate) struct LiveLatencies {
    counts: [AtomicU64; RANGES],
    sum_nanos: AtomicU64,
}

impl LiveLatencies {
    pub(crate) fn count(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let range = LATENCY_BOUNDS.partition_point(|bound| *bound < seconds);
        self.counts[range].fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> Latencies {
        Latencies {
            counts: self.counts.each_ref().map(|n| n.load(Ordering::Relaxed)),
            sum: Duration::from_nanos(self.sum_nanos.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_duration_falls_into_its_range() {
        let live = LiveLatencies::default();
        for micros in [0, 50, 51, 1000, 5_000_000, 5_000_001] {
            live.count(Duration::from_micros(micros));
        }
        let taken = live.snapshot();
        let mut expected = [0; RANGES];
        (expected[0], expected[1], expected[4]) = (2, 1, 1);
        (expected[13], expected[14]) = (1, 1);
        assert_eq!(taken.counts, expected);
        assert_eq!(taken.count(), 6);
        assert_eq!(taken.sum, Duration::from_micros(10_001_102));
        assert!(LATENCY_BOUNDS.is_sorted());
    }
}
