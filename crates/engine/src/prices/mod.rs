//! What accesses cost on the running system: the parameters of nKV's cost model (ndp-cost-model, table 3),
//! measured.
//!
//! Each has a reference value, that of a small machine. What scans really took says by which factors this system
//! differs: those of the Page Stores' work, of the frontend's work on whole pages, and of its work on what storage
//! has reduced. What the way between them costs is measured by the storage layer.

mod calibrate;
mod fit;
mod rent;

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use perigee_sal::LinkCost;

pub(crate) use self::calibrate::calibrate;
use self::fit::Fit;
pub(crate) use self::rent::Rents;
use crate::scan::ScanCounters;

/// A scan of fewer pages says little.
const LEAST_PAGES: u64 = 32;

/// Parameters of costs, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Until storage answers.
    pub wait: f64,
    /// A byte on its way from storage.
    pub byte: f64,
    /// What Page Stores do.
    pub storage: StoragePrices,
    /// What the frontend does with whole pages.
    pub whole: WholePrices,
    /// What the frontend does with what storage has reduced.
    pub reduced: ReducedPrices,
}

/// Work of Page Stores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoragePrices {
    /// A page that is read to be reduced.
    pub page: f64,
    /// A record that is looked at.
    pub record: f64,
    /// A node of a program, evaluated over a record.
    pub node: f64,
    /// A byte of the result.
    pub byte: f64,
}

/// Work of the frontend on whole pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WholePrices {
    /// A page that comes from storage: checked, put into the buffer pool.
    pub page: f64,
    /// A page that is in the buffer pool.
    pub pool_page: f64,
    /// A record that is looked at.
    pub record: f64,
    /// A node of a program, evaluated over a record.
    pub node: f64,
    /// A row that is delivered.
    pub row: f64,
}

/// Work of the frontend on reduced pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReducedPrices {
    /// A page: asked for, accounted for.
    pub page: f64,
    /// A row that is delivered.
    pub row: f64,
    /// A byte of a result.
    pub byte: f64,
}

impl Prices {
    /// Of a small machine whose stores are in the same process.
    pub const REFERENCE: Self = Self {
        wait: 150.0,
        byte: 0.0006,
        storage: StoragePrices {
            page: 3.5,
            record: 0.004,
            node: 0.0015,
            byte: 0.0005,
        },
        whole: WholePrices {
            page: 2.2,
            pool_page: 0.5,
            record: 0.008,
            node: 0.002,
            row: 0.05,
        },
        reduced: ReducedPrices {
            page: 0.5,
            row: 0.03,
            byte: 0.0003,
        },
    };
}

/// What a scan was, beside what it counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanShape {
    /// Records of a page, about.
    pub records_per_page: f64,
    /// Nodes of its programs.
    pub nodes: f64,
}

/// What scans taught.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    storage: Mutex<Fit<3>>,
    whole: Mutex<Fit<3>>,
    reduced: Mutex<Fit<2>>,
    scans: AtomicU64,
}

impl Learned {
    /// The parameters as they are now.
    pub fn prices(&self, link: LinkCost) -> Prices {
        let Prices {
            mut storage,
            mut whole,
            mut reduced,
            ..
        } = Prices::REFERENCE;
        let of_storage = self.storage.lock().factors();
        let of_whole = self.whole.lock().factors();
        // A side that has not worked yet is taken to be as slow as the other one.
        let [page, record, byte] = of_storage.or(of_whole).unwrap_or([1.0; 3]);
        storage.page *= page;
        storage.record *= record;
        storage.node *= record;
        storage.byte *= byte;
        let [page, record, row] = of_whole.or(of_storage).unwrap_or([1.0; 3]);
        whole.page *= page;
        whole.pool_page *= page;
        whole.record *= record;
        whole.node *= record;
        whole.row *= row;
        let of_reduced = self.reduced.lock().factors();
        let [page, row] = of_reduced.unwrap_or([page, row]);
        reduced.page *= page;
        reduced.row *= row;
        reduced.byte *= row;
        Prices {
            wait: link.wait,
            byte: link.byte,
            storage,
            whole,
            reduced,
        }
    }

    /// Scans from which something was learned.
    pub fn scans(&self) -> u64 {
        self.scans.load(Ordering::Relaxed)
    }

