//! The pool: recent page versions in memory, a second-level cache behind the frontends' buffer
//! pools, shared by all slices (taurus-2020 section 7).
//!
//! It holds one version a page, the newest it was given. Replacement is least frequently used with
//! aging: each page counts its uses up to a bound, a clock hand counts them down and takes the
//! first page that it finds at zero. The first level takes the recency out of the accesses, which
//! is why frequency wins here. Pages of scans enter with no use to their name.
//!
//! Thread-safe; shards keep threads apart.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use perigee_types::{Lsn, PAGE_SIZE, PageId};
use rustc_hash::FxHashMap;

use crate::figures::PoolFigures;

/// Number of shards: more than there are threads that use the pool at a time.
const SHARDS: usize = 16;

/// Greatest number of uses that count; the bound is how a page that was hot once gets old.
const MAX_USES: u8 = 7;

/// Why a page is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is made by consolidation or asked for by itself.
    Wanted,
    /// A scan passes by it.
    Scanned,
}

/// The pool. Slices are named by the number that the store gave them when it opened them.
#[derive(Debug)]
pub(crate) struct Pool {
    shards: Vec<Mutex<Shard>>,
    pages_per_shard: usize,
    hits: AtomicU64,
    misses: AtomicU64,
}

type Key = (u32, PageId);

#[derive(Debug, Default)]
struct Shard {
    slots: Vec<Slot>,
    index: FxHashMap<Key, usize>,
    hand: usize,
}

#[derive(Debug)]
struct Slot {
    key: Key,
    lsn: Lsn,
    page: Bytes,
    uses: u8,
}

impl Pool {
    /// A pool of at most `bytes` bytes of pages.
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            pages_per_shard: bytes / PAGE_SIZE / SHARDS,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The page's version, if it is one between `oldest` and `newest`. A scan is no use.
    pub(crate) fn get(
        &self,
        key: Key,
        oldest: Lsn,
        newest: Lsn,
        usage: Use,
    ) -> Option<(Lsn, Bytes)> {
        let mut shard = self.shard(key).lock();
        let slot = shard.index.get(&key).copied();
        let found = slot.and_then(|slot| {
            let slot = &mut shard.slots[slot];
            (oldest <= slot.lsn && slot.lsn <= newest).then(|| {
                let wanted = u8::from(usage == Use::Wanted);
                slot.uses = (slot.uses + wanted).min(MAX_USES);
                (slot.lsn, slot.page.clone())
            })
        });
        let counter = if found.is_some() {
            &self.hits
        } else {
            &self.misses
        };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Gives the pool a version; it is kept if it is newer than what is there.
    pub(crate) fn insert(&self, key: Key, lsn: Lsn, page: Bytes, usage: Use) {
        if self.pages_per_shard == 0 {
            return;
        }
        let mut shard = self.shard(key).lock();
        if let Some(&slot) = shard.index.get(&key) {
            let slot = &mut shard.slots[slot];
            if slot.lsn < lsn {
                (slot.lsn, slot.page) = (lsn, page);
            }
            return;
        }
        let slot = Slot {
            key,
            lsn,
            page,
            uses: u8::from(usage == Use::Wanted),
        };
        if shard.slots.len() < self.pages_per_shard {
            let at = shard.slots.len();
            shard.slots.push(slot);
            shard.index.insert(key, at);
            return;
        }
        let at = shard.victim();
        let old = std::mem::replace(&mut shard.slots[at], slot);
        shard.index.remove(&old.key);
        shard.index.insert(key, at);
    }

    /// Hits and misses since the store was opened.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (load(&self.hits), load(&self.misses))
    }

    /// What operators are told of it.
    pub(crate) fn figures(&self) -> PoolFigures {
        let (hits, misses) = self.counts();
        let pages: usize = self.shards.iter().map(|s| s.lock().slots.len()).sum();
        PoolFigures {
            hits,
            misses,
            bytes: (pages * PAGE_SIZE) as u64,
            capacity_bytes: (self.pages_per_shard * SHARDS * PAGE_SIZE) as u64,
        }
    }

    fn shard(&self, key: Key) -> &Mutex<Shard> {
        // Neighbouring pages go to different shards.
        let mixed = (key.1.0 ^ u64::from(key.0) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(mixed >> 60) as usize % SHARDS]
    }
}

impl Shard {
    /// The slot that the hand finds at zero uses; it counts down what it passes.
    fn victim(&mut self) -> usize {
        loop {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            let slot = &mut self.slots[at];
            if slot.uses == 0 {
                return at;
            }
            slot.uses -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(n: u8) -> Bytes {
        Bytes::from(vec![n; PAGE_SIZE])
    }

    fn get(pool: &Pool, key: Key, oldest: Lsn, newest: Lsn) -> Option<(Lsn, Bytes)> {
        pool.get(key, oldest, newest, Use::Wanted)
    }

    fn key(page: u64) -> Key {
        (1, PageId(page))
    }

    #[test]
    fn versions_outside_the_bounds_are_not_given() {
        let pool = Pool::new(SHARDS * PAGE_SIZE);
        pool.insert(key(1), Lsn(5), page(5), Use::Wanted);
        assert!(get(&pool, key(1), Lsn(6), Lsn(9)).is_none());
        assert!(get(&pool, key(1), Lsn(1), Lsn(4)).is_none());
        assert_eq!(
            get(&pool, key(1), Lsn(5), Lsn(5)).map(|p| p.0),
            Some(Lsn(5))
        );
        pool.insert(key(1), Lsn(4), page(4), Use::Wanted);
        assert!(
            get(&pool, key(1), Lsn(0), Lsn(4)).is_none(),
            "an older version replaces none"
        );
        pool.insert(key(1), Lsn(6), page(6), Use::Wanted);
        assert_eq!(get(&pool, key(1), Lsn(0), Lsn(9)), Some((Lsn(6), page(6))));
        assert!(
            get(&pool, (2, PageId(1)), Lsn(0), Lsn(9)).is_none(),
            "another slice"
        );
    }

    #[test]
    fn memory_is_bounded_and_pages_in_use_survive_a_scan() {
        let pool = Pool::new(8 * SHARDS * PAGE_SIZE);
        let use_hot = || {
            (0..16)
                .filter(|n| get(&pool, key(*n), Lsn(0), Lsn(9)).is_some())
                .count()
        };
        for n in 0..16 {
            pool.insert(key(n), Lsn(1), page(n as u8), Use::Wanted);
        }
        for n in 1000..5000 {
            pool.insert(key(n), Lsn(1), page(0), Use::Scanned);
            if n % 50 == 0 {
                use_hot();
            }
        }
        let pages: usize = pool.shards.iter().map(|s| s.lock().slots.len()).sum();
        assert!(pages <= 8 * SHARDS, "{pages} pages");
        let kept = use_hot();
        assert!(kept >= 14, "{kept} of 16 pages in use are left");
        // Those that nobody uses any more make room.
        for n in 5000..20_000 {
            pool.insert(key(n), Lsn(1), page(0), Use::Wanted);
        }
        assert_eq!(use_hot(), 0);
    }

    #[test]
    fn no_memory_is_no_pool() {
        let pool = Pool::new(0);
        pool.insert(key(1), Lsn(5), page(5), Use::Wanted);
        assert!(get(&pool, key(1), Lsn(0), Lsn(9)).is_none());
        assert_eq!(pool.counts(), (0, 1));
    }
}
