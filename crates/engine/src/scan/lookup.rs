//! Lookups: all rows whose key begins with one of many given keys, for index nested-loop joins, and
//! all rows of parts of a secondary index, fetched from the clustered one.
//!
//! Keys are taken in batches; what a batch lacks in the buffer pool is read at once, first of the
//! index that is looked up, then of the clustered one.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::ArrowError;
use arrow_select::take::take_record_batch;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use perigee_ndp::{Backend, Descriptor, Execution, NdpError, Scanner};
use perigee_types::TrxId;

use super::LookupRequest;
use super::ahead::Ahead;
use super::key_batch::{Fetched, KeyReader};
use super::long::LongColumns;
use super::resolve::{is_deleted, row_of_entry};
use super::row_keys::RowKeys;
use crate::EngineError;
use crate::btree::{BatchRequest, Finder, KeySpan, KeySpans, LeafState, Tree};
use crate::buffer::Page;
use crate::catalog::Index;
use crate::engine::Engine;
use crate::txn::ReadView;
use crate::txn::{clustered_key, visible_version};

/// Keys whose pages are brought in together, and clustered records that are fetched together: some
/// MiB of pages if each is on another one.
const KEYS_PER_BATCH: usize = 512;

/// Entries of the first batch of an ordered part of an index, which may end early.
const FIRST_ENTRIES: usize = 32;

/// Leaves of a part of an index that are read at once.
const LEAVES_PER_BATCH: usize = 16;

/// What a lookup found.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// The rows, in the order of the keys; those of one key in any order.
    pub batch: RecordBatch,
    /// For each row, the index of its key among those asked for.
    pub key_of_row: Vec<u32>,
}

/// Lookups in one index that share a request; may be used at the same time.
#[derive(Clone)]
pub struct Lookups {
    engine: Arc<Engine>,
    request: Arc<LookupRequest>,
    scanner: Arc<Scanner>,
    long: Option<Arc<LongColumns>>,
    /// Has storage pick rows out of their pages.
    by_key: Option<Arc<KeyReader>>,
}

impl std::fmt::Debug for Lookups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (table, index) = (&self.request.table.def.name, &self.index().name);
        write!(f, "lookups in index {index} of {table}")
    }
}

impl Engine {
    /// Prepares lookups.
    ///
    /// # Errors
    /// If the request is not one that can be run.
    pub fn lookups(self: &Arc<Self>, request: LookupRequest) -> Result<Lookups, EngineError> {
        request.table.check_view(&request.view)?;
        let evaluated = request.evaluated();
        let layout = (*evaluated.layout).clone();
        let mut projection = request.projection.clone();
        let key = KeyReader::columns(self, &request);
        let in_rows = key
            .as_ref()
            .and_then(|columns| RowKeys::in_rows(&layout, columns, &mut projection));
        let watermark = match self.config.all_ambiguous {
            true => TrxId(0),
            false => request.view.watermark(),
        };
        let mut descriptor = Descriptor::new(self.db(), evaluated.id, layout, watermark);
        descriptor.projection = projection;
        descriptor.predicate.clone_from(&request.predicate);
        let backend = if self.config.interpret {
            Backend::Interpreter
        } else {
            Backend::Jit
        };
        let scanner = Arc::new(Scanner::new(descriptor, backend)?);
        let delivered: Vec<_> = (0..request.projection.len()).collect();
        let stored = Arc::new(scanner.output_schema().project(&delivered).map_err(arrow)?);
        let layout = &request.evaluated().layout;
        let long = LongColumns::of(layout, &request.projection, &stored);
        let by_key = key.map(|key| KeyReader::new(self, &request, key, &scanner, in_rows));
        Ok(Lookups {
            engine: self.clone(),
            scanner,
            long: long.map(Arc::new),
            by_key: by_key.map(Arc::new),
            request: Arc::new(request),
        })
    }
}

