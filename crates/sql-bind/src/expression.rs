//! Expressions: what each node of a syntax tree means.

use std::cell::Cell;
use std::sync::Arc;

use perigee_expr::functions::Value;
use perigee_expr::scalar::{LikeKind, Node, Scalar, Target, Variable};
use perigee_expr::{Arithmetic, Comparison};
use perigee_sql_type::{Coercibility, SqlType};
use perigee_value::{Collation, LikePattern};
use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value as Literal, ValueWithSpan};

use crate::error::unsupported;
use crate::query::QueryError;
use crate::rows::tuple;
use crate::{BindError, Environment, Modes, Result};

/// Binds expressions to a row.
pub struct Binder<'e> {
    pub(crate) environment: &'e dyn Environment,
    /// Values that were given numbers.
    pub(crate) locals: Cell<usize>,
}

/// Stack that is left when it grows.
const RED_ZONE: usize = 128 << 10;

/// Bytes by which it grows.
const STACK: usize = 1 << 20;

/// Escape character of LIKE without ESCAPE.
const ESCAPE: char = '\\';

/// A character that no pattern has.
const NO_ESCAPE: char = '\0';

impl<'e> Binder<'e> {
    /// A binder of expressions that such an environment surrounds.
    #[must_use]
    pub fn new(environment: &'e dyn Environment) -> Self {
        Self {
            environment,
            locals: Cell::new(0),
        }
    }

