//! The descriptor cache: a scan sends the same descriptor with each of its requests, and decoding
//! and compiling it is paid once (taurus-ndp section IV.D.1).
//!
//! Keyed by the whole descriptor: tenants choose what they send, so equal hashes prove nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::figures::{Counter, DescriptorFigures};
use crate::plugin::NdpProgram;

/// Programs ready to run, the least recently used of which are forgotten.
pub(crate) struct DescriptorCache {
    limit: usize,
    state: Mutex<State>,
    hits: Counter,
    misses: Counter,
    refused: Counter,
    miss_nanos: Counter,
}

#[derive(Default)]
struct State {
    /// Counts uses; each entry has the count of its last one.
    clock: u64,
    programs: HashMap<Bytes, (u64, Arc<dyn NdpProgram>)>,
}

impl DescriptorCache {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            state: Mutex::default(),
            hits: Counter::default(),
            misses: Counter::default(),
            refused: Counter::default(),
            miss_nanos: Counter::default(),
        }
    }

    /// Counts a descriptor that was decoded and compiled, or could not be, and what it took.
    pub(crate) fn count_miss(&self, took: Duration, refused: bool) {
        let counter = if refused { &self.refused } else { &self.misses };
        counter.add(1);
        self.miss_nanos
            .add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// What operators are told of it.
    pub(crate) fn figures(&self) -> DescriptorFigures {
        DescriptorFigures {
            hits: self.hits.get(),
            misses: self.misses.get(),
            refused: self.refused.get(),
            miss_time: Duration::from_nanos(self.miss_nanos.get()),
            entries: self.state.lock().programs.len(),
        }
    }

    pub(crate) fn get(&self, descriptor: &Bytes) -> Option<Arc<dyn NdpProgram>> {
        let state = &mut *self.state.lock();
        state.clock += 1;
        let (used, program) = state.programs.get_mut(descriptor)?;
        *used = state.clock;
        self.hits.add(1);
        Some(program.clone())
    }

    pub(crate) fn insert(&self, descriptor: &Bytes, program: Arc<dyn NdpProgram>) {
        let state = &mut *self.state.lock();
        state.clock += 1;
        if state.programs.len() >= self.limit {
            // Rare and short: the cache has some hundred entries.
            let oldest = state.programs.iter().min_by_key(|(_, (used, _))| *used);
            let oldest = oldest.map(|(bytes, _)| bytes.clone());
            oldest.and_then(|bytes| state.programs.remove(&bytes));
        }
        // A copy of its own: the request's bytes may be a part of a large buffer.
        let key = Bytes::copy_from_slice(descriptor);
        state.programs.insert(key, (state.clock, program));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::NdpRun;

    struct Nothing;

    impl NdpProgram for Nothing {
        fn run(&self) -> Box<dyn NdpRun> {
            panic!("is not run")
        }
        fn is_compiled(&self) -> bool {
            false
        }
    }

    #[test]
    fn the_least_recently_used_is_forgotten() {
        let cache = DescriptorCache::new(2);
        let [a, b, c] = [&b"a"[..], b"b", b"c"].map(Bytes::from_static);
        cache.insert(&a, Arc::new(Nothing));
        cache.insert(&b, Arc::new(Nothing));
        assert!(cache.get(&a).is_some());
        cache.insert(&c, Arc::new(Nothing));
        assert!(cache.get(&b).is_none());
        assert!(cache.get(&a).is_some() && cache.get(&c).is_some());
    }
}
