//! Long values of rows that a transaction writes.
//!
//! What does not fit into a record goes into chains of overflow pages first. Undo says which chains
//! a transaction made and which ones it left behind:
//!
//! - *chain made* is written together with the first page of the chain. Rolling back frees the
//!   chain, whether a record led to it or not; purge passes by.
//! - *chain left* is written after the row that the value was of got another value, or was
//!   deleted. Purge frees the chain, as nobody sees the old version any more. Rolling back makes
//!   the record void before it restores the row: a transaction may go on after it has undone a
//!   part, and its purge must not free what the restored row leads to.
//!
//! So each chain is freed once, by one or the other; a crash in between repeats what is harmless.

use std::sync::Arc;

use perigee_types::{RollPtr, TableId, TrxId};
use perigee_value::{
    Datum, OverflowRef, RecordView, RowError, RowLayout, ValueRef, parse_text_ref,
    values_to_move_out,
};

use super::segment::UndoLog;
use super::undo::{self, UndoChange, UndoPage, UndoRecord};
use super::write::hidden_row_id;
use super::{LockMode, LockWait, Transaction, Written};
use crate::EngineError;
use crate::buffer::{Access, BufferPool};
use crate::catalog::Table;
use crate::engine::Engine;
use crate::load::Encoder;
use crate::mtr::Mtr;
use crate::overflow::{ChainWriter, free_chain, read_chain};

impl Transaction {
    /// Writes a chain for a value of a row of a table.
    pub(crate) async fn make_chain(
        &mut self,
        table: &Table,
        value: &[u8],
    ) -> Result<OverflowRef, EngineError> {
        let engine = self.engine.clone();
        let running = self.running();
        let trx = running.owner.trx;
        let undo = running.undo.as_mut().expect("write_to came first");
        let mut chain = ChainWriter::new(&engine, table.clustered().id, value);
        engine.pool.admit().await?;
        while !begin_chain(&engine.pool, &mut chain, undo, (trx, table.id))? {
            undo.go_on(&engine).await?;
            engine.pool.admit().await?;
        }
        chain.finish(&engine).await
    }

    /// [`Transaction::insert_row`] into a table with long columns.
    pub(super) async fn insert_long(
        &mut self,
        table: &Arc<Table>,
        row: &[Datum],
        row_id: u64,
    ) -> Result<Written, EngineError> {
        let (record, made) = self.encode_long(table, row, (row_id, 0), None).await?;
        let written = self.insert_record(table, record, None).await?;
        if written != Written::Done {
            self.drop_chains(made).await?;
        }
        Ok(written)
    }

    /// [`Transaction::change_row`] in a table with long columns.
    pub(super) async fn change_long(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
        mut change: impl FnMut(&[u8]) -> Option<Vec<Datum>> + Send,
    ) -> Result<Option<Written>, EngineError> {
        // Whoever reads a chain must be sure that it stays.
        self.lock_row(table, key, LockMode::Exclusive, LockWait::Wait)
            .await?;
        loop {
            let Some(old) = self.current(table, key).await? else {
                return Ok(Some(Written::Missing));
            };
            let Some(mut row) = change(&old) else {
                return Ok(None);
            };
            table.note_number(&row);
            let ids = (hidden_row_id(table, &old), 0);
            let (mut new, made) = self.encode_long(table, &row, ids, Some(&old)).await?;
            if table.clustered().layout.shape.key(&new) != key {
                // The row that moves takes its values along, not its chains.
                self.drop_chains(made).await?;
                self.engine.fetch_long(&mut row).await?;
                return self.move_row(table, key, &row).await.map(Some);
            }
            let written = self
                .write_version(table, key, &old, (&row, &mut new))
                .await?;
            match written {
                Some(Written::Done) => self.leave_chains(table, &old, Some(&new)).await?,
                _ => self.drop_chains(made).await?,
            }
            if written.is_some() {
                return Ok(written);
            }
        }
    }

    /// The record of a row whose values may be too long for it, and the chains that were made for
    /// it. `old` is the version that it takes the place of, to share what stays the same.
    pub(super) async fn encode_long(
        &mut self,
        table: &Arc<Table>,
        row: &[Datum],
        (row_id, number): (u64, u64),
        old: Option<&[u8]>,
    ) -> Result<(Vec<u8>, Vec<OverflowRef>), EngineError> {
        self.write_to(table).await?;
        let bad_row = |error| EngineError::Row { number, error };
        let layout = &table.clustered().layout;
        let mut values: Vec<ValueRef<'_>> = row.iter().map(Datum::as_ref).collect();
        if let Some(old) = old {
            self.share_chains(table, old, &mut values).await?;
        }
        let mut made = Vec::new();
        for column in values_to_move_out(layout, |column| value_of(&values, column, row_id)) {
            let ValueRef::String(text) = values[column] else {
                continue;
            };
            let checked = parse_text_ref(layout.columns[column].ty, text);
            let checked = checked.map_err(|error| {
                let column = column as u16;
                bad_row(RowError::Column { column, error })
            })?;
            let ValueRef::String(text) = checked else {
                panic!("V8: a long value is a string");
            };
            let reference = self.make_chain(table, text).await?;
            made.push(reference);
            values[column] = ValueRef::Overflow(reference);
        }
        let encoder = Encoder::new(table.clone(), TrxId(0));
        let record = encoder.clustered_of(&values, row_id).map_err(bad_row)?;
        Ok((record, made))
    }

