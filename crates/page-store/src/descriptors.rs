//! The descriptor cache: a scan sends the same descriptor with each of its requests, and decoding
//! and compiling it is paid once (taurus-ndp section IV.D.1).
//!
//! Keyed by the tenant and a hash of the descriptor; the bytes are compared as well, because tenants
//! choose what they send: an equal hash proves nothing. Descriptors that were found wanting are
//! remembered too, so that a store of an older version does not decode each request anew.
//!
//! Requests that need the same descriptor at the same time wait for one preparation of it.
//!
//! They stand on a [`Shelf`]: bounded, fair between tenants.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use perigee_types::DbId;
use tokio::sync::OnceCell;

use crate::figures::{Counter, DescriptorFigures};
use crate::plugin::NdpProgram;
use crate::shelf::Shelf;

/// What came of a descriptor: a program, or why it is not taken.
pub(crate) type Prepared = Result<Arc<dyn NdpProgram>, Arc<str>>;

/// Memory of a program besides what grows with its descriptor: machine code, tables of columns.
const PROGRAM_BYTES: usize = 64 << 10;

/// Memory for each byte of a descriptor: itself, its decoded form, and the lists of constants that
/// its evaluators hold. A constant takes 9 bytes there and 32 here, twice.
const BYTES_PER_BYTE: usize = 8;

/// A descriptor that takes more than this part of the cache is prepared for each request.
const GREATEST_PART: usize = 4;

/// Descriptors ready to run, the least recently used of which are forgotten.
pub(crate) struct DescriptorCache {
    hasher: RandomState,
    shelf: Mutex<Shelf<u64, Known>>,
    hits: Timer,
    misses: Timer,
    refused: Counter,
}

/// How often something happened, and how long it took.
#[derive(Default)]
struct Timer {
    times: Counter,
    nanos: Counter,
}

impl Timer {
    fn add(&self, took: Duration) {
        self.times.add(1);
        self.nanos.add(took.as_nanos() as u64);
    }

    fn read(&self) -> (u64, Duration) {
        (self.times.get(), Duration::from_nanos(self.nanos.get()))
    }
}

/// A descriptor, and where its program is or will be.
type Known = (Bytes, Arc<OnceCell<Prepared>>);

impl DescriptorCache {
    /// A cache of at most so many descriptors and bytes.
    pub(crate) fn new(entries: usize, bytes: usize) -> Self {
        Self {
            hasher: RandomState::new(),
            shelf: Mutex::new(Shelf::new(entries, bytes)),
            hits: Timer::default(),
            misses: Timer::default(),
            refused: Counter::default(),
        }
    }

    /// Where the program of a tenant's descriptor is, or will be once it is prepared.
    pub(crate) fn of(&self, db: DbId, descriptor: &Bytes) -> Arc<OnceCell<Prepared>> {
        let begin = Instant::now();
        let hash = self.hasher.hash_one(&descriptor[..]);
        let shelf = &mut *self.shelf.lock();
        // An equal hash is no equal descriptor.
        let known = shelf.get(db, hash).filter(|(known, _)| known == descriptor);
        if let Some((_, prepared)) = known {
            if prepared.initialized() {
                self.hits.add(begin.elapsed());
            }
            return prepared;
        }
        let prepared = Arc::new(OnceCell::new());
        let bytes = PROGRAM_BYTES + BYTES_PER_BYTE * descriptor.len();
        if bytes <= shelf.capacity() / GREATEST_PART {
            // A copy of its own: the request's bytes may be a part of a large buffer.
            let copy = Bytes::copy_from_slice(descriptor);
            shelf.put(db, hash, (copy, prepared.clone()), bytes);
        }
        prepared
    }

    /// Notes that a descriptor was prepared, how long it took, and whether it was refused.
    pub(crate) fn missed(&self, took: Duration, refused: bool) {
        self.misses.add(took);
        self.refused.add(u64::from(refused));
    }

