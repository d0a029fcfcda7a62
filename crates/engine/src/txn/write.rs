//! Writing rows: a new version in the place of the old one, whose undo comes first, then the entries
//! of secondary indexes: those of the old version are delete-marked, those of the new one inserted.
//!
//! Each step is a log group of its own. Whoever reads in between finds the row under the running
//! transaction and goes by the version that it sees.

use std::sync::Arc;

use perigee_page::{CLUSTERED_HEADER_LEN, RecordFlags, RecordHeader};
use perigee_types::{RollPtr, TrxId};
use perigee_value::{Datum, RecordView, ValueRef};
use tokio::sync::OwnedRwLockReadGuard;

use super::current::{Current, current_version, other_writer};
use super::entries::{
    entries_of, entry_of, entry_of_version, has_same_columns, is_same_entry, key_text,
    unique_prefix,
};
use super::locks::{LockMode, LockWait, RowLock};
use super::undo::{Before, UndoChange};
use super::{Transaction, clustered_key};
use crate::EngineError;
use crate::btree::{KeySpan, RecordChange, Tree};
use crate::buffer::Access;
use crate::catalog::{Index, Table};
use crate::load::Encoder;

/// Rows whose undo records are written together.
const ROWS_PER_GROUP: usize = 64;

/// What became of the writing of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is done.
    Done,
    /// The row has these values already.
    Unchanged,
    /// There is no such row.
    Missing,
    /// Another row has the same key; nothing was changed.
    Duplicate(DuplicateRow),
}

/// A row that stands in the way of another with the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateRow {
    /// The index whose keys are equal, its number in [`Table::indexes`].
    pub index: usize,
    /// Clustered key of the row that is there.
    pub key: Vec<u8>,
    /// The key's columns as text, joined by `-`.
    pub value: String,
}

/// The entries of a row, with the numbers of their indexes.
type Entries = Vec<(usize, Vec<u8>)>;

/// A version of a row that is to be written over.
struct Old<'r> {
    key: &'r [u8],
    record: &'r [u8],
}

/// What became of an attempt to write a version.
enum Attempt {
    /// It is written; entries may follow as long as this is held.
    Done(Option<OwnedRwLockReadGuard<()>>),
    /// A transaction that has to end first.
    Blocked(TrxId),
    /// The row is not what it was; what is there now.
    Found(Vec<u8>),
    /// The row has gone.
    Gone,
}

impl Transaction {
    /// Inserts rows given as values of the table's columns. On error some of them may be inserted:
    /// the caller rolls back to a savepoint.
    ///
    /// # Errors
    /// [`EngineError::DuplicateKey`], [`EngineError::Row`] with the row's number, or as
    /// [`Transaction::lock_row`].
    pub async fn insert(
        &mut self,
        table: &Arc<Table>,
        rows: &[Vec<Datum>],
    ) -> Result<u64, EngineError> {
        for (group, rows) in rows.chunks(ROWS_PER_GROUP).enumerate() {
            let first = self.engine.row_ids(table, rows.len() as u64);
            let mut records = Vec::with_capacity(rows.len());
            for (i, row) in rows.iter().enumerate() {
                let number = (group * ROWS_PER_GROUP + i) as u64;
                let row_id = first + i as u64;
                records.push(if table.has_long() {
                    let record = self.encode_long(table, row, (row_id, number), None);
                    // Boxed, so that those who write other rows need not carry it along.
                    Box::pin(record).await?.0
                } else {
                    encode(table, row, row_id, number)?
                });
            }
            self.insert_records(table, records).await?;
        }
        Ok(rows.len() as u64)
    }

    /// Inserts a row given as values of the table's columns, whatever foreign keys say.
    pub(super) async fn put_row(
        &mut self,
        table: &Arc<Table>,
        row: &[Datum],
    ) -> Result<Written, EngineError> {
        self.write_to(table).await?;
        let row_id = self.engine.row_ids(table, 1);
        if table.has_long() {
            return Box::pin(self.insert_long(table, row, row_id)).await;
        }
        let record = encode(table, row, row_id, 0)?;
        self.insert_record(table, record, None).await
    }

