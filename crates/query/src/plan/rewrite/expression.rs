//! Expressions.

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, CeilFloorKind, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, Interval, ObjectName,
    ObjectNamePart, TrimWhereField, UnaryOperator, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::casts::{cast_target, temporal_literal};
use super::{Rewriter, TableAccess, is_column, normal, null, unsupported};
use crate::error::{Result, SqlError};
use crate::functions::cast::{self, Target};
use crate::functions::choice::CASE;
use crate::functions::collation::COLLATE;
use crate::functions::long_list::LongList;
use crate::functions::types::{MAX_PRECISION, MAX_SCALE, MAX_WIDE_PRECISION};
use crate::functions::{between, chain, dates, in_list, json};
use crate::interrupt;
use crate::parse::{LongLists, MAX_TERMS, halves, list_values};
use crate::plan::operators::{self, CASE_WHEN, NEGATIVE};
use perigee_sql_bind::binary::{binary_literal, bytes_of};
use perigee_value::Collation;

/// A call of one of our functions in the syntax tree.
pub(crate) fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args
        .into_iter()
        .map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e)))
        .collect();
    Expr::Function(Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote(
            '"', name,
        ))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// An integer literal.
pub(super) fn number(v: i64) -> Expr {
    let literal = Expr::value(Value::Number(v.unsigned_abs().to_string(), false));
    if v < 0 {
        return Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(literal),
        };
    }
    literal
}

/// A string literal.
pub(super) fn string(text: impl Into<String>) -> Expr {
    Expr::value(Value::SingleQuotedString(text.into()))
}

/// `CAST(expr AS target)`.
pub(super) fn cast_call(expr: Expr, target: Target) -> Expr {
    let (name, a, b) = target.arguments();
    call(cast::NAME, vec![expr, string(name), number(a), number(b)])
}

pub(super) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }
}

/// `-expr`, as an operator of two operands: those are ours to plan.
pub(super) fn negative(expr: Expr) -> Expr {
    let op = BinaryOperator::Custom(NEGATIVE.to_owned());
    nested(binary(number(0), op, nested(expr)))
}

pub(super) fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, null())
}