    /// What operators are told of it.
    pub(crate) fn figures(&self) -> DescriptorFigures {
        let (hits, hit_time) = self.hits.read();
        let (misses, miss_time) = self.misses.read();
        let shelf = self.shelf.lock();
        DescriptorFigures {
            hits,
            misses,
            refused: self.refused.get(),
            hit_time,
            miss_time,
            evictions: shelf.evictions(),
            entries: shelf.len(),
            bytes: shelf.bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 100 * PROGRAM_BYTES;

    fn cache(entries: usize) -> DescriptorCache {
        DescriptorCache::new(entries, BYTES)
    }

    /// Whether a descriptor is known; it is afterwards.
    fn known(cache: &DescriptorCache, db: u32, descriptor: &[u8]) -> bool {
        let prepared = cache.of(DbId(db), &Bytes::copy_from_slice(descriptor));
        let known = prepared.initialized();
        if !known {
            assert!(prepared.set(Err("not taken".into())).is_ok());
        }
        known
    }

    #[test]
    fn the_least_recently_used_is_forgotten() {
        let cache = cache(2);
        assert!(!known(&cache, 1, b"a"));
        assert!(!known(&cache, 1, b"b"));
        assert!(known(&cache, 1, b"a"));
        assert!(!known(&cache, 1, b"c"));
        assert!(known(&cache, 1, b"a") && known(&cache, 1, b"c"));
        assert!(!known(&cache, 1, b"b"));
        let stats = cache.figures();
        assert_eq!((stats.hits, stats.evictions, stats.entries), (3, 2, 2));
    }

    #[test]
    fn tenants_share_nothing() {
        let cache = cache(9);
        assert!(!known(&cache, 1, b"a"));
        assert!(!known(&cache, 2, b"a"));
        assert!(known(&cache, 1, b"a") && known(&cache, 2, b"a"));
        assert_eq!(cache.figures().entries, 2);
    }

    #[test]
    fn an_equal_hash_is_no_equal_descriptor() {
        let cache = cache(9);
        assert!(!known(&cache, 1, b"a"));
        let hash = cache.hasher.hash_one(&b"b"[..]);
        let other = (Bytes::from_static(b"a"), Arc::new(OnceCell::new()));
        other.1.set(Err("not taken".into())).unwrap_or_default();
        cache.shelf.lock().put(DbId(1), hash, other, 1);
        assert!(!known(&cache, 1, b"b"), "it was taken for another");
        assert!(known(&cache, 1, b"b"));
    }

    #[test]
    fn a_tenant_does_not_drive_out_another() {
        let cache = cache(20);
        for n in 0..5_u8 {
            assert!(!known(&cache, 1, &[n]));
        }
        for n in 0..1000_u32 {
            assert!(!known(&cache, 2, &n.to_le_bytes()));
        }
        for n in 0..5_u8 {
            assert!(known(&cache, 1, &[n]), "descriptor {n} was driven out");
        }
        // Who comes late gets a share too.
        for round in 0..2 {
            for n in 0..5_u8 {
                assert_eq!(known(&cache, 3, &[n]), round == 1);
            }
        }
        assert_eq!(cache.figures().entries, 20);
    }

    #[test]
    fn memory_is_bounded_and_shared_by_size() {
        let cache = cache(1000);
        assert!(!known(&cache, 1, b"small"));
        let large = vec![7; BYTES / BYTES_PER_BYTE / 10];
        for n in 0..50_u8 {
            let mut descriptor = large.clone();
            descriptor[0] = n;
            assert!(!known(&cache, 2, &descriptor));
            assert!(cache.figures().bytes <= BYTES);
        }
        assert!(known(&cache, 1, b"small"));
        let entries = cache.figures().entries;
        // What is larger than a quarter is not kept, and drives out nothing.
        let huge = vec![7; BYTES / BYTES_PER_BYTE / 3];
        assert!(!known(&cache, 2, &huge) && !known(&cache, 2, &huge));
        assert_eq!(cache.figures().entries, entries);
    }
}
