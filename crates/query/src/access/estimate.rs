//! How many rows a predicate lets through, from statistics: the filter factor (taurus-ndp section
//! V.B.1). Estimates only steer choices; no answer depends on them.

use std::sync::Arc;

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use perigee_engine::catalog::{ColumnStats, TableStats};
use perigee_value::Datum;

use super::convert::constant;
use crate::functions::collation;

/// Share of rows for conditions nothing is known about.
const UNKNOWN: f64 = 0.33;

/// Share of rows that match a LIKE pattern.
const LIKE: f64 = 0.1;

/// Share of the rows of a table for which `expr`, over the table's columns, is expected to be true.
#[must_use]
pub fn filter_factor(expr: &Arc<dyn PhysicalExpr>, stats: &TableStats) -> f64 {
    let node: &dyn PhysicalExpr = &**expr;
    if let Some(binary) = node.downcast_ref::<BinaryExpr>() {
        let both = || {
            (
                filter_factor(binary.left(), stats),
                filter_factor(binary.right(), stats),
            )
        };
        return match binary.op() {
            Operator::And => {
                let (a, b) = both();
                a * b
            }
            Operator::Or => {
                let (a, b) = both();
                a + b - a * b
            }
            _ => comparison(binary, stats),
        };
    }
    if let Some(not) = node.downcast_ref::<NotExpr>() {
        return 1.0 - filter_factor(not.arg(), stats);
    }
    if let Some(in_list) = node.downcast_ref::<InListExpr>() {
        let one = column(in_list.expr())
            .and_then(|c| stats.columns.get(c))
            .map_or(UNKNOWN / 10.0, |c| 1.0 / c.distinct.max(1) as f64);
        let share = (one * in_list.list().len() as f64).min(1.0);
        return if in_list.negated() {
            1.0 - share
        } else {
            share
        };
    }
    if let Some(like) = node.downcast_ref::<LikeExpr>() {
        return if like.negated() { 1.0 - LIKE } else { LIKE };
    }
    if let Some(is_null) = node.downcast_ref::<IsNullExpr>() {
        return null_share(is_null.arg(), stats);
    }
    if let Some(is_not_null) = node.downcast_ref::<IsNotNullExpr>() {
        return 1.0 - null_share(is_not_null.arg(), stats);
    }
    UNKNOWN
}

/// Product over a conjunction. A range given by two comparisons of one column counts as a range.
#[must_use]
pub fn conjunction_factor(exprs: &[Arc<dyn PhysicalExpr>], stats: &TableStats) -> f64 {
    let mut factor = 1.0;
    let mut ranges: Vec<(usize, f64, f64)> = Vec::new(); // column, share below, share above
    for expr in exprs {
        match one_sided(expr, stats) {
            Some((column, below, above)) => match ranges.iter_mut().find(|(c, ..)| *c == column) {
                Some((_, b, a)) => (*b, *a) = (b.max(below), a.max(above)),
                None => ranges.push((column, below, above)),
            },
            None => factor *= filter_factor(expr, stats),
        }
    }
    ranges.iter().fold(factor, |f, (_, below, above)| {
        f * (1.0 - below - above).clamp(1e-6, 1.0)
    })
}

/// For `column < constant` and its like: the column, and the shares of rows cut off at either end.
fn one_sided(expr: &Arc<dyn PhysicalExpr>, stats: &TableStats) -> Option<(usize, f64, f64)> {
    let binary = expr.downcast_ref::<BinaryExpr>()?;
    let (column, op, value) = column_against_constant(binary)?;
    let below = position(stats.columns.get(column)?, &value)?;
    match op {
        Operator::Lt | Operator::LtEq => Some((column, 0.0, 1.0 - below)),
        Operator::Gt | Operator::GtEq => Some((column, below, 0.0)),
        _ => None,
    }
}

fn comparison(binary: &BinaryExpr, stats: &TableStats) -> f64 {
    let Some((column, op, value)) = column_against_constant(binary) else {
        return match binary.op() {
            Operator::Eq => 0.1,
            Operator::NotEq => 0.9,
            _ => UNKNOWN,
        };
    };
    let Some(stats) = stats.columns.get(column) else {
        return UNKNOWN;
    };
    let equal = 1.0 / stats.distinct.max(1) as f64;
    let below = position(stats, &value).unwrap_or(UNKNOWN);
    match op {
        Operator::Eq => equal,
        Operator::NotEq => 1.0 - equal,
        Operator::Lt | Operator::LtEq => below,
        Operator::Gt | Operator::GtEq => 1.0 - below,
        _ => UNKNOWN,
    }
}

/// `column op constant`, turned round if it is written the other way.
#[must_use]
pub fn column_against_constant(binary: &BinaryExpr) -> Option<(usize, Operator, Datum)> {
    let literal = |expr: &Arc<dyn PhysicalExpr>| {
        expr.downcast_ref::<Literal>()
            .and_then(|literal| constant(literal.value()))
    };
    if let (Some(column), Some((value, _))) = (column(binary.left()), literal(binary.right())) {
        return Some((column, *binary.op(), value));
    }
    let (Some(column), Some((value, _))) = (column(binary.right()), literal(binary.left())) else {
        return None;
    };
    Some((column, binary.op().swap()?, value))
}

/// The column that an expression is, trailing spaces or not.
#[must_use]
pub fn column(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    if let Some(pad) = expr.downcast_ref::<ScalarFunctionExpr>()
        && pad.name() == collation::PAD
    {
        return column(&pad.args()[0]);
    }
    expr.downcast_ref::<Column>().map(Column::index)
}

fn null_share(expr: &Arc<dyn PhysicalExpr>, stats: &TableStats) -> f64 {
    match column(expr).and_then(|c| stats.columns.get(c)) {
        Some(column) if stats.rows > 0 => column.nulls as f64 / stats.rows as f64,
        _ => UNKNOWN,
    }
}

/// Share of a column's values below a value, if they are spread evenly between least and greatest.
fn position(stats: &ColumnStats, value: &Datum) -> Option<f64> {
    let (low, high) = (number(stats.min.as_ref()?)?, number(stats.max.as_ref()?)?);
    let value = number(value)?;
    if high <= low {
        return Some(if value <= low { 0.0 } else { 1.0 });
    }
    Some(((value - low) / (high - low)).clamp(0.0, 1.0))
}

fn number(value: &Datum) -> Option<f64> {
    Some(match value {
        Datum::Int(v) | Datum::DateTime(v) => *v as f64,
        Datum::UInt(v) => *v as f64,
        Datum::Decimal(v) => *v as f64,
        Datum::Double(v) => *v,
        Datum::Date(v) => f64::from(*v),
        _ => return None,
    })
}
