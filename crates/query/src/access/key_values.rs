//! What a condition lets a key column be: single values, or parts of its order.
//!
//! A condition may let through less than what is said here, never more: the access evaluates it for each
//! record, the ranges only say which records to look at.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use perigee_engine::scan::{KeySpan, KeySpans};
use perigee_value::{Collation, ColumnType, Datum, ValueRef, Weight, bits, key};
use std::ops::Bound;
use std::sync::Arc;

use super::convert::{alike_of, constant};
use super::estimate::{column, prefix_of};
use crate::functions::collation::Collated;

type Expr = Arc<dyn PhysicalExpr>;

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// Most prefixes that are looked up for one value.
const MOST_PREFIXES: usize = 256;

/// A key column.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyColumn {
    /// Its number in the table; of a prefix that of the column that it is the beginning of.
    pub number: usize,
    pub ty: ColumnType,
    pub nullable: bool,
    /// Characters of a prefix, or bytes.
    pub prefix: Option<u16>,
}

/// Values of a key column, encoded as parts of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// These, in order, each once.
    Points(Vec<Vec<u8>>),
    /// Those that begin with a key of these spans.
    Spans(KeySpans),
}

/// Where a constant lies among the values of a column.
enum Place {
    At(Datum),
    /// Behind this one and before the next.
    Behind(Datum),
    BelowAll,
    AboveAll,
}

impl Values {
    fn none() -> Self {
        Self::Points(Vec::new())
    }

    /// These values, in any order.
    pub fn points(mut points: Vec<Vec<u8>>) -> Self {
        points.sort_unstable();
        points.dedup();
        Self::Points(points)
    }

    /// The values as spans.
    pub fn spans(&self) -> KeySpans {
        match self {
            Self::Points(points) => {
                KeySpans::union(points.iter().map(|point| KeySpan::prefix(point)).collect())
            }
            Self::Spans(spans) => spans.clone(),
        }
    }

    /// Those that are in both.
    pub fn and(self, other: &Self) -> Self {
        let among = |points: &[Vec<u8>], others: &Self| {
            let is_in = |point: &&Vec<u8>| match others {
                Self::Points(others) => others.binary_search(point).is_ok(),
                Self::Spans(spans) => {
                    let next = spans.partition_point(|span| span.lower <= **point);
                    next > 0 && spans[next - 1].contains(point)
                }
            };
            Self::Points(points.iter().filter(is_in).cloned().collect())
        };
        match (&self, other) {
            (Self::Points(points), others) | (others, Self::Points(points)) => {
                among(points, others)
            }
            (Self::Spans(one), Self::Spans(two)) => Self::Spans(one.and(two)),
        }
    }

    /// Those that are in one of several.
    fn any(all: Vec<Self>) -> Self {
        if all.iter().all(|one| matches!(one, Self::Points(_))) {
            let points = all.into_iter().flat_map(|one| match one {
                Self::Points(points) => points,
                Self::Spans(_) => Vec::new(),
            });
            return Self::points(points.collect());
        }
        let spans = all.iter().flat_map(|one| one.spans().to_vec());
        Self::Spans(KeySpans::union(spans.collect()))
    }
}

/// The parts of a conjunction or disjunction, however deep it is.
pub(super) fn parts_of(expr: &Expr, op: Operator) -> Vec<&Expr> {
    let (mut parts, mut rest) = (Vec::new(), vec![expr]);
    while let Some(part) = rest.pop() {
        match part.downcast_ref::<BinaryExpr>() {
            Some(both) if *both.op() == op => rest.extend([both.right(), both.left()]),
            _ => parts.push(part),
        }
    }
    parts
}

