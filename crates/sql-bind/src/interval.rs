//! `date + INTERVAL count unit`, and the fields of dates.

use perigee_expr::DateField;
use perigee_expr::functions::Value;
use perigee_expr::scalar::{Interval as Unit, Node, Scalar, Target};
use perigee_sql_type::{Number, SqlType};
use perigee_value::ColumnType;
use sqlparser::ast::{BinaryOperator, Expr, Interval, Value as Literal};

use crate::cast::cast_to;
use crate::error::unsupported;
use crate::{Binder, Result};

/// Microseconds of a second.
const SECOND: i64 = 1_000_000;

/// The unit of a name.
pub(crate) fn unit_named(name: &str) -> Option<Unit> {
    Some(match name {
        "day" => Unit::Days(1),
        "week" => Unit::Days(7),
        "month" => Unit::Months(1),
        "quarter" => Unit::Months(3),
        "year" => Unit::Months(12),
        "hour" => Unit::Micros(3600 * SECOND),
        "minute" => Unit::Micros(60 * SECOND),
        "second" => Unit::Micros(SECOND),
        "microsecond" => Unit::Micros(1),
        _ => return None,
    })
}

/// The field of a name.
pub(crate) fn field_named(name: &str) -> Option<DateField> {
    Some(match name {
        "year" => DateField::Year,
        "quarter" => DateField::Quarter,
        "month" => DateField::Month,
        "day" | "dayofmonth" => DateField::Day,
        "hour" => DateField::Hour,
        "minute" => DateField::Minute,
        "second" => DateField::Second,
        _ => return None,
    })
}

impl Binder<'_> {
    /// `INTERVAL 1 DAY + date`, and what follows it.
    pub(crate) fn interval_first(
        &self,
        interval: &Interval,
        mut pending: Vec<(&BinaryOperator, &Expr)>,
    ) -> Result<Scalar> {
        match (pending.pop(), pending.is_empty()) {
            (Some((BinaryOperator::Plus, date)), true) => {
                self.date_add(self.expression(date)?, interval, false)
            }
            _ => unsupported("arithmetic with an INTERVAL"),
        }
    }

    /// `date ± INTERVAL count unit`.
    pub(crate) fn date_add(
        &self,
        date: Scalar,
        interval: &Interval,
        minus: bool,
    ) -> Result<Scalar> {
        let unit = interval.leading_field.as_ref();
        let unit = unit.map(|unit| unit.to_string().to_lowercase());
        let unit = unit.unwrap_or_default();
        if interval.last_field.is_some() {
            return unsupported(format_args!("INTERVAL … {}", unit.to_uppercase()));
        }
        let count = match &*interval.value {
            Expr::Value(literal) => match &literal.value {
                Literal::SingleQuotedString(text) => match text.trim().parse::<i64>() {
                    Ok(count) => crate::literal::int(count),
                    Err(_) if unit == "second" && text.trim().parse::<f64>().is_ok() => {
                        crate::literal::text(text)
                    }
                    Err(_) => return unsupported(format_args!("INTERVAL '{text}'")),
                },
                literal => crate::literal::bound(literal)?,
            },
            count => self.expression(count)?,
        };
        let count = if minus { self.negative(count)? } else { count };
        self.added(date, count, &unit)
    }

    /// A date and so many units: a DATE if it is one and the unit is a day or longer, else a DATETIME.
    pub(crate) fn added(&self, date: Scalar, count: Scalar, unit: &str) -> Result<Scalar> {
        let Some(unit) = unit_named(unit) else {
            return unsupported(format_args!("INTERVAL … {}", unit.to_uppercase()));
        };
        if !date.ty.is_moment() && !date.ty.is_text() && !date.ty.is_null() {
            return unsupported("INTERVAL arithmetic with this type");
        }
        let is_long = !matches!(unit, Unit::Micros(_));
        let by_day = is_long
            && match date.constant() {
                _ if date.ty.is_moment() => date.ty.column == Some(ColumnType::Date),
                // The result of a text has the form of the text.
                Some(Value::Text(text)) => !text.trim().contains([' ', 'T', ':']),
                _ if date.ty.is_text() => {
                    return unsupported("INTERVAL arithmetic with a string expression");
                }
                _ => false,
            };
        let fraction = match unit {
            Unit::Micros(SECOND) => fraction(&count.ty),
            _ => 0,
        };
        let fsp = match unit {
            Unit::Micros(1) => 6,
            _ => date
                .ty
                .column
                .and_then(ColumnType::fsp)
                .unwrap_or(0)
                .max(fraction),
        };
        let (count, unit) = match fraction {
            0 => (cast_to(count, Target::Signed)?, unit),
            _ => (cast_to(count, Target::Micros)?, Unit::Micros(1)),
        };
        let (column, target) = match by_day {
            true => (ColumnType::Date, Target::Date),
            false => (ColumnType::DateTime { fsp }, Target::DateTime(6)),
        };
        let date = cast_to(date, target)?;
        let sum = Node::DateAdd(Box::new([date, count]), unit);
        Ok(Scalar::new(sum, SqlType::of(column)))
    }

    /// A field of a date or a time.
    pub(crate) fn extract(&self, field: DateField, value: Scalar) -> Result<Scalar> {
        let of_time = matches!(
            field,
            DateField::Hour | DateField::Minute | DateField::Second
        );
        let value = match () {
            () if value.ty.is_time() && !of_time => return unsupported("the date of a TIME"),
            () if value.ty.is_time() || value.ty.is_moment() => value,
            // The time of day of a text is that of a time, perhaps behind a date.
            () if of_time => cast_to(value, Target::Time(6))?,
            () => cast_to(value, Target::DateTime(6))?,
        };
        let node = Node::Extract(field, Box::new(value));
        Ok(Scalar::new(node, SqlType::int()))
    }
}

/// Digits of fractional seconds that so many seconds have.
fn fraction(count: &SqlType) -> u8 {
    match Number::of(count) {
        Number::Decimal(_, scale) => scale.min(6),
        Number::Double => 6,
        _ => 0,
    }
}
