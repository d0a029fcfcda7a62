//! Window functions and their windows.

use perigee_expr::Arithmetic;
use perigee_expr::scalar::{Interval as Unit, Scalar};
use perigee_sql_type::SqlType;
use perigee_value::ColumnType;
use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Interval, NamedWindowExpr,
    Value as Literal, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};

use super::super::{
    AggregateFunction, Bound, Clause, Distance, Frame, FrameUnits, QueryError, SortKey, Window,
    WindowFunction,
};
use super::aggregate::{Call, argument, call, name_of, typed};
use super::block::{Block, ExtraKind};
use crate::error::unsupported;
use crate::interval::unit_named;
use crate::{BindError, Binder, Result};

/// Windows that may be defined by one another.
const MAX_INHERITED: usize = 100;

/// The parts of a window.
struct Over {
    partition: Vec<Scalar>,
    order: Vec<SortKey>,
    frame: Option<Frame>,
}

impl Block<'_> {
    /// A function with OVER.
    pub(super) fn window_function(&self, function: &Function) -> Result<Scalar> {
        let name = name_of(function);
        let may_stand = matches!(self.clause.get(), Clause::Fields | Clause::Order);
        if self.in_definition.get() {
            return Err(fault(
                3595,
                &name,
                "a window function in the definition of a window",
            ));
        }
        if !may_stand || self.in_window.get() || self.in_aggregate.get() {
            return Err(fault(3593, &name, "a window function may not stand here"));
        }
        if let Some(call) = call(&name, function)? {
            return self.aggregate_over(&call, function);
        }
        let arguments = plain_arguments(&name, function)?;
        let Some((kind, counts)) = window_named(&name) else {
            return unsupported(format_args!("{name} OVER"));
        };
        if !counts.contains(&arguments.len()) {
            return Err(QueryError::Syntax(")".into()).into());
        }
        let binder = Binder::new(self);
        let (bound, over) = self.inside(|| {
            let bound = arguments.iter().map(|one| binder.expression(one));
            Ok((bound.collect::<Result<Vec<_>>>()?, self.over(function)?))
        })?;
        let (arguments, ty) = of_window(&binder, &kind, bound)?;
        let whole = !matches!(
            kind,
            WindowFunction::FirstValue | WindowFunction::LastValue | WindowFunction::NthValue
        );
        Ok(self.windowed(kind, arguments, ty, over, whole))
    }

    fn aggregate_over(&self, call: &Call<'_>, function: &Function) -> Result<Scalar> {
        if call.distinct {
            return unsupported("DISTINCT … OVER");
        }
        let has_no_frames = matches!(
            call.function,
            AggregateFunction::Grouping(_)
                | AggregateFunction::GroupConcat { .. }
                | AggregateFunction::AnyValue
        );
        if has_no_frames || !call.order.is_empty() {
            return unsupported(format_args!("{} OVER", call.function.name()));
        }
        let binder = Binder::new(self);
        let bind = || {
            let bound = call.arguments.iter();
            let bound = bound.map(|one| argument(&binder, &call.function, one));
            Ok((bound.collect::<Result<Vec<_>>>()?, self.over(function)?))
        };
        let one = |function: AggregateFunction, (arguments, over): (Vec<Scalar>, Over)| {
            let (arguments, ty) = typed(&binder, &function, arguments)?;
            let function = WindowFunction::Aggregate(function);
            Ok::<_, BindError>(self.windowed(function, arguments, ty, over, false))
        };
        if !call.is_avg {
            return one(call.function.clone(), self.inside(bind)?);
        }
        let sum = one(AggregateFunction::Sum, self.inside(bind)?)?;
        let count = one(AggregateFunction::Count, self.inside(bind)?)?;
        binder.arithmetic(sum, Arithmetic::Divide, count)
    }

    /// Does something inside of a window function, where no other one may stand.
    fn inside<T>(&self, bind: impl FnOnce() -> Result<T>) -> Result<T> {
        self.in_window.set(true);
        let bound = bind();
        self.in_window.set(false);
        bound
    }

    fn windowed(
        &self,
        function: WindowFunction,
        arguments: Vec<Scalar>,
        ty: SqlType,
        over: Over,
        whole: bool,
    ) -> Scalar {
        let number = {
            let mut extras = self.extras.borrow_mut();
            extras.windows.push(Some(Window {
                function,
                arguments,
                partition: over.partition,
                order: over.order,
                frame: over.frame.filter(|_| !whole),
                ty: ty.clone(),
            }));
            extras.windows.len() - 1
        };
        self.extra(ExtraKind::Window(number), ty)
    }

    fn over(&self, function: &Function) -> Result<Over> {
        self.in_definition.set(true);
        let over = match &function.over {
            Some(WindowType::WindowSpec(spec)) => self.spec(spec, 0),
            Some(WindowType::NamedWindow(name)) => self.named_window(&name.value, 0),
            None => unsupported("a window function without OVER"),
        };
        self.in_definition.set(false);
        over
    }

    /// A window of the WINDOW clause.
    fn named_window(&self, name: &str, depth: usize) -> Result<Over> {
        let is_it = |known: &&sqlparser::ast::NamedWindowDefinition| {
            known.0.value.eq_ignore_ascii_case(name)
        };
        let Some(known) = self.windows.iter().find(is_it) else {
            return Err(fault(3579, name, "is not defined"));
        };
        if depth > MAX_INHERITED {
            return Err(fault(3580, name, "there is a circularity"));
        }
        match &known.1 {
            NamedWindowExpr::NamedWindow(other) => self.named_window(&other.value, depth + 1),
            NamedWindowExpr::WindowSpec(spec) => self.spec(spec, depth + 1),
        }
    }

    fn spec(&self, spec: &WindowSpec, depth: usize) -> Result<Over> {
        let inherited = spec.window_name.as_ref();
        let inherited = inherited.map(|name| self.named_window(&name.value, depth));
        let mut over = match inherited.transpose()? {
            None => Over {
                partition: Vec::new(),
                order: Vec::new(),
                frame: None,
            },
            Some(over) => {
                let name = spec.window_name.as_ref().map_or("", |name| &name.value);
                if !spec.partition_by.is_empty() {
                    return Err(fault(
                        3581,
                        name,
                        "a window that depends on another has PARTITION BY",
                    ));
                }
                if over.frame.is_some() {
                    return Err(fault(3582, name, "has a frame"));
                }
                if !spec.order_by.is_empty() && !over.order.is_empty() {
                    return Err(fault(3583, name, "both have ORDER BY"));
                }
                over
            }
        };
        let clause = self.clause.get();
        for part in &spec.partition_by {
            over.partition
                .push(self.expression(part, Clause::WindowPartition)?);
        }
        for key in &spec.order_by {
            over.order.push(SortKey {
                scalar: self.expression(&key.expr, Clause::WindowOrder)?,
                descending: super::order::descends(key)?,
            });
        }
        self.clause.set(clause);
        if let Some(written) = &spec.window_frame {
            over.frame = Some(frame(written, &over.order)?);
        }
        Ok(over)
    }
}

