//! Values in statements that need no evaluation: a column parses their text.

use perigee_engine::catalog::ColumnDef;
use perigee_value::{ColumnType, Datum, ValueRef, Zone, format_value, parse_text};
use sqlparser::ast::{Expr, UnaryOperator, Value};

use super::errors::value_error;
use crate::error::{Result, SqlError};
use crate::session::dml::is_moment;
use perigee_sql_bind::binary::{bytes_of, number_of};

/// A value that needs no evaluation.
pub(super) enum Simple {
    Null,
    Default,
    /// A number as MySQL shows it.
    Number(String),
    Text(String),
    /// A binary literal.
    Binary(Vec<u8>),
    Truth(bool),
}

impl Simple {
    /// The number that it is, and its type, for a column to which a number and its text are different values: an ENUM or a
    /// BIT.
    pub fn number(&self, column: &ColumnDef) -> Option<(Datum, ColumnType)> {
        let text = match self {
            Self::Number(text) => text.as_str(),
            Self::Truth(true) => "1",
            Self::Truth(false) => "0",
            _ => return None,
        };
        let is_bit = matches!(column.ty, ColumnType::Bit { .. });
        (is_bit || column.members.is_some()).then(|| number(text, is_bit))
    }

    /// Its text, from which a column parses it.
    pub fn text(self, column: &ColumnDef) -> Vec<u8> {
        match self {
            Self::Null | Self::Default => Vec::new(),
            // The text of a zero would be the year 2000.
            Self::Number(text) if column.ty == ColumnType::Year && is_zero(&text) => {
                b"0000".to_vec()
            }
            Self::Number(text) if is_moment(column.ty) && is_zero(&text) => b"0000-00-00".to_vec(),
            Self::Number(text) | Self::Text(text) => text.into_bytes(),
            // Its bytes are those of the number.
            Self::Binary(bytes) if matches!(column.ty, ColumnType::Bit { .. }) => bytes,
            Self::Binary(bytes) => number_for(column, &bytes).map_or(bytes, String::into_bytes),
            Self::Truth(v) => Self::Number(u8::from(v).to_string()).text(column),
        }
    }
}

/// A number as it is shown, as an integer, a decimal if it is to be rounded, or a DOUBLE.
fn number(text: &str, rounds: bool) -> (Datum, ColumnType) {
    let bigint = |unsigned| ColumnType::Int { bytes: 8, unsigned };
    if let Ok(number) = text.parse() {
        return (Datum::Int(number), bigint(false));
    }
    if let Ok(number) = text.parse() {
        return (Datum::UInt(number), bigint(true));
    }
    let decimal = ColumnType::Decimal {
        precision: ColumnType::MAX_PRECISION,
        scale: ColumnType::MAX_SCALE,
    };
    match parse_text(decimal, text.as_bytes()) {
        Ok(number) if rounds => (number, decimal),
        _ => {
            let number = text.parse().unwrap_or_default();
            (Datum::Double(number), ColumnType::Double)
        }
    }
}

/// True for a number that is rounded to zero.
fn is_zero(number: &str) -> bool {
    number.parse::<f64>().is_ok_and(|value| value.abs() < 0.5)
}

/// A binary literal as a number, if that is what a column takes it for.
pub(in crate::session) fn number_for(column: &ColumnDef, bytes: &[u8]) -> Option<String> {
    let is_number = column.members.is_none()
        && matches!(
            column.ty,
            ColumnType::Int { .. }
                | ColumnType::Bit { .. }
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
            Value::Number(text, _) => plain_number(text).map(Simple::Number),
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
            Simple::Number(text) => Some(Simple::Number(minus(text))),
            _ => None,
        },
        _ => None,
    }
}

/// A number as MySQL shows it.
fn plain_number(text: &str) -> Option<String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut digits = whole.bytes().chain(fraction.bytes());
    if !digits.all(|byte| byte.is_ascii_digit()) {
        // With an exponent it is a DOUBLE.
        let value = ValueRef::Double(text.parse().ok()?);
        let mut shown = String::new();
        format_value(ColumnType::Double, value, &mut shown);
        return Some(shown);
    }
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    Some(match fraction {
        "" => whole.to_owned(),
        fraction => format!("{whole}.{fraction}"),
    })
}

/// There is no negative zero among exact numbers, and two minus signs are none.
fn minus(text: String) -> String {
    if text.bytes().all(|byte| matches!(byte, b'0' | b'.')) {
        return text;
    }
    match text.strip_prefix('-') {
        Some(positive) => positive.to_owned(),
        None => format!("-{text}"),
    }
}

/// The value of a literal, for DEFAULT of a column.
pub(in crate::session) fn literal_datum(
    expr: &Expr,
    column: &ColumnDef,
    zone: Zone,
) -> Result<Datum> {
    match simple_literal(expr) {
        Some(Simple::Default) | None => Err(SqlError::not_supported(format!("DEFAULT {expr}"))),
        Some(Simple::Null) => Ok(Datum::Null),
        Some(literal) => {
            let parsed = match literal.number(column) {
                Some((number, from)) => column.coerce(number, from, zone),
                None => column.parse(&literal.text(column), zone),
            };
            parsed.map_err(|e| value_error(&e, "?", 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_mysql_shows_them() {
        for (written, plain) in [
            ("0", Some("0")),
            ("007", Some("7")),
            (".5", Some("0.5")),
            ("5.", Some("5")),
            ("00.50", Some("0.50")),
            ("1e3", Some("1000")),
            ("1.5E-3", Some("0.0015")),
            ("0x1F", None),
        ] {
            assert_eq!(plain_number(written).as_deref(), plain, "{written}");
        }
        let year = ColumnDef::new("y", ColumnType::Year);
        for (number, shown) in [
            ("0", "0000"),
            ("0.125", "0000"),
            ("0.5", "0.5"),
            ("94", "94"),
        ] {
            let text = Simple::Number(number.to_owned()).text(&year);
            assert_eq!(text, shown.as_bytes());
        }
        let truth = Simple::Truth(false).text(&year);
        assert_eq!(truth, b"0000", "a truth value is a number");
        for (text, negated) in [("0", "0"), ("0.00", "0.00"), ("7", "-7"), ("-0.5", "0.5")] {
            assert_eq!(minus(text.to_owned()), negated);
        }
    }
}
