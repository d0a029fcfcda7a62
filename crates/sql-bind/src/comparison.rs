//! Comparisons: in which domain two values are compared, and what makes them values of it.

use perigee_expr::Comparison;
use perigee_expr::functions::{Value, leading_number};
use perigee_expr::scalar::{Context, Domain, Node, Nowhere, Scalar};
use perigee_sql_type::SqlType;
use perigee_value::date::ZERO_MICROS;
use perigee_value::{ColumnType, Datum, ValueRef, parse_text, parse_text_ref};
use sqlparser::ast::Expr;

use crate::arithmetic::as_number;
use crate::error::unsupported;
use crate::expression::{joined, text_of_binary};
use crate::literal::number_of_binary;
use crate::rows::tuple;
use crate::{BindError, Binder, Modes, Result};

/// The function that gives the bytes by which JSON is ordered.
const JSON_ORDER: &str = "json order";

/// Two values and the domain in which they are compared.
pub(crate) struct Compared {
    pub domain: Domain,
    pub both: [Scalar; 2],
}

impl Binder<'_> {
    /// `left op right` with MySQL's rules for operands of different types.
    pub(crate) fn compare(&self, op: Comparison, left: Scalar, right: Scalar) -> Result<Scalar> {
        let Compared { domain, both } = self.compared(left, right)?;
        // `truth <> 0`, which conditions are wrapped in, is the truth value itself.
        let is_zero = matches!(both[1].constant(), Some(Value::Int(0)));
        if both[0].ty.truth && op == Comparison::NotEqual && is_zero {
            let [left, _] = both;
            return Ok(left);
        }
        let nullable = op != Comparison::NullSafeEqual && both.iter().any(|one| one.ty.nullable);
        let ty = SqlType::truth().nullable(nullable);
        Ok(Scalar::new(Node::Compare(op, domain, Box::new(both)), ty))
    }

    /// Two values as ones of a domain.
    pub(crate) fn compared(&self, left: Scalar, right: Scalar) -> Result<Compared> {
        let [left, right] = resolved(left, right)?;
        let left = as_year(left, &right);
        let right = as_year(right, &left);
        let [left, right] = enum_numbers(left, right)?;
        if left.ty.is_json() || right.ty.is_json() {
            return self.compared_json(left, right);
        }
        let (left, right) = (number_of_text(left, &right.ty), right);
        let right = number_of_text(right, &left.ty);
        let modes = self.environment.modes();
        check_moment(&left, &right.ty, modes)?;
        check_moment(&right, &left.ty, modes)?;
        let [left, right] = self.in_one_zone(left, right)?;
        let domain = domain(&left.ty, &right.ty)?;
        let both = [left, right].map(|one| comparable(one, domain));
        Ok(Compared { domain, both })
    }

    /// Two values of which one is JSON: what the other one is as JSON is compared. They compare as the bytes by which
    /// JSON is ordered.
    fn compared_json(&self, left: Scalar, right: Scalar) -> Result<Compared> {
        let has_order = |ty: &SqlType| !ty.is_moment() && !ty.is_time() && !ty.is_bytes();
        if !has_order(&left.ty) || !has_order(&right.ty) {
            return mixed(&left.ty, &right.ty);
        }
        let both = [self.order_of_json(left)?, self.order_of_json(right)?];
        let domain = Domain::Bytes;
        Ok(Compared { domain, both })
    }

    /// The bytes by which a value is ordered as JSON; of a constant they are one.
    fn order_of_json(&self, scalar: Scalar) -> Result<Scalar> {
        let is_constant = scalar.constant().is_some();
        let nullable = scalar.ty.nullable;
        let mut order = self.library(JSON_ORDER, vec![scalar])?;
        order.ty.nullable = nullable;
        if is_constant && let Ok(value) = order.evaluate(&[], &Context::new(&Nowhere)) {
            let value = value.into_owned();
            return Ok(Scalar::new(Node::Constant(value), order.ty));
        }
        Ok(order)
    }

    /// `x IN (…)`.
    pub(crate) fn in_list(&self, operand: &Expr, list: &[Expr]) -> Result<Scalar> {
        if let Some(row) = tuple(operand) {
            return self.row_in(&row, list);
        }
        if list.is_empty() {
            return unsupported("an empty IN list");
        }
        if let Some(listed) = self.in_long_list(operand, list)? {
            return Ok(listed);
        }
        let operand = self.repeated(self.operand(operand)?);
        let mut equal: Vec<Compared> = Vec::with_capacity(list.len());
        for item in list {
            self.environment.check()?;
            equal.push(self.compared(operand.place(), self.operand(item)?)?);
        }
        let nullable = equal
            .iter()
            .any(|one| one.both.iter().any(|one| one.ty.nullable));
        let ty = SqlType::truth().nullable(nullable);
        let first = equal[0].domain;
        let is_same = |one: &Compared| one.domain == first && same(&one.both[0], &equal[0].both[0]);
        if equal.iter().all(is_same) {
            let mut place = None;
            let items = equal.into_iter().map(|one| {
                let [left, right] = one.both;
                place.get_or_insert(left);
                right
            });
            let items = items.collect();
            let place = Box::new(place.unwrap_or_else(Scalar::null));
            return Ok(operand.within(Scalar::new(Node::In(first, place, items), ty)));
        }
        let equal = equal.into_iter().map(|Compared { domain, both }| {
            Scalar::new(
                Node::Compare(Comparison::Equal, domain, Box::new(both)),
                ty.clone(),
            )
        });
        let any = equal.reduce(|left, right| joined(left, right, false));
        Ok(operand.within(any.unwrap_or_else(Scalar::null)))
    }

    fn row_in(&self, row: &[&Expr], list: &[Expr]) -> Result<Scalar> {
        let mut any: Option<Scalar> = None;
        for item in list {
            let Some(item) = tuple(item) else {
                return Err(BindError::OperandColumns(row.len()));
            };
            let equal = self.row_equality(row, &item)?;
            any = Some(match any {
                Some(any) => joined(any, equal, false),
                None => equal,
            });
        }
        any.ok_or_else(|| BindError::NotSupported("an empty IN list".into()))
    }
}

