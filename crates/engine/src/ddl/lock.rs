//! Exclusive locks of tables.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedRwLockWriteGuard;

use crate::EngineError;
use crate::catalog::Table;
use crate::engine::Engine;
use crate::scan::CancelToken;

/// How often a waiting statement looks whether it was cancelled.
const CANCEL_INTERVAL: Duration = Duration::from_millis(20);

/// Schema and name of a table.
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
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

/// A table that no other transaction locks, writes to or changes.
#[derive(Debug)]
pub struct ExclusiveTable {
    table: Arc<Table>,
    _guard: OwnedRwLockWriteGuard<()>,
}

impl ExclusiveTable {
    /// The table.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }
}

impl Engine {
    /// Locks a table exclusively, waiting for the transactions that use it to end.
    ///
    /// # Errors
    /// [`EngineError::NoSuchSchema`], [`EngineError::NoSuchTable`], [`EngineError::Cancelled`].
    pub async fn lock_exclusively(
        &self,
        name: &TableName,
        cancel: &CancelToken,
    ) -> Result<ExclusiveTable, EngineError> {
        loop {
            let table = self.catalog.table(&name.schema, &name.name)?;
            let guard = lock(&table, cancel).await?;
            // Another one may have taken the name while the lock was waited for.
            if self.catalog.is_current(&table) {
                return Ok(ExclusiveTable {
                    table,
                    _guard: guard,
                });
            }
        }
    }
}

async fn lock(
    table: &Table,
    cancel: &CancelToken,
) -> Result<OwnedRwLockWriteGuard<()>, EngineError> {
    let mut waiting = Box::pin(table.definition.clone().write_owned());
    loop {
        match tokio::time::timeout(CANCEL_INTERVAL, &mut waiting).await {
            Ok(guard) => return Ok(guard),
            Err(_) if cancel.is_cancelled() => return Err(EngineError::Cancelled),
            Err(_) => {}
        }
    }
}
