//! Where the work of an access costs less: in the frontend or in storage (ndp-cost-model section 2, equations 1 to 7).
//!
//! Both sides cost what they scan, what they compute and what is transferred. Where they run at the same time the
//! sum is still what they take from others, and on a small machine the time as well.

use std::fmt;

use perigee_engine::Prices;
use perigee_types::PAGE_SIZE;

use super::groups::{HASHED_ROW, PARTIAL_ROW};

/// What an access costs, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Pages are read.
    pub scan: f64,
    /// Records are looked at, rows are made.
    pub cpu: f64,
    /// Bytes come from storage.
    pub transfer: f64,
}

impl Cost {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.scan + self.cpu + self.transfer
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scan,
            cpu,
            transfer,
        } = self;
        write!(f, "{scan:.0} + {cpu:.0} + {transfer:.0}")
    }
}

/// What there is to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Work {
    /// Pages that have to come from storage,
    pub stored: f64,
    /// and that are in the buffer pool.
    pub pooled: f64,
    /// Records on all of them.
    pub records: f64,
    /// Nodes of the condition's program; 0 without a condition.
    pub nodes: f64,
    /// Rows that pass.
    pub rows: f64,
    /// Bytes of a row's wanted columns,
    pub width: f64,
    /// and of all of its columns.
    pub record_width: f64,
    /// The rows are aggregated.
    pub groups: Option<GroupWork>,
}

/// An aggregation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct GroupWork {
    /// Rows that storage makes one of.
    pub of_rows: f64,
    /// Bytes of a group's key and states.
    pub width: f64,
}

/// What storage does of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub filter: bool,
    pub columns: bool,
}

/// The cheaper side, and what both cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    /// Without near-data processing.
    pub frontend: Cost,
    /// With it, and those parts of the access in storage that make it cheapest.
    pub storage: Cost,
}

impl Placement {
    /// True if storage is to do its part.
    #[must_use]
    pub fn is_pushed(&self) -> bool {
        self.storage.total() < self.frontend.total()
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { frontend, storage } = self;
        write!(f, "cost {storage} with NDP, {frontend} without")
    }
}

impl Work {
    /// Both sides, and what storage is best asked for.
    pub fn placed(&self, prices: &Prices) -> (Placement, Parts) {
        let filters = match (self.nodes > 0.0, self.groups.is_some()) {
            (false, _) => &[false][..],
            (true, true) => &[true][..],
            (true, false) => &[true, false][..],
        };
        let columns = match self.groups.is_some() {
            true => &[true][..],
            false => &[true, false][..],
        };
        let parts = filters.iter().flat_map(|filter| {
            columns.iter().map(|columns| Parts {
                filter: *filter,
                columns: *columns,
            })
        });
        let costs = parts.map(|parts| (self.in_storage(prices, parts), parts));
        let cheapest = costs.min_by(|a, b| a.0.total().total_cmp(&b.0.total()));
        let (storage, parts) = cheapest.expect("there is a way at least");
        let frontend = self.in_frontend(prices);
        (Placement { frontend, storage }, parts)
    }

    /// Everything in the frontend (equations 2 to 4).
    pub fn in_frontend(&self, prices: &Prices) -> Cost {
        let whole = &prices.whole;
        Cost {
            scan: self.stored * whole.page + self.pooled * whole.pool_page,
            cpu: self.looked_at(prices, 1.0),
            transfer: self.waits(prices) + self.stored * PAGE_SIZE as f64 * prices.byte,
        }
    }

    /// As much as possible in storage (equations 5 to 7); pages of the buffer pool are worked on here.
    pub fn in_storage(&self, prices: &Prices, parts: Parts) -> Cost {
        let (storage, reduced) = (&prices.storage, &prices.reduced);
        let share = self.stored / (self.stored + self.pooled).max(1.0);
        let records = self.records * share;
        let passing = match parts.filter {
            true => self.rows * share,
            false => records,
        };
        let (rows, width, grouping) = match self.groups {
            Some(groups) => (passing / groups.of_rows, groups.width, passing * HASHED_ROW),
            None if parts.columns => (passing, self.width, 0.0),
            None => (passing, self.record_width, 0.0),
        };
        let bytes = rows * width;
        let evaluated = match parts.filter {
            true => records * self.nodes * storage.node,
            // Above the access, by code that knows no pages.
            false if self.nodes > 0.0 => records * (self.nodes * prices.whole.node + reduced.row),
            false => 0.0,
        };
        Cost {
            scan: self.stored * (storage.page + reduced.page)
                + self.pooled * prices.whole.pool_page,
            cpu: records * storage.record
                + evaluated
                + grouping
                + bytes * (storage.byte + reduced.byte)
                + rows * reduced.row
                + self.looked_at(prices, 1.0 - share),
            transfer: self.waits(prices) + bytes * prices.byte,
        }
    }

