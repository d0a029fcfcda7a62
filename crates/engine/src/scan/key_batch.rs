//! Key batches: storage picks the rows of some keys out of their pages (pushdowndb section IV, "indexing": what an
//! index leads to is fetched row by row, not by whole objects).
//!
//! The leaves that the keys are on and the buffer pool lacks are read as of one LSN with a filter that lists the keys.
//! To a descriptor with watermark 0 every record is ambiguous, so each comes back whole, in its newest version; which
//! version is visible, and whether it passes, is found out here, as for records of pages in the pool.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use perigee_ndp::{Descriptor, KeySet, NdpBatch, hash_bytes};
use perigee_page::RecordShape;
use perigee_page_api::NdpItem;
use perigee_sal::{NdpPart, NdpWork, SentFilter};
use perigee_types::{Lsn, PAGE_SIZE, TrxId};
use perigee_value::ColumnType;

use super::counters::add;
use super::request::{CancelToken, KeyBatches};
use super::source::{prepare, received};
use crate::EngineError;
use crate::btree::{StoredLeaf, StoredLeaves, Tree};
use crate::buffer::Page;
use crate::catalog::Table;
use crate::engine::Engine;

/// Fewer leaves than this are brought into the buffer pool.
const MIN_LEAVES: usize = 4;

/// Reads of rows of a table by their keys.
pub(super) struct KeyReader {
    engine: Arc<Engine>,
    tree: Tree,
    shape: RecordShape,
    descriptor: Bytes,
    hash: u64,
    /// The columns of the key in the layout, and their types.
    columns: Vec<u16>,
    types: Vec<ColumnType>,
    cancel: CancelToken,
}

/// What storage was asked for: the record of each key, or that there is none.
#[derive(Default)]
pub(super) struct Fetched(HashMap<Vec<u8>, Option<Bytes>>);

impl Fetched {
    /// The record of a key, if there is one; `None` if the key was not asked for.
    pub fn get(&self, key: &[u8]) -> Option<Option<&Bytes>> {
        self.0.get(key).map(Option::as_ref)
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn found(&mut self, key: &[u8], record: Bytes) {
        if let Some(place) = self.0.get_mut(key) {
            *place = Some(record);
        }
    }

    fn find_in(&mut self, page: &Page, keys: &[&[u8]], numbers: &[usize]) {
        let page = page.get();
        for key in numbers.iter().map(|number| keys[*number]) {
            if let Ok(slot) = page.search(key) {
                self.found(key, Bytes::copy_from_slice(page.record(slot)));
            }
        }
    }
}

impl KeyReader {
    /// A reader of rows of a table; `None` if it would not pay, or storage cannot compare the keys.
    pub fn of(
        engine: &Arc<Engine>,
        table: &Table,
        when: KeyBatches,
        cancel: &CancelToken,
    ) -> Option<Self> {
        let index = table.clustered();
        let pages = table.stats().leaf_pages.first().copied().unwrap_or(0);
        let pays = when.pay(pages, engine.pool.capacity() as u64);
        let layout = &*index.layout;
        let types = layout
            .key
            .iter()
            .map(|c| layout.columns[usize::from(*c)].ty);
        let types: Vec<_> = types.collect();
        KeySet::new(&types).filter(|_| pays)?;
        let descriptor = Descriptor::new(engine.db(), index.id, layout.clone(), TrxId(0)).encode();
        Some(Self {
            engine: engine.clone(),
            tree: engine.tree(index),
            shape: layout.shape,
            hash: hash_bytes(&descriptor),
            descriptor,
            columns: layout.key.clone(),
            types,
            cancel: cancel.clone(),
        })
    }

    /// The records of those keys whose leaves are not in the buffer pool; of none if these are few.
    pub async fn fetch(&self, keys: &[&[u8]]) -> Result<Fetched, EngineError> {
        let (registry, sal) = (&self.engine.registry, &self.engine.sal);
        let pin = || {
            let pin = registry.pin(|| sal.last_lsn());
            (pin.lsn(), pin)
        };
        let mut fetched = Fetched::default();
        let past_pool = self.engine.config.past_pool;
        let Some(stored) = self.tree.stored_leaves(keys, past_pool, pin).await? else {
            return Ok(fetched);
        };
        let StoredLeaves { lsn, leaves, .. } = &stored;
        if leaves.len() < MIN_LEAVES {
            return Ok(fetched);
        }
        let leaf = leaves.get(leaves.len() / 2).map(|leaf| leaf.page);
        prepare(&self.engine, &self.tree, *lsn, leaf).await?;
        let wanted = leaves.iter().flat_map(|leaf| &leaf.keys);
        fetched.0 = wanted
            .map(|number| (keys[*number].to_vec(), None))
            .collect();
        let left = self.read_reduced(*lsn, leaves, keys, &mut fetched).await?;
        self.read_whole(*lsn, &left, keys, &mut fetched).await?;
        let counters = &self.engine.counters;
        add(&counters.key_batches, 1);
        add(&counters.keys_fetched, fetched.len() as u64);
        Ok(fetched)
    }

