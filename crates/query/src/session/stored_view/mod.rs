//! Views of users: what the binder is told of them, and what clients are told of them.

mod rights;
mod shown;
mod text;

pub(super) use rights::Acting;
pub(super) use shown::create_view;
pub(super) use text::{check_constant, resolved};

use std::sync::Arc;

use perigee_engine::catalog::{CheckOption, ColumnDef, TableDef, ViewAlgorithm, ViewDef};
use perigee_sql_bind::query::{self, Check, ViewDefinition};
use perigee_sql_type::TEXT_CHARS;
use perigee_value::{Collation, ColumnType};
use sqlparser::ast::Query;

use super::{Session, bound};
use crate::error::{Result, SqlError};
use crate::parse::{Script, Statement};

/// What the binder is told of a view.
///
/// # Errors
/// If its text does not parse.
pub(super) fn definition(view: &ViewDef) -> Result<ViewDefinition> {
    Ok(ViewDefinition {
        query: parsed(&view.query)?.into(),
        collation: view.collation,
        account: (!view.invoker).then(|| format!("{}@{}", view.definer.0, view.definer.1).into()),
        columns: view
            .columns
            .iter()
            .map(|name| name.as_str().into())
            .collect(),
        denied: Vec::new(),
        merges: view.algorithm != ViewAlgorithm::TempTable,
        check: match view.check {
            CheckOption::None => Check::None,
            CheckOption::Local => Check::Local,
            CheckOption::Cascaded => Check::Cascaded,
        },
    })
}

/// The syntax tree of a query.
pub(super) fn parsed(text: &str) -> Result<Box<Query>> {
    let script = Script::new(text)?;
    let piece = script.pieces().next().ok_or_else(SqlError::empty_query)?;
    match piece.parse()? {
        Statement::Query(query) => Ok(query),
        Statement::Into(..) => Err(SqlError::view_clause("INTO")),
        _ => Err(SqlError::not_supported("a view of this statement")),
    }
}

impl Session {
    /// A view of a user, by its names in lower case.
    pub(super) fn stored_view(&self, schema: &str, name: &str) -> Option<Arc<ViewDef>> {
        self.frontend.engine.view(schema, name)
    }

    /// What a view looks like as a table.
    ///
    /// # Errors
    /// 1356 if what its query names is not there any more.
    pub(super) fn view_columns(&self, view: &ViewDef) -> Result<TableDef> {
        self.seen(view).map(|(columns, _)| columns)
    }

    /// What a view looks like as a table, and whether rows may be changed through it.
    ///
    /// # Errors
    /// 1356 if what its query names is not there any more.
    pub(super) fn seen(&self, view: &ViewDef) -> Result<(TableDef, bool)> {
        let rows = bound::view_rows(self, view)?;
        let source = &rows.sources[0];
        let def = TableDef {
            schema: view.schema.clone(),
            name: view.name.clone(),
            columns: source.columns.iter().map(table_column).collect(),
            ..TableDef::default()
        };
        Ok((def, !source.references.is_empty()))
    }
}

/// A column of a query as one of a table.
pub(super) fn table_column(column: &query::Column) -> ColumnDef {
    let ty = match column.ty.column {
        Some(ColumnType::Varchar { chars, collation }) if chars >= TEXT_CHARS => ColumnType::Long {
            prefix: 4,
            collation,
        },
        Some(ty) => ty,
        None => ColumnType::Varchar {
            chars: 0,
            collation: Collation::BINARY,
        },
    };
    ColumnDef {
        members: column.ty.members.clone(),
        nullable: column.ty.nullable,
        ..ColumnDef::new(&*column.name, ty)
    }
}
