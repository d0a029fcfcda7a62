//! Comparisons in the domain that the binder chose, as DataFusion's over operands that it compares so.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::expr::{InList, Like};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, binary_expr, cast, lit};
use perigee_expr::Comparison;
use perigee_expr::functions::Value;
use perigee_expr::scalar::{Domain, LikeKind, Node, Scalar};
use perigee_sql_type::SqlType;
use perigee_value::ColumnType;
use perigee_value::date::{day_to_micros, split_micros};

use super::Row;
use crate::error::SqlError;
use crate::functions::cast as casts;
use crate::functions::enumeration;
use crate::functions::like::{self as patterns, ESCAPE};
use crate::functions::moment::Moment;
use crate::functions::types::{datetime, is_string, is_temporal, is_time, time};
use crate::interrupt;
use crate::parse::{MAX_TERMS, halves};
use crate::plan::operators::{self, Enums, as_bytes, call, cast_to};
use crate::plan::{collation, comparable, metadata};

/// True if a comparison of what the operands are conversions of is one in the domain. It is not where a third operand
/// has decided the domain, as in BETWEEN.
fn stands_for_conversions(domain: Domain, left: &Scalar, right: &Scalar) -> bool {
    let [Some(left), Some(right)] = [left, right].map(|one| match &one.node {
        Node::Comparable(one, own) if *own == domain => Some(&one.ty),
        _ => None,
    }) else {
        // The other one is of the domain.
        return true;
    };
    let either = |is: fn(&SqlType) -> bool| is(left) || is(right);
    let is_float = |ty: &SqlType| matches!(ty.column, Some(ColumnType::Float | ColumnType::Double));
    match domain {
        Domain::Moment => either(SqlType::is_moment),
        Domain::Time => either(SqlType::is_time),
        Domain::Bytes => either(SqlType::is_bytes),
        Domain::Double => {
            let all_numbers = left.is_number() && right.is_number();
            either(is_float) || either(SqlType::is_number) && !all_numbers
        }
        Domain::Exact | Domain::Text(_) => true,
    }
}

/// DataFusion's operator.
pub(super) fn operator(op: Comparison) -> Operator {
    match op {
        Comparison::Equal => Operator::Eq,
        Comparison::NotEqual => Operator::NotEq,
        Comparison::Less => Operator::Lt,
        Comparison::LessOrEqual => Operator::LtEq,
        Comparison::Greater => Operator::Gt,
        Comparison::GreaterOrEqual => Operator::GtEq,
        Comparison::NullSafeEqual => Operator::IsNotDistinctFrom,
    }
}

