//! The catalog's tree, and what it says kept in memory.
//!
//! A tree of its own at a fixed page; its records have two variable-length items, name and value:
//!
//! ```text
//! "s" schema                     a schema; no value
//! "t" schema 0 table             a table: ids, definition, roots (`Table::encode`)
//! "x" table id, big-endian       a table's statistics (`TableStats::encode`)
//! ```
//!
//! A definition appears or disappears with one record, so DDL is atomic: what it made before, such
//! as roots, is reached through that record only.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use perigee_page::{PLAIN_HEADER_LEN, PageKind, RecordShape};
use perigee_types::{IndexId, Lsn, PageId, Reader, TableId, TrxId, Writer};

use super::{IndexRoot, Table, TableDef, TableStats};
use crate::EngineError;
use crate::btree::{Inserted, KeySpan, MAX_RECORD_LEN, RecordChange, Tree, TreeSpec, Updated};
use crate::buffer::{Access, BufferPool};
use crate::engine::{Engine, system_counter};
use crate::mtr::Mtr;
use crate::txn::system::{Counter, set_counter};

/// The catalog's tree.
pub(crate) const CATALOG_ROOT: TreeSpec = TreeSpec {
    index: IndexId(1),
    root: PageId(3),
    kind: PageKind::Secondary,
    shape: catalog_shape(),
};

/// Shape of the catalog's records: name and value.
pub(crate) const fn catalog_shape() -> RecordShape {
    RecordShape {
        fixed_len: PLAIN_HEADER_LEN as u16,
        key_offset: PLAIN_HEADER_LEN as u16,
        key_len: 0,
        var_count: 2,
        header_len: PLAIN_HEADER_LEN as u8,
    }
}

/// All schemas and tables.
pub(crate) struct Catalog {
    tree: Tree,
    schemas: RwLock<BTreeMap<String, BTreeMap<String, Arc<Table>>>>,
    /// Serialises DDL.
    ddl: tokio::sync::Mutex<()>,
}

fn schema_key(schema: &str) -> Vec<u8> {
    [b"s", schema.as_bytes()].concat()
}

fn table_key(schema: &str, table: &str) -> Vec<u8> {
    [b"t", schema.as_bytes(), &[0], table.as_bytes()].concat()
}

fn stats_key(table: TableId) -> Vec<u8> {
    [b"x".as_slice(), &table.0.to_be_bytes()].concat()
}

fn record(key: &[u8], value: &[u8]) -> Result<Vec<u8>, EngineError> {
    let start = PLAIN_HEADER_LEN + 4;
    let bytes = start + key.len() + value.len();
    if bytes > MAX_RECORD_LEN {
        let text = format!("its definition takes {bytes} bytes, the limit is {MAX_RECORD_LEN}");
        return Err(EngineError::BadDefinition(text));
    }
    let mut record = vec![0; PLAIN_HEADER_LEN];
    record.extend(((start + key.len()) as u16).to_le_bytes());
    record.extend((bytes as u16).to_le_bytes());
    record.extend(key);
    record.extend(value);
    Ok(record)
}

impl Catalog {
    /// Reads the catalog.
    pub(crate) async fn open(pool: &Arc<BufferPool>) -> Result<Self, EngineError> {
        let tree = Tree::open(pool, CATALOG_ROOT);
        let mut entries = BTreeMap::new();
        let mut cursor = tree.range(KeySpan::all(), false, Access::Point);
        while let Some(run) = cursor.next().await? {
            let page = run.page.get();
            for slot in run.slots {
                let (shape, record) = (page.shape(), page.record(slot));
                entries.insert(
                    shape.var_item(record, 0).to_vec(),
                    shape.var_item(record, 1).to_vec(),
                );
            }
        }
        let schemas = RwLock::new(decode(&entries)?);
        Ok(Self {
            tree,
            schemas,
            ddl: tokio::sync::Mutex::default(),
        })
    }

    pub(crate) fn schemas(&self) -> Vec<String> {
        self.schemas.read().keys().cloned().collect()
    }

    pub(crate) fn tables(&self, schema: &str) -> Vec<Arc<Table>> {
        let schemas = self.schemas.read();
        schemas
            .get(schema)
            .map_or_else(Vec::new, |tables| tables.values().cloned().collect())
    }

