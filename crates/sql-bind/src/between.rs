//! BETWEEN: two comparisons by the types of all three operands. With `s BETWEEN '1' AND 5` a text is compared as a number
//! with both bounds, with `s BETWEEN '2020-1-5' AND a_date` as a point in time.

use perigee_expr::Comparison;
use perigee_expr::scalar::{Domain, Node, Scalar};
use perigee_sql_type::SqlType;
use sqlparser::ast::Expr;

use crate::comparison::{comparable, mixed};
use crate::expression::joined;
use crate::literal::binary_literal;
use crate::{Binder, Result};

/// How values of a type are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Number,
    Text,
    Bytes,
    Moment,
    Time,
    /// NULL, JSON, and literals whose type depends on the other operand: these are compared pair by pair.
    Other,
}

impl Binder<'_> {
    pub(crate) fn between(&self, operand: &Expr, low: &Expr, high: &Expr) -> Result<Scalar> {
        let operand = self.operand(operand)?;
        let (low, high) = (self.operand(low)?, self.operand(high)?);
        let operand = converted(operand, [&low, &high])?;
        let operand = self.repeated(operand);
        let above = self.compare(Comparison::GreaterOrEqual, operand.place(), low)?;
        let below = self.compare(Comparison::LessOrEqual, operand.place(), high)?;
        Ok(operand.within(joined(above, below, true)))
    }
}

/// The value between bounds, as it is compared with both of them.
fn converted(operand: Scalar, bounds: [&Scalar; 2]) -> Result<Scalar> {
    let own = class(&operand);
    let classes = bounds.map(class);
    if classes[0] == classes[1] || own == Class::Other || classes.contains(&Class::Other) {
        return Ok(operand);
    }
    let is_year = operand.ty.column == Some(perigee_value::ColumnType::Year);
    let is_moment = |class| matches!(class, Class::Moment | Class::Time);
    if let Some(at) = classes
        .iter()
        .position(|class| is_year && is_moment(*class))
    {
        return mixed(&operand.ty, &bounds[at].ty);
    }
    let to = |domain, ty: SqlType| {
        let ty = ty.nullable(operand.ty.nullable);
        move |scalar| {
            let compared = comparable(scalar, domain);
            let moment = Node::Comparable(Box::new(compared), domain);
            Scalar::new(moment, ty)
        }
    };
    let is_text = matches!(own, Class::Text | Class::Bytes);
    let datetime = SqlType::of(perigee_value::ColumnType::DateTime { fsp: 6 });
    let time = SqlType::of(perigee_value::ColumnType::Time { fsp: 6 });
    let double = SqlType::of(perigee_value::ColumnType::Double);
    let bytes = SqlType::of(perigee_value::ColumnType::Long {
        prefix: 4,
        collation: perigee_value::Collation::BINARY,
    });
    let domain = match own {
        Class::Moment | Class::Time => return Ok(operand),
        _ if classes.contains(&Class::Moment) => to(Domain::Moment, datetime),
        _ if classes.contains(&Class::Time) => to(Domain::Time, time),
        _ if is_text && classes.contains(&Class::Number) => to(Domain::Double, double),
        Class::Text if classes.contains(&Class::Bytes) => to(Domain::Bytes, bytes),
        _ => return Ok(operand),
    };
    Ok(domain(operand))
}

fn class(scalar: &Scalar) -> Class {
    let ty = &scalar.ty;
    match () {
        () if binary_literal(scalar).is_some() || ty.is_null() || ty.is_json() => Class::Other,
        () if ty.is_number() => Class::Number,
        () if ty.is_bytes() => Class::Bytes,
        () if ty.is_text() => Class::Text,
        () if ty.is_moment() => Class::Moment,
        () if ty.is_time() => Class::Time,
        () => Class::Other,
    }
}
