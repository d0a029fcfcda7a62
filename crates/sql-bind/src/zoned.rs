//! TIMESTAMPs where they meet anything else. A value whose type is TIMESTAMP is a point in time in UTC, as it is stored;
//! any other date is one of the session's time zone. In UTC both are the same, and nothing is inserted here.

use perigee_expr::functions::Value;
use perigee_expr::scalar::{Domain, Node, Scalar};
use perigee_sql_type::SqlType;
use perigee_value::zone::Meant;
use perigee_value::{ColumnType, Zone};

use crate::comparison::comparable;
use crate::expression::text_of_binary;
use crate::{Binder, Result};

/// The function that gives what a point in time in UTC is called in a time zone.
const IN_ZONE: &str = "timestamp in zone";

impl Binder<'_> {
    /// The time zone of the session.
    pub(crate) fn zone(&self) -> Zone {
        self.environment.now().zone
    }

    /// The meaning of an expression where a TIMESTAMP may stay one: in a row of a query, or in a column of its type.
    ///
    /// # Errors
    /// [`crate::BindError`].
    pub fn stored(&self, expr: &sqlparser::ast::Expr) -> Result<Scalar> {
        self.operand(expr).map(text_of_binary)
    }

    /// A TIMESTAMP as the DATETIME of the session's time zone; anything else as it is.
    pub(crate) fn local(&self, scalar: Scalar) -> Result<Scalar> {
        let zone = self.zone();
        match scalar.ty.column {
            Some(ColumnType::Timestamp { .. }) if !zone.is_utc() => self.in_zone(scalar, zone),
            _ => Ok(scalar),
        }
    }

    /// A point in time in UTC as the DATETIME of a zone.
    pub(crate) fn in_zone(&self, scalar: Scalar, zone: Zone) -> Result<Scalar> {
        let nullable = scalar.ty.nullable;
        let zone = crate::literal::text(&zone.to_string());
        let mut local = self.library(IN_ZONE, vec![scalar, zone])?;
        local.ty.nullable = nullable;
        Ok(local)
    }

    /// Two values that are compared, of which one may be a TIMESTAMP and the other something else: a constant is brought to
    /// UTC, so that the column stays as storage knows it. That is not possible for a constant that clocks showed twice or
    /// never: then the TIMESTAMP is compared by what it is called.
    pub(crate) fn in_one_zone(&self, left: Scalar, right: Scalar) -> Result<[Scalar; 2]> {
        let zone = self.zone();
        let is_stamp = |one: &Scalar| one.ty.column.is_some_and(ColumnType::is_timestamp);
        if zone.is_utc() || is_stamp(&left) == is_stamp(&right) {
            return Ok([left, right]);
        }
        if left.ty.is_null() || right.ty.is_null() {
            return Ok([left, right]);
        }
        Ok(match (in_utc(&left, zone), in_utc(&right, zone)) {
            (Some(constant), _) if is_stamp(&right) => [constant, right],
            (_, Some(constant)) if is_stamp(&left) => [left, constant],
            _ => [self.local(left)?, self.local(right)?],
        })
    }
}

/// A constant of a zone as a point in time in UTC, if it means one.
fn in_utc(scalar: &Scalar, zone: Zone) -> Option<Scalar> {
    scalar.constant()?;
    let moment = comparable(scalar.clone(), Domain::Moment);
    let Some(Value::DateTime(local)) = moment.constant() else {
        return None;
    };
    let Meant::One(utc) = zone.meant(*local) else {
        return None;
    };
    let ty = SqlType::of(ColumnType::DateTime { fsp: 6 }).nullable(false);
    Some(Scalar::new(Node::Constant(Value::DateTime(utc)), ty))
}
