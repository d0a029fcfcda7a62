//! Exclusive locks of tables.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::LockedTables;
use crate::EngineError;
use crate::catalog::{RoutineDef, Table, ViewDef, shown_schema};
use crate::engine::Engine;
use crate::scan::CancelToken;
use crate::txn::{DefinitionHold, Party, Registry, TableUse};

/// Schema and name of a table or a view.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName {
    /// The schema.
    pub schema: String,
    /// The name.
    pub name: String,
}

impl TableName {
    /// The table's name.
    #[must_use]
    pub fn of(table: &Table) -> Self {
        Self {
            schema: table.def.schema.clone(),
            name: table.def.name.clone(),
        }
    }

    /// The view's name.
    #[must_use]
    pub fn of_view(view: &ViewDef) -> Self {
        Self {
            schema: view.schema.clone(),
            name: view.name.clone(),
        }
    }

    /// The procedure's name.
    #[must_use]
    pub fn of_routine(routine: &RoutineDef) -> Self {
        Self {
            schema: routine.schema.clone(),
            name: routine.name.clone(),
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", shown_schema(&self.schema), self.name)
    }
}

/// A statement that changes definitions: locks the tables it needs, one after the other.
#[derive(Clone, Debug)]
pub struct TableLocker {
    pub(super) change: Arc<RunningChange>,
    pub(super) timeout: Duration,
    pub(super) cancel: CancelToken,
}

impl TableLocker {
    /// Who locks.
    pub(super) fn party(&self) -> Party {
        self.change.party()
    }
}

/// Others wait for its end.
#[derive(Debug)]
pub(super) struct RunningChange {
    registry: Arc<Registry>,
    number: u64,
    /// Of the session's locked tables, which stay locked when this ends.
    within: Option<Arc<Self>>,
}

impl RunningChange {
    /// A change of a session that has locked tables, if it has.
    pub fn new(registry: &Arc<Registry>, within: Option<&Arc<Self>>) -> Arc<Self> {
        let number = match within {
            Some(change) => change.number,
            None => registry.begin_change(),
        };
        Arc::new(Self {
            registry: registry.clone(),
            number,
            within: within.cloned(),
        })
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn party(&self) -> Party {
        Party::Change(self.number)
    }
}

impl Drop for RunningChange {
    fn drop(&mut self) {
        match self.within {
            // Those who wait for what was locked besides look again.
            Some(_) => self.registry.wake(self.party()),
            None => self.registry.end_change(self.number),
        }
    }
}

/// A table that no other transaction locks, writes to or changes.
#[derive(Debug)]
pub struct ExclusiveTable {
    table: Arc<Table>,
    /// Goes before the statement ends: who waits for that finds the table free.
    _hold: DefinitionHold,
    _change: Arc<RunningChange>,
}

impl ExclusiveTable {
    /// The table.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }
}

impl Engine {
    /// What a statement that changes definitions locks tables with: each is waited for as long as
    /// `timeout` at most, and until `cancel` stops the statement.
    #[must_use]
    pub fn table_locker(&self, timeout: Duration, cancel: &CancelToken) -> TableLocker {
        self.table_locker_within(timeout, cancel, None)
    }

    /// As [`Engine::table_locker`], for a session that does not wait for tables that it has locked.
    #[must_use]
    pub fn table_locker_within(
        &self,
        timeout: Duration,
        cancel: &CancelToken,
        locked: Option<&LockedTables>,
    ) -> TableLocker {
        TableLocker {
            change: RunningChange::new(&self.registry, locked.map(LockedTables::change)),
            timeout,
            cancel: cancel.clone(),
        }
    }

    /// Locks a table exclusively, waiting for the transactions that use it to end.
    ///
    /// # Errors
    /// [`EngineError::NoSuchSchema`], [`EngineError::NoSuchTable`], [`EngineError::Deadlock`],
    /// [`EngineError::LockTimeout`], [`EngineError::Cancelled`].
    pub async fn lock_exclusively(
        &self,
        name: &TableName,
        locker: &TableLocker,
    ) -> Result<ExclusiveTable, EngineError> {
        let (table, hold) = self.lock_table(name, TableUse::Exclusive, locker).await?;
        Ok(ExclusiveTable {
            table,
            _hold: hold,
            _change: locker.change.clone(),
        })
    }

    /// Locks the table that has a name.
    pub(super) async fn lock_table(
        &self,
        name: &TableName,
        mode: TableUse,
        locker: &TableLocker,
    ) -> Result<(Arc<Table>, DefinitionHold), EngineError> {
        let deadline = Instant::now() + locker.timeout;
        loop {
            let table = self.catalog.table(&name.schema, &name.name)?;
            let (lock, wish) = (&table.definition, (locker.party().into(), mode));
            let hold =
                DefinitionHold::take(&self.registry, lock, wish, deadline, &locker.cancel).await?;
            // Another one may have taken the name while the lock was waited for.
            if self.catalog.is_current(&table) {
                return Ok((table, hold));
            }
        }
    }
}