    fn filter(&self, fetched: &Fetched) -> Option<Arc<SentFilter>> {
        let mut set = KeySet::new(&self.types)?;
        fetched.0.keys().for_each(|key| set.insert(key));
        let filter = set.filter(&self.columns)?;
        Some(Arc::new(SentFilter::new(filter.encode())))
    }

    /// Has storage go through leaves; returns those that no reply covered, because a store failed in between.
    async fn read_reduced<'l>(
        &self,
        lsn: Lsn,
        leaves: &'l [StoredLeaf],
        keys: &[&[u8]],
        fetched: &mut Fetched,
    ) -> Result<Vec<&'l StoredLeaf>, EngineError> {
        let work = NdpWork {
            descriptor: self.descriptor.clone(),
            filters: self.filter(fetched).into_iter().collect(),
            enough: None,
        };
        let ids: Vec<_> = leaves.iter().map(|leaf| leaf.page).collect();
        let mut covered = vec![false; leaves.len()];
        let mut replies = self.engine.sal.ndp_read(&ids, lsn, &work)?;
        while let Some(NdpPart { pages, reply }) = replies.next().await {
            if self.cancel.is_cancelled() {
                return Err(EngineError::Cancelled);
            }
            let reply = match reply {
                Ok(reply) => reply,
                Err(e) => {
                    tracing::warn!("a read of keys fails, its pages are read whole: {e}");
                    continue;
                }
            };
            self.engine.counters.used(&reply);
            for item in reply.items {
                self.take(item, &pages, (leaves, keys), &mut covered, fetched)?;
            }
        }
        let left = leaves.iter().zip(covered).filter(|(_, covered)| !covered);
        Ok(left.map(|(leaf, _)| leaf).collect())
    }

    /// Takes in an item of a reply. Invariant N5: every page is covered once, by someone who was asked for it.
    fn take(
        &self,
        item: NdpItem,
        places: &[u32],
        (leaves, keys): (&[StoredLeaf], &[&[u8]]),
        covered: &mut [bool],
        fetched: &mut Fetched,
    ) -> Result<(), EngineError> {
        let counters = &self.engine.counters;
        let mut claim = |index: u32| {
            let place = places.get(index as usize).map(|place| *place as usize);
            let place = place.filter(|place| !std::mem::replace(&mut covered[*place], true));
            place.ok_or_else(|| {
                EngineError::Corrupt(format!(
                    "N5: reply to a read of keys covers page {index} wrongly"
                ))
            })
        };
        match item {
            NdpItem::Reduced(bytes) => {
                add(&counters.bytes_shipped, bytes.len() as u64);
                let batch = NdpBatch::decode(bytes)?;
                for run in &batch.pages {
                    claim(run.index)?;
                }
                add(&counters.pages_pushed, batch.pages.len() as u64);
                self.take_records(batch, fetched)?;
            }
            NdpItem::Declined {
                index,
                reason,
                page,
            } => {
                counters.declined(reason);
                add(&counters.bytes_shipped, page.len() as u64);
                let leaf = &leaves[claim(index)?];
                fetched.find_in(&received(leaf.page, &page)?, keys, &leaf.keys);
            }
        }
        Ok(())
    }

    fn take_records(&self, batch: NdpBatch, fetched: &mut Fetched) -> Result<(), EngineError> {
        let is_whole = |record: &[u8]| self.shape.record_len(record) == Some(record.len());
        let mut records = batch
            .ambiguous
            .into_iter()
            .map(|ambiguous| ambiguous.record);
        if batch.descriptor != self.hash || batch.rows > 0 {
            let text = "N5: reply to a read of keys is of another descriptor";
            return Err(EngineError::Corrupt(text.into()));
        }
        records.try_for_each(|record| {
            if !is_whole(&record) {
                let text = "N5: a record in a reply to a read of keys is not whole";
                return Err(EngineError::Corrupt(text.into()));
            }
            let key = self.shape.key(&record).to_vec();
            fetched.found(&key, record);
            Ok(())
        })
    }

    /// Reads leaves whole, past the buffer pool.
    async fn read_whole(
        &self,
        lsn: Lsn,
        leaves: &[&StoredLeaf],
        keys: &[&[u8]],
        fetched: &mut Fetched,
    ) -> Result<(), EngineError> {
        for StoredLeaf {
            page,
            keys: numbers,
        } in leaves
        {
            let bytes = self.engine.sal.read_pages(&[*page], lsn).await?;
            add(&self.engine.counters.bytes_shipped, PAGE_SIZE as u64);
            fetched.find_in(&received(*page, &bytes[0])?, keys, numbers);
        }
        Ok(())
    }
}
