//! Purge: removes, in the background, what no view needs any more: delete-marked rows and entries,
//! and the undo that led to them.
//!
//! Transactions are purged in the order in which they ended, each as soon as all open views see it
//! (U1). Purging repeats itself harmlessly, so nothing is kept of how far it came but the head of each
//! undo segment.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use perigee_crash::{Point, reach};
use perigee_page::{RecordFlags, RecordHeader};
use perigee_types::{Lsn, PageId, RollPtr, TrxId};
use tokio::time::Instant;

use super::ending::Pauses;
use super::entries::{entries_of, entry_of, entry_of_version};
use super::registry::{History, Registry};
use super::segment::{Position, find_tail, recycle};
use super::system;
use super::undo::{Before, UndoChange, UndoPage, UndoRecord};
use super::version::previous_version;
use crate::EngineError;
use crate::btree::{RecordChange, Tree};
use crate::buffer::{Access, Frame};
use crate::catalog::{Index, Table};
use crate::engine::Engine;
use crate::errand::freeing_space;
use crate::overflow::free_chain;

/// Transactions that are taken from the history at a time.
const BATCH: usize = 256;

/// How often the length of the history is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// The time between two warnings.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// The undo in a segment, from its head to here, that transactions left before a restart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leftover {
    slot: usize,
    end: Position,
}

/// Finds, at a start, the undo that ended transactions left before it.
pub(crate) async fn find_history(engine: &Arc<Engine>) -> Result<Vec<Leftover>, EngineError> {
    let mut leftovers = Vec::new();
    for number in 0..system::SLOTS {
        let slot = engine.system.read(|page| system::slot(page, number));
        if slot.head == PageId(0) {
            continue;
        }
        let tail = find_tail(engine, number, slot).await?;
        let tail = tail.expect("a segment with a head has a tail");
        let end = if slot.trx == TrxId(0) {
            Position::end_of(&tail)?
        } else {
            slot.start
        };
        leftovers.push(Leftover { slot: number, end });
    }
    Ok(leftovers)
}

/// How far purge came.
#[derive(Debug, Default)]
struct Progress {
    /// Where each segment is to be gone on with.
    done: HashMap<usize, Position>,
    /// Segments with an undo page that cannot be read: what lies from there on stays as it is.
    given_up: HashSet<usize>,
}

impl Progress {
    /// What became of a segment. Of a page that is damaged nothing can be made better here, and the other segments
    /// must not wait for it.
    ///
    /// # Errors
    /// What may succeed later, and that storage has stopped.
    fn note(
        &mut self,
        engine: &Engine,
        slot: usize,
        outcome: Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        if let Err(e) = outcome {
            let e = permanent(engine, e)?;
            tracing::error!("undo of slot {slot} cannot be purged any further: {e}");
            self.given_up.insert(slot);
        }
        Ok(())
    }
}

/// An error that comes again whenever the same is tried.
///
/// # Errors
/// One that does not, and that storage has stopped.
fn permanent(engine: &Engine, error: EngineError) -> Result<EngineError, EngineError> {
    engine.sal.check()?;
    match error.is_transient() {
        true => Err(error),
        false => Ok(error),
    }
}

/// Purges what is left from before a restart. Nobody knows any more in which order the transactions
/// of different segments ended, so no version may go before all entries of older ones have gone, and
/// no undo before all rows.
async fn purge_leftovers(
    engine: &Arc<Engine>,
    progress: &mut Progress,
    leftovers: &[Leftover],
) -> Result<(), EngineError> {
    for what in [What::Entries, What::Rows] {
        for leftover in leftovers {
            if progress.given_up.contains(&leftover.slot) {
                continue;
            }
            let outcome = purge_leftover(engine, leftover, what).await;
            progress.note(engine, leftover.slot, outcome)?;
        }
    }
    for Leftover { slot, end } in leftovers {
        if progress.given_up.contains(slot) {
            continue;
        }
        let mut at = head(engine, *slot);
        while at.page != end.page {
            let frame = engine.pool.fetch(at.page, Access::Point).await?;
            at = Position::first(recycle(engine, *slot, &frame)?);
        }
        progress.done.insert(*slot, *end);
    }
    Ok(())
}

