//! The typing pass: over the plan that came out of SQL, before DataFusion's own coercion, it lowers
//! what needed types (IN lists, SUM's argument, LIKE over numbers) and gives strings their
//! collation wherever rows are compared without a comparison operator: GROUP BY, DISTINCT, ORDER BY,
//! IN with a subquery.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{
    Column, DFSchema, DFSchemaRef, Result as DfResult, ScalarValue, TableReference,
};
use datafusion::functions::core::coalesce;
use datafusion::functions_aggregate::expr_fn::min;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{
    AggregateFunction, InList, InSubquery, Like, NullTreatment, ScalarFunction, Sort as SortExpr,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{disjunction, merge_schema};
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, Distinct, Expr, ExprSchemable, LogicalPlan, Operator, Projection,
    Sort, Union, WindowFunctionDefinition, cast, lit,
};
use perigee_value::{Collation, ColumnType, LikePattern, Members};

use crate::error::SqlError;
use crate::functions::arithmetic;
use crate::functions::between::BETWEEN;
use crate::functions::collation::Latin;
use crate::functions::sum_argument::{SUM_ARGUMENT, sum_type};
use crate::functions::sum_double::sum_of_doubles;
use crate::functions::types::{
    MAX_WIDE_PRECISION, datetime, is_bytes, is_json, is_string, is_temporal,
};
use crate::functions::wide::{self, SumInRange};
use crate::functions::{
    cast as casts, choice, enumeration, exact, in_list, json, library, like as patterns, nullable,
};
use crate::interrupt;
use crate::parse::{MAX_TERMS, halves};
use crate::plan::fractions::{extreme_digits, with_digits};
use crate::plan::operators::{as_number, call, cast_to, compare, without_padding};
use crate::plan::quotients::{lower_arithmetic, unrounded};
use crate::plan::{
    between, branches, collation, constants, frames, keys, long_lists, membership, metadata, union,
};
use crate::result::flags::PRIMARY_KEY;
use crate::result::{TEXT_CHARS, type_of};

/// Runs the pass over a plan and its subqueries.
///
/// # Errors
/// 1235 for comparisons that are not done here.
pub fn apply(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let weighed = collation::check_outputs(&plan)?;
    plan.transform_up_with_subqueries(|node| node_types(node, weighed).map(Transformed::yes))
        .map(|t| t.data)
}

/// The pass over a node; `weighed` if a string of the plan may compare by weights.
fn node_types(node: LogicalPlan, weighed: bool) -> DfResult<LogicalPlan> {
    let inputs = node.inputs();
    let mut schema = merge_schema(&inputs);
    if inputs.is_empty() {
        schema = node.schema().as_ref().clone();
    }
    let node = match node {
        LogicalPlan::Sort(sort) => LogicalPlan::Sort(constants::inlined(sort)?),
        node => node,
    };
    let names = NamePreserver::new(&node);
    let outputs = matches!(node, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_));
    let selects = matches!(node, LogicalPlan::Projection(_));
    let has_distances = frames::have_distances(&node);
    let node = node
        .map_expressions(|expr| {
            let saved = names.save(&expr);
            let said = match weighed && outputs {
                true => collation::said(&expr, &schema)?,
                false => None,
            };
            let declared = match selects {
                true => declared(&expr, &schema)?,
                false => None,
            };
            let mut lowered = expr.transform_up(|expr| lower(expr, &schema))?;
            if has_distances {
                lowered = lowered.transform_data(|expr| frames::widened(expr, &schema))?;
            }
            let lowered = lowered.update_data(|expr| saved.restore(expr));
            let lowered = lowered.update_data(|expr| declaring(expr, declared));
            match said {
                Some(said) => lowered.map_data(|expr| collation::saying(expr, said, &schema)),
                None => Ok(lowered),
            }
        })?
        .data;
    match node {
        LogicalPlan::Filter(mut filter) => {
            filter.predicate = membership::three_valued(filter.predicate, &schema)?;
            Ok(LogicalPlan::Filter(filter))
        }
        LogicalPlan::Union(union) => {
            let inputs = union::unified(union.inputs)?;
            Ok(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?))
        }
        LogicalPlan::Aggregate(aggregate) => sums_in_range(group_by(aggregate)?),
        LogicalPlan::Sort(sort) => order_by(sort),
        LogicalPlan::Distinct(Distinct::All(input)) => distinct(input),
        LogicalPlan::Window(window) => keys::windowed(window),
        node => Ok(node),
    }?
    // Its inputs and expressions may tell more of their values now.
    .recompute_schema()
}

