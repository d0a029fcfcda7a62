//! The reading half of a scan: batch after batch of leaf pages, from storage or the buffer pool, to
//! the half that finishes them.
//!
//! All partitions of a scan take their batches from one cursor, so that none waits for another. A
//! batch is collected under latches (`btree`), sent after they are released, and what it reads is as
//! of its LSN, which is pinned meanwhile (SPEC's N6).

use std::sync::Arc;

use futures::StreamExt;
use perigee_ndp::NdpBatch;
use perigee_page::PageRef;
use perigee_page_api::NdpItem;
use perigee_sal::{NdpPart, NdpWork};
use perigee_types::{Lsn, PAGE_SIZE, PageId};
use tokio::sync::mpsc::Sender;

use super::counters::add;
use super::held::Holding;
use super::scan::Shared;
use crate::EngineError;
use crate::btree::{BatchRequest, KeySpan, LeafBatch, LeafState, Tree};
use crate::buffer::{Page, PageLoad};
use crate::engine::Engine;
use crate::txn::LsnPin;

/// Whole pages handed over at once: large enough that handing over costs little, small enough that
/// work on the first pages begins while the last are on their way.
const PAGES_PER_PART: usize = 32;

/// Leaves of the first batch read of a scan that may end early, or that gets no more memory; the next ones
/// double.
const FIRST_PAGES: usize = 4;

/// What the reading half hands over.
pub(super) enum Part {
    /// Pages reduced in storage; page runs have their index in the batch.
    Reduced(NdpBatch, Holding),
    /// Whole pages, with their index in the batch.
    Pages(Vec<(u32, Page)>, Holding),
    /// All of a batch was handed over.
    EndOfBatch,
}

pub(super) type Parts = Sender<Result<Part, EngineError>>;

/// A batch and the part of the range that it is of.
pub(super) struct Batch {
    leaves: LeafBatch<LsnPin>,
    span: KeySpan,
}

/// Where a worker is in the range.
pub(super) struct Ahead {
    /// What is left of the part that it scans; `None` at the end.
    rest: Option<KeySpan>,
    /// Leaves of the next batch, at most the look-ahead.
    pages: usize,
    /// What all that is scanned lies in.
    range: KeySpan,
}

impl Ahead {
    /// At the beginning.
    pub fn new(shared: &Shared) -> Self {
        let pages = match shared.may_end_early() {
            true => shared.look_ahead.min(FIRST_PAGES),
            false => shared.look_ahead,
        };
        Self {
            rest: None,
            pages,
            range: shared.hull(),
        }
    }

    /// The next batch; the place is behind it then.
    pub async fn next_batch(&mut self, shared: &Shared) -> Result<Option<Batch>, EngineError> {
        if shared.request.cancel.is_cancelled() {
            return Err(EngineError::Cancelled);
        }
        let span = loop {
            match self.rest.take() {
                Some(span) if !span.is_empty() => break span,
                _ => self.rest = shared.next_part().await?,
            }
            if self.rest.is_none() {
                return Ok(None);
            }
        };
        if shared.held.is_scarce() {
            self.pages = self.pages.min(FIRST_PAGES);
        }
        let request = BatchRequest {
            range: &self.range,
            span: &span,
            reverse: shared.request.reverse,
            max_pages: self.pages,
            load: !shared.is_pushed(),
        };
        let (registry, sal) = (&shared.engine.registry, &shared.engine.sal);
        let pin = || {
            let pin = registry.pin(|| sal.last_lsn());
            (pin.lsn(), pin)
        };
        let mut leaves = shared.tree.leaf_batch(request, pin).await?;
        self.rest = leaves.rest.take();
        self.pages = shared.look_ahead.min(2 * self.pages);
        add(&shared.counters.batches, 1);
        Ok(Some(Batch { leaves, span }))
    }
}

/// What one worker reads: part after part until none is left or nobody listens any more.
pub(super) async fn read_parts(shared: Arc<Shared>, parts: Parts) {
    let read = async {
        let mut ahead = Ahead::new(&shared);
        while let Some(batch) = ahead.next_batch(&shared).await? {
            if !read_batch(&shared, batch, &parts).await? {
                break;
            }
        }
        Ok(())
    };
    let read = read.await;
    tell(read, shared, &parts).await;
}

/// Reads one batch.
pub(super) async fn read_one(shared: Arc<Shared>, batch: Batch, parts: Parts) {
    let read = read_batch(&shared, batch, &parts).await;
    tell(read.map(drop), shared, &parts).await;
}

/// Hands over why reading ended, if it failed.
async fn tell(read: Result<(), EngineError>, shared: Arc<Shared>, parts: &Parts) {
    if let Err(e) = read {
        let _ = parts.send(Err(e)).await; // the other half may have gone
    }
    // What was done is counted before the other half sees the end.
    drop(shared);
}

