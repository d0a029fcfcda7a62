//! Filters that come to a scan while it runs, such as the keys of a join's build side. Each batch read takes
//! what there is by then: to the Page Stores, and for what the frontend completes itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use perigee_ndp::{Filter, Filters};
use perigee_sal::SentFilter;
use perigee_value::RowLayout;

use super::ScanJoin;

/// A place for a filter, which a scan and who makes the filter share. A filter leaves out rows that an
/// operator above the scan leaves out as well: at what time it comes, and whether, changes no result.
#[derive(Default)]
pub struct ScanFilter {
    current: RwLock<Option<Current>>,
    /// Number of the run that makes it.
    run: AtomicU64,
    /// How often a filter was set, or forgotten.
    version: AtomicU64,
    /// Rows that it left out, in storage and here.
    rows: AtomicU64,
}

/// Names a run that makes a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterRun(u64);

#[derive(Clone)]
struct Current {
    filter: Arc<Filter>,
    sent: Arc<SentFilter>,
}

impl std::fmt::Debug for ScanFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ScanFilter of {}", self.kind().unwrap_or("nothing yet"))
    }
}

impl ScanFilter {
    /// Begins a run that will make the filter, and forgets what an earlier one made: a plan may be run again over
    /// other rows.
    pub fn begin(&self) -> FilterRun {
        let mut current = self.current.write();
        *current = None;
        self.version.fetch_add(1, Ordering::Release);
        FilterRun(1 + self.run.fetch_add(1, Ordering::Relaxed))
    }

    /// Sets the filter, or a tighter one, from the scan's next batch read on; nothing happens if another run has
    /// begun since.
    pub fn set(&self, run: FilterRun, filter: Filter) {
        let sent = SentFilter::new(filter.encode()).into();
        let filter = Arc::new(filter);
        let mut current = self.current.write();
        if self.run.load(Ordering::Relaxed) == run.0 {
            *current = Some(Current { filter, sent });
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// The kind of the filter, if there is one: see [`Filter::kind`].
    #[must_use]
    pub fn kind(&self) -> Option<&'static str> {
        let current = self.current.read();
        current.as_ref().map(|current| current.filter.kind())
    }

    /// Bytes of the filter, as it is sent.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let current = self.current.read();
        current.as_ref().map_or(0, |current| current.sent.bytes())
    }

    /// Rows that were left out because of it.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }
}

/// The filters of a scan, as far as they have come.
#[derive(Default)]
pub(super) struct Taken {
    /// For the records of the scan.
    pub bound: Filters,
    /// For Page Stores.
    pub sent: Vec<Arc<SentFilter>>,
    /// The places that they are from.
    places: Vec<Arc<ScanFilter>>,
    version: u64,
}

impl Taken {
    /// Counts rows that the filters left out.
    pub fn count(&self, dropped: &[u64]) {
        for (place, rows) in self.places.iter().zip(dropped) {
            place.rows.fetch_add(*rows, Ordering::Relaxed);
        }
    }
}

/// The places of a scan's filters, and what was in them last; and the table of its join, which is there from the
/// beginning.
pub(super) struct Incoming {
    places: Vec<Arc<ScanFilter>>,
    join: Option<ScanJoin>,
    last: Mutex<Arc<Taken>>,
}

impl Incoming {
    pub fn new(places: Vec<Arc<ScanFilter>>, join: Option<ScanJoin>) -> Self {
        let new = Self {
            places,
            join,
            last: Mutex::default(),
        };
        let begin = new.with_table(Taken::default());
        *new.last.lock() = Arc::new(begin);
        new
    }

    /// What has come by now, for records of this layout: the same as before, if nothing has since.
    pub fn take(&self, layout: &RowLayout) -> Arc<Taken> {
        let mut last = self.last.lock();
        let versions = self
            .places
            .iter()
            .map(|p| p.version.load(Ordering::Acquire));
        let version: u64 = versions.sum();
        if last.version != version {
            *last = Arc::new(self.taken(layout, version));
        }
        last.clone()
    }

    fn taken(&self, layout: &RowLayout, version: u64) -> Taken {
        let mut taken = Taken {
            version,
            ..Taken::default()
        };
        let mut filters = Vec::new();
        for place in &self.places {
            let Some(Current { filter, sent }) = place.current.read().clone() else {
                continue;
            };
            // One that is not for these records is left out: nothing depends on it.
            match filter.check(layout) {
                Ok(()) => {
                    filters.push(filter);
                    taken.sent.push(sent);
                    taken.places.push(place.clone());
                }
                Err(error) => tracing::warn!("{error}"),
            }
        }
        taken.bound = Filters::bind(layout, &filters).expect("they were checked");
        self.with_table(taken)
    }

    /// The filters and the table. It comes last: stores count rows by the numbers of filters.
    fn with_table(&self, mut taken: Taken) -> Taken {
        if let Some(ScanJoin { table, sent, .. }) = &self.join {
            taken.bound = taken.bound.with_table(Some(table.clone()));
            taken.sent.push(sent.clone());
        }
        taken
    }
}
