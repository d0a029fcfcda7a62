//! LOCK TABLES and FLUSH TABLES WITH READ LOCK: tables that a session locks for its statements to come, over the
//! ends of its transactions.
//!
//! Invariants
//! - Tables are locked in the order of their names, as by DDL, and all definitions before any table.
//! - The session's transactions and its changes of definitions do not wait for what it has locked, and count as it
//!   where others wait: a circle of waits through what it has locked is a deadlock like any other.
//! - A table that is locked for writing is closed to readers once all tables are locked. Who has a snapshot from before
//!   reads it nevertheless: nothing of what the session does is in it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::lock::RunningChange;
use super::{TableLocker, TableName};
use crate::EngineError;
use crate::catalog::Table;
use crate::engine::Engine;
use crate::scan::CancelToken;
use crate::txn::{DefinitionHold, DefinitionLock, Party, TableUse};

/// What a session locks a table for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableLock {
    /// Nobody writes to it.
    Read,
    /// Nobody else uses it.
    Write,
}

impl TableLock {
    fn table_use(self) -> TableUse {
        match self {
            Self::Read => TableUse::Still,
            Self::Write => TableUse::Exclusive,
        }
    }
}

/// Names the locked tables of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockedTablesId(u64);

impl From<LockedTablesId> for Party {
    fn from(id: LockedTablesId) -> Self {
        Self::Change(id.0)
    }
}

/// The locked tables of a session; dropping them unlocks them.
#[derive(Debug)]
pub struct LockedTables {
    tables: Vec<DefinitionHold>,
    /// Those that nobody else reads.
    closed: Vec<Arc<DefinitionLock>>,
    /// Keeps all definitions as they are.
    definitions: Option<DefinitionHold>,
    /// Goes last: who waits for its end finds the tables unlocked.
    change: Arc<RunningChange>,
}

impl LockedTables {
    fn none(locker: &TableLocker) -> Self {
        Self {
            tables: Vec::new(),
            closed: Vec::new(),
            definitions: None,
            change: locker.change.clone(),
        }
    }

    /// What the session's transactions name them by.
    #[must_use]
    pub fn id(&self) -> LockedTablesId {
        LockedTablesId(self.change.number())
    }

    pub(super) fn change(&self) -> &Arc<RunningChange> {
        &self.change
    }
}

impl Drop for LockedTables {
    fn drop(&mut self) {
        self.closed.iter().for_each(|lock| lock.open());
        self.tables.clear();
        self.definitions = None;
    }
}

/// Keeps FLUSH TABLES WITH READ LOCK waiting as long as it lives.
#[derive(Debug)]
pub struct DefinitionsInUse {
    _hold: DefinitionHold,
    _change: Arc<RunningChange>,
}

impl Engine {
    /// Locks tables, each of which is waited for as long as `timeout` at most.
    ///
    /// # Errors
    /// [`EngineError::NoSuchSchema`], [`EngineError::NoSuchTable`], [`EngineError::Deadlock`],
    /// [`EngineError::LockTimeout`], [`EngineError::Cancelled`]; then none is locked.
    pub async fn lock_tables(
        &self,
        mut wanted: Vec<(TableName, TableLock)>,
        timeout: Duration,
        cancel: &CancelToken,
    ) -> Result<LockedTables, EngineError> {
        // Of several locks of a table the strongest counts.
        wanted.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        wanted.dedup_by(|later, earlier| later.0 == earlier.0);
        let locker = self.table_locker(timeout, cancel);
        let mut locked = LockedTables::none(&locker);
        let mut closing = Vec::new();
        for (name, lock) in wanted {
            let (table, hold) = self.lock_table(&name, lock.table_use(), &locker).await?;
            locked.tables.push(hold);
            if lock == TableLock::Write {
                closing.push(table.definition.clone());
            }
        }
        self.close(&mut locked, closing);
        Ok(locked)
    }

    fn close(&self, locked: &mut LockedTables, closing: Vec<Arc<DefinitionLock>>) {
        if !closing.is_empty() {
            let number = locked.change.number();
            closing.iter().for_each(|lock| lock.close(number));
            locked.closed = closing;
            self.closings.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Has all tables stay as they are: nobody writes to them, and nobody changes definitions.
    ///
    /// # Errors
    /// As [`Engine::lock_tables`].
    pub async fn lock_all_tables(
        &self,
        timeout: Duration,
        cancel: &CancelToken,
    ) -> Result<LockedTables, EngineError> {
        let locker = self.table_locker(timeout, cancel);
        let mut locked = LockedTables::none(&locker);
        locked.definitions = Some(self.hold_definitions(TableUse::Still, &locker).await?);
        let schemas = self.schemas();
        let tables = schemas.iter().flat_map(|schema| self.tables(schema));
        let mut names: Vec<TableName> = tables.map(|table| TableName::of(&table)).collect();
        names.sort();
        for name in names {
            let (_, hold) = self.lock_table(&name, TableUse::Still, &locker).await?;
            locked.tables.push(hold);
        }
        Ok(locked)
    }

    /// Waits until nobody keeps all definitions as they are, for a statement that changes some.
    ///
    /// # Errors
    /// As [`Engine::lock_tables`].
    pub async fn use_definitions(
        &self,
        locker: &TableLocker,
    ) -> Result<DefinitionsInUse, EngineError> {
        Ok(DefinitionsInUse {
            _hold: self.hold_definitions(TableUse::Shared, locker).await?,
            _change: locker.change.clone(),
        })
    }

    async fn hold_definitions(
        &self,
        mode: TableUse,
        locker: &TableLocker,
    ) -> Result<DefinitionHold, EngineError> {
        let deadline = Instant::now() + locker.timeout;
        let wish = (locker.party().into(), mode);
        let (registry, cancel) = (&self.registry, &locker.cancel);
        DefinitionHold::take(registry, &self.definitions, wish, deadline, cancel).await
    }

    /// True if another session keeps the table to itself.
    #[must_use]
    pub fn is_closed(&self, table: &Table, locked: Option<&LockedTables>) -> bool {
        let own = locked.map(|locked| Party::from(locked.id()));
        let closed = table.definition.closed_by();
        closed.is_some() && closed != own
    }

    /// How often tables were closed to readers.
    #[must_use]
    pub fn closings(&self) -> u64 {
        self.closings.load(Ordering::SeqCst)
    }

    /// Waits until no other session keeps a table to itself.
    ///
    /// # Errors
    /// [`EngineError::Deadlock`], [`EngineError::LockTimeout`], [`EngineError::Cancelled`].
    pub async fn wait_until_open(
        &self,
        table: &Table,
        reader: Option<perigee_types::TrxId>,
        locker: &TableLocker,
    ) -> Result<(), EngineError> {
        let deadline = Instant::now() + locker.timeout;
        let waiter = reader.map_or(locker.party(), Party::from);
        while let Some(holder) = table.definition.closed_by() {
            let (registry, cancel) = (&self.registry, &locker.cancel);
            registry.wait_for(waiter, holder, deadline, cancel).await?;
        }
        Ok(())
    }
}