impl LookupRequest {
    /// The index whose records are evaluated and delivered.
    fn evaluated(&self) -> &Index {
        &self.table.indexes[if self.fetch { 0 } else { self.index }]
    }
}

impl Lookups {
    /// The same lookups, with another view.
    #[must_use]
    pub fn with_view(&self, view: Arc<ReadView>) -> Self {
        let request = LookupRequest {
            view,
            ..(*self.request).clone()
        };
        Self {
            request: Arc::new(request),
            ..self.clone()
        }
    }

    /// All rows whose key begins with one of `keys`: encoded keys or key prefixes, best in
    /// ascending order, so that those in one leaf follow each other.
    ///
    /// # Errors
    /// If an expression fails on a row, storage fails, or the lookup is cancelled.
    pub async fn find(&self, keys: &[Vec<u8>]) -> Result<Lookup, EngineError> {
        let mut run = Run::new(self);
        let tree = self.tree();
        let mut finder = tree.finder();
        for (batch, keys) in keys.chunks(KEYS_PER_BATCH).enumerate() {
            let fetched = self.fetch_keys(keys).await?;
            let missing = keys.iter().filter(|key| fetched.records(key).is_none());
            let spans: Vec<_> = missing.map(|key| KeySpan::prefix(key)).collect();
            tree.prefetch(&spans).await?;
            let first = (batch * KEYS_PER_BATCH) as u32; // a request has fewer than 2^32 keys
            for (number, key) in (first..).zip(keys) {
                if let Some(records) = fetched.records(key) {
                    run.take_records(number, records).await?;
                    continue;
                }
                let mut span = KeySpan::prefix(key);
                while let Some(found) = finder.next(&mut span).await? {
                    run.take(number, &found.page, found.slots, false).await?;
                }
            }
            let numbers = keys.iter().map(Vec::as_slice).zip(first..);
            run.take_rows(fetched, numbers)?;
        }
        run.finish().await
    }

    /// The rows of parts of the index in its order, or backwards, a batch at a time; the caller
    /// drops the stream when it has enough.
    #[must_use]
    pub fn spans(
        &self,
        spans: &KeySpans,
        reverse: bool,
    ) -> BoxStream<'static, Result<RecordBatch, EngineError>> {
        let mut spans = spans.to_vec();
        if reverse {
            spans.reverse();
        }
        let walk = Walk {
            lookups: self.clone(),
            rest: Ahead::new(spans),
            reverse,
            entries: FIRST_ENTRIES,
            pages: Vec::new(),
        };
        stream::try_unfold(walk, |mut walk| async move {
            Ok(walk.next().await?.map(|batch| (batch, walk)))
        })
        .boxed()
    }

    /// True if storage would take changes for visible that the view does not see.
    fn is_older(&self) -> bool {
        self.request.view.watermark() < self.scanner.descriptor().watermark
    }

    /// What storage picks out of the pages of the clustered index; nothing for keys of another one.
    async fn fetch_keys(&self, keys: &[Vec<u8>]) -> Result<Fetched, EngineError> {
        match &self.by_key {
            Some(reader) if self.request.index == 0 => {
                let keys: Vec<_> = keys.iter().map(Vec::as_slice).collect();
                reader.fetch(&keys, self.is_older()).await
            }
            _ => Ok(Fetched::default()),
        }
    }

    fn index(&self) -> &Index {
        &self.request.table.indexes[self.request.index]
    }

    fn tree(&self) -> Tree {
        self.engine.tree(self.index())
    }
}

/// A way through parts of an index.
struct Walk {
    lookups: Lookups,
    rest: Ahead,
    reverse: bool,
    /// Entries of the next batch.
    entries: usize,
    /// Runs of entries on leaves that were read, the next one last.
    pages: Vec<(Page, Range<u16>)>,
}

