//! Expressions of plans as text: MySQL's operators and functions, without what planning put around values so that they
//! compare as MySQL's do.

use std::sync::Arc;

use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr,
    Literal, NegativeExpr, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr, ScalarFunctionExpr};

use crate::access::NUMBER_SEPARATOR;
use crate::functions::arithmetic::{OPERATORS, function_name, symbol};
use crate::functions::chain::{self, CHAIN};
use crate::functions::collation::{COLLATE, Collated, PAD};
use crate::functions::like::LIKE;
use crate::functions::null_safe::NULL_SAFE;
use crate::functions::scalar::BoundScalar;
use crate::functions::{cast, enumeration};

/// Most bytes of a text; what is longer is cut.
const MOST: usize = 4096;

/// Functions that planning puts around a value, without their prefix: they are not shown.
const AROUND: [&str; 4] = ["nullable", "latin", "moment", "decimal_key"];

/// An expression.
pub fn text(expr: &Arc<dyn PhysicalExpr>) -> String {
    let mut text = String::new();
    put(expr, &mut text);
    if text.len() > MOST {
        let end = (0..=MOST).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or_default());
        text.push('…');
    }
    text
}

/// What rows are sorted by.
pub fn sort(sort: &PhysicalSortExpr) -> String {
    let by = text(&sort.expr);
    match sort.options.descending {
        true => format!("{by} DESC"),
        false => by,
    }
}

/// The name of a column of a plan, without the number that makes it unique.
pub fn name(name: &str) -> String {
    let mut parts = name.split(NUMBER_SEPARATOR);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    shown.replace("mysql_", "")
}

fn put(expr: &Arc<dyn PhysicalExpr>, out: &mut String) {
    if out.len() > MOST {
        return;
    }
    if let Some(column) = expr.downcast_ref::<Column>() {
        out.push_str(&name(column.name()));
    } else if let Some(literal) = expr.downcast_ref::<Literal>() {
        out.push_str(&value(literal.value()));
    } else if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        infix(binary.left(), operator(binary.op()), binary.right(), out);
    } else if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() {
        call(function, out);
    } else if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        // Planning makes types alike; what the statement says is a function.
        put(cast.expr(), out);
    } else if !(predicate(expr, out) || case(expr, out)) {
        let parts: Vec<_> = expr.children().into_iter().cloned().collect();
        match parts.is_empty() {
            true => out.push_str("(subquery)"),
            false => arguments("expression", &parts, out),
        }
    }
}

/// Predicates that are not infix; false for anything else.
fn predicate(expr: &Arc<dyn PhysicalExpr>, out: &mut String) -> bool {
    if let Some(not) = expr.downcast_ref::<NotExpr>() {
        out.push_str("not ");
        put(not.arg(), out);
    } else if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
        out.push('-');
        put(negative.arg(), out);
    } else if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
        postfix(is_null.arg(), "is null", out);
    } else if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
        postfix(is_not_null.arg(), "is not null", out);
    } else if let Some(list) = expr.downcast_ref::<InListExpr>() {
        out.push('(');
        put(list.expr(), out);
        let how = if list.negated() { " not in " } else { " in " };
        arguments(how, list.list(), out);
        out.push(')');
    } else if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        let how = if like.negated() { "not like" } else { "like" };
        infix(like.expr(), how, like.pattern(), out);
    } else {
        return false;
    }
    true
}

fn case(expr: &Arc<dyn PhysicalExpr>, out: &mut String) -> bool {
    let Some(case) = expr.downcast_ref::<CaseExpr>() else {
        return false;
    };
    out.push_str("(case");
    if let Some(base) = case.expr() {
        out.push(' ');
        put(base, out);
    }
    for (when, then) in case.when_then_expr() {
        out.push_str(" when ");
        put(when, out);
        out.push_str(" then ");
        put(then, out);
    }
    if let Some(otherwise) = case.else_expr() {
        out.push_str(" else ");
        put(otherwise, out);
    }
    out.push_str(" end)");
    true
}

fn infix(
    left: &Arc<dyn PhysicalExpr>,
    operator: &str,
    right: &Arc<dyn PhysicalExpr>,
    out: &mut String,
) {
    out.push('(');
    put(left, out);
    out.push(' ');
    out.push_str(operator);
    out.push(' ');
    put(right, out);
    out.push(')');
}

fn postfix(operand: &Arc<dyn PhysicalExpr>, operator: &str, out: &mut String) {
    out.push('(');
    put(operand, out);
    out.push(' ');
    out.push_str(operator);
    out.push(')');
}

fn arguments(name: &str, arguments: &[Arc<dyn PhysicalExpr>], out: &mut String) {
    out.push_str(name);
    out.push('(');
    for (number, argument) in arguments.iter().enumerate() {
        if number > 0 {
            out.push_str(", ");
        }
        put(argument, out);
    }
    out.push(')');
}

/// MySQL's name of an operator.
fn operator(operator: &Operator) -> &'static str {
    match operator {
        Operator::Eq => "=",
        Operator::NotEq => "<>",
        Operator::Lt => "<",
        Operator::LtEq => "<=",
        Operator::Gt => ">",
        Operator::GtEq => ">=",
        Operator::Plus => "+",
        Operator::Minus => "-",
        Operator::Multiply => "*",
        Operator::Divide => "/",
        Operator::Modulo => "%",
        Operator::And => "and",
        Operator::Or => "or",
        Operator::IsNotDistinctFrom => "<=>",
        Operator::IsDistinctFrom => "is distinct from",
        Operator::BitwiseAnd => "&",
        Operator::BitwiseOr => "|",
        Operator::BitwiseXor => "^",
        Operator::BitwiseShiftLeft => "<<",
        Operator::BitwiseShiftRight => ">>",
        _ => "?",
    }
}

