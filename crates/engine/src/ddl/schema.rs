//! Making, dropping and renaming schemas and tables, and emptying tables: no row is looked at.

use std::collections::BTreeMap;
use std::sync::Arc;

use perigee_types::{IndexId, PageId, TableId};
use perigee_value::Collation;

use super::change::Change;
use super::lock::{ExclusiveTable, TableLocker, TableName};
use crate::EngineError;
use crate::catalog::{IndexRoot, Table, TableDef, TableStats};
use crate::engine::Engine;

/// Stands for a root until there is one.
pub(super) const NO_ROOT: IndexRoot = IndexRoot::new(IndexId(0), PageId(0));

impl Engine {
    /// Makes an empty schema whose tables are in `utf8mb4_bin` unless they say something else.
    ///
    /// # Errors
    /// [`EngineError::SchemaExists`].
    pub async fn create_schema(self: &Arc<Self>, name: &str) -> Result<(), EngineError> {
        self.create_schema_of(name, Collation::UTF8MB4_BIN).await
    }

    /// Gives tables of a schema that are to come another collation.
    ///
    /// # Errors
    /// [`EngineError::NoSuchSchema`].
    pub async fn alter_schema(
        self: &Arc<Self>,
        name: &str,
        collation: Collation,
    ) -> Result<(), EngineError> {
        let turn = self.turn().await?;
        if !self.catalog.schemas.read().contains_key(name) {
            return Err(EngineError::NoSuchSchema(name.to_owned()));
        }
        let mut change = Change::default();
        change.put_schema(name, collation);
        self.make_change(turn, Vec::new(), change).await
    }

    /// Makes an empty schema whose tables have a collation unless they say another one.
    ///
    /// # Errors
    /// [`EngineError::SchemaExists`].
    pub async fn create_schema_of(
        self: &Arc<Self>,
        name: &str,
        collation: Collation,
    ) -> Result<(), EngineError> {
        let turn = self.turn().await?;
        if self.catalog.schemas.read().contains_key(name) {
            return Err(EngineError::SchemaExists(name.to_owned()));
        }
        let mut change = Change::default();
        change.put_schema(name, collation);
        self.make_change(turn, Vec::new(), change).await
    }

    /// Drops a schema with all its tables; returns how many there were.
    ///
    /// # Errors
    /// [`EngineError::NoSuchSchema`], or as [`Engine::lock_exclusively`].
    pub async fn drop_schema(
        self: &Arc<Self>,
        name: &str,
        locker: &TableLocker,
    ) -> Result<usize, EngineError> {
        loop {
            let mut locked = Vec::new();
            for table in self.catalog.tables(name) {
                let name = TableName::of(&table);
                locked.push(self.lock_exclusively(&name, locker).await?);
            }
            let turn = self.turn().await?;
            let tables = match self.catalog.schemas.read().get(name) {
                Some(tables) => tables.values().cloned().collect::<Vec<_>>(),
                None => return Err(EngineError::NoSuchSchema(name.to_owned())),
            };
            // Others may have come while the locks were waited for.
            let is_locked = |table: &Arc<Table>| locked.iter().any(|l| l.table().id == table.id);
            if !tables.iter().all(is_locked) {
                continue;
            }
            let mut change = Change::default();
            tables.iter().for_each(|table| change.remove(table));
            change.drop_schema(name);
            change.moves_trees();
            self.make_change(turn, locked, change).await?;
            return Ok(tables.len());
        }
    }

    /// Makes an empty table.
    ///
    /// # Errors
    /// [`EngineError::NoSuchSchema`], [`EngineError::TableExists`], [`EngineError::BadDefinition`].
    pub async fn create_table(self: &Arc<Self>, def: TableDef) -> Result<Arc<Table>, EngineError> {
        // Roots and ids come with their log group; a trial table checks the definition before.
        let roots = vec![NO_ROOT; def.indexes.len() + 1];
        let trial = Table::new(TableId(0), def.clone(), &roots, TableStats::default())?;
        let turn = self.turn().await?;
        self.check_free(&TableName::of(&trial))?;
        let indexes: Vec<_> = trial.indexes.iter().collect();
        let (id, roots) = self.make_trees(&indexes).await?;
        let mut change = Change::default();
        let table = change.put(Table::new(id, def, &roots, TableStats::default())?);
        self.make_change(turn, Vec::new(), change).await?;
        Ok(table)
    }

