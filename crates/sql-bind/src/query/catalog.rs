//! What the binder asks of the catalog.

use std::sync::Arc;

use perigee_sql_type::SqlType;

use crate::Result;

/// The tables that there are, and how the session reads names.
pub trait Catalog {
    /// The schema of unqualified names, if one is selected.
    fn current_schema(&self) -> Option<&str>;

    /// A table; both names are in lower case.
    ///
    /// # Errors
    /// [`super::QueryError::UnknownSchema`], [`super::QueryError::NoSuchTable`].
    fn table(&self, schema: &str, table: &str) -> Result<Arc<TableDefinition>>;

    /// True if a column that the groups do not decide is an error: the mode ONLY_FULL_GROUP_BY.
    fn only_full_group_by(&self) -> bool {
        true
    }

    /// The text of each item of the select list whose SELECT begins at a place of the statement, as clients are shown
    /// it; the syntax tree printed where there are none.
    fn item_texts(&self, _select: sqlparser::tokenizer::Location) -> Vec<String> {
        Vec::new()
    }
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableDefinition {
    /// Its columns, in order.
    pub columns: Vec<TableColumn>,
    /// The columns of each key that is unique and has no NULLs, the primary key first.
    pub unique_keys: Vec<Vec<usize>>,
    /// The names of its indexes in lower case; that of the primary key is `primary`.
    pub indexes: Vec<String>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableColumn {
    /// Its name, as the table's definition writes it.
    pub name: Arc<str>,
    /// Its type.
    pub ty: SqlType,
    /// False for an invisible column, which `*` leaves out.
    pub visible: bool,
}