/// The window function of a name in lower case, and how many arguments it takes.
fn window_named(name: &str) -> Option<(WindowFunction, std::ops::RangeInclusive<usize>)> {
    use WindowFunction as F;
    Some(match name {
        "row_number" => (F::RowNumber, 0..=0),
        "rank" => (F::Rank, 0..=0),
        "dense_rank" => (F::DenseRank, 0..=0),
        "percent_rank" => (F::PercentRank, 0..=0),
        "cume_dist" => (F::CumeDist, 0..=0),
        "ntile" => (F::Ntile, 1..=1),
        "lag" => (F::Lag, 1..=3),
        "lead" => (F::Lead, 1..=3),
        "first_value" => (F::FirstValue, 1..=1),
        "last_value" => (F::LastValue, 1..=1),
        "nth_value" => (F::NthValue, 2..=2),
        _ => return None,
    })
}

/// Arguments as values that the function takes, and the type of its result.
fn of_window(
    binder: &Binder<'_>,
    function: &WindowFunction,
    mut arguments: Vec<Scalar>,
) -> Result<(Vec<Scalar>, SqlType)> {
    use WindowFunction as F;
    let ty = match function {
        F::RowNumber | F::Rank | F::DenseRank | F::Ntile => SqlType::uint().nullable(false),
        F::PercentRank | F::CumeDist => SqlType::of(ColumnType::Double).nullable(false),
        F::Lag | F::Lead if arguments.len() == 3 => {
            let default = arguments.remove(2);
            let rows = arguments.remove(1);
            let (mut both, ty) = binder.unified(vec![arguments.remove(0), default])?;
            let default = both.pop();
            both.push(rows);
            both.extend(default);
            arguments = both;
            ty
        }
        _ => arguments[0].ty.clone(),
    };
    let nullable = ty.nullable
        || !matches!(
            function,
            F::RowNumber | F::Rank | F::DenseRank | F::Ntile | F::PercentRank | F::CumeDist
        );
    let ty = SqlType {
        literal: false,
        ..ty.nullable(nullable)
    };
    Ok((arguments, ty))
}

