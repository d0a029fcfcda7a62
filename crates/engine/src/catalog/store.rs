//! The catalog's tree, and what it says kept in memory.
//!
//! A tree of its own at a fixed page; its records have two variable-length items, name and value:
//!
//! ```text
//! "s" schema                     a schema: the collation of its tables to come; no value is utf8mb4_bin
//! "t" schema 0 table             a table: ids, definition, roots (`Table::encode`)
//! "x" table id, big-endian       a table's statistics (`TableStats::encode`)
//! "x" table id, column           those of a column, its number big-endian (`ColumnStats::encode`)
//! "v" schema 0 view              a view (`ViewDef::encode`)
//! "r" schema 0 procedure         a stored procedure (`RoutineDef::encode`)
//! "a" name                       an account's record, whose meaning is that of the layer above
//! "n" table id, big-endian       numbers of AUTO_INCREMENT below this one may be in use
//! "c" …                          more of a value that is longer than a record (`super::pieces`)
//! "j" …                          changes that take place together (`super::journal`)
//! ```
//!
//! A definition appears or disappears with one record, so DDL is atomic: what it made before, such
//! as roots, is reached through that record only. Where one record is not enough, the journal makes
//! several of them take place together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use perigee_page::{PLAIN_HEADER_LEN, PageKind, RecordShape};
use perigee_types::{DecodeError, Lsn, PageId, Reader, TableId, TrxId, Writer};
use perigee_value::Collation;

use super::def::decode_collation;
use super::journal;
use super::pieces;
use super::temporary::{Temporary, is_temporary_schema, shown_schema};
use super::{ColumnStats, References, RoutineDef, Table, TableStats, ViewDef};
use crate::EngineError;
use crate::btree::{
    CATALOG_INDEX, Inserted, KeySpan, MAX_RECORD_LEN, RecordChange, Tree, TreeSpec, Updated,
};
use crate::buffer::{Access, BufferPool};
use crate::space::Retired;

