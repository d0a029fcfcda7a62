//! Values in statements that need no evaluation: a column parses their text.

use datafusion::sql::sqlparser::ast::{Expr, UnaryOperator, Value};
use perigee_value::{ColumnType, Datum, parse_text};

use super::errors::value_error;
use crate::error::{Result, SqlError};

/// A value that needs no evaluation.
pub(super) enum Simple {
    Null,
    Default,
    /// A number as written, perhaps with a minus.
    Number(String),
    Text(String),
    Truth(bool),
}

impl Simple {
    /// Its text, from which columns parse it.
    pub fn text(self) -> String {
        match self {
            Self::Null | Self::Default => String::new(),
            Self::Number(text) | Self::Text(text) => text,
            Self::Truth(v) => if v { "1" } else { "0" }.to_owned(),
        }
    }
}

/// The value of an expression that is one.
pub(super) fn simple_literal(expr: &Expr) -> Option<Simple> {
    match expr {
        Expr::Nested(inner) => simple_literal(inner),
        Expr::Identifier(ident)
            if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("DEFAULT") =>
        {
            Some(Simple::Default)
        }
        Expr::Value(value) => match &value.value {
            Value::Null => Some(Simple::Null),
            Value::Number(text, _) => Some(Simple::Number(text.clone())),
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => {
                Some(Simple::Text(text.clone()))
            }
            Value::Boolean(v) => Some(Simple::Truth(*v)),
            _ => None,
        },
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => match simple_literal(expr)? {
            Simple::Number(text) => Some(Simple::Number(format!("-{text}"))),
            _ => None,
        },
        _ => None,
    }
}

/// The value of a literal, for DEFAULT.
pub(in crate::session) fn literal_datum(expr: &Expr, ty: ColumnType) -> Result<Datum> {
    match simple_literal(expr) {
        Some(Simple::Default) | None => Err(SqlError::not_supported(format!("DEFAULT {expr}"))),
        Some(Simple::Null) => Ok(Datum::Null),
        Some(literal) => {
            parse_text(ty, literal.text().as_bytes()).map_err(|e| value_error(&e, "?", 1))
        }
    }
}