    /// The meaning of an expression. A TIMESTAMP is the DATETIME of the session's time zone.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn expression(&self, expr: &Expr) -> Result<Scalar> {
        self.local(self.stored(expr)?)
    }

    /// The meaning of an expression in the place of a condition: anything but a truth value is compared with zero.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn condition(&self, expr: &Expr) -> Result<Scalar> {
        self.truth(self.number(expr)?)
    }

    /// An operand where a number is wanted, which a binary literal is there.
    pub(crate) fn number(&self, expr: &Expr) -> Result<Scalar> {
        self.local(self.operand(expr)?)
    }

    /// An operand that may be a number or a string: a binary literal and a TIMESTAMP stay what they are until the type of
    /// the other side is known.
    pub(crate) fn operand(&self, expr: &Expr) -> Result<Scalar> {
        stacker::maybe_grow(RED_ZONE, STACK, || self.bound(expr))
    }

    pub(crate) fn truth(&self, scalar: Scalar) -> Result<Scalar> {
        match scalar.ty.truth {
            true => Ok(scalar),
            false => self.compare(Comparison::NotEqual, scalar, crate::literal::int(0)),
        }
    }

    fn bound(&self, expr: &Expr) -> Result<Scalar> {
        self.environment.check()?;
        match expr {
            Expr::Value(value) => Ok(self.of_connection(crate::literal::bound(&value.value)?)),
            Expr::Nested(inner) => self.operand(inner),
            Expr::Identifier(ident) => {
                if ident.value.starts_with('@') && ident.quote_style.is_none() {
                    return self.at_variable(&[&ident.value]);
                }
                self.column(std::slice::from_ref(ident))
            }
            Expr::CompoundIdentifier(idents) => {
                if idents[0].value.starts_with('@') && idents[0].quote_style.is_none() {
                    let names: Vec<&str> = idents.iter().map(|ident| &*ident.value).collect();
                    return self.at_variable(&names);
                }
                self.column(idents)
            }
            Expr::BinaryOp {
                left,
                op: BinaryOperator::Assignment,
                right,
            } => self.assignment(left, right),
            Expr::BinaryOp { .. } => self.operators(expr),
            Expr::UnaryOp { op, expr: inner } => self.unary(op, inner),
            Expr::IsNull(inner) => Ok(is_null(self.stored(inner)?, false)),
            Expr::IsNotNull(inner) => Ok(is_null(self.stored(inner)?, true)),
            Expr::IsTrue(inner) => self.is(inner, true, false),
            Expr::IsNotTrue(inner) => self.is(inner, true, true),
            Expr::IsFalse(inner) => self.is(inner, false, false),
            Expr::IsNotFalse(inner) => self.is(inner, false, true),
            Expr::IsUnknown(inner) => Ok(is_null(self.condition(inner)?, false)),
            Expr::IsNotUnknown(inner) => Ok(is_null(self.condition(inner)?, true)),
            Expr::Between {
                expr: inner,
                negated,
                low,
                high,
            } => Ok(negate(self.between(inner, low, high)?, *negated)),
            Expr::InList {
                expr: inner,
                list,
                negated,
            } => Ok(negate(self.in_list(inner, list)?, *negated)),
            Expr::Like {
                negated,
                any: false,
                expr: inner,
                pattern,
                escape_char,
            } => {
                let escape = self.escape(escape_char.as_ref())?;
                let like = self.like(inner, pattern, escape)?;
                Ok(negate(like, *negated))
            }
            Expr::RLike {
                negated,
                expr: inner,
                pattern,
                ..
            } => {
                let arguments = vec![self.expression(inner)?, self.expression(pattern)?];
                let found = self.truth(self.library("regexp_like", arguments)?)?;
                Ok(negate(found, *negated))
            }
            Expr::Case {
                operand,
                conditions,
                else_result,
                ..
            } => self.case(operand.as_deref(), conditions, else_result.as_deref()),
            Expr::Cast { .. } | Expr::Convert { .. } | Expr::TypedString(_) => self.casts(expr),
            Expr::Collate {
                expr: inner,
                collation,
            } => {
                let inner = self.string(self.expression(inner)?)?;
                crate::cast::collated(inner, &collation.to_string())
            }
            expr if tuple(expr).is_some() => Err(BindError::OperandColumns(1)),
            Expr::Subquery(query) => only(self.environment.subquery(query)?),
            Expr::Exists { subquery, negated } => {
                Ok(negate(self.environment.exists(subquery)?, *negated))
            }
            Expr::InSubquery { .. } | Expr::AnyOp { .. } | Expr::AllOp { .. } => {
                self.quantified(expr)
            }
            Expr::Function(function) => match self.environment.aggregate(function)? {
                Some(aggregate) => Ok(aggregate),
                None => self.function(function),
            },
            Expr::Prefixed { prefix, value } => match prefix.value.to_ascii_lowercase().as_str() {
                "_binary" => crate::cast::cast_to(self.expression(value)?, Target::Binary(None)),
                name => self.introduced(name, value),
            },
            _ => self.syntax_function(expr),
        }
    }

    fn column(&self, name: &[sqlparser::ast::Ident]) -> Result<Scalar> {
        self.environment.name(name)
    }

    /// `@name`, `@@name`, `@@session.name`, `@@global.name`.
    fn at_variable(&self, names: &[&str]) -> Result<Scalar> {
        let first = names[0].to_lowercase();
        let literal = match (first.strip_prefix("@@"), names) {
            (None, _) => {
                let name = &first[1..];
                if let Some((variable, target, collation)) =
                    self.environment.assigned_variable(name)
                {
                    return Ok(variable_read(variable, target, collation));
                }
                let (value, ty) = self.environment.user_variable(name);
                return Ok(Scalar::new(Node::Constant(value), ty));
            }
            (Some(name), [_]) => self.environment.variable(None, name)?,
            (Some("session" | "local"), [_, name]) => self
                .environment
                .variable(Some("session"), &name.to_lowercase())?,
            (Some("global"), [_, name]) => self
                .environment
                .variable(Some("global"), &name.to_lowercase())?,
            _ => return unsupported(format_args!("the variable {}", names.join("."))),
        };
        self.expression(&literal)
    }

    /// `@name := value`.
    fn assignment(&self, left: &Expr, value: &Expr) -> Result<Scalar> {
        let Some(name) = user_variable(left) else {
            return Err(QueryError::Syntax(format!(":= {value}")).into());
        };
        let value = self.expression(value)?;
        let variable = self
            .environment
            .assign_variable(&name.to_lowercase(), &value.ty)?;
        let mut ty = value.ty.clone();
        ty.literal = false;
        if ty.coercibility == Coercibility::Coercible {
            ty.coercibility = Coercibility::Implicit;
        }
        Ok(Scalar::new(Node::Assign(variable, Box::new(value)), ty))
    }

    /// Operators. Chains such as `a OR b OR …` lean to the left and may be long, so the left side is walked in a loop.
    fn operators(&self, expr: &Expr) -> Result<Scalar> {
        let mut pending = Vec::new();
        let mut current = expr;
        loop {
            match current {
                Expr::BinaryOp { left, op, right } if *op != BinaryOperator::Assignment => {
                    pending.push((op, &**right));
                    current = left;
                }
                // `(a + b) + c` is `a + b + c`.
                Expr::Nested(inner) if matches!(**inner, Expr::BinaryOp { .. }) => current = inner,
                _ => break,
            }
        }
        let mut left = match current {
            Expr::Interval(interval) => return self.interval_first(interval, pending),
            Expr::Subquery(_) if !pending.is_empty() => self.row(current)?,
            other if tuple(other).is_some() && !pending.is_empty() => self.row(current)?,
            other => vec![self.operand(other)?],
        };
        // Only a column may stand before `->`.
        let mut is_name = matches!(current, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        while let Some((op, right)) = pending.pop() {
            self.environment.check()?;
            let is_arrow = matches!(op, BinaryOperator::Arrow | BinaryOperator::LongArrow);
            if is_arrow && !(is_name && is_text(right)) {
                return Err(QueryError::Syntax(format!("{op}{right}")).into());
            }
            is_name = false;
            left = vec![match <[Scalar; 1]>::try_from(left) {
                Ok([left]) => self.operator(left, op, right)?,
                Err(row) => self.rows(op, row, right)?,
            }];
        }
        only(left)
    }

    fn operator(&self, left: Scalar, op: &BinaryOperator, right: &Expr) -> Result<Scalar> {
        use BinaryOperator as Op;
        if let Some(op) = comparison(op) {
            if tuple(right).is_some_and(|row| row.len() != 1) {
                return Err(BindError::OperandColumns(1));
            }
            return self.compare(op, left, self.operand(right)?);
        }
        let left = self.local(left)?;
        if let Expr::Interval(interval) = right
            && matches!(op, Op::Plus | Op::Minus)
        {
            return self.date_add(text_of_binary(left), interval, *op == Op::Minus);
        }
        if let Some(op) = arithmetic(op) {
            return self.arithmetic(left, op, self.number(right)?);
        }
        match op {
            Op::Arrow | Op::LongArrow => self.part_of_json(text_of_binary(left), op, right),
            Op::And | Op::PGOverlap | Op::Or | Op::StringConcat => {
                let (left, right) = (self.truth(left)?, self.condition(right)?);
                // `&&` is AND, `||` is OR.
                let all = matches!(op, Op::And | Op::PGOverlap);
                Ok(joined(left, right, all))
            }
            Op::Xor => {
                let both = [self.truth(left)?, self.condition(right)?];
                let nullable = both.iter().any(|one| one.ty.nullable);
                let ty = SqlType::truth().nullable(nullable);
                Ok(Scalar::new(Node::Xor(Box::new(both)), ty))
            }
            Op::BitwiseAnd
            | Op::BitwiseOr
            | Op::BitwiseXor
            | Op::PGBitwiseShiftLeft
            | Op::PGBitwiseShiftRight => {
                let right = self.number(right)?;
                self.library(&op.to_string(), vec![left, right])
            }
            other => unsupported(format_args!("the operator {other}")),
        }
    }

    /// `column -> path` and `column ->> path`.
    fn part_of_json(&self, left: Scalar, op: &BinaryOperator, right: &Expr) -> Result<Scalar> {
        let part = self.library("json_extract", vec![left, self.expression(right)?])?;
        match op {
            BinaryOperator::LongArrow => self.library("json_unquote", vec![part]),
            _ => Ok(part),
        }
    }

    fn unary(&self, op: &UnaryOperator, inner: &Expr) -> Result<Scalar> {
        match op {
            UnaryOperator::Not | UnaryOperator::BangNot => Ok(negate(self.condition(inner)?, true)),
            UnaryOperator::Plus => self.expression(inner),
            UnaryOperator::Minus => match inner {
                Expr::Value(value) if crate::literal::is_plain_number(&value.value) => {
                    crate::literal::negative(&value.value)
                }
                _ => self.negative(self.number(inner)?),
            },
            UnaryOperator::BitwiseNot => {
                let inner = self.number(inner)?;
                self.library("~", vec![inner])
            }
            other => unsupported(format_args!("the operator {other}")),
        }
    }

    fn is(&self, inner: &Expr, wanted: bool, negated: bool) -> Result<Scalar> {
        let condition = self.condition(inner)?;
        let is = Node::Is(Box::new(condition), wanted);
        Ok(negate(
            Scalar::new(is, SqlType::truth().nullable(false)),
            negated,
        ))
    }

    fn like(&self, text: &Expr, pattern: &Expr, escape: char) -> Result<Scalar> {
        let [text, pattern] = [text, pattern].map(|one| self.string(self.expression(one)?));
        let (text, pattern) = (text?, pattern?);
        let over_bytes = text.ty.is_bytes() || pattern.ty.is_bytes();
        let collation = match over_bytes {
            true => Collation::UTF8MB4_BIN,
            false => text.ty.common_collation(&pattern.ty)?,
        };
        let nullable = text.ty.nullable || pattern.ty.nullable;
        let as_text = |scalar| crate::cast::as_text(scalar, over_bytes);
        let both = [as_text(text)?, as_text(pattern)?];
        let constant = match both[1].constant() {
            Some(Value::Text(pattern)) => Some(LikePattern::collated(pattern, escape, collation)),
            _ => None,
        };
        let kind = LikeKind {
            collation,
            escape,
            pattern: constant,
        };
        let ty = SqlType::truth().nullable(nullable);
        Ok(Scalar::new(Node::Like(Box::new(both), kind), ty))
    }
}

