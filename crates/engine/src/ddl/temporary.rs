//! Making and dropping temporary tables: in memory, without a turn at the catalog and without waiting for the log.
//!
//! A session uses its temporary tables in one statement after the other, so making and dropping them locks nothing. Its
//! open transaction may have written to one that is dropped: undo of a table that nobody has is passed over. Changes of
//! their definitions are those of other tables (ALTER TABLE, TRUNCATE, CREATE INDEX), but for the catalog's records.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use perigee_types::TableId;

use super::lock::TableName;
use super::schema::NO_ROOT;
use crate::EngineError;
use crate::catalog::{IndexRoot, Table, TableDef, TableStats, temporary_schema};
use crate::engine::Engine;

/// The temporary tables of a session; dropping this drops them.
pub struct TemporaryTables {
    engine: Arc<Engine>,
    session: u64,
    /// For each schema in which the session has made temporary tables the one in which they lie.
    schemas: HashMap<String, String>,
}

impl Engine {
    /// The temporary tables of a new session: none.
    #[must_use]
    pub fn temporary_tables(self: &Arc<Self>) -> TemporaryTables {
        TemporaryTables {
            engine: self.clone(),
            session: self.catalog.temporary.session(),
            schemas: HashMap::new(),
        }
    }

    /// Puts a table that has its trees among the temporary ones, unless its name is taken.
    pub(super) fn publish_temporary(&self, table: Table) -> Result<Arc<Table>, EngineError> {
        self.check_free(&TableName::of(&table))?;
        let table = Arc::new(table);
        let new = std::slice::from_ref(&table);
        self.catalog.temporary.replace(&[], new);
        Ok(table)
    }
}

impl TemporaryTables {
    /// The schema in which temporary tables lie that the session makes in a schema.
    pub fn schema(&mut self, schema: &str) -> &str {
        let session = self.session;
        let own = self.schemas.entry(schema.to_owned());
        own.or_insert_with(|| temporary_schema(session, schema))
    }

    /// The temporary table that statements of the session mean by a name, if there is one.
    #[must_use]
    pub fn find(&self, schema: &str, name: &str) -> Option<Arc<Table>> {
        let schema = self.schemas.get(schema)?;
        self.engine.catalog.temporary.table(schema, name)
    }

    /// Makes an empty temporary table, whose schema is one of [`TemporaryTables::schema`].
    ///
    /// # Errors
    /// [`EngineError::TableExists`], [`EngineError::BadDefinition`], [`EngineError::Refused`], or what storage says.
    pub async fn create(&self, def: TableDef) -> Result<Arc<Table>, EngineError> {
        let engine = &self.engine;
        // A trial table checks the definition before it gets trees.
        let roots: Vec<IndexRoot> = vec![NO_ROOT; def.indexes.len() + 1];
        let trial = Table::new(TableId(0), def.clone(), &roots, TableStats::default())?;
        engine.check_free(&TableName::of(&trial))?;
        engine.check_names(&def, None, &BTreeMap::new())?;
        let indexes: Vec<_> = trial.indexes.iter().collect();
        let (id, roots) = engine.make_trees(&indexes).await?;
        engine.publish_temporary(Table::new(id, def, &roots, TableStats::default())?)
    }

    /// Drops a temporary table. What reads it goes on with what it has.
    pub fn remove(&self, table: &Arc<Table>) {
        let old = std::slice::from_ref(table);
        self.engine.catalog.temporary.replace(old, &[]);
    }
}

impl Drop for TemporaryTables {
    fn drop(&mut self) {
        for schema in self.schemas.values() {
            self.engine.catalog.temporary.remove_schema(schema);
        }
    }
}