impl Rewriter<'_> {
    /// Rewrites an expression in the place of a condition: what is no truth value is compared with
    /// zero.
    pub(super) fn condition(&mut self, expr: &mut Expr) -> Result<()> {
        let truth = is_truth(expr);
        self.expr(expr)?;
        if !truth {
            *expr = nested(binary(take(expr), BinaryOperator::NotEq, number(0)));
        }
        Ok(())
    }

    /// Rewrites an expression.
    pub(super) fn expr(&mut self, expr: &mut Expr) -> Result<()> {
        match expr {
            Expr::Identifier(ident) => {
                if ident.value.starts_with('@') && ident.quote_style.is_none() {
                    *expr = self.at_variable(std::slice::from_ref(&ident.value))?;
                    return Ok(());
                }
                *ident = normal(ident);
                if let Some(qualified) = self.qualified(&ident.value) {
                    *expr = qualified;
                }
                Ok(())
            }
            Expr::CompoundIdentifier(idents) => {
                if idents[0].value.starts_with('@') && idents[0].quote_style.is_none() {
                    let names: Vec<String> = idents.iter().map(|i| i.value.clone()).collect();
                    *expr = self.at_variable(&names)?;
                    return Ok(());
                }
                if idents.len() > 3 {
                    return unsupported("names of four parts");
                }
                if idents.len() == 3 {
                    let schema = idents.remove(0).value.to_lowercase();
                    let table = idents[0].value.to_lowercase();
                    let is_known = |a: &TableAccess| a.schema == schema && a.alias == table;
                    if !self.accesses.iter().any(is_known) {
                        let name = format!("{schema}.{table}.{}", idents[1].value);
                        return Err(SqlError::unknown_column(name, "field list"));
                    }
                }
                idents.iter_mut().for_each(|ident| *ident = normal(ident));
                Ok(())
            }
            Expr::Value(value) => self.value(value).map(|new| {
                if let Some(new) = new {
                    *expr = new;
                }
            }),
            Expr::Nested(inner) => self.expr(inner),
            Expr::IsNull(inner) | Expr::IsNotNull(inner) => self.expr(inner),
            Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner)
            | Expr::IsUnknown(inner)
            | Expr::IsNotUnknown(inner) => self.condition(inner),
            Expr::BinaryOp { .. } => self.binary_spine(expr),
            Expr::UnaryOp { .. } => self.unary(expr),
            Expr::Between { .. } => self.between(expr),
            Expr::InList { .. } => self.in_list(expr),
            Expr::InSubquery {
                expr: inner,
                subquery,
                ..
            } => {
                if matches!(inner.as_ref(), Expr::Tuple(_)) {
                    return unsupported("rows IN a subquery");
                }
                self.expr(inner)?;
                self.query(subquery)
            }
            Expr::Exists { subquery, .. } | Expr::Subquery(subquery) => self.query(subquery),
            Expr::Like {
                any,
                expr: inner,
                pattern,
                escape_char,
                ..
            } => {
                if *any {
                    return unsupported("LIKE ANY");
                }
                let backslash = |v: &ValueWithSpan| matches!(&v.value, Value::SingleQuotedString(s) if s == "\\");
                if escape_char.as_ref().is_some_and(|v| !backslash(v)) {
                    return unsupported("LIKE … ESCAPE other than the backslash");
                }
                *escape_char = None;
                self.expr(inner)?;
                self.expr(pattern)
            }
            Expr::Tuple(_) => Err(SqlError::operand_columns(1)),
            Expr::Case { .. } => self.case(expr),
            Expr::Cast { .. } | Expr::Convert { .. } | Expr::TypedString(_) => self.casts(expr),
            Expr::Function(_) => self.function(expr),
            Expr::AnyOp {
                left,
                compare_op,
                right,
                ..
            } => {
                let Expr::Subquery(subquery) = right.as_mut() else {
                    return unsupported("ANY of no subquery");
                };
                if *compare_op != BinaryOperator::Eq {
                    return unsupported("ANY other than = ANY");
                }
                let subquery = std::mem::replace(subquery, empty_query()?);
                let inner = Box::new(take(left));
                *expr = Expr::InSubquery {
                    expr: inner,
                    subquery,
                    negated: false,
                };
                self.expr(expr)
            }
            Expr::AllOp {
                left,
                compare_op,
                right,
            } => {
                let Expr::Subquery(subquery) = right.as_mut() else {
                    return unsupported("ALL of no subquery");
                };
                if *compare_op != BinaryOperator::NotEq {
                    return unsupported("ALL other than <> ALL");
                }
                let subquery = std::mem::replace(subquery, empty_query()?);
                let inner = Box::new(take(left));
                *expr = Expr::InSubquery {
                    expr: inner,
                    subquery,
                    negated: true,
                };
                self.expr(expr)
            }
            Expr::RLike {
                negated,
                expr: inner,
                pattern,
                ..
            } => {
                let (mut inner, mut pattern, negated) = (take(inner), take(pattern), *negated);
                self.expr(&mut inner)?;
                self.expr(&mut pattern)?;
                let found = binary(
                    call("mysql_regexp_like", vec![inner, pattern]),
                    BinaryOperator::NotEq,
                    number(0),
                );
                *expr = negate(nested(found), negated);
                Ok(())
            }
            Expr::Collate {
                expr: inner,
                collation,
            } => {
                let collation = text_collation(&collation.to_string())?;
                let mut inner = take(inner);
                self.expr(&mut inner)?;
                *expr = call(COLLATE, vec![inner, string(collation.name())]);
                Ok(())
            }
            Expr::Prefixed { prefix, value } => {
                let known = ["_utf8mb4", "_utf8", "_utf8mb3"];
                if !known.contains(&prefix.value.to_ascii_lowercase().as_str()) {
                    return unsupported(format!("the introducer {prefix}"));
                }
                *expr = take(value);
                self.expr(expr)
            }
            Expr::MemberOf(member) => {
                self.expr(&mut member.value)?;
                self.expr(&mut member.array)?;
                let operands = vec![take(&mut member.value), take(&mut member.array)];
                *expr = call(json::MEMBER_OF, operands);
                Ok(())
            }
            _ => self.syntax_functions(expr),
        }
    }

    /// Functions with a syntax of their own.
    fn syntax_functions(&mut self, expr: &mut Expr) -> Result<()> {
        match expr {
            Expr::Extract {
                field, expr: inner, ..
            } => {
                let field = field.to_string().to_lowercase();
                let function = match dates::field_named(&field) {
                    Some(_) => dates::EXTRACT,
                    None => "mysql_extract_fields",
                };
                self.expr(inner)?;
                *expr = call(function, vec![string(field), take(inner)]);
            }
            Expr::Substring {
                expr: inner,
                substring_from,
                substring_for,
                ..
            } => {
                self.expr(inner)?;
                let mut args = vec![take(inner)];
                for part in [substring_from, substring_for].into_iter().flatten() {
                    self.expr(part)?;
                    args.push(take(part));
                }
                if args.len() == 1 {
                    return Err(SqlError::wrong_arguments("SUBSTRING"));
                }
                *expr = call("mysql_substring", args);
            }
            Expr::Position { expr: what, r#in } => {
                self.expr(what)?;
                self.expr(r#in)?;
                *expr = call("mysql_locate", vec![take(what), take(r#in)]);
            }
            Expr::Trim {
                trim_where,
                trim_what,
                expr: inner,
                trim_characters,
            } => {
                if trim_characters.is_some() {
                    return unsupported("TRIM with a list");
                }
                let name = match trim_where {
                    None | Some(TrimWhereField::Both) => "mysql_trim",
                    Some(TrimWhereField::Leading) => "mysql_ltrim",
                    Some(TrimWhereField::Trailing) => "mysql_rtrim",
                };
                self.expr(inner)?;
                let mut args = vec![take(inner)];
                if let Some(what) = trim_what {
                    self.expr(what)?;
                    args.push(take(what));
                }
                *expr = call(name, args);
            }
            Expr::Floor { expr: inner, field } | Expr::Ceil { expr: inner, field }
                if matches!(
                    field,
                    CeilFloorKind::DateTimeField(
                        datafusion::sql::sqlparser::ast::DateTimeField::NoDateTime
                    )
                ) =>
            {
                self.expr(inner)?;
                let inner = take(inner);
                let floor = matches!(expr, Expr::Floor { .. });
                *expr = call(
                    if floor { "mysql_floor" } else { "mysql_ceil" },
                    vec![inner],
                );
            }
            other => return unsupported(other),
        }
        Ok(())
    }

    fn value(&mut self, value: &mut ValueWithSpan) -> Result<Option<Expr>> {
        match &value.value {
            Value::Number(text, _) if text.contains(['e', 'E']) => {
                Ok(Some(cast_call(string(text.clone()), Target::Double)))
            }
            Value::Number(text, _) => {
                let digits = text.chars().filter(char::is_ascii_digit).count();
                let behind = text.split_once('.').map_or(0, |(_, behind)| behind.len());
                let wide = digits > usize::from(MAX_PRECISION);
                if digits > usize::from(MAX_WIDE_PRECISION) {
                    return unsupported("numbers of more than 65 digits");
                }
                if wide && behind > usize::from(MAX_SCALE) {
                    return unsupported("numbers of more than 30 digits behind the point");
                }
                Ok(None)
            }
            Value::DoubleQuotedString(text) => Ok(Some(string(text.clone()))),
            Value::SingleQuotedString(_) | Value::Boolean(_) | Value::Null => Ok(None),
            Value::HexStringLiteral(digits) => {
                let bytes = bytes_of(digits).ok_or_else(|| SqlError::syntax(digits, 1))?;
                // What is no text is planned as bytes.
                Ok(String::from_utf8(bytes).ok().map(string))
            }
            Value::Placeholder(_) => unsupported("parameters in text"),
            other => unsupported(format!("the literal {other}")),
        }
    }

    /// An operand that may be a number or a string. A binary literal stays what it is until the type
    /// of the other side is known.
    fn operand(&mut self, expr: &mut Expr) -> Result<()> {
        match binary_literal(expr) {
            Some(_) => Ok(()),
            None => self.expr(expr),
        }
    }

    /// Operators; chains such as `a OR b OR …` lean to the left and may be long, so the left side
    /// is walked in a loop.
    fn binary_spine(&mut self, expr: &mut Expr) -> Result<()> {
        let mut pending = Vec::new();
        let mut current = take(expr);
        loop {
            match current {
                Expr::BinaryOp { left, op, right } => {
                    pending.push((op, *right));
                    current = *left;
                }
                // `(a + b) + c` is `a + b + c`.
                Expr::Nested(inner) if matches!(*inner, Expr::BinaryOp { .. }) => current = *inner,
                _ => break,
            }
        }
        // The innermost left operand, then one operator after the other.
        let mut left = current;
        let mut left_truth = is_truth(&left);
        let mut rewritten = false;
        while let Some((op, mut right)) = pending.pop() {
            interrupt::check()?;
            if !rewritten && !is_row(&left) && !matches!(left, Expr::Interval(_)) {
                self.operand(&mut left)?;
            }
            rewritten = true;
            let long = chain_length(&op, &right, &pending);
            if long >= chain::LONG && !matches!(left, Expr::Interval(_)) {
                let rest = pending.split_off(pending.len() - (long - 1));
                left = self.chain(left, (op, right), rest)?;
                left_truth = false;
                continue;
            }
            (left, left_truth) = self.binary_op(left, left_truth, op, &mut right)?;
        }
        *expr = left;
        Ok(())
    }

    /// A chain of operators of arithmetic as one function; `rest` has the last operator first.
    fn chain(
        &mut self,
        left: Expr,
        first: (BinaryOperator, Expr),
        rest: Vec<(BinaryOperator, Expr)>,
    ) -> Result<Expr> {
        let mut letters = String::new();
        let mut operands = vec![null(), left];
        for (op, mut right) in std::iter::once(first).chain(rest.into_iter().rev()) {
            interrupt::check()?;
            self.operand(&mut right)?;
            letters.extend(operators::arithmetic(&op).map(chain::letter));
            operands.push(right);
        }
        operands[0] = string(letters);
        let op = BinaryOperator::Custom(chain::CHAIN.to_owned());
        let call = call(chain::CHAIN, operands);
        Ok(nested(binary(call, op, number(0))))
    }

    /// One operator over a rewritten left side; gives the expression and whether it is a truth
    /// value.
    fn binary_op(
        &mut self,
        left: Expr,
        left_truth: bool,
        op: BinaryOperator,
        right: &mut Expr,
    ) -> Result<(Expr, bool)> {
        use BinaryOperator as Op;
        match op {
            Op::And | Op::Or | Op::Xor | Op::StringConcat | Op::PGOverlap => {
                let left = if left_truth {
                    left
                } else {
                    nested(binary(left, Op::NotEq, number(0)))
                };
                self.condition(right)?;
                let right = take(right);
                let op = match op {
                    Op::StringConcat => Op::Or,
                    Op::PGOverlap => Op::And,
                    // Truth values that differ; NULL if one is.
                    Op::Xor => Op::NotEq,
                    op => op,
                };
                let parenthesised = op == Op::NotEq;
                let (left, right) = if parenthesised {
                    (nested(left), nested(right))
                } else {
                    (left, right)
                };
                Ok((binary(left, op, right), true))
            }
            Op::Eq | Op::NotEq if is_row(&left) || is_row(right) => {
                let rows = self.row_equality(left, take(right))?;
                let rows = if op == Op::NotEq {
                    Expr::UnaryOp {
                        op: UnaryOperator::Not,
                        expr: Box::new(nested(rows)),
                    }
                } else {
                    rows
                };
                Ok((nested(rows), true))
            }
            Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq | Op::Spaceship => {
                self.operand(right)?;
                Ok((binary(left, op, take(right)), true))
            }
            Op::Plus | Op::Minus if matches!(right, Expr::Interval(_)) => {
                let Expr::Interval(interval) = take(right) else {
                    return unsupported("INTERVAL");
                };
                Ok((self.date_add(left, interval, op == Op::Minus)?, false))
            }
            Op::Plus if matches!(left, Expr::Interval(_)) => {
                let Expr::Interval(interval) = left else {
                    return unsupported("INTERVAL");
                };
                self.expr(right)?;
                Ok((self.date_add(take(right), interval, false)?, false))
            }
            Op::Plus | Op::Minus | Op::Multiply | Op::Divide | Op::MyIntegerDivide | Op::Modulo => {
                if matches!(left, Expr::Interval(_)) {
                    return unsupported("arithmetic with an INTERVAL");
                }
                self.operand(right)?;
                Ok((binary(left, op, take(right)), false))
            }
            Op::Arrow | Op::LongArrow => {
                let path = take(right);
                let is_text = matches!(&path, Expr::Value(value) if matches!(value.value,
                    Value::SingleQuotedString(_) | Value::DoubleQuotedString(_)));
                if !is_column(&left) || !is_text {
                    return Err(SqlError::syntax(format!("{op}{path}"), 1));
                }
                *right = path;
                self.expr(right)?;
                let part = call(json::EXTRACT, vec![left, take(right)]);
                Ok(match op {
                    Op::Arrow => (part, false),
                    _ => (call(json::UNQUOTE, vec![part]), false),
                })
            }
            Op::BitwiseAnd
            | Op::BitwiseOr
            | Op::BitwiseXor
            | Op::PGBitwiseShiftLeft
            | Op::PGBitwiseShiftRight => {
                self.expr(right)?;
                let name = format!("mysql_{op}");
                Ok((call(&name, vec![left, take(right)]), false))
            }
            other => unsupported(format!("the operator {other}")),
        }
    }

    /// `date + INTERVAL value unit`.
    pub(super) fn date_add(&mut self, date: Expr, interval: Interval, minus: bool) -> Result<Expr> {
        let Interval {
            value,
            leading_field,
            last_field,
            ..
        } = interval;
        let unit = leading_field
            .map(|f| f.to_string().to_lowercase())
            .unwrap_or_default();
        if last_field.is_some() || !dates::is_unit(&unit) {
            return unsupported(format!("INTERVAL … {}", unit.to_uppercase()));
        }
        let mut value = *value;
        if let Expr::Value(literal) = &value
            && let Value::SingleQuotedString(text) = &literal.value
        {
            match text.trim().parse::<i64>() {
                Ok(count) => value = number(count),
                Err(_) if unit == "second" && text.trim().parse::<f64>().is_ok() => {}
                Err(_) => return unsupported(format!("INTERVAL '{text}'")),
            }
        }
        self.expr(&mut value)?;
        if minus {
            value = negative(value);
        }
        Ok(call(dates::DATE_ADD, vec![date, value, string(unit)]))
    }

    fn row_equality(&mut self, left: Expr, right: Expr) -> Result<Expr> {
        let (left, right) = match (left, right) {
            (Expr::Tuple(left), Expr::Tuple(right)) => (left, right),
            (Expr::Subquery(_), _) | (_, Expr::Subquery(_)) => {
                return unsupported("comparison of a row with a subquery");
            }
            (Expr::Tuple(left), _) => return Err(SqlError::operand_columns(left.len())),
            _ => return Err(SqlError::operand_columns(1)),
        };
        if left.len() != right.len() {
            return Err(SqlError::operand_columns(left.len()));
        }
        let mut equal = Vec::with_capacity(left.len());
        for (mut l, mut r) in left.into_iter().zip(right) {
            self.expr(&mut l)?;
            self.expr(&mut r)?;
            equal.push(binary(l, BinaryOperator::Eq, r));
        }
        match equal.is_empty() {
            true => unsupported("an empty row"),
            false => Ok(halves(equal, &|left, right| {
                binary(left, BinaryOperator::And, right)
            })),
        }
    }

    fn unary(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::UnaryOp { op, expr: inner } = expr else {
            return Ok(());
        };
        match op {
            UnaryOperator::Not | UnaryOperator::BangNot => {
                *op = UnaryOperator::Not;
                self.condition(inner)
            }
            UnaryOperator::Plus => {
                *expr = take(inner);
                self.expr(expr)
            }
            UnaryOperator::Minus => {
                let plain = |v: &ValueWithSpan| matches!(&v.value, Value::Number(text, _) if !text.contains(['e', 'E']));
                if matches!(inner.as_ref(), Expr::Value(v) if plain(v)) {
                    return self.expr(inner);
                }
                self.operand(inner)?;
                *expr = negative(take(inner));
                Ok(())
            }
            UnaryOperator::BitwiseNot => {
                self.expr(inner)?;
                *expr = call("mysql_~", vec![take(inner)]);
                Ok(())
            }
            other => unsupported(format!("the operator {other}")),
        }
    }

    /// As a function of all operands, until their types are known. What is between the bounds is in it twice, as it will
    /// be in the two comparisons that it becomes.
    fn between(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Between {
            expr: inner,
            negated,
            low,
            high,
        } = expr
        else {
            return Ok(());
        };
        self.operand(inner)?;
        self.operand(low)?;
        self.operand(high)?;
        let negated = *negated;
        let (inner, low, high) = (take(inner), take(low), take(high));
        let args = vec![self.copy(&inner)?, low, inner, high];
        *expr = negate(call(between::BETWEEN, args), negated);
        Ok(())
    }

    fn in_list(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::InList {
            expr: inner,
            list,
            negated,
        } = expr
        else {
            return Ok(());
        };
        let negated = *negated;
        let list = std::mem::take(list);
        let inner = take(inner);
        if is_row(&inner) {
            if list.len() > MAX_TERMS {
                return Err(SqlError::too_long(MAX_TERMS));
            }
            let mut equal = Vec::with_capacity(list.len());
            for item in list {
                interrupt::check()?;
                let row = self.copy(&inner)?;
                equal.push(nested(self.row_equality(row, item)?));
            }
            if equal.is_empty() {
                return unsupported("an empty IN list");
            }
            let any = halves(equal, &|left, right| {
                binary(left, BinaryOperator::Or, right)
            });
            *expr = negate(nested(any), negated);
            return Ok(());
        }
        if let Some(values) = long_list(self.source.lists(), &list) {
            let mut operand = inner;
            self.operand(&mut operand)?;
            let list = LongList::new(self.functions.len(), list_values(values)?);
            let function = ScalarUDF::from(list);
            *expr = negate(call(function.name(), vec![operand]), negated);
            self.functions.push(Arc::new(function));
            return Ok(());
        }
        let mut args = vec![inner];
        args.extend(list);
        for arg in &mut args {
            self.operand(arg)?;
        }
        *expr = negate(call(in_list::IN_LIST, args), negated);
        Ok(())
    }

    fn case(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Case {
            operand,
            conditions,
            else_result,
            ..
        } = expr
        else {
            return Ok(());
        };
        let operand = operand.take();
        let mut args = Vec::with_capacity(2 * conditions.len() + 1);
        for CaseWhen { condition, result } in conditions {
            let (mut condition, mut result) = (take(condition), take(result));
            if let Some(operand) = &operand {
                let mut operand = self.copy(operand)?;
                self.operand(&mut operand)?;
                self.operand(&mut condition)?;
                let op = BinaryOperator::Custom(CASE_WHEN.to_owned());
                condition = nested(binary(nested(operand), op, nested(condition)));
            } else {
                self.condition(&mut condition)?;
            }
            self.expr(&mut result)?;
            args.extend([condition, result]);
        }
        if let Some(otherwise) = else_result {
            let mut otherwise = take(otherwise);
            self.expr(&mut otherwise)?;
            args.push(otherwise);
        }
        *expr = call(CASE, args);
        Ok(())
    }

    fn casts(&mut self, expr: &mut Expr) -> Result<()> {
        let (inner, target) = match expr {
            Expr::Cast {
                kind,
                expr: inner,
                data_type,
                array,
                format,
            } => {
                if *kind != CastKind::Cast || *array || format.is_some() {
                    return unsupported("this form of CAST");
                }
                (take(inner), cast_target(data_type)?)
            }
            Expr::Convert {
                expr: inner,
                data_type: Some(data_type),
                charset: None,
                styles,
                ..
            } if styles.is_empty() => (take(inner), cast_target(data_type)?),
            Expr::Convert { .. } => return unsupported("CONVERT … USING"),
            Expr::TypedString(typed) => {
                let Some(text) = typed.value.value.clone().into_string() else {
                    return unsupported("this literal");
                };
                *expr = temporal_literal(&typed.data_type, &text)?;
                return Ok(());
            }
            _ => return Ok(()),
        };
        let mut inner = inner;
        self.expr(&mut inner)?;
        *expr = cast_call(inner, target);
        Ok(())
    }

    /// `@name`, `@@name`, `@@session.name`, `@@global.name`.
    fn at_variable(&mut self, names: &[String]) -> Result<Expr> {
        let first = names[0].to_lowercase();
        let Some(system) = first.strip_prefix("@@") else {
            return Ok(self.environment.user_variable(&first[1..]));
        };
        match names {
            [_] => self.environment.variable(None, system),
            [_, name] if ["session", "local"].contains(&system) => self
                .environment
                .variable(Some("session"), &name.to_lowercase()),
            [_, name] if system == "global" => self
                .environment
                .variable(Some("global"), &name.to_lowercase()),
            _ => unsupported(format!("the variable {}", names.join("."))),
        }
    }
}

/// How many operators of arithmetic follow each other from here on; `pending` has the last one first.
fn chain_length(op: &BinaryOperator, right: &Expr, pending: &[(BinaryOperator, Expr)]) -> usize {
    let is_plain = |op: &BinaryOperator, right: &Expr| {
        operators::arithmetic(op).is_some() && !matches!(right, Expr::Interval(_))
    };
    match is_plain(op, right) {
        true => {
            let following = pending.iter().rev();
            1 + following
                .take_while(|(op, right)| is_plain(op, right))
                .count()
        }
        false => 0,
    }
}

fn negate(expr: Expr, negated: bool) -> Expr {
    if negated {
        return Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: Box::new(expr),
        };
    }
    expr
}

/// The text of the long list that stands for a list.
fn long_list<'a>(lists: LongLists<'a>, list: &[Expr]) -> Option<&'a str> {
    match list {
        [Expr::Identifier(ident)] => lists.named(&ident.value),
        _ => None,
    }
}

