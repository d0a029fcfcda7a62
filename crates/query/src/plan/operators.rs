//! Comparisons of operands in a plan.
//!
//! A comparison becomes DataFusion's own over operands that were made comparable by MySQL's rules, so that its
//! optimizer (join keys, pushdown, pruning) understands it. Constants have the form that the binder gave them. Mixed
//! comparisons that are not done here are error 1235.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result as DfResult, ScalarValue};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::{Expr, Operator, ScalarUDF, binary_expr, cast, lit};
use perigee_engine::ndp::column_data_type;
use perigee_value::{Collation, ColumnType, Members, Units, decimal};

use crate::error::SqlError;
use crate::functions::collation::COLLATE;
use crate::functions::types::{
    MAX_PRECISION, Number, datetime, is_bytes, is_json, is_string, is_temporal, is_time,
    mysql_name, number_of,
};
use crate::functions::{cast as casts, enumeration, json, text, wide};
use crate::plan::field::{field_of, type_of};
use crate::plan::moments::{as_time, moments};
use crate::plan::{collation, metadata};

/// What an integer literal is.
pub(super) const BIGINT: ColumnType = ColumnType::Int {
    bytes: 8,
    unsigned: false,
};

/// A call of one of our functions.
#[must_use]
pub fn call(function: ScalarUDF, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), args))
}

/// `CAST(expr AS target)` by MySQL's rules.
#[must_use]
pub fn cast_to(expr: Expr, target: casts::Target) -> Expr {
    let (name, a, b) = target.arguments();
    call(
        casts::Cast::default().into(),
        vec![expr, lit(name), lit(a), lit(b)],
    )
}

/// The type of an operand.
///
/// # Errors
/// If it has none.
pub(super) fn type_of_operand(expr: &Expr, schema: &DFSchema) -> DfResult<DataType> {
    type_of(expr, schema)
}

/// `left op right` with MySQL's rules for operands of different types.
///
/// # Errors
/// 1235 for combinations that are not done here, 1525 for dates that are none.
pub fn compare(op: Operator, left: Expr, right: Expr, schema: &DFSchema) -> DfResult<Expr> {
    let (left, right) = match compare_enum(op, left, right, schema)? {
        Enums::Compared(compared) => return Ok(compared),
        Enums::Operands(left, right) => (left, right),
    };
    let left_type = type_of(&left, schema)?;
    let right_type = type_of(&right, schema)?;
    if is_json(&left_type) || is_json(&right_type) {
        return compare_json(op, (left, &left_type), (right, &right_type));
    }
    let (left, right) = comparable(left, &left_type, right, &right_type, schema)?;
    // `truth <> 0`, which conditions are wrapped in, is the truth value itself.
    if left_type == DataType::Boolean && op == Operator::NotEq && is_zero(&right) {
        return Ok(left);
    }
    let (left, right) = match (&left_type, &right_type) {
        (DataType::Boolean, DataType::Boolean) => (left, right),
        (DataType::Boolean, _) => (as_integer(left), right),
        (_, DataType::Boolean) => (left, as_integer(right)),
        _ => (left, right),
    };
    Ok(binary_expr(left, op, right))
}

/// Casts of comparisons, one in the other, that are left to DataFusion.
const NESTED_CASTS: usize = 3;

/// A truth value as a number. The type of DataFusion's cast is found by asking the operand twice, so that the time
/// doubles with each of them that is in another one; that of our function is known.
fn as_integer(truth: Expr) -> Expr {
    fn depth(expr: &Expr) -> usize {
        let inner = |side: &Expr| match side {
            Expr::Cast(cast) => 1 + depth(&cast.expr),
            _ => 0,
        };
        match expr {
            Expr::BinaryExpr(binary) => inner(&binary.left).max(inner(&binary.right)),
            _ => 0,
        }
    }
    match depth(&truth) >= NESTED_CASTS {
        true => cast_to(truth, casts::Target::Signed),
        false => cast(truth, DataType::Int64),
    }
}

/// An expression in a place of numbers: a value of an ENUM or a SET counts as its number, which has a
/// sign there.
///
/// # Errors
/// If the expression has no type.
pub fn as_number(expr: Expr, schema: &DFSchema) -> DfResult<Expr> {
    let field = field_of(&expr, schema)?;
    Ok(match metadata::members(&field) {
        Some(members) => {
            let ty = column_data_type(members.number_type());
            cast(enumeration::number_of(expr, members), ty)
        }
        None => expr,
    })
}

/// What becomes of a comparison in which there may be values of an ENUM.
pub(super) enum Enums {
    /// It is this.
    Compared(Expr),
    /// It is one of these operands.
    Operands(Expr, Expr),
}

