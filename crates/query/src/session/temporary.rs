//! The temporary tables of a session: which names mean them, and what they are charged.
//!
//! A name in a statement means the session's temporary table of that name, if there is one, and then neither another
//! table nor a view: in statements that read, change, describe or alter it, and in DROP TABLE. Not so in the queries of
//! views, and where a name is that of an object to be made, renamed or referred to by a foreign key.
//!
//! Once it is made, a session may do anything with its temporary table, and locks of tables do not concern it.

use std::sync::Arc;

use perigee_engine::catalog::{Table, TableDef, ViewDef};
use perigee_engine::{Engine, TableName, TemporaryTables};
use perigee_sql_bind::query;
use perigee_types::Writer;
use sqlparser::ast::ObjectName;

use super::Session;
use crate::error::{Result, SqlError};
use crate::memory::{Charge, ProcessMemory};
use crate::parse::Ddl;

/// What an index of a table takes in memory, in bytes: names, layout, root.
const INDEX: usize = 2 << 10;

/// What a definition takes in memory, as a multiple of its encoded form.
const TIMES: usize = 8;

/// A session's temporary tables, which are charged to the process as long as there are any.
pub(super) struct Temporaries {
    tables: TemporaryTables,
    /// Bytes that they take.
    bytes: usize,
    charge: Option<Charge>,
    memory: Arc<ProcessMemory>,
}

/// What a table takes in memory, in bytes.
fn footprint(def: &TableDef) -> usize {
    let mut w = Writer::new();
    def.encode(&mut w);
    INDEX * (def.indexes.len() + 1) + TIMES * w.into_bytes().len()
}

impl Temporaries {
    /// None.
    pub(super) fn new(engine: &Arc<Engine>, memory: &Arc<ProcessMemory>) -> Self {
        Self {
            tables: engine.temporary_tables(),
            bytes: 0,
            charge: None,
            memory: memory.clone(),
        }
    }

    /// The schema in which those lie that the session makes in a schema.
    pub(super) fn schema(&mut self, schema: &str) -> String {
        self.tables.schema(schema).to_owned()
    }

    fn find(&self, schema: &str, name: &str) -> Option<Arc<Table>> {
        self.tables.find(schema, name)
    }

    /// Charges the memory for a table.
    ///
    /// # Errors
    /// 1038.
    pub(super) fn admit(&mut self, def: &TableDef) -> Result<()> {
        let bytes = self.bytes + footprint(def);
        match &mut self.charge {
            Some(charge) => charge.resize(bytes)?,
            None => self.charge = Some(self.memory.charge(bytes)?),
        }
        self.bytes = bytes;
        Ok(())
    }

    /// A table that was charged is not there, or is not any more.
    pub(super) fn release(&mut self, def: &TableDef) {
        self.bytes = self.bytes.saturating_sub(footprint(def));
        if let Some(charge) = &mut self.charge {
            // Less is always given.
            let _ = charge.resize(self.bytes);
        }
    }

    /// Makes an empty table.
    ///
    /// # Errors
    /// 1038, or the engine's.
    pub(super) async fn create(&mut self, def: TableDef) -> Result<Arc<Table>> {
        self.admit(&def)?;
        let created = self.tables.create(def.clone()).await;
        created.map_err(|error| {
            self.release(&def);
            super::ddl::name_error(error)
        })
    }

    /// Drops a table.
    pub(super) fn remove(&mut self, table: &Arc<Table>) {
        self.tables.remove(table);
        self.release(&table.def);
    }
}

impl Session {
    /// The temporary table that statements mean by a name, in lower case.
    pub(super) fn temporary(&self, schema: &str, name: &str) -> Option<Arc<Table>> {
        self.temporaries.find(schema, name)
    }

    /// True if a name, in lower case, is that of a temporary table.
    pub(super) fn has_temporary(&self, schema: &str, name: &str) -> bool {
        self.temporary(schema, name).is_some()
    }

    /// The table that a statement means by a name in lower case, as the engine calls it.
    pub(super) fn stored_name(&self, schema: String, name: String) -> TableName {
        match self.temporary(&schema, &name) {
            Some(table) => TableName::of(&table),
            None => TableName { schema, name },
        }
    }

    /// The view that a statement means by a name in lower case.
    pub(super) fn named_view(&self, schema: &str, name: &str) -> Option<Arc<ViewDef>> {
        match self.has_temporary(schema, name) {
            true => None,
            false => self.stored_view(schema, name),
        }
    }

    /// The table that a reference was bound to.
    ///
    /// # Errors
    /// If it is not there any more.
    pub(super) fn stored_table(&self, reference: &query::Table) -> Result<Arc<Table>> {
        let (schema, name) = (reference.stored_schema(), &*reference.name);
        if schema == &*reference.schema {
            return self.base_table(schema, name);
        }
        let table = self.frontend.engine.table(schema, name);
        table.map_err(|_| SqlError::no_such_table(&reference.schema, name))
    }

    /// True if what a fast statement was made for is what its name still means.
    pub(super) fn still_means(&self, table: &Arc<Table>) -> bool {
        let def = &table.def;
        let found = match self.temporary(def.shown_schema(), &def.name) {
            Some(table) => Ok(table),
            None => self.frontend.engine.table(&def.schema, &def.name),
        };
        found.is_ok_and(|found| Arc::ptr_eq(&found, table))
    }

    /// True if a statement changes the definitions of temporary tables only.
    ///
    /// # Errors
    /// Those of names.
    pub(super) fn is_about_temporary(&self, ddl: &Ddl) -> Result<bool> {
        let is_one = |name: &ObjectName| -> Result<bool> {
            let (schema, name) = self.resolve(name)?;
            Ok(self.has_temporary(&schema, &name))
        };
        match ddl {
            _ if ddl.is_temporary() => Ok(true),
            Ddl::AlterTable { name, .. } | Ddl::Truncate(name) => is_one(name),
            Ddl::DropTables { names, .. } => {
                for name in names {
                    if !is_one(name)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}