impl Binder<'_> {
    /// The character behind ESCAPE.
    fn escape(&self, clause: Option<&ValueWithSpan>) -> Result<char> {
        let modes = self.environment.modes();
        match clause {
            Some(clause) => escape(clause),
            None if modes.has(Modes::NO_BACKSLASH_ESCAPES) => Ok(NO_ESCAPE),
            None => Ok(ESCAPE),
        }
    }
}

fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value,
        Literal::SingleQuotedString(_) | Literal::DoubleQuotedString(_)))
}

fn escape(clause: &ValueWithSpan) -> Result<char> {
    match &clause.value {
        Literal::SingleQuotedString(text) | Literal::DoubleQuotedString(text) => {
            let mut chars = text.chars();
            match (chars.next(), chars.next()) {
                (Some(escape), None) => Ok(escape),
                // A character that no pattern has.
                (None, _) => unsupported("LIKE … ESCAPE ''"),
                _ => Err(BindError::WrongArguments("ESCAPE".into())),
            }
        }
        other => unsupported(format_args!("LIKE … ESCAPE {other}")),
    }
}

/// A binary literal in the place of a string is a text, if it is one.
pub(crate) fn text_of_binary(scalar: Scalar) -> Scalar {
    match (&scalar.node, scalar.ty.literal) {
        (Node::Constant(Value::Bytes(bytes)), true) => match std::str::from_utf8(bytes) {
            Ok(text) => crate::literal::text(text),
            Err(_) => scalar,
        },
        _ => scalar,
    }
}

