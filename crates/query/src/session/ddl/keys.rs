//! Keys: what statements say of them, and the rules that they keep.

use perigee_engine::catalog::TableDef;
use perigee_value::{ColumnType, MAX_COLUMNS, MAX_KEY_LEN};
use sqlparser::ast::{Expr, Ident, IndexColumn, TableConstraint};

use super::{refuse, unsupported};
use crate::error::{Result, SqlError};

/// Most columns of a key, as in MySQL.
const MAX_KEY_PARTS: usize = 16;

/// Most keys of a table, as in MySQL.
const MAX_KEYS: usize = 64;

/// Most bytes that the columns of a row may take together, as in MySQL.
const MAX_ROW_BYTES: usize = 65_535;

/// Greatest number of bytes of a character.
const BYTES_PER_CHAR: usize = 4;

/// A key as a statement defines it.
pub(super) struct NewKey {
    /// PRIMARY KEY.
    pub primary: bool,
    pub unique: bool,
    pub name: Option<String>,
    /// Names of its columns.
    pub columns: Vec<String>,
}

/// The key that a constraint of CREATE TABLE or ALTER TABLE defines.
pub(super) fn key_of(constraint: &TableConstraint) -> Result<NewKey> {
    let value = |name: Option<&Ident>| name.map(|ident| ident.value.clone());
    match constraint {
        TableConstraint::PrimaryKey(key) => {
            refuse(key.characteristics.is_some(), "DEFERRABLE")?;
            Ok(NewKey {
                primary: true,
                unique: true,
                name: None,
                columns: key_columns(&key.columns)?,
            })
        }
        TableConstraint::Unique(key) => {
            refuse(key.characteristics.is_some(), "DEFERRABLE")?;
            Ok(NewKey {
                primary: false,
                unique: true,
                name: value(key.index_name.as_ref().or(key.name.as_ref())),
                columns: key_columns(&key.columns)?,
            })
        }
        TableConstraint::Index(key) => Ok(NewKey {
            primary: false,
            unique: false,
            name: value(key.name.as_ref()),
            columns: key_columns(&key.columns)?,
        }),
        TableConstraint::FulltextOrSpatial(_) => unsupported("FULLTEXT and SPATIAL indexes"),
        _ => unsupported("this constraint"),
    }
}

/// Names of a key's columns.
pub(super) fn key_columns(columns: &[IndexColumn]) -> Result<Vec<String>> {
    if columns.len() > MAX_KEY_PARTS {
        return Err(SqlError::too_many_key_parts(MAX_KEY_PARTS));
    }
    let mut names: Vec<String> = Vec::new();
    for column in columns {
        if column.column.options.asc == Some(false) {
            return unsupported("descending indexes");
        }
        let name = match &column.column.expr {
            Expr::Identifier(ident) => ident.value.clone(),
            Expr::Function(_) => return unsupported("indexes of column prefixes"),
            _ => return unsupported("functional indexes"),
        };
        if names.iter().any(|other| other.eq_ignore_ascii_case(&name)) {
            return Err(SqlError::duplicate_column(name));
        }
        names.push(name);
    }
    Ok(names)
}

/// Checks a definition as a whole: its size; its keys, their names and lengths, and that
/// AUTO_INCREMENT's column begins one.
pub(super) fn check(def: &TableDef) -> Result<()> {
    check_size(def)?;
    for (i, index) in def.indexes.iter().enumerate() {
        let same = |name: &str| name.eq_ignore_ascii_case(&index.name);
        if same("PRIMARY") {
            return Err(SqlError::wrong_index_name(&index.name));
        }
        if def.indexes[..i].iter().any(|other| same(&other.name)) {
            return Err(SqlError::duplicate_key_name(&index.name));
        }
    }
    let keys = || {
        let others = def.indexes.iter().map(|index| &index.columns);
        [&def.primary_key].into_iter().chain(others)
    };
    for key in keys() {
        let mut columns = key.iter().map(|c| &def.columns[usize::from(*c)]);
        if let Some(column) = columns.find(|column| column.ty.is_long()) {
            return Err(match column.ty {
                ColumnType::Json => SqlError::json_key(&column.name),
                _ => SqlError::long_key(&column.name),
            });
        }
        let width = |c: &u16| greatest_width(def.columns[usize::from(*c)].ty);
        if key.iter().map(width).sum::<usize>() > MAX_KEY_LEN {
            return Err(SqlError::key_too_long(MAX_KEY_LEN));
        }
    }
    let begins_key = |column| keys().any(|key| key.first() == Some(&column));
    match def.auto_increment {
        Some(auto) if !begins_key(auto.column) => Err(SqlError::wrong_auto_increment()),
        _ => Ok(()),
    }
}

fn check_size(def: &TableDef) -> Result<()> {
    // Without a primary key there is a hidden column.
    let has_primary = !def.primary_key.is_empty();
    if def.columns.len() + usize::from(!has_primary) > MAX_COLUMNS {
        return Err(SqlError::too_many_columns());
    }
    if def.indexes.len() + usize::from(has_primary) > MAX_KEYS {
        return Err(SqlError::too_many_keys(MAX_KEYS));
    }
    let length_bytes = |ty| match (ty, greatest_width(ty)) {
        (ColumnType::Varchar { .. }, width) => 1 + usize::from(width > 255),
        // The length and a pointer to the rest.
        (ColumnType::Long { prefix, .. }, _) => usize::from(prefix) + size_of::<u64>(),
        (ColumnType::Json, _) => size_of::<u32>() + size_of::<u64>(),
        _ => 0,
    };
    let bytes = |ty| greatest_width(ty) + length_bytes(ty);
    let values: usize = def.columns.iter().map(|column| bytes(column.ty)).sum();
    let nullable = def.columns.iter().filter(|column| column.nullable).count();
    if values + nullable.div_ceil(8) > MAX_ROW_BYTES {
        return Err(SqlError::row_too_long(MAX_ROW_BYTES));
    }
    Ok(())
}

/// Bytes that a value takes at most in a row or key, as MySQL counts them.
fn greatest_width(ty: ColumnType) -> usize {
    match ty {
        ColumnType::Char { chars, collation } | ColumnType::Varchar { chars, collation } => {
            let bytes = match collation.is_text() {
                true => usize::from(collation.charset().max_len()),
                false => BYTES_PER_CHAR,
            };
            usize::from(chars) * bytes
        }
        other => other.stored_width().map_or(0, usize::from),
    }
}