async fn purge_leftover(
    engine: &Arc<Engine>,
    leftover: &Leftover,
    what: What,
) -> Result<(), EngineError> {
    let mut at = head(engine, leftover.slot);
    loop {
        let frame = engine.pool.fetch(at.page, Access::Point).await?;
        purge_page(engine, &frame, at, leftover.end, what).await?;
        if at.page == leftover.end.page {
            return Ok(());
        }
        let next = frame.read(|page| UndoPage::new(page).map(UndoPage::next))?;
        at = Position::first(next.expect("the end lies behind the head"));
    }
}

/// The first undo of a segment that may not be purged.
fn head(engine: &Engine, slot: usize) -> Position {
    let slot = engine.system.read(|page| system::slot(page, slot));
    Position::first(slot.head)
}

/// What of a record is purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Entries of the version before.
    Entries,
    /// The row, if it is deleted.
    Rows,
    /// Both.
    All,
}

/// Purges the records of an undo page from a place on, up to an end that may lie in it. One that leads to a damaged
/// page leaves what it was to remove, and the others go on.
async fn purge_page(
    engine: &Arc<Engine>,
    frame: &Frame,
    from: Position,
    end: Position,
    what: What,
) -> Result<(), EngineError> {
    let mut records = frame.read(|page| UndoPage::new(page)?.records(from.offset))?;
    records.retain(|(offset, _)| from.page != end.page || *offset < end.offset);
    for (offset, record) in records {
        let (table, roll) = (record.table, RollPtr::new(from.page, offset));
        if let Err(e) = purge_record(engine, roll, record, what).await {
            let e = permanent(engine, e)?;
            tracing::error!("what a change of {table} left at {roll:?} cannot be purged: {e}");
        }
    }
    Ok(())
}

/// Purges as long as the engine lives.
pub(crate) async fn purge_forever(
    engine: Weak<Engine>,
    registry: Arc<Registry>,
    leftovers: Vec<Leftover>,
) {
    let mut progress = Progress::default();
    let mut pauses = Pauses::default();
    while let Some(engine) = engine.upgrade()
        && let Err(e) = freeing_space(Box::pin(purge_leftovers(
            &engine,
            &mut progress,
            &leftovers,
        )))
        .await
    {
        if engine.sal.check().is_err() {
            return;
        }
        tracing::warn!("what is left from before the start is purged later: {e}");
        drop(engine);
        pauses.pause().await;
    }
    let Some(long) = engine.upgrade().map(|engine| engine.config.long_history) else {
        return;
    };
    let mut warned: Option<Instant> = None;
    loop {
        // The time-out only serves the warning.
        let _ = tokio::time::timeout(LOOK, registry.purge.notified()).await;
        loop {
            let batch = registry.purgeable(BATCH);
            let Some(engine) = engine.upgrade().filter(|_| !batch.is_empty()) else {
                break;
            };
            for history in batch {
                if !purge_in_time(&engine, &mut progress, history).await {
                    return;
                }
            }
        }
        warn_of_long_history(&registry, long, &mut warned);
        if engine.strong_count() == 0 {
            return;
        }
    }
}

fn warn_of_long_history(registry: &Registry, long: usize, warned: &mut Option<Instant>) {
    let (length, Some(owner)) = registry.history() else {
        return;
    };
    if length < long || warned.is_some_and(|at| at.elapsed() < WARN_INTERVAL) {
        return;
    }
    *warned = Some(Instant::now());
    tracing::warn!(
        "undo of {length} transactions is kept for a view that connection {} opened {} s ago",
        owner.connection,
        owner.since.elapsed().as_secs()
    );
}