impl Walk {
    /// The rows of the next entries; batches grow, so that who wants few rows reads few.
    async fn next(&mut self) -> Result<Option<RecordBatch>, EngineError> {
        let lookups = self.lookups.clone();
        loop {
            let mut run = Run::new(&lookups).in_order_of_entries();
            let mut left = self.entries;
            while left > 0 && self.has_entries().await? {
                let (page, slots) = self.pages.last_mut().expect("there are entries");
                let taken = take(slots, left, self.reverse);
                left -= taken.len();
                run.take(0, page, taken, self.reverse).await?;
                if slots.start == slots.end {
                    self.pages.pop();
                }
            }
            if left == self.entries {
                return Ok(None);
            }
            self.entries = (2 * self.entries).min(KEYS_PER_BATCH);
            let found = run.finish().await?;
            if found.batch.num_rows() > 0 {
                return Ok(Some(found.batch));
            }
        }
    }

    /// Reads the next leaves if all entries at hand were taken; false at the end.
    async fn has_entries(&mut self) -> Result<bool, EngineError> {
        while self.pages.is_empty() {
            let soon = self.rest.soon();
            if soon.len() > 1 {
                self.lookups.tree().prefetch(&soon).await?;
            }
            let Some(span) = self.rest.next() else {
                return Ok(false);
            };
            let request = BatchRequest {
                range: &span,
                span: &span,
                reverse: self.reverse,
                max_pages: if self.entries == FIRST_ENTRIES {
                    1
                } else {
                    LEAVES_PER_BATCH
                },
                load: true,
            };
            let tree = self.lookups.tree();
            // Loaded leaves are as they are now, so no older version has to be kept.
            let pin = || (tree.pool().sal().last_lsn(), ());
            let batch = tree.leaf_batch(request, pin).await?;
            for leaf in batch.leaves {
                let page = match leaf.state {
                    LeafState::Resident(page) => page,
                    LeafState::Loading(load) => load.land().await?,
                    LeafState::Stored => unreachable!("leaves are loaded"),
                };
                let slots = span.slots(page.get());
                if !slots.is_empty() {
                    self.pages.push((page, slots));
                }
            }
            self.pages.reverse();
            if let Some(rest) = batch.rest {
                self.rest.put_back(rest);
            }
        }
        Ok(true)
    }
}

/// Takes the first slots of a run, or the last ones of one that is walked backwards.
fn take(slots: &mut Range<u16>, most: usize, reverse: bool) -> Range<u16> {
    let count = slots.len().min(most) as u16; // a run has at most as many
    if reverse {
        slots.end -= count;
        slots.end..slots.end + count
    } else {
        slots.start += count;
        slots.start - count..slots.start
    }
}

/// A row that an entry leads to.
struct ToFetch {
    /// The number of the key that it was found by.
    number: u32,
    key: Vec<u8>,
    entry: Vec<u8>,
    /// The view sees the entry, and so a version of the row that has it.
    is_decided: bool,
}

/// What is being found.
struct Run<'l> {
    lookups: &'l Lookups,
    to_fetch: Vec<ToFetch>,
    /// Entries get numbers of their own in place of those of their keys: how many have one.
    entries: Option<u32>,
    clustered: Finder,
    execution: Execution,
    batches: Vec<RecordBatch>,
    key_of_row: Vec<u32>,
}

impl<'l> Run<'l> {
    fn new(lookups: &'l Lookups) -> Self {
        let table = &lookups.request.table;
        Self {
            lookups,
            to_fetch: Vec::new(),
            entries: None,
            clustered: lookups.engine.tree(table.clustered()).finder(),
            execution: Execution::new(lookups.scanner.clone()),
            batches: Vec::new(),
            key_of_row: Vec::new(),
        }
    }

    /// The same; rows come in the order of the entries that they are found by.
    fn in_order_of_entries(mut self) -> Self {
        self.entries = Some(0);
        self
    }

