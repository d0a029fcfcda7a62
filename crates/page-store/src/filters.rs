//! The filter cache: a scan names a run-time filter by the hash of its content and sends the content once.
//! Whoever is asked for a filter that it lacks says so, goes without, and gets the content with the next
//! request. Join tables are kept and sent like filters; a request that needs one and does not have it is declined.
//!
//! Each tenant has filters of its own, on a [`Shelf`]: bounded, fair between tenants. Content is checked
//! against its hash before it is decoded; a filter that the plugin does not take is remembered as that.

use std::sync::Arc;

use parking_lot::Mutex;
use perigee_page_api::FilterHash;
use perigee_types::DbId;

use crate::figures::{Counter, FilterFigures};
use crate::plugin::PreparedFilter;
use crate::shelf::Shelf;

/// What came of a filter: one ready to run, or why it is not taken.
pub(crate) type Prepared = Result<PreparedFilter, Arc<str>>;

/// Memory of a filter besides what the plugin says.
const FILTER_BYTES: usize = 1 << 10;

/// A filter that takes more than this part of the cache is prepared for each request.
const GREATEST_PART: usize = 4;

/// Filters ready to run, the least recently used of which are forgotten.
pub(crate) struct FilterCache {
    shelf: Mutex<Shelf<FilterHash, Prepared>>,
    hits: Counter,
    misses: Counter,
    missing: Counter,
    refused: Counter,
}

impl FilterCache {
    /// A cache of at most so many filters and bytes.
    pub(crate) fn new(entries: usize, bytes: usize) -> Self {
        Self {
            shelf: Mutex::new(Shelf::new(entries, bytes)),
            hits: Counter::default(),
            misses: Counter::default(),
            missing: Counter::default(),
            refused: Counter::default(),
        }
    }

    /// A tenant's filter, if it is known.
    pub(crate) fn get(&self, db: DbId, hash: FilterHash) -> Option<Prepared> {
        let found = self.shelf.lock().get(db, hash);
        self.hits.add(u64::from(found.is_some()));
        found
    }

    /// Notes that a filter is neither known nor was sent.
    pub(crate) fn is_missing(&self) {
        self.missing.add(1);
    }

    /// Keeps what came of the content of a filter.
    pub(crate) fn put(&self, db: DbId, hash: FilterHash, prepared: Prepared) {
        self.misses.add(1);
        self.refused.add(u64::from(prepared.is_err()));
        let bytes = match &prepared {
            Ok(ready) => FILTER_BYTES + ready.bytes,
            Err(_) => FILTER_BYTES,
        };
        let mut shelf = self.shelf.lock();
        if bytes <= shelf.capacity() / GREATEST_PART {
            shelf.put(db, hash, prepared, bytes);
        }
    }

    /// What operators are told of it.
    pub(crate) fn figures(&self) -> FilterFigures {
        let shelf = self.shelf.lock();
        FilterFigures {
            hits: self.hits.get(),
            misses: self.misses.get(),
            missing: self.missing.get(),
            refused: self.refused.get(),
            evictions: shelf.evictions(),
            entries: shelf.len(),
            bytes: shelf.bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(bytes: usize) -> Prepared {
        let ready = Arc::new(());
        Ok(PreparedFilter { ready, bytes })
    }

    fn hash(n: u64) -> FilterHash {
        FilterHash::of(&n.to_le_bytes())
    }

    #[test]
    fn tenants_share_no_filters_and_drive_out_none() {
        let cache = FilterCache::new(20, 1 << 20);
        for n in 0..5 {
            cache.put(DbId(1), hash(n), ready(20));
        }
        assert!(cache.get(DbId(2), hash(1)).is_none());
        for n in 0..1000 {
            cache.put(DbId(2), hash(n), ready(2000));
        }
        assert!((0..5).all(|n| cache.get(DbId(1), hash(n)).is_some()));
        let figures = cache.figures();
        assert_eq!((figures.entries, figures.misses), (20, 1005));
        assert!(figures.bytes <= 1 << 20);
    }

    #[test]
    fn a_filter_too_large_for_the_cache_drives_out_nothing() {
        let cache = FilterCache::new(20, 1 << 20);
        cache.put(DbId(1), hash(1), ready(20));
        cache.put(DbId(1), hash(2), ready(1 << 20));
        assert!(cache.get(DbId(1), hash(1)).is_some());
        assert!(cache.get(DbId(1), hash(2)).is_none());
        assert_eq!(cache.figures().evictions, 0);
    }
}
