//! Expressions as text, for tests and for people: every conversion that the binder put in is visible.

use std::fmt::{self, Display, Formatter};

use super::{Domain, Interval, Node, Scalar, Target, to_text};
use crate::functions::Value;
use crate::{Arithmetic, Comparison};

impl Display for Scalar {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.node {
            Node::Constant(value) => constant(value, self, f),
            Node::Column(place) => write!(f, "#{place}"),
            Node::Parameter(number) => write!(f, "?{number}"),
            Node::Cast(one, target) => write!(f, "cast({one} as {target})"),
            Node::Comparable(one, domain) => write!(f, "{one}::{domain}"),
            Node::Latin(one) => write!(f, "latin({one})"),
            Node::Stored(one) => write!(f, "stored({one})"),
            Node::MemberNumber(one, _) => write!(f, "number({one})"),
            Node::Arithmetic(first, steps) => {
                write!(f, "({first}")?;
                for step in steps {
                    write!(f, " {} {}", symbol(step.op), step.operand)?;
                }
                f.write_str(")")
            }
            Node::Negate(one) => write!(f, "-{one}"),
            Node::Round(kind, one, places) => {
                write!(f, "{}({one}, {places})", format!("{kind:?}").to_lowercase())
            }
            Node::Compare(op, domain, two) => {
                write!(f, "({} {} {} by {domain})", two[0], sign(*op), two[1])
            }
            Node::In(domain, one, items) => {
                write!(f, "({one} in (")?;
                list(items, f)?;
                write!(f, ") by {domain})")
            }
            Node::Listed(domain, one, listed) => write!(f, "({one} in ({listed}) by {domain})"),
            Node::Like(two, kind) => {
                write!(
                    f,
                    "({} like {} by {})",
                    two[0],
                    two[1],
                    kind.collation.name()
                )
            }
            Node::And(all) => joined(all, " and ", f),
            Node::Or(all) => joined(all, " or ", f),
            Node::Xor(two) => joined(two.as_slice(), " xor ", f),
            Node::Not(one) => write!(f, "not {one}"),
            Node::IsNull(one) => write!(f, "({one} is null)"),
            Node::Is(one, wanted) => write!(f, "({one} is {wanted})"),
            Node::Case(branches, otherwise) => {
                f.write_str("case")?;
                for (when, then) in branches {
                    write!(f, " when {when} then {then}")?;
                }
                match otherwise {
                    Some(otherwise) => write!(f, " else {otherwise} end"),
                    None => f.write_str(" end"),
                }
            }
            Node::Coalesce(all) => {
                f.write_str("coalesce(")?;
                list(all, f)?;
                f.write_str(")")
            }
            Node::Extract(field, one) => {
                write!(f, "{}({one})", format!("{field:?}").to_lowercase())
            }
            Node::DateAdd(two, unit) => write!(f, "({} + {} × {unit})", two[0], two[1]),
            Node::Call(call) => {
                write!(f, "{}(", call.function.name())?;
                list(&call.arguments, f)?;
                f.write_str(")")
            }
            Node::Let(number, two) => write!(f, "(let %{number} = {} in {})", two[0], two[1]),
            Node::Local(number) => write!(f, "%{number}"),
            Node::Variable(variable, _) => write!(f, "@{}", variable.name()),
            Node::Assign(variable, one) => write!(f, "(@{} := {one})", variable.name()),
        }
    }
}

fn constant(value: &Value<'_>, of: &Scalar, f: &mut Formatter<'_>) -> fmt::Result {
    match (value, to_text(value, &of.ty)) {
        (Value::Null, _) => f.write_str("null"),
        (Value::Bytes(bytes), _) => write!(f, "b'{}'", bytes.escape_ascii()),
        (Value::Int(_) | Value::UInt(_) | Value::Decimal(..), Some(text)) => f.write_str(&text),
        (Value::Double(_), Some(text)) => write!(f, "{text}e0"),
        (_, text) => write!(f, "'{}'", text.unwrap_or_default().escape_default()),
    }
}

fn list(all: &[Scalar], f: &mut Formatter<'_>) -> fmt::Result {
    for (number, one) in all.iter().enumerate() {
        let separator = if number == 0 { "" } else { ", " };
        write!(f, "{separator}{one}")?;
    }
    Ok(())
}

fn joined(all: &[Scalar], word: &str, f: &mut Formatter<'_>) -> fmt::Result {
    for (number, one) in all.iter().enumerate() {
        let separator = if number == 0 { "(" } else { word };
        write!(f, "{separator}{one}")?;
    }
    f.write_str(")")
}

fn symbol(op: Arithmetic) -> &'static str {
    match op {
        Arithmetic::Add => "+",
        Arithmetic::Subtract => "-",
        Arithmetic::Multiply => "*",
        Arithmetic::Divide => "/",
        Arithmetic::IntDivide => "div",
        Arithmetic::Modulo => "%",
    }
}

fn sign(op: Comparison) -> &'static str {
    match op {
        Comparison::Equal => "=",
        Comparison::NotEqual => "<>",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
        Comparison::NullSafeEqual => "<=>",
    }
}

impl Display for Domain {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => f.write_str("exact"),
            Self::Double => f.write_str("double"),
            Self::Text(collation) => f.write_str(collation.name()),
            Self::Bytes => f.write_str("bytes"),
            Self::Moment => f.write_str("datetime"),
            Self::Time => f.write_str("time"),
        }
    }
}

impl Display for Interval {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Days(n) => write!(f, "{n} days"),
            Self::Months(n) => write!(f, "{n} months"),
            Self::Micros(n) => write!(f, "{n} µs"),
        }
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signed => f.write_str("signed"),
            Self::Unsigned => f.write_str("unsigned"),
            Self::Decimal(precision, scale) => write!(f, "decimal({precision},{scale})"),
            Self::Double => f.write_str("double"),
            Self::Float => f.write_str("float"),
            Self::Char(Some(chars)) => write!(f, "char({chars})"),
            Self::Char(None) => f.write_str("char"),
            Self::Binary(Some(bytes)) => write!(f, "binary({bytes})"),
            Self::Binary(None) => f.write_str("binary"),
            Self::Date => f.write_str("date"),
            Self::DateTime(fsp) => write!(f, "datetime({fsp})"),
            Self::Time(fsp) => write!(f, "time({fsp})"),
            Self::Year => f.write_str("year"),
            Self::Micros => f.write_str("microseconds"),
        }
    }
}
