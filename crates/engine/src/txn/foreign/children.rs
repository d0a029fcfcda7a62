//! The rows that refer to a row that is deleted or gets another key: they forbid it, or follow.
//!
//! The row is written first, so nobody adds a reference to it any more. A row that refers to itself is not in
//! the way of its own deletion.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use perigee_page::RecordFlags;
use perigee_value::{Datum, Zone};

use super::{Child, Relations, Step, key_prefix, refused, values_of};
use crate::EngineError;
use crate::btree::KeySpan;
use crate::buffer::Access;
use crate::catalog::{Action, Table};
use crate::refusal::Refusal;
use crate::txn::Transaction;
use crate::txn::entries::{clustered_key, entry_of_version, key_text};
use crate::txn::write::{DuplicateRow, Written};

/// Rows that are looked for at a time.
const ROWS: usize = 256;

/// A row that may refer to another: the record of an index that led to it, and its clustered key.
struct Found {
    entry: Vec<u8>,
    key: Vec<u8>,
}

/// What a row that is referred to becomes.
#[derive(Clone, Copy)]
enum Becomes<'r> {
    Deleted,
    /// It gets these values.
    Changed(&'r [Datum]),
}

/// A row that is referred to: its table, what it was and what it becomes.
#[derive(Clone, Copy)]
struct Referenced<'r> {
    table: &'r Table,
    old: &'r [u8],
    becomes: Becomes<'r>,
}

