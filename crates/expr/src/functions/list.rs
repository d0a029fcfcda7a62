//! Functions over lists of values: choosing one, finding one, joining texts.

use std::cmp::Ordering;

use perigee_value::Units;

use super::Kind::{Any, Bits, Bytes, Int, Text};
use super::{Argument, Call, Function, INT, MANY, Outcome, TEXT, Value, ValueType};

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new(
        &["concat_ws"],
        (2, MANY),
        &[Text],
        TEXT,
        "The strings that are not NULL, with a separator between them.",
        concat_ws,
    )
    .with_nulls(),
    Function::new(
        &["elt"],
        (2, MANY),
        &[Int, Text],
        TEXT,
        "The string with this number.",
        |c| {
            let number = match c.arguments[0] {
                Value::Int(number) => usize::try_from(number).unwrap_or(0),
                _ => 0,
            };
            Ok(match number {
                1.. if c.has(number) && !c.is_null(number) => Value::text(c.text(number)),
                _ => Value::Null,
            })
        },
    )
    .with_nulls(),
    Function::new(
        &["field"],
        (2, MANY),
        &[Any],
        INT,
        "The number of the first value that equals the first argument, or 0.",
        field,
    )
    .with_nulls()
    .by_collation(),
    Function::new(
        &["find_in_set"],
        (2, 2),
        &[Bytes],
        INT,
        "The number of a string in a list with commas, or 0.",
        |c| Ok(Value::Int(find_in_set(c))),
    )
    .by_collation(),
    Function::new(
        &["make_set"],
        (2, MANY),
        &[Bits, Text],
        TEXT,
        "The strings whose bits are set, with commas between them.",
        make_set,
    )
    .with_nulls(),
    Function::new(
        &["export_set"],
        (3, 5),
        &[Bits, Text, Text, Text, Int],
        TEXT,
        "A string for each bit, from the lowest on.",
        export_set,
    ),
    Function::new(
        &["greatest"],
        (2, MANY),
        &[Any],
        first_type,
        "The greatest of values of one type.",
        |c| Ok(extreme(c, Ordering::Greater)),
    )
    .by_collation(),
    Function::new(
        &["least"],
        (2, MANY),
        &[Any],
        first_type,
        "The least of values of one type.",
        |c| Ok(extreme(c, Ordering::Less)),
    )
    .by_collation(),
    Function::new(
        &["interval"],
        (2, MANY),
        &[Any],
        INT,
        "How many of the following values, which ascend, are not greater than the first.",
        interval,
    )
    .with_nulls(),
];

/// The caller gave all arguments one type before.
fn first_type(arguments: &[Argument<'_>]) -> ValueType {
    let mut types = arguments.iter().map(|argument| argument.ty);
    let known = types.find(|ty| *ty != ValueType::Null);
    known.unwrap_or(ValueType::Null)
}

fn concat_ws<'a>(c: &Call<'a>) -> Outcome<'a> {
    if c.is_null(0) {
        return Ok(Value::Null);
    }
    let separator = c.text(0);
    let texts = || (1..c.count()).filter(|i| !c.is_null(*i)).map(|i| c.text(i));
    let length: usize = texts().map(|text| text.len() + separator.len()).sum();
    if !c.has_room(length) {
        return Ok(Value::Null);
    }
    Ok(Value::text(texts().collect::<Vec<_>>().join(separator)))
}

/// As what values of several types are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Text,
    Exact,
    Double,
}

fn class(types: &[ValueType]) -> Class {
    let mut known = types.iter().filter(|ty| **ty != ValueType::Null);
    let is_exact = |ty: &ValueType| {
        matches!(
            ty,
            ValueType::Int | ValueType::UInt | ValueType::Decimal { .. }
        )
    };
    match () {
        () if known.clone().all(|ty| ty.is_string()) => Class::Text,
        () if known.all(is_exact) => Class::Exact,
        () => Class::Double,
    }
}

fn field<'a>(c: &Call<'a>) -> Outcome<'a> {
    let class = class(c.types);
    let wanted = &c.arguments[0];
    let equal = |value: &Value<'_>| compare(c, class, wanted, value) == Some(Ordering::Equal);
    let found = c.arguments[1..].iter().position(equal);
    Ok(Value::Int(found.map_or(0, |found| found as i64 + 1)))
}

fn interval<'a>(c: &Call<'a>) -> Outcome<'a> {
    let wanted = &c.arguments[0];
    if wanted.is_null() {
        return Ok(Value::Int(-1));
    }
    let class = match class(c.types) {
        Class::Text => Class::Double,
        class => class,
    };
    // NULL is not greater than anything.
    let not_greater =
        |value: &&Value<'_>| compare(c, class, value, wanted) != Some(Ordering::Greater);
    let count = c.arguments[1..].iter().take_while(not_greater).count();
    Ok(Value::Int(count as i64))
}