    pub(crate) fn table(&self, schema: &str, name: &str) -> Result<Arc<Table>, EngineError> {
        let schemas = self.schemas.read();
        let tables = schemas
            .get(schema)
            .ok_or_else(|| EngineError::NoSuchSchema(schema.to_owned()))?;
        let missing = || EngineError::NoSuchTable(format!("{schema}.{name}"));
        tables.get(name).cloned().ok_or_else(missing)
    }

    /// True if the table is what the catalog has under its name.
    pub(crate) fn is_current(&self, table: &Arc<Table>) -> bool {
        let schemas = self.schemas.read();
        let tables = schemas.get(&table.def.schema);
        let found = tables.and_then(|tables| tables.get(&table.def.name));
        found.is_some_and(|found| Arc::ptr_eq(found, table))
    }

    /// The table with this id.
    pub(crate) fn table_by_id(&self, id: TableId) -> Option<Arc<Table>> {
        let schemas = self.schemas.read();
        schemas
            .values()
            .flat_map(BTreeMap::values)
            .find(|table| table.id == id)
            .cloned()
    }

    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<Lsn, EngineError> {
        match self.tree.insert(&record(key, value)?, TrxId(0)).await? {
            Inserted::Done(lsn) => Ok(lsn),
            Inserted::Duplicate(_) => {
                let name = String::from_utf8_lossy(key).into_owned();
                Err(EngineError::Corrupt(format!(
                    "catalog entry {name} exists unexpectedly"
                )))
            }
        }
    }

    async fn remove(&self, key: &[u8]) -> Result<Option<Lsn>, EngineError> {
        match self
            .tree
            .update(key, TrxId(0), |_| RecordChange::Remove)
            .await?
        {
            Updated::Done(lsn) => Ok(Some(lsn)),
            Updated::Kept | Updated::NotFound => Ok(None),
        }
    }

    /// Keeps new statistics of a table.
    pub(crate) async fn store_stats(
        &self,
        table: &Table,
        stats: TableStats,
    ) -> Result<(), EngineError> {
        let mut w = Writer::new();
        stats.encode(&mut w);
        table.set_stats(stats);
        let key = stats_key(table.id);
        let record = record(&key, &w.into_bytes())?;
        let replace = record.clone();
        let updated = self
            .tree
            .update(&key, TrxId(0), |_| RecordChange::Replace(replace.clone()))
            .await?;
        if updated == Updated::NotFound {
            self.tree.insert(&record, TrxId(0)).await?;
        }
        Ok(())
    }
}

type Schemas = BTreeMap<String, BTreeMap<String, Arc<Table>>>;

