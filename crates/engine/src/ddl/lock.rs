//! Exclusive locks of tables.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::EngineError;
use crate::catalog::{Table, ViewDef};
use crate::engine::Engine;
use crate::scan::CancelToken;
use crate::txn::{DefinitionHold, LockMode, Party, Registry};

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
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

/// A statement that changes definitions: locks the tables it needs, one after the other.
#[derive(Clone, Debug)]
pub struct TableLocker {
    change: Arc<RunningChange>,
    timeout: Duration,
    cancel: CancelToken,
}

/// Others wait for its end.
#[derive(Debug)]
struct RunningChange {
    registry: Arc<Registry>,
    number: u64,
}

impl Drop for RunningChange {
    fn drop(&mut self) {
        self.registry.end_change(self.number);
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
        let registry = self.registry.clone();
        let number = registry.begin_change();
        TableLocker {
            change: Arc::new(RunningChange { registry, number }),
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
        let TableLocker {
            change,
            timeout,
            cancel,
        } = locker;
        let deadline = Instant::now() + *timeout;
        loop {
            let table = self.catalog.table(&name.schema, &name.name)?;
            let wish = (Party::Change(change.number), LockMode::Exclusive);
            let lock = &table.definition;
            let hold = DefinitionHold::take(&self.registry, lock, wish, deadline, cancel).await?;
            // Another one may have taken the name while the lock was waited for.
            if self.catalog.is_current(&table) {
                return Ok(ExclusiveTable {
                    table,
                    _hold: hold,
                    _change: change.clone(),
                });
            }
        }
    }
}