impl Row<'_> {
    /// `left op right` in a domain.
    pub(super) fn compared(
        &self,
        op: Comparison,
        domain: Domain,
        left: &Scalar,
        right: &Scalar,
    ) -> DfResult<Expr> {
        let (left, right) = match stands_for_conversions(domain, left, right) {
            true => (self.operand(left, domain)?, self.operand(right, domain)?),
            false => (self.expr(left)?, self.expr(right)?),
        };
        self.compare(operator(op), domain, left, right)
    }

    /// `left op right` of operands that are not conversions of each other any more.
    pub(super) fn compare(
        &self,
        op: Operator,
        domain: Domain,
        left: Expr,
        right: Expr,
    ) -> DfResult<Expr> {
        match domain {
            Domain::Text(collation) => {
                let (left, right) = match operators::compare_enum(op, left, right, self.schema)? {
                    Enums::Compared(compared) => return Ok(compared),
                    Enums::Operands(left, right) => (left, right),
                };
                let left = collation::compared(left, collation, self.schema)?;
                let right = collation::compared(right, collation, self.schema)?;
                Ok(binary_expr(left, op, right))
            }
            Domain::Moment => {
                let (left, right) = (midnight(left, &right, self)?, right);
                let right = midnight(right, &left, self)?;
                operators::compare(op, left, right, self.schema)
            }
            _ => operators::compare(op, left, right, self.schema),
        }
    }

    /// An operand of a comparison, without the conversion that the comparison itself stands for.
    fn operand(&self, scalar: &Scalar, domain: Domain) -> DfResult<Expr> {
        match &scalar.node {
            Node::Comparable(one, own) if *own == domain => match domain {
                // Texts in other domains, and dates among points in time, are converted where they are compared.
                Domain::Text(_) if !one.ty.is_text() => self.expr(scalar),
                Domain::Double if one.ty.is_moment() || one.ty.is_time() => self.expr(scalar),
                _ => self.operand(one, domain),
            },
            Node::MemberNumber(one, members) => {
                let text = self.expr(one)?;
                Ok(enumeration::number_of(text, members.as_ref().clone()))
            }
            _ => self.expr(scalar),
        }
    }

    /// A value as one of a domain.
    pub(super) fn comparable(&self, one: &Scalar, domain: Domain) -> DfResult<Expr> {
        let expr = self.expr(one)?;
        let ty = operators::type_of_operand(&expr, self.schema)?;
        Ok(match domain {
            _ if ty == DataType::Null => expr,
            Domain::Exact => expr,
            Domain::Double if ty == DataType::Float64 => expr,
            Domain::Double => cast_to(expr, casts::Target::Double),
            Domain::Text(_) if is_string(&ty) => expr,
            Domain::Text(_) => cast_to(expr, casts::Target::Char(None)),
            Domain::Bytes => as_bytes(expr, &ty),
            Domain::Moment if ty == DataType::Date32 => cast(expr, datetime()),
            Domain::Moment if is_temporal(&ty) => expr,
            Domain::Moment => call(Moment::new(datetime()).into(), vec![expr]),
            Domain::Time if is_time(&ty) => expr,
            Domain::Time => call(Moment::new(time()).into(), vec![expr]),
        })
    }

    /// `one IN (list)`: DataFusion's list if one operand is compared with constants of one type, otherwise a
    /// disjunction. A NULL stands beside the list: DataFusion takes values out of lists.
    pub(super) fn in_list(&self, domain: Domain, one: &Scalar, list: &[Scalar]) -> DfResult<Expr> {
        let operand = self.operand(one, domain)?;
        let mut has_null = false;
        let mut comparisons = Vec::with_capacity(list.len());
        for item in list {
            interrupt::check_df()?;
            if matches!(item.constant(), Some(Value::Null)) {
                has_null = true;
                continue;
            }
            let item = self.operand(item, domain)?;
            comparisons.push(self.compare(Operator::Eq, domain, operand.clone(), item)?);
        }
        let null = has_null.then(|| lit(ScalarValue::Boolean(None)));
        let mut any = Vec::from_iter(null);
        match listed(&comparisons) {
            Some(list) => any.insert(0, Expr::InList(list)),
            None if comparisons.len() > MAX_TERMS => {
                return Err(SqlError::too_long(MAX_TERMS).into_df());
            }
            None if comparisons.is_empty() => {}
            None => any.insert(0, halves(comparisons, &Expr::or)),
        }
        Ok(halves(any, &Expr::or))
    }

    /// `text LIKE pattern`; `None` if there is no form for it.
    pub(super) fn like(&self, two: &[Scalar; 2], kind: &LikeKind) -> DfResult<Option<Expr>> {
        if kind.escape != ESCAPE {
            return Ok(None);
        }
        let like = Like {
            negated: false,
            expr: Box::new(self.expr(&two[0])?),
            pattern: Box::new(self.expr(&two[1])?),
            escape_char: None,
            case_insensitive: false,
        };
        if let Some(members) = metadata::members(&like.expr.to_field(self.schema)?.1)
            && let Some(listed) = comparable::enum_like(&like, members, self.schema)?
        {
            return Ok(Some(listed));
        }
        let pattern = collation::alike_pattern(*like.pattern, kind.collation);
        let constant = match &pattern {
            Expr::Literal(pattern, _) => pattern.try_as_str().flatten(),
            _ => None,
        };
        if constant.is_none_or(|pattern| !patterns::is_simple(pattern)) {
            let function = patterns::Like::new(kind.collation);
            let expr = collation::without_clause(*like.expr);
            return Ok(Some(call(function.into(), vec![expr, pattern])));
        }
        let expr = collation::alike(*like.expr, kind.collation);
        Ok(Some(Expr::Like(Like {
            expr: Box::new(expr),
            pattern: Box::new(pattern),
            ..Like::new(false, Box::new(lit("")), Box::new(lit("")), None, false)
        })))
    }
}

/// The constants of one type that comparisons compare one operand with, if they are such and several.
fn listed(comparisons: &[Expr]) -> Option<InList> {
    let mut operand: Option<(&Expr, DataType)> = None;
    let mut list = Vec::with_capacity(comparisons.len());
    for comparison in comparisons {
        let Expr::BinaryExpr(binary) = comparison else {
            return None;
        };
        let Expr::Literal(value, _) = binary.right.as_ref() else {
            return None;
        };
        let ty = value.data_type();
        match &operand {
            _ if binary.op != Operator::Eq => return None,
            Some((left, known)) if **left != *binary.left || *known != ty => return None,
            Some(_) => {}
            None => operand = Some((&binary.left, ty)),
        }
        list.push(binary.right.as_ref().clone());
    }
    let (operand, _) = operand.filter(|_| list.len() > 1)?;
    Some(InList::new(Box::new(operand.clone()), list, false))
}

/// A constant point in time that is compared with a DATE, as a DATE if it is a midnight.
fn midnight(expr: Expr, other: &Expr, row: &Row<'_>) -> DfResult<Expr> {
    let Expr::Literal(ScalarValue::TimestampMicrosecond(Some(micros), None), _) = &expr else {
        return Ok(expr);
    };
    let (days, _) = split_micros(*micros);
    let is_day = day_to_micros(days) == *micros;
    if is_day && operators::type_of_operand(other, row.schema)? == DataType::Date32 {
        return Ok(lit(ScalarValue::Date32(Some(days))));
    }
    Ok(expr)
}
