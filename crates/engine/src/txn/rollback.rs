//! Undoing changes, back to front.
//!
//! A change is undone if the row still is the version that it made; so undoing may stop anywhere and
//! be repeated. The entries of secondary indexes go first: as long as the row is there, a repeated
//! rollback finds them.

use std::sync::{Arc, Weak};

use perigee_crash::{Point, reach};
use perigee_page::{RecordFlags, RecordHeader};
use perigee_types::{PageId, RollPtr, TrxId};

use super::ending::Pauses;
use super::entries::{entries_of, entry_of, is_same_entry};
use super::long::keep_chain;
use super::purge::{collect_entry, collect_row, is_needed};
use super::segment::{Position, find_tail, free_slot, pages_from};
use super::system::Slot;
use super::undo::{Before, UndoChange, UndoPage, UndoRecord};
use super::write::{add_entry, mark_entry};
use crate::EngineError;
use crate::btree::{RecordChange, Tree};
use crate::buffer::Access;
use crate::catalog::Table;
use crate::engine::Engine;
use crate::errand::undoing;
use crate::overflow::free_chain;

/// As [`roll_back_unfinished`], until all is rolled back or storage has stopped. One transaction
/// that storage does not let be rolled back now does not keep the others.
pub(crate) async fn roll_back_in_time(engine: Weak<Engine>, mut unfinished: Vec<(usize, Slot)>) {
    let mut pauses = Pauses::default();
    while !unfinished.is_empty() {
        for slot in std::mem::take(&mut unfinished) {
            let Err(e) = undoing(Box::pin(roll_back_unfinished(&engine, &[slot]))).await else {
                continue;
            };
            if engine
                .upgrade()
                .is_none_or(|engine| engine.sal.check().is_err())
            {
                return;
            }
            tracing::warn!("a rollback fails and is tried again: {e}");
            unfinished.push(slot);
        }
        if !unfinished.is_empty() {
            pauses.pause().await;
        }
    }
}

/// Rolls back what a crash left; `unfinished` are the slots in use. Others work meanwhile: what is
/// not rolled back yet is locked.
pub(crate) async fn roll_back_unfinished(
    engine: &Weak<Engine>,
    unfinished: &[(usize, Slot)],
) -> Result<(), EngineError> {
    for &(number, slot) in unfinished {
        let Some(engine) = &engine.upgrade() else {
            return Ok(());
        };
        tracing::info!("{} was unfinished and is rolled back", slot.trx);
        roll_back_from(engine, slot.trx, slot.start).await?;
        let tail = find_tail(engine, number, slot).await?;
        let tail = tail.expect("a transaction's undo has pages");
        let end = Position::end_of(&tail)?;
        let _ = free_slot(engine, number, end);
        reach(Point::Undone);
        engine
            .registry
            .end_with(slot.trx, Some((number, end, false)));
        engine.segments.give_back(number);
    }
    Ok(())
}

/// Separates unfinished loads into empty tables from other unfinished transactions.
pub(crate) async fn separate_loads(
    engine: &Engine,
    unfinished: Vec<(usize, Slot)>,
) -> Result<(Vec<(usize, Slot)>, Vec<(usize, Slot)>), EngineError> {
    let (mut loads, mut others) = (Vec::new(), Vec::new());
    for (number, slot) in unfinished {
        let is_load = is_load(engine, slot.start).await?;
        if is_load { &mut loads } else { &mut others }.push((number, slot));
    }
    Ok((loads, others))
}

/// True if the undo from a place on says that an empty table was loaded.
async fn is_load(engine: &Engine, start: Position) -> Result<bool, EngineError> {
    for page in pages_from(engine, start.page).await? {
        if let Some((_, record)) = records_from(engine, page, start).await?.first() {
            return Ok(record.change == UndoChange::Load);
        }
    }
    Ok(false)
}

/// The records of an undo page, of the first one from a place on.
async fn records_from(
    engine: &Engine,
    page: PageId,
    start: Position,
) -> Result<Vec<(u16, UndoRecord)>, EngineError> {
    let first = if page == start.page {
        start
    } else {
        Position::first(page)
    };
    let frame = engine.pool.fetch(page, Access::Point).await?;
    frame.read(|page| UndoPage::new(page)?.records(first.offset))
}

/// Undoes what a transaction did from a place in its undo on.
pub(super) async fn roll_back_from(
    engine: &Arc<Engine>,
    trx: TrxId,
    from: Position,
) -> Result<(), EngineError> {
    let mut pages = pages_from(engine, from.page).await?;
    while let Some(page) = pages.pop() {
        for (offset, record) in records_from(engine, page, from).await?.into_iter().rev() {
            if record.trx != trx {
                let text = format!(
                    "undo {page}: a record of {} among those of {trx}",
                    record.trx
                );
                return Err(EngineError::Corrupt(text));
            }
            undo(engine, RollPtr::new(page, offset), record).await?;
            reach(Point::PartUndone);
        }
    }
    Ok(())
}

