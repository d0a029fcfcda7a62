//! [`Transaction`]: writing rows, all or none.
//!
//! For each row the undo record is logged first, then the row, then its entries in the secondary
//! indexes; each step is a log group of its own. Freeing the transaction's slot in the system page
//! is the commit. A rollback, at once or after a crash, goes through the undo log back to front and
//! removes what it finds; it can be interrupted and repeated at any point (invariant A2).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use perigee_page::{CLUSTERED_HEADER_LEN, RecordFlags, RecordHeader};
use perigee_types::{Lsn, RollPtr, TableId, TrxId};
use perigee_value::{Datum, RecordView, RowError, encode_with, format_value, key};
use tokio::sync::OwnedMutexGuard;

use super::log::{UndoLog, pages_of};
use super::system::{self, Counter, Slot};
use super::undo::{UndoPage, UndoRecord};
use crate::EngineError;
use crate::btree::{Inserted, KeySpan, RecordChange};
use crate::catalog::{HIDDEN_ROW_ID, Index, Table};
use crate::engine::Engine;
use crate::load::Encoder;
use crate::mtr::Mtr;

/// Transaction and row ids that are reserved at once in the system page.
const ID_STEP: u64 = 1 << 16;

/// Rows whose undo records are written together.
const ROWS_PER_GROUP: usize = 64;

/// A transaction that may write. Dropping it unfinished rolls it back in the background.
pub struct Transaction {
    engine: Arc<Engine>,
    /// What it has once it writes.
    writing: Option<Writing>,
}

struct Writing {
    trx: TrxId,
    undo: UndoLog,
    /// Tables written to; nobody else writes to them meanwhile.
    tables: HashMap<TableId, WrittenTable>,
}

struct WrittenTable {
    table: Arc<Table>,
    rows: u64,
    _writer: OwnedMutexGuard<()>,
}

impl Engine {
    /// A transaction that has done nothing yet.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> Transaction {
        Transaction {
            engine: self.clone(),
            writing: None,
        }
    }

    /// Makes sure that ids up to `id` are reserved in the system page.
    pub(crate) fn reserve(&self, counter: Counter, id: u64) {
        if self.system.read(|page| system::counter(page, counter)) > id {
            return;
        }
        let mut mtr = Mtr::new(&self.pool);
        let page = mtr.latch(&self.system);
        let limit = system::counter(mtr.page(page), counter);
        if limit > id {
            return;
        }
        mtr.apply(page, system::set_counter(counter, id + ID_STEP));
        let _ = mtr.commit();
    }
}

impl Transaction {
    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Its id, if it has written.
    #[must_use]
    pub fn id(&self) -> Option<TrxId> {
        self.writing.as_ref().map(|writing| writing.trx)
    }

    /// Inserts rows given as values of the table's columns. On error some of them may be inserted:
    /// the caller rolls back.
    ///
    /// # Errors
    /// [`EngineError::DuplicateKey`], [`EngineError::Row`] with the row's number, or what storage
    /// says.
    pub async fn insert(
        &mut self,
        table: &Arc<Table>,
        rows: &[Vec<Datum>],
    ) -> Result<u64, EngineError> {
        let trx = self.write_to(table).await?;
        let encoder = Encoder::new(table.clone(), trx);
        for (group, rows) in rows.chunks(ROWS_PER_GROUP).enumerate() {
            let first = self.engine.row_ids(table, rows.len() as u64);
            let mut records = Vec::with_capacity(rows.len());
            for (i, row) in rows.iter().enumerate() {
                let number = (group * ROWS_PER_GROUP + i) as u64;
                let record = encoder.clustered(row, first + i as u64);
                records.push(record.map_err(|error| EngineError::Row { number, error })?);
            }
            self.insert_records(table, records).await?;
        }
        Ok(rows.len() as u64)
    }

    /// Inserts clustered records that carry this transaction's id.
    pub(crate) async fn insert_records(
        &mut self,
        table: &Arc<Table>,
        mut records: Vec<Vec<u8>>,
    ) -> Result<(), EngineError> {
        let count = records.len() as u64;
        let shape = table.clustered().layout.shape;
        let undo: Vec<_> = records
            .iter()
            .map(|record| UndoRecord::Insert {
                table: table.id,
                key: shape.key(record).to_vec(),
            })
            .collect();
        let writing = self.writing.as_mut().expect("write_to came first");
        let pointers = writing.undo.append(&self.engine.pool, &undo).await?;
        for (record, roll) in records.iter_mut().zip(pointers) {
            insert_row(&self.engine, table, writing.trx, roll, record).await?;
        }
        writing
            .tables
            .get_mut(&table.id)
            .expect("write_to came first")
            .rows += count;
        Ok(())
    }

