//! Aggregate functions: their arguments, the types of their results, and to which SELECT they belong.

use perigee_expr::Arithmetic;
use perigee_expr::scalar::{Node, Scalar, Target};
use perigee_sql_type::{Coercibility, Number, SqlType};
use perigee_value::{Collation, ColumnType};
use sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, Value as Literal,
};

use super::super::{Aggregate, AggregateFunction, Clause, QueryError, SortKey};
use super::block::{Block, ExtraKind, Frame};
use crate::arithmetic::number_operand;
use crate::cast::cast_to;
use crate::error::unsupported;
use crate::{BindError, Binder, Environment, Result};

/// What stands between the rows of GROUP_CONCAT.
const SEPARATOR: &str = ",";

/// Most bytes of a result of GROUP_CONCAT, whatever `group_concat_max_len` is: as many as a packet may have.
const MOST: usize = 64 << 20;

/// Most digits of decimals whose sum has ten more; that of longer ones has 22 more, as in MySQL.
const MAX_NARROW: u8 = 28;

/// The aggregate function of a name in lower case. AVG is SUM divided by COUNT, so its is the former.
pub(super) fn named(name: &str) -> Option<AggregateFunction> {
    use AggregateFunction as F;
    Some(match name {
        "count" => F::Count,
        "sum" | "avg" => F::Sum,
        "min" => F::Min,
        "max" => F::Max,
        "bit_and" => F::BitAnd,
        "bit_or" => F::BitOr,
        "bit_xor" => F::BitXor,
        "std" | "stddev" | "stddev_pop" => F::StddevPop,
        "stddev_samp" => F::StddevSamp,
        "variance" | "var_pop" => F::VarPop,
        "var_samp" => F::VarSamp,
        "group_concat" => F::GroupConcat {
            separator: SEPARATOR.into(),
            most: MOST,
        },
        "any_value" => F::AnyValue,
        "json_arrayagg" => F::JsonArray,
        "json_objectagg" => F::JsonObject,
        "grouping" => F::Grouping(Vec::new()),
        _ => return None,
    })
}

/// The name of a function in lower case.
pub(super) fn name_of(function: &Function) -> String {
    let name = function.name.to_string();
    name.trim_matches('`').to_ascii_lowercase()
}

/// A call of an aggregate function, as it is written.
pub(super) struct Call<'c> {
    pub function: AggregateFunction,
    pub is_avg: bool,
    pub distinct: bool,
    pub arguments: Vec<&'c Expr>,
    pub order: &'c [sqlparser::ast::OrderByExpr],
}

/// What is written between the parentheses.
///
/// # Errors
/// 1064 and 1582 for arguments that the function does not take.
pub(super) fn call<'c>(name: &str, function: &'c Function) -> Result<Option<Call<'c>>> {
    let Some(mut aggregate) = named(name) else {
        return Ok(None);
    };
    let wrong = || BindError::WrongArguments(name.to_uppercase());
    let is_plain = function.filter.is_none()
        && function.within_group.is_empty()
        && function.null_treatment.is_none()
        && !function.uses_odbc_syntax
        && matches!(function.parameters, FunctionArguments::None);
    if !is_plain {
        return unsupported(format_args!("this form of {name}"));
    }
    let FunctionArguments::List(list) = &function.args else {
        return Err(wrong());
    };
    let distinct = matches!(list.duplicate_treatment, Some(DuplicateTreatment::Distinct));
    let mut order = &[][..];
    for clause in &list.clauses {
        match (clause, &mut aggregate) {
            (FunctionArgumentClause::OrderBy(keys), AggregateFunction::GroupConcat { .. }) => {
                order = keys;
            }
            (
                FunctionArgumentClause::Separator(text),
                AggregateFunction::GroupConcat { separator, .. },
            ) => match &text.value {
                Literal::SingleQuotedString(text) | Literal::DoubleQuotedString(text) => {
                    *separator = text.as_str().into();
                }
                other => return unsupported(format_args!("SEPARATOR {other}")),
            },
            _ => return unsupported(format_args!("clauses in {name}")),
        }
    }
    let mut arguments = Vec::with_capacity(list.args.len());
    for argument in &list.args {
        match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => arguments.push(expr),
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard)
                if name == "count" && list.args.len() == 1 && !distinct =>
            {
                aggregate = AggregateFunction::CountRows;
            }
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => {
                return Err(QueryError::Syntax("*)".into()).into());
            }
            _ => return Err(wrong()),
        }
    }
    let is_one_of = match aggregate {
        AggregateFunction::CountRows => arguments.is_empty(),
        AggregateFunction::Count => arguments.len() == 1 || distinct && !arguments.is_empty(),
        AggregateFunction::GroupConcat { .. } | AggregateFunction::Grouping(_) => {
            !arguments.is_empty()
        }
        AggregateFunction::JsonObject => arguments.len() == 2,
        _ => arguments.len() == 1,
    };
    if !is_one_of {
        return Err(wrong());
    }
    let is_of_json = matches!(
        aggregate,
        AggregateFunction::JsonArray | AggregateFunction::JsonObject
    );
    if distinct && is_of_json {
        return Err(QueryError::Syntax("DISTINCT".into()).into());
    }
    Ok(Some(Call {
        function: aggregate,
        is_avg: name == "avg",
        distinct,
        arguments,
        order,
    }))
}

