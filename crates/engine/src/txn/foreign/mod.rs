//! Foreign keys: what else must hold, and what else changes, when a row is written.
//!
//! Invariants
//! - A row that refers to another is written only by who has that other row locked in shared mode, or has
//!   written it: [`parents`].
//! - Rows that refer to a row are looked for only by who has written that row: [`children`].
//!
//! So of a transaction that adds a reference and one that removes its row, one waits for the other, by the
//! L-rule of [`super::locks`]; whoever comes second sees what the first one did. The current versions of rows
//! decide, whatever a transaction's view shows.
//!
//! What is related to a table is looked up once in a transaction: both sides are in use until it ends, and a
//! change of definition that adds or removes a foreign key needs both of them alone.

mod children;
mod parents;

use std::sync::Arc;

use perigee_page::RecordHeader;
use perigee_types::TableId;
use perigee_value::{Datum, RecordView, key};

use super::current::{Current, current_version};
use super::locks::{LockMode, LockWait};
use super::write::Written;
use super::{Savepoint, Transaction};
use crate::EngineError;
use crate::btree::KeySpans;
use crate::catalog::{ForeignKey, Index, Table, TableDef};
use crate::refusal::{KeyName, Refusal};

/// Rows of a table that a transaction locks one by one because of foreign keys; if there are more, the whole table is
/// locked, so that what locks take is bounded.
const MOST_LOCKS: usize = 100_000;

/// Most changes that may follow from each other, as in InnoDB.
const MAX_DEPTH: usize = 15;

/// The foreign keys that a table has, and those that refer to it.
#[derive(Debug, Default)]
pub(super) struct Relations {
    parents: Vec<Parent>,
    children: Vec<Child>,
}

/// A foreign key of the table.
#[derive(Debug)]
struct Parent {
    key: ForeignKey,
    /// The referenced table with the columns and index that the key needs, if there is one.
    target: Option<Target>,
}

#[derive(Debug)]
struct Target {
    table: Arc<Table>,
    /// Number of an index that begins with the referenced columns.
    index: usize,
    /// The referenced columns.
    columns: Vec<u16>,
}

/// A foreign key that refers to the table.
#[derive(Debug)]
struct Child {
    table: Arc<Table>,
    key: ForeignKey,
    /// Number of an index of its table that begins with the key's columns.
    index: usize,
    /// The columns of this table that it refers to.
    columns: Vec<u16>,
}

/// A change, and the one that it follows from.
struct Step<'s> {
    table: TableId,
    /// The row is not deleted.
    updates: bool,
    before: Option<&'s Step<'s>>,
    /// Number of changes before it.
    depth: usize,
}

impl<'s> Step<'s> {
    const fn first(table: &Table, updates: bool) -> Self {
        Self {
            table: table.id,
            updates,
            before: None,
            depth: 0,
        }
    }

    fn then(&'s self, table: &Table, updates: bool) -> Result<Self, EngineError> {
        if self.depth == MAX_DEPTH {
            return Err(refused(Refusal::CascadeDepth(MAX_DEPTH)));
        }
        Ok(Self {
            table: table.id,
            updates,
            before: Some(self),
            depth: self.depth + 1,
        })
    }

    /// True if it, or one that it follows from, updates rows of a table.
    fn updates(&self, table: &Table) -> bool {
        let here = self.updates && self.table == table.id;
        here || self.before.is_some_and(|before| before.updates(table))
    }
}

impl Parent {
    fn refusal(&self, table: &Table) -> EngineError {
        refused(Refusal::NoParent(KeyName::new(&table.def, &self.key)))
    }
}

impl Child {
    fn refusal(&self) -> EngineError {
        refused(Refusal::Referenced(KeyName::new(
            &self.table.def,
            &self.key,
        )))
    }
}

pub(crate) fn refused(refusal: Refusal) -> EngineError {
    EngineError::Refused(Box::new(refusal))
}

/// The number of an index whose key begins with these columns; a unique one that has no others, if there
/// is one.
pub(crate) fn index_over(def: &TableDef, columns: &[u16]) -> Option<usize> {
    let keys = || {
        let others = def.indexes.iter();
        let others = others.map(|index| (index.unique, &index.columns));
        std::iter::once((true, &def.primary_key)).chain(others)
    };
    let exact = keys().position(|(unique, key)| unique && key == columns);
    exact.or_else(|| keys().position(|(_, key)| key.starts_with(columns)))
}

/// The columns of a table with these names.
pub(crate) fn columns_named(def: &TableDef, names: &[String]) -> Option<Vec<u16>> {
    let column = |name: &String| def.column(name).map(|column| column as u16);
    names.iter().map(column).collect()
}