    /// Notes that a load into an empty table begins: undoing it empties the table's trees.
    pub(crate) async fn log_load(&mut self, table: &Table) -> Result<(), EngineError> {
        let writing = self.writing.as_mut().expect("write_to came first");
        let undo = UndoRecord::Load { table: table.id };
        writing
            .undo
            .append(&self.engine.pool, &[undo])
            .await
            .map(drop)
    }

    /// Makes this the only writer of a table, and a transaction with an id and an undo log.
    pub(crate) async fn write_to(&mut self, table: &Arc<Table>) -> Result<TrxId, EngineError> {
        if self.writing.is_none() {
            self.writing = Some(start_writing(&self.engine).await?);
        }
        let writing = self.writing.as_mut().expect("just set");
        if let Entry::Vacant(entry) = writing.tables.entry(table.id) {
            let writer = table.writer.clone().lock_owned().await;
            let written = WrittenTable {
                table: table.clone(),
                rows: 0,
                _writer: writer,
            };
            entry.insert(written);
        }
        Ok(writing.trx)
    }

    /// Commits; when this returns, the changes survive any crash.
    ///
    /// # Errors
    /// If storage fails; then only the next start knows whether the commit took place.
    pub async fn commit(mut self) -> Result<(), EngineError> {
        let Some(writing) = self.writing.take() else {
            return Ok(());
        };
        let engine = &self.engine;
        let lsn = free_slot(engine, writing.undo.slot());
        engine.sal.wait_durable(lsn).await?;
        engine.registry.end(writing.trx);
        engine.slots.give_back(writing.undo.slot());
        for written in writing.tables.values() {
            written.table.add_rows(written.rows);
        }
        Ok(())
    }

    /// Undoes all changes.
    ///
    /// # Errors
    /// If storage fails; then the next start undoes them.
    pub async fn rollback(mut self) -> Result<(), EngineError> {
        match self.writing.take() {
            Some(writing) => roll_back(&self.engine, writing).await,
            None => Ok(()),
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let Some(writing) = self.writing.take() else {
            return;
        };
        let engine = self.engine.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(e) = roll_back(&engine, writing).await {
                    tracing::error!("a rollback fails, the next start repeats it: {e}");
                }
            });
        }
    }
}

async fn start_writing(engine: &Arc<Engine>) -> Result<Writing, EngineError> {
    let slot = engine.slots.take()?;
    let trx = engine.registry.begin();
    engine.reserve(Counter::Trx, trx.0);
    match UndoLog::begin(engine, slot, trx).await {
        Ok(undo) => Ok(Writing {
            trx,
            undo,
            tables: HashMap::new(),
        }),
        Err(e) => {
            engine.registry.end(trx);
            engine.slots.give_back(slot);
            Err(e)
        }
    }
}

/// Frees a slot, keeping its undo pages for the next transaction.
fn free_slot(engine: &Engine, slot: usize) -> Lsn {
    let mut mtr = Mtr::new(&engine.pool);
    let page = mtr.latch(&engine.system);
    let undo = system::slot(mtr.page(page), slot).undo;
    mtr.apply(
        page,
        system::set_slot(
            slot,
            Slot {
                trx: TrxId(0),
                undo,
            },
        ),
    );
    mtr.commit()
}

/// Inserts one row whose undo record is written: the clustered record, then the entries.
async fn insert_row(
    engine: &Engine,
    table: &Table,
    trx: TrxId,
    roll: RollPtr,
    record: &mut [u8],
) -> Result<(), EngineError> {
    let header = RecordHeader {
        flags: RecordFlags::default(),
        trx,
        roll,
    };
    record[..CLUSTERED_HEADER_LEN].copy_from_slice(&header.to_bytes());
    let clustered = table.clustered();
    if let Inserted::Duplicate(_) = engine.tree(clustered).insert(record, trx).await? {
        return Err(duplicate(table, clustered, record));
    }
    for index in &table.indexes[1..] {
        let entry = entry_of(table, index, record)?;
        let tree = engine.tree(index);
        if index.unique
            && let Some(prefix) = unique_prefix(table, index, record)?
            && tree.first_in(KeySpan::prefix(&prefix)).await?.is_some()
        {
            return Err(duplicate(table, index, record));
        }
        tree.insert(&entry, trx).await?;
    }
    Ok(())
}

/// The entry of a secondary index for a clustered record.
pub(crate) fn entry_of(
    table: &Table,
    index: &Index,
    record: &[u8],
) -> Result<Vec<u8>, EngineError> {
    let row = RecordView::new(&table.clustered().layout, record);
    let mut entry = Vec::new();
    encode_with(
        &index.layout,
        RecordHeader::default(),
        &mut entry,
        |column| Ok(row.value(row_column(table, index.columns[column]))),
    )
    .map_err(|e| row_error(&e))?;
    Ok(entry)
}

/// Position in a clustered record of a table column or the hidden row id.
fn row_column(table: &Table, column: u16) -> usize {
    if column == HIDDEN_ROW_ID {
        table.def.columns.len()
    } else {
        usize::from(column)
    }
}

