//! Conversions, arithmetic and functions.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{Expr, ScalarUDF, cast, lit};
use perigee_expr::scalar::{Call, Interval, Node, Rounding, Scalar, Step, Target, arithmetic_type};
use perigee_expr::{Arithmetic, DateField};
use perigee_sql_type::{Number, SqlType};
use perigee_value::ColumnType;

use super::Row;
use crate::functions::arithmetic::{ArithmeticFunction, Negate};
use crate::functions::cast as casts;
use crate::functions::chain::{CHAIN, Chain, LONG, letter};
use crate::functions::types::{decimal_type, is_json, is_string, is_temporal, is_time};
use crate::functions::{dates, exact, library};
use crate::plan::operators::{call, cast_to, type_of_operand};

/// The Arrow type of a number.
fn data_type(number: Number) -> DataType {
    match number {
        Number::Decimal(precision, scale) => decimal_type(precision, scale),
        Number::Double => DataType::Float64,
        Number::UInt(_) => DataType::UInt64,
        Number::Int(_) | Number::Null => DataType::Int64,
    }
}

/// True for dates and times, which count as numbers of their digits; no function of plans takes them so.
fn is_moment(ty: &SqlType) -> bool {
    ty.is_moment() || ty.is_time()
}

impl Row<'_> {
    /// CAST; `None` for conversions that no function of plans does, or not as the evaluator does.
    pub(super) fn cast(&self, one: &Scalar, target: Target) -> DfResult<Option<Expr>> {
        let from = &one.ty;
        let to_number = matches!(
            target,
            Target::Signed | Target::Unsigned | Target::Decimal(..) | Target::Double
        );
        let is_text = from.is_text() || from.is_bytes();
        let has_no_form = match target {
            _ if from.is_null() => false,
            _ if to_number && is_moment(from) => true,
            // A text that is no number is an error there.
            Target::Decimal(..) => is_text,
            Target::Date | Target::DateTime(_) => !from.is_moment() && !is_text,
            _ => false,
        };
        if has_no_form {
            return Ok(None);
        }
        let target = match target {
            Target::Signed => casts::Target::Signed,
            Target::Unsigned => casts::Target::Unsigned,
            Target::Decimal(precision, scale) => {
                let expr = self.expr(one)?;
                return Ok(Some(match has_all_digits(from, precision, scale) {
                    // Storage knows DataFusion's.
                    true => cast(expr, decimal_type(precision, scale)),
                    false => cast_to(expr, casts::Target::Decimal(precision, scale)),
                }));
            }
            Target::Double => casts::Target::Double,
            Target::Char(None) => casts::Target::Char(None),
            Target::Char(Some(chars)) => match u16::try_from(chars) {
                Ok(chars) => casts::Target::Char(Some(chars)),
                Err(_) => return Ok(None),
            },
            Target::Date => casts::Target::Date,
            Target::DateTime(fsp) => casts::Target::DateTime(fsp),
            Target::Time(fsp) => casts::Target::Time(fsp),
            Target::Float | Target::Binary(_) | Target::Year | Target::Micros => return Ok(None),
        };
        Ok(Some(cast_to(self.expr(one)?, target)))
    }

    /// Operators one after the other.
    pub(super) fn arithmetic(&self, first: &Scalar, steps: &[Step]) -> DfResult<Option<Expr>> {
        let operands = || std::iter::once(first).chain(steps.iter().map(|step| &step.operand));
        if operands().any(|operand| is_moment(&operand.ty)) {
            return Ok(None);
        }
        if steps.len() >= LONG && is_plain(first, steps) {
            let letters: String = steps.iter().map(|step| letter(step.op)).collect();
            let operands = operands().map(|operand| self.number(operand));
            let args = std::iter::once(Ok(lit(letters))).chain(operands);
            let chain = ScalarUDF::from(Chain::default());
            debug_assert_eq!(chain.name(), CHAIN);
            return Ok(Some(call(chain, args.collect::<DfResult<_>>()?)));
        }
        let mut left = self.number(first)?;
        for step in steps {
            let function = ArithmeticFunction::typed(step.op, data_type(step.to));
            left = call(function.into(), vec![left, self.number(&step.operand)?]);
        }
        Ok(Some(left))
    }

    /// An operand of arithmetic.
    fn number(&self, scalar: &Scalar) -> DfResult<Expr> {
        let expr = self.expr(scalar)?;
        Ok(match is_json(&type_of_operand(&expr, self.schema)?) {
            true => cast_to(expr, casts::Target::Double),
            false => expr,
        })
    }

    /// `-x` of a number without a sign.
    pub(super) fn negated(&self, one: &Scalar) -> DfResult<Expr> {
        let expr = self.expr(one)?;
        if type_of_operand(&expr, self.schema)? == DataType::UInt64 {
            return Ok(call(Negate::default().into(), vec![expr]));
        }
        let subtract = ArithmeticFunction::typed(Arithmetic::Subtract, DataType::Int64);
        let signed = cast(expr, DataType::Int64);
        Ok(call(subtract.into(), vec![lit(0_i64), signed]))
    }

    /// ABS, ROUND and their like.
    pub(super) fn rounded(
        &self,
        kind: Rounding,
        one: &Scalar,
        places: i64,
    ) -> DfResult<Option<Expr>> {
        if is_moment(&one.ty) {
            return Ok(None);
        }
        let name = match kind {
            Rounding::Abs => "mysql_abs",
            Rounding::Sign => "mysql_sign",
            Rounding::Floor => "mysql_floor",
            Rounding::Ceil => "mysql_ceil",
            Rounding::Round => "mysql_round",
            Rounding::Truncate => "mysql_truncate",
        };
        let mut args = vec![self.expr(one)?];
        let has_places = match kind {
            Rounding::Round => places != 0,
            Rounding::Truncate => true,
            _ => false,
        };
        args.extend(has_places.then(|| lit(places)));
        let function = exact::all().map(ScalarUDF::from);
        let function = function
            .into_iter()
            .find(|function| function.name() == name);
        Ok(function.map(|function| call(function, args)))
    }

    /// A field of a date or a time.
    pub(super) fn extract(&self, field: DateField, one: &Scalar) -> DfResult<Expr> {
        let name = match field {
            DateField::Year => "year",
            DateField::Quarter => "quarter",
            DateField::Month => "month",
            DateField::Day => "day",
            DateField::Hour => "hour",
            DateField::Minute => "minute",
            DateField::Second => "second",
        };
        let args = vec![lit(name), self.expr(one)?];
        Ok(call(dates::Extract::default().into(), args))
    }

    /// `date + INTERVAL count unit`; `None` if the date is not one that is added to as it is.
    pub(super) fn date_add(
        &self,
        date: &Scalar,
        count: &Scalar,
        unit: Interval,
    ) -> DfResult<Option<Expr>> {
        let (count, unit) = match (&count.node, unit) {
            (Node::Cast(seconds, Target::Micros), Interval::Micros(1)) => (&**seconds, "second"),
            (Node::Cast(count, Target::Signed), unit) => match unit_name(unit) {
                Some(name) => (&**count, name),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        let date = match &date.node {
            Node::Cast(date, Target::Date | Target::DateTime(_)) => date,
            _ => return Ok(None),
        };
        let is_known = date.ty.is_moment() || date.constant().is_some();
        let has_form = is_known && !is_moment(&count.ty) && !date.ty.is_null();
        if !has_form {
            return Ok(None);
        }
        let args = vec![self.expr(date)?, self.expr(count)?, lit(unit)];
        let ty = type_of_operand(&args[0], self.schema)?;
        if !is_temporal(&ty) && !is_string(&ty) || is_time(&ty) {
            return Ok(None);
        }
        Ok(Some(call(dates::DateAdd::default().into(), args)))
    }

    /// A function of the library, in its collation and with a memory of its own.
    pub(super) fn library(&self, function: &Call) -> DfResult<Expr> {
        let arguments = function.arguments.iter().map(|one| self.expr(one));
        let arguments = arguments.collect::<DfResult<Vec<_>>>()?;
        let instance: Arc<ScalarUDF> = library::instance(function.function, function.collation);
        Ok(instance.call(arguments))
    }
}

/// The name of a unit.
fn unit_name(unit: Interval) -> Option<&'static str> {
    const SECOND: i64 = 1_000_000;
    Some(match unit {
        Interval::Days(1) => "day",
        Interval::Days(7) => "week",
        Interval::Months(1) => "month",
        Interval::Months(3) => "quarter",
        Interval::Months(12) => "year",
        Interval::Micros(1) => "microsecond",
        Interval::Micros(SECOND) => "second",
        Interval::Micros(micros) if micros == 60 * SECOND => "minute",
        Interval::Micros(micros) if micros == 3600 * SECOND => "hour",
        _ => return None,
    })
}

/// True if a decimal of so many digits has all values of a type.
fn has_all_digits(from: &SqlType, precision: u8, scale: u8) -> bool {
    let exact = Number::of(from).exact().filter(|_| {
        let column = from.column;
        matches!(
            column,
            Some(ColumnType::Int { .. } | ColumnType::Decimal { .. })
        ) && !from.truth
    });
    exact.is_some_and(|(own, own_scale)| {
        own_scale <= scale && own - own_scale <= precision.saturating_sub(scale)
    })
}

/// True if each result has the type that its operator gives it by itself.
fn is_plain(first: &Scalar, steps: &[Step]) -> bool {
    let mut left = Number::of(&first.ty);
    steps.iter().all(|step| {
        let plain = arithmetic_type(step.op, left, Number::of(&step.operand.ty));
        left = step.to;
        step.to == step.shown && step.to == plain
    })
}
