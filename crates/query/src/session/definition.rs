//! Tables as the binder sees them.

use perigee_engine::catalog::TableDef;
use perigee_sql_bind::query::{TableColumn, TableDefinition};
use perigee_sql_type::SqlType;

use super::row_expr::key_expression;

/// The name of the primary key among indexes.
pub const PRIMARY: &str = "primary";

/// What the binder sees of a table.
#[must_use]
pub fn definition(def: &TableDef) -> TableDefinition {
    let columns = def.columns.iter().map(|column| {
        let ty = match &column.members {
            Some(members) => SqlType::of_members(members.clone()),
            None => SqlType::of(column.ty),
        };
        TableColumn {
            name: column.name.as_str().into(),
            ty: ty.nullable(column.nullable),
            visible: !column.invisible,
            hidden: column.hidden.is_some(),
            expression: key_expression(def, column),
        }
    });
    let places = |columns: &[u16]| columns.iter().map(|column| usize::from(*column)).collect();
    let is_key = |columns: &[u16]| {
        let mut columns = columns.iter();
        columns.all(|column| !def.columns[usize::from(*column)].nullable)
    };
    let mut unique_keys: Vec<Vec<usize>> = Vec::new();
    let (mut indexes, mut invisible_indexes) = (Vec::new(), Vec::new());
    if !def.primary_key.is_empty() {
        unique_keys.push(places(&def.primary_key));
        indexes.push(PRIMARY.to_owned());
    }
    for index in &def.indexes {
        if index.unique && is_key(&index.columns) {
            unique_keys.push(places(&index.columns));
        }
        if index.invisible {
            invisible_indexes.push(indexes.len());
        }
        indexes.push(index.name.to_lowercase());
    }
    TableDefinition {
        columns: columns.collect(),
        denied: Vec::new(),
        unique_keys,
        indexes,
        invisible_indexes,
        stored_in: def.is_temporary().then(|| def.schema.as_str().into()),
    }
}