/// A frame over an order.
fn frame(written: &WindowFrame, order: &[SortKey]) -> Result<Frame> {
    let units = match written.units {
        WindowFrameUnits::Rows => FrameUnits::Rows,
        WindowFrameUnits::Range => FrameUnits::Range,
        WindowFrameUnits::Groups => return unsupported("GROUPS"),
    };
    let start = bound(&written.start_bound, units)?;
    let end = match &written.end_bound {
        Some(end) => bound(end, units)?,
        None => Bound::CurrentRow,
    };
    let rank = |bound: &Bound| match bound {
        Bound::UnboundedPreceding => 0,
        Bound::Preceding(_) => 1,
        Bound::CurrentRow => 2,
        Bound::Following(_) => 3,
        Bound::UnboundedFollowing => 4,
    };
    if matches!(start, Bound::UnboundedFollowing) {
        return Err(fault(3584, "", "the frame begins at its end"));
    }
    if matches!(end, Bound::UnboundedPreceding) || rank(&start) > rank(&end) {
        return Err(fault(3585, "", "the frame ends before it begins"));
    }
    for bound in [&start, &end] {
        if let Bound::Preceding(distance) | Bound::Following(distance) = bound
            && units == FrameUnits::Range
        {
            check_distance(distance, order)?;
        }
    }
    let is_interval = |bound: &Bound| match bound {
        Bound::Preceding(distance) | Bound::Following(distance) => {
            Some(matches!(distance, Distance::Interval(..)))
        }
        _ => None,
    };
    if let (Some(a), Some(b)) = (is_interval(&start), is_interval(&end))
        && a != b
    {
        return unsupported("a frame of a number and an INTERVAL");
    }
    Ok(Frame { units, start, end })
}

/// Checks a distance of a RANGE against the ORDER BY.
fn check_distance(distance: &Distance, order: &[SortKey]) -> Result<()> {
    let [key] = order else {
        return Err(fault(
            3587,
            "",
            "RANGE with a distance needs one ORDER BY of a number or a date",
        ));
    };
    let ty = &key.scalar.ty;
    let is_interval = matches!(distance, Distance::Interval(..));
    match is_interval {
        _ if ty.is_time() => unsupported("RANGE with a distance over TIME"),
        true if ty.is_moment() => Ok(()),
        false if ty.is_moment() => Err(fault(3588, "", "RANGE over dates needs INTERVAL")),
        _ if !ty.is_number() || ty.members.is_some() => Err(fault(
            3587,
            "",
            "RANGE with a distance needs one ORDER BY of a number or a date",
        )),
        true => Err(fault(3589, "", "RANGE over numbers needs a number")),
        false => Ok(()),
    }
}

fn bound(written: &WindowFrameBound, units: FrameUnits) -> Result<Bound> {
    Ok(match written {
        WindowFrameBound::CurrentRow => Bound::CurrentRow,
        WindowFrameBound::Preceding(None) => Bound::UnboundedPreceding,
        WindowFrameBound::Following(None) => Bound::UnboundedFollowing,
        WindowFrameBound::Preceding(Some(by)) => Bound::Preceding(distance(by, units)?),
        WindowFrameBound::Following(Some(by)) => Bound::Following(distance(by, units)?),
    })
}

fn distance(by: &Expr, units: FrameUnits) -> Result<Distance> {
    let refused = || unsupported("a frame with a distance like this");
    match by {
        Expr::Value(value) => match (&value.value, units) {
            (Literal::Number(text, _), FrameUnits::Rows) => match text.parse() {
                Ok(rows) => Ok(Distance::Rows(rows)),
                Err(_) => Err(fault(3586, "", "the distance is no number of rows")),
            },
            (Literal::Number(text, _), FrameUnits::Range) => {
                let digits = text.replacen('.', "", 1);
                match digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    true => Ok(Distance::Number(text.clone())),
                    false => refused(),
                }
            }
            _ => refused(),
        },
        Expr::Interval(interval) if units == FrameUnits::Range => of_interval(interval),
        _ => refused(),
    }
}

fn of_interval(interval: &Interval) -> Result<Distance> {
    let refused = || unsupported("a frame with an INTERVAL like this");
    let count: Option<u32> = match interval.value.as_ref() {
        Expr::Value(value) => match &value.value {
            Literal::Number(text, _) | Literal::SingleQuotedString(text) => {
                text.trim().parse().ok()
            }
            _ => None,
        },
        _ => None,
    };
    let unit = interval
        .leading_field
        .as_ref()
        .map(|unit| unit.to_string().to_lowercase());
    let unit: Option<Unit> = unit.as_deref().and_then(unit_named);
    match (count, unit, &interval.last_field) {
        (Some(count), Some(unit), None) => Ok(Distance::Interval(count.into(), unit)),
        _ => refused(),
    }
}

fn plain_arguments<'f>(name: &str, function: &'f Function) -> Result<Vec<&'f Expr>> {
    let is_plain = function.filter.is_none()
        && function.within_group.is_empty()
        && function.null_treatment.is_none();
    let FunctionArguments::List(list) = &function.args else {
        return Ok(Vec::new());
    };
    if !is_plain || list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
        return unsupported(format_args!("this form of {name}"));
    }
    let plain = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr),
        _ => Err(BindError::WrongArguments(name.to_uppercase())),
    });
    plain.collect()
}

fn fault(number: u16, name: &str, why: &'static str) -> BindError {
    QueryError::Window {
        number,
        name: name.to_owned(),
        why,
    }
    .into()
}
