//! [`References`]: which tables have foreign keys that refer to a table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Schemas, Table};

/// Schema and name of a table.
type Name = (String, String);

/// For each table that foreign keys refer to, whether it exists or not, the tables with these keys.
#[derive(Debug, Default)]
pub(crate) struct References {
    by_parent: BTreeMap<Name, BTreeSet<Name>>,
}

impl References {
    /// Those of all tables.
    pub(crate) fn of(schemas: &Schemas) -> Self {
        let mut references = Self::default();
        for table in schemas.values().flat_map(BTreeMap::values) {
            references.add(table);
        }
        references
    }

    fn add(&mut self, table: &Arc<Table>) {
        let def = &table.def;
        for key in &def.foreign_keys {
            let parent = (key.schema.clone(), key.table.clone());
            let children = self.by_parent.entry(parent).or_default();
            children.insert((def.schema.clone(), def.name.clone()));
        }
    }

    /// The tables that refer to one, in the order of their names; itself among them if it does.
    pub(crate) fn children(&self, schema: &str, name: &str) -> Vec<Name> {
        if self.by_parent.is_empty() {
            return Vec::new();
        }
        let parent = (schema.to_owned(), name.to_owned());
        let children = self.by_parent.get(&parent);
        children.into_iter().flatten().cloned().collect()
    }
}