/// The catalog's tree.
pub(crate) const CATALOG_ROOT: TreeSpec = TreeSpec {
    index: CATALOG_INDEX,
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

/// Longest record, so that the journal can hold it in one of its own.
pub(super) const LONGEST: usize = MAX_RECORD_LEN - journal::OVERHEAD;

/// Begins the names of accounts' records.
const ACCOUNT: u8 = b'a';

/// Records of accounts by their names. The catalog does not know what they say.
pub type AccountRecords = BTreeMap<Vec<u8>, Vec<u8>>;

/// Views by schema and name.
pub(crate) type Views = BTreeMap<(String, String), Arc<ViewDef>>;

/// Stored procedures by schema and name.
pub(crate) type Routines = BTreeMap<(String, String), Arc<RoutineDef>>;

/// All schemas, tables, views and procedures, and the records of accounts.
pub(crate) struct Catalog {
    tree: Tree,
    pub(crate) schemas: RwLock<Schemas>,
    /// The collations of schemas that say one.
    pub(crate) collations: RwLock<BTreeMap<String, Collation>>,
    /// What foreign keys refer to; changed under the lock of the schemas.
    references: RwLock<References>,
    pub(crate) views: RwLock<Views>,
    pub(crate) routines: RwLock<Routines>,
    pub(crate) temporary: Temporary,
    accounts: RwLock<Arc<AccountRecords>>,
    /// Changes with every change of the accounts.
    accounts_version: AtomicU64,
    /// Serialises changes of the catalog. Whoever waits for a table's lock does not hold it.
    pub(crate) ddl: Arc<tokio::sync::Mutex<()>>,
}

pub(crate) fn schema_key(schema: &str) -> Vec<u8> {
    [b"s", schema.as_bytes()].concat()
}

pub(crate) fn table_key(schema: &str, table: &str) -> Vec<u8> {
    [b"t", schema.as_bytes(), &[0], table.as_bytes()].concat()
}

pub(crate) fn view_key(schema: &str, view: &str) -> Vec<u8> {
    [b"v", schema.as_bytes(), &[0], view.as_bytes()].concat()
}

pub(crate) fn routine_key(schema: &str, routine: &str) -> Vec<u8> {
    [b"r", schema.as_bytes(), &[0], routine.as_bytes()].concat()
}

/// The record of an account as one of the catalog.
pub(crate) fn account_key(name: &[u8]) -> Vec<u8> {
    [&[ACCOUNT], name].concat()
}

fn stats_key(table: TableId) -> Vec<u8> {
    [b"x".as_slice(), &table.0.to_be_bytes()].concat()
}

fn column_stats_key(table: TableId, column: usize) -> Vec<u8> {
    let column = column as u16; // a table has fewer columns
    [stats_key(table).as_slice(), &column.to_be_bytes()].concat()
}

/// The records with a table's statistics.
pub(crate) fn stats_records(table: TableId, stats: &TableStats) -> journal::Changes {
    let mut w = Writer::new();
    stats.encode(&mut w);
    let mut records = journal::Changes::from([(stats_key(table), Some(w.into_bytes()))]);
    for (number, column) in stats.columns.iter().enumerate() {
        let mut w = Writer::new();
        column.encode(&mut w);
        records.insert(column_stats_key(table, number), Some(w.into_bytes()));
    }
    records
}

/// What removes the records with a table's statistics.
pub(crate) fn no_stats(table: &Table) -> journal::Changes {
    let columns = 0..table.stats().columns.len();
    let columns = columns.map(|column| column_stats_key(table.id, column));
    let keys = std::iter::once(stats_key(table.id)).chain(columns);
    keys.map(|key| (key, None)).collect()
}

pub(crate) fn number_key(table: TableId) -> Vec<u8> {
    [b"n".as_slice(), &table.0.to_be_bytes()].concat()
}

/// The record with this name and value.
///
/// # Errors
/// [`EngineError::BadDefinition`] if it is longer than [`LONGEST`].
pub(crate) fn record(key: &[u8], value: &[u8]) -> Result<Vec<u8>, EngineError> {
    let start = PLAIN_HEADER_LEN + 4;
    let bytes = start + key.len() + value.len();
    if bytes > LONGEST {
        let text = format!("its definition takes {bytes} bytes, the limit is {LONGEST}");
        return Err(EngineError::BadDefinition(text));
    }
    Ok(unchecked_record(key, value))
}

/// The record with this name and value, which the caller knows to fit.
pub(super) fn unchecked_record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let start = PLAIN_HEADER_LEN + 4;
    let bytes = start + key.len() + value.len();
    let mut record = vec![0; PLAIN_HEADER_LEN];
    record.extend(((start + key.len()) as u16).to_le_bytes());
    record.extend((bytes as u16).to_le_bytes());
    record.extend(key);
    record.extend(value);
    record
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
        journal::complete(&tree, &mut entries).await?;
        let schemas = decode(&entries, pool.allocator().retired())?;
        let collations = RwLock::new(collations(&entries)?);
        let views = RwLock::new(decode_views(&entries)?);
        let routines = RwLock::new(decode_routines(&entries)?);
        let account = |(key, value): (Vec<u8>, Vec<u8>)| match key.split_first() {
            Some((&ACCOUNT, name)) => Some((name.to_vec(), value)),
            _ => None,
        };
        let accounts = entries.into_iter().filter_map(account).collect();
        Ok(Self {
            tree,
            references: RwLock::new(References::of(&schemas)),
            schemas: RwLock::new(schemas),
            collations,
            views,
            routines,
            temporary: Temporary::default(),
            accounts: RwLock::new(Arc::new(accounts)),
            accounts_version: AtomicU64::new(1),
            ddl: Arc::default(),
        })
    }

    /// The records of accounts, and the version that they have at least.
    pub(crate) fn accounts(&self) -> (u64, Arc<AccountRecords>) {
        let accounts = self.accounts.read();
        (self.accounts_version(), accounts.clone())
    }

    /// A number that changes with every change of the accounts.
    pub(crate) fn accounts_version(&self) -> u64 {
        self.accounts_version.load(Ordering::Acquire)
    }

    /// Makes other records of accounts visible, which are durable.
    pub(crate) fn publish_accounts(&self, records: AccountRecords) {
        let mut accounts = self.accounts.write();
        *accounts = Arc::new(records);
        self.accounts_version.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn schemas(&self) -> Vec<String> {
        self.schemas.read().keys().cloned().collect()
    }

    /// The collation of a schema's tables to come.
    pub(crate) fn collation(&self, schema: &str) -> Collation {
        let known = self.collations.read().get(schema).copied();
        known.unwrap_or(Collation::UTF8MB4_BIN)
    }

    pub(crate) fn tables(&self, schema: &str) -> Vec<Arc<Table>> {
        if is_temporary_schema(schema) {
            return self.temporary.of_schema(schema);
        }
        let schemas = self.schemas.read();
        schemas
            .get(schema)
            .map_or_else(Vec::new, |tables| tables.values().cloned().collect())
    }

    pub(crate) fn table(&self, schema: &str, name: &str) -> Result<Arc<Table>, EngineError> {
        let missing = || EngineError::NoSuchTable(format!("{}.{name}", shown_schema(schema)));
        if is_temporary_schema(schema) {
            return self.temporary.table(schema, name).ok_or_else(missing);
        }
        let schemas = self.schemas.read();
        let tables = schemas
            .get(schema)
            .ok_or_else(|| EngineError::NoSuchSchema(schema.to_owned()))?;
        tables.get(name).cloned().ok_or_else(missing)
    }

    /// The tables whose foreign keys refer to the table with this name, which may not exist; itself among them
    /// if it refers to itself. In the order of their names.
    pub(crate) fn children(&self, schema: &str, name: &str) -> Vec<Arc<Table>> {
        let children = self.references.read().children(schema, name);
        let table = |(schema, name): &(String, String)| self.table(schema, name).ok();
        children.iter().filter_map(table).collect()
    }

    /// Takes note of foreign keys that came or went with a change of these schemas.
    pub(crate) fn renew_references(&self, schemas: &Schemas) {
        *self.references.write() = References::of(schemas);
    }

    pub(crate) fn view(&self, schema: &str, name: &str) -> Option<Arc<ViewDef>> {
        let views = self.views.read();
        if views.is_empty() {
            return None;
        }
        views.get(&(schema.to_owned(), name.to_owned())).cloned()
    }

    pub(crate) fn views_of(&self, schema: &str) -> Vec<Arc<ViewDef>> {
        let views = self.views.read();
        let of_schema = views.range((schema.to_owned(), String::new())..);
        let of_schema = of_schema.take_while(|((own, _), _)| own == schema);
        of_schema.map(|(_, view)| view.clone()).collect()
    }

    pub(crate) fn routine(&self, schema: &str, name: &str) -> Option<Arc<RoutineDef>> {
        let routines = self.routines.read();
        routines.get(&(schema.to_owned(), name.to_owned())).cloned()
    }

    pub(crate) fn routines_of(&self, schema: &str) -> Vec<Arc<RoutineDef>> {
        let routines = self.routines.read();
        let of_schema = routines.range((schema.to_owned(), String::new())..);
        let of_schema = of_schema.take_while(|((own, _), _)| own == schema);
        of_schema.map(|(_, routine)| routine.clone()).collect()
    }

    /// True if the table is what the catalog has under its name.
    pub(crate) fn is_current(&self, table: &Arc<Table>) -> bool {
        let def = &table.def;
        if def.is_temporary() {
            let found = self.temporary.table(&def.schema, &def.name);
            return found.is_some_and(|found| Arc::ptr_eq(&found, table));
        }
        let schemas = self.schemas.read();
        let tables = schemas.get(&def.schema);
        let found = tables.and_then(|tables| tables.get(&def.name));
        found.is_some_and(|found| Arc::ptr_eq(found, table))
    }

    /// The table with this id.
    pub(crate) fn table_by_id(&self, id: TableId) -> Option<Arc<Table>> {
        if let Some(table) = self.temporary.by_id(id) {
            return Some(table);
        }
        let schemas = self.schemas.read();
        schemas
            .values()
            .flat_map(BTreeMap::values)
            .find(|table| table.id == id)
            .cloned()
    }

    /// The catalog's tree.
    #[cfg(test)]
    pub(super) fn tree(&self) -> Tree {
        self.tree.clone()
    }

    /// Makes changes, all or none; returns the LSN by which they are durable.
    pub(crate) async fn apply(&self, changes: &journal::Changes) -> Result<Lsn, EngineError> {
        journal::apply(&self.tree, changes).await
    }

    /// Keeps new statistics of a table; returns the LSN by which they are durable. The caller has
    /// the turn to change the catalog.
    pub(crate) async fn store_stats(
        &self,
        table: &Table,
        stats: &TableStats,
    ) -> Result<Lsn, EngineError> {
        self.apply(&stats_records(table.id, stats)).await
    }

    /// Keeps the number below which a table's numbers may be in use.
    pub(crate) async fn store_number(&self, table: &Table, limit: u64) -> Result<(), EngineError> {
        put(&self.tree, &number_key(table.id), &limit.to_le_bytes())
            .await
            .map(drop)
    }
}

