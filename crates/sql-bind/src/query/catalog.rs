//! What the binder asks of the catalog.

use std::fmt;
use std::sync::Arc;

use perigee_expr::scalar::Scalar;
use perigee_sql_type::SqlType;
use perigee_value::Collation;
use sqlparser::ast::Query;

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

    /// A view, if that is what the names, in lower case, are of. Until [`Catalog::close_view`] the catalog is asked about
    /// what its query names.
    ///
    /// # Errors
    /// Those of who may use it.
    fn open_view(&self, _schema: &str, _view: &str) -> Result<Option<ViewDefinition>> {
        Ok(None)
    }

    /// Ends what [`Catalog::open_view`] began.
    fn close_view(&self) {}

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

/// Schema and name of a view, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewName {
    /// The schema.
    pub schema: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl fmt::Display for ViewName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

/// A view.
#[derive(Clone, Debug)]
pub struct ViewDefinition {
    /// Its query, whose names of tables say their schemas.
    pub query: Arc<Query>,
    /// The collation of the literals in it.
    pub collation: Collation,
    /// What CURRENT_USER() is in it; none if that is what it is around the view.
    pub account: Option<Arc<str>>,
    /// The names of its columns.
    pub columns: Vec<Arc<str>>,
    /// True for each column that the account may not read; empty if it may read all.
    pub denied: Vec<bool>,
    /// False if it is to be computed by itself.
    pub merges: bool,
    /// WITH CHECK OPTION.
    pub check: Check,
}

/// Which rows may be written through a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// All.
    None,
    /// Those that the view shows.
    Local,
    /// Those that the view and the views below it show.
    Cascaded,
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableDefinition {
    /// Its columns, in order.
    pub columns: Vec<TableColumn>,
    /// True for each column that the account may not read; empty if it may read all.
    pub denied: Vec<bool>,
    /// The columns of each key that is unique and has no NULLs, the primary key first.
    pub unique_keys: Vec<Vec<usize>>,
    /// The names of its indexes in lower case; that of the primary key is `primary`.
    pub indexes: Vec<String>,
    /// The places of those that no statement uses: INVISIBLE.
    pub invisible_indexes: Vec<usize>,
    /// The schema that it lies in, where that is not the one by which statements call it: of a temporary table.
    pub stored_in: Option<Arc<str>>,
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
    /// True for a part of a key that no statement can name.
    pub hidden: bool,
    /// The expression that a hidden column has the values of, over the columns of the table.
    pub expression: Option<KeyExpression>,
}

/// The expression of a part of a key.
#[derive(Clone, Debug)]
pub struct KeyExpression {
    /// Its text, which tells it from others.
    pub text: String,
    /// What it computes.
    pub scalar: Scalar,
}

impl PartialEq for KeyExpression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