/// An argument of an aggregate function. What the function takes as it is may be a TIMESTAMP.
pub(super) fn argument(
    binder: &Binder<'_>,
    function: &AggregateFunction,
    expr: &Expr,
) -> Result<Scalar> {
    use AggregateFunction as F;
    match function {
        F::Count | F::Min | F::Max | F::AnyValue | F::Grouping(_) => binder.stored(expr),
        _ => binder.expression(expr),
    }
}

/// Arguments as values that the function takes, and the type of its result.
///
/// # Errors
/// 1235 for types that it does not take.
pub(super) fn typed(
    binder: &Binder<'_>,
    function: &AggregateFunction,
    mut arguments: Vec<Scalar>,
) -> Result<(Vec<Scalar>, SqlType)> {
    use AggregateFunction as F;
    let json = || SqlType::of(ColumnType::Json);
    let each = |to: fn(Scalar) -> Result<Scalar>, all: Vec<Scalar>| {
        all.into_iter().map(to).collect::<Result<Vec<_>>>()
    };
    let first = arguments.first().map(|argument| SqlType {
        literal: false,
        ..argument.ty.clone()
    });
    let first = first.unwrap_or_else(SqlType::int);
    Ok(match function {
        F::CountRows | F::Count => (arguments, SqlType::int().nullable(false)),
        F::Grouping(_) => (arguments, SqlType::int().nullable(false)),
        F::Sum => {
            let arguments = each(summed, arguments)?;
            let ty = sum_type(&arguments[0].ty);
            (arguments, ty)
        }
        F::AnyValue => (arguments, first.nullable(true)),
        // Values of an ENUM are texts here.
        F::Min | F::Max => {
            let ty = SqlType {
                members: None,
                ..first.nullable(true)
            };
            (arguments, ty)
        }
        F::BitAnd | F::BitOr | F::BitXor => {
            let bits = each(|one| cast_to(one, Target::Unsigned), arguments)?;
            (bits, SqlType::uint().nullable(false))
        }
        F::StddevPop | F::StddevSamp | F::VarPop | F::VarSamp => {
            let doubles = each(|one| cast_to(one, Target::Double), arguments)?;
            (doubles, SqlType::of(ColumnType::Double))
        }
        F::GroupConcat { .. } => joined(arguments)?,
        F::JsonArray => {
            let elements = arguments.into_iter();
            let elements = elements.map(|one| binder.library(JSON_ELEMENT, vec![one]));
            (elements.collect::<Result<_>>()?, json())
        }
        F::JsonObject => {
            let value = arguments.pop().unwrap_or_else(Scalar::null);
            let mut both = each(named_by, arguments)?;
            both.push(binder.library(JSON_ELEMENT, vec![value])?);
            (both, json())
        }
    })
}

/// The function that gives any value as JSON.
const JSON_ELEMENT: &str = "json element";

/// The name of a member of an object.
fn named_by(name: Scalar) -> Result<Scalar> {
    match name.ty.is_bytes() {
        true => unsupported("names of JSON objects that are binary strings"),
        false => crate::cast::as_text(name, false),
    }
}

/// The strings that GROUP_CONCAT joins, and the type of its result.
fn joined(arguments: Vec<Scalar>) -> Result<(Vec<Scalar>, SqlType)> {
    let has_bytes = arguments.iter().any(|one| one.ty.is_bytes());
    let strings = arguments.iter().filter(|one| one.ty.is_text());
    let strings = strings.map(|one| (one.ty.collation(), one.ty.coercibility));
    let (collation, coercibility) = match has_bytes {
        true => (Collation::BINARY, Coercibility::Implicit),
        false => perigee_sql_type::common_collation(strings)?,
    };
    let mut ty = SqlType::of(ColumnType::Long {
        prefix: 4,
        collation,
    });
    ty.coercibility = coercibility.min(ty.coercibility);
    let string = |one: Scalar| match has_bytes {
        true if one.ty.is_bytes() || one.ty.is_null() => Ok(one),
        true => cast_to(one, Target::Binary(None)),
        false => crate::cast::as_text(one, false),
    };
    let strings = arguments.into_iter().map(string);
    Ok((strings.collect::<Result<_>>()?, ty))
}

