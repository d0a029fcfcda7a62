//! [`Change`]: what a statement changes in the catalog, made at once.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use futures::FutureExt;
use perigee_types::{IndexId, TableId, Writer};
use perigee_value::Collation;
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::lock::{ExclusiveTable, TableName};
use crate::EngineError;
use crate::btree::Tree;
use crate::catalog::{
    AccountRecords, Changes, Index, IndexRoot, RoutineDef, Table, TableStats, ViewDef, account_key,
    no_stats, number_key, routine_key, schema_key, stats_records, table_key, view_key,
};
use crate::engine::{Engine, system_counter};
use crate::errand::{self, freeing_space};
use crate::mtr::Mtr;
use crate::txn::system::{Counter, set_counter};

/// Serialises changes of the catalog as long as it lives.
pub(super) type Turn = OwnedMutexGuard<()>;

/// Changes of the catalog's records and of what is kept of them in memory.
#[derive(Default)]
pub(super) struct Change {
    records: Changes,
    retired: Vec<Arc<Table>>,
    tables: Vec<Arc<Table>>,
    /// In this order; `None` takes one out.
    views: Vec<(TableName, Option<Arc<ViewDef>>)>,
    /// As the views.
    routines: Vec<(TableName, Option<Arc<RoutineDef>>)>,
    dropped_schema: Option<String>,
    /// A new schema, or one whose collation changes.
    new_schema: Option<(String, Collation)>,
    accounts: Option<AccountRecords>,
    moves: bool,
}

impl Change {
    /// Takes a table out.
    pub(super) fn remove(&mut self, table: &Arc<Table>) {
        self.retired.push(table.clone());
        if table.def.is_temporary() {
            return;
        }
        let key = table_key(&table.def.schema, &table.def.name);
        self.records.insert(key, None);
        self.records.extend(no_stats(table));
        self.records.insert(number_key(table.id), None);
    }

    /// Puts a table in; those whose names are needed were taken out before.
    pub(super) fn put(&mut self, table: Table) -> Arc<Table> {
        if !table.def.is_temporary() {
            self.put_records(&table);
        }
        let table = Arc::new(table);
        self.tables.push(table.clone());
        table
    }

    fn put_records(&mut self, table: &Table) {
        let mut w = Writer::new();
        table.encode(&mut w);
        let key = table_key(&table.def.schema, &table.def.name);
        self.records.insert(key, Some(w.into_bytes()));
        let stats = table.stats();
        if *stats != TableStats::default() {
            self.records.extend(stats_records(table.id, &stats));
        }
        let kept = table.def.auto_increment.zip(table.numbers());
        if let Some(limit) = kept.and_then(|(auto, numbers)| numbers.kept(auto.start)) {
            let limit = limit.to_le_bytes().to_vec();
            self.records.insert(number_key(table.id), Some(limit));
        }
    }

    /// Makes an empty schema, or gives one another collation of tables to come.
    pub(super) fn put_schema(&mut self, name: &str, collation: Collation) {
        let record = collation.0.to_le_bytes().to_vec();
        self.records.insert(schema_key(name), Some(record));
        self.new_schema = Some((name.to_owned(), collation));
    }

    /// Puts a view in, in the place of the one of its name.
    pub(super) fn put_view(&mut self, view: ViewDef) {
        let key = view_key(&view.schema, &view.name);
        self.records.insert(key, Some(view.encode()));
        let name = TableName::of_view(&view);
        self.views.push((name, Some(Arc::new(view))));
    }

    /// Takes a view out.
    pub(super) fn remove_view(&mut self, name: &TableName) {
        self.records
            .insert(view_key(&name.schema, &name.name), None);
        self.views.push((name.clone(), None));
    }

    /// Puts a procedure in, in the place of the one of its name.
    pub(super) fn put_routine(&mut self, routine: RoutineDef) {
        let key = routine_key(&routine.schema, &routine.name);
        self.records.insert(key, Some(routine.encode()));
        let name = TableName::of_routine(&routine);
        self.routines.push((name, Some(Arc::new(routine))));
    }

