//! The newest appends in memory, so that those who follow the log read it without touching the disk
//! (taurus-2020 section 3.3). First in, first out; bounded in bytes.

use std::collections::{BTreeMap, HashMap, VecDeque};

use bytes::Bytes;
use parking_lot::Mutex;
use perigee_log_api::{LogEntry, PlogKey};

/// What an entry costs beside its payload, in bytes: its fields in map and queue.
const ENTRY_COST: usize = 160;

/// Payloads below this length are copied. A payload that came over a socket is part of the buffer
/// that was received, and a small one would keep the whole buffer alive.
const COPY_BELOW: usize = 32 << 10;

/// Entries by PLog and offset.
#[derive(Debug)]
pub(crate) struct Cache {
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<PlogKey, BTreeMap<u64, LogEntry>>,
    order: VecDeque<(PlogKey, u64)>,
    bytes: usize,
}

fn cost(entry: &LogEntry) -> usize {
    entry.payload.len() + ENTRY_COST
}

impl Cache {
    /// A cache of at most `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            state: Mutex::default(),
        }
    }

    /// Adds an entry that was not there, and lets go of the oldest ones.
    pub(crate) fn add(&self, plog: PlogKey, mut entry: LogEntry) {
        if cost(&entry) > self.capacity {
            return;
        }
        if entry.payload.len() < COPY_BELOW {
            entry.payload = Bytes::copy_from_slice(&entry.payload);
        }
        let offset = entry.offset;
        let mut state = self.state.lock();
        let state = &mut *state;
        state.bytes += cost(&entry);
        state.order.push_back((plog, offset));
        let replaced = state.entries.entry(plog).or_default().insert(offset, entry);
        assert!(
            replaced.is_none(),
            "L2: {plog} got its entry at {offset} twice"
        );
        while state.bytes > self.capacity {
            let (oldest, offset) = state.order.pop_front().expect("a full cache has entries");
            let entries = state
                .entries
                .get_mut(&oldest)
                .expect("what is queued is cached");
            let entry = entries.remove(&offset).expect("what is queued is cached");
            state.bytes -= cost(&entry);
            if entries.is_empty() {
                state.entries.remove(&oldest);
            }
        }
    }

    /// Entries from `offset` on, as [`perigee_log_api::LogStore::read`] gives them; none if the
    /// first is not here.
    pub(crate) fn read(&self, plog: PlogKey, offset: u64, max_bytes: u64) -> Vec<LogEntry> {
        let state = self.state.lock();
        let Some(entries) = state.entries.get(&plog) else {
            return Vec::new();
        };
        let mut bytes = 0;
        let mut next = offset;
        let wanted = entries
            .range(offset..)
            .map(|(_, entry)| entry)
            .take_while(|entry| {
                bytes += entry.payload.len() as u64;
                let follows = entry.offset == next;
                next = entry.next_offset;
                follows && (entry.offset == offset || bytes <= max_bytes)
            });
        wanted.cloned().collect()
    }

    /// Bytes it takes, and the most it may.
    pub(crate) fn bytes(&self) -> (usize, usize) {
        (self.state.lock().bytes, self.capacity)
    }

    /// Forgets a PLog.
    pub(crate) fn remove(&self, plog: PlogKey) {
        let mut state = self.state.lock();
        if let Some(entries) = state.entries.remove(&plog) {
            state.bytes -= entries.values().map(cost).sum::<usize>();
            state.order.retain(|(other, _)| *other != plog);
        }
    }
}

#[cfg(test)]
mod tests {
    use perigee_types::{DbId, Lsn, PlogId};

    use super::*;

    fn key(plog: u64) -> PlogKey {
        PlogKey {
            db: DbId(1),
            plog: PlogId(plog),
        }
    }

    fn entry(offset: u64, len: usize) -> LogEntry {
        LogEntry {
            offset,
            next_offset: offset + len as u64,
            first_lsn: Lsn(offset + 1),
            last_lsn: Lsn(offset + 1),
            payload: Bytes::from(vec![offset as u8; len]),
        }
    }

    #[test]
    fn the_oldest_entries_go_first_and_the_bound_holds() {
        let cache = Cache::new(10 * (100 + ENTRY_COST));
        for i in 0..25 {
            cache.add(key(i % 2), entry(i / 2 * 100, 100));
            assert!(cache.state.lock().bytes <= cache.capacity);
        }
        // 25 entries were added, ten are left: 15 to 24, that is offsets 800.. of PLog 0.
        assert_eq!(cache.read(key(0), 700, 1000), vec![], "gone");
        let offsets: Vec<u64> = cache
            .read(key(0), 800, u64::MAX)
            .iter()
            .map(|e| e.offset)
            .collect();
        assert_eq!(offsets, vec![800, 900, 1000, 1100, 1200]);
        assert_eq!(cache.read(key(0), 800, 250).len(), 2);
        assert_eq!(cache.read(key(0), 800, 0).len(), 1);
        assert_eq!(cache.read(key(0), 801, 1000), vec![], "inside an entry");
    }

    #[test]
    fn entries_too_large_are_not_kept_and_leave_a_gap() {
        let cache = Cache::new(1000);
        cache.add(key(1), entry(0, 100));
        cache.add(key(1), entry(100, 5000));
        cache.add(key(1), entry(5100, 100));
        assert_eq!(
            cache.read(key(1), 0, u64::MAX).len(),
            1,
            "reads stop before the gap"
        );
        assert_eq!(cache.read(key(1), 5100, u64::MAX).len(), 1);
    }

    #[test]
    fn a_deleted_plog_leaves_nothing() {
        let cache = Cache::new(1 << 20);
        for i in 0..10 {
            cache.add(key(1), entry(i * 10, 10));
            cache.add(key(2), entry(i * 10, 10));
        }
        cache.remove(key(1));
        cache.remove(key(3));
        assert_eq!(cache.read(key(1), 0, 1000), vec![]);
        assert_eq!(cache.read(key(2), 0, 1000).len(), 10);
        let state = cache.state.lock();
        assert_eq!(
            (state.order.len(), state.bytes),
            (10, 10 * (10 + ENTRY_COST))
        );
    }
}