/// A value that SUM adds up: an exact number or a DOUBLE.
fn summed(argument: Scalar) -> Result<Scalar> {
    let argument = number_operand(argument)?;
    let ty = &argument.ty;
    if ty.is_number() || ty.is_null() {
        return Ok(argument);
    }
    let fsp = ty.column.and_then(ColumnType::fsp).unwrap_or(0);
    let target = match (Number::of(ty), fsp) {
        (Number::Int(_), _) => Target::Signed,
        (Number::Decimal(precision, scale), _) => Target::Decimal(precision, scale),
        _ => Target::Double,
    };
    cast_to(argument, target)
}

/// The type of a sum of values of a type.
fn sum_type(ty: &SqlType) -> SqlType {
    let most = ColumnType::MAX_PRECISION;
    let decimal = |precision: u8, scale| SqlType::of(ColumnType::Decimal { precision, scale });
    match Number::of(ty) {
        // 20 digits hold every BIGINT, and ten more 10^10 of them.
        Number::Int(_) | Number::UInt(_) => decimal(30, 0),
        Number::Decimal(p, s) if p > MAX_NARROW => decimal((p.saturating_add(22)).min(most), s),
        Number::Decimal(p, s) => decimal(p + 10, s),
        Number::Double | Number::Null => SqlType::of(ColumnType::Double),
    }
}