/// `left op right` by numbers of an ENUM's values, where that is the same: then storage can do it.
pub(super) fn compare_enum(
    op: Operator,
    left: Expr,
    right: Expr,
    schema: &DFSchema,
) -> DfResult<Enums> {
    let fields = [field_of(&left, schema)?, field_of(&right, schema)?];
    let [of_left, of_right] = [metadata::members(&fields[0]), metadata::members(&fields[1])];
    let is_equality = matches!(
        op,
        Operator::Eq | Operator::NotEq | Operator::IsNotDistinctFrom
    );
    let number = |ty: &DataType| is_number(ty) || *ty == DataType::Boolean;
    Ok(match (of_left, of_right) {
        (Some(members), Some(others)) if members == others && is_equality => {
            let left = enumeration::number_of(left, members);
            let right = enumeration::number_of(right, others);
            Enums::Compared(binary_expr(left, op, right))
        }
        (Some(members), None) if number(fields[1].data_type()) => {
            Enums::Operands(enumeration::number_of(left, members), right)
        }
        (None, Some(members)) if number(fields[0].data_type()) => {
            Enums::Operands(left, enumeration::number_of(right, members))
        }
        (Some(members), None) => match compare_with_text(op, &left, &right, members, schema)? {
            Some(compared) => Enums::Compared(compared),
            None => Enums::Operands(left, right),
        },
        (None, Some(members)) => {
            let swapped = op.swap().unwrap_or(op);
            match compare_with_text(swapped, &right, &left, members, schema)? {
                Some(compared) => Enums::Compared(compared),
                None => Enums::Operands(left, right),
            }
        }
        _ => Enums::Operands(left, right),
    })
}

/// The most values of an ENUM or a SET that a condition lists.
const LISTED: usize = 1000;

/// A value of an ENUM or a SET beside a constant text: its number is one of those for which the comparison holds.
fn compare_with_text(
    op: Operator,
    value: &Expr,
    constant: &Expr,
    members: Members,
    schema: &DFSchema,
) -> DfResult<Option<Expr>> {
    let common = collation::common(value, constant, schema)?;
    let literal = match constant {
        Expr::ScalarFunction(function) if function.func.name() == COLLATE => &function.args[0],
        other => other,
    };
    let Expr::Literal(literal, _) = literal else {
        return Ok(None);
    };
    let (Some(Some(text)), false) = (literal.try_as_str(), is_json(&literal.data_type())) else {
        return Ok(None);
    };
    let holds = |member: &str| {
        let order = common.compare(member.as_bytes(), text.as_bytes());
        match op {
            Operator::Lt => order.is_lt(),
            Operator::LtEq => order.is_le(),
            Operator::Gt => order.is_gt(),
            Operator::GtEq => order.is_ge(),
            _ => order.is_eq(),
        }
    };
    let is_equality = matches!(
        op,
        Operator::Eq | Operator::NotEq | Operator::IsNotDistinctFrom
    );
    let found = match members.numbers(holds) {
        Some(found) => found,
        // Of the many values of a SET one may be equal: code points compare as members do.
        None if is_equality && common == Collation::UTF8MB4_BIN => {
            match members.shown(text.trim_end_matches(' ')) {
                Some(only) => vec![only],
                None => return Ok(None),
            }
        }
        None => return Ok(None),
    };
    let literal = |number| enumeration::literal(&members, number);
    let number = enumeration::number_of(value.clone(), members.clone());
    let equality = match op {
        Operator::NotEq | Operator::IsNotDistinctFrom => op,
        _ => Operator::Eq,
    };
    Ok(match found[..] {
        [] => Some(binary_expr(number, equality, literal(None))),
        [one] => Some(binary_expr(number, equality, literal(Some(one)))),
        _ if found.len() > LISTED || equality == Operator::IsNotDistinctFrom => None,
        _ => {
            let list = found.iter().map(|number| literal(Some(*number)));
            let list = InList::new(Box::new(number), list.collect(), op == Operator::NotEq);
            Some(Expr::InList(list))
        }
    })
}

/// `left op right` where one of them is JSON: then the other one is a JSON scalar.
fn compare_json(
    op: Operator,
    (left, left_type): (Expr, &DataType),
    (right, right_type): (Expr, &DataType),
) -> DfResult<Expr> {
    // Values of dates are strings here, but not in MySQL.
    let has_json = |ty| !is_temporal(ty) && !is_time(ty) && !is_bytes(ty);
    if !has_json(left_type) || !has_json(right_type) {
        return Err(mixed(left_type, right_type));
    }
    Ok(binary_expr(json::order_of(left), op, json::order_of(right)))
}