/// True for one expression that was made comparable twice.
pub(crate) fn same(left: &Scalar, right: &Scalar) -> bool {
    match (&left.node, &right.node) {
        (Node::Local(left), Node::Local(right)) => left == right,
        (Node::Comparable(left, one), Node::Comparable(right, other)) => {
            one == other && same(left, right)
        }
        (Node::MemberNumber(left, _), Node::MemberNumber(right, _)) => same(left, right),
        _ => left.is_same(right),
    }
}

/// Binary literals as the number or the text that the other side wants.
fn resolved(left: Scalar, right: Scalar) -> Result<[Scalar; 2]> {
    let resolve = |one: Scalar, other: &SqlType| match other.is_number() {
        true => number_of_binary(one),
        false => Ok(text_of_binary(one)),
    };
    let left = resolve(left, &right.ty)?;
    let right = resolve(right, &left.ty)?;
    Ok([left, right])
}

/// A constant that is compared with a YEAR column, as the year that would be stored: 94 is 1994.
fn as_year(scalar: Scalar, other: &Scalar) -> Scalar {
    const BIGINT: ColumnType = ColumnType::Int {
        bytes: 8,
        unsigned: false,
    };
    let is_column = matches!(other.node, Node::Column(_));
    if !scalar.ty.literal || !is_column || other.ty.column != Some(ColumnType::Year) {
        return scalar;
    }
    let year = match scalar.constant() {
        Some(Value::Text(text)) => parse_text(ColumnType::Year, text.as_bytes()),
        Some(Value::Int(number)) => ColumnType::Year.coerce(Datum::Int(*number), BIGINT),
        _ => return scalar,
    };
    match year {
        Ok(Datum::UInt(year)) => crate::literal::int(i64::try_from(year).unwrap_or(0)),
        // A value that is no year is compared as the number that it is.
        _ => scalar,
    }
}

/// Values of ENUMs by their numbers, where the other side is a number.
fn enum_numbers(left: Scalar, right: Scalar) -> Result<[Scalar; 2]> {
    let is_enum = |one: &Scalar| one.ty.members.is_some();
    Ok(match (is_enum(&left), is_enum(&right)) {
        (true, false) if right.ty.is_number() => [as_number(left)?, right],
        (false, true) if left.ty.is_number() => [left, as_number(right)?],
        _ => [left, right],
    })
}

/// A literal text beside a number is the number it begins with, exact if it is an integer.
fn number_of_text(scalar: Scalar, other: &SqlType) -> Scalar {
    if !scalar.ty.literal || !other.is_number() {
        return scalar;
    }
    let Some(Value::Text(text)) = scalar.constant() else {
        return scalar;
    };
    match text.trim().parse::<i64>() {
        Ok(integer) => crate::literal::int(integer),
        Err(_) => Scalar::new(
            Node::Constant(Value::Double(leading_number(text))),
            SqlType::of(ColumnType::Double).literal(),
        ),
    }
}