/// What an output says of its type that the expression in its place will not say: how long its strings are.
fn declared(expr: &Expr, schema: &DFSchema) -> DfResult<Option<FieldMetadata>> {
    let ty = match expr.unalias_ref() {
        Expr::ScalarFunction(function)
            if [choice::CASE, choice::COALESCE].contains(&function.func.name()) =>
        {
            type_of(&expr.to_field(schema)?.1)
        }
        Expr::Literal(value, _) if is_string(&value.data_type()) => {
            let text = value.try_as_str().flatten();
            let chars = text.map(|text| u16::try_from(text.chars().count()));
            chars.and_then(Result::ok).map(|chars| ColumnType::Varchar {
                chars: chars.min(TEXT_CHARS),
                collation: Collation::UTF8MB4_BIN,
            })
        }
        _ => None,
    };
    // A YEAR that is chosen is shown as the number that it is.
    let Some(ty) = ty.filter(|ty| *ty != ColumnType::Year) else {
        return Ok(None);
    };
    let mut map = HashMap::new();
    metadata::declare(&mut map, &ty);
    Ok(Some(FieldMetadata::from(map)))
}

/// An output that says so.
fn declaring(expr: Expr, declared: Option<FieldMetadata>) -> Expr {
    let Some(declared) = declared else {
        return expr;
    };
    let (relation, name) = expr.qualified_name();
    let expr = expr.unalias();
    expr.alias_qualified_with_metadata(relation, name, Some(declared))
}

