//! JSON_TABLE in a FROM: a table that sees what stands before it.

use std::sync::Arc;

use perigee_expr::json_table::{JsonColumn, JsonTable, JsonValue, Otherwise, default_value};
use perigee_sql_type::{Coercibility, SqlType, TEXT_CHARS};
use perigee_value::json::{Json, Path};
use perigee_value::{Collation, ColumnType};
use sqlparser::ast::{
    CharacterLength, DataType, ExactNumberInfo, Expr, JsonTableColumn,
    JsonTableColumnErrorHandling, JsonTableNamedColumn, TableAlias, TimezoneInfo, Value as Literal,
    ValueWithSpan,
};

use super::super::{Clause, Column, Operator, QueryError, Relation};
use super::block::{Block, Frame};
use super::from::{From, FromItem, column_names, renamed, scope_of};
use super::scope::Scope;
use crate::error::unsupported;
use crate::{BindError, Result};

/// Digits of a DECIMAL that does not say how many.
const DIGITS: u8 = 10;

impl From<'_> {
    /// The rows of a document, which may depend on the rows of `outer`.
    pub fn json_table(
        &self,
        (document, path): (&Expr, &ValueWithSpan),
        columns: &[JsonTableColumn],
        alias: Option<&TableAlias>,
        outer: Option<&Frame<'_>>,
    ) -> Result<FromItem> {
        let Some(alias) = alias else {
            return Err(QueryError::DerivedAlias.into());
        };
        let name: Arc<str> = alias.name.value.to_lowercase().into();
        self.add_name(None, &name)?;
        if !column_names(alias)?.is_empty() {
            return unsupported("column names of a table's alias");
        }
        let block = Block::new(self.statement, Scope::default(), 0, outer, Clause::From);
        let document = block.expression(document, Clause::From)?;
        let is_document = document.ty.is_json() || document.ty.is_text() || document.ty.is_null();
        if !is_document {
            return Err(BindError::WrongArguments("JSON_TABLE".into()));
        }
        if !document.places().is_empty() {
            return unsupported("a subquery as the document of JSON_TABLE");
        }
        let collation = crate::Environment::collation(&block);
        let mut own = Vec::new();
        let table = table(path, columns, collation, &mut own)?;
        let columns = renamed(&own.into(), &[], &name)?;
        Ok(FromItem {
            scope: scope_of(&name, &columns),
            relation: Relation {
                operator: Operator::JsonTable {
                    document,
                    table: Arc::new(table),
                },
                columns,
            },
        })
    }
}

