//! The descriptor cache: a scan sends the same descriptor with each of its requests, and decoding
//! and compiling it is paid once (taurus-ndp section IV.D.1).
//!
//! Keyed by the tenant and a hash of the descriptor; the bytes are compared as well, because tenants
//! choose what they send: an equal hash proves nothing. Descriptors that were found wanting are
//! remembered too, so that a store of an older version does not decode each request anew.
//!
//! Requests that need the same descriptor at the same time wait for one preparation of it.
//!
//! Bounded in entries and in memory, and fair: room is made by the tenant that has most, with what
//! it has not used for longest. So a tenant loses nothing to one that has more than it has.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use perigee_types::DbId;
use tokio::sync::OnceCell;

use crate::figures::{Counter, DescriptorFigures};
use crate::plugin::NdpProgram;

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
    entries: usize,
    bytes: usize,
    hasher: RandomState,
    state: Mutex<State>,
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

#[derive(Default)]
struct State {
    /// Counts uses; each entry has the count of its last one.
    clock: u64,
    tenants: HashMap<DbId, Tenant>,
    entries: usize,
    bytes: usize,
    evictions: u64,
}

/// The descriptors of a tenant, by their hash.
#[derive(Default)]
struct Tenant {
    known: HashMap<u64, Entry>,
    bytes: usize,
}

struct Entry {
    descriptor: Bytes,
    prepared: Arc<OnceCell<Prepared>>,
    bytes: usize,
    used: u64,
}

impl DescriptorCache {
    /// A cache of at most so many descriptors and bytes.
    pub(crate) fn new(entries: usize, bytes: usize) -> Self {
        Self {
            entries: entries.max(1),
            bytes,
            hasher: RandomState::new(),
            state: Mutex::default(),
            hits: Timer::default(),
            misses: Timer::default(),
            refused: Counter::default(),
        }
    }

    /// Where the program of a tenant's descriptor is, or will be once it is prepared.
    pub(crate) fn of(&self, db: DbId, descriptor: &Bytes) -> Arc<OnceCell<Prepared>> {
        let begin = Instant::now();
        let hash = self.hasher.hash_one(&descriptor[..]);
        let state = &mut *self.state.lock();
        state.clock += 1;
        if let Some(prepared) = state.get(db, hash, descriptor) {
            if prepared.initialized() {
                self.hits.add(begin.elapsed());
            }
            return prepared;
        }
        let prepared = Arc::new(OnceCell::new());
        let bytes = PROGRAM_BYTES + BYTES_PER_BYTE * descriptor.len();
        if bytes > self.bytes / GREATEST_PART {
            return prepared;
        }
        state.forget(db, hash);
        state.make_room(self.entries - 1, self.bytes - bytes);
        let entry = Entry {
            // A copy of its own: the request's bytes may be a part of a large buffer.
            descriptor: Bytes::copy_from_slice(descriptor),
            prepared: prepared.clone(),
            bytes,
            used: state.clock,
        };
        state.insert(db, hash, entry);
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
        let state = self.state.lock();
        DescriptorFigures {
            hits,
            misses,
            refused: self.refused.get(),
            hit_time,
            miss_time,
            evictions: state.evictions,
            entries: state.entries,
            bytes: state.bytes,
        }
    }
}

impl State {
    fn get(&mut self, db: DbId, hash: u64, descriptor: &Bytes) -> Option<Arc<OnceCell<Prepared>>> {
        let entry = self.tenants.get_mut(&db)?.known.get_mut(&hash)?;
        if entry.descriptor != descriptor {
            return None;
        }
        entry.used = self.clock;
        Some(entry.prepared.clone())
    }

    fn insert(&mut self, db: DbId, hash: u64, entry: Entry) {
        self.entries += 1;
        self.bytes += entry.bytes;
        let tenant = self.tenants.entry(db).or_default();
        tenant.bytes += entry.bytes;
        tenant.known.insert(hash, entry);
    }

    fn forget(&mut self, db: DbId, hash: u64) {
        let Some(tenant) = self.tenants.get_mut(&db) else {
            return;
        };
        if let Some(entry) = tenant.known.remove(&hash) {
            tenant.bytes -= entry.bytes;
            self.bytes -= entry.bytes;
            self.entries -= 1;
        }
        if tenant.known.is_empty() {
            self.tenants.remove(&db);
        }
    }

    /// Forgets until there are no more than so many entries and bytes.
    fn make_room(&mut self, entries: usize, bytes: usize) {
        while self.entries > entries || self.bytes > bytes {
            // Rare and short: a cache has some hundred entries.
            let by_bytes = self.bytes > bytes;
            let weight = |tenant: &Tenant| match by_bytes {
                true => tenant.bytes,
                false => tenant.known.len(),
            };
            let greatest = self.tenants.iter().max_by_key(|(_, t)| weight(t));
            let (db, tenant) = greatest.expect("what is too much belongs to somebody");
            let oldest = tenant.known.iter().min_by_key(|(_, entry)| entry.used);
            let (hash, _) = oldest.expect("a tenant without entries is removed");
            let (db, hash) = (*db, *hash);
            self.forget(db, hash);
            self.evictions += 1;
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
        let hash = cache.hasher.hash_one(&b"a"[..]);
        let state = &mut *cache.state.lock();
        let found = |state: &mut State, bytes: &'static [u8]| {
            state.get(DbId(1), hash, &Bytes::from_static(bytes))
        };
        assert!(found(state, b"a").is_some());
        assert!(found(state, b"b").is_none());
        assert!(
            state
                .get(DbId(2), hash, &Bytes::from_static(b"a"))
                .is_none()
        );
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