impl Transaction {
    /// Deletes a locked row, and does what foreign keys say about those that refer to it.
    pub(super) fn delete_related<'a>(
        &'a mut self,
        table: &'a Arc<Table>,
        relations: &'a Relations,
        (key, record): (&'a [u8], &'a [u8]),
        step: &'a Step<'a>,
    ) -> BoxFuture<'a, Result<Written, EngineError>> {
        async move {
            let written = self.erase_row(table, key).await?;
            if written == Written::Done {
                let row = Referenced {
                    table,
                    old: record,
                    becomes: Becomes::Deleted,
                };
                for child in &relations.children {
                    let values = values_of(table, record, &child.columns);
                    self.follow(child, &values, row, step).await?;
                }
            }
            Ok(written)
        }
        .boxed()
    }

    /// Gives a locked row other values, and does what foreign keys say about it and about those that
    /// refer to it. The key `except` need not be checked: the row follows it.
    pub(super) fn update_related<'a>(
        &'a mut self,
        table: &'a Arc<Table>,
        relations: &'a Relations,
        (key, record, row): (&'a [u8], &'a [u8], Vec<Datum>),
        (step, except): (&'a Step<'a>, Option<&'a str>),
    ) -> BoxFuture<'a, Result<Written, EngineError>> {
        async move {
            let columns: Vec<u16> = (0..table.def.columns.len() as u16).collect();
            let old = values_of(table, record, &columns);
            let value = |column: u16| row[usize::from(column)].clone();
            let missing = self.check_parents(table, relations, Some(&old), &value, except);
            let missing = missing.await?;
            let written = self.alter_row(table, key, |_| Some(row.clone())).await?;
            let written = written.expect("there is always a row to write");
            if written != Written::Done {
                return Ok(written);
            }
            let changed = Referenced {
                table,
                old: record,
                becomes: Becomes::Changed(&row),
            };
            for child in &relations.children {
                let at = |column: &u16| usize::from(*column);
                let same = |column: &u16| old[at(column)] == row[at(column)];
                if !child.columns.iter().all(same) {
                    let values: Vec<Datum> =
                        child.columns.iter().map(|c| old[at(c)].clone()).collect();
                    self.follow(child, &values, changed, step).await?;
                }
            }
            // As in InnoDB, what refers to the row comes first.
            missing.map_or(Ok(written), Err)
        }
        .boxed()
    }

    /// Does what a foreign key says about the rows that refer to one, which had these values.
    async fn follow(
        &mut self,
        child: &Child,
        values: &[Datum],
        row: Referenced<'_>,
        step: &Step<'_>,
    ) -> Result<(), EngineError> {
        let index = &child.table.indexes[child.index];
        let Some(prefix) = key_prefix(index, values)? else {
            return Ok(());
        };
        let action = match row.becomes {
            Becomes::Deleted => child.key.on_delete,
            Becomes::Changed(_) => child.key.on_update,
        };
        let mut span = KeySpan::prefix(&prefix);
        loop {
            let found = self.referring(child, &span).await?;
            for found in &found {
                if self.cancel.is_cancelled() {
                    return Err(EngineError::Cancelled);
                }
                match action {
                    Action::NoAction | Action::Restrict => {
                        if self.refers_still(child, found).await? {
                            return Err(child.refusal());
                        }
                    }
                    Action::Cascade | Action::SetNull => {
                        self.follow_row(child, found, action, row, step).await?;
                    }
                }
            }
            match found.last() {
                Some(last) if found.len() >= ROWS => {
                    span = span.after(index.layout.shape.key(&last.entry));
                }
                _ => return Ok(()),
            }
        }
    }

    /// The next rows that may refer to one; entries that are delete-marked lead to rows of which nobody knows
    /// whether they will be deleted.
    async fn referring(
        &mut self,
        child: &Child,
        span: &KeySpan,
    ) -> Result<Vec<Found>, EngineError> {
        let (table, index) = (&child.table, &child.table.indexes[child.index]);
        let tree = self.engine.tree(index);
        let mut cursor = tree.range(span.clone(), false, Access::Point);
        let mut rows = Vec::new();
        while rows.len() < ROWS
            && let Some(run) = cursor.next().await?
        {
            for slot in run.slots.clone().take(ROWS - rows.len()) {
                let entry = run.page.get().record(slot).to_vec();
                let key = match child.index {
                    0 => index.layout.shape.key(&entry).to_vec(),
                    _ => clustered_key(table, index, &entry)?,
                };
                rows.push(Found { entry, key });
            }
        }
        Ok(rows)
    }

    /// True if the current version of a row is the one that was found by its entry.
    async fn refers_still(&mut self, child: &Child, found: &Found) -> Result<bool, EngineError> {
        let row = self.settled(&child.table, &found.key).await?;
        row.map_or(Ok(false), |row| child.is_of(found, &row))
    }

    /// Has a row follow the one that it refers to, if it still does.
    async fn follow_row(
        &mut self,
        child: &Child,
        found: &Found,
        action: Action,
        row: Referenced<'_>,
        step: &Step<'_>,
    ) -> Result<(), EngineError> {
        let table = &child.table;
        // Rows that were deleted long ago are not worth a lock.
        if !self.refers_still(child, found).await? {
            return Ok(());
        }
        self.write_to(table).await?;
        let Some(record) = self.locked(table, &found.key).await? else {
            return Ok(());
        };
        if !child.is_of(found, &record)? {
            return Ok(());
        }
        let relations = self.relations(table).await?;
        let relations = relations.expect("the table has a foreign key");
        let at = (found.key.as_slice(), record.as_slice());
        if action == Action::Cascade && matches!(row.becomes, Becomes::Deleted) {
            let step = step.then(table, false)?;
            return self
                .delete_related(table, &relations, at, &step)
                .await
                .map(drop);
        }
        // What a row refers to that was changed by the same statement already cannot be told.
        if step.updates(table) {
            return Err(child.refusal());
        }
        let step = step.then(table, true)?;
        let columns: Vec<u16> = (0..table.def.columns.len() as u16).collect();
        let mut changed = values_of(table, &record, &columns);
        for (column, referenced) in child.key.columns.iter().zip(&child.columns) {
            let value = match (action, row.becomes) {
                (Action::Cascade, Becomes::Changed(new)) => new[usize::from(*referenced)].clone(),
                _ => Datum::Null,
            };
            let def = &table.def.columns[usize::from(*column)];
            let Ok(value) = def.coerce(value, def.ty, Zone::Utc) else {
                return Err(child.refusal());
            };
            if value.is_null() && !def.nullable {
                return Err(child.refusal());
            }
            changed[usize::from(*column)] = value;
        }
        let except = Some(child.key.name.as_str());
        let (key, record) = at;
        let written =
            self.update_related(table, &relations, (key, record, changed), (&step, except));
        match written.await? {
            Written::Duplicate(other) => Err(duplicate(child, &other, row)),
            _ => Ok(()),
        }
    }
}

impl Child {
    /// True if a row is the one that an entry was found for.
    fn is_of(&self, found: &Found, row: &[u8]) -> Result<bool, EngineError> {
        let (table, index) = (&self.table, &self.table.indexes[self.index]);
        if RecordFlags(row[0]).is_deleted() {
            return Ok(false);
        }
        // The clustered key of a row never changes.
        Ok(self.index == 0 || entry_of_version(table, index, &found.entry, row)?.is_some())
    }
}

/// A row that follows the one it refers to would get the key of another row.
fn duplicate(child: &Child, other: &DuplicateRow, row: Referenced<'_>) -> EngineError {
    refused(Refusal::DuplicateInChild {
        parent: row.table.def.name.clone(),
        row: key_text(row.table, row.table.clustered(), row.old),
        table: child.table.def.name.clone(),
        index: child.table.indexes[other.index].name.clone(),
    })
}
