//! Making and dropping stored procedures. As of a view, a change of one is a record of the catalog and needs no lock:
//! who runs it goes on with what it was.

use std::sync::Arc;

use super::change::Change;
use super::lock::TableName;
use crate::EngineError;
use crate::catalog::RoutineDef;
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

    /// Makes a procedure, or puts it in the place of the one that `make` is given; nothing is done for `None`.
    ///
    /// # Errors
    /// [`EngineError::NoSuchSchema`]; [`EngineError::BadDefinition`] if it is too long; those of `make`.
    pub async fn put_routine<E: From<EngineError>>(
        self: &Arc<Self>,
        name: &TableName,
        make: impl FnOnce(Option<&RoutineDef>) -> Result<Option<RoutineDef>, E>,
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
        Ok(self.make_change(turn, Vec::new(), change).await?)
    }

    /// Drops a procedure; false if there is none.
    ///
    /// # Errors
    /// What storage says.
    pub async fn drop_routine(self: &Arc<Self>, name: &TableName) -> Result<bool, EngineError> {
        let turn = self.turn().await?;
        if self.routine(&name.schema, &name.name).is_none() {
            return Ok(false);
        }
        let mut change = Change::default();
        change.remove_routine(name);
        self.make_change(turn, Vec::new(), change).await?;
        Ok(true)
    }
}