    /// Takes a procedure out.
    pub(super) fn remove_routine(&mut self, name: &TableName) {
        let key = routine_key(&name.schema, &name.name);
        self.records.insert(key, None);
        self.routines.push((name.clone(), None));
    }

    /// Takes a schema out, whose tables were taken out before.
    pub(super) fn drop_schema(&mut self, name: &str) {
        self.records.insert(schema_key(name), None);
        self.dropped_schema = Some(name.to_owned());
    }

    /// Puts other records of accounts in the place of those that there are.
    pub(super) fn accounts(&mut self, old: &AccountRecords, new: AccountRecords) {
        let gone = old.keys().filter(|name| !new.contains_key(*name));
        let gone = gone.map(|name| (account_key(name), None));
        let changed = new
            .iter()
            .filter(|(name, value)| old.get(*name) != Some(value));
        let changed = changed.map(|(name, value)| (account_key(name), Some(value.clone())));
        self.records.extend(gone.chain(changed));
        self.accounts = Some(new);
    }

    /// Says that the new tables have other trees than those they take the place of: views from
    /// before may need versions that the new ones do not have, and views from now on changes that
    /// the old ones do not get.
    pub(super) fn moves_trees(&mut self) {
        self.moves = true;
    }

    /// Makes the changes visible in memory.
    fn publish(self, engine: &Engine) {
        // A transaction that ends when the tables are there: the views that see it are those made
        // afterwards.
        let moved = self.moves.then(|| {
            let trx = engine.registry.begin();
            engine.reserve(Counter::Trx, trx.0);
            self.tables.iter().for_each(|table| table.rebuilt_by(trx));
            self.retired.iter().for_each(|table| table.retired_by(trx));
            trx
        });
        self.publish_tables(engine);
        if let Some(trx) = moved {
            engine.registry.end(trx);
        }
    }

    /// Roots of the tables that it puts in: as long as there are these, their trees stay.
    fn new_roots(&self) -> Vec<IndexRoot> {
        self.tables.iter().flat_map(|table| table.roots()).collect()
    }

    fn publish_tables(self, engine: &Engine) {
        let tables = self.retired.iter().chain(&self.tables);
        let is_related = tables
            .into_iter()
            .any(|table| !table.def.foreign_keys.is_empty());
        let temporary = &engine.catalog.temporary;
        temporary.replace(&self.retired, &self.tables);
        let is_lasting = |table: &Arc<Table>| !table.def.is_temporary();
        let mut schemas = engine.catalog.schemas.write();
        for table in self.retired.iter().filter(|table| is_lasting(table)) {
            if let Some(tables) = schemas.get_mut(&table.def.schema) {
                tables.remove(&table.def.name);
            }
        }
        for table in self.tables.into_iter().filter(is_lasting) {
            let tables = schemas.entry(table.def.schema.clone()).or_default();
            tables.insert(table.def.name.clone(), table);
        }
        let mut views = engine.catalog.views.write();
        for (name, view) in self.views {
            let key = (name.schema, name.name);
            match view {
                Some(view) => views.insert(key, view),
                None => views.remove(&key),
            };
        }
        drop(views);
        let mut routines = engine.catalog.routines.write();
        for (name, routine) in self.routines {
            let key = (name.schema, name.name);
            match routine {
                Some(routine) => routines.insert(key, routine),
                None => routines.remove(&key),
            };
        }
        drop(routines);
        let mut collations = engine.catalog.collations.write();
        if let Some((name, collation)) = self.new_schema {
            collations.insert(name.clone(), collation);
            schemas.entry(name).or_default();
        }
        if let Some(name) = self.dropped_schema {
            collations.remove(&name);
            schemas.remove(&name);
        }
        if is_related {
            engine.catalog.renew_references(&schemas);
        }
        if let Some(records) = self.accounts {
            engine.catalog.publish_accounts(records);
        }
    }
}

impl Engine {
    /// Waits until nobody else changes the catalog, or the statement is stopped.
    pub(super) async fn turn(&self) -> Result<Turn, EngineError> {
        let turn = self.catalog.ddl.clone().lock_owned();
        errand::wait(turn.map(Ok::<_, EngineError>)).await
    }

