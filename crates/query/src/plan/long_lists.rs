//! `x IN (…)` with a long list ([`crate::functions::long_list`]), once the type of `x` is known: every value is
//! compared as if it stood alone, but none becomes an expression that stays.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use datafusion::arrow::compute::{cast as cast_array, concat};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result as DfResult, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{Expr, ExprSchemable, ScalarUDF, cast, lit};
use perigee_value::collation::compared_by;

use crate::error::SqlError;
use crate::functions::long_list::{LongList, Members};
use crate::functions::types::{is_json, is_string};
use crate::interrupt;
use crate::parse::MAX_TERMS;
use crate::plan::operators::call;
use crate::plan::typing::{list_of, lower_in};
use crate::plan::{collation, metadata};

/// Values that are compared at a time.
const CHUNK: usize = 4096;

fn list_in(function: &ScalarUDF) -> Option<&LongList> {
    let function: &dyn Any = function.inner().as_ref();
    function.downcast_ref()
}

/// True for `x IN` a long list whose values have no type yet.
pub(super) fn is_one(function: &ScalarFunction) -> bool {
    list_in(&function.func).is_some() && function.args.len() == 1
}

/// The condition that an operand is in a long list.
///
/// # Errors
/// As for short lists.
pub(super) fn lowered(function: &ScalarUDF, operand: Expr, schema: &DFSchema) -> DfResult<Expr> {
    let Some(list) = list_in(function) else {
        return datafusion::common::internal_err!("Q1: a function of no long list");
    };
    let compared = match is_plain_integer(&operand, list, schema)? {
        true => Some((operand.clone(), list.values().clone())),
        false => match texts(&operand, list, schema)? {
            Some(found) => Some(found),
            None => compared(&operand, list, schema)?,
        },
    };
    let found = match compared {
        None => None,
        Some((left, values)) => {
            let ty = left.get_type(schema)?;
            let common = common_type(&ty, values.data_type());
            common.map(|common| (left, ty, values, common))
        }
    };
    let Some((left, ty, values, common)) = found else {
        // Comparisons that differ from value to value are an OR.
        if list.values().len() > MAX_TERMS {
            return Err(SqlError::too_long(MAX_TERMS).into_df());
        }
        let values = (0..list.values().len()).map(|at| literal(list, at));
        let args = std::iter::once(Ok(operand)).chain(values);
        return lower_in(args.collect::<DfResult<_>>()?, schema);
    };
    let values = cast_array(&values, &common)?;
    let left = match ty == common {
        true => left,
        false => cast(left, common),
    };
    Ok(call(Members::new(list, values)?.into(), vec![left]))
}

fn literal(list: &LongList, at: usize) -> DfResult<Expr> {
    Ok(lit(ScalarValue::try_from_array(list.values(), at)?))
}

/// The type in which both are compared, if its values are equal where they are one.
fn common_type(left: &DataType, values: &DataType) -> Option<DataType> {
    let common = match left == values {
        true => left.clone(),
        false => comparison_coercion(left, values)?,
    };
    (!common.is_nested()).then_some(common)
}

/// True for an integer beside integers, which are compared as they are.
fn is_plain_integer(operand: &Expr, list: &LongList, schema: &DFSchema) -> DfResult<bool> {
    let (_, field) = operand.to_field(schema)?;
    let ty = field.data_type();
    let fits = ty.is_signed_integer()
        || matches!(ty, DataType::UInt8 | DataType::UInt16 | DataType::UInt32);
    let is_plain = !metadata::is_enum(&field) && !metadata::is_year(&field);
    Ok(fits && is_plain && *list.values().data_type() == DataType::Int64)
}

/// A string beside strings: what their collation compares of both.
fn texts(operand: &Expr, list: &LongList, schema: &DFSchema) -> DfResult<Option<(Expr, ArrayRef)>> {
    let (_, field) = operand.to_field(schema)?;
    let ty = field.data_type();
    if !is_string(ty) || is_json(ty) || metadata::is_enum(&field) {
        return Ok(None);
    }
    let Some(values) = list.values().as_string_view_opt() else {
        return Ok(None);
    };
    let common = collation::common(operand, &literal(list, 0)?, schema)?;
    let left = collation::compared(operand.clone(), common, schema)?;
    let mut keys = StringViewBuilder::with_capacity(values.len());
    for (at, value) in values.iter().enumerate() {
        if at.is_multiple_of(CHUNK) {
            interrupt::check_df()?;
        }
        let weights = value.map(|value| compared_by(common, value.as_bytes()));
        let text = weights.as_deref().map(String::from_utf8_lossy);
        keys.append_option(text.as_deref().map(|text| text.trim_end_matches(' ')));
    }
    Ok(Some((left, Arc::new(keys.finish()))))
}

/// What is compared with the values, and the values as they are compared; `None` if that differs from value to value.
fn compared(
    operand: &Expr,
    list: &LongList,
    schema: &DFSchema,
) -> DfResult<Option<(Expr, ArrayRef)>> {
    let count = list.values().len();
    let (mut left, mut chunks) = (None, Vec::<ArrayRef>::new());
    for start in (0..count).step_by(CHUNK) {
        interrupt::check_df()?;
        let values = start..count.min(start + CHUNK);
        let values = values.map(|at| literal(list, at));
        let values: Vec<Expr> = values.collect::<DfResult<_>>()?;
        let Some(found) = list_of(operand, &values, schema)? else {
            return Ok(None);
        };
        if *left.get_or_insert_with(|| found.expr.clone()) != found.expr {
            return Ok(None);
        }
        let values = found.list.into_iter().map(|value| match value {
            Expr::Literal(value, _) => Some(value),
            _ => None,
        });
        let Some(values) = values.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        chunks.push(ScalarValue::iter_to_array(values)?);
    }
    let is_one_type = chunks
        .windows(2)
        .all(|pair| pair[0].data_type() == pair[1].data_type());
    let (Some(left), true) = (left, is_one_type) else {
        return Ok(None);
    };
    let chunks: Vec<&dyn Array> = chunks.iter().map(Arc::as_ref).collect();
    Ok(Some((*left, concat(&chunks)?)))
}
