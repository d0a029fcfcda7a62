//! Several values of which one is the result, in plans: their common type ([`perigee_sql_type::unify`]) as a field, and
//! what makes each of them one of that type. Nothing is left for DataFusion's own coercion to decide.

use std::collections::HashMap;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, Result as DfResult, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use perigee_engine::ndp::column_data_type;
use perigee_sql_type::SqlType;
use perigee_sql_type::unify::{Clash, Part, unify};
use perigee_value::{Collation, ColumnType};

use super::{collation, metadata};
use crate::error::SqlError;
use crate::functions::cast::Target;
use crate::functions::types::{decimal_type, is_bytes, is_string};
use crate::plan::operators::{as_bytes, cast_to};
use crate::result::type_of;

/// What several values have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Common {
    /// Arrow type.
    pub data_type: DataType,
    /// The type; `None` for NULLs, and for truth values, which stay what they are.
    pub ty: Option<ColumnType>,
}

/// A value's field, and the value if it is a literal.
pub type Branch<'a> = (&'a Field, Option<&'a ScalarValue>);

/// The type of one of several values.
///
/// # Errors
/// 1235 for types that do not go together.
pub fn common<'a>(branches: impl IntoIterator<Item = Branch<'a>>) -> DfResult<Common> {
    let branches: Vec<Branch<'_>> = branches.into_iter().collect();
    let typed = || {
        branches
            .iter()
            .filter(|(field, _)| !metadata::is_null(field))
    };
    let is_truth = |(field, _): &Branch<'_>| *field.data_type() == DataType::Boolean;
    if typed().next().is_some() && typed().all(is_truth) {
        return Ok(Common {
            data_type: DataType::Boolean,
            ty: None,
        });
    }
    let ty = unify(typed().map(|branch| part(*branch)));
    let ty = ty.map_err(|Clash(a, b)| {
        SqlError::not_supported(format!("one value of {a} or {b}")).into_df()
    })?;
    Ok(Common {
        data_type: ty.map_or(DataType::Null, data_type_of),
        ty,
    })
}

/// The Arrow type of values of a type.
#[must_use]
pub fn data_type_of(ty: ColumnType) -> DataType {
    match ty {
        ColumnType::Decimal { precision, scale } => decimal_type(precision, scale),
        other => column_data_type(other),
    }
}

/// A branch as a part of the result.
fn part((field, literal): Branch<'_>) -> Part {
    let bigint = ColumnType::Int {
        bytes: 8,
        unsigned: false,
    };
    let ty = declared(field).unwrap_or(bigint);
    let digits = |v: u64| Some(v.checked_ilog10().unwrap_or(0) as u8 + 1);
    match literal {
        _ if *field.data_type() == DataType::Boolean => Part::constant(bigint, Some(1)),
        None => Part::new(ty),
        Some(ScalarValue::Int64(Some(v))) => Part::constant(ty, digits(v.unsigned_abs())),
        Some(ScalarValue::UInt64(Some(v))) => Part::constant(ty, digits(*v)),
        Some(value) => match (ty, value.try_as_str()) {
            (ColumnType::Varchar { collation, .. }, Some(Some(text))) => {
                let chars = u16::try_from(text.chars().count());
                let chars = chars.unwrap_or(crate::result::TEXT_CHARS);
                Part::constant(ColumnType::Varchar { chars, collation }, None)
            }
            _ => Part::constant(ty, None),
        },
    }
}

/// The type of a field; that of an ENUM is the one of its texts.
fn declared(field: &Field) -> Option<ColumnType> {
    let Some(members) = metadata::members(field) else {
        return type_of(field);
    };
    let longest = members
        .texts()
        .iter()
        .map(|text| text.chars().count())
        .max();
    Some(ColumnType::Varchar {
        chars: u16::try_from(longest.unwrap_or(0)).unwrap_or(crate::result::TEXT_CHARS),
        collation: members.collation(),
    })
}

/// The literal that an expression is.
#[must_use]
pub fn literal(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value),
        Expr::Alias(alias) => literal(&alias.expr),
        _ => None,
    }
}