fn lower(expr: Expr, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    interrupt::check_df()?;
    match expr {
        Expr::ScalarFunction(function)
            if arithmetic::operator_of(function.func.name()).is_some() =>
        {
            lower_arithmetic(function, schema)
        }
        Expr::ScalarFunction(function) if takes_numbers(&function) => {
            lower_numbers(function, schema)
        }
        Expr::ScalarFunction(mut function) if function.func.name() == SUM_ARGUMENT => {
            let arg = function.args.swap_remove(0);
            Ok(Transformed::yes(sum_argument(arg, schema)?))
        }
        Expr::ScalarFunction(function) if function.func.name() == in_list::IN_LIST => {
            Ok(Transformed::yes(lower_in(function.args, schema)?))
        }
        Expr::ScalarFunction(function) if function.func.name() == BETWEEN => {
            Ok(Transformed::yes(between::lowered(function.args, schema)?))
        }
        Expr::ScalarFunction(mut function) if long_lists::is_one(&function) => {
            let operand = function.args.swap_remove(0);
            let listed = long_lists::lowered(&function.func, operand, schema)?;
            Ok(Transformed::yes(listed))
        }
        Expr::Like(like) => lower_like(like, schema),
        Expr::ScalarSubquery(subquery) => Ok(Transformed::yes(nullable::subquery(subquery))),
        Expr::InSubquery(subquery) => lower_in_subquery(subquery, schema),
        Expr::ScalarFunction(function) if function.func.name() == choice::CASE => {
            let common = branches::common_of(choice::values(&function.args), schema)?;
            let mut args = function.args;
            for value in choice::values_mut(&mut args) {
                *value = common.convert(std::mem::take(value), schema)?;
            }
            Ok(Transformed::yes(common.with_digits(choice::case(args))))
        }
        Expr::ScalarFunction(mut function) if function.func.name() == choice::COALESCE => {
            let common = branches::common_of(&function.args, schema)?;
            for value in &mut function.args {
                *value = common.convert(std::mem::take(value), schema)?;
            }
            function.func = coalesce();
            let function = Expr::ScalarFunction(function);
            Ok(Transformed::yes(common.with_digits(function)))
        }
        Expr::ScalarFunction(function) => lower_library(function, schema),
        Expr::AggregateFunction(mut aggregate) => {
            check_extreme(aggregate.func.name(), &aggregate.params.args, schema)?;
            aggregate.func = choice::extreme(aggregate.func);
            if is_sum_of_doubles(&aggregate.func, &aggregate.params.args, schema)? {
                aggregate.func = sum_of_doubles();
            }
            match extreme_of_text(&aggregate, schema)? {
                Some(extreme) => Ok(Transformed::yes(extreme)),
                None => distinct_argument(aggregate, schema),
            }
        }
        Expr::WindowFunction(mut window) => {
            if let WindowFunctionDefinition::AggregateUDF(function) = window.fun {
                let function = match is_sum_of_doubles(&function, &window.params.args, schema)? {
                    true => sum_of_doubles(),
                    false => choice::extreme(function),
                };
                window.fun = WindowFunctionDefinition::AggregateUDF(function);
            }
            check_extreme(window.fun.name(), &window.params.args, schema)?;
            if window.fun.name() == "count" {
                count_rows(&mut window.params.args);
            }
            let by_order = ["min", "max"].contains(&window.fun.name());
            if by_order && by_weights(&window.params.args, schema)? {
                let what = "MIN and MAX over a window in this collation";
                return Err(SqlError::not_supported(what).into_df());
            }
            frames::check(&window.params, schema)?;
            for part in &mut window.params.partition_by {
                *part = collated(part.clone(), schema)?;
            }
            for sort in &mut window.params.order_by {
                sort.expr = in_window_order(sort.expr.clone(), schema)?;
            }
            Ok(Transformed::yes(Expr::WindowFunction(window)))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn is_sum_of_doubles(function: &AggregateUDF, args: &[Expr], schema: &DFSchema) -> DfResult<bool> {
    let is_sum = function.name() == "sum" && args.len() == 1;
    Ok(is_sum && args[0].get_type(schema)? == DataType::Float64)
}

/// True for functions of numbers, for which values of ENUMs are their numbers.
fn takes_numbers(function: &ScalarFunction) -> bool {
    (0..function.args.len()).any(|argument| takes_number(function, argument))
}

fn takes_number(function: &ScalarFunction, argument: usize) -> bool {
    match (function.func.name(), function.args.get(1)) {
        (casts::NAME, Some(Expr::Literal(target, _))) => {
            let target = target.try_as_str().flatten();
            argument == 0 && target.is_some_and(casts::Target::is_number)
        }
        (name, _) if exact::accepts(name, function.args.len()) == Some(true) => argument == 0,
        (name, _) => library::takes_number(name, argument),
    }
}

fn lower_numbers(mut function: ScalarFunction, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    for argument in 0..function.args.len() {
        if takes_number(&function, argument) {
            let value = function.args[argument].clone();
            function.args[argument] = unrounded(as_number(value, schema)?, schema)?;
        }
    }
    lower_library(function, schema).map(|lowered| Transformed::yes(lowered.data))
}

/// Makes the arguments of COUNT(*) those of COUNT(1), which is the same.
fn count_rows(args: &mut [Expr]) {
    for arg in args {
        #[expect(
            deprecated,
            reason = "the planner makes it of the asterisk over a window"
        )]
        if matches!(arg, Expr::Wildcard { .. }) {
            *arg = lit(1_i64);
        }
    }
}

/// MIN and MAX compare what is shown, which is not how JSON compares.
pub(super) fn check_extreme(function: &str, args: &[Expr], schema: &DFSchema) -> DfResult<()> {
    for arg in args {
        if matches!(function, "min" | "max") && is_json(&arg.get_type(schema)?) {
            return Err(SqlError::not_supported("MIN and MAX of JSON").into_df());
        }
    }
    Ok(())
}

pub(super) fn sum_argument(arg: Expr, schema: &DFSchema) -> DfResult<Expr> {
    let arg = as_number(arg, schema)?;
    let from = arg.get_type(schema)?;
    let to = sum_type(&from)?;
    Ok(match &from {
        from if *from == to => arg,
        DataType::Boolean => cast(cast(arg, DataType::Int64), to),
        from if is_string(from) => cast_to(arg, casts::Target::Double),
        from if has_more_digits(from) => cast(call(SumInRange::default().into(), vec![arg]), to),
        _ => cast(arg, to),
    })
}

/// `x IN (…)` as DataFusion's list if every comparison is `x' = constant` with one `x'`; otherwise as
/// a disjunction. A NULL stands beside the list: DataFusion takes values out of lists.
pub(super) fn lower_in(mut args: Vec<Expr>, schema: &DFSchema) -> DfResult<Expr> {
    let operand = args.remove(0);
    let (nulls, values): (Vec<_>, Vec<_>) = args
        .into_iter()
        .partition(|item| matches!(item, Expr::Literal(value, _) if value.is_null()));
    let null = nulls.first().map(|_| lit(ScalarValue::Boolean(None)));
    let found = match list_of(&operand, &values, schema)? {
        Some(list) => Some(Expr::InList(list)),
        None => one_of(&operand, values, schema)?,
    };
    disjunction(found.into_iter().chain(null))
        .ok_or_else(|| SqlError::not_supported("an empty IN list").into_df())
}

/// The list of the constants that one operand is compared with, if that is all and they are of one type.
pub(super) fn list_of(
    operand: &Expr,
    values: &[Expr],
    schema: &DFSchema,
) -> DfResult<Option<InList>> {
    let mut compared: Option<(Box<Expr>, DataType)> = None;
    let mut list = Vec::with_capacity(values.len());
    for value in values {
        interrupt::check_df()?;
        let comparison = compare(Operator::Eq, operand.clone(), value.clone(), schema)?;
        let Expr::BinaryExpr(binary) = comparison else {
            return Ok(None);
        };
        let Expr::Literal(literal, _) = binary.right.as_ref() else {
            return Ok(None);
        };
        let ty = literal.data_type();
        match &compared {
            _ if binary.op != Operator::Eq => return Ok(None),
            Some((left, known)) if *left != binary.left || *known != ty => return Ok(None),
            Some(_) => {}
            None => compared = Some((binary.left, ty)),
        }
        list.push(*binary.right);
    }
    Ok(match compared {
        Some((operand, _)) if list.len() > 1 => Some(InList::new(operand, list, false)),
        _ => None,
    })
}

/// `x = a OR x = b OR …`, as a shallow tree.
fn one_of(operand: &Expr, values: Vec<Expr>, schema: &DFSchema) -> DfResult<Option<Expr>> {
    if values.len() > MAX_TERMS {
        return Err(SqlError::too_long(MAX_TERMS).into_df());
    }
    let mut comparisons = Vec::with_capacity(values.len());
    for value in values {
        interrupt::check_df()?;
        comparisons.push(compare(Operator::Eq, operand.clone(), value, schema)?);
    }
    Ok(match comparisons.is_empty() {
        true => None,
        false => Some(halves(comparisons, &Expr::or)),
    })
}

fn lower_like(like: Like, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    if let Some(members) = metadata::members(&like.expr.to_field(schema)?.1)
        && let Some(listed) = enum_like(&like, members, schema)?
    {
        return Ok(Transformed::yes(listed));
    }
    let text = |expr: Box<Expr>| -> DfResult<Box<Expr>> {
        let ty = expr.get_type(schema)?;
        if (is_string(&ty) && !is_json(&ty)) || ty == DataType::Null {
            return Ok(expr);
        }
        Ok(Box::new(cast_to(*expr, casts::Target::Char(None))))
    };
    let is_binary = |expr: &Expr| -> DfResult<bool> { Ok(is_bytes(&expr.get_type(schema)?)) };
    let (left, right) = (like.expr.clone(), like.pattern.clone());
    let (expr, pattern) = if is_binary(&left)? || is_binary(&right)? {
        // A character of a pattern is a byte then.
        let latin = |expr: Expr| Box::new(call(Latin::default().into(), vec![expr]));
        (latin(*left), latin(*right))
    } else {
        let (expr, pattern) = (text(left)?, text(right)?);
        let common = collation::common(&expr, &pattern, schema)?;
        let weighed = |expr: Expr| Box::new(collation::weighed(expr, common));
        (weighed(*expr), weighed(*pattern))
    };
    let constant = match pattern.as_ref() {
        Expr::Literal(pattern, _) => pattern.try_as_str().flatten(),
        _ => None,
    };
    if constant.is_none_or(|pattern| !patterns::is_simple(pattern)) {
        let matches = call(patterns::Like::default().into(), vec![*expr, *pattern]);
        return Ok(Transformed::yes(match like.negated {
            true => Expr::Not(Box::new(matches)),
            false => matches,
        }));
    }
    Ok(Transformed::yes(Expr::Like(Like {
        expr,
        pattern,
        ..like
    })))
}

/// A value of an ENUM beside a constant pattern: its number is one of those of the texts that match.
pub(super) fn enum_like(
    like: &Like,
    members: Members,
    schema: &DFSchema,
) -> DfResult<Option<Expr>> {
    let common = collation::common(&like.expr, &like.pattern, schema)?;
    let Expr::Literal(pattern, _) = like.pattern.as_ref() else {
        return Ok(None);
    };
    let Some(Some(pattern)) = pattern.try_as_str() else {
        return Ok(None);
    };
    let pattern = LikePattern::collated(pattern, '\\', common);
    let matching = members.numbers(|text| pattern.matches(text.as_bytes()));
    let list = match &matching[..] {
        [] => vec![enumeration::literal(None)],
        matching => matching
            .iter()
            .map(|number| enumeration::literal(Some(*number)))
            .collect(),
    };
    let number = enumeration::number_of(like.expr.as_ref().clone(), members);
    Ok(Some(Expr::InList(InList::new(
        Box::new(number),
        list,
        like.negated,
    ))))
}

pub(super) fn lower_in_subquery(
    subquery: InSubquery,
    schema: &DFSchema,
) -> DfResult<Transformed<Expr>> {
    let InSubquery {
        expr,
        mut subquery,
        negated,
    } = subquery;
    let field = subquery.subquery.schema().field(0);
    let (left, right) = (expr.get_type(schema)?, field.data_type().clone());
    if is_string(&left) && is_string(&right) && is_json(&left) == is_json(&right) {
        let inner = subquery.subquery.schema();
        let (relation, field) = inner.qualified_field(0);
        let column = Expr::Column(Column::new(relation.cloned(), field.name()));
        let common = collation::common_of(&expr, schema, &column, inner)?;
        subquery.subquery = Arc::new(collate_output(&subquery.subquery, common)?);
        let expr = Box::new(collation::compared(*expr, common, schema)?);
        return Ok(Transformed::yes(Expr::InSubquery(InSubquery {
            expr,
            subquery,
            negated,
        })));
    }
    if is_temporal(&left) && is_temporal(&right) && left != right {
        // DataFusion's common type is one of nanoseconds, which end in the year 2262.
        let inner = subquery.subquery.schema();
        let (relation, field) = inner.qualified_field(0);
        let column = Expr::Column(Column::new(relation.cloned(), field.name()));
        let column = cast(column, datetime()).alias(field.name());
        let projected = Projection::try_new(vec![column], Arc::clone(&subquery.subquery))?;
        subquery.subquery = Arc::new(LogicalPlan::Projection(projected));
        let expr = Box::new(cast(*expr, datetime()));
        return Ok(Transformed::yes(Expr::InSubquery(InSubquery {
            expr,
            subquery,
            negated,
        })));
    }
    let same = left == right
        || left == DataType::Null
        || (left.is_numeric() && right.is_numeric() && have_common_type(&left, &right));
    if !same {
        let what = "IN with a subquery of another type";
        return Err(SqlError::not_supported(what).into_df());
    }
    Ok(Transformed::yes(Expr::InSubquery(InSubquery {
        expr,
        subquery,
        negated,
    })))
}

/// False if one of two types of numbers is a wide decimal and no type has all digits of both.
fn have_common_type(left: &DataType, right: &DataType) -> bool {
    let narrow = !wide::is_wide(left) && !wide::is_wide(right);
    narrow || wide::common_type(left, right).is_some()
}

/// True if the first argument is a string that compares by weights.
pub(super) fn by_weights(args: &[Expr], schema: &DFSchema) -> DfResult<bool> {
    let Some(arg) = args.first() else {
        return Ok(false);
    };
    Ok(is_string(&arg.get_type(schema)?)
        && collation::collation_of(arg, schema)? != Collation::UTF8MB4_BIN)
}

/// MIN and MAX of JSON and of strings that compare by weights: the first value in that order. Of equal values the
/// one that is first as bytes.
pub(super) fn extreme_of_text(
    aggregate: &AggregateFunction,
    schema: &DFSchema,
) -> DfResult<Option<Expr>> {
    let ascending = match aggregate.func.name() {
        "min" => true,
        "max" => false,
        _ => return Ok(None),
    };
    let params = &aggregate.params;
    let arg = params.args[0].clone();
    let of_json = is_json(&arg.get_type(schema)?);
    if !of_json && !by_weights(&params.args, schema)? {
        return Ok(None);
    }
    let key = match of_json {
        true => json::order_of(arg.clone()),
        false => without_padding(arg.clone(), schema)?,
    };
    let order = vec![key.sort(ascending, false), arg.clone().sort(true, false)];
    let arg = match of_json {
        true => arg,
        false => {
            let own = collation::collation_of(&arg, schema)?;
            collation::of_no_column(arg, own)
        }
    };
    Ok(Some(Expr::AggregateFunction(AggregateFunction::new_udf(
        first_value_udaf(),
        vec![arg],
        false,
        params.filter.clone(),
        order,
        Some(NullTreatment::IgnoreNulls),
    ))))
}

/// LOCATE of strings that compare by weights is another function. Bytes have none.
/// A function of the library gets what it has to know of its place in the statement: the collation in which its
/// arguments compare, and a memory of its own.
fn lower_library(mut function: ScalarFunction, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    let Some(entry) = library::of_plan(function.func.name()) else {
        return Ok(Transformed::no(Expr::ScalarFunction(function)));
    };
    if ["greatest", "least"].contains(&entry.name()) {
        let common = branches::common_of(&function.args, schema)?;
        for value in &mut function.args {
            *value = common.convert(std::mem::take(value), schema)?;
        }
    }
    if entry.collates {
        let mut has_bytes = false;
        for argument in &function.args {
            has_bytes |= is_bytes(&argument.get_type(schema)?);
        }
        let collation = match has_bytes {
            true => Collation::BINARY,
            false => collation::common_of_all(&function.args, schema)?,
        };
        function.func = library::instance(entry, collation);
    } else if !entry.deterministic {
        function.func = library::instance(entry, Collation::UTF8MB4_BIN);
    }
    Ok(Transformed::yes(Expr::ScalarFunction(function)))
}

/// COUNT(DISTINCT s) and the like count strings that differ under the collation.
pub(super) fn distinct_argument(
    mut aggregate: AggregateFunction,
    schema: &DFSchema,
) -> DfResult<Transformed<Expr>> {
    if !aggregate.params.distinct {
        return Ok(Transformed::no(Expr::AggregateFunction(aggregate)));
    }
    for arg in &mut aggregate.params.args {
        *arg = collated(arg.clone(), schema)?;
    }
    Ok(Transformed::yes(Expr::AggregateFunction(aggregate)))
}

fn needs_padding(expr: &Expr, schema: &DFSchema) -> DfResult<bool> {
    if metadata::is_enum(&expr.to_field(schema)?.1) {
        return Ok(true);
    }
    let ty = expr.get_type(schema)?;
    Ok(is_json(&ty) || (is_string(&ty) && without_padding(expr.clone(), schema)? != *expr))
}

/// A string cut for comparison, JSON as the bytes that it is compared by, the number of a value of an ENUM,
/// anything else as it is.
pub(super) fn collated(expr: Expr, schema: &DFSchema) -> DfResult<Expr> {
    if let Some(members) = metadata::members(&expr.to_field(schema)?.1) {
        return Ok(enumeration::number_of(expr, members));
    }
    if is_json(&expr.get_type(schema)?) {
        return Ok(json::order_of(expr));
    }
    if is_string(&expr.get_type(schema)?) && !matches!(expr, Expr::Literal(..)) {
        return without_padding(expr, schema);
    }
    Ok(expr)
}

/// What a window orders by: DataFusion's have no frames over bytes.
pub(super) fn in_window_order(expr: Expr, schema: &DFSchema) -> DfResult<Expr> {
    let expr = collated(expr, schema)?;
    Ok(match is_bytes(&expr.get_type(schema)?) {
        true => call(Latin::default().into(), vec![expr]),
        false => expr,
    })
}

/// Name of the column that carries what a group's key looks like; a column cannot be named so.
const SHOWN: &str = "/shown@";

/// Groups strings as their collation compares them: by the value without trailing spaces, and beside
/// it the group's least value as it is stored, which takes the key's place in the output.
pub(super) fn group_by(aggregate: Aggregate) -> DfResult<LogicalPlan> {
    let keyed = keyed_tables(&aggregate);
    // The keys of grouping sets are one expression, and several columns.
    let of_sets = match aggregate.group_expr[..] {
        [Expr::GroupingSet(_)] => Some(aggregate.group_expr_len()?),
        _ => None,
    };
    let Aggregate {
        input,
        mut group_expr,
        mut aggr_expr,
        schema,
        ..
    } = aggregate;
    // A key that is named twice is one column of the output.
    let mut known = HashSet::new();
    group_expr.retain(|expr| known.insert(expr.clone()));
    let mut shown = vec![None; group_expr.len()];
    for (i, expr) in group_expr.iter_mut().enumerate() {
        if matches!(expr, Expr::GroupingSet(_))
            || belongs_to(expr.unalias_ref(), &keyed)
            || !needs_padding(expr.unalias_ref(), input.schema())?
        {
            continue;
        }
        let (relation, name) = expr.qualified_name();
        let value = expr.clone().unalias();
        shown[i] = Some(
            match metadata::members(&value.to_field(input.schema())?.1) {
                // One text has one number.
                Some(members) => {
                    let key = Expr::Column(Column::new(relation.clone(), &name));
                    enumeration::text_of(key, members)
                }
                None => {
                    let carrier = format!("{SHOWN}{i}");
                    aggr_expr.push(min(value.clone()).alias(&carrier));
                    Expr::Column(Column::new_unqualified(carrier))
                }
            },
        );
        *expr = collated(value, input.schema())?.alias_qualified(relation, name);
    }
    let groups = of_sets.unwrap_or(shown.len());
    let mut digits = vec![0; groups];
    for expr in &aggr_expr {
        digits.push(extreme_digits(expr.unalias_ref(), input.schema())?);
    }
    let changed = shown.iter().any(Option::is_some) || digits.iter().any(|digits| *digits > 0);
    let aggregate = Aggregate::try_new(input, group_expr, aggr_expr)?;
    if !changed {
        return Ok(LogicalPlan::Aggregate(aggregate));
    }
    let column = |i: usize, relation: Option<&TableReference>, field: &Field| {
        let name = field.name();
        if let Some(Some(shown)) = shown.get(i) {
            let metadata = Some(FieldMetadata::from(field));
            let shown = shown.clone();
            return Ok(shown.alias_qualified_with_metadata(relation.cloned(), name, metadata));
        }
        let column = Expr::Column(Column::new(relation.cloned(), name));
        let column = with_digits(column, digits[i], &aggregate.schema)?;
        Ok(match column.transformed {
            true => column.data.alias_qualified(relation.cloned(), name),
            false => column.data,
        })
    };
    let columns = schema.iter().enumerate();
    let columns = columns
        .map(|(i, (relation, field))| column(i, relation, field))
        .collect::<DfResult<_>>()?;
    Ok(LogicalPlan::Projection(Projection::try_new(
        columns,
        Arc::new(LogicalPlan::Aggregate(aggregate)),
    )?))
}

/// Checks sums of wide decimals, which DataFusion gives more digits than a DECIMAL has.
pub(super) fn sums_in_range(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let outputs = plan.schema().fields().iter().zip(are_sums(&plan));
    let are_longer: Vec<bool> = outputs
        .map(|(field, is_sum)| is_sum && has_more_digits(field.data_type()))
        .collect();
    if !are_longer.contains(&true) {
        return Ok(plan);
    }
    let columns = plan.schema().iter().zip(are_longer);
    let columns = columns.map(|((relation, field), is_longer)| {
        let column = Expr::Column(Column::new(relation.cloned(), field.name()));
        match is_longer {
            true => call(SumInRange::default().into(), vec![column])
                .alias_qualified(relation.cloned(), field.name()),
            false => column,
        }
    });
    let columns = columns.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(
        columns,
        Arc::new(plan),
    )?))
}