/// As [`purge`], again and again while storage does not let it be done: nobody else would do it before
/// the next start. False if storage has stopped.
async fn purge_in_time(engine: &Arc<Engine>, progress: &mut Progress, history: History) -> bool {
    let slot = history.slot;
    let mut pauses = Pauses::default();
    while !progress.given_up.contains(&slot) {
        let done = &mut progress.done;
        let outcome = freeing_space(Box::pin(purge(engine, done, history))).await;
        let Err(e) = progress.note(engine, slot, outcome) else {
            break;
        };
        if engine.sal.check().is_err() {
            return false;
        }
        tracing::warn!("undo of slot {slot} is purged later: {e}");
        pauses.pause().await;
    }
    true
}

/// Goes through the undo that a transaction left, and lets its pages be used again.
async fn purge(
    engine: &Arc<Engine>,
    done: &mut HashMap<usize, Position>,
    history: History,
) -> Result<(), EngineError> {
    let History { slot, end, .. } = history;
    let mut at = *done.entry(slot).or_insert_with(|| head(engine, slot));
    while at.page != PageId(0) {
        let frame = engine.pool.fetch(at.page, Access::Point).await?;
        let is_last = at.page == end.page;
        if history.work {
            purge_page(engine, &frame, at, end, What::All).await?;
        }
        if is_last {
            at.offset = at.offset.max(end.offset);
            break;
        }
        at = Position::first(recycle(engine, slot, &frame)?);
        done.insert(slot, at);
    }
    done.insert(slot, at);
    reach(Point::Purged);
    Ok(())
}

/// Removes what the version before a change needed and nobody else does.
async fn purge_record(
    engine: &Arc<Engine>,
    roll: RollPtr,
    record: UndoRecord,
    what: What,
) -> Result<(), EngineError> {
    let needs_purge = matches!(
        record.change,
        UndoChange::ChainLeft(_)
            | UndoChange::Update {
                touches_entries: true,
                ..
            }
    );
    if !needs_purge {
        return Ok(());
    }
    // The table may have been dropped meanwhile.
    let Some(table) = engine.catalog.table_by_id(record.table) else {
        return Ok(());
    };
    let (key, before) = match record.change {
        UndoChange::Update { key, before, .. } => (key, before),
        UndoChange::ChainLeft(chain) if what != What::Entries => {
            return free_chain(engine, chain).await;
        }
        _ => return Ok(()),
    };
    if what != What::Rows {
        for index in &table.indexes[1..] {
            purge_entry(engine, &table, index, (&key, roll), &before).await?;
        }
    }
    if what != What::Entries {
        remove_deleted(engine, &table, &key, roll).await?;
    }
    Ok(())
}

/// Removes the entry of the version before a change, if nobody needs it.
async fn purge_entry(
    engine: &Engine,
    table: &Table,
    index: &Index,
    (key, roll): (&[u8], RollPtr),
    before: &Before,
) -> Result<(), EngineError> {
    let Some(after) = version_made_by(engine, table, key, roll).await? else {
        return Ok(());
    };
    let old = before
        .restore(&after)
        .filter(|old| !RecordFlags(old[0]).is_deleted());
    match old {
        Some(old) => {
            let entry = entry_of(table, index, &old)?;
            collect_entry(engine, (table, index), key, &entry).await
        }
        None => Ok(()),
    }
}

/// Removes a delete-marked entry if no version of its row that anybody may see has it.
pub(super) async fn collect_entry(
    engine: &Engine,
    (table, index): (&Table, &Index),
    key: &[u8],
    entry: &[u8],
) -> Result<(), EngineError> {
    let tree = engine.tree(index);
    loop {
        let Some(seen) = deleted_at(&tree, entry).await? else {
            return Ok(());
        };
        // The row is looked at after the leaf: who makes the entry live again writes the row first
        // and changes the leaf later, which is then another than the one that was seen.
        let row = engine.tree(table.clustered()).get(key).await?;
        if is_needed(engine, (table, index), row, entry).await? {
            return Ok(());
        }
        let mut again = false;
        tree.write(
            tree.spec().shape.key(entry),
            TrxId(0),
            |place| match place.record {
                Some(found) if RecordFlags(found[0]).is_deleted() => {
                    again = place.lsn != seen;
                    if again {
                        RecordChange::Keep
                    } else {
                        RecordChange::Remove
                    }
                }
                _ => RecordChange::Keep,
            },
        )
        .await?;
        if !again {
            return Ok(());
        }
    }
}

