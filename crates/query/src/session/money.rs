//! What scans cost by a price table (PushdownDB, section II): bytes that storage goes through, bytes that come back,
//! requests, and CPU time on either side.
//!
//! The defaults are the prices of S3 Select and of a core of the machines in the paper's table I, so that
//! figures can be compared with those of the paper. They are not what this database costs anybody.

use std::fmt;
use std::sync::atomic::Ordering;

use perigee_engine::scan::ScanCounters;

use super::variables::Variables;

/// Prices, in dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Prices {
    /// For a GiB that storage goes through.
    scanned: f64,
    /// For a GiB that comes from storage.
    returned: f64,
    /// For a thousand requests.
    requests: f64,
    /// For an hour of a core in storage.
    storage: f64,
    /// For an hour of a core in the frontend.
    frontend: f64,
}

impl Prices {
    /// Those of a session.
    pub fn of(variables: &Variables) -> Self {
        Self {
            scanned: variables.number("price_gib_scanned"),
            returned: variables.number("price_gib_returned"),
            requests: variables.number("price_thousand_requests"),
            storage: variables.number("price_hour_of_storage"),
            frontend: variables.number("price_hour_of_frontend"),
        }
    }

    /// What was done for these prices.
    pub fn cost(&self, scans: &ScanCounters) -> Cost {
        let value = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let gib = (1_u64 << 30) as f64;
        let hour = 3600e9;
        let shipped = value(&scans.bytes_shipped);
        // Pages that are read whole are gone through as well.
        let scanned = value(&scans.bytes_read_in_storage).max(shipped);
        Cost {
            scanned: self.scanned * scanned / gib,
            returned: self.returned * shipped / gib,
            requests: self.requests * value(&scans.batches) / 1000.0,
            storage: self.storage * value(&scans.storage_cpu_nanos) / hour,
            frontend: self.frontend * value(&scans.frontend_cpu_nanos) / hour,
        }
    }
}

/// What scans cost, in dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    scanned: f64,
    returned: f64,
    requests: f64,
    storage: f64,
    frontend: f64,
}

impl Cost {
    fn total(&self) -> f64 {
        self.scanned + self.returned + self.requests + self.storage + self.frontend
    }

    /// Millionths of a dollar.
    pub fn in_micros(&self) -> f64 {
        self.total() * 1e6
    }

    /// As [`Self::in_micros`], rounded.
    pub fn micros(&self) -> u64 {
        self.in_micros().round() as u64
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |dollars: f64| dollars * 1e6;
        write!(
            f,
            "cost: {:.3} millionths of a dollar (scanned {:.3}, returned {:.3}, requests {:.3}, storage {:.3}, \
             frontend {:.3})",
            micros(self.total()),
            micros(self.scanned),
            micros(self.returned),
            micros(self.requests),
            micros(self.storage),
            micros(self.frontend)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_has_its_price() {
        let prices = Prices {
            scanned: 2.0,
            returned: 3.0,
            requests: 5.0,
            storage: 7.0,
            frontend: 11.0,
        };
        let scans = ScanCounters::default();
        let set =
            |counter: &std::sync::atomic::AtomicU64, value| counter.store(value, Ordering::Relaxed);
        set(&scans.bytes_read_in_storage, 1 << 30);
        set(&scans.bytes_shipped, 1 << 29);
        set(&scans.batches, 100);
        set(&scans.storage_cpu_nanos, 360_000_000_000);
        set(&scans.frontend_cpu_nanos, 36_000_000_000);
        let cost = prices.cost(&scans);
        let parts = [
            cost.scanned,
            cost.returned,
            cost.requests,
            cost.storage,
            cost.frontend,
        ];
        assert_eq!(parts, [2.0, 1.5, 0.5, 0.7, 0.11]);
        assert_eq!(cost.micros(), 4_810_000);
        // Pages that came whole were gone through.
        set(&scans.bytes_read_in_storage, 0);
        assert_eq!(prices.cost(&scans).scanned, 1.0);
    }
}