/// The rows of a path, whose columns are added to the others.
fn table(
    rows: &ValueWithSpan,
    columns: &[JsonTableColumn],
    collation: Collation,
    all: &mut Vec<Column>,
) -> Result<JsonTable> {
    let rows = path(rows)?;
    let add = |all: &mut Vec<Column>, name: &str, ty: SqlType| {
        all.push(Column {
            name: name.into(),
            table: None,
            origin: None,
            ty: ty.nullable(true),
        });
    };
    let columns = columns.iter().map(|column| match column {
        JsonTableColumn::ForOrdinality(name) => {
            let ty = SqlType::of(ColumnType::Int {
                bytes: 4,
                unsigned: true,
            });
            add(all, &name.value, ty);
            Ok(JsonColumn::Ordinality)
        }
        JsonTableColumn::Nested(nested) => {
            let nested = table(&nested.path, &nested.columns, collation, all)?;
            Ok(JsonColumn::Nested(nested))
        }
        JsonTableColumn::Named(column) => {
            let ty = column_type(&column.r#type, collation)?;
            let mut of_column = SqlType::of(ty);
            if ty.is_string() {
                of_column.coercibility = Coercibility::Implicit;
            }
            add(all, &column.name.value, of_column);
            value(column, ty)
        }
    });
    Ok(JsonTable {
        path: rows,
        columns: columns.collect::<Result<_>>()?,
    })
}

fn value(column: &JsonTableNamedColumn, ty: ColumnType) -> Result<JsonColumn> {
    let path = path(&column.path)?;
    if column.exists {
        if column.on_empty.is_some() || column.on_error.is_some() {
            return Err(QueryError::Syntax("ON".into()).into());
        }
        return match ty {
            ColumnType::Json | ColumnType::Date => unsupported("EXISTS PATH of this type"),
            ty if ty.fsp().is_some() => unsupported("EXISTS PATH of this type"),
            ty => Ok(JsonColumn::Exists { path, ty }),
        };
    }
    let name = &column.name.value;
    Ok(JsonColumn::Value(Box::new(JsonValue {
        on_empty: otherwise(column.on_empty.as_ref(), ty, name)?,
        on_error: otherwise(column.on_error.as_ref(), ty, name)?,
        name: name.clone(),
        ty,
        path,
    })))
}

fn otherwise(
    said: Option<&JsonTableColumnErrorHandling>,
    ty: ColumnType,
    column: &str,
) -> Result<Otherwise> {
    Ok(match said {
        None | Some(JsonTableColumnErrorHandling::Null) => Otherwise::Null,
        Some(JsonTableColumnErrorHandling::Error) => Otherwise::Error,
        Some(JsonTableColumnErrorHandling::Default(default)) => {
            let invalid = || QueryError::InvalidDefault(column.to_owned());
            let text = string(default).ok_or_else(invalid)?;
            let json = Json::parse(text).map_err(|_| invalid())?;
            Otherwise::Default(default_value(&json, ty).ok_or_else(invalid)?)
        }
    })
}

fn path(literal: &ValueWithSpan) -> Result<Path> {
    let text = string(literal).ok_or_else(|| QueryError::Syntax(literal.to_string()))?;
    Path::parse(text).map_err(|at| QueryError::JsonPath(at).into())
}

fn string(literal: &ValueWithSpan) -> Option<&str> {
    match &literal.value {
        Literal::SingleQuotedString(text) | Literal::DoubleQuotedString(text) => Some(text),
        _ => None,
    }
}

/// The type of a column.
fn column_type(ty: &DataType, collation: Collation) -> Result<ColumnType> {
    let int = |bytes, unsigned| ColumnType::Int { bytes, unsigned };
    let long = |prefix| ColumnType::Long { prefix, collation };
    let chars = |length: &Option<CharacterLength>, default: u64| {
        let chars = match length {
            Some(CharacterLength::IntegerLength { length, unit: None }) => *length,
            None => default,
            Some(_) => u64::MAX,
        };
        u16::try_from(chars)
            .ok()
            .filter(|chars| *chars < TEXT_CHARS)
    };
    let too_long = || BindError::NotSupported(format!("{ty} in JSON_TABLE"));
    let fsp = |fsp: &Option<u64>| u8::try_from(fsp.unwrap_or(0)).ok().filter(|fsp| *fsp <= 6);
    Ok(match ty {
        DataType::TinyInt(_) => int(1, false),
        DataType::TinyIntUnsigned(_) => int(1, true),
        DataType::SmallInt(_) => int(2, false),
        DataType::SmallIntUnsigned(_) => int(2, true),
        DataType::MediumInt(_) => int(3, false),
        DataType::MediumIntUnsigned(_) => int(3, true),
        DataType::Int(_) | DataType::Integer(_) => int(4, false),
        DataType::IntUnsigned(_) | DataType::IntegerUnsigned(_) => int(4, true),
        DataType::BigInt(_) => int(8, false),
        DataType::BigIntUnsigned(_) => int(8, true),
        DataType::Double(ExactNumberInfo::None) | DataType::DoublePrecision | DataType::Real => {
            ColumnType::Double
        }
        DataType::Float(ExactNumberInfo::None) => ColumnType::Float,
        DataType::Decimal(info) | DataType::Dec(info) | DataType::Numeric(info) => {
            let (precision, scale) = match *info {
                ExactNumberInfo::None => (u64::from(DIGITS), 0),
                ExactNumberInfo::Precision(precision) => (precision, 0),
                ExactNumberInfo::PrecisionAndScale(precision, scale) => {
                    (precision, u64::try_from(scale).unwrap_or(u64::MAX))
                }
            };
            let is_one = (1..=u64::from(ColumnType::MAX_PRECISION)).contains(&precision);
            if !is_one || scale > precision.min(30) {
                return Err(too_long());
            }
            ColumnType::Decimal {
                precision: precision as u8,
                scale: scale as u8,
            }
        }
        DataType::Char(length) | DataType::Character(length) => ColumnType::Varchar {
            chars: chars(length, 1).ok_or_else(too_long)?,
            collation,
        },
        DataType::Varchar(Some(length)) => ColumnType::Varchar {
            chars: chars(&Some(*length), 0).ok_or_else(too_long)?,
            collation,
        },
        DataType::TinyText => long(1),
        DataType::Text => long(2),
        DataType::MediumText => long(3),
        DataType::LongText => long(4),
        DataType::JSON => ColumnType::Json,
        DataType::Date => ColumnType::Date,
        DataType::Datetime(digits) => ColumnType::DateTime {
            fsp: fsp(digits).ok_or_else(too_long)?,
        },
        DataType::Time(digits, TimezoneInfo::None) => ColumnType::Time {
            fsp: fsp(digits).ok_or_else(too_long)?,
        },
        _ => return Err(too_long()),
    })
}
