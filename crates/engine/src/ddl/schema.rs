//! Making, dropping and renaming schemas and tables, and emptying tables: no row is looked at.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use perigee_types::{IndexId, PageId, TableId};
use perigee_value::Collation;

use super::change::Change;
use super::lock::{ExclusiveTable, TableLocker, TableName};
use super::related;
use crate::EngineError;
use crate::catalog::{IndexRoot, Table, TableDef, TableStats, ViewDef};
use crate::engine::Engine;
use crate::refusal::Refusal;
use crate::scan::CancelToken;

/// How long a table is waited for unless a statement says it.
const LONG: Duration = Duration::from_secs(365 * 24 * 3600);

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

    /// Drops a schema with all its tables, views and procedures; returns how many tables and views there were. With `checks` no foreign key of
    /// another schema may refer to them.
    ///
    /// # Errors
    /// [`EngineError::NoSuchSchema`], [`EngineError::Refused`], or as [`Engine::lock_exclusively`].
    pub async fn drop_schema(
        self: &Arc<Self>,
        name: &str,
        checks: bool,
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
            if checks {
                self.check_not_referenced(&tables, Refusal::TableReferenced)?;
            }
            let mut change = Change::default();
            tables.iter().for_each(|table| change.remove(table));
            let views = self.views(name);
            let names = views.iter().map(|view| TableName::of_view(view));
            names.for_each(|view| change.remove_view(&view));
            for routine in self.routines(name) {
                change.remove_routine(&TableName::of_routine(&routine));
            }
            change.drop_schema(name);
            change.moves_trees();
            self.make_change(turn, locked, change).await?;
            return Ok(tables.len() + views.len());
        }
    }

    /// Makes an empty table that refers to no other.
    ///
    /// # Errors
    /// As [`Engine::create_related_table`].
    pub async fn create_table(self: &Arc<Self>, def: TableDef) -> Result<Arc<Table>, EngineError> {
        let locker = self.table_locker(LONG, &CancelToken::new());
        self.create_related_table(def, true, &locker).await
    }

    /// Makes an empty table. With `checks`, the tables that it refers to exist.
    ///
    /// # Errors
    /// [`EngineError::NoSuchSchema`], [`EngineError::TableExists`], [`EngineError::BadDefinition`],
    /// [`EngineError::Refused`], or as [`Engine::lock_exclusively`].
    pub async fn create_related_table(
        self: &Arc<Self>,
        def: TableDef,
        checks: bool,
        locker: &TableLocker,
    ) -> Result<Arc<Table>, EngineError> {
        // Roots and ids come with their log group; a trial table checks the definition before.
        let roots = vec![NO_ROOT; def.indexes.len() + 1];
        let trial = Table::new(TableId(0), def.clone(), &roots, TableStats::default())?;
        let (locked, turn) = self.lock_parents(&def, locker).await?;
        self.check_free(&TableName::of(&trial))?;
        self.check_constraints(&def, None, checks)?;
        let indexes: Vec<_> = trial.indexes.iter().collect();
        let (id, roots) = self.make_trees(&indexes).await?;
        let mut change = Change::default();
        let table = change.put(Table::new(id, def, &roots, TableStats::default())?);
        self.make_change(turn, locked, change).await?;
        Ok(table)
    }

    /// Drops tables, all or none. Reads that use them go on with what they have. With `checks` no foreign key of
    /// another table may refer to them.
    ///
    /// # Errors
    /// [`EngineError::Refused`], or what storage says.
    pub async fn drop_tables(
        self: &Arc<Self>,
        tables: Vec<ExclusiveTable>,
        checks: bool,
    ) -> Result<(), EngineError> {
        let turn = self.turn().await?;
        if checks {
            let tables: Vec<_> = tables.iter().map(|locked| locked.table().clone()).collect();
            self.check_not_referenced(&tables, Refusal::TableReferenced)?;
        }
        let mut change = Change::default();
        tables
            .iter()
            .for_each(|locked| change.remove(locked.table()));
        self.make_change(turn, tables, change).await
    }

    /// Empties a table: it gets new trees. With `checks` no foreign key of another table may refer to it.
    ///
    /// # Errors
    /// [`EngineError::Refused`], or what storage says.
    pub async fn truncate_table(
        self: &Arc<Self>,
        locked: ExclusiveTable,
        checks: bool,
    ) -> Result<(), EngineError> {
        let old = locked.table().clone();
        let turn = self.turn().await?;
        if checks {
            self.check_not_referenced(std::slice::from_ref(&old), Refusal::RowsReferenced)?;
        }
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

    /// Renames tables and views one after the other, all or none: a name that becomes free may be used by
    /// the next.
    ///
    /// # Errors
    /// [`EngineError::TableExists`], or as [`Engine::lock_exclusively`].
    pub async fn rename_tables(
        self: &Arc<Self>,
        renames: &[(TableName, TableName)],
        locker: &TableLocker,
    ) -> Result<(), EngineError> {
        // One of them may be the new name of another one.
        let sources: Vec<_> = renames.iter().map(|(from, _)| from.clone()).collect();
        let (locked, turn) = self.lock_related(&sources, &[], locker).await?;
        let change = self.renamed(renames, &locked)?;
        self.make_change(turn, locked, change).await
    }

    fn renamed(
        &self,
        renames: &[(TableName, TableName)],
        locked: &[ExclusiveTable],
    ) -> Result<Change, EngineError> {
        // Who has a name after the renames so far, if it is not whom the catalog says.
        let mut owners: BTreeMap<&TableName, Option<Owner>> = BTreeMap::new();
        for (from, to) in renames {
            let by_lock = || {
                let is = |l: &&ExclusiveTable| TableName::of(l.table()) == *from;
                let table = locked.iter().find(is).map(|l| l.table().clone());
                let view = || self.view(&from.schema, &from.name).map(Owner::View);
                table.map(Owner::Table).or_else(view)
            };
            let owner = owners.get(from).cloned().unwrap_or_else(by_lock);
            let owner = owner.ok_or_else(|| EngineError::NoSuchTable(from.to_string()))?;
            match owners.get(to) {
                Some(None) => {}
                Some(Some(_)) => return Err(EngineError::TableExists(to.to_string())),
                None => self.check_free(to)?,
            }
            owners.insert(from, None);
            owners.insert(to, Some(owner));
        }
        let moved: BTreeMap<TableName, TableName> = owners
            .iter()
            .filter_map(|(name, owner)| match owner {
                Some(Owner::Table(table)) => Some((TableName::of(table), (*name).clone())),
                _ => None,
            })
            .collect();
        let mut change = Change::default();
        let mut renamed = Vec::new();
        for table in locked.iter().map(ExclusiveTable::table) {
            let mut def = table.def.clone();
            related::follow_renames(&mut def, &moved);
            related::check_moved(&table.def, &def)?;
            if def != table.def {
                change.remove(table);
                renamed.push((table, def));
            }
        }
        for (table, def) in renamed {
            if moved.contains_key(&TableName::of(table)) {
                self.check_names(&def, Some(table), &moved)?;
            }
            let stats = (*table.stats()).clone();
            change.put(table.successor(table.id, def, &table.roots(), stats)?);
        }
        rename_views(&owners, &mut change);
        Ok(change)
    }
}

/// What has a name.
#[derive(Clone)]
enum Owner {
    Table(Arc<Table>),
    View(Arc<ViewDef>),
}

/// Gives views their new names. A name that is taken may be one that another view leaves.
fn rename_views(owners: &BTreeMap<&TableName, Option<Owner>>, change: &mut Change) {
    let views = owners.iter().filter_map(|(name, owner)| match owner {
        Some(Owner::View(view)) => Some((*name, view)),
        _ => None,
    });
    for (_, view) in views.clone() {
        change.remove_view(&TableName::of_view(view));
    }
    for (name, view) in views {
        change.put_view(ViewDef {
            schema: name.schema.clone(),
            name: name.name.clone(),
            ..view.as_ref().clone()
        });
    }
}
