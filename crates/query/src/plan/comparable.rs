//! Values in the form in which rows are compared without a comparison operator: in ORDER BY, in windows, as arguments of
//! aggregates, and by IN with a subquery.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result as DfResult};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{
    AggregateFunction, InList, InSubquery, Like, NullTreatment, Sort as SortExpr,
};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Projection, Sort, cast};
use perigee_value::{Collation, LikePattern, Members};

use super::operators::{as_number, call, cast_to, without_padding};
use super::{collation, keys, metadata};
use crate::error::SqlError;
use crate::functions::collation::Latin;
use crate::functions::types::{
    MAX_PRECISION, MAX_WIDE_PRECISION, Number, datetime, is_bytes, is_json, is_string, is_temporal,
    mysql_name, number_of,
};
use crate::functions::wide::{self, SumInRange};
use crate::functions::{cast as casts, enumeration, json};

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

/// True if the first argument is a string that compares by weights.
pub(super) fn by_weights(args: &[Expr], schema: &DFSchema) -> DfResult<bool> {
    let Some(arg) = args.first() else {
        return Ok(false);
    };
    Ok(is_string(&arg.get_type(schema)?)
        && collation::collation_of(arg, schema)? != Collation::UTF8MB4_BIN)
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

/// What SUM adds up. Integers become exact decimals, so that no sum overflows; strings become doubles.
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

/// Most digits of decimals whose sum has its digits in 128 bits: ten more are those of 10^10 rows of the greatest
/// values. Storage adds the others up in 192 bits and gives out parts of at most 38 digits each.
const MAX_NARROW: u8 = MAX_PRECISION - 10;

/// Type of the values that SUM adds up for arguments of type `ty`.
fn sum_type(ty: &DataType) -> DfResult<DataType> {
    Ok(match number_of(ty) {
        // 20 digits hold every BIGINT; the sum gets ten more.
        Some(Number::Int(_) | Number::UInt(_)) => DataType::Decimal128(20, 0),
        // Ten digits more come from the sum itself: 22 in all, as in MySQL.
        Some(Number::Decimal(p, s)) if p > MAX_NARROW => {
            DataType::Decimal256((p + 12).min(MAX_WIDE_PRECISION), s as i8)
        }
        Some(Number::Decimal(..)) => ty.clone(),
        Some(Number::Double | Number::Null) => DataType::Float64,
        None => {
            let what = format!("SUM or AVG of {}", mysql_name(ty));
            return Err(SqlError::not_supported(what).into_df());
        }
    })
}

/// True for decimals of more digits than a DECIMAL has.
pub(super) fn has_more_digits(ty: &DataType) -> bool {
    matches!(ty, DataType::Decimal256(p, _) if *p > MAX_WIDE_PRECISION)
}

/// A value of an ENUM or a SET beside a constant pattern: its number is one of those of the texts that match.
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
    let Some(matching) = members.numbers(|text| pattern.matches(text.as_bytes())) else {
        return Ok(None);
    };
    let literal = |number| enumeration::literal(&members, number);
    let list = match &matching[..] {
        [] => vec![literal(None)],
        matching => matching
            .iter()
            .map(|number| literal(Some(*number)))
            .collect(),
    };
    let number = enumeration::number_of(like.expr.as_ref().clone(), members);
    Ok(Some(Expr::InList(InList::new(
        Box::new(number),
        list,
        like.negated,
    ))))
}

pub(super) fn in_subquery(subquery: InSubquery, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
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
