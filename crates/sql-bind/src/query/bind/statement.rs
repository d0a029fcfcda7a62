//! What is known of a whole statement while its parts are bound.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use perigee_expr::scalar::Scalar;
use sqlparser::ast;

use super::super::{
    Catalog, Column, Definition, Hint, Query, Relation, RowLock, Table, ViewName, Warning,
};
use super::noted::Noted;
use super::view::Inside;
use crate::{Environment, Result};

/// A statement that is being bound.
pub(super) struct Statement<'b> {
    pub environment: &'b dyn Environment,
    pub catalog: &'b dyn Catalog,
    /// References to tables.
    pub tables: RefCell<Vec<Arc<Table>>>,
    /// SELECTs so far.
    pub selects: Cell<usize>,
    /// Common table expressions in scope.
    pub commons: RefCell<Vec<Common>>,
    /// Common table expressions so far.
    pub definitions: Cell<usize>,
    pub locks: RefCell<Vec<RowLock>>,
    pub hints: RefCell<Vec<Hint>>,
    pub warnings: RefCell<Vec<Warning>>,
    /// The views around what is bound, the outermost first.
    pub views: RefCell<Vec<ViewName>>,
    /// What holds in the innermost of them.
    pub inside: RefCell<Option<Inside>>,
    /// Views so far.
    pub opened: Cell<usize>,
    /// The number of the next SELECT, if it is that of a view which is a part of another SELECT.
    pub merging: Cell<Option<usize>>,
    /// Of views with one table by its reference: how many conditions they have, and those that are checked.
    pub checked: RefCell<HashMap<usize, (usize, Vec<Scalar>)>>,
    /// Rows are to be changed or locked.
    pub keeps_rows: Cell<bool>,
    /// User variables are assigned to.
    pub assigns: Cell<bool>,
    /// What names mean is noted.
    pub notes: Cell<bool>,
    pub noted: RefCell<Vec<Noted>>,
}

/// A common table expression in scope.
#[derive(Clone)]
pub(super) struct Common {
    /// In lower case.
    pub name: Arc<str>,
    pub number: usize,
    pub columns: Arc<[Column]>,
    /// The subquery that it is defined in, by address.
    pub frame: usize,
    /// How often it is named.
    pub uses: usize,
    /// True if all uses stand in the same subquery as the definition.
    pub near: bool,
    /// Set while the recursive part is bound.
    pub recursive: bool,
}

/// The meaning of a query.
///
/// # Errors
/// [`crate::BindError`].
pub fn bind(
    query: &ast::Query,
    environment: &dyn Environment,
    catalog: &dyn Catalog,
) -> Result<Query> {
    let statement = Statement::new(environment, catalog);
    statement.keeps_rows.set(!query.locks.is_empty());
    let body = statement.query(query, None)?;
    statement.check_variables(&body)?;
    Ok(statement.query_of(body))
}

/// The meaning of the query of a view, and what its names mean.
///
/// # Errors
/// [`crate::BindError`].
pub fn bind_view(
    query: &ast::Query,
    environment: &dyn Environment,
    catalog: &dyn Catalog,
) -> Result<(Query, Vec<Noted>)> {
    let statement = Statement::new(environment, catalog);
    statement.notes.set(true);
    let body = statement.query(query, None)?;
    let noted = statement.noted.take();
    Ok((statement.query_of(body), noted))
}

impl<'b> Statement<'b> {
    /// A statement of which nothing is known yet.
    pub fn new(environment: &'b dyn Environment, catalog: &'b dyn Catalog) -> Self {
        Self {
            environment,
            catalog,
            tables: RefCell::default(),
            selects: Cell::new(0),
            commons: RefCell::default(),
            definitions: Cell::new(0),
            locks: RefCell::default(),
            hints: RefCell::default(),
            warnings: RefCell::default(),
            views: RefCell::default(),
            inside: RefCell::default(),
            opened: Cell::new(0),
            checked: RefCell::default(),
            merging: Cell::new(None),
            keeps_rows: Cell::new(false),
            assigns: Cell::new(false),
            notes: Cell::new(false),
            noted: RefCell::default(),
        }
    }

    /// The query with these rows.
    pub fn query_of(self, body: Relation) -> Query {
        Query {
            body,
            tables: self.tables.into_inner(),
            locks: self.locks.into_inner(),
            hints: self.hints.into_inner(),
            warnings: self.warnings.into_inner(),
            variables: Vec::new(),
        }
    }
}

impl Statement<'_> {
    /// An error if user variables are assigned to where rows have no order.
    pub fn check_variables(&self, body: &Relation) -> Result<()> {
        match self.assigns.get() {
            true => super::variables::check(body),
            false => Ok(()),
        }
    }

    /// The number of a SELECT that is about to be bound.
    pub fn next_select(&self) -> usize {
        self.merging.take().unwrap_or_else(|| {
            let number = self.selects.get() + 1;
            self.selects.set(number);
            number
        })
    }

    /// The number of a common table expression.
    pub fn next_definition(&self) -> usize {
        let number = self.definitions.get();
        self.definitions.set(number + 1);
        number
    }

    /// A definition without its uses.
    pub fn definition(&self, name: Arc<str>, base: Relation) -> Definition {
        Definition {
            number: self.next_definition(),
            name,
            base,
            step: None,
            all: false,
        }
    }
}
