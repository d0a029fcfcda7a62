//! Key batches: storage picks the rows of some keys out of their pages (pushdowndb section IV, "indexing": what an
//! index leads to is fetched row by row, not by whole objects).
//!
//! The leaves that the keys are on, as far as the buffer pool lacks them, are read as of one LSN with a filter that lists the
//! keys. Rows whose version storage can tell come with the columns that are asked for, if they pass the predicate. All
//! other records come whole, in their newest version; which one is visible, and whether it passes, is found out here, as for
//! records of pages in the pool.

use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::take::take_record_batch;
use bytes::Bytes;
use futures::StreamExt;
use perigee_ndp::{Ambiguous, Descriptor, KeySet, NdpBatch, Scanner, hash_bytes};
use perigee_page::RecordShape;
use perigee_page_api::NdpItem;
use perigee_sal::{NdpPart, NdpWork, SentFilter};
use perigee_types::{Lsn, PAGE_SIZE, TrxId};
use perigee_value::ColumnType;

use super::LookupRequest;
use super::counters::add;
use super::request::{CancelToken, KeyBatches};
use super::row_keys::RowKeys;
use super::source::{prepare, received};
use crate::EngineError;
use crate::btree::{StoredLeaf, StoredLeaves, Tree};
use crate::buffer::Page;
use crate::catalog::Table;
use crate::engine::Engine;

/// Fewer leaves than this are brought into the buffer pool.
const MIN_LEAVES: usize = 4;

/// Reads of rows of a table by their keys, or by the first columns of these.
pub(super) struct KeyReader {
    engine: Arc<Engine>,
    table: Arc<Table>,
    when: KeyBatches,
    tree: Tree,
    shape: RecordShape,
    /// The columns of the keys in the layout, and their types.
    columns: Vec<u16>,
    types: Vec<ColumnType>,
    /// Has every record come whole.
    whole: Sent,
    /// Has rows come where storage can tell their versions.
    reduced: Option<Reduced>,
    cancel: CancelToken,
}

/// A descriptor as it is sent.
struct Sent {
    descriptor: Bytes,
    hash: u64,
}

impl Sent {
    fn new(descriptor: &Descriptor) -> Self {
        let descriptor = descriptor.encode();
        Self {
            hash: hash_bytes(&descriptor),
            descriptor,
        }
    }
}

/// How rows come, and how their keys are known.
struct Reduced {
    sent: Sent,
    scanner: Arc<Scanner>,
    keys: RowKeys,
}

impl Reduced {
    fn take(&self, batch: NdpBatch, fetched: &mut Fetched) -> Result<(), EngineError> {
        let mut rows = self.scanner.finish(batch, &[])?.batch;
        let keys = (0..).zip(self.keys.of(&rows)?);
        // A filter of many keys lets others pass.
        let asked = keys.filter(|(_, key)| fetched.records.contains_key(key));
        let (places, keys): (Vec<u32>, Vec<_>) = asked.unzip();
        if places.len() < rows.num_rows() {
            rows = take_record_batch(&rows, &UInt32Array::from(places))
                .map_err(|e| EngineError::Evaluation(e.to_string()))?;
        }
        fetched.rows.push((rows, keys));
        Ok(())
    }
}

/// What storage answered.
#[derive(Default)]
pub(super) struct Fetched {
    /// For each key that it was asked for, the records of which the visible version is still to be found.
    records: BTreeMap<Vec<u8>, Vec<Bytes>>,
    /// Rows that are visible and pass, with the key of each.
    rows: Vec<(RecordBatch, Vec<Vec<u8>>)>,
}

impl Fetched {
    /// The records that came for a key; `None` if storage was not asked for it.
    pub fn records(&self, key: &[u8]) -> Option<&[Bytes]> {
        self.records.get(key).map(Vec::as_slice)
    }

    /// The rows that came, with the key of each.
    pub fn into_rows(self) -> Vec<(RecordBatch, Vec<Vec<u8>>)> {
        self.rows
    }