/// The type of one of several expressions.
///
/// # Errors
/// As [`common`].
pub fn common_of<'e>(
    exprs: impl IntoIterator<Item = &'e Expr>,
    schema: &DFSchema,
) -> DfResult<Common> {
    let mut fields = Vec::new();
    for expr in exprs {
        fields.push((expr.to_field(schema)?.1, literal(expr)));
    }
    common(
        fields
            .iter()
            .map(|(field, literal)| (field.as_ref(), *literal)),
    )
}

impl Common {
    /// What values of a type have in common.
    #[must_use]
    pub fn of(ty: &SqlType) -> Self {
        let column = ty.column.filter(|_| !ty.truth);
        let data_type = match column {
            _ if ty.truth => DataType::Boolean,
            Some(column) => data_type_of(column),
            None => DataType::Null,
        };
        Self {
            data_type,
            ty: column,
        }
    }

    /// What clients and the tables that are made of it are told of the type, beside the Arrow type; `own` is the
    /// collation of texts, over a field that says another one.
    #[must_use]
    pub fn metadata(&self, own: Option<Collation>) -> HashMap<String, String> {
        let mut map = HashMap::new();
        if let Some(ty) = self.ty {
            metadata::declare(&mut map, &ty);
        }
        if let Some(own) = own.filter(|_| is_string(&self.data_type)) {
            metadata::name_collation(&mut map, own);
        }
        map
    }

    /// A value as one of this type. No value is lost: one that has no place in the type is an error when it
    /// comes.
    ///
    /// # Errors
    /// If the expression has no type.
    pub fn convert(&self, expr: Expr, schema: &DFSchema) -> DfResult<Expr> {
        let (_, field) = expr.to_field(schema)?;
        let from = field.data_type();
        if from.is_null() && !self.data_type.is_null() {
            return Ok(cast(expr, self.data_type.clone()));
        }
        let Some(ty) = self.ty else {
            return Ok(expr);
        };
        let is_enum = metadata::is_enum(&field);
        if is_string(&self.data_type) && is_enum {
            return Ok(collation::of_no_column(expr, metadata::collation(&field)));
        }
        if *from == self.data_type {
            return Ok(expr);
        }
        let truth = |expr| match from {
            DataType::Boolean => cast(expr, DataType::Int64),
            _ => expr,
        };
        Ok(match ty {
            ColumnType::Int { .. } | ColumnType::Year | ColumnType::Decimal { .. } => {
                cast(truth(expr), self.data_type.clone())
            }
            ColumnType::Float => cast(truth(expr), DataType::Float32),
            ColumnType::Double => cast_to(expr, Target::Double),
            ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => {
                cast_to(expr, Target::DateTime(fsp))
            }
            ColumnType::Date => cast_to(expr, Target::Date),
            ColumnType::Time { fsp } => cast_to(expr, Target::Time(fsp)),
            ColumnType::Json => cast_to(expr, Target::Json),
            ColumnType::Char { .. } | ColumnType::Varchar { .. } | ColumnType::Long { .. } => {
                if is_bytes(from) {
                    return Ok(as_bytes(expr, from));
                }
                if is_bytes(&self.data_type) {
                    let text = as_text(expr, &field);
                    return Ok(as_bytes(text, &DataType::Utf8View));
                }
                as_text(expr, &field)
            }
        })
    }

    /// A result whose field has lost its digits of fractional seconds, with these.
    #[must_use]
    pub fn with_digits(&self, expr: Expr) -> Expr {
        match self.ty {
            Some(ColumnType::DateTime { fsp: fsp @ 1.. }) => cast_to(expr, Target::DateTime(fsp)),
            Some(ColumnType::Timestamp { fsp: fsp @ 1.. }) => cast_to(expr, Target::DateTime(fsp)),
            Some(ColumnType::Time { fsp: fsp @ 1.. }) => cast_to(expr, Target::Time(fsp)),
            _ => expr,
        }
    }
}

/// A value as the text that is shown.
fn as_text(expr: Expr, field: &Field) -> Expr {
    if is_string(field.data_type()) && !crate::functions::types::is_json(field.data_type()) {
        return expr;
    }
    cast_to(expr, Target::Char(None))
}
