//! The reading half of a scan: batch after batch of leaf pages, from storage or the buffer pool, to
//! the half that finishes them.
//!
//! All partitions of a scan take their batches from one cursor, so that none waits for another. A
//! batch is collected under latches (`btree`), sent after they are released, and what it reads is as
//! of its LSN, which is pinned meanwhile (SPEC's N6).

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use perigee_ndp::NdpBatch;
use perigee_page_api::NdpItem;
use perigee_sal::NdpPart;
use perigee_types::PageId;
use tokio::sync::mpsc::Sender;

use super::counters::add;
use super::scan::Shared;
use crate::EngineError;
use crate::btree::{LeafBatch, Position};
use crate::buffer::PageBytes;

/// Whole pages asked for in one request: large enough that requests cost little, small enough that
/// work on the first pages begins while the last are on their way.
const PAGES_PER_READ: usize = 64;

/// Such requests on their way at once.
const READS_IN_FLIGHT: usize = 4;

/// What the reading half hands over.
pub(super) enum Part {
    /// Pages reduced in storage; page runs have their index in the batch.
    Reduced(NdpBatch),
    /// Whole pages, with their index in the batch.
    Pages(Vec<(u32, PageBytes)>),
    /// All of a batch was handed over.
    EndOfBatch,
}

/// The cursor that partitions share.
pub(super) enum Cursor {
    /// The scan has not begun.
    Start,
    /// The next batch begins here.
    At(Position),
    /// There is no further batch.
    End,
}

type Parts = Sender<Result<Part, EngineError>>;

/// Reads batches until none is left or nobody listens any more.
pub(super) async fn read_batches(shared: Arc<Shared>, parts: Parts) {
    if let Err(e) = try_read_batches(&shared, &parts).await {
        let _ = parts.send(Err(e)).await; // the other half may have gone
    }
}

async fn try_read_batches(shared: &Shared, parts: &Parts) -> Result<(), EngineError> {
    while let Some(batch) = next_batch(shared).await? {
        add(&shared.counters.batches, 1);
        let _pin = shared.engine.registry.pin(batch.lsn);
        if !read_batch(shared, batch, parts).await? {
            return Ok(());
        }
    }
    Ok(())
}

async fn next_batch(shared: &Shared) -> Result<Option<LeafBatch>, EngineError> {
    let mut cursor = shared.cursor.lock().await;
    if shared.request.cancel.is_cancelled() {
        return Err(EngineError::Cancelled);
    }
    let from = match &*cursor {
        Cursor::Start => None,
        Cursor::At(position) => Some(position),
        Cursor::End => return Ok(None),
    };
    let request = &shared.request;
    let tree = &shared.tree;
    let batch = tree.leaf_batch(&request.range, from, request.reverse, shared.look_ahead).await?;
    *cursor = batch.resume.clone().map_or(Cursor::End, Cursor::At);
    Ok(Some(batch))
}

/// Reads one batch; false if nobody listens any more.
async fn read_batch(
    shared: &Shared,
    batch: LeafBatch,
    parts: &Parts,
) -> Result<bool, EngineError> {
    let (mut cached, mut missing) = (Vec::new(), Vec::new());
    for (index, leaf) in batch.leaves.into_iter().enumerate() {
        match leaf.resident {
            Some(page) => cached.push((index as u32, page)),
            None => missing.push((index as u32, leaf.id)),
        }
    }
    shared.engine.after_batch_request().await?;
    add(&shared.counters.pages_from_pool, cached.len() as u64);
    if !cached.is_empty() && parts.send(Ok(Part::Pages(cached))).await.is_err() {
        return Ok(false);
    }
    let listening = if missing.is_empty() {
        true
    } else if shared.request.ndp {
        read_reduced(shared, batch.lsn, &missing, parts).await?
    } else {
        add(&shared.counters.pages_read, missing.len() as u64);
        read_whole(shared, batch.lsn, &missing, parts).await?
    };
    Ok(listening && parts.send(Ok(Part::EndOfBatch)).await.is_ok())
}

/// Reads whole pages, and keeps them in the buffer pool as an ordinary scan does.
async fn read_whole(
    shared: &Shared,
    lsn: perigee_types::Lsn,
    pages: &[(u32, PageId)],
    parts: &Parts,
) -> Result<bool, EngineError> {
    let (sal, pool) = (&shared.engine.sal, &shared.engine.pool);
    let reads = stream::iter(pages.chunks(PAGES_PER_READ).map(|chunk| async move {
        let ids: Vec<_> = chunk.iter().map(|(_, id)| *id).collect();
        let bytes = sal.read_pages(&ids, lsn).await?;
        let mut out = Vec::with_capacity(chunk.len());
        for ((index, id), bytes) in chunk.iter().zip(bytes) {
            add(&shared.counters.bytes_shipped, bytes.len() as u64);
            out.push((*index, pool.offer(*id, bytes, lsn)?));
        }
        Ok::<_, EngineError>(out)
    }));
    let mut reads = reads.buffered(READS_IN_FLIGHT);
    while let Some(pages) = reads.try_next().await? {
        if shared.request.cancel.is_cancelled() {
            return Err(EngineError::Cancelled);
        }
        if parts.send(Ok(Part::Pages(pages))).await.is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads pages reduced by storage. What no reply covered, because a store failed in between, is read
/// whole: near-data processing never decides whether a query succeeds.
async fn read_reduced(
    shared: &Shared,
    lsn: perigee_types::Lsn,
    pages: &[(u32, PageId)],
    parts: &Parts,
) -> Result<bool, EngineError> {
    let ids: Vec<_> = pages.iter().map(|(_, id)| *id).collect();
    let mut covered = vec![false; pages.len()];
    let mut replies = shared.engine.sal.ndp_read(&ids, lsn, shared.descriptor.clone())?;
    while let Some(NdpPart { pages: places, reply }) = replies.next().await {
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
        shared.counters.used(&reply.usage);
        for item in reply.items {
            let part = take_item(shared, item, &places, pages, &mut covered)?;
            if parts.send(Ok(part)).await.is_err() {
                return Ok(false);
            }
        }
    }
    let left: Vec<_> =
        pages.iter().zip(&covered).filter(|(_, covered)| !**covered).map(|(p, _)| *p).collect();
    if left.is_empty() { Ok(true) } else { read_whole(shared, lsn, &left, parts).await }
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
            None => Err(EngineError::Corrupt(format!("N5: NDP reply covers page {index} wrongly"))),
        }
    };
    match item {
        NdpItem::Reduced(bytes) => {
            add(&shared.counters.bytes_shipped, bytes.len() as u64);
            let mut batch = NdpBatch::decode(bytes)?;
            for run in &mut batch.pages {
                run.index = claim(run.index)?.0;
            }
            add(&shared.counters.pages_pushed, batch.pages.len() as u64);
            Ok(Part::Reduced(batch))
        }
        NdpItem::Declined { index, reason, page } => {
            shared.counters.declined(reason);
            add(&shared.counters.bytes_shipped, page.len() as u64);
            let (index, id) = claim(index)?;
            Ok(Part::Pages(vec![(index, PageBytes::received(id, Bytes::clone(&page))?)]))
        }
    }
}
