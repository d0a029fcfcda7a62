//! The triggers of an INSERT or REPLACE: those of INSERT, and those of UPDATE and DELETE for rows in the way.

use perigee_engine::txn::{DuplicateRow, LockMode, LockWait, RowLock, Written};
use perigee_value::Datum;

use super::engine_error;
use super::writer::Writer;
use crate::error::Result;
use crate::session::dml::{implicit_default, row_of};
use crate::session::generated::GeneratedColumns;

impl Writer<'_> {
    /// Fires what fires before a row is inserted, the one with this number, and checks it against NOT NULL.
    pub(super) async fn before_insert(&mut self, row: &mut [Datum], number: u64) -> Result<()> {
        let statement = self.statement;
        let def = &statement.table.def;
        let triggers = statement.triggers.insert.as_ref();
        if let Some(triggers) = triggers.filter(|triggers| triggers.has_before()) {
            self.compute(row, number)?;
            // A number that is still to come is 0.
            let counted = def.auto_increment.map(|auto| usize::from(auto.column));
            let counted = counted.filter(|place| row[*place].is_null());
            let counted = counted.and_then(|place| {
                let zero = implicit_default(def.columns[place].ty)?;
                row[place] = zero.clone();
                Some((place, zero))
            });
            let rows = (&[][..], &mut *row);
            let fired = triggers.before(self.session, self.work, rows, self.cancel);
            fired.await?;
            if let Some((place, _)) = counted.filter(|(place, zero)| row[*place] == *zero) {
                row[place] = Datum::Null;
            }
        }
        self.converter.settle(def, row).map(|_| ())
    }

    /// Fires what fires after a row was inserted.
    pub(super) async fn after_insert(&mut self, row: &[Datum]) -> Result<()> {
        match &self.statement.triggers.insert {
            Some(triggers) => {
                let rows = (&[][..], row);
                let fired = triggers.after(self.session, self.work, rows, self.cancel);
                fired.await
            }
            None => Ok(()),
        }
    }

    /// Fires what fires before ON DUPLICATE KEY UPDATE changes a row, and checks it against NOT NULL.
    pub(super) async fn before_update(
        &mut self,
        (existing, changed): (&[Datum], &mut [Datum]),
        number: u64,
    ) -> Result<()> {
        let statement = self.statement;
        let def = &statement.table.def;
        let triggers = statement.triggers.update.as_ref();
        if let Some(triggers) = triggers.filter(|triggers| triggers.has_before()) {
            let engine = &self.session.frontend.engine;
            let mut new = triggers.fetched(engine, changed).await?;
            let rows = (existing, &mut new[..]);
            let fired = triggers.before(self.session, self.work, rows, self.cancel);
            for place in fired.await? {
                changed[place] = new[place].clone();
            }
        }
        if self.converter.settle(def, changed)? {
            GeneratedColumns::forget(def, (existing, changed));
            self.follow((existing, changed), number).await?;
        }
        Ok(())
    }

    /// Fires what fires after ON DUPLICATE KEY UPDATE has come to a row.
    pub(super) async fn after_update(
        &mut self,
        existing: &[Datum],
        changed: &[Datum],
    ) -> Result<()> {
        let Some(triggers) = &self.statement.triggers.update else {
            return Ok(());
        };
        let engine = &self.session.frontend.engine;
        let new = triggers.fetched(engine, changed).await?;
        let rows = (existing, &new[..]);
        let fired = triggers.after(self.session, self.work, rows, self.cancel);
        fired.await
    }

    /// Deletes the row in the way of REPLACE, if it is still there, with the triggers of that.
    pub(super) async fn delete(&mut self, other: &DuplicateRow) -> Result<()> {
        let table = &self.statement.table;
        let number = self.counts.records - 1;
        let error = |e| engine_error(e, table, number);
        let triggers = self.statement.triggers.delete.as_ref();
        let mut old = Vec::new();
        if let Some(triggers) = triggers {
            let transaction = self.work.transaction();
            let lock = transaction.lock_row(table, &other.key, LockMode::Exclusive, LockWait::Wait);
            let RowLock::Locked(Some(record)) = lock.await.map_err(error)? else {
                return Ok(());
            };
            let engine = &self.session.frontend.engine;
            old = triggers.fetched(engine, &row_of(table, &record)).await?;
            let rows = (&old[..], &mut [][..]);
            let fired = triggers.before(self.session, self.work, rows, self.cancel);
            fired.await?;
        }
        let transaction = self.work.transaction();
        let deleted = transaction.delete_row(table, &other.key).await;
        if !matches!(deleted.map_err(error)?, Written::Done) {
            return Ok(());
        }
        self.counts.deleted += 1;
        match triggers {
            Some(triggers) => {
                let rows = (&old[..], &[][..]);
                let fired = triggers.after(self.session, self.work, rows, self.cancel);
                fired.await
            }
            None => Ok(()),
        }
    }
}
