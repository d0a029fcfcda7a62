//! [`Temporary`]: the temporary tables of all sessions.
//!
//! Invariants:
//! - They are in memory only. The catalog's tree does not name them, so after a crash their pages belong to nobody, and
//!   the next start frees them as it does those of a change that was never made ([`crate::space`]).
//! - Each lies in a schema that belongs to its session and that no statement can name: the name begins with a NUL.
//!   Everything in the engine tells them apart from other tables, and from those of other sessions, by their names.
//! - A change of a definition replaces a table under one lock: whoever looks for a table by its id finds it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use perigee_types::TableId;

use super::Table;

/// Begins the names of schemas of temporary tables, and ends the number of the session in them.
const MARK: char = '\0';

/// True for the name of a schema that temporary tables lie in.
#[must_use]
pub fn is_temporary_schema(schema: &str) -> bool {
    schema.starts_with(MARK)
}

/// The name by which statements call a schema: of one that temporary tables lie in, that of the schema they were made in.
#[must_use]
pub fn shown_schema(schema: &str) -> &str {
    let own = schema.strip_prefix(MARK);
    let shown = own.and_then(|own| own.split_once(MARK));
    shown.map_or(schema, |(_, shown)| shown)
}

/// The schema in which a session's temporary tables of a schema lie.
pub(crate) fn temporary_schema(session: u64, schema: &str) -> String {
    format!("{MARK}{session}{MARK}{schema}")
}

/// The temporary tables of all sessions.
#[derive(Debug, Default)]
pub(crate) struct Temporary {
    tables: RwLock<Tables>,
    /// How many sessions have had a number.
    sessions: AtomicU64,
}

#[derive(Debug, Default)]
struct Tables {
    by_schema: HashMap<String, BTreeMap<String, Arc<Table>>>,
    by_id: HashMap<TableId, Arc<Table>>,
}

impl Temporary {
    /// A number that no other session has.
    pub(crate) fn session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }

    /// A table by its name.
    pub(crate) fn table(&self, schema: &str, name: &str) -> Option<Arc<Table>> {
        let tables = self.tables.read();
        tables.by_schema.get(schema)?.get(name).cloned()
    }

    /// The tables of a schema.
    pub(crate) fn of_schema(&self, schema: &str) -> Vec<Arc<Table>> {
        let tables = self.tables.read();
        let of_schema = tables.by_schema.get(schema).into_iter();
        of_schema.flat_map(BTreeMap::values).cloned().collect()
    }

    /// A table by its id.
    pub(crate) fn by_id(&self, id: TableId) -> Option<Arc<Table>> {
        self.tables.read().by_id.get(&id).cloned()
    }

    /// All tables.
    pub(crate) fn all(&self) -> Vec<Arc<Table>> {
        self.tables.read().by_id.values().cloned().collect()
    }

    /// Puts tables in the place of others. Those that are not temporary do not count.
    pub(crate) fn replace(&self, old: &[Arc<Table>], new: &[Arc<Table>]) {
        let mut tables = self.tables.write();
        for table in old.iter().filter(|table| table.def.is_temporary()) {
            tables.remove(table);
        }
        for table in new.iter().filter(|table| table.def.is_temporary()) {
            tables.insert(table.clone());
        }
    }

    /// Takes all tables of a schema out.
    pub(crate) fn remove_schema(&self, schema: &str) {
        // The last ones to know the tables retire their trees, which has locks of its own.
        let removed = self.of_schema(schema);
        self.replace(&removed, &[]);
    }
}

impl Tables {
    fn insert(&mut self, table: Arc<Table>) {
        let schema = self.by_schema.entry(table.def.schema.clone());
        schema
            .or_default()
            .insert(table.def.name.clone(), table.clone());
        self.by_id.insert(table.id, table);
    }

    fn remove(&mut self, table: &Table) {
        if let Some(schema) = self.by_schema.get_mut(&table.def.schema) {
            schema.remove(&table.def.name);
            if schema.is_empty() {
                self.by_schema.remove(&table.def.schema);
            }
        }
        self.by_id.remove(&table.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_of_sessions_are_told_apart_and_shown_by_their_names() {
        let schema = temporary_schema(7, "test");
        assert!(is_temporary_schema(&schema));
        assert_eq!(shown_schema(&schema), "test");
        assert_ne!(schema, temporary_schema(8, "test"));
        assert!(!is_temporary_schema("test"));
        assert_eq!(shown_schema("test"), "test");
        assert_eq!(shown_schema("\0odd"), "\0odd");
    }
}