/// Adds a record, or replaces the one with this name.
pub(super) async fn put(tree: &Tree, key: &[u8], value: &[u8]) -> Result<Lsn, EngineError> {
    put_record(tree, key, record(key, value)?).await
}

/// As [`put`], with the whole record.
pub(super) async fn put_record(
    tree: &Tree,
    key: &[u8],
    record: Vec<u8>,
) -> Result<Lsn, EngineError> {
    let replace = |_: &_| RecordChange::Replace(record.clone());
    if let Updated::Done(lsn) = tree.update(key, TrxId(0), replace).await? {
        return Ok(lsn);
    }
    match tree.insert(&record, TrxId(0)).await? {
        Inserted::Done(lsn) => Ok(lsn),
        Inserted::Duplicate(_) => {
            let name = String::from_utf8_lossy(key).into_owned();
            let text = format!("catalog entry {name} exists unexpectedly");
            Err(EngineError::Corrupt(text))
        }
    }
}

/// Removes the record with this name, if there is one.
pub(super) async fn remove(tree: &Tree, key: &[u8]) -> Result<Option<Lsn>, EngineError> {
    let change = |_: &_| RecordChange::Remove;
    match tree.update(key, TrxId(0), change).await? {
        Updated::Done(lsn) => Ok(Some(lsn)),
        Updated::Kept | Updated::NotFound => Ok(None),
    }
}

