//! Values in statements that need no evaluation: a column parses their text.

use datafusion::sql::sqlparser::ast::{Expr, UnaryOperator, Value};
use perigee_value::{ColumnType, Datum, parse_text};

use super::errors::value_error;
use crate::error::{Result, SqlError};
use crate::parse::binary::{bytes_of, number_of};

/// A value that needs no evaluation.
pub(super) enum Simple {
    Null,
    Default,
    /// A number as written, perhaps with a minus.
    Number(String),
    Text(String),
    /// A binary literal.
    Binary(Vec<u8>),
    Truth(bool),
}

impl Simple {
    /// Its text, from which a column of this type parses it.
    pub fn text(self, ty: ColumnType) -> Vec<u8> {
        match self {
            Self::Null | Self::Default => Vec::new(),
            Self::Number(text) | Self::Text(text) => text.into_bytes(),
            Self::Binary(bytes) => number_for(ty, &bytes).map_or(bytes, String::into_bytes),
            Self::Truth(v) => if v { b"1" } else { b"0" }.to_vec(),
        }
    }
}

/// A binary literal as a number, if that is what a column of this type takes it for.
pub(in crate::session) fn number_for(ty: ColumnType, bytes: &[u8]) -> Option<String> {
    let is_number = matches!(
        ty,
        ColumnType::Int { .. }
            | ColumnType::Decimal { .. }
            | ColumnType::Float
            | ColumnType::Double
    );
    // What is beyond is out of range of any integer.
    let number = || number_of(bytes).map_or(u128::MAX, u128::from);
    is_number.then(|| number().to_string())
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
            Value::HexStringLiteral(digits) => bytes_of(digits).map(Simple::Binary),
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
        Some(literal) => parse_text(ty, &literal.text(ty)).map_err(|e| value_error(&e, "?", 1)),
    }
}