fn extreme<'a>(c: &Call<'a>, wanted: Ordering) -> Value<'a> {
    let mut best = &c.arguments[0];
    for value in &c.arguments[1..] {
        if order(c, value, best) == Some(wanted) {
            best = value;
        }
    }
    best.clone()
}

/// The order of two values of one type.
fn order(c: &Call<'_>, left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    match (left, right) {
        (Value::Text(a), Value::Text(b)) => Some(c.collation.compare(a.as_bytes(), b.as_bytes())),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        (Value::Date(a), Value::Date(b)) => Some(a.cmp(b)),
        (Value::DateTime(a), Value::DateTime(b)) | (Value::Time(a), Value::Time(b)) => {
            Some(a.cmp(b))
        }
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        _ => compare(c, Class::Exact, left, right),
    }
}

/// The order of two values that are compared as `class`; `None` with NULL.
fn compare(c: &Call<'_>, class: Class, left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    match class {
        Class::Text => match (string(left), string(right)) {
            (Some(a), Some(b)) => Some(c.collation.compare(a, b)),
            _ => None,
        },
        Class::Exact => {
            let ((a, s), (b, t)) = (units(left)?, units(right)?);
            let common = s.max(t);
            match (a.rescale(s, common), b.rescale(t, common)) {
                (Some(a), Some(b)) => Some(a.cmp(&b)),
                // Numbers of so many digits differ in the first ones.
                _ => a.to_f64(s).partial_cmp(&b.to_f64(t)),
            }
        }
        Class::Double => double(left)?.partial_cmp(&double(right)?),
    }
}

fn string<'v>(value: &'v Value<'_>) -> Option<&'v [u8]> {
    match value {
        Value::Text(text) => Some(text.as_bytes()),
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

fn units(value: &Value<'_>) -> Option<(Units, u8)> {
    match value {
        Value::Int(v) => Some((i128::from(*v).into(), 0)),
        Value::UInt(v) => Some((i128::from(*v).into(), 0)),
        Value::Decimal(units, scale) => Some((*units, *scale)),
        _ => None,
    }
}

/// A value as a DOUBLE; dates as numbers such as 20200131.
fn double(value: &Value<'_>) -> Option<f64> {
    use perigee_value::{ColumnType, Datum};
    let of = |value: Datum, from: ColumnType| match ColumnType::Double.coerce(value, from) {
        Ok(Datum::Double(v)) => Some(v),
        _ => None,
    };
    match value {
        Value::Null => None,
        Value::Double(v) => Some(*v),
        Value::Text(text) => Some(super::number::leading_number(text)),
        Value::Bytes(bytes) => Some(super::number::leading_number(&String::from_utf8_lossy(
            bytes,
        ))),
        Value::Date(v) => of(Datum::Date(*v), ColumnType::Date),
        Value::DateTime(v) => of(Datum::DateTime(*v), ColumnType::DateTime { fsp: 6 }),
        Value::Time(v) => of(Datum::Time(*v), ColumnType::Time { fsp: 6 }),
        Value::Bool(v) => Some(f64::from(u8::from(*v))),
        Value::Int(_) | Value::UInt(_) | Value::Decimal(..) => {
            units(value).map(|(units, scale)| units.to_f64(scale))
        }
    }
}

fn find_in_set(c: &Call<'_>) -> i64 {
    let (wanted, list) = (c.bytes(0), c.bytes(1));
    if list.is_empty() || wanted.contains(&b',') {
        return 0;
    }
    let equal = |item: &[u8]| c.collation.equal_without_padding(item, wanted);
    let found = list.split(|byte| *byte == b',').position(equal);
    found.map_or(0, |found| found as i64 + 1)
}

fn make_set<'a>(c: &Call<'a>) -> Outcome<'a> {
    if c.is_null(0) {
        return Ok(Value::Null);
    }
    let bits = c.bits(0);
    let is_set = |i: &usize| *i <= 64 && bits >> (i - 1) & 1 == 1 && !c.is_null(*i);
    let chosen: Vec<&str> = (1..c.count()).filter(is_set).map(|i| c.text(i)).collect();
    let length = chosen.iter().map(|text| text.len() + 1).sum();
    match c.has_room(length) {
        true => Ok(Value::text(chosen.join(","))),
        false => Ok(Value::Null),
    }
}

fn export_set<'a>(c: &Call<'a>) -> Outcome<'a> {
    let (bits, on, off) = (c.bits(0), c.text(1), c.text(2));
    let separator = if c.has(3) { c.text(3) } else { "," };
    let count = match c.has(4) {
        true => usize::try_from(c.int(4)).map_or(64, |count| count.min(64)),
        false => 64,
    };
    if !c.has_room(count * (on.len().max(off.len()) + separator.len())) {
        return Ok(Value::Null);
    }
    let shown = (0..count).map(|bit| if bits >> bit & 1 == 1 { on } else { off });
    Ok(Value::text(shown.collect::<Vec<_>>().join(separator)))
}