    /// Inserts clustered records.
    pub(crate) async fn insert_records(
        &mut self,
        table: &Arc<Table>,
        records: Vec<Vec<u8>>,
    ) -> Result<(), EngineError> {
        self.write_to(table).await?;
        let shape = table.clustered().layout.shape;
        let undo = records.iter().map(|record| UndoChange::Insert {
            key: shape.key(record).to_vec(),
        });
        let pointers = self.append_undo(table, undo).await?;
        for (record, roll) in records.into_iter().zip(pointers) {
            let missing = self.check_record(table, &record).await?;
            if let Written::Duplicate(row) = self.insert_record(table, record, Some(roll)).await? {
                return Err(EngineError::DuplicateKey {
                    index: table.indexes[row.index].name.clone(),
                    value: row.value,
                });
            }
            if let Some(error) = missing {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Changes the row with this clustered key to these values of the table's columns.
    ///
    /// # Errors
    /// As [`Transaction::lock_row`], or [`EngineError::Row`].
    pub async fn update_row(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
        row: &[Datum],
    ) -> Result<Written, EngineError> {
        let written = self.change_row(table, key, |_| Some(row.to_vec())).await?;
        Ok(written.expect("there is always a row to write"))
    }

    /// Changes a row as [`Transaction::change_row`] does, whatever foreign keys say.
    pub(super) async fn alter_row(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
        mut change: impl FnMut(&[u8]) -> Option<Vec<Datum>> + Send,
    ) -> Result<Option<Written>, EngineError> {
        self.write_to(table).await?;
        if table.has_long() {
            return Box::pin(self.change_long(table, key, change)).await;
        }
        loop {
            let Some(old) = self.current(table, key).await? else {
                return Ok(Some(Written::Missing));
            };
            let Some(row) = change(&old) else {
                return Ok(None);
            };
            table.note_number(&row);
            self.engine.reserve_numbers(table).await?;
            if let Some(written) = self.write_over(table, key, &old, &row).await? {
                return Ok(Some(written));
            }
        }
    }

    /// Changes a row whose current version is `old`; `None` if it turns out to be another.
    async fn write_over(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
        old: &[u8],
        row: &[Datum],
    ) -> Result<Option<Written>, EngineError> {
        let mut new = encode(table, row, hidden_row_id(table, old), 0)?;
        self.write_version(table, key, old, (row, &mut new)).await
    }

    /// As [`Transaction::write_over`], with the record of the row.
    pub(super) async fn write_version(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
        old: &[u8],
        (row, new): (&[Datum], &mut [u8]),
    ) -> Result<Option<Written>, EngineError> {
        let same = new[CLUSTERED_HEADER_LEN..] == old[CLUSTERED_HEADER_LEN..];
        let moves = table.clustered().layout.shape.key(new) != key;
        if (same || moves) && !self.lock_version(table, key, old).await? {
            return Ok(None);
        }
        if same {
            // As good as written: nobody else may write it now.
            return Ok(Some(Written::Unchanged));
        }
        if moves {
            return self.move_row(table, key, row).await.map(Some);
        }
        let (gone, come) = changed_entries(table, old, new)?;
        if let Some(row) = self.claim_unique(table, Some(old), new).await? {
            return Ok(Some(Written::Duplicate(row)));
        }
        let touches = !come.is_empty();
        let of = Old { key, record: old };
        match self.replace(table, of, new, touches).await? {
            Attempt::Done(_gate) => {
                self.write_entries(table, &gone, &come).await?;
                self.count_row(table, 0);
                return Ok(Some(Written::Done));
            }
            Attempt::Blocked(holder) => self.wait_for(holder).await?,
            Attempt::Found(_) | Attempt::Gone => {}
        }
        Ok(None)
    }

    /// Locks a row. False if this is not its current version any more.
    async fn lock_version(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
        version: &[u8],
    ) -> Result<bool, EngineError> {
        let locked = self.lock_row(table, key, LockMode::Exclusive, LockWait::Wait);
        Ok(matches!(locked.await?, RowLock::Locked(Some(row)) if row == version))
    }

    /// Deletes the row with this clustered key, whatever foreign keys say.
    pub(super) async fn erase_row(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
    ) -> Result<Written, EngineError> {
        self.write_to(table).await?;
        loop {
            let Some(old) = self.current(table, key).await? else {
                return Ok(Written::Missing);
            };
            let mut new = old.clone();
            new[0] |= RecordFlags::DELETED;
            let of = Old { key, record: &old };
            match self.replace(table, of, &mut new, true).await? {
                Attempt::Done(_gate) => {
                    let gone = entries_of(table, &old)?;
                    self.write_entries(table, &gone, &[]).await?;
                    if table.has_long() {
                        Box::pin(self.leave_chains(table, &old, None)).await?;
                    }
                    self.count_row(table, -1);
                    return Ok(Written::Done);
                }
                Attempt::Blocked(holder) => self.wait_for(holder).await?,
                Attempt::Found(_) | Attempt::Gone => {}
            }
        }
    }

    /// The row gets another clustered key: it is deleted and inserted.
    pub(super) async fn move_row(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
        row: &[Datum],
    ) -> Result<Written, EngineError> {
        let before = self.savepoint();
        // Recursion ends there: a delete does not move rows.
        if Box::pin(self.erase_row(table, key)).await? == Written::Missing {
            return Ok(Written::Missing);
        }
        let written = self.put_row(table, row).await?;
        if let Written::Duplicate(_) = written {
            self.rollback_to(&before).await?;
        }
        Ok(written)
    }

    /// The current version of a row that nobody else is writing; `None` if there is none.
    pub(super) async fn current(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, EngineError> {
        let Some(row) = self.settled(table, key).await? else {
            return Ok(None);
        };
        let header = RecordHeader::read(&row);
        self.check_snapshot(table, header.trx)?;
        Ok((!header.flags.is_deleted()).then_some(row))
    }

    /// The version of a row, which may be delete-marked, once nobody else is writing it.
    pub(super) async fn settled(
        &mut self,
        table: &Table,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, EngineError> {
        loop {
            match current_version(&self.engine, table, key, self.id()).await? {
                Current::Settled(row) => return Ok(row),
                Current::Written(writer) => self.wait_for(writer).await?,
            }
        }
    }

    async fn wait_for(&mut self, holder: TrxId) -> Result<(), EngineError> {
        let cancel = self.cancel.clone();
        self.running().owner.wait_for(holder, &cancel).await
    }

    /// Inserts a clustered record whose undo, if `roll` is given, is written.
    pub(super) async fn insert_record(
        &mut self,
        table: &Arc<Table>,
        mut record: Vec<u8>,
        mut roll: Option<RollPtr>,
    ) -> Result<Written, EngineError> {
        let key = table.clustered().layout.shape.key(&record).to_vec();
        let entries = entries_of(table, &record)?;
        loop {
            if let Some(other) = self.claim_unique(table, None, &record).await? {
                // The row with the primary key is in the way before those with other unique keys.
                let same_key = self.settled(table, &key).await?;
                let same_key = same_key.filter(|row| !RecordFlags(row[0]).is_deleted());
                return Ok(Written::Duplicate(match same_key {
                    Some(row) => DuplicateRow {
                        index: 0,
                        value: key_text(table, table.clustered(), &row),
                        key,
                    },
                    None => other,
                }));
            }
            let undo = match roll {
                Some(undo) => undo,
                None => {
                    let key = key.clone();
                    self.append_undo(table, [UndoChange::Insert { key }])
                        .await?[0]
                }
            };
            roll = Some(undo);
            let placed = match self.place(table, &key, &mut record, undo, &entries).await? {
                Attempt::Found(old) => {
                    let header = RecordHeader::read(&old);
                    if !header.flags.is_deleted() {
                        let value = key_text(table, table.clustered(), &old);
                        let index = 0;
                        return Ok(Written::Duplicate(DuplicateRow { index, key, value }));
                    } else {
                        self.check_snapshot(table, header.trx)?;
                        let (key, record_before) = (&key, &old);
                        let of = Old {
                            key,
                            record: record_before,
                        };
                        self.replace(table, of, &mut record, true).await?
                    }
                }
                other => other,
            };
            match placed {
                Attempt::Done(_gate) => {
                    self.write_entries(table, &[], &entries).await?;
                    self.count_row(table, 1);
                    return Ok(Written::Done);
                }
                Attempt::Blocked(holder) => self.wait_for(holder).await?,
                Attempt::Found(_) | Attempt::Gone => {}
            }
        }
    }

    /// Puts a record where there is none.
    async fn place(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
        record: &mut [u8],
        roll: RollPtr,
        entries: &Entries,
    ) -> Result<Attempt, EngineError> {
        let trx = self.id().expect("write_to came first");
        set_header(record, trx, roll, RecordFlags::default());
        let gate = gate(table).await;
        let mut attempt = Attempt::Gone;
        let (registry, tree) = (&self.engine.registry, self.engine.tree(table.clustered()));
        tree.write(key, trx, |place| match place.record {
            Some(found) => {
                attempt = match other_writer(registry, found, Some(trx)) {
                    Some(writer) => Attempt::Blocked(writer),
                    None => Attempt::Found(found.to_vec()),
                };
                RecordChange::Keep
            }
            None => match blocker(table, trx, key, entries) {
                Some(holder) => {
                    attempt = Attempt::Blocked(holder);
                    RecordChange::Keep
                }
                None => {
                    attempt = Attempt::Done(None);
                    RecordChange::Insert(record.to_vec())
                }
            },
        })
        .await?;
        Ok(match attempt {
            Attempt::Done(_) => Attempt::Done(gate),
            other => other,
        })
    }

    /// Puts a version in the place of the one that is `old`, after its undo.
    async fn replace(
        &mut self,
        table: &Arc<Table>,
        old: Old<'_>,
        new: &mut [u8],
        touches_entries: bool,
    ) -> Result<Attempt, EngineError> {
        let trx = self.id().expect("write_to came first");
        let change = UndoChange::Update {
            key: old.key.to_vec(),
            touches_entries,
            before: Before::new(old.record, new),
        };
        let roll = self.append_undo(table, [change]).await?[0];
        set_header(new, trx, roll, RecordFlags(new[0]));
        let gate = gate(table).await;
        // Who locked ranges of secondary indexes is found by the row's entries.
        let mut entries = Vec::new();
        if table.locks.has_ranges() {
            entries = entries_of(table, old.record)?;
            entries.extend(entries_of(table, new)?);
        }
        let before = RecordHeader::read(old.record);
        let mut attempt = Attempt::Gone;
        let tree = self.engine.tree(table.clustered());
        tree.write(old.key, trx, |place| {
            attempt = Attempt::Gone;
            let Some(found) = place.record else {
                return RecordChange::Keep;
            };
            if RecordHeader::read(found) != before {
                attempt = Attempt::Found(found.to_vec());
                return RecordChange::Keep;
            }
            if before.trx != trx
                && let Some(holder) = blocker(table, trx, old.key, &entries)
            {
                attempt = Attempt::Blocked(holder);
                return RecordChange::Keep;
            }
            attempt = Attempt::Done(None);
            if new[CLUSTERED_HEADER_LEN..] == found[CLUSTERED_HEADER_LEN..] {
                RecordChange::SetHeader(new[..CLUSTERED_HEADER_LEN].to_vec())
            } else {
                RecordChange::Replace(new.to_vec())
            }
        })
        .await?;
        Ok(match attempt {
            Attempt::Done(_) => Attempt::Done(gate),
            other => other,
        })
    }

    /// Delete-marks entries and makes others.
    async fn write_entries(
        &mut self,
        table: &Table,
        gone: &[(usize, Vec<u8>)],
        come: &[(usize, Vec<u8>)],
    ) -> Result<(), EngineError> {
        let trx = self.id().expect("write_to came first");
        for (index, entry) in gone {
            mark_entry(&self.engine.tree(&table.indexes[*index]), entry, trx).await?;
        }
        for (index, entry) in come {
            add_entry(&self.engine.tree(&table.indexes[*index]), entry, trx).await?;
        }
        Ok(())
    }

    /// Locks the row's values of unique indexes, as far as they are new, and looks for another row
    /// with one of them.
    async fn claim_unique(
        &mut self,
        table: &Arc<Table>,
        old: Option<&[u8]>,
        new: &[u8],
    ) -> Result<Option<DuplicateRow>, EngineError> {
        let indexes = table.indexes.iter().enumerate().skip(1);
        for (number, index) in indexes.filter(|(_, index)| index.unique) {
            let Some(prefix) = unique_prefix(table, index, new)? else {
                continue;
            };
            if let Some(old) = old
                && unique_prefix(table, index, old)?.as_ref() == Some(&prefix)
            {
                continue;
            }
            let (cancel, wait) = (self.cancel.clone(), LockWait::Wait);
            let owner = self.running().owner.clone();
            let value = (number, prefix);
            owner
                .lock_key(table, &value, LockMode::Exclusive, wait, &cancel)
                .await?;
            let own_key = old.map(|old| table.clustered().layout.shape.key(old));
            if let Some(key) = self.row_with(table, index, &value.1, own_key).await? {
                let value = key_text(table, index, new);
                return Ok(Some(DuplicateRow {
                    index: number,
                    key,
                    value,
                }));
            }
        }
        Ok(None)
    }

    /// Clustered key of a row, other than `own`, whose current version has this value of a unique
    /// index.
    async fn row_with(
        &mut self,
        table: &Arc<Table>,
        index: &Index,
        prefix: &[u8],
        own: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>, EngineError> {
        let tree = self.engine.tree(index);
        let mut cursor = tree.range(KeySpan::prefix(prefix), false, Access::Point);
        while let Some(run) = cursor.next().await? {
            for slot in run.slots.clone() {
                let entry = run.page.get().record(slot).to_vec();
                let key = clustered_key(table, index, &entry)?;
                if own == Some(key.as_slice()) {
                    continue;
                }
                if let Some(row) = self.settled(table, &key).await?
                    && !RecordFlags(row[0]).is_deleted()
                    && entry_of_version(table, index, &entry, &row)?.is_some()
                {
                    return Ok(Some(key));
                }
            }
        }
        Ok(None)
    }
}

/// Who has to end before `trx` may write a row with these entries. Called under the row's latch.
fn blocker(table: &Table, trx: TrxId, key: &[u8], entries: &Entries) -> Option<TrxId> {
    let indexes = &table.indexes;
    let key_of = |(index, entry): &(usize, Vec<u8>)| {
        let shape = indexes[*index].layout.shape;
        (*index, shape.key(entry).to_vec())
    };
    if !table.locks.any() {
        return None;
    }
    let keys: Vec<_> = entries.iter().map(key_of).collect();
    let keys = keys.iter().map(|(index, key)| (*index, key.as_slice()));
    table.locks.writer_blocker(trx, key, keys)
}

/// Keeps lockers of secondary ranges waiting until a row and its entries are written.
async fn gate(table: &Table) -> Option<OwnedRwLockReadGuard<()>> {
    if table.indexes.len() > 1 {
        Some(table.locks.gate.clone().read_owned().await)
    } else {
        None
    }
}

fn set_header(record: &mut [u8], trx: TrxId, roll: RollPtr, flags: RecordFlags) {
    let header = RecordHeader { flags, trx, roll };
    record[..CLUSTERED_HEADER_LEN].copy_from_slice(&header.to_bytes());
}

fn encode(
    table: &Arc<Table>,
    row: &[Datum],
    row_id: u64,
    number: u64,
) -> Result<Vec<u8>, EngineError> {
    let record = Encoder::new(table.clone(), TrxId(0)).clustered(row, row_id);
    record.map_err(|error| EngineError::Row { number, error })
}

/// The hidden row id of a record, 0 if its table has none.
pub(super) fn hidden_row_id(table: &Table, record: &[u8]) -> u64 {
    if !table.has_hidden_row_id() {
        return 0;
    }
    let view = RecordView::new(&table.clustered().layout, record);
    match view.value(table.def.columns.len()) {
        ValueRef::UInt(id) => id,
        other => panic!("V2: a hidden row id is an integer, not {other:?}"),
    }
}

/// Entries of the old version that the new one does not have, and those of the new one that are to be
/// written.
fn changed_entries(
    table: &Table,
    old: &[u8],
    new: &[u8],
) -> Result<(Entries, Entries), EngineError> {
    let (mut gone, mut come) = (Vec::new(), Vec::new());
    for number in 1..table.indexes.len() {
        let index = &table.indexes[number];
        if has_same_columns(table, index, old, new) {
            continue;
        }
        let (old, new) = (entry_of(table, index, old)?, entry_of(table, index, new)?);
        if !is_same_entry(index, &old, &new) {
            gone.push((number, old));
        }
        come.push((number, new));
    }
    Ok((gone, come))
}

/// Delete-marks an entry.
pub(super) async fn mark_entry(tree: &Tree, entry: &[u8], trx: TrxId) -> Result<(), EngineError> {
    let key = tree.spec().shape.key(entry);
    tree.write(key, trx, |place| match place.record {
        Some(found) if !RecordFlags(found[0]).is_deleted() => {
            RecordChange::SetHeader(vec![found[0] | RecordFlags::DELETED])
        }
        _ => RecordChange::Keep,
    })
    .await
    .map(drop)
}

/// Makes an entry, or makes the one that is there live and gives it these contents.
pub(super) async fn add_entry(tree: &Tree, entry: &[u8], trx: TrxId) -> Result<(), EngineError> {
    let key = tree.spec().shape.key(entry);
    tree.write(key, trx, |place| match place.record {
        None => RecordChange::Insert(entry.to_vec()),
        Some(found) if found == entry => RecordChange::Keep,
        Some(found) if found[1..] == entry[1..] => RecordChange::SetHeader(vec![entry[0]]),
        Some(_) => RecordChange::Replace(entry.to_vec()),
    })
    .await
    .map(drop)
}
