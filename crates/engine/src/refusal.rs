//! [`Refusal`]: why a foreign key, a trigger or the name of a constraint does not let a statement do what it wants.

use std::fmt;

use crate::catalog::{ForeignKey, TableDef};

/// A foreign key, as errors name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyName {
    /// Schema of the table that it belongs to.
    pub schema: String,
    /// That table.
    pub table: String,
    /// Its name.
    pub name: String,
    /// The key in SQL.
    pub sql: String,
    /// Schema and name of the table that it refers to.
    pub parent: (String, String),
}

impl KeyName {
    /// Of a key of a table.
    pub(crate) fn new(def: &TableDef, key: &ForeignKey) -> Self {
        Self {
            schema: def.schema.clone(),
            table: def.name.clone(),
            name: key.name.clone(),
            sql: key.sql(def),
            parent: (key.schema.clone(), key.table.clone()),
        }
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
        let (schema, table) = (quoted(&self.schema), quoted(&self.table));
        write!(f, "{schema}.{table}, {}", self.sql)
    }
}

/// What a constraint forbids.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A row would refer to a row that is not there.
    #[error("no row to refer to: {0}")]
    NoParent(KeyName),
    /// A row is referred to.
    #[error("a row is referred to: {0}")]
    Referenced(KeyName),
    /// Changes that follow from changes would go too deep.
    #[error("cascade exceeds the depth of {0}")]
    CascadeDepth(usize),
    /// A row that follows the key it refers to would get the key of another row.
    #[error("a row of {table} would get a key that exists")]
    DuplicateInChild {
        /// The table that is referred to.
        parent: String,
        /// Primary key of the row that changes.
        row: String,
        /// The table with the row that follows.
        table: String,
        /// The key that exists.
        index: String,
    },
    /// The referenced table does not exist.
    #[error("no referenced table '{0}'")]
    NoTable(String),
    /// The referenced table lacks a column.
    #[error("no column '{column}' in table '{}' of foreign key '{}'", key.parent.1, key.name)]
    NoColumn {
        /// The key.
        key: KeyName,
        /// The column.
        column: String,
    },
    /// The referenced table has no index that begins with the referenced columns.
    #[error("no index for foreign key '{}'", .0.name)]
    NoIndex(KeyName),
    /// Values of a column cannot be compared with those of the referenced one.
    #[error("columns of foreign key '{}' are not of one type", key.name)]
    Incompatible {
        /// The key.
        key: KeyName,
        /// Its column.
        column: String,
        /// The referenced column.
        referenced: String,
    },
    /// The schema has a foreign key of this name.
    #[error("foreign key '{0}' exists")]
    KeyExists(String),
    /// The schema has a CHECK constraint of this name.
    #[error("check constraint '{0}' exists")]
    CheckExists(String),
    /// A table that is to be dropped is referred to.
    #[error("table '{}' is referred to by foreign key '{}'", .0.parent.1, .0.name)]
    TableReferenced(KeyName),
    /// A table that is to be emptied is referred to.
    #[error("rows are referred to by foreign key '{}'", .0.name)]
    RowsReferenced(KeyName),
    /// A column of a key would get another type.
    #[error("column '{column}' belongs to foreign key '{}'", key.name)]
    ChangedColumn {
        /// The key.
        key: KeyName,
        /// The column.
        column: String,
    },
    /// A referenced column would get another type.
    #[error("column '{column}' is referred to by foreign key '{}'", key.name)]
    ChangedParent {
        /// The key.
        key: KeyName,
        /// The column.
        column: String,
    },
    /// A referenced column would go.
    #[error("column '{column}' is referred to by foreign key '{}'", key.name)]
    DroppedParent {
        /// The key.
        key: KeyName,
        /// The column.
        column: String,
    },
    /// A row does not keep a condition that it was checked for.
    #[error("a row does not keep a condition")]
    Unchecked,
    /// A table with triggers would get into another schema.
    #[error("triggers stay in their schema")]
    TriggersMove,
    /// An index would go that a key needs.
    #[error("index '{0}' is needed by a foreign key")]
    IndexNeeded(String),
}