impl KeyColumn {
    /// The values that a conjunction lets through; `None` if it says nothing of the column.
    pub fn of_all<'e>(self, filters: impl IntoIterator<Item = &'e Expr>) -> Option<Values> {
        let values = filters.into_iter().filter_map(|filter| self.of(filter));
        values.reduce(|one, other| one.and(&other))
    }

    /// The values that a condition lets through; `None` if it says nothing of the column, or more than
    /// is understood.
    pub fn of(self, expr: &Expr) -> Option<Values> {
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return match binary.op() {
                Operator::And => self.of_all(parts_of(expr, Operator::And)),
                Operator::Or => {
                    let parts = parts_of(expr, Operator::Or).into_iter();
                    let parts = parts
                        .map(|part| self.of(part))
                        .collect::<Option<Vec<_>>>()?;
                    Some(Values::any(parts))
                }
                _ => self.comparison(binary),
            };
        }
        if let Some(list) = expr.downcast_ref::<InListExpr>() {
            return self.list(list);
        }
        if let Some(like) = expr.downcast_ref::<LikeExpr>() {
            return self.like(like);
        }
        if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
            return self.is(is_null.arg()).then(|| self.null());
        }
        if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
            return self.is(is_not_null.arg()).then(|| self.not_null());
        }
        let truth = expr.downcast_ref::<Literal>()?.value();
        let never = truth.is_null() || *truth == ScalarValue::Boolean(Some(false));
        never.then(Values::none)
    }

    fn is(self, expr: &Expr) -> bool {
        column(without_casts(expr)) == Some(self.number)
            && (self.prefix.is_none() || casts_of(expr).all(is_string))
    }

    fn comparison(self, binary: &BinaryExpr) -> Option<Values> {
        let (left, right) = (binary.left(), binary.right());
        let (operand, op, literal) = match right.downcast_ref::<Literal>() {
            Some(literal) => (left, *binary.op(), literal),
            None => (right, binary.op().swap()?, left.downcast_ref::<Literal>()?),
        };
        if !self.is(operand) {
            return None;
        }
        let known = [
            Operator::Eq,
            Operator::IsNotDistinctFrom,
            Operator::Lt,
            Operator::LtEq,
            Operator::Gt,
            Operator::GtEq,
        ];
        if !known.contains(&op) {
            return None;
        }
        if literal.value().is_null() {
            return Some(match op {
                Operator::IsNotDistinctFrom => self.null(),
                _ => Values::none(),
            });
        }
        if op == Operator::Eq && alike_of(operand).is_some() && alike_of(operand) == self.form() {
            // LIKE without wildcards.
            let text = literal.value().try_as_str().flatten()?;
            if self.prefix.is_some() {
                return self.beginning(text);
            }
            let mut key = Vec::new();
            let value = ValueRef::String(text.as_bytes());
            key::encode_part(self.ty, self.nullable, value, &mut key).ok()?;
            return Some(Values::points(vec![key]));
        }
        if form_of(operand) != self.form() {
            return None;
        }
        self.compared(op, self.place(literal.value())?)
    }

    fn list(self, list: &InListExpr) -> Option<Values> {
        let by_key = self.is(list.expr()) && form_of(list.expr()) == self.form();
        if list.negated() || !by_key {
            return None;
        }
        let mut points = Vec::with_capacity(list.list().len());
        for item in list.list() {
            let value = item.downcast_ref::<Literal>()?.value();
            // Anything else equals no value of the column.
            if !value.is_null()
                && let Place::At(value) = self.place(value)?
            {
                match (self.prefix, &value) {
                    (Some(length), Datum::String(form)) => {
                        points.extend(self.prefix_points(form, length)?);
                    }
                    _ => points.push(self.encode(&value)?),
                }
            }
        }
        Some(Values::points(points))
    }

    /// The values that begin as a pattern does.
    fn like(self, like: &LikeExpr) -> Option<Values> {
        let operand = like.expr();
        let is_own = self.is(operand) && alike_of(operand) == self.form();
        if like.negated() || like.case_insensitive() || !is_own {
            return None;
        }
        let pattern = like.pattern().downcast_ref::<Literal>()?.value();
        let (prefix, _) = prefix_of(pattern.try_as_str().flatten()?);
        self.beginning(&prefix)
    }

    /// The values that begin with characters alike some.
    fn beginning(self, text: &str) -> Option<Values> {
        let text = match self.prefix {
            Some(length) => first_chars(text, length),
            None => text,
        };
        if text.is_empty() {
            return None;
        }
        // Behind the byte that says that it is not NULL.
        let mut key = self.encode(&Datum::String(Vec::new()))?;
        key.truncate(usize::from(self.nullable));
        key.extend(key::encode_string_prefix(self.ty, text.as_bytes())?);
        Some(Values::Spans(KeySpan::prefix(&key).into()))
    }

    fn null(self) -> Values {
        match self.nullable {
            true => Values::points(self.encode(&Datum::Null).into_iter().collect()),
            false => Values::none(),
        }
    }

    fn not_null(self) -> Values {
        self.between(None, None)
    }

    fn compared(self, op: Operator, place: Place) -> Option<Values> {
        use Operator::{Eq, Gt, GtEq, IsNotDistinctFrom, Lt, LtEq};
        if let Some(length) = self.prefix {
            return match place {
                Place::At(Datum::String(form)) => self.compared_prefix(op, &form, length),
                _ => None,
            };
        }
        let above =
            |value: &Datum, strict| Some(self.between(Some((self.encode(value)?, strict)), None));
        let below =
            |value: &Datum, strict| Some(self.between(None, Some((self.encode(value)?, strict))));
        match (op, place) {
            (Eq | IsNotDistinctFrom, Place::At(value)) => {
                Some(Values::points(vec![self.encode(&value)?]))
            }
            (Eq | IsNotDistinctFrom, _) => Some(Values::none()),
            (Gt | GtEq, Place::At(value)) => above(&value, op == Gt),
            (Lt | LtEq, Place::At(value)) => below(&value, op == Lt),
            (Gt | GtEq, Place::Behind(value)) => above(&value, true),
            (Lt | LtEq, Place::Behind(value)) => below(&value, false),
            (Gt | GtEq, Place::BelowAll) | (Lt | LtEq, Place::AboveAll) => Some(self.not_null()),
            (Gt | GtEq, Place::AboveAll) | (Lt | LtEq, Place::BelowAll) => Some(Values::none()),
            _ => None,
        }
    }

    /// The prefixes of the values that compare so with one that has a form.
    fn compared_prefix(self, op: Operator, form: &[u8], length: u16) -> Option<Values> {
        use Operator::{Eq, Gt, GtEq, IsNotDistinctFrom, Lt, LtEq};
        if matches!(op, Eq | IsNotDistinctFrom) {
            return self.prefix_points(form, length).map(Values::points);
        }
        if self.ty.collation()?.weight() != Weight::OfEach {
            return None;
        }
        // Prefixes order as values do, but the prefixes of two values may be equal.
        let cut = Datum::String(self.cut(form, length)?.to_vec());
        let edge = Some((self.encode(&cut)?, false));
        match op {
            Lt | LtEq => Some(self.between(None, edge)),
            Gt | GtEq => Some(self.between(edge, None)),
            _ => None,
        }
    }

    /// The prefixes that values with a form may have.
    fn prefix_points(self, form: &[u8], length: u16) -> Option<Vec<Vec<u8>>> {
        match self.ty.collation()?.weight() {
            Weight::OfEach => {
                let cut = self.cut(form, length)?.to_vec();
                Some(vec![self.encode(&Datum::String(cut))?])
            }
            // As many characters of one value may have more or less weights than those of another one.
            Weight::OfSome => {
                let form = std::str::from_utf8(form).ok()?;
                let ends = form.char_indices().map(|(end, _)| end).chain([form.len()]);
                let ends: Vec<usize> = ends.take(MOST_PREFIXES + 1).collect();
                if ends.len() > MOST_PREFIXES {
                    return None;
                }
                let part = |end: usize| self.encode(&Datum::String(form[..end].into()));
                ends.into_iter().map(part).collect()
            }
            Weight::OfAll => None,
        }
    }

    /// The first characters of a form, or its first bytes.
    fn cut(self, form: &[u8], length: u16) -> Option<&[u8]> {
        if self.ty.collation() == Some(Collation::BINARY) {
            return Some(&form[..form.len().min(length.into())]);
        }
        let form = std::str::from_utf8(form).ok()?;
        Some(first_chars(form, length).as_bytes())
    }

    /// The values between two encoded ones, each with whether it is outside; NULL is not among them.
    fn between(self, lower: Option<(Vec<u8>, bool)>, upper: Option<(Vec<u8>, bool)>) -> Values {
        fn bound(edge: Option<&(Vec<u8>, bool)>) -> Bound<&[u8]> {
            match edge {
                None => Bound::Unbounded,
                Some((value, true)) => Bound::Excluded(value),
                Some((value, false)) => Bound::Included(value),
            }
        }
        // NULL comes first and is not below anything.
        let null = self.encode(&Datum::Null).filter(|_| self.nullable);
        let lower = lower.or_else(|| null.map(|null| (null, true)));
        let span = KeySpan::from_bounds(bound(lower.as_ref()), bound(upper.as_ref()));
        Values::Spans(span.into())
    }

    fn encode(self, value: &Datum) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        // What conditions compare a column with are forms.
        key::encode_form_part(self.ty, self.nullable, value.as_ref(), &mut out).ok()?;
        Some(out)
    }

    /// The collation of the forms that its keys are made of, if they are.
    fn form(self) -> Option<Collation> {
        self.ty.collation().filter(|own| own.has_form())
    }

    /// Where a constant of any type that a comparison with the column has lies among its values; `None`
    /// if that is not known.
    fn place(self, value: &ScalarValue) -> Option<Place> {
        if self.ty.collation() == Some(Collation::BINARY) {
            return Some(Place::At(Datum::String(bytes_of(value)?.to_vec())));
        }
        let (datum, _) = constant(value)?;
        match (self.ty, datum) {
            (ColumnType::Int { .. } | ColumnType::Year | ColumnType::Bit { .. }, datum) => {
                let (whole, exact) = match (datum, value) {
                    (Datum::Int(v), _) => (i128::from(v), true),
                    (Datum::UInt(v), _) => (i128::from(v), true),
                    (Datum::Decimal(v), ScalarValue::Decimal128(_, _, scale)) => {
                        let unit = 10_i128.checked_pow(u32::try_from(*scale).ok()?)?;
                        (v.div_euclid(unit), v.rem_euclid(unit) == 0)
                    }
                    _ => return None,
                };
                self.integer(whole, exact)
            }
            (ColumnType::Decimal { scale, precision }, datum) if !self.ty.is_wide() => {
                let (units, from) = match (datum, value) {
                    (Datum::Int(v), _) => (i128::from(v), 0),
                    (Datum::UInt(v), _) => (i128::from(v), 0),
                    (Datum::Decimal(v), ScalarValue::Decimal128(_, _, from)) => {
                        (v, u8::try_from(*from).ok()?)
                    }
                    _ => return None,
                };
                Some(decimal_place(units, from, (precision, scale)))
            }
            (ColumnType::Double, value @ Datum::Double(_)) => Some(Place::At(value)),
            (ColumnType::Date, Datum::Date(day)) => Some(Place::At(Datum::Date(day))),
            (ColumnType::Date, Datum::DateTime(micros)) => {
                let day = Datum::Date(i32::try_from(micros.div_euclid(DAY)).ok()?);
                Some(at_or_behind(day, micros.rem_euclid(DAY) == 0))
            }
            (ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp }, datum) => {
                let micros = match datum {
                    Datum::DateTime(micros) => micros,
                    Datum::Date(day) => i64::from(day).checked_mul(DAY)?,
                    _ => return None,
                };
                let (value, exact) = whole_units(micros, fsp);
                Some(at_or_behind(Datum::DateTime(value), exact))
            }
            (ColumnType::Time { fsp }, Datum::Time(micros)) => {
                let (value, exact) = whole_units(micros, fsp);
                Some(at_or_behind(Datum::Time(value), exact))
            }
            (ColumnType::Char { .. } | ColumnType::Varchar { .. }, text @ Datum::String(_)) => {
                Some(Place::At(text))
            }
            _ => None,
        }
    }

    fn integer(self, whole: i128, exact: bool) -> Option<Place> {
        let (least, most) = match self.ty {
            ColumnType::Int {
                bytes,
                unsigned: false,
            } => {
                let half = 1_i128 << (8 * u32::from(bytes) - 1);
                (-half, half - 1)
            }
            ColumnType::Int {
                bytes,
                unsigned: true,
            } => (0, (1 << (8 * u32::from(bytes))) - 1),
            ColumnType::Bit { bits } => (0, bits::greatest(bits).into()),
            // Not every number below the greatest one is a year.
            _ if exact && (whole == 0 || (1901..=2155).contains(&whole)) => (0, 2155),
            _ => return None,
        };
        if whole < least {
            return Some(Place::BelowAll);
        }
        if whole > most {
            return Some(Place::AboveAll);
        }
        let value = match self.ty.is_unsigned() {
            true => Datum::UInt(u64::try_from(whole).ok()?),
            false => Datum::Int(i64::try_from(whole).ok()?),
        };
        Some(at_or_behind(value, exact))
    }
}

