//! The value of an expression for a row.

use std::time::Duration;

use perigee_sql_type::{Number, SqlType};
use perigee_value::time::split_time;
use perigee_value::{LikePattern, date};

use super::cast::{cast, latin};
use super::compare::{comparable, order};
use super::computed::{compute, negated};
use super::round::rounded;
use super::values::stored;
use super::{Call, Domain, Interval, LikeKind, Node, Scalar, Target};
use crate::functions::{self, Environment, FunctionError, Kind, Value};
use crate::{Comparison, DateField};

/// The outcome of an evaluation.
pub type Outcome<'v> = Result<Value<'v>, Failure>;

/// Evaluation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A result is outside of its type (MySQL 1690).
    #[error("{kind} value is out of range in '{expression}'")]
    OutOfRange {
        /// MySQL's name of the type.
        kind: &'static str,
        /// The expression.
        expression: &'static str,
    },
    /// A function failed.
    #[error(transparent)]
    Function(#[from] FunctionError),
}

/// What evaluation knows beside the row.
pub struct Context<'c> {
    /// The session.
    environment: &'c dyn Environment,
    /// The values of [`Node::Parameter`]s: those of the row around a subquery.
    parameters: &'c [Value<'c>],
    /// The value of the [`Node::Let`] that is evaluated.
    local: Option<&'c Local<'c>>,
}

/// The value of a [`Node::Let`] while its expression is evaluated.
struct Local<'c> {
    number: usize,
    value: Value<'c>,
    /// That of the next one around it.
    outer: Option<&'c Self>,
}

impl<'c> Context<'c> {
    /// A session, and no parameters.
    #[must_use]
    pub fn new(environment: &'c dyn Environment) -> Self {
        Self::with_parameters(environment, &[])
    }

    /// A session, and the values of [`Node::Parameter`]s.
    #[must_use]
    pub fn with_parameters(environment: &'c dyn Environment, parameters: &'c [Value<'c>]) -> Self {
        Self {
            environment,
            parameters,
            local: None,
        }
    }

    /// The value of the innermost [`Node::Let`] with a number.
    fn local(&self, number: usize) -> Value<'static> {
        let mut local = self.local;
        while let Some(one) = local {
            if one.number == number {
                return one.value.clone().into_owned();
            }
            local = one.outer;
        }
        panic!("Q1: local {number} stands in no expression that has it");
    }

    /// An error if the statement is to stop.
    fn check(&self) -> Result<(), Failure> {
        match self.environment.is_stopped() {
            true => Err(FunctionError::Interrupted.into()),
            false => Ok(()),
        }
    }
}

/// An environment for constants: there is no session.
#[derive(Clone, Copy, Debug)]
pub struct Nowhere;

impl Environment for Nowhere {
    fn now(&self) -> i64 {
        0
    }

    fn random(&self) -> u64 {
        0
    }

    fn is_stopped(&self) -> bool {
        false
    }

    fn wait(&self, _: Duration) {}
}

/// Stack that is left when it grows.
const RED_ZONE: usize = 128 << 10;

/// Bytes by which it grows.
const STACK: usize = 1 << 20;