/// True for decimals of more digits than a DECIMAL has.
fn has_more_digits(ty: &DataType) -> bool {
    matches!(ty, DataType::Decimal256(p, _) if *p > MAX_WIDE_PRECISION)
}

/// Which outputs of an aggregation, or of the projection that [`group_by`] lays over it, are sums.
fn are_sums(plan: &LogicalPlan) -> Vec<bool> {
    let aggregate = match plan {
        LogicalPlan::Projection(projection) => projection.input.as_ref(),
        plan => plan,
    };
    let LogicalPlan::Aggregate(aggregate) = aggregate else {
        return vec![false; plan.schema().fields().len()];
    };
    let is_sum = |expr: &Expr| matches!(expr.unalias_ref(), Expr::AggregateFunction(function) if function.func.name() == "sum");
    let groups = vec![false; aggregate.group_expr_len().unwrap_or_default()];
    let sums = aggregate.aggr_expr.iter().map(is_sum);
    groups.into_iter().chain(sums).collect()
}

/// The tables whose whole primary key is grouped by. Their other columns have one value in a group,
/// whose bytes are all equal: it need not be cut, and is shown as it is stored.
fn keyed_tables(aggregate: &Aggregate) -> Vec<TableReference> {
    let mut tables = Vec::new();
    whole_tables(&aggregate.input, &mut tables);
    tables.retain(|(table, schema)| {
        let is_grouped = |name: &str| {
            aggregate
                .group_expr
                .iter()
                .any(|expr| match expr.unalias_ref() {
                    Expr::Column(column) => {
                        column.relation.as_ref() == Some(table) && column.name == name
                    }
                    _ => false,
                })
        };
        let is_key = |field: &Field| {
            metadata::origin(field).is_some_and(|origin| origin.flags & PRIMARY_KEY != 0)
        };
        let fields = schema.fields();
        fields.iter().any(|field| is_key(field))
            && fields
                .iter()
                .all(|field| !is_key(field) || is_grouped(field.name()))
    });
    tables.into_iter().map(|(table, _)| table).collect()
}

