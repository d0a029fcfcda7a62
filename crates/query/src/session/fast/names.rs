//! The one table of a statement, and what its columns are called there.

use std::sync::Arc;

use perigee_engine::catalog::Table;
use sqlparser::ast::{Expr, Ident, TableFactor, TableWithJoins};

use super::super::Session;

/// A table and its name in a statement.
#[derive(Debug)]
pub(super) struct Names<'a> {
    pub(super) table: &'a Arc<Table>,
    alias: String,
}

/// The table that a FROM names, if it names one that exists and says nothing else: the table, its
/// name in the statement, and whether its schema is the session's.
pub(super) fn only_table(
    session: &Session,
    from: &[TableWithJoins],
) -> Option<(Arc<Table>, String, bool)> {
    let [TableWithJoins { relation, joins }] = from else {
        return None;
    };
    let TableFactor::Table {
        name,
        alias,
        args: None,
        with_hints,
        version: None,
        with_ordinality: false,
        partitions,
        json_path: None,
        sample: None,
        index_hints,
    } = relation
    else {
        return None;
    };
    let plain = joins.is_empty()
        && with_hints.is_empty()
        && partitions.is_empty()
        && index_hints.is_empty()
        && alias
            .as_ref()
            .is_none_or(|a| a.columns.is_empty() && a.at.is_none());
    if !plain {
        return None;
    }
    let table = session.named_table(name).ok()?;
    let alias = match alias {
        Some(alias) => alias.name.value.to_lowercase(),
        None => table.def.name.clone(),
    };
    Some((table, alias, name.0.len() == 1))
}

impl<'a> Names<'a> {
    pub(super) fn new(table: &'a Arc<Table>, alias: String) -> Self {
        Self { table, alias }
    }

    /// The column that an expression is, if it is one whose values are what is stored: those of an ENUM
    /// are not.
    pub(super) fn column(&self, expr: &Expr) -> Option<u16> {
        self.shown(expr).filter(|column| {
            let def = &self.table.def.columns[usize::from(*column)];
            def.members.is_none()
        })
    }

    /// The column that an expression is, if it is one.
    pub(super) fn shown(&self, expr: &Expr) -> Option<u16> {
        match expr {
            Expr::Nested(inner) => self.shown(inner),
            Expr::Identifier(ident) => self.named(ident),
            Expr::CompoundIdentifier(idents) => match &idents[..] {
                [table, column] if table.value.to_lowercase() == self.alias => self.named(column),
                _ => None,
            },
            _ => None,
        }
    }

    /// The column of a name.
    pub(super) fn named(&self, ident: &Ident) -> Option<u16> {
        let column = self.table.def.column(&ident.value)?;
        u16::try_from(column).ok()
    }
}