/// True if a version of a row, this one or one before it, has an entry and may be seen.
pub(super) async fn is_needed(
    engine: &Engine,
    (table, index): (&Table, &Index),
    version: Option<Vec<u8>>,
    entry: &[u8],
) -> Result<bool, EngineError> {
    let mut next = version;
    while let Some(version) = next {
        let live = !RecordFlags(version[0]).is_deleted();
        if live && entry_of_version(table, index, entry, &version)?.is_some() {
            return Ok(true);
        }
        // Whoever sees this version does not look further, and its undo may have been purged. The
        // view is taken anew, as purge may have gone on.
        let trx = RecordHeader::read(&version).trx;
        if engine.registry.purge_view().sees(trx) {
            return Ok(false);
        }
        next = previous_version(engine, &version).await?;
    }
    Ok(false)
}

/// Removes a delete-marked row, of which `deleted` is the current version, if everybody sees that it
/// is deleted: after a rollback, for purge may have come by while there was another version.
///
/// Purge may not have come by the versions before yet: it follows behind, and at a start it goes through what is
/// left while others roll back. It finds nothing of a row that is gone, so their entries go here, with the row.
pub(super) async fn collect_row(
    engine: &Engine,
    table: &Table,
    key: &[u8],
    deleted: &[u8],
) -> Result<(), EngineError> {
    let header = RecordHeader::read(deleted);
    if !header.flags.is_deleted() || !engine.registry.purge_view().sees(header.trx) {
        return Ok(());
    }
    let mut version = deleted.to_vec();
    loop {
        version = match previous_version(engine, &version).await {
            Ok(Some(before)) => before,
            Ok(None) => break,
            // Purge has been here.
            Err(EngineError::Corrupt(_)) => break,
            Err(e) => return Err(e),
        };
        if RecordFlags(version[0]).is_deleted() {
            continue;
        }
        for (number, entry) in entries_of(table, &version)? {
            collect_entry(engine, (table, &table.indexes[number]), key, &entry).await?;
        }
    }
    remove_deleted(engine, table, key, header.roll).await
}

/// Removes a row whose current version is this delete-marked one.
async fn remove_deleted(
    engine: &Engine,
    table: &Table,
    key: &[u8],
    roll: RollPtr,
) -> Result<(), EngineError> {
    let is_gone = |row: &[u8]| {
        let header = RecordHeader::read(row);
        header.roll == roll && header.flags.is_deleted()
    };
    let clustered = engine.tree(table.clustered());
    clustered
        .write(key, TrxId(0), |place| match place.record {
            Some(row) if is_gone(row) => RecordChange::Remove,
            _ => RecordChange::Keep,
        })
        .await
        .map(drop)
}

/// LSN of the leaf with an entry if the entry is delete-marked.
async fn deleted_at(tree: &Tree, entry: &[u8]) -> Result<Option<Lsn>, EngineError> {
    let mut seen = None;
    tree.write(tree.spec().shape.key(entry), TrxId(0), |place| {
        let deleted = |record: &[u8]| RecordFlags(record[0]).is_deleted();
        seen = place.record.is_some_and(deleted).then_some(place.lsn);
        RecordChange::Keep
    })
    .await?;
    Ok(seen)
}

/// The version of a row that a change made, if it is still among its versions: it may have been
/// rolled back, or purged before a restart.
async fn version_made_by(
    engine: &Engine,
    table: &Table,
    key: &[u8],
    roll: RollPtr,
) -> Result<Option<Vec<u8>>, EngineError> {
    let mut next = engine.tree(table.clustered()).get(key).await?;
    while let Some(version) = next {
        if RecordHeader::read(&version).roll == roll {
            return Ok(Some(version));
        }
        next = match previous_version(engine, &version).await {
            Ok(before) => before,
            // What is purged leads nowhere.
            Err(EngineError::Corrupt(_)) => None,
            Err(e) => return Err(e),
        };
    }
    Ok(None)
}
