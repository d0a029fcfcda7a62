//! The columns that a FROM delivers: what `*` stands for, and which column a name means where USING and NATURAL make
//! one column of two.

use std::collections::HashMap;
use std::sync::Arc;

use perigee_expr::scalar::Scalar;
use sqlparser::ast::Ident;

use super::super::{Clause, Column, QueryError};
use crate::{BindError, Result};

/// A column that a name may mean.
#[derive(Clone, Debug)]
pub(super) struct Named {
    /// The name in lower case.
    pub name: Arc<str>,
    /// Its place in the row of the FROM.
    pub place: usize,
    /// The column.
    pub column: Column,
    /// False for a column that `*` leaves out.
    pub visible: bool,
    /// The table, if this column of it may not be read.
    pub denied: Option<Arc<str>>,
}

impl Named {
    /// Checks that it may be read.
    ///
    /// # Errors
    /// 1143.
    pub fn check(&self) -> Result<()> {
        match &self.denied {
            Some(table) => {
                let column = self.column.name.to_string();
                Err(QueryError::ColumnDenied(column, table.to_string()).into())
            }
            None => Ok(()),
        }
    }
}

/// A table of a FROM, or what stands in the place of one.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Its name, in lower case.
    pub alias: Arc<str>,
    /// The schema of a table.
    pub schema: Option<Arc<str>>,
    /// The reference of a table; those of a view whose rows are made of one row of each.
    pub references: Vec<usize>,
    /// True for a view.
    pub is_view: bool,
    /// True for a view of several tables.
    pub is_join: bool,
    /// Conditions that rows of the only table of a view have to meet, over its columns.
    pub checks: Vec<Scalar>,
    /// All of its columns.
    pub columns: Vec<Named>,
}

/// The columns of a FROM, or of an operand of a join.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// In the order of `*`; where columns of two tables became one, it is here once.
    pub columns: Vec<Named>,
    /// Its tables.
    pub sources: Vec<Source>,
    /// The places in `columns` of each name, once there is an index.
    index: HashMap<Arc<str>, Vec<usize>>,
}

/// What a name means in a scope.
pub(super) enum Found<'s> {
    /// This column.
    One(&'s Named),
    /// Nothing.
    Nobody,
    /// Several columns.
    Several,
}

impl Scope {
    /// The columns of one table.
    pub fn of(source: Source) -> Self {
        Self {
            columns: source.columns.clone(),
            sources: vec![source],
            index: HashMap::new(),
        }
    }

    /// The same for a row that has so many columns before it.
    pub fn shifted(mut self, by: usize) -> Self {
        if by > 0 {
            self.each(|column| column.place += by);
        }
        self
    }

    /// The same, with rows that may be missing.
    pub fn nullable(mut self) -> Self {
        self.each(|column| column.column.ty.nullable = true);
        self
    }

    /// Notes which columns of its only table may not be read.
    pub fn deny(&mut self, denied: &[bool], table: &Arc<str>) {
        if denied.is_empty() {
            return;
        }
        self.each(|column| {
            let is_denied = denied.get(column.place) == Some(&true);
            column.denied = is_denied.then(|| Arc::clone(table));
        });
    }

    fn each(&mut self, mut change: impl FnMut(&mut Named)) {
        let of_sources = self
            .sources
            .iter_mut()
            .flat_map(|source| &mut source.columns);
        self.columns
            .iter_mut()
            .chain(of_sources)
            .for_each(&mut change);
    }

    /// The columns of both.
    pub fn beside(mut self, right: Self) -> Self {
        self.columns.extend(right.columns);
        self.sources.extend(right.sources);
        self.index.clear();
        self
    }

    /// The columns of both, of which those of `names` became one: the first operand's.
    pub fn merged(mut self, second: Self, names: &[Arc<str>]) -> Self {
        let is_merged = |column: &Named| names.contains(&column.name);
        let (common, rest): (Vec<_>, Vec<_>) = self.columns.into_iter().partition(is_merged);
        let others = second
            .columns
            .into_iter()
            .filter(|column| !is_merged(column));
        self.sources.extend(second.sources);
        Self {
            columns: common.into_iter().chain(rest).chain(others).collect(),
            sources: self.sources,
            index: HashMap::new(),
        }
    }

    /// The scope with an index, for many names.
    pub fn indexed(mut self) -> Self {
        self.index.clear();
        for (at, column) in self.columns.iter().enumerate() {
            let places = self.index.entry(Arc::clone(&column.name));
            places.or_default().push(at);
        }
        self
    }

    /// The column of a name without a table, in lower case.
    pub fn unqualified(&self, name: &str) -> Found<'_> {
        if !self.index.is_empty() {
            let places = self.index.get(name).map_or(&[][..], |places| places);
            return only(places.iter().map(|at| &self.columns[*at]));
        }
        only(self.columns.iter().filter(|column| &*column.name == name))
    }

    /// The source of a name, in lower case.
    pub fn source(&self, schema: Option<&str>, table: &str) -> Option<&Source> {
        self.sources.iter().find(|source| {
            let is_schema = schema.is_none_or(|schema| source.schema.as_deref() == Some(schema));
            is_schema && &*source.alias == table
        })
    }

    /// What a name of one to three parts means that is read.
    ///
    /// # Errors
    /// 1143; 1235 for a name of more parts.
    pub fn find(&self, name: &[Ident]) -> Result<Found<'_>> {
        let found = self.located(name)?;
        if let Found::One(named) = found {
            named.check()?;
        }
        Ok(found)
    }

    /// What a name of one to three parts means.
    ///
    /// # Errors
    /// 1235 for a name of more parts.
    pub fn located(&self, name: &[Ident]) -> Result<Found<'_>> {
        let lower = |ident: &Ident| ident.value.to_lowercase();
        let (schema, table, column) = match name {
            [column] => return Ok(self.unqualified(&lower(column))),
            [table, column] => (None, lower(table), lower(column)),
            [schema, table, column] => (Some(lower(schema)), lower(table), lower(column)),
            _ => return crate::error::unsupported("names of four parts"),
        };
        Ok(match self.source(schema.as_deref(), &table) {
            Some(source) => only(source.columns.iter().filter(|one| *one.name == *column)),
            None => Found::Nobody,
        })
    }

    /// The only column of a name, for USING.
    ///
    /// # Errors
    /// 1052, 1054, 1143.
    pub fn only(&self, name: &str) -> Result<&Named> {
        match self.unqualified(name) {
            Found::One(column) => {
                column.check()?;
                Ok(column)
            }
            Found::Nobody => Err(unknown(name, Clause::From)),
            Found::Several => {
                let error = QueryError::AmbiguousColumn(name.to_owned(), Clause::From);
                Err(error.into())
            }
        }
    }
}

fn only<'s>(mut found: impl Iterator<Item = &'s Named>) -> Found<'s> {
    match (found.next(), found.next()) {
        (Some(only), None) => Found::One(only),
        (None, _) => Found::Nobody,
        (Some(_), Some(_)) => Found::Several,
    }
}

/// A name as messages show it.
pub(super) fn written(name: &[Ident]) -> String {
    let parts: Vec<_> = name.iter().map(|ident| &*ident.value).collect();
    parts.join(".")
}

/// Error 1054.
pub(super) fn unknown(name: impl Into<String>, clause: Clause) -> BindError {
    QueryError::UnknownColumn(name.into(), clause).into()
}