/// Tables that a plan reads with all their columns. Derived tables are none: there, a column of the
/// key may stand beside columns of other rows.
fn whole_tables(plan: &LogicalPlan, out: &mut Vec<(TableReference, DFSchemaRef)>) {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => {
            if matches!(alias.input.as_ref(), LogicalPlan::TableScan(_)) {
                out.push((alias.alias.clone(), Arc::clone(&alias.schema)));
            }
        }
        LogicalPlan::Filter(filter) => whole_tables(&filter.input, out),
        LogicalPlan::Join(join) => {
            whole_tables(&join.left, out);
            whole_tables(&join.right, out);
        }
        _ => {}
    }
}

fn belongs_to(expr: &Expr, tables: &[TableReference]) -> bool {
    match expr {
        Expr::Column(column) => column.relation.as_ref().is_some_and(|r| tables.contains(r)),
        _ => false,
    }
}

/// An expression below its names.
pub(super) trait UnaliasRef {
    /// It.
    fn unalias_ref(&self) -> &Expr;
}

impl UnaliasRef for Expr {
    fn unalias_ref(&self) -> &Expr {
        match self {
            Expr::Alias(alias) => alias.expr.unalias_ref(),
            other => other,
        }
    }
}

pub(super) fn order_by(sort: Sort) -> DfResult<LogicalPlan> {
    let Sort { expr, input, fetch } = sort;
    let mut sorted = Vec::with_capacity(expr.len());
    for SortExpr {
        expr,
        asc,
        nulls_first,
    } in expr
    {
        let expr = collated(expr, input.schema())?;
        sorted.push(SortExpr {
            expr,
            asc,
            nulls_first,
        });
    }
    keys::sorted(Sort {
        expr: sorted,
        input,
        fetch,
    })
}