fn row_error(error: &RowError) -> EngineError {
    match error {
        RowError::RowTooLong(bytes) => EngineError::RowTooLong {
            bytes: *bytes,
            limit: crate::btree::MAX_RECORD_LEN,
        },
        RowError::KeyTooLong(bytes) => EngineError::KeyTooLong {
            bytes: *bytes,
            limit: crate::btree::MAX_KEY_LEN,
        },
        other => EngineError::Corrupt(other.to_string()),
    }
}

/// What no second entry of a unique index may begin with; `None` if a key column is NULL.
fn unique_prefix(
    table: &Table,
    index: &Index,
    record: &[u8],
) -> Result<Option<Vec<u8>>, EngineError> {
    let row = RecordView::new(&table.clustered().layout, record);
    let mut values = Vec::new();
    for column in &index.columns[..index.key_columns] {
        match row.value(row_column(table, *column)).to_datum() {
            Datum::Null => return Ok(None),
            value => values.push(value),
        }
    }
    let mut prefix = Vec::new();
    key::encode_key(&index.layout, &values, &mut prefix).map_err(|e| row_error(&e))?;
    Ok(Some(prefix))
}

fn duplicate(table: &Table, index: &Index, record: &[u8]) -> EngineError {
    let row = RecordView::new(&table.clustered().layout, record);
    let layout = &table.clustered().layout;
    let columns: Vec<u16> = if index.id == table.clustered().id {
        layout.key.clone()
    } else {
        index.columns[..index.key_columns].to_vec()
    };
    let texts: Vec<_> = columns
        .iter()
        .map(|column| {
            let mut text = String::new();
            let column = row_column(table, *column);
            format_value(layout.columns[column].ty, row.value(column), &mut text);
            text
        })
        .collect();
    EngineError::DuplicateKey {
        index: index.name.clone(),
        value: texts.join("-"),
    }
}

async fn roll_back(engine: &Arc<Engine>, writing: Writing) -> Result<(), EngineError> {
    let slot = engine
        .system
        .read(|page| system::slot(page, writing.undo.slot()));
    assert_eq!(
        slot.trx, writing.trx,
        "A2: the slot is still the transaction's"
    );
    undo_all(engine, slot).await?;
    let _ = free_slot(engine, writing.undo.slot());
    engine.registry.end(writing.trx);
    engine.slots.give_back(writing.undo.slot());
    Ok(())
}

/// Rolls back what a crash left; `unfinished` are the slots in use.
pub(crate) async fn roll_back_unfinished(
    engine: &Arc<Engine>,
    unfinished: Vec<(usize, Slot)>,
) -> Result<(), EngineError> {
    for (number, slot) in unfinished {
        tracing::info!("{} was unfinished and is rolled back", slot.trx);
        undo_all(engine, slot).await?;
        let _ = free_slot(engine, number);
        engine.registry.end(slot.trx);
        engine.slots.give_back(number);
    }
    Ok(())
}

async fn undo_all(engine: &Arc<Engine>, slot: Slot) -> Result<(), EngineError> {
    for page in pages_of(&engine.pool, slot).await?.into_iter().rev() {
        let records = page.read(|page| UndoPage::new(page)?.records())?;
        for record in records.into_iter().rev() {
            undo_one(engine, slot.trx, record).await?;
        }
    }
    Ok(())
}

async fn undo_one(engine: &Arc<Engine>, trx: TrxId, record: UndoRecord) -> Result<(), EngineError> {
    let (UndoRecord::Insert { table, .. } | UndoRecord::Load { table }) = record;
    // The table may have been dropped meanwhile.
    let Some(table) = engine.catalog.table_by_id(table) else {
        return Ok(());
    };
    match record {
        UndoRecord::Insert { key, .. } => undo_insert(engine, &table, trx, &key).await,
        UndoRecord::Load { .. } => {
            for index in &table.indexes {
                engine.tree(index).clear().await?;
            }
            Ok(())
        }
    }
}

/// Removes the row with a key if the transaction inserted it, entries first: as long as the row is
/// there, a repeated rollback finds the entries.
async fn undo_insert(
    engine: &Engine,
    table: &Table,
    trx: TrxId,
    key: &[u8],
) -> Result<(), EngineError> {
    let clustered = engine.tree(table.clustered());
    let Some(row) = clustered.get(key).await? else {
        return Ok(());
    };
    if RecordHeader::read(&row).trx != trx {
        return Ok(());
    }
    for index in &table.indexes[1..] {
        let entry = entry_of(table, index, &row)?;
        let key = index.layout.shape.key(&entry);
        engine
            .tree(index)
            .update(key, trx, |_| RecordChange::Remove)
            .await?;
    }
    clustered.update(key, trx, |_| RecordChange::Remove).await?;
    Ok(())
}
