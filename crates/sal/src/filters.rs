//! Run-time filters on their way to the Page Stores: each gets the content of a filter with the first request,
//! and the hash with those that follow, until it says that it lacks it.

use std::collections::HashSet;

use bytes::Bytes;
use parking_lot::Mutex;
use perigee_page_api::{FilterHash, NdpFilter, NdpFilterUse};

/// A filter, and which Page Stores have it.
#[derive(Debug)]
pub struct SentFilter {
    hash: FilterHash,
    content: Bytes,
    /// Numbers of the stores that have it, as far as is known.
    stores: Mutex<HashSet<usize>>,
}

impl SentFilter {
    /// A filter that no store is known to have.
    #[must_use]
    pub fn new(content: Bytes) -> Self {
        Self {
            hash: FilterHash::of(&content),
            content,
            stores: Mutex::default(),
        }
    }

    /// Bytes of its content.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.content.len()
    }

    /// What a request to a store says of it.
    pub(crate) fn for_store(&self, store: usize) -> NdpFilter {
        let has = self.stores.lock().contains(&store);
        NdpFilter {
            hash: self.hash,
            content: (!has).then(|| self.content.clone()),
        }
    }
}

/// Notes what a store says of the filters of a request.
pub(crate) fn note(filters: &[std::sync::Arc<SentFilter>], store: usize, used: &NdpFilterUse) {
    for (number, filter) in (0_u32..).zip(filters) {
        let mut stores = filter.stores.lock();
        match used.missing.contains(&number) {
            true => stores.remove(&store),
            false => stores.insert(store),
        };
    }
}