/// DISTINCT over strings is GROUP BY of all columns.
pub(super) fn distinct(input: Arc<LogicalPlan>) -> DfResult<LogicalPlan> {
    let columns: Vec<Expr> = input
        .schema()
        .iter()
        .map(|(relation, field)| Expr::Column(Column::new(relation.cloned(), field.name())))
        .collect();
    for column in &columns {
        if needs_padding(column, input.schema())? {
            return group_by(Aggregate::try_new(input, columns, Vec::new())?);
        }
    }
    Ok(LogicalPlan::Distinct(Distinct::All(input)))
}

/// A projection that makes the strings of a plan's output comparable, if they are not.
fn collate_output(input: &Arc<LogicalPlan>, common: Collation) -> DfResult<LogicalPlan> {
    let schema = input.schema();
    let mut changed = false;
    let mut columns = Vec::with_capacity(schema.fields().len());
    for (relation, field) in schema.iter() {
        let column = Expr::Column(Column::new(relation.cloned(), field.name()));
        let compared = match is_string(field.data_type()) {
            true => collation::compared(column.clone(), common, schema)?,
            false => column.clone(),
        };
        if compared == column {
            columns.push(column);
        } else {
            changed = true;
            columns.push(compared.alias_qualified(relation.cloned(), field.name()));
        }
    }
    if !changed {
        return Ok(input.as_ref().clone());
    }
    Ok(LogicalPlan::Projection(Projection::try_new(
        columns,
        Arc::clone(input),
    )?))
}