    /// The number of keys.
    fn len(&self) -> usize {
        self.records.len()
    }

    /// Takes in a record with this key, if one that was asked for is the beginning of it.
    fn found(&mut self, key: &[u8], record: Bytes) {
        let until = (Unbounded, Included(key));
        if let Some((asked, records)) = self.records.range_mut::<[u8], _>(until).next_back()
            && key.starts_with(asked)
        {
            records.push(record);
        }
    }

    fn find_in(&mut self, page: &Page, keys: &[&[u8]], numbers: &[usize]) {
        let page = page.get();
        for key in numbers.iter().map(|number| keys[*number]) {
            let slots = page.lower_bound(key)..page.slot_count();
            for slot in slots.take_while(|slot| page.key(*slot).starts_with(key)) {
                let record = Bytes::copy_from_slice(page.record(slot));
                self.found(page.key(slot), record);
            }
        }
    }
}

impl KeyReader {
    /// The columns of the clustered index's key by which storage picks rows; none if it would not pay, or if storage cannot
    /// compare them.
    pub fn columns(engine: &Engine, request: &LookupRequest) -> Option<Vec<u16>> {
        let table = &request.table;
        let layout = &table.clustered().layout;
        let count = match (request.fetch, request.index) {
            (true, _) => layout.key.len(),
            (false, 0) => request.key_columns,
            (false, _) => return None,
        };
        let pays = engine.picks_rows(table, request.key_batches);
        let columns = layout.key.get(..count).filter(|_| pays)?;
        let types = columns.iter().map(|c| layout.columns[usize::from(*c)].ty);
        KeySet::new(&types.collect::<Vec<_>>())?;
        Some(columns.to_vec())
    }

    /// A reader by these columns. Rows come as this scanner makes them, if their keys are known.
    pub fn new(
        engine: &Arc<Engine>,
        request: &LookupRequest,
        columns: Vec<u16>,
        scanner: &Arc<Scanner>,
        keys: Option<RowKeys>,
    ) -> Self {
        let index = request.table.clustered();
        let layout = &*index.layout;
        let types = columns.iter().map(|c| layout.columns[usize::from(*c)].ty);
        // To this watermark every record is ambiguous.
        let whole = Descriptor::new(engine.db(), index.id, layout.clone(), TrxId(0));
        let reduced = keys.map(|keys| Reduced {
            sent: Sent::new(scanner.descriptor()),
            scanner: scanner.clone(),
            keys,
        });
        Self {
            engine: engine.clone(),
            table: request.table.clone(),
            when: request.key_batches,
            tree: engine.tree(index),
            shape: layout.shape,
            types: types.collect(),
            columns,
            whole: Sent::new(&whole),
            reduced,
            cancel: request.cancel.clone(),
        }
    }

    /// The rows of those keys of whose leaves the buffer pool lacks one; of none if these leaves are few. With `whole` all
    /// come as records.
    pub async fn fetch(&self, keys: &[&[u8]], whole: bool) -> Result<Fetched, EngineError> {
        let (registry, sal) = (&self.engine.registry, &self.engine.sal);
        let pin = || {
            let pin = registry.pin(|| sal.last_lsn());
            (pin.lsn(), pin)
        };
        let mut fetched = Fetched::default();
        if keys.is_empty() || !self.engine.picks_rows(&self.table, self.when) {
            return Ok(fetched);
        }
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
        fetched.records = wanted
            .map(|number| (keys[*number].to_vec(), Vec::new()))
            .collect();
        let reduced = self.reduced.as_ref().filter(|_| !whole);
        let left = self
            .read_reduced(*lsn, (leaves, keys), reduced, &mut fetched)
            .await?;
        self.read_whole(*lsn, &left, keys, &mut fetched).await?;
        self.engine.pay_for_rows(&self.table, leaves.len() as u64);
        let counters = &self.engine.counters;
        add(&counters.key_batches, 1);
        add(&counters.keys_fetched, fetched.len() as u64);
        Ok(fetched)
    }