impl Scalar {
    /// The value for a row.
    ///
    /// # Errors
    /// [`Failure`].
    ///
    /// # Panics
    /// If the row or the parameters are not those that the expression was bound to.
    pub fn evaluate<'v>(&'v self, row: &'v [Value<'v>], context: &Context<'_>) -> Outcome<'v> {
        match &self.node {
            Node::Constant(value) => Ok(borrowed(value)),
            Node::Column(place) => Ok(borrowed(&row[*place])),
            _ => stacker::maybe_grow(RED_ZONE, STACK, || self.computed(row, context)),
        }
    }

    /// A conversion of a constant as the constant that it gives; `None` for anything else.
    #[must_use]
    pub fn converted_constant(&self) -> Option<Self> {
        let value = match &self.node {
            Node::Comparable(one, domain) => comparable(one.constant()?.clone(), &one.ty, *domain),
            Node::Cast(one, target) => cast(one.constant()?.clone(), &one.ty, *target),
            Node::Latin(one) => latin(one.constant()?.clone(), &one.ty),
            _ => return None,
        };
        Some(Self::new(Node::Constant(value), self.ty.clone()))
    }

    /// The truth of a condition for a row; `None` is unknown.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn is_true(
        &self,
        row: &[Value<'_>],
        context: &Context<'_>,
    ) -> Result<Option<bool>, Failure> {
        Ok(truth_of(&self.evaluate(row, context)?))
    }

    fn computed<'v>(&'v self, row: &'v [Value<'v>], context: &Context<'_>) -> Outcome<'v> {
        let value = |scalar: &'v Self| scalar.evaluate(row, context);
        let truth = |scalar: &'v Self| Ok::<_, Failure>(truth_of(&value(scalar)?));
        Ok(match &self.node {
            Node::Constant(value) => borrowed(value),
            Node::Column(place) => borrowed(&row[*place]),
            Node::Parameter(number) => context.parameters[*number].clone().into_owned(),
            Node::Cast(one, target) => cast(value(one)?, &one.ty, *target),
            Node::Comparable(one, domain) => comparable(value(one)?, &one.ty, *domain),
            Node::Latin(one) => latin(value(one)?, &one.ty),
            Node::Stored(one) => stored(value(one)?, &one.ty, &self.ty),
            Node::MemberNumber(one, members) => match value(one)? {
                Value::Text(text) => {
                    let number = members.shown(&text).unwrap_or(0);
                    match members.number_type().is_unsigned() {
                        true => Value::UInt(number),
                        false => Value::Int(number as i64), // it has its type's
                    }
                }
                _ => Value::Null,
            },
            Node::Arithmetic(first, steps) => {
                let (mut left, mut ty) = (value(first)?, first.ty.clone());
                for step in steps {
                    context.check()?;
                    let right = value(&step.operand)?;
                    let result =
                        compute(step.op, (&left, &ty), (&right, &step.operand.ty), step.to)?;
                    if result.is_null() && !left.is_null() && !right.is_null() {
                        context.environment.divided_by_zero()?;
                    }
                    left = result;
                    ty = SqlType::int();
                }
                left
            }
            Node::Negate(one) => negated(&value(one)?, &one.ty)?,
            Node::Round(kind, one, places) => {
                rounded(*kind, &value(one)?, &one.ty, *places, Number::of(&self.ty))?
            }
            Node::Compare(op, domain, two) => {
                let left = value(&two[0])?;
                let is_null_safe = *op == Comparison::NullSafeEqual;
                if left.is_null() && !is_null_safe {
                    // As in MySQL, whatever the right operand would be.
                    return Ok(Value::Null);
                }
                let right = value(&two[1])?;
                match order(*domain, &left, &right) {
                    Some(order) => Value::truth(holds(*op, order)),
                    None if is_null_safe => Value::truth(left.is_null() && right.is_null()),
                    None => Value::Null,
                }
            }
            Node::In(domain, one, list) => {
                let wanted = value(one)?;
                Value::or_null(is_one_of(*domain, &wanted, list, row, context)?.map(Value::truth))
            }
            Node::Listed(domain, one, listed) => {
                Value::or_null(listed.contains(*domain, &value(one)?).map(Value::truth))
            }
            Node::Like(two, kind) => like(kind, value(&two[0])?, || value(&two[1]), context)?,
            Node::And(all) => all_of(all, false, truth)?,
            Node::Or(all) => all_of(all, true, truth)?,
            Node::Xor(two) => match (truth(&two[0])?, truth(&two[1])?) {
                (Some(a), Some(b)) => Value::truth(a != b),
                _ => Value::Null,
            },
            Node::Not(one) => Value::or_null(truth(one)?.map(|v| Value::truth(!v))),
            Node::IsNull(one) => Value::truth(value(one)?.is_null()),
            Node::Is(one, wanted) => Value::truth(truth(one)? == Some(*wanted)),
            Node::Case(branches, otherwise) => {
                for (when, then) in branches {
                    if truth(when)? == Some(true) {
                        return value(then);
                    }
                }
                match otherwise {
                    Some(otherwise) => value(otherwise)?,
                    None => Value::Null,
                }
            }
            Node::Coalesce(all) => {
                for one in all {
                    let found = value(one)?;
                    if !found.is_null() {
                        return Ok(found);
                    }
                }
                Value::Null
            }
            Node::Extract(field, one) => {
                Value::or_null(extract(*field, &value(one)?).map(Value::Int))
            }
            Node::DateAdd(two, unit) => date_add(value(&two[0])?, &value(&two[1])?, *unit),
            Node::Call(call) => call.evaluate(row, context, &self.ty)?,
            Node::Let(number, two) => {
                let local = Local {
                    number: *number,
                    value: value(&two[0])?,
                    outer: context.local,
                };
                let inner = Context {
                    local: Some(&local),
                    ..*context
                };
                two[1].evaluate(row, &inner)?
            }
            Node::Local(number) => context.local(*number),
            Node::Variable(variable, target) => variable.read(*target),
            Node::Assign(variable, one) => {
                let assigned = value(one)?.into_owned();
                variable.assign(assigned.clone(), &one.ty);
                assigned
            }
        })
    }
}