    /// Learns from a scan that is over.
    pub fn learn(&self, shape: ScanShape, counters: &ScanCounters) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (pool, read, pushed) = (
            of(&counters.pages_from_pool),
            of(&counters.pages_read),
            of(&counters.pages_pushed),
        );
        if pool + read + pushed < LEAST_PAGES {
            return;
        }
        let micros = |nanos: &AtomicU64| of(nanos) as f64 / 1e3;
        let (storage, frontend) = (
            micros(&counters.storage_cpu_nanos),
            micros(&counters.frontend_cpu_nanos),
        );
        let (rows, bytes) = (
            of(&counters.rows) as f64,
            of(&counters.bytes_shipped) as f64,
        );
        let Prices {
            storage: s,
            whole: w,
            reduced: r,
            ..
        } = Prices::REFERENCE;
        let records = |pages: u64| pages as f64 * shape.records_per_page;
        // A scan that does both says nothing of either.
        if pushed > 0 && pool + read == 0 {
            let looked_at = records(pushed) * (s.record + shape.nodes * s.node);
            let parts = [pushed as f64 * s.page, looked_at, bytes * s.byte];
            self.storage.lock().learn(parts, storage);
            let parts = [pushed as f64 * r.page, rows * r.row + bytes * r.byte];
            self.reduced.lock().learn(parts, frontend);
        } else if pushed == 0 {
            let pages = read as f64 * w.page + pool as f64 * w.pool_page;
            let looked_at = records(pool + read) * (w.record + shape.nodes * w.node);
            self.whole
                .lock()
                .learn([pages, looked_at, rows * w.row], frontend);
        } else {
            return;
        }
        self.scans.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkCost = LinkCost {
        wait: 150.0,
        byte: 0.0006,
    };

    const SHAPE: ScanShape = ScanShape {
        records_per_page: 100.0,
        nodes: 3.0,
    };

    /// A counter and its value.
    type Set = (fn(&ScanCounters) -> &AtomicU64, u64);

    fn counters(set: &[Set]) -> ScanCounters {
        let counters = ScanCounters::default();
        for (counter, value) in set {
            counter(&counters).store(*value, Ordering::Relaxed);
        }
        counters
    }

    #[test]
    fn nothing_learned_is_the_reference() {
        assert_eq!(Learned::default().prices(LINK), Prices::REFERENCE);
    }

    #[test]
    fn slow_stores_cost_more_and_leave_the_frontend_as_it_was() {
        let learned = Learned::default();
        let plain = counters(&[
            (|c| &c.pages_read, 1000),
            (|c| &c.rows, 10_000),
            // By reference: 2,200 for the pages, 1,400 for the records, 500 for the rows.
            (|c| &c.frontend_cpu_nanos, 4_100_000),
        ]);
        learned.learn(SHAPE, &plain);
        let slow = counters(&[
            (|c| &c.pages_pushed, 1000),
            (|c| &c.bytes_shipped, 1_000_000),
            (|c| &c.rows, 10_000),
            // By reference: 3,500 for the pages, 850 for the records, 500 for the bytes.
            (|c| &c.storage_cpu_nanos, 5 * 4_850_000),
            (|c| &c.frontend_cpu_nanos, 1_100_000),
        ]);
        for _ in 0..100 {
            learned.learn(SHAPE, &slow);
        }
        let prices = learned.prices(LINK);
        // Which part is slow is not known, since all scans were alike; what such a scan takes is.
        let storage = &prices.storage;
        let records = 1e5 * (storage.record + 3.0 * storage.node);
        let times = (1e3 * storage.page + records + 1e6 * storage.byte) / 4850.0;
        assert!((4.8..5.2).contains(&times), "{prices:?}");
        assert!(
            prices.reduced.page < 1.1 * Prices::REFERENCE.reduced.page,
            "{prices:?}"
        );
        let factor = prices.whole.page / Prices::REFERENCE.whole.page;
        assert!((0.9..1.1).contains(&factor), "{prices:?}");
        assert_eq!(learned.scans(), 101);
    }

    #[test]
    fn a_side_that_has_not_worked_yet_is_as_slow_as_the_other() {
        let learned = Learned::default();
        let slow = counters(&[
            (|c| &c.pages_read, 1000),
            (|c| &c.frontend_cpu_nanos, 36_000_000),
        ]);
        for _ in 0..100 {
            learned.learn(SHAPE, &slow);
        }
        let prices = learned.prices(LINK);
        let factor = prices.storage.page / Prices::REFERENCE.storage.page;
        assert!((8.0..12.0).contains(&factor), "{prices:?}");
    }

    #[test]
    fn short_and_mixed_scans_say_nothing() {
        let learned = Learned::default();
        let mixed: &[Set] = &[
            (|c| &c.pages_pushed, 1000),
            (|c| &c.pages_read, 1000),
            (|c| &c.storage_cpu_nanos, 1),
            (|c| &c.frontend_cpu_nanos, 1),
        ];
        learned.learn(SHAPE, &counters(mixed));
        learned.learn(
            SHAPE,
            &counters(&[(|c| &c.pages_read, 3), (|c| &c.frontend_cpu_nanos, 1)]),
        );
        assert_eq!(learned.prices(LINK), Prices::REFERENCE);
        assert_eq!(learned.scans(), 0);
    }
}
