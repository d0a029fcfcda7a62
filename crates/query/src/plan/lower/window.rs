//! Window functions.

use std::sync::Arc;

use datafusion::common::{Column as DfColumn, Result as DfResult, ScalarValue};
use datafusion::functions_window::{cume_dist, lead_lag, nth_value, ntile, rank, row_number};
use datafusion::logical_expr::expr::{WindowFunction as Function, WindowFunctionParams};
use datafusion::logical_expr::{
    Expr, Window as Windows, WindowFrame, WindowFrameBound, WindowFrameUnits,
    WindowFunctionDefinition, WindowUDF,
};
use perigee_expr::scalar::Interval;
use perigee_sql_bind::query::{
    AggregateFunction, Bound, Distance, Frame, FrameUnits, Window, WindowFunction,
};

use super::aggregate::{self, Lowering, or_else};
use super::relation::{Lowered, Planner, sort_keys, unsupported};
use crate::error::SqlError;
use crate::functions::aggregates::bits::Bits;
use crate::plan::{comparable, frames, keys};

impl Planner<'_> {
    /// The rows with a result of each function behind them.
    pub(super) fn windows(
        &self,
        input: Lowered,
        functions: &[Window],
        parameters: &[Expr],
    ) -> DfResult<Lowered> {
        let mut lowered = input;
        let mut results = Vec::with_capacity(functions.len());
        // Functions of one window are one node.
        let mut rest = functions;
        while let Some(first) = rest.first() {
            let mut exprs: Vec<Expr> = Vec::new();
            let mut shape = None;
            for window in rest {
                let (function, of_nothing) = self.function(&lowered, window, parameters)?;
                let own = (
                    function.params.partition_by.clone(),
                    function.params.order_by.clone(),
                );
                if *shape.get_or_insert_with(|| own.clone()) != own {
                    break;
                }
                let name = self.qualifier(first.function.name()).to_string();
                let result = Expr::Column(DfColumn::new_unqualified(&name));
                results.push(or_else(result, of_nothing));
                exprs.push(Expr::WindowFunction(Box::new(function)).alias(name));
            }
            rest = &rest[exprs.len()..];
            let columns = lowered.columns;
            let windows = Windows::try_new(exprs, Arc::new(lowered.plan))?;
            let plan = keys::windowed(widened(windows)?)?;
            lowered = Lowered { plan, columns };
        }
        lowered.columns.extend(results);
        Ok(lowered)
    }

    fn function(
        &self,
        input: &Lowered,
        window: &Window,
        parameters: &[Expr],
    ) -> DfResult<(Function, Option<u64>)> {
        let row = input.row(parameters);
        let (fun, args, of_nothing) = match &window.function {
            WindowFunction::Aggregate(function) => {
                let Lowering {
                    function: of_groups,
                    arguments,
                    of_nothing,
                    ..
                } = aggregate::function(function, false, &window.arguments, &row)?;
                comparable::check_extreme(of_groups.name(), &arguments, row.schema)?;
                let own = bits(function).map(Bits::function);
                let fun = WindowFunctionDefinition::AggregateUDF(own.unwrap_or(of_groups));
                (fun, arguments, of_nothing)
            }
            other => {
                let args = window.arguments.iter().map(|one| row.value(one));
                let fun = WindowFunctionDefinition::WindowUDF(own(other)?);
                (fun, args.collect::<DfResult<_>>()?, None)
            }
        };
        let is_extreme = ["min", "max"].contains(&fun.name());
        if is_extreme && comparable::by_weights(&args, row.schema)? {
            return unsupported("MIN and MAX over a window in this collation");
        }
        let partition_by = window.partition.iter().map(|one| row.value(one));
        let partition_by = partition_by.map(|one| comparable::collated(one?, row.schema));
        let partition_by = partition_by.collect::<DfResult<_>>()?;
        let mut order_by = sort_keys(input, &window.order, parameters)?;
        let window_frame = match &window.frame {
            Some(own) => frame(own)?,
            None => WindowFrame::new((!order_by.is_empty()).then_some(false)),
        };
        window_frame.regularize_order_bys(&mut order_by)?;
        let mut params = WindowFunctionParams {
            args,
            partition_by,
            order_by,
            window_frame,
            filter: None,
            null_treatment: None,
            distinct: false,
        };
        frames::check(&params, row.schema)?;
        for sort in &mut params.order_by {
            sort.expr = comparable::in_window_order(sort.expr.clone(), row.schema)?;
        }
        Ok((Function { fun, params }, of_nothing))
    }
}