/// The only column of a row.
fn only(row: Vec<Scalar>) -> Result<Scalar> {
    match <[Scalar; 1]>::try_from(row) {
        Ok([one]) => Ok(one),
        Err(_) => Err(BindError::OperandColumns(1)),
    }
}

/// Two conditions of which both (`all`) or one is true.
pub(crate) fn joined(left: Scalar, right: Scalar, all: bool) -> Scalar {
    let nullable = left.ty.nullable || right.ty.nullable;
    let mut operands = match (left.node, all) {
        (Node::And(operands), true) | (Node::Or(operands), false) => operands,
        (node, _) => vec![Scalar::new(node, left.ty)],
    };
    operands.push(right);
    let node = if all {
        Node::And(operands)
    } else {
        Node::Or(operands)
    };
    Scalar::new(node, SqlType::truth().nullable(nullable))
}

pub(crate) fn negate(scalar: Scalar, negated: bool) -> Scalar {
    if !negated {
        return scalar;
    }
    let ty = SqlType::truth().nullable(scalar.ty.nullable);
    Scalar::new(Node::Not(Box::new(scalar)), ty)
}

fn is_null(scalar: Scalar, negated: bool) -> Scalar {
    let is_null = Node::IsNull(Box::new(scalar));
    negate(
        Scalar::new(is_null, SqlType::truth().nullable(false)),
        negated,
    )
}

pub(crate) fn comparison(op: &BinaryOperator) -> Option<Comparison> {
    Some(match op {
        BinaryOperator::Eq => Comparison::Equal,
        BinaryOperator::NotEq => Comparison::NotEqual,
        BinaryOperator::Lt => Comparison::Less,
        BinaryOperator::LtEq => Comparison::LessOrEqual,
        BinaryOperator::Gt => Comparison::Greater,
        BinaryOperator::GtEq => Comparison::GreaterOrEqual,
        BinaryOperator::Spaceship => Comparison::NullSafeEqual,
        _ => return None,
    })
}

fn arithmetic(op: &BinaryOperator) -> Option<Arithmetic> {
    Some(match op {
        BinaryOperator::Plus => Arithmetic::Add,
        BinaryOperator::Minus => Arithmetic::Subtract,
        BinaryOperator::Multiply => Arithmetic::Multiply,
        BinaryOperator::Divide => Arithmetic::Divide,
        BinaryOperator::MyIntegerDivide => Arithmetic::IntDivide,
        BinaryOperator::Modulo => Arithmetic::Modulo,
        _ => return None,
    })
}

/// The value of a user variable that the statement assigns to.
fn variable_read(variable: Arc<Variable>, target: Target, collation: Collation) -> Scalar {
    let mut ty = crate::cast::type_of(target, &SqlType::NULL).nullable(true);
    if ty.is_text() {
        crate::cast::set_collation(&mut ty, collation);
    }
    Scalar::new(Node::Variable(variable, target), ty)
}

/// The name of a user variable.
fn user_variable(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Identifier(ident) if ident.quote_style.is_none() => {
            let name = ident.value.strip_prefix('@')?;
            (!name.is_empty() && !name.starts_with('@')).then_some(name)
        }
        _ => None,
    }
}