fn decode(entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<Schemas, EngineError> {
    let mut schemas = Schemas::new();
    for (key, value) in entries {
        match key.split_first() {
            Some((b's', name)) => {
                let name = String::from_utf8_lossy(name).into_owned();
                schemas.entry(name).or_default();
            }
            Some((b't', _)) => {
                let corrupt = |e| EngineError::Corrupt(format!("catalog statistics: {e}"));
                let id = Reader::new(value, "catalog entry").u32().map_err(corrupt)?;
                let stats = match entries.get(&stats_key(TableId(id))) {
                    Some(bytes) => TableStats::decode(&mut Reader::new(bytes, "statistics"))
                        .map_err(corrupt)?,
                    None => TableStats::default(),
                };
                let table = Table::decode(value, stats)?;
                let tables = schemas.entry(table.def.schema.clone()).or_default();
                tables.insert(table.def.name.clone(), Arc::new(table));
            }
            Some((b'x', _)) => {}
            _ => {
                return Err(EngineError::Corrupt(
                    "catalog entry of unknown kind".to_owned(),
                ));
            }
        }
    }
    Ok(schemas)
}

impl Engine {
    /// Makes an empty schema.
    ///
    /// # Errors
    /// [`EngineError::SchemaExists`].
    pub async fn create_schema(&self, name: &str) -> Result<(), EngineError> {
        let _ddl = self.catalog.ddl.lock().await;
        if self.catalog.schemas.read().contains_key(name) {
            return Err(EngineError::SchemaExists(name.to_owned()));
        }
        let lsn = self.catalog.insert(&schema_key(name), &[]).await?;
        self.sal.wait_durable(lsn).await?;
        self.catalog
            .schemas
            .write()
            .insert(name.to_owned(), BTreeMap::new());
        Ok(())
    }

    /// Drops a schema with all its tables; returns how many there were.
    ///
    /// # Errors
    /// [`EngineError::NoSuchSchema`].
    pub async fn drop_schema(&self, name: &str) -> Result<usize, EngineError> {
        let _ddl = self.catalog.ddl.lock().await;
        let tables = match self.catalog.schemas.read().get(name) {
            Some(tables) => tables.values().cloned().collect::<Vec<_>>(),
            None => return Err(EngineError::NoSuchSchema(name.to_owned())),
        };
        for table in &tables {
            self.remove_table(table).await?;
        }
        if let Some(lsn) = self.catalog.remove(&schema_key(name)).await? {
            self.sal.wait_durable(lsn).await?;
        }
        self.catalog.schemas.write().remove(name);
        Ok(tables.len())
    }

    /// Makes an empty table.
    ///
    /// # Errors
    /// [`EngineError::NoSuchSchema`], [`EngineError::TableExists`], [`EngineError::BadDefinition`].
    pub async fn create_table(&self, def: TableDef) -> Result<Arc<Table>, EngineError> {
        let _ddl = self.catalog.ddl.lock().await;
        match self.catalog.table(&def.schema, &def.name) {
            Ok(_) => return Err(EngineError::TableExists(def.name)),
            Err(EngineError::NoSuchTable(_)) => {}
            Err(e) => return Err(e),
        }
        // Roots and ids come with their log group; a trial table checks the definition before.
        let none = IndexRoot {
            id: IndexId(0),
            root: PageId(0),
        };
        let trial = Table::new(
            TableId(0),
            def.clone(),
            &vec![none; def.indexes.len() + 1],
            TableStats::default(),
        )?;
        self.pool.admit().await?;
        let (id, roots) = self.make_roots(&trial);
        let table = Arc::new(Table::new(id, def, &roots, TableStats::default())?);
        let mut w = Writer::new();
        table.encode(&mut w);
        let key = table_key(&table.def.schema, &table.def.name);
        let lsn = self.catalog.insert(&key, &w.into_bytes()).await?;
        self.sal.wait_durable(lsn).await?;
        let mut schemas = self.catalog.schemas.write();
        let tables = schemas.entry(table.def.schema.clone()).or_default();
        tables.insert(table.def.name.clone(), table.clone());
        Ok(table)
    }

    /// Drops a table. Statements that use it go on with what they have.
    ///
    /// # Errors
    /// [`EngineError::NoSuchSchema`] and [`EngineError::NoSuchTable`].
    pub async fn drop_table(&self, schema: &str, name: &str) -> Result<(), EngineError> {
        let _ddl = self.catalog.ddl.lock().await;
        let table = self.catalog.table(schema, name)?;
        self.remove_table(&table).await
    }

    async fn remove_table(&self, table: &Table) -> Result<(), EngineError> {
        let _alone = table.definition.clone().write_owned().await;
        let (schema, name) = (&table.def.schema, &table.def.name);
        if let Some(lsn) = self.catalog.remove(&table_key(schema, name)).await? {
            self.sal.wait_durable(lsn).await?;
        }
        self.catalog.remove(&stats_key(table.id)).await?;
        if let Some(tables) = self.catalog.schemas.write().get_mut(schema) {
            tables.remove(name);
        }
        Ok(())
    }

    /// Takes ids for a table and its indexes and makes their empty trees, as one log group.
    fn make_roots(&self, table: &Table) -> (TableId, Vec<IndexRoot>) {
        let mut mtr = Mtr::new(&self.pool);
        let system = mtr.latch(&self.system);
        let id = system_counter(mtr.page(system), Counter::Table);
        let first = system_counter(mtr.page(system), Counter::Index);
        mtr.apply(system, set_counter(Counter::Table, id + 1));
        let count = table.indexes.len() as u64;
        mtr.apply(system, set_counter(Counter::Index, first + count));
        let mut roots = Vec::new();
        for (index, number) in table.indexes.iter().zip(first..) {
            let spec = crate::engine::tree_spec(index);
            let id = IndexId(number as u32);
            let made = Tree::create(&mut mtr, &self.pool, id, spec.kind, spec.shape);
            roots.push(IndexRoot {
                id,
                root: made.root,
            });
        }
        let _ = mtr.commit();
        (TableId(id as u32), roots)
    }
}