/// What the keys of an index begin with that have these values first; `None` if one of them is NULL.
pub(crate) fn key_prefix(index: &Index, values: &[Datum]) -> Result<Option<Vec<u8>>, EngineError> {
    if values.contains(&Datum::Null) {
        return Ok(None);
    }
    let mut prefix = Vec::new();
    let corrupt = |e| EngineError::Corrupt(format!("key of index {}: {e}", index.name));
    key::encode_key(&index.layout, values, &mut prefix).map_err(corrupt)?;
    Ok(Some(prefix))
}

/// Values of columns of a clustered record.
pub(crate) fn values_of(table: &Table, record: &[u8], columns: &[u16]) -> Vec<Datum> {
    let view = RecordView::new(&table.clustered().layout, record);
    let value = |column: &u16| view.value(usize::from(*column)).to_datum();
    columns.iter().map(value).collect()
}

impl Transaction {
    /// Whether foreign keys are checked and followed from now on.
    pub fn check_foreign_keys(&mut self, check: bool) {
        self.options.foreign_key_checks = check;
    }

    /// True if foreign keys are checked and followed.
    pub(crate) fn checks_foreign_keys(&self) -> bool {
        self.options.foreign_key_checks
    }

    /// True if foreign keys refer to a table, so that its rows cannot be replaced in place.
    #[must_use]
    pub fn is_referenced(&self, table: &Table) -> bool {
        let def = &table.def;
        let children = self.engine.catalog.children(&def.schema, &def.name);
        !children.is_empty()
    }

    /// True if this transaction has deleted a row, which may have followed from another change.
    ///
    /// # Errors
    /// What storage says.
    pub async fn has_deleted(&self, table: &Table, key: &[u8]) -> Result<bool, EngineError> {
        let row = current_version(&self.engine, table, key, self.id()).await?;
        let Current::Settled(Some(row)) = row else {
            return Ok(false);
        };
        let header = RecordHeader::read(&row);
        Ok(header.flags.is_deleted() && Some(header.trx) == self.id())
    }

    /// The foreign keys to look at when rows of a table are written; `None` if there are none.
    pub(super) async fn relations(
        &mut self,
        table: &Arc<Table>,
    ) -> Result<Option<Arc<Relations>>, EngineError> {
        if !self.checks_foreign_keys() {
            return Ok(None);
        }
        let known = self.running().relations.get(&table.id);
        if let Some(known) = known {
            return Ok(known.clone());
        }
        // Nobody changes foreign keys of a table that is in use.
        self.write_to(table).await?;
        let relations = Relations {
            parents: self.parents(table).await?,
            children: self.children(table).await?,
        };
        let is_related = !relations.parents.is_empty() || !relations.children.is_empty();
        let relations = is_related.then(|| Arc::new(relations));
        let known = &mut self.running().relations;
        known.insert(table.id, relations.clone());
        Ok(relations)
    }

    async fn parents(&mut self, table: &Arc<Table>) -> Result<Vec<Parent>, EngineError> {
        let mut parents = Vec::new();
        for key in &table.def.foreign_keys {
            let found = self.in_use(table, &key.schema, &key.table).await?;
            let target = found.and_then(|table| {
                let columns = columns_named(&table.def, &key.referenced)?;
                let index = index_over(&table.def, &columns)?;
                Some(Target {
                    table,
                    index,
                    columns,
                })
            });
            let key = key.clone();
            parents.push(Parent { key, target });
        }
        Ok(parents)
    }

    async fn children(&mut self, table: &Arc<Table>) -> Result<Vec<Child>, EngineError> {
        let def = &table.def;
        let mut children = Vec::new();
        for child in self.engine.catalog.children(&def.schema, &def.name) {
            let (schema, name) = (&child.def.schema, &child.def.name);
            let Some(child) = self.in_use(table, schema, name).await? else {
                continue;
            };
            for key in &child.def.foreign_keys {
                if !key.refers_to(&def.schema, &def.name) {
                    continue;
                }
                let columns = columns_named(def, &key.referenced);
                let index = index_over(&child.def, &key.columns);
                if let (Some(columns), Some(index)) = (columns, index) {
                    children.push(Child {
                        table: child.clone(),
                        key: key.clone(),
                        index,
                        columns,
                    });
                }
            }
        }
        // As InnoDB goes through them: by the referenced index, then by their names.
        children.sort_by_key(|child| {
            let index = index_over(def, &child.columns);
            (index, child.key.schema.clone(), child.key.name.clone())
        });
        Ok(children)
    }

