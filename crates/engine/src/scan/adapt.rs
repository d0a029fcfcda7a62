//! Where the rest of a scan is worked on, by what its first pages cost: a plan knows only what statistics tell of a
//! condition, and nothing of how busy the Page Stores are.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use perigee_types::PAGE_SIZE;

use super::counters::{ScanCounters, add};
use crate::prices::{Prices, ScanShape};

/// Pages after which it is decided.
const LEAST_PAGES: u64 = 64;

/// The other side has to be so many times cheaper: what is known of it is a guess.
const MARGIN: f64 = 1.25;

/// The side on which the next batch is worked on.
#[derive(Debug)]
pub(super) struct Side {
    is_pushed: AtomicBool,
    /// It does not change any more.
    is_settled: AtomicBool,
    /// Pages that the frontend has looked at, and rows that passed.
    pages: AtomicU64,
    rows: AtomicU64,
}

/// What a scan is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outlook {
    pub prices: Prices,
    pub shape: ScanShape,
    /// Bytes of a row that is delivered.
    pub width: f64,
}

impl Side {
    /// Where the scan begins; it stays there unless it `adapts`.
    pub fn new(is_pushed: bool, adapts: bool) -> Self {
        Self {
            is_pushed: AtomicBool::new(is_pushed),
            is_settled: AtomicBool::new(!adapts),
            pages: AtomicU64::new(0),
            rows: AtomicU64::new(0),
        }
    }

    /// The frontend has looked at pages.
    pub fn examined(&self, pages: u64, rows: u64) {
        add(&self.rows, rows);
        add(&self.pages, pages);
    }

    /// True if storage is asked to reduce the next batch.
    pub fn is_pushed(&self, counters: &ScanCounters, outlook: impl FnOnce() -> Outlook) -> bool {
        let now = self.is_pushed.load(Ordering::Relaxed);
        if self.is_settled.load(Ordering::Relaxed) {
            return now;
        }
        let turns = match now {
            true => pushing_is_dear(counters, outlook),
            false => {
                let pages = self.pages.load(Ordering::Relaxed);
                let rows = self.rows.load(Ordering::Relaxed);
                pushing_is_cheap(pages, rows, outlook)
            }
        };
        let Some(turns) = turns else { return now };
        if !self.is_settled.swap(true, Ordering::Relaxed) && turns {
            let counter = match now {
                true => &counters.turned_to_frontend,
                false => &counters.turned_to_storage,
            };
            add(counter, 1);
            self.is_pushed.store(!now, Ordering::Relaxed);
        }
        now != turns
    }
}

/// What storage did and sent cost more than whole pages would have; `None` before there is enough to tell.
fn pushing_is_dear(counters: &ScanCounters, outlook: impl FnOnce() -> Outlook) -> Option<bool> {
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let asked = of(&counters.pages_pushed)
        + of(&counters.pages_declined_busy)
        + of(&counters.pages_declined_descriptor)
        + of(&counters.pages_declined_page)
        + of(&counters.pages_declined_forced);
    if asked < LEAST_PAGES {
        return None;
    }
    let Outlook { prices, shape, .. } = outlook();
    let pages = asked as f64;
    let storage = of(&counters.storage_cpu_nanos) as f64 / 1e3 / pages;
    let bytes = of(&counters.bytes_shipped) as f64 / pages;
    let pushed = storage + prices.reduced.page + bytes * (prices.byte + prices.reduced.byte);
    Some(pushed > MARGIN * whole_page(&prices, shape))
}

/// So few rows passed on whole pages that storage does better; `None` before there is enough to tell.
fn pushing_is_cheap(pages: u64, rows: u64, outlook: impl FnOnce() -> Outlook) -> Option<bool> {
    if pages < LEAST_PAGES {
        return None;
    }
    let Outlook {
        prices,
        shape,
        width,
    } = outlook();
    let rows = rows as f64 / pages as f64;
    let (storage, reduced) = (&prices.storage, &prices.reduced);
    let row = reduced.row + width * (prices.byte + storage.byte + reduced.byte);
    let looked_at = shape.records_per_page * (storage.record + shape.nodes * storage.node);
    let pushed = storage.page + reduced.page + looked_at + rows * row;
    let whole = whole_page(&prices, shape) + rows * prices.whole.row;
    Some(MARGIN * pushed < whole)
}

/// A page that comes whole, and its records in the frontend.
fn whole_page(prices: &Prices, shape: ScanShape) -> f64 {
    let whole = &prices.whole;
    whole.page
        + PAGE_SIZE as f64 * prices.byte
        + shape.records_per_page * (whole.record + shape.nodes * whole.node)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outlook() -> Outlook {
        Outlook {
            prices: Prices::REFERENCE,
            shape: ScanShape {
                records_per_page: 100.0,
                nodes: 3.0,
            },
            width: 100.0,
        }
    }

    fn pushed(pages: u64, bytes: u64, micros: u64) -> ScanCounters {
        let counters = ScanCounters::default();
        add(&counters.pages_pushed, pages);
        add(&counters.bytes_shipped, pages * bytes);
        add(&counters.storage_cpu_nanos, pages * micros * 1000);
        counters
    }

    #[test]
    fn a_scan_whose_pages_are_not_reduced_turns_to_the_frontend_once() {
        let side = Side::new(true, true);
        let counters = pushed(LEAST_PAGES - 1, 16 << 10, 100);
        assert!(side.is_pushed(&counters, outlook));
        let counters = pushed(LEAST_PAGES, 16 << 10, 100);
        assert!(!side.is_pushed(&counters, outlook));
        assert_eq!(counters.turned_to_frontend.load(Ordering::Relaxed), 1);
        side.examined(1000, 0);
        assert!(!side.is_pushed(&counters, outlook));
        assert_eq!(counters.turned_to_storage.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_scan_whose_pages_are_reduced_stays() {
        let side = Side::new(true, true);
        assert!(side.is_pushed(&pushed(1000, 100, 5), outlook));
        // It is settled by then.
        assert!(side.is_pushed(&pushed(1000, 16 << 10, 1000), outlook));
    }

    #[test]
    fn a_scan_of_which_few_rows_pass_turns_to_storage() {
        let counters = ScanCounters::default();
        for (rows, turns) in [(0, true), (100 * 1000, false)] {
            let side = Side::new(false, true);
            assert!(!side.is_pushed(&counters, outlook));
            side.examined(1000, rows);
            assert_eq!(side.is_pushed(&counters, outlook), turns, "{rows}");
        }
    }

    #[test]
    fn what_does_not_adapt_stays_where_it_is() {
        let counters = pushed(1000, 16 << 10, 1000);
        assert!(Side::new(true, false).is_pushed(&counters, outlook));
        let side = Side::new(false, false);
        side.examined(1000, 0);
        assert!(!side.is_pushed(&counters, outlook));
    }
}