/// Reads one batch; false if nobody listens any more.
async fn read_batch(shared: &Shared, batch: Batch, parts: &Parts) -> Result<bool, EngineError> {
    let past_pool = shared.request.ndp && shared.engine.config.past_pool;
    let Batch { leaves, span } = batch;
    let lsn = leaves.lsn;
    let (mut cached, mut loading, mut stored) = (Vec::new(), Vec::new(), Vec::new());
    let mut divided = Vec::new();
    for (index, leaf) in (0..).zip(leaves.leaves) {
        match leaf.state {
            state if leaf.shared => divided.push((index, leaf.page, state)),
            LeafState::Resident(_) if past_pool => stored.push((index, leaf.page)),
            LeafState::Resident(page) => cached.push((index, page)),
            LeafState::Loading(load) => loading.push((index, load)),
            LeafState::Stored => stored.push((index, leaf.page)),
        }
    }
    add(&shared.counters.pages_from_pool, cached.len() as u64);
    add(&shared.counters.pages_read, loading.len() as u64);
    add(
        &shared.counters.bytes_shipped,
        (loading.len() * PAGE_SIZE) as u64,
    );
    let middle = stored.get(stored.len() / 2).map(|(_, leaf)| *leaf);
    prepare(&shared.engine, &shared.tree, lsn, middle).await?;
    for pages in cached.chunks(PAGES_PER_PART) {
        if !hand_over(shared, pooled(shared, pages.to_vec()), parts).await {
            return Ok(false);
        }
    }
    for (index, id, state) in divided {
        let page = span.cut(&read_leaf(shared, lsn, id, state).await?);
        let part = whole(shared, vec![(index, page)]);
        if !hand_over(shared, part, parts).await {
            return Ok(false);
        }
    }
    let listening = land(shared, loading, parts).await?
        && (stored.is_empty() || read_reduced(shared, lsn, &stored, parts).await?);
    Ok(listening && parts.send(Ok(Part::EndOfBatch)).await.is_ok())
}

/// A leaf as it is in the pool, or as of an LSN.
async fn read_leaf(
    shared: &Shared,
    lsn: Lsn,
    id: PageId,
    state: LeafState,
) -> Result<Page, EngineError> {
    let counters = &shared.counters;
    let page = match state {
        LeafState::Resident(page) => {
            add(&counters.pages_from_pool, 1);
            return Ok(page);
        }
        LeafState::Loading(load) => load.land().await?,
        LeafState::Stored => {
            let bytes = shared.engine.sal.read_pages(&[id], lsn).await?;
            received(id, &bytes[0])?
        }
    };
    add(&counters.pages_read, 1);
    add(&counters.bytes_shipped, PAGE_SIZE as u64);
    Ok(page)
}

/// What tests have happen between the choice of pages, one of which is `leaf`, and LSN and the read.
pub(super) async fn prepare(
    engine: &Engine,
    tree: &Tree,
    lsn: Lsn,
    leaf: Option<PageId>,
) -> Result<(), EngineError> {
    let (config, sal) = (&engine.config, &engine.sal);
    if config.past_pool {
        sal.wait_page_persistent(lsn).await?;
    }
    if config.split_behind_scans
        && let Some(leaf) = leaf
        && tree.split_leaf(leaf).await?
    {
        sal.wait_page_persistent(sal.last_lsn()).await?;
    }
    Ok(())
}

/// Hands over a part; false if nobody listens any more. Where memory is scarce, all that was handed over
/// before has to be taken first.
async fn hand_over(shared: &Shared, part: Part, parts: &Parts) -> bool {
    if shared.held.is_scarce() {
        let all_taken = parts.reserve_many(parts.max_capacity()).await;
        if all_taken.is_err() {
            return false;
        }
    }
    parts.send(Ok(part)).await.is_ok()
}

/// Pages that are in the pool, too, as a part.
fn pooled(shared: &Shared, pages: Vec<(u32, Page)>) -> Part {
    let held = shared.held.hold_pooled(pages.len() * PAGE_SIZE);
    Part::Pages(pages, held)
}

/// Whole pages that only the scan has, as a part.
fn whole(shared: &Shared, pages: Vec<(u32, Page)>) -> Part {
    let held = shared.held.hold(pages.len() * PAGE_SIZE);
    Part::Pages(pages, held)
}

