//! Several values of which one is the result, in plans: their common type, which the binder found, as a field, and what
//! makes each of them one of that type. Nothing is left for DataFusion's own coercion to decide.

use std::collections::HashMap;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, Result as DfResult};
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use perigee_engine::ndp::column_data_type;
use perigee_sql_type::SqlType;
use perigee_value::{Collation, ColumnType};

use super::{collation, metadata};
use crate::functions::cast::Target;
use crate::functions::types::{decimal_type, is_bytes, is_string};
use crate::plan::operators::{as_bytes, cast_to};

/// What several values have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Common {
    /// Arrow type.
    pub data_type: DataType,
    /// The type; `None` for NULLs, and for truth values, which stay what they are.
    pub ty: Option<ColumnType>,
}

/// The Arrow type of values of a type.
#[must_use]
pub fn data_type_of(ty: ColumnType) -> DataType {
    match ty {
        ColumnType::Decimal { precision, scale } => decimal_type(precision, scale),
        other => column_data_type(other),
    }
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
            ColumnType::Int { .. }
            | ColumnType::Year
            | ColumnType::Bit { .. }
            | ColumnType::Decimal { .. } => cast(truth(expr), self.data_type.clone()),
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