/// True for types of numbers; truth values are none.
pub(super) fn is_number(ty: &DataType) -> bool {
    number_of(ty).is_some() && !is_string(ty)
}

fn is_zero(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Int64(Some(0)), _))
}

fn comparable(
    left: Expr,
    left_type: &DataType,
    right: Expr,
    right_type: &DataType,
    schema: &DFSchema,
) -> DfResult<(Expr, Expr)> {
    let numeric = is_number;
    if *left_type == DataType::Null || *right_type == DataType::Null {
        return Ok((left, right));
    }
    if is_string(left_type) && is_string(right_type) {
        let common = collation::common(&left, &right, schema)?;
        return Ok((
            collation::compared(left, common, schema)?,
            collation::compared(right, common, schema)?,
        ));
    }
    let is_text_or_bytes = |ty| is_string(ty) || is_bytes(ty);
    if is_text_or_bytes(left_type) && is_text_or_bytes(right_type) {
        // With bytes on one side both are bytes, and all of them count.
        return Ok((as_bytes(left, left_type), as_bytes(right, right_type)));
    }
    if numeric(left_type) && numeric(right_type) {
        let (left, right) = (fit(left, right_type), fit(right, left_type));
        return numbers(left, right, schema);
    }
    if is_temporal(left_type) && is_temporal(right_type) {
        // DataFusion would compare nanoseconds, which end in the year 2262.
        let moment = |expr, ty: &DataType| match *ty == DataType::Date32 && left_type != right_type
        {
            true => cast(expr, datetime()),
            false => expr,
        };
        return Ok((moment(left, left_type), moment(right, right_type)));
    }
    if is_temporal(left_type) && !is_time(right_type) {
        return moments(left, right, right_type, left_type, schema);
    }
    if is_temporal(right_type) && !is_time(left_type) {
        let (right, left) = moments(right, left, left_type, right_type, schema)?;
        return Ok((left, right));
    }
    if is_time(left_type) {
        return Ok((left, as_time(right, right_type, left_type, schema)?));
    }
    if is_time(right_type) {
        return Ok((as_time(left, left_type, right_type, schema)?, right));
    }
    let double = |expr| cast_to(expr, casts::Target::Double);
    if is_bytes(left_type) && numeric(right_type) {
        return numbers(double(left), right, schema);
    }
    if numeric(left_type) && is_bytes(right_type) {
        return numbers(left, double(right), schema);
    }
    if is_string(left_type) && numeric(right_type) {
        return numbers(string_as_number(left), right, schema);
    }
    if numeric(left_type) && is_string(right_type) {
        return numbers(left, string_as_number(right), schema);
    }
    Err(mixed(left_type, right_type))
}

/// A string as its bytes.
#[must_use]
pub fn as_bytes(expr: Expr, ty: &DataType) -> Expr {
    match (&expr, ty) {
        (_, DataType::BinaryView) => expr,
        (Expr::Literal(value, metadata), _) => match value.cast_to(&DataType::BinaryView) {
            Ok(bytes) => Expr::Literal(bytes, metadata.clone()),
            Err(_) => cast(expr, DataType::BinaryView),
        },
        _ => cast(expr, DataType::BinaryView),
    }
}

pub(super) fn mixed(left: &DataType, right: &DataType) -> datafusion::error::DataFusionError {
    let what = format!(
        "comparison of {} with {}",
        mysql_name(left),
        mysql_name(right)
    );
    SqlError::not_supported(what).into_df()
}

/// A string whose equality is bytewise equality ([`collation::compared`]), in its own collation.
///
/// # Errors
/// If the expression has no type; 1267.
pub fn without_padding(expr: Expr, schema: &DFSchema) -> DfResult<Expr> {
    let own = collation::collation_of(&expr, schema)?;
    collation::compared(expr, own, schema)
}

/// Numbers that DataFusion compares as MySQL does: as DOUBLE if one is, otherwise by all digits of both.
fn numbers(left: Expr, right: Expr, schema: &DFSchema) -> DfResult<(Expr, Expr)> {
    let types = [type_of(&left, schema)?, type_of(&right, schema)?];
    let is_decimal = |ty: &DataType| matches!(number_of(ty), Some(Number::Decimal(..)));
    if types[0] == types[1] || !types.iter().any(is_decimal) {
        return Ok((left, right));
    }
    let is_exact = |ty| number_of(ty).and_then(Number::exact).is_some();
    if !types.iter().all(is_exact) {
        let double = |expr| cast_to(expr, casts::Target::Double);
        return Ok((double(left), double(right)));
    }
    wide_operands(left, right, &types)
}