    /// Puts references to the chains of the old version in the places of values that are the same.
    async fn share_chains(
        &self,
        table: &Table,
        old: &[u8],
        values: &mut [ValueRef<'_>],
    ) -> Result<(), EngineError> {
        let view = RecordView::new(&table.clustered().layout, old);
        for (column, reference) in references(&table.clustered().layout, old) {
            if let ValueRef::String(text) = values[column]
                && text.len() == reference.len as usize
                && read_chain(&self.engine.pool, reference).await? == text
            {
                values[column] = ValueRef::Overflow(reference);
            }
        }
        let is_old = |(column, value): (usize, &ValueRef<'_>)| match value {
            ValueRef::Overflow(_) => view.value(column) == *value,
            _ => true,
        };
        if values.iter().enumerate().all(is_old) {
            return Ok(());
        }
        Err(EngineError::RecordChanged {
            table: table.def.name.clone(),
        })
    }

    /// Notes that a version of a row has been replaced: the chains that the new one, if there is
    /// one, does not share are of no use once nobody sees the old one.
    pub(super) async fn leave_chains(
        &mut self,
        table: &Table,
        old: &[u8],
        new: Option<&[u8]>,
    ) -> Result<(), EngineError> {
        let layout = &table.clustered().layout;
        let kept: Vec<_> = new.map_or(Vec::new(), |new| references(layout, new));
        let left = references(layout, old)
            .into_iter()
            .filter(|reference| !kept.contains(reference))
            .map(|(_, reference)| UndoChange::ChainLeft(reference.into()));
        let left: Vec<_> = left.collect();
        if !left.is_empty() {
            self.append_undo(table, left).await?;
        }
        Ok(())
    }

    /// Frees chains of a row that was not written after all.
    async fn drop_chains(&self, made: Vec<OverflowRef>) -> Result<(), EngineError> {
        for reference in made {
            free_chain(&self.engine, reference.into()).await?;
        }
        Ok(())
    }
}

/// Makes the first pages of a chain together with their undo; false if the undo page has no room.
fn begin_chain(
    pool: &BufferPool,
    chain: &mut ChainWriter<'_>,
    undo: &UndoLog,
    (trx, table): (TrxId, TableId),
) -> Result<bool, EngineError> {
    let mut mtr = Mtr::new(pool);
    let last = chain.latch(&mut mtr);
    let page = mtr.latch(undo.current());
    if UndoPage::new(mtr.page(page))?.room() < undo::CHAIN_RECORD_LEN {
        return Ok(false);
    }
    chain.add(&mut mtr, last);
    let change = UndoChange::ChainMade(chain.id());
    let record = UndoRecord { trx, table, change };
    let view = UndoPage::new(mtr.page(page)).expect("V7: we wrote this undo page");
    let (ops, _) = undo::append(view, &[record]);
    ops.into_iter().for_each(|op| mtr.apply(page, op));
    let _ = mtr.commit();
    Ok(true)
}

/// A value of a clustered record: behind the table's columns there may be a hidden row id.
fn value_of<'v>(values: &[ValueRef<'v>], column: usize, row_id: u64) -> ValueRef<'v> {
    values
        .get(column)
        .copied()
        .unwrap_or(ValueRef::UInt(row_id))
}

/// The references of a clustered record, with their columns.
pub(super) fn references(layout: &RowLayout, record: &[u8]) -> Vec<(usize, OverflowRef)> {
    let view = RecordView::new(layout, record);
    let columns = layout.columns.iter().enumerate();
    let long = columns.filter(|(_, column)| column.ty.is_long());
    long.filter_map(|(column, _)| match view.value(column) {
        ValueRef::Overflow(reference) => Some((column, reference)),
        _ => None,
    })
    .collect()
}

/// Makes the undo record of a chain that was left void: the row leads to the chain again.
pub(super) async fn keep_chain(engine: &Engine, roll: RollPtr) -> Result<(), EngineError> {
    let frame = engine.pool.fetch(roll.page(), Access::Point).await?;
    engine.pool.admit().await?;
    let mut mtr = Mtr::new(&engine.pool);
    let page = mtr.latch(&frame);
    mtr.apply(page, undo::make_void(roll.offset()));
    let _ = mtr.commit();
    Ok(())
}