/// What the records of the catalog's tree, by name, say.
pub(crate) fn decode_catalog(
    entries: &mut BTreeMap<Vec<u8>, Vec<u8>>,
) -> Result<Schemas, EngineError> {
    journal::settle(entries)?;
    pieces::join(entries)?;
    decode(entries, &Arc::default())
}

/// Tables by name, by schema.
pub(crate) type Schemas = BTreeMap<String, BTreeMap<String, Arc<Table>>>;

/// A table's statistics. Older ones are one record, without those of columns.
fn decode_stats(
    entries: &BTreeMap<Vec<u8>, Vec<u8>>,
    table: TableId,
) -> Result<TableStats, DecodeError> {
    let Some(bytes) = entries.get(&stats_key(table)) else {
        return Ok(TableStats::default());
    };
    let mut stats = TableStats::decode(&mut Reader::new(bytes, "statistics"))?;
    let columns = entries.range(column_stats_key(table, 0)..);
    let columns = columns.take_while(|(key, _)| key.starts_with(&stats_key(table)));
    for (number, (_, bytes)) in columns.enumerate() {
        let column = ColumnStats::decode(&mut Reader::new(bytes, "statistics of a column"))?;
        match stats.columns.get_mut(number) {
            Some(known) => *known = column,
            None => stats.columns.push(column),
        }
    }
    Ok(stats)
}

/// The collations of schemas.
fn collations(
    entries: &BTreeMap<Vec<u8>, Vec<u8>>,
) -> Result<BTreeMap<String, Collation>, EngineError> {
    let corrupt = |e| EngineError::Corrupt(format!("catalog: {e}"));
    let mut collations = BTreeMap::new();
    for (key, value) in entries {
        if let (Some((b's', name)), false) = (key.split_first(), value.is_empty()) {
            let mut reader = Reader::new(value, "schema");
            let collation = decode_collation(&mut reader).map_err(corrupt)?;
            collations.insert(String::from_utf8_lossy(name).into_owned(), collation);
        }
    }
    Ok(collations)
}

fn decode_views(entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<Views, EngineError> {
    let records = entries.range(b"v".to_vec()..);
    let records = records.take_while(|(key, _)| key.first() == Some(&b'v'));
    let views = records.map(|(_, value)| {
        let view = ViewDef::decode(value);
        let view = view.map_err(|e| EngineError::Corrupt(format!("catalog: {e}")))?;
        Ok(((view.schema.clone(), view.name.clone()), Arc::new(view)))
    });
    views.collect()
}

fn decode_routines(entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<Routines, EngineError> {
    let records = entries.range(b"r".to_vec()..);
    let records = records.take_while(|(key, _)| key.first() == Some(&b'r'));
    let routines = records.map(|(_, value)| {
        let routine = RoutineDef::decode(value);
        let routine = routine.map_err(|e| EngineError::Corrupt(format!("catalog: {e}")))?;
        let name = (routine.schema.clone(), routine.name.clone());
        Ok((name, Arc::new(routine)))
    });
    routines.collect()
}

fn decode(
    entries: &BTreeMap<Vec<u8>, Vec<u8>>,
    retired: &Arc<Retired>,
) -> Result<Schemas, EngineError> {
    let mut schemas = Schemas::new();
    for (key, value) in entries {
        match key.split_first() {
            Some((b's', name)) => {
                let name = String::from_utf8_lossy(name).into_owned();
                schemas.entry(name).or_default();
            }
            Some((b't', _)) => {
                let corrupt = |e| EngineError::Corrupt(format!("catalog: {e}"));
                let id = Reader::new(value, "catalog entry").u32().map_err(corrupt)?;
                let stats = decode_stats(entries, TableId(id)).map_err(corrupt)?;
                let table = Table::decode(value, stats, retired)?;
                if let (Some(numbers), Some(limit)) =
                    (table.numbers(), entries.get(&number_key(TableId(id))))
                {
                    let limit = Reader::new(limit, "AUTO_INCREMENT").u64();
                    numbers.go_on_at(limit.map_err(corrupt)?);
                }
                let tables = schemas.entry(table.def.schema.clone()).or_default();
                tables.insert(table.def.name.clone(), Arc::new(table));
            }
            Some((b'x' | b'n' | b'v' | b'r' | &ACCOUNT, _)) => {}
            _ => {
                return Err(EngineError::Corrupt(
                    "catalog entry of unknown kind".to_owned(),
                ));
            }
        }
    }
    Ok(schemas)
}
