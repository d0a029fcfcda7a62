//! Keys: what statements say of them, and the rules that they keep.

use perigee_engine::catalog::TableDef;
use perigee_value::{ColumnType, MAX_COLUMNS, MAX_KEY_LEN};
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, IndexColumn, TableConstraint,
    Value,
};

use super::{refuse, unsupported};
use crate::error::{Result, SqlError};
use crate::parse::is_invisible;

/// Most columns of a key, as in MySQL.
const MAX_KEY_PARTS: usize = 16;

/// Most keys of a table, as in MySQL.
const MAX_KEYS: usize = 64;

/// Most bytes that the columns of a row may take together, as in MySQL.
const MAX_ROW_BYTES: usize = 65_535;

/// A key as a statement defines it.
pub(super) struct NewKey {
    /// PRIMARY KEY.
    pub primary: bool,
    pub unique: bool,
    pub name: Option<String>,
    pub parts: Vec<NewPart>,
    /// INVISIBLE.
    pub invisible: bool,
}

/// A part of a key as a statement defines it.
pub(super) struct NewPart {
    pub of: PartOf,
    /// DESC.
    pub descending: bool,
}

/// What a part of a key is made of.
pub(super) enum PartOf {
    /// A column, or as much of its beginning.
    Column { name: String, length: Option<u64> },
    /// An expression.
    Expression(Box<Expr>),
}

impl NewPart {
    /// A column.
    pub(super) fn column(name: String) -> Self {
        Self {
            of: PartOf::Column { name, length: None },
            descending: false,
        }
    }
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
                parts: key_parts(&key.columns)?,
                invisible: is_invisible(&key.index_options),
            })
        }
        TableConstraint::Unique(key) => {
            refuse(key.characteristics.is_some(), "DEFERRABLE")?;
            Ok(NewKey {
                primary: false,
                unique: true,
                name: value(key.index_name.as_ref().or(key.name.as_ref())),
                parts: key_parts(&key.columns)?,
                invisible: is_invisible(&key.index_options),
            })
        }
        TableConstraint::Index(key) => Ok(NewKey {
            primary: false,
            unique: false,
            name: value(key.name.as_ref()),
            parts: key_parts(&key.columns)?,
            invisible: is_invisible(&key.index_options),
        }),
        TableConstraint::FulltextOrSpatial(_) => unsupported("FULLTEXT and SPATIAL indexes"),
        _ => unsupported("this constraint"),
    }
}

/// The parts of a key.
pub(super) fn key_parts(columns: &[IndexColumn]) -> Result<Vec<NewPart>> {
    if columns.len() > MAX_KEY_PARTS {
        return Err(SqlError::too_many_key_parts(MAX_KEY_PARTS));
    }
    let mut parts: Vec<NewPart> = Vec::new();
    for column in columns {
        let of = part_of(&column.column.expr)?;
        if let PartOf::Column { name, .. } = &of {
            let is_it = |part: &NewPart| match &part.of {
                PartOf::Column { name: other, .. } => other.eq_ignore_ascii_case(name),
                PartOf::Expression(_) => false,
            };
            if parts.iter().any(is_it) {
                return Err(SqlError::duplicate_column(name));
            }
        }
        parts.push(NewPart {
            of,
            descending: column.column.options.asc == Some(false),
        });
    }
    Ok(parts)
}

/// What a part is made of: `a`, `a(10)`, which reads as a function, or `(a + b)`.
fn part_of(expr: &Expr) -> Result<PartOf> {
    match expr {
        Expr::Identifier(ident) => Ok(PartOf::Column {
            name: ident.value.clone(),
            length: None,
        }),
        Expr::Function(function) => {
            let name = match &function.name.0[..] {
                [name] => name.as_ident().map(|ident| ident.value.clone()),
                _ => None,
            };
            let length = prefix_length(&function.args);
            match (name, length) {
                (Some(name), Some(length)) => Ok(PartOf::Column {
                    name,
                    length: Some(length),
                }),
                _ => Err(SqlError::syntax(expr.to_string(), 1)),
            }
        }
        Expr::Nested(inner) => Ok(PartOf::Expression(inner.clone())),
        _ => Err(SqlError::syntax(expr.to_string(), 1)),
    }
}

/// The only argument of a function, if that is a whole number.
fn prefix_length(arguments: &FunctionArguments) -> Option<u64> {
    let FunctionArguments::List(list) = arguments else {
        return None;
    };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] = &list.args[..] else {
        return None;
    };
    match &value.value {
        Value::Number(digits, _) => digits.to_string().parse().ok(),
        _ => None,
    }
}

/// Checks a definition as a whole: its size; its keys, their names and lengths, and that
/// AUTO_INCREMENT's column begins one.
pub(super) fn check(def: &TableDef) -> Result<()> {
    check_size(def)?;
    if def.own_columns().iter().all(|column| column.invisible) {
        return Err(SqlError::no_visible_column());
    }
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
    let columns = def.own_columns();
    let values: usize = columns.iter().map(|column| bytes(column.ty)).sum();
    let nullable = columns.iter().filter(|column| column.nullable).count();
    if values + nullable.div_ceil(8) > MAX_ROW_BYTES {
        return Err(SqlError::row_too_long(MAX_ROW_BYTES));
    }
    Ok(())
}

/// Bytes that a value takes at most in a row or key, as MySQL counts them.
fn greatest_width(ty: ColumnType) -> usize {
    match ty {
        ColumnType::Char { chars, collation } | ColumnType::Varchar { chars, collation } => {
            usize::from(chars) * usize::from(collation.charset().max_len())
        }
        other => other.stored_width().map_or(0, usize::from),
    }
}