/// The same value, without a copy.
fn borrowed<'v>(value: &'v Value<'_>) -> Value<'v> {
    match value {
        Value::Null => Value::Null,
        Value::Bool(v) => Value::Bool(*v),
        Value::Int(v) => Value::Int(*v),
        Value::UInt(v) => Value::UInt(*v),
        Value::Double(v) => Value::Double(*v),
        Value::Decimal(units, scale) => Value::Decimal(*units, *scale),
        Value::Text(text) => Value::text(&**text),
        Value::Bytes(bytes) => Value::bytes(&**bytes),
        Value::Date(v) => Value::Date(*v),
        Value::DateTime(v) => Value::DateTime(*v),
        Value::Time(v) => Value::Time(*v),
    }
}

/// Whether a value is equal to one of a list's; `None` is unknown.
fn is_one_of(
    domain: Domain,
    wanted: &Value<'_>,
    list: &[Scalar],
    row: &[Value<'_>],
    context: &Context<'_>,
) -> Result<Option<bool>, Failure> {
    if wanted.is_null() {
        return Ok(None);
    }
    let mut unknown = false;
    for item in list {
        context.check()?;
        match order(domain, wanted, &item.evaluate(row, context)?) {
            Some(std::cmp::Ordering::Equal) => return Ok(Some(true)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok((!unknown).then_some(false))
}

/// What a condition says; conditions are integers.
fn truth_of(value: &Value<'_>) -> Option<bool> {
    match value {
        Value::Int(v) => Some(*v != 0),
        _ => None,
    }
}

fn holds(op: Comparison, order: std::cmp::Ordering) -> bool {
    match op {
        Comparison::Equal | Comparison::NullSafeEqual => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    }
}

/// AND and OR, which end at the first operand that is `last`.
fn all_of<'v, 's>(
    all: &'s [Scalar],
    last: bool,
    truth: impl Fn(&'s Scalar) -> Result<Option<bool>, Failure>,
) -> Outcome<'v> {
    let mut unknown = false;
    for one in all {
        match truth(one)? {
            Some(v) if v == last => return Ok(Value::truth(last)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown {
        Value::Null
    } else {
        Value::truth(!last)
    })
}

fn like<'v>(
    kind: &LikeKind,
    text: Value<'_>,
    pattern: impl FnOnce() -> Outcome<'v>,
    context: &Context<'_>,
) -> Outcome<'v> {
    let Value::Text(text) = text else {
        return Ok(Value::Null);
    };
    let compiled;
    let pattern = match &kind.pattern {
        Some(pattern) => pattern,
        None => match pattern()? {
            Value::Text(pattern) => {
                compiled = LikePattern::collated(&pattern, kind.escape, kind.collation);
                &compiled
            }
            _ => return Ok(Value::Null),
        },
    };
    let go_on = &mut || context.check().is_ok();
    let found = pattern.matches_while(text.as_bytes(), go_on);
    found
        .map(Value::truth)
        .ok_or_else(|| FunctionError::Interrupted.into())
}

/// A field of a date, a point in time or a time; a TIME has no date.
fn extract(field: DateField, value: &Value<'_>) -> Option<i64> {
    let (days, micros) = match value {
        Value::Date(days) => (Some(*days), 0),
        Value::DateTime(v) => {
            let micros = v.rem_euclid(date::DAY_MICROS);
            (Some(date::split_micros(*v).0), micros)
        }
        Value::Time(v) => (None, *v),
        _ => return None,
    };
    let time = || split_time(micros);
    let civil = || days.map(date::Civil::from_days);
    Some(match field {
        DateField::Year => civil()?.year.into(),
        DateField::Quarter => civil()?.month.div_ceil(3).into(),
        DateField::Month => civil()?.month.into(),
        DateField::Day => civil()?.day.into(),
        DateField::Hour => time().hours.into(),
        DateField::Minute => time().minute.into(),
        DateField::Second => time().second.into(),
    })
}

/// A date and so many units; NULL outside of the years 1 to 9999.
fn date_add<'v>(value: Value<'_>, count: &Value<'_>, unit: Interval) -> Value<'v> {
    let Value::Int(count) = *count else {
        return Value::Null;
    };
    Value::or_null(match value {
        Value::Date(days) => add_to_day(days, count, unit).map(Value::Date),
        Value::DateTime(micros) => add_to_micros(micros, count, unit).map(Value::DateTime),
        _ => None,
    })
}

fn add_to_day(days: i32, count: i64, unit: Interval) -> Option<i32> {
    match unit {
        Interval::Days(n) => date::add_days(days, count.checked_mul(n)?),
        Interval::Months(n) => date::add_months(days, count.checked_mul(n)?),
        Interval::Micros(_) => None,
    }
}

fn add_to_micros(micros: i64, count: i64, unit: Interval) -> Option<i64> {
    let sum = match unit {
        Interval::Micros(_) if micros == date::ZERO_MICROS => return None,
        Interval::Micros(n) => micros.checked_add(count.checked_mul(n)?)?,
        _ => {
            let (days, _) = date::split_micros(micros);
            let time = micros - date::day_to_micros(days);
            date::day_to_micros(add_to_day(days, count, unit)?) + time
        }
    };
    date::is_valid_micros(sum).then_some(sum)
}

impl Call {
    fn evaluate<'v>(&self, row: &[Value<'_>], context: &Context<'_>, ty: &SqlType) -> Outcome<'v> {
        context.check()?;
        let mut values = Vec::with_capacity(self.arguments.len());
        for (number, argument) in self.arguments.iter().enumerate() {
            let value = argument.evaluate(row, context)?;
            values.push(self.argument(value, &argument.ty, self.kind(number))?);
        }
        let types: Vec<_> = self.arguments.iter().map(|a| value_type(&a.ty)).collect();
        let constant: Vec<_> = self
            .arguments
            .iter()
            .map(|a| a.constant().is_some())
            .collect();
        let call = functions::Call {
            name: self.function.name(),
            arguments: &values,
            types: &types,
            constant: &constant,
            collation: self.collation,
            over_bytes: self.over_bytes,
            environment: context.environment,
            memo: &self.memo,
        };
        Ok(finished(
            self.function.evaluate(&call)?.into_owned(),
            ty,
            self.over_bytes,
        ))
    }

    /// An argument, converted to the kind of its parameter.
    fn argument<'v>(&self, value: Value<'v>, ty: &SqlType, kind: Kind) -> Outcome<'v> {
        if value.is_null() {
            return Ok(value);
        }
        let target = match kind {
            Kind::Json if ty.truth => {
                return Ok(match value {
                    Value::Int(truth) => Value::Bool(truth != 0),
                    value => value,
                });
            }
            Kind::Any | Kind::Json => return Ok(value),
            Kind::Number if ty.is_number() || ty.truth => return Ok(value),
            Kind::Text if self.over_bytes => return Ok(latin(value, ty)),
            Kind::Text => Target::Char(None),
            Kind::Bytes => Target::Binary(None),
            Kind::Int => Target::Signed,
            Kind::Bits => Target::Unsigned,
            Kind::Double | Kind::Number => Target::Double,
            Kind::Seconds => Target::Micros,
            Kind::Date => Target::Date,
            Kind::DateTime => Target::DateTime(6),
            Kind::Time => Target::Time(6),
        };
        Ok(cast(value, ty, target))
    }
}

/// A result as a value of its type.
fn finished<'v>(value: Value<'v>, ty: &SqlType, over_bytes: bool) -> Value<'v> {
    match (value, Number::of(ty)) {
        (Value::Text(text), _) if over_bytes && ty.is_bytes() => {
            Value::bytes(text.chars().map(|c| c as u8).collect::<Vec<_>>())
        }
        (Value::Decimal(units, from), Number::Decimal(_, to)) => Value::or_null(
            units
                .rescale(from, to)
                .map(|units| Value::Decimal(units, to)),
        ),
        (Value::Int(v), Number::Decimal(_, to)) => {
            let units = perigee_value::Units::from(i128::from(v)).rescale(0, to);
            Value::or_null(units.map(|units| Value::Decimal(units, to)))
        }
        (value, _) => value,
    }
}

/// The type that a function sees.
#[must_use]
pub fn value_type(ty: &SqlType) -> functions::ValueType {
    use functions::ValueType;
    use perigee_value::ColumnType;
    match ty.column {
        None => ValueType::Null,
        Some(column) => match column {
            ColumnType::Int { unsigned: true, .. } | ColumnType::Year | ColumnType::Bit { .. } => {
                ValueType::UInt
            }
            ColumnType::Int { .. } => ValueType::Int,
            ColumnType::Decimal { precision, scale } => ValueType::Decimal { precision, scale },
            ColumnType::Float | ColumnType::Double => ValueType::Double,
            ColumnType::Date => ValueType::Date,
            ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => {
                ValueType::DateTime { fsp }
            }
            ColumnType::Time { fsp } => ValueType::Time { fsp },
            ColumnType::Json => ValueType::Json,
            _ if ty.is_bytes() => ValueType::Bytes,
            _ => ValueType::Text,
        },
    }
}