fn is_row(expr: &Expr) -> bool {
    matches!(expr, Expr::Tuple(_))
}

/// True for expressions whose value is a truth value by their form.
fn is_truth(expr: &Expr) -> bool {
    use BinaryOperator as Op;
    match expr {
        Expr::Nested(inner) => is_truth(inner),
        Expr::BinaryOp { op, .. } => matches!(
            op,
            Op::And
                | Op::Or
                | Op::Xor
                | Op::StringConcat
                | Op::PGOverlap
                | Op::Eq
                | Op::NotEq
                | Op::Lt
                | Op::LtEq
                | Op::Gt
                | Op::GtEq
                | Op::Spaceship
        ),
        Expr::UnaryOp { op, .. } => matches!(op, UnaryOperator::Not | UnaryOperator::BangNot),
        Expr::Value(value) => matches!(value.value, Value::Boolean(_)),
        Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::Between { .. }
        | Expr::InList { .. }
        | Expr::InSubquery { .. }
        | Expr::AnyOp { .. }
        | Expr::AllOp { .. }
        | Expr::Exists { .. }
        | Expr::RLike { .. }
        | Expr::Like { .. } => true,
        Expr::Function(function) => function.name.to_string().eq_ignore_ascii_case("isnull"),
        _ => false,
    }
}

pub(super) fn empty_query() -> Result<Box<datafusion::sql::sqlparser::ast::Query>> {
    use crate::parse::Grammar;
    use datafusion::sql::sqlparser::parser::Parser;
    let parser = Parser::new(&Grammar).try_with_sql("SELECT 1");
    let query = parser.and_then(|mut parser| parser.parse_query());
    query.map_err(SqlError::unknown)
}

/// Checks that a collation is that of connections and schemas.
pub(crate) fn check_collation(name: &str) -> Result<()> {
    match text_collation(name)? {
        Collation::UTF8MB4_BIN => Ok(()),
        other => unsupported(format!("COLLATE {} here", other.name())),
    }
}

/// The collation of texts with this name.
pub(crate) fn text_collation(name: &str) -> Result<Collation> {
    let name = name.trim_matches(['`', '\'', '"']);
    match Collation::named(name).filter(|collation| collation.is_text()) {
        Some(collation) => Ok(collation),
        None => unsupported(format!("COLLATE {}", name.to_ascii_lowercase())),
    }
}

/// `value` as a value of `Value` in the tree, with no place in the text.
pub(super) fn literal(value: Value) -> Expr {
    Expr::Value(ValueWithSpan {
        value,
        span: Span::empty(),
    })
}