    /// Takes in records of a leaf that were found by key `number`.
    async fn take(
        &mut self,
        number: u32,
        page: &Page,
        slots: Range<u16>,
        reverse: bool,
    ) -> Result<(), EngineError> {
        let last = slots.end.wrapping_sub(1);
        for slot in slots.clone() {
            let slot = if reverse {
                last - (slot - slots.start)
            } else {
                slot
            };
            let record = page.get().record(slot);
            let request = &self.lookups.request;
            if request.index == 0 {
                let engine = &self.lookups.engine;
                if let Some(row) = visible_version(engine, record, &request.view).await? {
                    self.add(number, &row)?;
                }
            } else if request.fetch {
                self.note_row(number, page, record).await?;
            } else if self.is_decided(page) {
                if !is_deleted(record) {
                    self.add(number, record)?;
                }
            } else if let Some(entry) = self.seen_entry(record).await? {
                self.add(number, &entry)?;
            }
        }
        self.check()
    }

    /// Notes the row of an entry to be fetched.
    async fn note_row(
        &mut self,
        number: u32,
        page: &Page,
        entry: &[u8],
    ) -> Result<(), EngineError> {
        let is_decided = self.is_decided(page);
        if is_decided && is_deleted(entry) {
            return Ok(());
        }
        let next = |entries: &mut u32| {
            *entries += 1;
            *entries
        };
        self.to_fetch.push(ToFetch {
            number: self.entries.as_mut().map_or(number, next),
            key: clustered_key(&self.lookups.request.table, self.lookups.index(), entry)?,
            entry: entry.to_vec(),
            is_decided,
        });
        if self.to_fetch.len() == KEYS_PER_BATCH {
            self.fetch().await?;
        }
        Ok(())
    }

    /// True if the view sees all changes of this leaf of a secondary index.
    fn is_decided(&self, page: &Page) -> bool {
        let all_ambiguous = self.lookups.engine.config.all_ambiguous;
        page.get().max_trx() < self.lookups.request.view.watermark() && !all_ambiguous
    }

    fn check(&self) -> Result<(), EngineError> {
        if self.lookups.request.cancel.is_cancelled() {
            return Err(EngineError::Cancelled);
        }
        Ok(())
    }

    /// An entry as it is in the version of its row that the view sees.
    async fn seen_entry(&mut self, entry: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        let request = &self.lookups.request;
        let key = clustered_key(&request.table, self.lookups.index(), entry)?;
        let Some(row) = self.clustered.get(&key).await? else {
            return Ok(None);
        };
        let seen = self.row_of_entry(entry, &row).await?;
        Ok(seen.map(|(_, entry)| entry))
    }

    /// The row of an entry, and the entry, as the view sees them.
    async fn row_of_entry(
        &self,
        entry: &[u8],
        row: &[u8],
    ) -> Result<Option<(Vec<u8>, Vec<u8>)>, EngineError> {
        let Lookups {
            engine, request, ..
        } = self.lookups;
        let index = (&*request.table, self.lookups.index());
        row_of_entry(engine, index, entry, row, &request.view).await
    }

    /// Fetches the rows whose keys are known.
    async fn fetch(&mut self) -> Result<(), EngineError> {
        self.check()?;
        let to_fetch = std::mem::take(&mut self.to_fetch);
        let (decided, others) = self.fetch_keys(&to_fetch).await?;
        let records = |row: &ToFetch| match row.is_decided {
            true => decided.records(&row.key),
            false => others.records(&row.key),
        };
        let missing = to_fetch.iter().filter(|row| records(row).is_none());
        let spans: Vec<_> = missing.map(|row| KeySpan::prefix(&row.key)).collect();
        let table = &self.lookups.request.table;
        let tree = self.lookups.engine.tree(table.clustered());
        tree.prefetch(&spans).await?;
        for row in &to_fetch {
            let found = match records(row) {
                Some(records) => records.first().map(|record| record.to_vec()),
                None => self.clustered.get(&row.key).await?,
            };
            if let Some(found) = found
                && let Some((version, _)) = self.row_of_entry(&row.entry, &found).await?
            {
                self.add(row.number, &version)?;
            }
        }
        let numbers = to_fetch.iter().map(|row| (row.key.as_slice(), row.number));
        self.take_rows(decided, numbers)
    }