/// A literal beside a date or a time must be one.
fn check_moment(scalar: &Scalar, other: &SqlType, modes: Modes) -> Result<()> {
    const BIGINT: ColumnType = ColumnType::Int {
        bytes: 8,
        unsigned: false,
    };
    if !scalar.ty.literal || !(other.is_moment() || other.is_time()) {
        return Ok(());
    }
    let (kind, column) = match other.column {
        Some(ColumnType::Date) => ("DATE", ColumnType::DateTime { fsp: 6 }),
        Some(ColumnType::Time { .. }) => ("TIME", ColumnType::Time { fsp: 6 }),
        _ => ("DATETIME", ColumnType::DateTime { fsp: 6 }),
    };
    let (is_one, value) = match scalar.constant() {
        Some(Value::Text(text)) => {
            let parsed = parse_text_ref(column, text.as_bytes());
            let is_one = matches!(parsed, Ok(ValueRef::DateTime(_) | ValueRef::Time(_)));
            let is_zero = parsed == Ok(ValueRef::DateTime(ZERO_MICROS));
            let is_one = is_one && !(is_zero && modes.has(Modes::NO_ZERO_DATE));
            (is_one, text.to_string())
        }
        Some(Value::Int(number)) => {
            let coerced = column.coerce(Datum::Int(*number), BIGINT);
            let is_zero = coerced == Ok(Datum::DateTime(ZERO_MICROS));
            let is_one = coerced.is_ok() && !(is_zero && modes.has(Modes::NO_ZERO_DATE));
            (is_one, number.to_string())
        }
        _ => return Ok(()),
    };
    match is_one {
        true => Ok(()),
        false => Err(BindError::IncorrectLiteral { kind, value }),
    }
}

/// The domain in which values of two types are compared.
pub(crate) fn domain(left: &SqlType, right: &SqlType) -> Result<Domain> {
    if left.is_null() || right.is_null() {
        let typed = if left.is_null() { right } else { left };
        return Ok(own_domain(typed));
    }
    let either = |is: fn(&SqlType) -> bool| is(left) || is(right);
    let both = |is: fn(&SqlType) -> bool| is(left) && is(right);
    let is_year = |ty: &SqlType| ty.column == Some(ColumnType::Year);
    if either(SqlType::is_time) {
        return match either(SqlType::is_moment) || either(is_year) {
            true => mixed(left, right),
            false => Ok(Domain::Time),
        };
    }
    if either(SqlType::is_moment) {
        return match either(is_year) {
            true => mixed(left, right),
            false => Ok(Domain::Moment),
        };
    }
    if both(SqlType::is_number) {
        return Ok(match both(is_exact) {
            true => Domain::Exact,
            false => Domain::Double,
        });
    }
    if either(SqlType::is_number) {
        return Ok(Domain::Double);
    }
    if either(SqlType::is_bytes) {
        return Ok(Domain::Bytes);
    }
    Ok(Domain::Text(left.common_collation(right)?))
}

/// The domain in which values of a type are compared with each other.
fn own_domain(ty: &SqlType) -> Domain {
    match () {
        () if ty.is_null() => Domain::Exact,
        () if ty.is_number() && is_exact(ty) => Domain::Exact,
        () if ty.is_number() => Domain::Double,
        () if ty.is_moment() => Domain::Moment,
        () if ty.is_time() => Domain::Time,
        () if ty.is_bytes() => Domain::Bytes,
        () => Domain::Text(ty.collation()),
    }
}

pub(crate) fn is_exact(ty: &SqlType) -> bool {
    ty.is_number() && !matches!(ty.column, Some(ColumnType::Float | ColumnType::Double))
}

pub(crate) fn mixed<T>(left: &SqlType, right: &SqlType) -> Result<T> {
    let name = |ty: &SqlType| {
        ty.column.map_or("NULL".to_owned(), |column| {
            column.to_string().to_uppercase()
        })
    };
    unsupported(format_args!(
        "comparison of {} with {}",
        name(left),
        name(right)
    ))
}

/// A value as one of a domain; a constant becomes one now.
pub(crate) fn comparable(scalar: Scalar, domain: Domain) -> Scalar {
    let natural = match domain {
        Domain::Exact => is_exact(&scalar.ty),
        Domain::Double => matches!(
            scalar.ty.column,
            Some(ColumnType::Float | ColumnType::Double)
        ),
        Domain::Text(_) => scalar.ty.is_text(),
        Domain::Bytes => scalar.ty.is_bytes(),
        Domain::Moment => scalar.ty.is_moment() && scalar.ty.column != Some(ColumnType::Date),
        Domain::Time => scalar.ty.is_time(),
    };
    if natural || scalar.ty.is_null() {
        return scalar;
    }
    let ty = scalar.ty.clone();
    let comparable = Scalar::new(Node::Comparable(Box::new(scalar), domain), ty);
    match comparable.converted_constant() {
        Some(constant) => constant,
        None => comparable,
    }
}
