//! What is known of a whole statement while its parts are bound.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use sqlparser::ast;

use super::super::{Catalog, Column, Definition, Hint, Query, RowLock, Table, Warning};
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
    let statement = Statement {
        environment,
        catalog,
        tables: RefCell::default(),
        selects: Cell::new(0),
        commons: RefCell::default(),
        definitions: Cell::new(0),
        locks: RefCell::default(),
        hints: RefCell::default(),
        warnings: RefCell::default(),
    };
    let body = statement.query(query, None)?;
    Ok(Query {
        body,
        tables: statement.tables.into_inner(),
        locks: statement.locks.into_inner(),
        hints: statement.hints.into_inner(),
        warnings: statement.warnings.into_inner(),
    })
}

impl Statement<'_> {
    /// The number of a common table expression.
    pub fn next_definition(&self) -> usize {
        let number = self.definitions.get();
        self.definitions.set(number + 1);
        number
    }

    /// A definition without its uses.
    pub fn definition(&self, name: Arc<str>, base: super::super::Relation) -> Definition {
        Definition {
            number: self.next_definition(),
            name,
            base,
            step: None,
            all: false,
        }
    }
}
