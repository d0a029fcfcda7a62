//! Finds out that a statement is about one row: all columns of the primary key are compared with
//! constants. Then the row is locked first and nothing needs to be searched.

use perigee_value::{ColumnType, Datum, parse_text};
use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

use super::target::Target;
use crate::error::Result;
use crate::parse::Rows;

/// The clustered key of the only row that a statement can be about.
pub(super) fn key(rows: &Rows, target: &Target) -> Result<Option<Vec<u8>>> {
    let table = &target.table;
    if !rows.is_one_table()
        || rows.order_by.is_some()
        || rows.limit.is_some()
        || table.has_hidden_row_id()
    {
        return Ok(None);
    }
    let Some(condition) = &rows.selection else {
        return Ok(None);
    };
    let mut equal = Vec::new();
    equalities(condition, target, &mut equal);
    let mut values = Vec::new();
    for column in &table.def.primary_key {
        match equal.iter().find(|(known, _)| known == column) {
            Some((_, value)) => values.push(value.clone()),
            None => return Ok(None),
        }
    }
    target.key(&values).map(Some)
}

/// Comparisons of columns with constants that hold for every row of the result.
fn equalities(condition: &Expr, target: &Target, out: &mut Vec<(u16, Datum)>) {
    match condition {
        Expr::Nested(inner) => equalities(inner, target, out),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => {
            equalities(left, target, out);
            equalities(right, target, out);
        }
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Eq,
            right,
        } => {
            for (column, value) in [(left, right), (right, left)] {
                let found = column_of(column, target).and_then(|column| {
                    let ty = target.table.def.columns[usize::from(column)].ty;
                    Some((column, constant(value, ty)?))
                });
                out.extend(found);
            }
        }
        _ => {}
    }
}

fn column_of(expr: &Expr, target: &Target) -> Option<u16> {
    let name = match expr {
        Expr::Nested(inner) => return column_of(inner, target),
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(names) => match &names[..] {
            [table, column] if table.value.to_lowercase() == target.alias => column,
            _ => return None,
        },
        _ => return None,
    };
    let column = target.table.def.column(&name.value)?;
    u16::try_from(column).ok()
}

/// A constant as a value of a column that compares with it as it is, without conversion.
fn constant(expr: &Expr, ty: ColumnType) -> Option<Datum> {
    let (text, negative) = match expr {
        Expr::Nested(inner) => return constant(inner, ty),
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => match expr.as_ref() {
            Expr::Value(value) => (&value.value, true),
            _ => return None,
        },
        Expr::Value(value) => (&value.value, false),
        _ => return None,
    };
    match (text, ty) {
        (Value::Number(text, _), ColumnType::Int { .. })
            if text.bytes().all(|b| b.is_ascii_digit()) =>
        {
            let sign = if negative { "-" } else { "" };
            parse_text(ty, format!("{sign}{text}").as_bytes()).ok()
        }
        (Value::SingleQuotedString(text) | Value::DoubleQuotedString(text), ty)
            if !negative && ty.is_string() =>
        {
            parse_text(ty, text.as_bytes()).ok()
        }
        _ => None,
    }
}