    /// A share of the records in the frontend.
    fn looked_at(&self, prices: &Prices, share: f64) -> f64 {
        let whole = &prices.whole;
        let row = match self.groups {
            Some(groups) => HASHED_ROW + PARTIAL_ROW / groups.of_rows,
            None => whole.row,
        };
        share * (self.records * (whole.record + self.nodes * whole.node) + self.rows * row)
    }

    fn waits(&self, prices: &Prices) -> f64 {
        match self.stored > 0.0 {
            true => prices.wait,
            false => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scan of 1,000,000 records of 150 bytes: nKV's node table.
    fn nodes(selectivity: f64, width: f64) -> Work {
        Work {
            stored: 10_000.0,
            pooled: 0.0,
            records: 1e6,
            nodes: 3.0,
            rows: 1e6 * selectivity,
            width,
            record_width: 150.0,
            groups: None,
        }
    }

    fn at(gigabits: f64) -> Prices {
        Prices {
            byte: 0.008 / gigabits,
            ..Prices::REFERENCE
        }
    }

    fn pushed(work: Work, prices: &Prices) -> bool {
        work.placed(prices).0.is_pushed()
    }

    #[test]
    fn few_rows_are_made_in_storage_and_narrow_ones_at_any_selectivity() {
        for gigabits in [1.0, 13.0] {
            assert!(pushed(nodes(1e-4, 150.0), &at(gigabits)));
            for selectivity in [0.0, 0.1, 0.5, 1.0] {
                assert!(
                    pushed(nodes(selectivity, 8.0), &at(gigabits)),
                    "{selectivity}"
                );
            }
        }
    }

    #[test]
    fn everything_of_every_record_is_not() {
        assert!(!pushed(nodes(1.0, 150.0), &Prices::REFERENCE));
    }

    #[test]
    fn the_dearer_the_link_the_more_is_pushed_and_the_slower_the_stores_the_less() {
        let selectivities = (0..=100).map(|percent| f64::from(percent) / 100.0);
        let last = |prices: &Prices| {
            let pushed = selectivities
                .clone()
                .filter(|s| pushed(nodes(*s, 100.0), prices));
            pushed.count()
        };
        let links = [100.0, 10.0, 1.0, 0.1].map(|gigabits| last(&at(gigabits)));
        assert!(links.is_sorted() && links[0] < links[3], "{links:?}");
        let slower = [1.0, 2.0, 5.0, 20.0].map(|times| {
            let mut prices = at(13.0);
            prices.storage.page *= times;
            prices.storage.record *= times;
            prices.storage.node *= times;
            last(&prices)
        });
        assert!(slower.is_sorted_by(|a, b| a >= b), "{slower:?}");
        assert_eq!(slower[3], 0, "{slower:?}");
    }

    #[test]
    fn what_is_in_the_pool_stays_here() {
        let mut work = nodes(0.5, 150.0);
        (work.stored, work.pooled) = (0.0, 10_000.0);
        let (placement, _) = work.placed(&Prices::REFERENCE);
        assert!(!placement.is_pushed(), "{placement}");
        assert_eq!(placement.frontend.transfer, 0.0);
    }

    #[test]
    fn groups_are_made_where_they_leave_fewer_bytes() {
        let grouped = |of_rows| Work {
            groups: Some(GroupWork {
                of_rows,
                width: 40.0,
            }),
            ..nodes(1.0, 40.0)
        };
        assert!(pushed(grouped(1000.0), &at(1.0)));
        let (many, few) = (
            grouped(1.0).placed(&at(1.0)).0,
            grouped(1000.0).placed(&at(1.0)).0,
        );
        assert!(many.storage.total() > few.storage.total() + 3e5);
    }

    #[test]
    fn a_condition_that_everything_passes_is_left_to_the_frontend_where_that_is_cheaper() {
        let mut prices = at(0.1);
        prices.storage.node = 1.0;
        let (_, parts) = nodes(1.0, 8.0).placed(&prices);
        assert_eq!(
            parts,
            Parts {
                filter: false,
                columns: true
            }
        );
        let (_, parts) = nodes(0.01, 8.0).placed(&at(0.1));
        assert_eq!(
            parts,
            Parts {
                filter: true,
                columns: true
            }
        );
    }
}