impl Block<'_> {
    /// A call of an aggregate function; `None` for any other function.
    pub(super) fn aggregate_function(&self, function: &Function) -> Result<Option<Scalar>> {
        let name = name_of(function);
        let Some(call) = call(&name, function)? else {
            return Ok(None);
        };
        if self.in_aggregate.get() {
            return Err(QueryError::InvalidGroupFunction.into());
        }
        // What the arguments need of rows further out is forgotten if the function belongs there.
        let known = self.handed_on();
        self.in_aggregate.set(true);
        let bound = self.arguments(&call);
        self.in_aggregate.set(false);
        let (arguments, order) = bound?;
        let (mut block, mut outer, mut frames) = (self, arguments.clone(), Vec::new());
        while order.is_empty()
            && are_of_outer_rows(&outer)
            && let Some(frame) = block.outer
        {
            outer = frame.outside(outer)?;
            frames.push(frame);
            block = frame.block;
        }
        if frames.is_empty() || !block.takes_aggregates() {
            return self.aggregated(&call, arguments, order).map(Some);
        }
        for (frame, known) in frames.iter().zip(known) {
            frame.arguments.borrow_mut().truncate(known);
        }
        let result = block.aggregated(&call, outer, Vec::new())?;
        let handed = |result, frame: &Frame<'_>| frame.parameter(result);
        Ok(Some(frames.into_iter().rev().fold(result, handed)))
    }

    /// How much each subquery around this block, from the inside out, needs of the rows around it.
    fn handed_on(&self) -> Vec<usize> {
        let mut known = Vec::new();
        let mut block = self;
        while let Some(frame) = block.outer {
            known.push(frame.arguments.borrow().len());
            block = frame.block;
        }
        known
    }

    fn arguments(&self, call: &Call<'_>) -> Result<(Vec<Scalar>, Vec<SortKey>)> {
        let binder = Binder::new(self);
        let arguments = call.arguments.iter();
        let arguments = arguments.map(|one| argument(&binder, &call.function, one));
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        let mut order = Vec::with_capacity(call.order.len());
        for key in call.order {
            let (scalar, descending) = match super::order::position(&key.expr) {
                Some(number) => {
                    let at = usize::try_from(number).ok().and_then(|n| n.checked_sub(1));
                    let argument = at.and_then(|at| arguments.get(at));
                    let unknown = || super::scope::unknown(number.to_string(), Clause::Order);
                    (
                        argument.cloned().ok_or_else(unknown)?,
                        super::order::descends(key)?,
                    )
                }
                None => (binder.expression(&key.expr)?, super::order::descends(key)?),
            };
            order.push(SortKey { scalar, descending });
        }
        Ok((arguments, order))
    }

    /// True in clauses in which an aggregate function may stand.
    fn takes_aggregates(&self) -> bool {
        matches!(
            self.clause.get(),
            Clause::Fields
                | Clause::Having
                | Clause::Order
                | Clause::WindowOrder
                | Clause::WindowPartition
        ) && !self.in_aggregate.get()
    }

    /// The result of an aggregate function of this block.
    fn aggregated(
        &self,
        call: &Call<'_>,
        arguments: Vec<Scalar>,
        order: Vec<SortKey>,
    ) -> Result<Scalar> {
        if !self.takes_aggregates() {
            return Err(QueryError::InvalidGroupFunction.into());
        }
        if arguments.iter().any(|argument| self.has_window(argument)) {
            return Err(QueryError::Window {
                number: 3593,
                name: call.function.name().to_owned(),
                why: "a window function may not stand here",
            }
            .into());
        }
        let one = |function: AggregateFunction, arguments: Vec<Scalar>, order| {
            let (arguments, ty) = typed(&Binder::new(self), &function, arguments)?;
            Ok::<_, BindError>(self.registered(Aggregate {
                function,
                distinct: call.distinct,
                arguments,
                order,
                ty,
            }))
        };
        if !call.is_avg {
            return one(self.bounded(&call.function), arguments, order);
        }
        let sum = one(AggregateFunction::Sum, arguments.clone(), Vec::new())?;
        let count = one(AggregateFunction::Count, arguments, Vec::new())?;
        Binder::new(self).arithmetic(sum, Arithmetic::Divide, count)
    }

    /// The function with the bounds that the session sets.
    fn bounded(&self, function: &AggregateFunction) -> AggregateFunction {
        let AggregateFunction::GroupConcat { separator, most } = function else {
            return function.clone();
        };
        let own = match self.variable(None, "group_concat_max_len") {
            Ok(Expr::Value(value)) => value.value.to_string().parse().unwrap_or(*most),
            _ => *most,
        };
        AggregateFunction::GroupConcat {
            separator: separator.clone(),
            most: own.min(*most),
        }
    }

    /// An aggregate function as a column; the same one once.
    fn registered(&self, aggregate: Aggregate) -> Scalar {
        let known = {
            let extras = self.extras.borrow();
            let mut known = extras.aggregates.iter().flatten();
            known.position(|known| is_same(known, &aggregate))
        };
        if let Some(number) = known {
            let extras = self.extras.borrow();
            let is_it = |kind: &ExtraKind| matches!(kind, ExtraKind::Aggregate(n) if *n == number);
            if let Some(at) = extras.all.iter().position(|extra| is_it(&extra.kind)) {
                return Scalar::new(Node::Column(self.width + at), aggregate.ty);
            }
        }
        let ty = aggregate.ty.clone();
        let number = {
            let mut extras = self.extras.borrow_mut();
            extras.aggregates.push(Some(aggregate));
            extras.aggregates.len() - 1
        };
        self.extra(ExtraKind::Aggregate(number), ty)
    }

    /// True if an expression contains a window function of this block.
    pub(super) fn has_window(&self, scalar: &Scalar) -> bool {
        self.has_extra(scalar, |kind| matches!(kind, ExtraKind::Window(_)))
    }

    /// True if an expression contains such an extra.
    pub(super) fn has_extra(&self, scalar: &Scalar, wanted: impl Fn(ExtraKind) -> bool) -> bool {
        let extras = self.extras.borrow();
        let mut found = false;
        scalar.visit(&mut |part| {
            if let Node::Column(place) = part.node
                && place >= self.width
            {
                found |= wanted(extras.all[place - self.width].kind);
            }
            !found
        });
        found
    }
}

impl Frame<'_> {
    /// Expressions inside of the subquery that use only rows around it, over these.
    fn outside(&self, all: Vec<Scalar>) -> Result<Vec<Scalar>> {
        let given = self.arguments.borrow();
        let outer = |scalar: Scalar| {
            scalar.replaced::<BindError>(&mut |part| {
                Ok(match part.node {
                    Node::Parameter(number) => Some(given[number].clone()),
                    _ => None,
                })
            })
        };
        all.into_iter().map(outer).collect()
    }
}

/// True if the columns that expressions use are all of rows around their subquery, and there is one.
fn are_of_outer_rows(all: &[Scalar]) -> bool {
    let (mut has_own, mut has_outer) = (false, false);
    for scalar in all {
        scalar.visit(&mut |part| {
            has_own |= matches!(part.node, Node::Column(_));
            has_outer |= matches!(part.node, Node::Parameter(_));
            true
        });
    }
    has_outer && !has_own
}

fn is_same(one: &Aggregate, other: &Aggregate) -> bool {
    one.function == other.function
        && one.distinct == other.distinct
        && one.arguments.len() == other.arguments.len()
        && one.order.is_empty()
        && other.order.is_empty()
        && one
            .arguments
            .iter()
            .zip(&other.arguments)
            .all(|(a, b)| a.is_same(b))
}