    /// The table with a name, in use until the transaction ends; `own` is.
    async fn in_use(
        &mut self,
        own: &Arc<Table>,
        schema: &str,
        name: &str,
    ) -> Result<Option<Arc<Table>>, EngineError> {
        if own.def.schema == schema && own.def.name == name {
            return Ok(Some(own.clone()));
        }
        let cancel = self.cancel.clone();
        loop {
            let table = match self.engine.catalog.table(schema, name) {
                Ok(table) => table,
                Err(EngineError::NoSuchTable(_) | EngineError::NoSuchSchema(_)) => return Ok(None),
                Err(e) => return Err(e),
            };
            let owner = self.running().owner.clone();
            match owner.use_table(&table, &cancel).await {
                Ok(()) => return Ok(Some(table)),
                // It was changed before it could be used.
                Err(EngineError::TableChanged(_)) => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Locks a row until the transaction ends, or its table if many rows of it are locked so.
    async fn lock_related(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
        mode: LockMode,
    ) -> Result<(), EngineError> {
        let locks = &mut self.running().related_locks;
        let count = locks.entry((table.id, mode)).or_default();
        *count += 1;
        let count = *count;
        if count > MOST_LOCKS {
            return Ok(());
        }
        if count == MOST_LOCKS {
            let locker = self.locker(mode, LockWait::Wait);
            return locker.lock(table, 0, &KeySpans::all()).await.map(drop);
        }
        let (cancel, owner) = (self.cancel.clone(), self.running().owner.clone());
        let named = (0, key.to_vec());
        let locked = owner.lock_key(table, &named, mode, LockWait::Wait, &cancel);
        locked.await.map(drop)
    }

    /// Locks a row to change it, and gives its current version; `None` if there is none.
    async fn locked(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, EngineError> {
        self.lock_related(table, key, LockMode::Exclusive).await?;
        self.current(table, key).await
    }

    /// Undoes what was done since a savepoint if a foreign key forbids it, so that nothing is changed.
    pub(super) async fn undo_refused<T>(
        &mut self,
        savepoint: &Savepoint,
        outcome: Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        if let Err(EngineError::Refused(_)) = &outcome {
            self.rollback_to(savepoint).await?;
        }
        outcome
    }
}

impl Transaction {
    /// Inserts a row given as values of the table's columns.
    ///
    /// # Errors
    /// As [`Transaction::insert`], but that a duplicate is no error.
    pub async fn insert_row(
        &mut self,
        table: &Arc<Table>,
        row: &[Datum],
    ) -> Result<Written, EngineError> {
        let relations = self.relations(table).await?;
        let Some(relations) = relations.filter(|relations| !relations.parents.is_empty()) else {
            return self.put_row(table, row).await;
        };
        let savepoint = self.savepoint();
        let value = |column: u16| row[usize::from(column)].clone();
        let checked = self.check_parents(table, &relations, None, &value, None);
        let missing = Box::pin(checked).await?;
        let written = self.put_row(table, row).await?;
        match missing {
            Some(error) if written == Written::Done => {
                self.undo_refused(&savepoint, Err(error)).await
            }
            // A row that is not inserted need not refer to anything.
            _ => Ok(written),
        }
    }

    /// Locks what a clustered record to insert refers to. If that is missing, the error that says so once the
    /// record turns out not to be a duplicate.
    pub(super) async fn check_record(
        &mut self,
        table: &Arc<Table>,
        record: &[u8],
    ) -> Result<Option<EngineError>, EngineError> {
        if table.def.foreign_keys.is_empty() {
            return Ok(None);
        }
        let Some(relations) = self.relations(table).await? else {
            return Ok(None);
        };
        let view = RecordView::new(&table.clustered().layout, record);
        let value = |column: u16| view.value(usize::from(column)).to_datum();
        let checked = self.check_parents(table, &relations, None, &value, None);
        Box::pin(checked).await
    }

    /// Changes the row with this clustered key to what `change` makes of its current version, a
    /// clustered record; it may be asked more than once. `None` if it gives none: nothing is changed.
    ///
    /// # Errors
    /// As [`Transaction::update_row`].
    pub async fn change_row(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
        mut change: impl FnMut(&[u8]) -> Option<Vec<Datum>> + Send,
    ) -> Result<Option<Written>, EngineError> {
        let Some(relations) = self.relations(table).await? else {
            return self.alter_row(table, key, change).await;
        };
        let Some(record) = self.locked(table, key).await? else {
            return Ok(Some(Written::Missing));
        };
        let Some(row) = change(&record) else {
            return Ok(None);
        };
        let savepoint = self.savepoint();
        let step = Step::first(table, true);
        let row = (key, record.as_slice(), row);
        let written = self.update_related(table, &relations, row, (&step, None));
        let written = written.await;
        self.undo_refused(&savepoint, written).await.map(Some)
    }

    /// Deletes the row with this clustered key.
    ///
    /// # Errors
    /// As [`Transaction::lock_row`].
    pub async fn delete_row(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
    ) -> Result<Written, EngineError> {
        let relations = self.relations(table).await?;
        let Some(relations) = relations.filter(|relations| !relations.children.is_empty()) else {
            return self.erase_row(table, key).await;
        };
        let Some(record) = self.locked(table, key).await? else {
            return Ok(Written::Missing);
        };
        let savepoint = self.savepoint();
        let step = Step::first(table, false);
        let deleted = self.delete_related(table, &relations, (key, &record), &step);
        let deleted = deleted.await;
        self.undo_refused(&savepoint, deleted).await
    }
}