async fn undo(engine: &Arc<Engine>, roll: RollPtr, record: UndoRecord) -> Result<(), EngineError> {
    // The table may have been dropped meanwhile.
    let Some(table) = engine.catalog.table_by_id(record.table) else {
        return Ok(());
    };
    match record.change {
        UndoChange::Insert { key } => undo_insert(engine, &table, roll, &key).await,
        UndoChange::Update { key, before, .. } => {
            undo_update(engine, &table, roll, &key, &before).await
        }
        UndoChange::ChainMade(chain) => free_chain(engine, chain).await,
        UndoChange::ChainLeft(_) => keep_chain(engine, roll).await,
        UndoChange::Void => Ok(()),
        UndoChange::Load => {
            for index in &table.indexes {
                engine.tree(index).clear().await?;
            }
            Ok(())
        }
    }
}

/// The row with a key if it is the version that this undo leads back from.
async fn version_of(
    tree: &Tree,
    key: &[u8],
    roll: RollPtr,
) -> Result<Option<Vec<u8>>, EngineError> {
    let row = tree.get(key).await?;
    Ok(row.filter(|row| RecordHeader::read(row).roll == roll))
}

async fn undo_insert(
    engine: &Engine,
    table: &Table,
    roll: RollPtr,
    key: &[u8],
) -> Result<(), EngineError> {
    let clustered = engine.tree(table.clustered());
    let Some(row) = version_of(&clustered, key, roll).await? else {
        return Ok(());
    };
    let trx = RecordHeader::read(&row).trx;
    for (index, entry) in entries_of(table, &row)? {
        remove_entry(&engine.tree(&table.indexes[index]), &entry, trx).await?;
    }
    change_version(&clustered, key, roll, RecordChange::Remove).await
}

async fn undo_update(
    engine: &Engine,
    table: &Table,
    roll: RollPtr,
    key: &[u8],
    before: &Before,
) -> Result<(), EngineError> {
    let clustered = engine.tree(table.clustered());
    let Some(row) = version_of(&clustered, key, roll).await? else {
        return Ok(());
    };
    let trx = RecordHeader::read(&row).trx;
    let old = before.restore(&row).ok_or_else(|| {
        EngineError::Corrupt(format!("undo {roll} does not fit the version it is of"))
    })?;
    let is_live = |row: &[u8]| !RecordFlags(row[0]).is_deleted();
    let mut marked = Vec::new();
    for index in &table.indexes[1..] {
        let (old_entry, new_entry) = (entry_of(table, index, &old)?, entry_of(table, index, &row)?);
        let tree = engine.tree(index);
        let stays = is_live(&old) && is_same_entry(index, &old_entry, &new_entry);
        if is_live(&row) && !stays {
            // Versions before may have had this entry, too: then it goes with the last of them.
            let older = Some(old.clone());
            if is_needed(engine, (table, index), older, &new_entry).await? {
                mark_entry(&tree, &new_entry, trx).await?;
                marked.push((index, new_entry));
            } else {
                remove_entry(&tree, &new_entry, trx).await?;
            }
        }
        if is_live(&old) {
            add_entry(&tree, &old_entry, trx).await?;
        }
    }
    let restored = RecordChange::Replace(old.clone());
    change_version(&clustered, key, roll, restored).await?;
    for (index, entry) in marked {
        // Purge may have come by while the row still had the entry.
        collect_entry(engine, (table, index), key, &entry).await?;
    }
    collect_row(engine, table, key, &old).await
}

async fn remove_entry(tree: &Tree, entry: &[u8], trx: TrxId) -> Result<(), EngineError> {
    let key = tree.spec().shape.key(entry);
    tree.write(key, trx, |place| match place.record {
        Some(_) => RecordChange::Remove,
        None => RecordChange::Keep,
    })
    .await
    .map(drop)
}

/// Changes the row with a key if it is this version.
async fn change_version(
    tree: &Tree,
    key: &[u8],
    roll: RollPtr,
    change: RecordChange,
) -> Result<(), EngineError> {
    let is_version = |row: &[u8]| RecordHeader::read(row).roll == roll;
    tree.write(key, TrxId(0), |place| match place.record {
        Some(row) if is_version(row) => change.clone(),
        _ => RecordChange::Keep,
    })
    .await
    .map(drop)
}