/// A function of ours.
fn call(function: &ScalarFunctionExpr, out: &mut String) {
    let args = function.args();
    let full = function.name();
    let short = full.strip_prefix("mysql_").unwrap_or(full);
    if let Some(bound) = function.fun().inner().downcast_ref::<BoundScalar>() {
        let args: Vec<_> = args.iter().map(text).collect();
        out.push_str(&bound.shown(&args));
        return;
    }
    let around = AROUND.contains(&short)
        || [PAD, enumeration::TEXT, enumeration::NUMBER].contains(&full)
        || Collated::is(function.fun());
    let arithmetic = OPERATORS.iter().find(|op| function_name(**op) == full);
    if let (Some(op), [left, right]) = (arithmetic, args) {
        return infix(left, symbol(*op), right, out);
    }
    match args {
        [value, ..] if around => put(value, out),
        [left, right] if full == NULL_SAFE => infix(left, "<=>", right, out),
        [left, pattern, ..] if full == LIKE => infix(left, "like", pattern, out),
        [value] if short == "negate" => {
            out.push('-');
            put(value, out);
        }
        [value, name] if full == COLLATE => with_word(value, "collate", name, out),
        [value, target, ..] if full == cast::NAME => {
            out.push_str("cast(");
            put(value, out);
            out.push_str(" as ");
            out.push_str(&word(target));
            out.push(')');
        }
        [letters, operands @ ..] if full == CHAIN => long(letters, operands, out),
        _ => arguments(short, args, out),
    }
}

fn with_word(
    value: &Arc<dyn PhysicalExpr>,
    between: &str,
    word_of: &Arc<dyn PhysicalExpr>,
    out: &mut String,
) {
    put(value, out);
    out.push(' ');
    out.push_str(between);
    out.push(' ');
    out.push_str(&word(word_of));
}

/// A constant text without quotes.
fn word(expr: &Arc<dyn PhysicalExpr>) -> String {
    let literal = expr.downcast_ref::<Literal>();
    let text = literal.and_then(|literal| literal.value().try_as_str().flatten());
    text.map_or_else(|| text_of_other(expr), str::to_owned)
}

fn text_of_other(expr: &Arc<dyn PhysicalExpr>) -> String {
    let mut text = String::new();
    put(expr, &mut text);
    text
}

/// A chain of operators, which is one function.
fn long(letters: &Arc<dyn PhysicalExpr>, operands: &[Arc<dyn PhysicalExpr>], out: &mut String) {
    let letters = letters.downcast_ref::<Literal>();
    let operators = letters.and_then(|letters| chain::operators(letters.value()));
    let operators = operators.unwrap_or_default();
    out.push('(');
    for (number, operand) in operands.iter().enumerate() {
        if let Some(before) = number.checked_sub(1) {
            out.push(' ');
            out.push_str(operators.get(before).map_or("?", |op| symbol(*op)));
            out.push(' ');
        }
        put(operand, out);
    }
    out.push(')');
}

/// A constant, as a literal.
fn value(value: &ScalarValue) -> String {
    if value.is_null() {
        return "NULL".to_owned();
    }
    let ty = value.data_type();
    let array = value.to_array();
    let text = array.ok().and_then(|a| array_value_to_string(&a, 0).ok());
    let text = text.unwrap_or_else(|| "?".to_owned());
    if ty.is_temporal() {
        let text = text.replace('T', " ");
        return format!("'{}'", text.trim_end_matches('Z'));
    }
    match value.try_as_str() {
        Some(Some(text)) => format!("'{}'", text.replace('\'', "''")),
        _ if ty.is_numeric() || ty == datafusion::arrow::datatypes::DataType::Boolean => text,
        _ => format!("0x{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str) -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new(name, 0))
    }

    fn literal(value: ScalarValue) -> Arc<dyn PhysicalExpr> {
        Arc::new(Literal::new(value))
    }

    #[test]
    fn expressions_are_shown_as_they_are_written() {
        let price = literal(ScalarValue::Decimal128(Some(12345), 7, 2));
        let over: Arc<dyn PhysicalExpr> =
            Arc::new(BinaryExpr::new(column("t/@12.price"), Operator::Gt, price));
        let named = literal(ScalarValue::from("it's"));
        let is: Arc<dyn PhysicalExpr> =
            Arc::new(BinaryExpr::new(column("name"), Operator::Eq, named));
        let both: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(over, Operator::Or, is));
        let not: Arc<dyn PhysicalExpr> = Arc::new(NotExpr::new(both));
        assert_eq!(text(&not), "not ((t.price > 123.45) or (name = 'it''s'))");
        let day = literal(ScalarValue::Date32(Some(0)));
        assert_eq!(text(&day), "'1970-01-01'");
        assert_eq!(text(&literal(ScalarValue::Null)), "NULL");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let long = literal(ScalarValue::from("ä".repeat(MOST)));
        let shown = text(&long);
        assert!(shown.len() < MOST + 8 && shown.ends_with("ä…"), "{shown}");
    }
}
