//! Literals.

use perigee_expr::functions::Value;
use perigee_expr::scalar::{Node, Scalar};
use perigee_sql_type::{Number, SqlType, TEXT_CHARS};
use perigee_value::{Collation, ColumnType, Datum, decimal, parse_text};
use sqlparser::ast::Value as Literal;

use crate::binary::{bytes_of, number_of};
use crate::error::unsupported;
use crate::query::QueryError;
use crate::{BindError, Result};

/// The meaning of a literal.
pub(crate) fn bound(literal: &Literal) -> Result<Scalar> {
    Ok(match literal {
        Literal::Null => Scalar::null(),
        Literal::Boolean(v) => constant(Value::truth(*v), SqlType::truth()),
        Literal::Number(text, _) => number(text, false)?,
        Literal::SingleQuotedString(text) | Literal::DoubleQuotedString(text) => self::text(text),
        Literal::HexStringLiteral(digits) => {
            let bytes = bytes_of(digits);
            binary(bytes.ok_or_else(|| QueryError::Syntax(format!("X'{digits}'")))?)
        }
        Literal::Placeholder(_) => return unsupported("parameters in text"),
        other => return unsupported(format_args!("the literal {other}")),
    })
}

fn constant(value: Value<'static>, ty: SqlType) -> Scalar {
    Scalar::new(Node::Constant(value), ty.literal())
}

/// True for a number that a minus sign before it belongs to.
pub(crate) fn is_plain_number(literal: &Literal) -> bool {
    matches!(literal, Literal::Number(text, _) if !text.contains(['e', 'E']))
}

/// A number behind a minus sign.
pub(crate) fn negative(literal: &Literal) -> Result<Scalar> {
    match literal {
        Literal::Number(text, _) => number(text, true),
        other => unsupported(format_args!("-{other}")),
    }
}

/// An integer.
pub(crate) fn int(v: i64) -> Scalar {
    let digits = v.unsigned_abs().checked_ilog10().unwrap_or(0) as u8 + 1;
    let ty = SqlType {
        digits: Some(digits),
        ..SqlType::int()
    };
    constant(Value::Int(v), ty)
}

fn uint(v: u64) -> Scalar {
    let digits = v.checked_ilog10().unwrap_or(0) as u8 + 1;
    let ty = SqlType {
        digits: Some(digits),
        ..SqlType::uint()
    };
    constant(Value::UInt(v), ty)
}

fn number(text: &str, is_negative: bool) -> Result<Scalar> {
    if text.contains(['e', 'E']) {
        let value: f64 = text
            .parse()
            .map_err(|_| BindError::NotSupported(text.to_owned()))?;
        if !value.is_finite() {
            return unsupported(format_args!("the number {text}"));
        }
        let value = if is_negative { -value } else { value };
        return Ok(constant(
            Value::Double(value),
            SqlType::of(ColumnType::Double),
        ));
    }
    let signed = if is_negative {
        format!("-{text}")
    } else {
        text.to_owned()
    };
    if let Ok(v) = signed.parse::<i64>() {
        return Ok(int(v));
    }
    if let Ok(v) = signed.parse::<u64>() {
        return Ok(uint(v));
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let scale = fraction.len();
    let digits = whole.trim_start_matches('0').len() + scale;
    let significant = match whole.trim_start_matches('0') {
        "" => fraction.trim_start_matches('0').len(),
        whole => whole.len() + scale,
    };
    let precision = significant.max(scale).max(1);
    if digits > usize::from(ColumnType::MAX_PRECISION) {
        return unsupported("numbers of more than 65 digits");
    }
    if scale > usize::from(Number::MAX_SCALE) && precision > usize::from(decimal::MAX_PRECISION) {
        return unsupported("numbers of more than 30 digits behind the point");
    }
    let (precision, scale) = (precision as u8, scale as u8);
    let column = ColumnType::Decimal { precision, scale };
    let value = match parse_text(column, signed.as_bytes()) {
        Ok(Datum::Decimal(units)) => Value::Decimal(units.into(), scale),
        Ok(Datum::Wide(wide)) => Value::Decimal(wide.units(), scale),
        _ => return unsupported(format_args!("the number {text}")),
    };
    Ok(constant(value, SqlType::of(column)))
}

/// A string.
pub(crate) fn text(text: &str) -> Scalar {
    let chars = u16::try_from(text.chars().count()).unwrap_or(TEXT_CHARS);
    let ty = SqlType::of(ColumnType::Varchar {
        chars: chars.min(TEXT_CHARS),
        collation: Collation::UTF8MB4_BIN,
    });
    constant(Value::text(text.to_owned()), ty)
}

fn binary(bytes: Vec<u8>) -> Scalar {
    let ty = SqlType::of(ColumnType::Varchar {
        chars: u16::try_from(bytes.len()).unwrap_or(u16::MAX),
        collation: Collation::BINARY,
    });
    constant(Value::bytes(bytes), ty)
}

/// The bytes of a binary literal, which is a number where one is wanted.
pub(crate) fn binary_literal(scalar: &Scalar) -> Option<&[u8]> {
    match (&scalar.node, scalar.ty.literal) {
        (Node::Constant(Value::Bytes(bytes)), true) => Some(bytes),
        _ => None,
    }
}

/// A binary literal beside a number is one; anything else as it is.
pub(crate) fn number_of_binary(scalar: Scalar) -> Result<Scalar> {
    let Some(bytes) = binary_literal(&scalar) else {
        return Ok(scalar);
    };
    let number = number_of(bytes);
    let number = number
        .ok_or_else(|| BindError::NotSupported("binary numbers of more than 64 bits".into()))?;
    Ok(match i64::try_from(number) {
        Ok(number) => int(number),
        Err(_) => uint(number),
    })
}