    /// Makes a change, which is durable when this returns. It is completed even if the caller goes
    /// away, or does not wait any longer for a log store that is.
    ///
    /// # Errors
    /// [`EngineError::OutcomeOpen`] if that takes too long or the statement is stopped; otherwise
    /// nothing is changed, or storage has stopped.
    pub(super) async fn make_change(
        self: &Arc<Self>,
        turn: Turn,
        locked: Vec<ExclusiveTable>,
        change: Change,
    ) -> Result<(), EngineError> {
        let engine = self.clone();
        let making = self.runtime.spawn(freeing_space(async move {
            // If this fails, or ends in the middle, the change may have been made all the same: then the new
            // trees stay, and the next start knows whose they are.
            let kept = ManuallyDrop::new(change.new_roots());
            engine.write_change(&change).await?;
            change.publish(&engine);
            drop(ManuallyDrop::into_inner(kept));
            drop(locked);
            drop(turn);
            Ok(())
        }));
        self.outcome_in_time(making, "the change of definition")
            .await
    }

    /// What a change of the catalog comes to, which is completed in any case.
    pub(crate) async fn outcome_in_time<T>(
        &self,
        making: JoinHandle<Result<T, EngineError>>,
        what: &'static str,
    ) -> Result<T, EngineError> {
        let made = making.map(|made| match made {
            Ok(outcome) => outcome,
            Err(e) => Err(EngineError::Corrupt(format!("{what}: {e}"))),
        });
        match timeout(self.config.commit_timeout, errand::wait(made)).await {
            Ok(Err(EngineError::Cancelled)) | Err(_) => Err(errand::outcome_open(self, what)),
            Ok(outcome) => outcome,
        }
    }

    async fn write_change(&self, change: &Change) -> Result<(), EngineError> {
        if change.records.is_empty() {
            // Of a temporary table: nothing of it is kept.
            return Ok(());
        }
        let lsn = self.catalog.apply(&change.records).await?;
        Ok(self.sal.wait_durable(lsn).await?)
    }

    /// Takes a table id, and ids and empty trees for indexes, as one log group.
    pub(super) async fn make_trees(
        &self,
        indexes: &[&Index],
    ) -> Result<(TableId, Vec<IndexRoot>), EngineError> {
        self.pool.admit().await?;
        let mut mtr = Mtr::new(&self.pool);
        let system = mtr.latch(&self.system);
        let id = system_counter(mtr.page(system), Counter::Table);
        let first = system_counter(mtr.page(system), Counter::Index);
        if id.max(first + indexes.len() as u64) > u64::from(u32::MAX) {
            let text = "the numbers of tables and indexes are used up".to_owned();
            return Err(EngineError::BadDefinition(text));
        }
        mtr.apply(system, set_counter(Counter::Table, id + 1));
        let count = indexes.len() as u64;
        mtr.apply(system, set_counter(Counter::Index, first + count));
        let mut roots = Vec::new();
        for (index, number) in indexes.iter().zip(first..) {
            let spec = crate::engine::tree_spec(index);
            let id = IndexId(number as u32);
            let made = Tree::create(&mut mtr, &self.pool, id, spec.kind, spec.shape);
            let retired = self.pool.allocator().retired();
            roots.push(IndexRoot::kept(id, made.root, retired));
        }
        let _ = mtr.commit();
        Ok((TableId(id as u32), roots))
    }

    /// The tables' names must be free and their schemas exist.
    pub(super) fn check_free(&self, name: &TableName) -> Result<(), EngineError> {
        if self.catalog.view(&name.schema, &name.name).is_some() {
            return Err(EngineError::TableExists(name.to_string()));
        }
        match self.catalog.table(&name.schema, &name.name) {
            Ok(_) => Err(EngineError::TableExists(name.to_string())),
            Err(EngineError::NoSuchTable(_)) => Ok(()),
            Err(e) => Err(e),
        }
    }
}