/// A node whose windows have distances that can be added to their ORDER BY.
fn widened(windows: Windows) -> DfResult<Windows> {
    use datafusion::logical_expr::LogicalPlan;
    let node = LogicalPlan::Window(windows);
    let has_distances = frames::have_distances(&node);
    let LogicalPlan::Window(windows) = node else {
        return unsupported("a window");
    };
    if !has_distances {
        return Ok(windows);
    }
    let schema = Arc::clone(windows.input.schema());
    let exprs = windows.window_expr.into_iter();
    let exprs = exprs.map(|expr| Ok(frames::widened(expr, &schema)?.data));
    Windows::try_new(exprs.collect::<DfResult<_>>()?, windows.input)
}

/// The function of bits, whose own accumulator lets rows leave a frame.
fn bits(function: &AggregateFunction) -> Option<Bits> {
    Some(match function {
        AggregateFunction::BitAnd => Bits::And,
        AggregateFunction::BitOr => Bits::Or,
        AggregateFunction::BitXor => Bits::Xor,
        _ => return None,
    })
}

/// DataFusion's function.
fn own(function: &WindowFunction) -> DfResult<Arc<WindowUDF>> {
    Ok(match function {
        WindowFunction::RowNumber => row_number::row_number_udwf(),
        WindowFunction::Rank => rank::rank_udwf(),
        WindowFunction::DenseRank => rank::dense_rank_udwf(),
        WindowFunction::PercentRank => rank::percent_rank_udwf(),
        WindowFunction::CumeDist => cume_dist::cume_dist_udwf(),
        WindowFunction::Ntile => ntile::ntile_udwf(),
        WindowFunction::Lag => lead_lag::lag_udwf(),
        WindowFunction::Lead => lead_lag::lead_udwf(),
        WindowFunction::FirstValue => nth_value::first_value_udwf(),
        WindowFunction::LastValue => nth_value::last_value_udwf(),
        WindowFunction::NthValue => nth_value::nth_value_udwf(),
        WindowFunction::Aggregate(function) => return unsupported(function.name()),
    })
}

fn frame(frame: &Frame) -> DfResult<WindowFrame> {
    let units = match frame.units {
        FrameUnits::Rows => WindowFrameUnits::Rows,
        FrameUnits::Range => WindowFrameUnits::Range,
    };
    let (start, end) = (bound(&frame.start, units)?, bound(&frame.end, units)?);
    Ok(WindowFrame::new_bounds(units, start, end))
}

fn bound(bound: &Bound, units: WindowFrameUnits) -> DfResult<WindowFrameBound> {
    let unbounded = match units {
        WindowFrameUnits::Rows => ScalarValue::UInt64(None),
        _ => ScalarValue::Null,
    };
    Ok(match bound {
        Bound::UnboundedPreceding => WindowFrameBound::Preceding(unbounded),
        Bound::UnboundedFollowing => WindowFrameBound::Following(unbounded),
        Bound::CurrentRow => WindowFrameBound::CurrentRow,
        Bound::Preceding(distance) => WindowFrameBound::Preceding(scalar(distance)?),
        Bound::Following(distance) => WindowFrameBound::Following(scalar(distance)?),
    })
}

/// Longest interval of a frame, in years: longer than from the first to the last DATETIME.
const MAX_YEARS: u64 = 20_000;

/// A distance as the planner of SQL writes it.
fn scalar(distance: &Distance) -> DfResult<ScalarValue> {
    let text = match distance {
        Distance::Rows(rows) => return Ok(ScalarValue::UInt64(Some(*rows))),
        Distance::Number(text) => text.clone(),
        Distance::Interval(count, unit) => interval(*count, *unit)?,
    };
    Ok(ScalarValue::Utf8(Some(text)))
}

fn interval(count: u64, unit: Interval) -> DfResult<String> {
    const DAY: u64 = 86_400_000_000;
    let times = |each: i64| count.saturating_mul(each.unsigned_abs());
    Ok(match unit {
        Interval::Days(each) => format!("{} DAY", times(each).min(MAX_YEARS * 366)),
        Interval::Months(each) => format!("{} MONTH", times(each).min(MAX_YEARS * 12)),
        // Arrow counts what is less than a day in nanoseconds, of which it has 292 years.
        Interval::Micros(each) => {
            let micros = times(each);
            let days = (micros / DAY).min(MAX_YEARS * 366);
            match (days, micros % DAY) {
                (0, micros) => format!("{micros} MICROSECOND"),
                (days, 0) => format!("{days} DAY"),
                (days, micros) if micros < i64::MAX as u64 => {
                    format!("{days} DAY {micros} MICROSECOND")
                }
                _ => return Err(SqlError::not_supported("a frame like this").into_df()),
            }
        }
    })
}