/// The bytes of a constant.
fn bytes_of(value: &ScalarValue) -> Option<&[u8]> {
    match value {
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes)) => Some(bytes),
        other => Some(other.try_as_str().flatten()?.as_bytes()),
    }
}

/// The types that the casts around an operand make of it.
fn casts_of(expr: &Expr) -> impl Iterator<Item = &DataType> {
    let casts = std::iter::successors(expr.downcast_ref::<CastExpr>(), |cast| {
        cast.expr().downcast_ref::<CastExpr>()
    });
    casts.map(CastExpr::cast_type)
}

fn is_string(ty: &DataType) -> bool {
    ty.is_string() || ty.is_binary()
}

/// As many characters that a text begins with.
fn first_chars(text: &str, length: u16) -> &str {
    let end = text.char_indices().nth(length.into());
    end.map_or(text, |(end, _)| &text[..end])
}

fn at_or_behind(value: Datum, exact: bool) -> Place {
    match exact {
        true => Place::At(value),
        false => Place::Behind(value),
    }
}

/// Where a decimal lies among those of a precision and a scale.
fn decimal_place(units: i128, from: u8, (precision, scale): (u8, u8)) -> Place {
    let beyond = match units < 0 {
        true => Place::BelowAll,
        false => Place::AboveAll,
    };
    let power = |digits: u8| 10_i128.checked_pow(u32::from(digits));
    let moved = match scale.checked_sub(from) {
        Some(more) => power(more).and_then(|unit| Some((units.checked_mul(unit)?, true))),
        None => {
            power(from - scale).map(|unit| (units.div_euclid(unit), units.rem_euclid(unit) == 0))
        }
    };
    match (moved, power(precision)) {
        (Some((value, exact)), Some(limit)) if -limit < value && value < limit => {
            at_or_behind(Datum::Decimal(value), exact)
        }
        _ => beyond,
    }
}

/// Microseconds in whole units of a number of fractional digits, and whether nothing was cut.
fn whole_units(micros: i64, fsp: u8) -> (i64, bool) {
    let unit = 10_i64.pow(6 - u32::from(fsp.min(6)));
    (micros.div_euclid(unit) * unit, micros.rem_euclid(unit) == 0)
}

/// An operand without the casts around it: in conditions of accesses these lose nothing (see `convert`).
fn without_casts(expr: &Expr) -> &Expr {
    let mut expr = expr;
    while let Some(cast) = expr.downcast_ref::<CastExpr>() {
        expr = cast.expr();
    }
    expr
}

/// The collation of an operand that is a form.
fn form_of(expr: &Expr) -> Option<Collation> {
    let mut expr = expr;
    while let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() {
        let form = Collated::form_of(function.fun());
        if form.is_some() {
            return form;
        }
        expr = function.args().first()?;
    }
    None
}