    /// Drops tables, all or none. Reads that use them go on with what they have.
    ///
    /// # Errors
    /// What storage says.
    pub async fn drop_tables(
        self: &Arc<Self>,
        tables: Vec<ExclusiveTable>,
    ) -> Result<(), EngineError> {
        let turn = self.turn().await?;
        let mut change = Change::default();
        tables
            .iter()
            .for_each(|locked| change.remove(locked.table()));
        self.make_change(turn, tables, change).await
    }

    /// Empties a table: it gets new trees.
    ///
    /// # Errors
    /// What storage says.
    pub async fn truncate_table(
        self: &Arc<Self>,
        locked: ExclusiveTable,
    ) -> Result<(), EngineError> {
        let old = locked.table().clone();
        let turn = self.turn().await?;
        let indexes: Vec<_> = old.indexes.iter().collect();
        let (id, roots) = self.make_trees(&indexes).await?;
        let mut def = old.def.clone();
        if let Some(auto) = &mut def.auto_increment {
            auto.start = 1;
        }
        let new = old.successor(id, def, &roots, TableStats::default())?;
        let mut change = Change::default();
        change.remove(&old);
        change.put(new);
        change.moves_trees();
        self.make_change(turn, vec![locked], change).await
    }

    /// Renames tables one after the other, all or none: a name that becomes free may be used by
    /// the next.
    ///
    /// # Errors
    /// [`EngineError::TableExists`], or as [`Engine::lock_exclusively`].
    pub async fn rename_tables(
        self: &Arc<Self>,
        renames: &[(TableName, TableName)],
        locker: &TableLocker,
    ) -> Result<(), EngineError> {
        let mut sources: Vec<_> = renames.iter().map(|(from, _)| from).collect();
        sources.sort();
        sources.dedup();
        let mut locked = Vec::new();
        for name in sources {
            match self.lock_exclusively(name, locker).await {
                Ok(table) => locked.push(table),
                // It may be the new name of another one.
                Err(EngineError::NoSuchTable(_) | EngineError::NoSuchSchema(_)) => {}
                Err(e) => return Err(e),
            }
        }
        let turn = self.turn().await?;
        let change = self.renamed(renames, &locked)?;
        self.make_change(turn, locked, change).await
    }

    fn renamed(
        &self,
        renames: &[(TableName, TableName)],
        locked: &[ExclusiveTable],
    ) -> Result<Change, EngineError> {
        // Who has a name after the renames so far, if it is not whom the catalog says.
        let mut owners: BTreeMap<&TableName, Option<Arc<Table>>> = BTreeMap::new();
        for (from, to) in renames {
            let by_lock = || {
                let is = |l: &&ExclusiveTable| TableName::of(l.table()) == *from;
                locked.iter().find(is).map(|l| l.table().clone())
            };
            let table = owners.get(from).cloned().unwrap_or_else(by_lock);
            let table = table.ok_or_else(|| EngineError::NoSuchTable(from.to_string()))?;
            match owners.get(to) {
                Some(None) => {}
                Some(Some(_)) => return Err(EngineError::TableExists(to.to_string())),
                None => self.check_free(to)?,
            }
            owners.insert(from, None);
            owners.insert(to, Some(table));
        }
        let mut change = Change::default();
        let moved = owners.values().flatten();
        moved.clone().for_each(|table| change.remove(table));
        for (name, table) in &owners {
            let Some(table) = table else { continue };
            let def = TableDef {
                schema: name.schema.clone(),
                name: name.name.clone(),
                ..table.def.clone()
            };
            let stats = (*table.stats()).clone();
            change.put(table.successor(table.id, def, &table.roots(), stats)?);
        }
        Ok(change)
    }
}