/// Hands over pages that are on their way to the buffer pool as they arrive.
async fn land(
    shared: &Shared,
    loading: Vec<(u32, PageLoad)>,
    parts: &Parts,
) -> Result<bool, EngineError> {
    let mut arrived = Vec::with_capacity(PAGES_PER_PART);
    let mut left = loading.len();
    for (index, load) in loading {
        arrived.push((index, load.land().await?));
        left -= 1;
        if arrived.len() == PAGES_PER_PART || left == 0 {
            if shared.request.cancel.is_cancelled() {
                return Err(EngineError::Cancelled);
            }
            let part = pooled(shared, std::mem::take(&mut arrived));
            if !hand_over(shared, part, parts).await {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Reads whole pages as of an LSN, past the buffer pool.
async fn read_whole(
    shared: &Shared,
    lsn: Lsn,
    pages: &[(u32, PageId)],
    parts: &Parts,
) -> Result<bool, EngineError> {
    add(&shared.counters.pages_read, pages.len() as u64);
    for chunk in pages.chunks(PAGES_PER_PART) {
        let ids: Vec<_> = chunk.iter().map(|(_, id)| *id).collect();
        let bytes = shared.engine.sal.read_pages(&ids, lsn).await?;
        let mut out = Vec::with_capacity(chunk.len());
        for ((index, id), bytes) in chunk.iter().zip(bytes) {
            add(&shared.counters.bytes_shipped, bytes.len() as u64);
            out.push((*index, received(*id, &bytes)?));
        }
        if !hand_over(shared, whole(shared, out), parts).await {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A page as it came from storage, checked.
pub(super) fn received(id: PageId, bytes: &[u8]) -> Result<Page, EngineError> {
    let corrupt = |e| EngineError::Corrupt(format!("{id} as read from storage: {e}"));
    let page = PageRef::new(bytes).map_err(corrupt)?;
    page.verify_checksum().map_err(corrupt)?;
    if page.id() != id {
        return Err(EngineError::Corrupt(format!(
            "{} came instead of {id}",
            page.id()
        )));
    }
    Ok(Page::copy_of(page))
}

/// Reads pages reduced by storage. What no reply covered, because a store failed in between, is read
/// whole: near-data processing never decides whether a query succeeds.
async fn read_reduced(
    shared: &Shared,
    lsn: Lsn,
    pages: &[(u32, PageId)],
    parts: &Parts,
) -> Result<bool, EngineError> {
    let ids: Vec<_> = pages.iter().map(|(_, id)| *id).collect();
    let mut covered = vec![false; pages.len()];
    let filters = shared.filters();
    let work = NdpWork {
        descriptor: shared.descriptor.clone(),
        filters: filters.sent.as_slice().into(),
        enough: shared.request.limit.filter(|_| shared.may_end_early()),
    };
    let mut replies = shared.engine.sal.ndp_read(&ids, lsn, &work)?;
    while let Some(NdpPart {
        pages: places,
        reply,
    }) = replies.next().await
    {
        if shared.request.cancel.is_cancelled() {
            return Err(EngineError::Cancelled);
        }
        let reply = match reply {
            Ok(reply) => reply,
            Err(e) => {
                tracing::warn!("an NDP read fails, its pages are read whole: {e}");
                continue;
            }
        };
        shared.counters.used(&reply);
        if let Some(used) = &reply.filters {
            shared.count_dropped(&filters, &used.dropped);
        }
        for item in reply.items {
            let part = take_item(shared, item, &places, pages, &mut covered)?;
            if !hand_over(shared, part, parts).await {
                return Ok(false);
            }
        }
    }
    let left: Vec<_> = pages
        .iter()
        .zip(&covered)
        .filter(|(_, covered)| !**covered)
        .map(|(p, _)| *p)
        .collect();
    if left.is_empty() {
        Ok(true)
    } else {
        read_whole(shared, lsn, &left, parts).await
    }
}

/// An item of a reply with its page indexes changed from those of the sub-batch to those of the
/// batch. Invariant N5: every page is covered once, by someone who was asked for it.
fn take_item(
    shared: &Shared,
    item: NdpItem,
    places: &[u32],
    pages: &[(u32, PageId)],
    covered: &mut [bool],
) -> Result<Part, EngineError> {
    let mut claim = |index: u32| {
        let place = places.get(index as usize).map(|place| *place as usize);
        match place.filter(|place| !std::mem::replace(&mut covered[*place], true)) {
            Some(place) => Ok(pages[place]),
            None => Err(EngineError::Corrupt(format!(
                "N5: NDP reply covers page {index} wrongly"
            ))),
        }
    };
    match item {
        NdpItem::Reduced(bytes) => {
            add(&shared.counters.bytes_shipped, bytes.len() as u64);
            let held = shared.held.hold(bytes.len());
            let mut batch = NdpBatch::decode(bytes)?;
            for run in &mut batch.pages {
                run.index = claim(run.index)?.0;
            }
            add(&shared.counters.pages_pushed, batch.pages.len() as u64);
            Ok(Part::Reduced(batch, held))
        }
        NdpItem::Declined {
            index,
            reason,
            page,
        } => {
            shared.counters.declined(reason);
            add(&shared.counters.bytes_shipped, page.len() as u64);
            let (index, id) = claim(index)?;
            Ok(whole(shared, vec![(index, received(id, &page)?)]))
        }
    }
}
