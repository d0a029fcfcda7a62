//! Making and dropping triggers, which are a part of their table's definition: rows stay where they are.

use std::sync::Arc;

use super::change::Change;
use super::lock::ExclusiveTable;
use crate::EngineError;
use crate::catalog::{Table, TableDef, TriggerDef};
use crate::engine::Engine;

/// The triggers of a table, in the order in which they fire.
pub type Triggers = Vec<Arc<TriggerDef>>;

impl Engine {
    /// The trigger of a schema with a name, and its table.
    #[must_use]
    pub fn trigger(&self, schema: &str, name: &str) -> Option<(Arc<Table>, Arc<TriggerDef>)> {
        let of_table = |table: Arc<Table>| {
            let mut triggers = table.def.triggers.iter();
            let found = triggers.find(|trigger| trigger.name == name)?.clone();
            Some((table, found))
        };
        self.catalog.tables(schema).into_iter().find_map(of_table)
    }

    /// Gives a table the triggers that `make` makes of those that it has; nothing is done for `None`. No other trigger
    /// of the database changes while it is asked.
    ///
    /// # Errors
    /// Those of `make`; [`EngineError::BadDefinition`] if the definition is too long; or what storage says.
    pub async fn change_triggers<E: From<EngineError>>(
        self: &Arc<Self>,
        locked: ExclusiveTable,
        make: impl FnOnce(&Triggers) -> Result<Option<Triggers>, E>,
    ) -> Result<(), E> {
        let turn = self.turn().await?;
        let old = locked.table().clone();
        let Some(triggers) = make(&old.def.triggers)? else {
            return Ok(());
        };
        let def = TableDef {
            triggers,
            ..old.def.clone()
        };
        let stats = (*old.stats()).clone();
        let new = old.successor(old.id, def, &old.roots(), stats)?;
        let mut change = Change::default();
        change.remove(&old);
        change.put(new);
        Ok(self.make_change(turn, vec![locked], change).await?)
    }
}
