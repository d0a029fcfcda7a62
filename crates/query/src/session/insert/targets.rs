//! [`Targets`]: the columns that a statement gives values for, and what the others get.

use std::sync::Arc;

use perigee_engine::catalog::{ColumnDef, Table};
use perigee_value::{Datum, Now};
use sqlparser::ast::ObjectName;

use crate::error::{Result, SqlError};
use crate::session::dml::implicit_default;

/// The columns that an INSERT or LOAD DATA gives values for.
#[derive(Debug)]
pub(in crate::session) struct Targets {
    pub table: Arc<Table>,
    /// Table column of each value.
    pub columns: Vec<usize>,
    /// The statement has no list of columns.
    pub is_unnamed: bool,
    /// The AUTO_INCREMENT column with its place: NULL asks for a number.
    numbered: Option<(usize, ColumnDef)>,
}

impl Targets {
    pub fn new(table: &Arc<Table>, columns: &[ObjectName], adjusts: bool) -> Result<Self> {
        let mut names = Vec::new();
        for column in columns {
            let last = column.0.last().and_then(|part| part.as_ident());
            let ident = last.ok_or_else(|| SqlError::not_supported("a function as a name"))?;
            names.push(ident.value.as_str());
        }
        let targets = Self::found(table, &names)?;
        let wrong = |column: &&ColumnDef| !adjusts || implicit_default(column.ty).is_none();
        let error = targets.missing().find(wrong);
        let error = error.map(|column| SqlError::no_default(&column.name));
        error.map_or(Ok(targets), Err)
    }

    pub fn named(table: &Arc<Table>, names: &[&str]) -> Result<Self> {
        let targets = Self::found(table, names)?;
        let error = targets.warnings().next();
        error.map_or(Ok(targets), Err)
    }

    fn found(table: &Arc<Table>, names: &[&str]) -> Result<Self> {
        let numbered = table.def.auto_increment.map(|auto| {
            let column = usize::from(auto.column);
            let def = ColumnDef {
                nullable: true,
                ..table.def.columns[column].clone()
            };
            (column, def)
        });
        if names.is_empty() {
            let columns = table.def.own_columns().iter().enumerate();
            let visible = columns.filter(|(_, column)| !column.invisible);
            return Ok(Self {
                table: table.clone(),
                columns: visible.map(|(place, _)| place).collect(),
                is_unnamed: true,
                numbered,
            });
        }
        let mut columns = Vec::with_capacity(names.len());
        for name in names {
            let column = table
                .def
                .column(name)
                .ok_or_else(|| SqlError::unknown_column(name, "field list"))?;
            if columns.contains(&column) {
                return Err(SqlError::column_twice(name));
            }
            columns.push(column);
        }
        Ok(Self {
            table: table.clone(),
            columns,
            is_unnamed: false,
            numbered,
        })
    }

    /// A column of the table as statements may give values for it.
    pub fn column(&self, column: usize) -> &ColumnDef {
        match &self.numbered {
            Some((numbered, def)) if *numbered == column => def,
            _ => &self.table.def.columns[column],
        }
    }

    /// Columns that need a value and get none.
    fn missing(&self) -> impl Iterator<Item = &ColumnDef> {
        let columns = (0..self.table.def.columns.len()).map(|i| (i, self.column(i)));
        columns
            .filter(|(i, column)| {
                let is_computed = column.generated.is_some();
                let has_value =
                    column.default_at(Now::default()).is_some() || column.nullable || is_computed;
                !self.columns.contains(i) && !has_value
            })
            .map(|(_, column)| column)
    }

    /// The errors about such columns; warnings where values are adjusted.
    pub fn warnings(&self) -> impl Iterator<Item = SqlError> {
        self.missing()
            .map(|column| SqlError::no_default(&column.name))
    }

    /// Table columns in the order of the values.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// A row with every column's default, in a statement that began at `now`.
    pub fn defaults(&self, now: Now) -> Vec<Datum> {
        let mut row: Vec<Datum> = self
            .table
            .def
            .columns
            .iter()
            .map(|column| column.default_at(now).unwrap_or(Datum::Null))
            .collect();
        for column in self.missing() {
            let at = self.table.def.column(&column.name);
            let value = implicit_default(column.ty).unwrap_or(Datum::Null);
            row[at.expect("a hidden column is computed")] = value;
        }
        row
    }
}