    fn filter(&self, fetched: &Fetched) -> Option<Arc<SentFilter>> {
        let mut set = KeySet::new(&self.types)?;
        fetched.records.keys().for_each(|key| set.insert(key));
        let filter = set.filter(&self.columns)?;
        Some(Arc::new(SentFilter::new(filter.encode())))
    }

    /// Has storage go through leaves; returns those that no reply covered, because a store failed in between.
    async fn read_reduced<'l>(
        &self,
        lsn: Lsn,
        (leaves, keys): (&'l [StoredLeaf], &[&[u8]]),
        reduced: Option<&Reduced>,
        fetched: &mut Fetched,
    ) -> Result<Vec<&'l StoredLeaf>, EngineError> {
        let sent = reduced.map_or(&self.whole, |reduced| &reduced.sent);
        let work = NdpWork {
            descriptor: sent.descriptor.clone(),
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
                let mut claim = claiming(&pages, &mut covered);
                match item {
                    NdpItem::Reduced(bytes) => {
                        let batch = self.received(bytes, &mut claim)?;
                        self.take(batch, reduced, fetched)?;
                    }
                    NdpItem::Declined {
                        index,
                        reason,
                        page,
                    } => {
                        let counters = &self.engine.counters;
                        counters.declined(reason);
                        add(&counters.bytes_shipped, page.len() as u64);
                        let leaf = &leaves[claim(index)?];
                        fetched.find_in(&received(leaf.page, &page)?, keys, &leaf.keys);
                    }
                }
            }
        }
        let left = leaves.iter().zip(covered).filter(|(_, covered)| !covered);
        Ok(left.map(|(leaf, _)| leaf).collect())
    }

    /// A batch as it came, its pages claimed.
    fn received(
        &self,
        bytes: Bytes,
        claim: &mut impl FnMut(u32) -> Result<usize, EngineError>,
    ) -> Result<NdpBatch, EngineError> {
        let counters = &self.engine.counters;
        add(&counters.bytes_shipped, bytes.len() as u64);
        let batch = NdpBatch::decode(bytes)?;
        for run in &batch.pages {
            claim(run.index)?;
        }
        add(&counters.pages_pushed, batch.pages.len() as u64);
        Ok(batch)
    }

    fn take(
        &self,
        mut batch: NdpBatch,
        reduced: Option<&Reduced>,
        fetched: &mut Fetched,
    ) -> Result<(), EngineError> {
        self.take_records(std::mem::take(&mut batch.ambiguous), fetched)?;
        match reduced {
            Some(reduced) => reduced.take(batch, fetched),
            None if batch.descriptor == self.whole.hash && batch.rows == 0 => Ok(()),
            None => Err(EngineError::Corrupt(
                "N5: reply to a read of keys is of another descriptor".into(),
            )),
        }
    }

    fn take_records(
        &self,
        records: Vec<Ambiguous>,
        fetched: &mut Fetched,
    ) -> Result<(), EngineError> {
        for Ambiguous { record, .. } in records {
            if self.shape.record_len(&record) != Some(record.len()) {
                let text = "N5: a record in a reply to a read of keys is not whole";
                return Err(EngineError::Corrupt(text.into()));
            }
            let key = self.shape.key(&record).to_vec();
            fetched.found(&key, record);
        }
        Ok(())
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

/// The place of a page of a reply among the leaves. Invariant N5: every page is covered once, by someone who was asked for
/// it.
fn claiming<'c>(
    places: &'c [u32],
    covered: &'c mut [bool],
) -> impl FnMut(u32) -> Result<usize, EngineError> + 'c {
    move |index| {
        let place = places.get(index as usize).map(|place| *place as usize);
        let place = place.filter(|place| !std::mem::replace(&mut covered[*place], true));
        place.ok_or_else(|| {
            EngineError::Corrupt(format!(
                "N5: reply to a read of keys covers page {index} wrongly"
            ))
        })
    }
}