/// Exact numbers of one type if one is wide, or they have more digits together than others.
fn wide_operands(left: Expr, right: Expr, types: &[DataType; 2]) -> DfResult<(Expr, Expr)> {
    let narrow = |ty: &DataType| matches!(ty, DataType::Decimal256(p, _) if *p <= MAX_PRECISION);
    let common = wide::common_type(&types[0], &types[1]);
    if !types.iter().any(wide::is_wide) && common.as_ref().is_some_and(narrow) {
        return Ok((left, right));
    }
    let Some(common) = common else {
        let key = |expr| call(wide::DecimalKey::default().into(), vec![expr]);
        return Ok((key(left), key(right)));
    };
    let converted = |expr, ty: &DataType| match ty {
        ty if *ty == common => expr,
        DataType::Boolean => cast(cast(expr, DataType::Int64), common.clone()),
        _ => cast(expr, common.clone()),
    };
    Ok((converted(left, &types[0]), converted(right, &types[1])))
}

/// A number literal as a literal of the other side's type, where that changes nothing; so that the
/// comparison needs no cast of a column.
fn fit(expr: Expr, other: &DataType) -> Expr {
    let Expr::Literal(value, metadata) = &expr else {
        return expr;
    };
    if wide::is_wide(&value.data_type()) || wide::is_wide(other) {
        return match fit_wide(value, other) {
            Some(fitted) => Expr::Literal(fitted, metadata.clone()),
            None => expr,
        };
    }
    let (units, scale) = match value {
        ScalarValue::Int64(Some(v)) => (i128::from(*v), 0),
        ScalarValue::UInt64(Some(v)) => (i128::from(*v), 0),
        ScalarValue::Decimal128(Some(v), _, s) if *s >= 0 => (*v, *s as u8),
        _ => return expr,
    };
    let fitted = match other {
        DataType::Decimal128(precision, s) => {
            let target = *s as u8;
            decimal::rescale(units, scale, target)
                .filter(|v| decimal::rescale(*v, target, scale) == Some(units))
                .filter(|v| decimal::fits(*v, *precision))
                .map(|v| ScalarValue::Decimal128(Some(v), *precision, *s))
        }
        ty if ty.is_integer() => {
            let whole = units % decimal::pow10(scale) == 0;
            let integer = i64::try_from(units / decimal::pow10(scale))
                .ok()
                .filter(|_| whole);
            integer.and_then(|v| ScalarValue::Int64(Some(v)).cast_to(ty).ok())
        }
        _ => None,
    };
    match fitted {
        Some(fitted) if !fitted.is_null() => Expr::Literal(fitted, metadata.clone()),
        _ => expr,
    }
}

/// As [`fit`], if the literal or the other side is a wide decimal.
fn fit_wide(value: &ScalarValue, other: &DataType) -> Option<ScalarValue> {
    let from = wide::scale_of(&value.data_type());
    let units = match value {
        ScalarValue::Int64(Some(v)) => i128::from(*v).into(),
        ScalarValue::UInt64(Some(v)) => i128::from(*v).into(),
        ScalarValue::Decimal128(Some(v), ..) => (*v).into(),
        ScalarValue::Decimal256(Some(v), ..) => wide::units(*v),
        _ => return None,
    };
    let to = wide::scale_of(other);
    let same = |fitted: &Units| fitted.rescale(to, from) == Some(units);
    let fitted = units.rescale(from, to).filter(same)?;
    match other {
        DataType::Decimal256(p, s) => {
            let native = wide::native(fitted, *p)?;
            Some(ScalarValue::Decimal256(Some(native), *p, *s))
        }
        DataType::Decimal128(p, s) => {
            let native = fitted.to_i128().filter(|v| decimal::fits(*v, *p))?;
            Some(ScalarValue::Decimal128(Some(native), *p, *s))
        }
        ty if ty.is_integer() => {
            let integer = i64::try_from(fitted.to_i128()?).ok()?;
            let fitted = ScalarValue::Int64(Some(integer)).cast_to(ty).ok()?;
            (!fitted.is_null()).then_some(fitted)
        }
        _ => None,
    }
}

/// A string as the number it begins with; exact if the literal is an exact number.
pub(super) fn string_as_number(expr: Expr) -> Expr {
    let Expr::Literal(value, metadata) = &expr else {
        return cast_to(expr, casts::Target::Double);
    };
    let Some(Some(literal)) = value.try_as_str() else {
        return cast_to(expr, casts::Target::Double);
    };
    let number = match literal.trim().parse::<i64>() {
        Ok(integer) => ScalarValue::Int64(Some(integer)),
        Err(_) => ScalarValue::Float64(Some(text::leading_number(literal))),
    };
    Expr::Literal(number, metadata.clone())
}
