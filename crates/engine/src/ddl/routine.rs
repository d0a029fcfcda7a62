//! Making and dropping stored procedures. As of a view, a change of one is a record of the catalog and needs no lock:
//! who runs it goes on with what it was.

use std::sync::Arc;

use super::change::Change;
use super::lock::TableName;
use crate::EngineError;
use crate::catalog::{AccountRecords, RoutineDef};
use crate::engine::Engine;

impl Engine {
    /// A procedure.
    #[must_use]
    pub fn routine(&self, schema: &str, name: &str) -> Option<Arc<RoutineDef>> {
        self.catalog.routine(schema, name)
    }

    /// All procedures of a schema, by name.
    #[must_use]
    pub fn routines(&self, schema: &str) -> Vec<Arc<RoutineDef>> {
        self.catalog.routines_of(schema)
    }

    /// Makes a procedure, or puts it in the place of the one that `make` is given; nothing is done for `None`. The
    /// records of accounts become those of `accounts` with it, if it gives some.
    ///
    /// # Errors
    /// [`EngineError::NoSuchSchema`]; [`EngineError::BadDefinition`] if it is too long; those of `make` and `accounts`.
    pub async fn put_routine<E: From<EngineError>>(
        self: &Arc<Self>,
        name: &TableName,
        make: impl FnOnce(Option<&RoutineDef>) -> Result<Option<RoutineDef>, E>,
        accounts: impl FnOnce(&AccountRecords) -> Result<Option<AccountRecords>, E>,
    ) -> Result<(), E> {
        let turn = self.turn().await?;
        if !self.catalog.schemas.read().contains_key(&name.schema) {
            return Err(EngineError::NoSuchSchema(name.schema.clone()).into());
        }
        let old = self.routine(&name.schema, &name.name);
        let Some(def) = make(old.as_deref())? else {
            return Ok(());
        };
        let mut change = Change::default();
        change.put_routine(def);
        self.change_accounts_with(&mut change, accounts)?;
        Ok(self.make_change(turn, Vec::new(), change).await?)
    }

    /// Drops a procedure; false if there is none. The records of accounts become those of `accounts` with it, if it
    /// gives some.
    ///
    /// # Errors
    /// What storage says; those of `accounts`.
    pub async fn drop_routine<E: From<EngineError>>(
        self: &Arc<Self>,
        name: &TableName,
        accounts: impl FnOnce(&AccountRecords) -> Result<Option<AccountRecords>, E>,
    ) -> Result<bool, E> {
        let turn = self.turn().await?;
        if self.routine(&name.schema, &name.name).is_none() {
            return Ok(false);
        }
        let mut change = Change::default();
        change.remove_routine(name);
        self.change_accounts_with(&mut change, accounts)?;
        self.make_change(turn, Vec::new(), change).await?;
        Ok(true)
    }
}
