//! RANGE frames of windows with a distance from the current row (`RANGE 3 PRECEDING`, `RANGE INTERVAL 3 DAY PRECEDING`):
//! checked against the ORDER BY, and computed in a type in which no value plus or minus the distance overflows.

use datafusion::arrow::datatypes::{DataType, i256};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result as DfResult, ScalarValue};
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, WindowFrameBound, WindowFrameUnits, cast,
};

use super::grouping::UnaliasRef;
use super::metadata;
use super::operators::is_number;
use crate::error::SqlError;
use crate::functions::types::{datetime, is_temporal, is_time, number_of};

/// Greatest precision of a `Decimal128`, less a digit for the distance and one for the sum.
const NARROW_PRECISION: u8 = 36;

/// True for a node of windows of which one has a RANGE frame with a distance. All windows of a node have one ORDER BY.
pub(super) fn have_distances(node: &LogicalPlan) -> bool {
    let LogicalPlan::Window(window) = node else {
        return false;
    };
    window.window_expr.iter().any(|expr| {
        matches!(expr.unalias_ref(), Expr::WindowFunction(function) if distances(&function.params).next().is_some())
    })
}

/// A window with a wider ORDER BY and distances, for a node that [has distances](have_distances).
///
/// # Errors
/// If the ORDER BY has no type.
pub(super) fn widened(expr: Expr, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::WindowFunction(mut function) => {
            widen(&mut function, schema)?;
            Ok(Transformed::yes(Expr::WindowFunction(function)))
        }
        other => Ok(Transformed::no(other)),
    })
}

fn widen(function: &mut WindowFunction, schema: &DFSchema) -> DfResult<()> {
    let params = &mut function.params;
    let [sort] = &mut params.order_by[..] else {
        return Ok(());
    };
    let ty = sort.expr.get_type(schema)?;
    let Some(wide) = wide_type(&ty) else {
        return Ok(());
    };
    if wide != ty {
        sort.expr = cast(sort.expr.clone(), wide.clone());
    }
    if params.window_frame.units == WindowFrameUnits::Range {
        to_units(&mut params.window_frame.start_bound, &wide, true);
        to_units(&mut params.window_frame.end_bound, &wide, false);
    }
    Ok(())
}

/// Checks the distances of a frame against the ORDER BY.
///
/// # Errors
/// 3587, 3588 and 3589 as in MySQL, 1235 for TIME.
pub(super) fn check(params: &WindowFunctionParams, schema: &DFSchema) -> DfResult<()> {
    // The planner writes an interval as a number and its unit.
    let are_intervals: Vec<bool> = distances(params)
        .map(|distance| distance.contains(' '))
        .collect();
    let Some(is_interval) = are_intervals.first() else {
        return Ok(());
    };
    if are_intervals.iter().any(|other| other != is_interval) {
        return Err(SqlError::not_supported("a frame of a number and an INTERVAL").into_df());
    }
    let [sort] = &params.order_by[..] else {
        return Err(SqlError::frame_order_type().into_df());
    };
    let field = sort.expr.to_field(schema)?.1;
    let ty = field.data_type();
    let error = match is_interval {
        _ if is_time(ty) => SqlError::not_supported("RANGE with a distance over TIME"),
        true if is_temporal(ty) => return Ok(()),
        false if is_temporal(ty) => SqlError::frame_of_dates(),
        _ if !is_number(ty) || metadata::is_enum(&field) => SqlError::frame_order_type(),
        true => SqlError::frame_of_numbers(),
        false => return Ok(()),
    };
    Err(error.into_df())
}

/// The distances of a RANGE frame, as they are written.
fn distances(params: &WindowFunctionParams) -> impl Iterator<Item = &str> {
    let frame = &params.window_frame;
    let is_range = frame.units == WindowFrameUnits::Range;
    let bounds = [&frame.start_bound, &frame.end_bound].into_iter();
    bounds
        .filter(move |_| is_range)
        .filter_map(|bound| match bound {
            WindowFrameBound::Preceding(ScalarValue::Utf8(distance))
            | WindowFrameBound::Following(ScalarValue::Utf8(distance)) => distance.as_deref(),
            _ => None,
        })
}

/// The type in which values of a type and distances are added.
fn wide_type(ty: &DataType) -> Option<DataType> {
    if is_temporal(ty) {
        // Hours cannot be added to a day.
        return Some(datetime());
    }
    let number = number_of(ty).filter(|_| is_number(ty))?;
    Some(match number.exact() {
        None => DataType::Float64,
        Some((precision, scale)) if precision <= NARROW_PRECISION => {
            DataType::Decimal128(38, scale as i8)
        }
        Some((_, scale)) => DataType::Decimal256(76, scale as i8),
    })
}

/// Makes a number that is a bound one of an exact type. Digits that the type does not have are cut so that the frame has
/// the same rows: with integers, rows from 1.5 before the current one on are those from 1 before it on, and rows up to
/// 1.5 before it those up to 2 before it.
fn to_units(bound: &mut WindowFrameBound, ty: &DataType, is_start: bool) {
    let (distance, rounds_up) = match bound {
        WindowFrameBound::Preceding(distance) => (distance, !is_start),
        WindowFrameBound::Following(distance) => (distance, is_start),
        WindowFrameBound::CurrentRow => return,
    };
    let ScalarValue::Utf8(Some(text)) = &*distance else {
        return;
    };
    match *ty {
        DataType::Decimal128(precision, scale) => {
            // Ten times the greatest value, which reaches every row, and still can be added to it.
            let greatest = i128::pow(10, u32::from(NARROW_PRECISION) + 1);
            let units = units(text, scale as usize, rounds_up).and_then(i256::to_i128);
            let units = units.map_or(greatest, |units| units.min(greatest));
            *distance = ScalarValue::Decimal128(Some(units), precision, scale);
        }
        DataType::Decimal256(precision, scale) => {
            let greatest = i256::from_i128(10).wrapping_pow(u32::from(precision) - 1);
            let units = units(text, scale as usize, rounds_up);
            let units = units.map_or(greatest, |units| units.min(greatest));
            *distance = ScalarValue::Decimal256(Some(units), precision, scale);
        }
        _ => {}
    }
}

/// A decimal number in units of 10^-scale; `None` if it has more digits than any value.
fn units(text: &str, scale: usize, rounds_up: bool) -> Option<i256> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let (kept, cut) = fraction.split_at(scale.min(fraction.len()));
    let digits = format!("{whole}{kept:0<scale$}");
    let units = i256::from_string(&digits)?;
    let is_more = rounds_up && cut.bytes().any(|digit| digit != b'0');
    units.checked_add(i256::from_i128(i128::from(is_more)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_is_cut_to_the_digits_of_its_type() {
        let units = |text, scale, rounds_up| units(text, scale, rounds_up)?.to_i128();
        assert_eq!(units("1.5", 0, false), Some(1));
        assert_eq!(units("1.5", 0, true), Some(2));
        assert_eq!(units("1.0", 0, true), Some(1));
        assert_eq!(units(".125", 2, true), Some(13));
        assert_eq!(units("3.", 2, true), Some(300));
        assert_eq!(units("0.125", 4, true), Some(1250));
    }

    #[test]
    fn a_distance_reaches_from_one_end_of_a_type_to_the_other() {
        let mut bound = WindowFrameBound::Preceding(ScalarValue::from("9".repeat(90)));
        to_units(&mut bound, &DataType::Decimal128(38, 2), true);
        let greatest = ScalarValue::Decimal128(Some(10_i128.pow(37)), 38, 2);
        assert_eq!(bound, WindowFrameBound::Preceding(greatest));
    }
}
