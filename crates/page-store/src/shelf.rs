//! [`Shelf`]: what a store keeps for its tenants because it may be needed again. Bounded in entries and in
//! memory, and fair: room is made by the tenant that has most, with what it has not used for longest. So a
//! tenant loses nothing to one that has more than it has.

use std::collections::HashMap;
use std::hash::Hash;

use perigee_types::DbId;

/// Entries of tenants, by keys of their own.
pub(crate) struct Shelf<K, V> {
    entries: Limit,
    bytes: Limit,
    /// Counts uses; each entry has the count of its last one.
    clock: u64,
    tenants: HashMap<DbId, Tenant<K, V>>,
    evictions: u64,
}

struct Limit {
    used: usize,
    most: usize,
}

struct Tenant<K, V> {
    known: HashMap<K, Entry<V>>,
    bytes: usize,
}

struct Entry<V> {
    value: V,
    bytes: usize,
    used: u64,
}

impl<K: Copy + Eq + Hash, V: Clone> Shelf<K, V> {
    /// An empty shelf for at most so many entries, at least one, and bytes.
    pub(crate) fn new(entries: usize, bytes: usize) -> Self {
        let limit = |most| Limit { used: 0, most };
        Self {
            entries: limit(entries.max(1)),
            bytes: limit(bytes),
            clock: 0,
            tenants: HashMap::new(),
            evictions: 0,
        }
    }

    /// Entries that there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.used
    }

    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.used
    }

    /// Most bytes that they may take.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.most
    }

    /// Entries that made room for others.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// A tenant's entry, which is used now.
    pub(crate) fn get(&mut self, db: DbId, key: K) -> Option<V> {
        self.clock += 1;
        let entry = self.tenants.get_mut(&db)?.known.get_mut(&key)?;
        entry.used = self.clock;
        Some(entry.value.clone())
    }

    /// Keeps an entry that takes so many bytes, in the place of the one with this key.
    pub(crate) fn put(&mut self, db: DbId, key: K, value: V, bytes: usize) {
        self.remove(db, key);
        self.make_room(bytes);
        self.clock += 1;
        self.entries.used += 1;
        self.bytes.used += bytes;
        let empty = || Tenant {
            known: HashMap::new(),
            bytes: 0,
        };
        let tenant = self.tenants.entry(db).or_insert_with(empty);
        tenant.bytes += bytes;
        let used = self.clock;
        tenant.known.insert(key, Entry { value, bytes, used });
    }

    /// Forgets an entry.
    pub(crate) fn remove(&mut self, db: DbId, key: K) {
        let Some(tenant) = self.tenants.get_mut(&db) else {
            return;
        };
        if let Some(entry) = tenant.known.remove(&key) {
            tenant.bytes -= entry.bytes;
            self.bytes.used -= entry.bytes;
            self.entries.used -= 1;
        }
        if tenant.known.is_empty() {
            self.tenants.remove(&db);
        }
    }

    /// Forgets until one more entry of so many bytes has room.
    fn make_room(&mut self, bytes: usize) {
        let bytes = self.bytes.most.saturating_sub(bytes);
        while self.entries.used >= self.entries.most || self.bytes.used > bytes {
            // Rare and short: a shelf has some hundred entries.
            let by_bytes = self.bytes.used > bytes;
            let weight = |tenant: &Tenant<K, V>| match by_bytes {
                true => tenant.bytes,
                false => tenant.known.len(),
            };
            let greatest = self.tenants.iter().max_by_key(|(_, t)| weight(t));
            let (db, tenant) = greatest.expect("what is too much belongs to somebody");
            let oldest = tenant.known.iter().min_by_key(|(_, entry)| entry.used);
            let (key, _) = oldest.expect("a tenant without entries is removed");
            let (db, key) = (*db, *key);
            self.remove(db, key);
            self.evictions += 1;
        }
    }
}