    /// What storage picks out of pages for rows of which the entries are decided, and for the others.
    async fn fetch_keys(&self, rows: &[ToFetch]) -> Result<(Fetched, Fetched), EngineError> {
        let Some(reader) = &self.lookups.by_key else {
            return Ok(Default::default());
        };
        let keys = |decided| {
            let rows = rows.iter().filter(move |row| row.is_decided == decided);
            rows.map(|row| row.key.as_slice()).collect::<Vec<_>>()
        };
        // Whether a version has the entry is seen on the whole of it.
        let decided = reader.fetch(&keys(true), self.lookups.is_older()).await?;
        Ok((decided, reader.fetch(&keys(false), true).await?))
    }

    /// Takes in the visible versions of records that were found by key `number`.
    async fn take_records(&mut self, number: u32, records: &[Bytes]) -> Result<(), EngineError> {
        self.check()?;
        let Lookups {
            engine, request, ..
        } = self.lookups;
        for record in records {
            if let Some(row) = visible_version(engine, record, &request.view).await? {
                self.add(number, &row)?;
            }
        }
        Ok(())
    }

    /// Takes in rows that storage picked out, given the numbers of their keys.
    fn take_rows<'k>(
        &mut self,
        fetched: Fetched,
        numbers: impl Iterator<Item = (&'k [u8], u32)>,
    ) -> Result<(), EngineError> {
        let fetched = fetched.into_rows();
        if fetched.is_empty() {
            return Ok(());
        }
        self.flush()?;
        let numbers: HashMap<_, _> = numbers.collect();
        for (rows, keys) in fetched {
            let numbers = keys.iter().map(|key| numbers[key.as_slice()]);
            self.key_of_row.extend(numbers);
            self.batches.push(rows);
        }
        Ok(())
    }

    /// Evaluates a visible record.
    fn add(&mut self, number: u32, record: &[u8]) -> Result<(), EngineError> {
        match self.execution.record(number, record) {
            Err(NdpError::Full) => {
                self.flush()?;
                self.execution.record(number, record)?;
            }
            done => drop(done?),
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), EngineError> {
        let finished = self.lookups.scanner.finish(self.execution.take(), &[])?;
        for (key, rows) in finished.page_rows {
            self.key_of_row
                .extend(std::iter::repeat_n(key, rows as usize));
        }
        self.batches.push(finished.batch);
        Ok(())
    }

    async fn finish(mut self) -> Result<Lookup, EngineError> {
        if !self.to_fetch.is_empty() {
            self.fetch().await?;
        }
        self.flush()?;
        let Lookups {
            request,
            scanner,
            long,
            engine,
            ..
        } = self.lookups;
        let mut batch = match <[RecordBatch; 1]>::try_from(self.batches) {
            Ok([only]) => only,
            Err(batches) => {
                arrow_select::concat::concat_batches(&scanner.output_schema(), &batches)
                    .map_err(arrow)?
            }
        };
        // Without the columns that tell the key.
        let delivered: Vec<_> = (0..request.projection.len()).collect();
        batch = batch.project(&delivered).map_err(arrow)?;
        let mut key_of_row = self.key_of_row;
        if !key_of_row.is_sorted() {
            let mut order: Vec<_> = (0..key_of_row.len() as u32).collect();
            order.sort_by_key(|row| key_of_row[*row as usize]);
            key_of_row.sort_unstable();
            batch = take_record_batch(&batch, &UInt32Array::from(order)).map_err(arrow)?;
        }
        if let Some(long) = long {
            batch = long.fetch(&engine.pool, &batch, &request.cancel).await?;
        }
        Ok(Lookup { batch, key_of_row })
    }
}

fn arrow(error: ArrowError) -> EngineError {
    EngineError::Evaluation(error.to_string())
}
