//! From DataFusion's physical expressions to programs that storage can run: an allow-list
//! (SPEC's N10). What is not listed stays in DataFusion.
//!
//! A converted program has the same value as the physical expression for every record, NULL and
//! errors included; `perigee_expr` and the functions of `crate::functions` share their primitives.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr,
    Literal, NegativeExpr, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use perigee_expr::{Builder, Comparison, NodeId, Program, Type};
use perigee_value::{Collation, ColumnType, Datum, RowLayout};

use crate::diagnostics;
use crate::functions::collation::{self, Collated};
use crate::functions::like::{self, ESCAPE};
use crate::functions::null_safe::NULL_SAFE;
use crate::functions::{arithmetic, chain, dates, enumeration};
use crate::plan::metadata;

/// Binds columns of a physical expression to columns of a record layout.
pub struct Binding<'a> {
    /// Layout of the records.
    pub layout: &'a RowLayout,
    /// Position in the layout of each column of the expression's input, if it has one.
    pub positions: &'a [Option<u16>],
}

/// The program with the value of `expr`, if storage can compute it.
#[must_use]
pub fn convert(expr: &Arc<dyn PhysicalExpr>, binding: &Binding<'_>) -> Option<Program> {
    let mut converter = Converter {
        builder: Builder::new(binding.layout),
        binding,
    };
    let root = converter.node(expr)?;
    // Forms are what such a program compares by, not its value.
    if matches!(converter.builder.ty(root), Type::Collated(_)) {
        return None;
    }
    converter.builder.finish(root).ok()
}

/// The program of a key of groups: storage gives strings that compare by forms out as these.
#[must_use]
pub fn convert_key(expr: &Arc<dyn PhysicalExpr>, binding: &Binding<'_>) -> Option<Program> {
    let mut converter = Converter {
        builder: Builder::new(binding.layout),
        binding,
    };
    let root = converter.node(expr)?;
    converter.builder.finish(root).ok()
}

/// The conjunction of several predicates as one program.
#[must_use]
pub fn convert_all(exprs: &[Arc<dyn PhysicalExpr>], binding: &Binding<'_>) -> Option<Program> {
    let mut converter = Converter {
        builder: Builder::new(binding.layout),
        binding,
    };
    let nodes = exprs
        .iter()
        .map(|expr| converter.node(expr))
        .collect::<Option<Vec<_>>>()?;
    let root = converter.builder.and(nodes).ok()?;
    converter.builder.finish(root).ok()
}

struct Converter<'a> {
    builder: Builder,
    binding: &'a Binding<'a>,
}

impl Converter<'_> {
    fn node(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Option<NodeId> {
        let expr: &dyn PhysicalExpr = &**expr;
        if let Some(column) = expr.downcast_ref::<Column>() {
            let position = self
                .binding
                .positions
                .get(column.index())
                .copied()
                .flatten()?;
            let column = self.builder.column(position).ok()?;
            return match self.builder.ty(column) {
                // Elsewhere strings are bytes; what is compared by forms has a function for them.
                Type::Collated(_) => self.builder.collate(column, Type::String).ok(),
                _ => Some(column),
            };
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            let (value, ty) = constant(literal.value())?;
            return self.builder.constant(value, ty).ok();
        }
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return self.binary(binary);
        }
        if let Some(not) = expr.downcast_ref::<NotExpr>() {
            let operand = self.node(not.arg())?;
            return self.builder.not(operand).ok();
        }
        if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
            let operand = self.node(is_null.arg())?;
            return self.builder.is_null(operand).ok();
        }
        if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
            let operand = self.node(is_not_null.arg())?;
            let is_null = self.builder.is_null(operand).ok()?;
            return self.builder.not(is_null).ok();
        }
        if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
            let operand = self.node(negative.arg())?;
            return self.builder.negate(operand).ok();
        }
        if let Some(like) = expr.downcast_ref::<LikeExpr>() {
            return self.like(like);
        }
        if let Some(in_list) = expr.downcast_ref::<InListExpr>() {
            return self.in_list(in_list);
        }
        if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            return self.case(case);
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            return self.cast(cast);
        }
        expr.downcast_ref::<ScalarFunctionExpr>()
            .and_then(|function| self.function(function))
    }

    fn binary(&mut self, binary: &BinaryExpr) -> Option<NodeId> {
        let op = match binary.op() {
            Operator::And | Operator::Or => {
                let operands = vec![self.node(binary.left())?, self.node(binary.right())?];
                return match binary.op() {
                    Operator::And => self.builder.and(operands).ok(),
                    _ => self.builder.or(operands).ok(),
                };
            }
            Operator::IsDistinctFrom => {
                let equal = self.compare(Comparison::NullSafeEqual, binary)?;
                return self.builder.not(equal).ok();
            }
            Operator::Eq => match (null_safe(binary.left()), null_safe(binary.right())) {
                (Some(left), Some(right)) => {
                    let same = BinaryExpr::new(left, Operator::IsNotDistinctFrom, right);
                    return self.compare(Comparison::NullSafeEqual, &same);
                }
                _ => Comparison::Equal,
            },
            Operator::NotEq => Comparison::NotEqual,
            Operator::Lt => Comparison::Less,
            Operator::LtEq => Comparison::LessOrEqual,
            Operator::Gt => Comparison::Greater,
            Operator::GtEq => Comparison::GreaterOrEqual,
            Operator::IsNotDistinctFrom => Comparison::NullSafeEqual,
            _ => return None,
        };
        self.compare(op, binary)
    }

    fn compare(&mut self, op: Comparison, binary: &BinaryExpr) -> Option<NodeId> {
        let (left, right) = (binary.left(), binary.right());
        let (l, r) = (self.compared(left)?, self.compared(right)?);
        if alike_of(left).or(alike_of(right)).is_some() {
            // What DataFusion makes of LIKE without wildcards.
            return self.alike(op, l, right);
        }
        let (l, r) = (self.beside(left, l, r)?, self.beside(right, r, l)?);
        let exact = !self.is_collated(left, l) || !self.is_collated(right, r);
        match op {
            _ if !exact => self.builder.compare(op, l, r).ok(),
            // The same of texts without forms: trailing spaces count.
            _ => self.alike(op, l, right),
        }
    }

    /// A string that has exactly the characters of a constant, or others that are alike; or has not.
    fn alike(
        &mut self,
        op: Comparison,
        operand: NodeId,
        constant: &Arc<dyn PhysicalExpr>,
    ) -> Option<NodeId> {
        match op {
            Comparison::Equal => self.equal_bytes(operand, constant),
            Comparison::NotEqual => {
                let equal = self.equal_bytes(operand, constant)?;
                self.builder.not(equal).ok()
            }
            _ => None,
        }
    }

    /// A constant beside a string that compares by forms, as the text that it is the form of. Anything else as it is.
    fn beside(
        &mut self,
        expr: &Arc<dyn PhysicalExpr>,
        node: NodeId,
        other: NodeId,
    ) -> Option<NodeId> {
        match (self.builder.ty(node), self.builder.ty(other)) {
            (Type::String, ty @ Type::Collated(collation)) => {
                let value = text_of(expr.downcast_ref::<Literal>()?, collation)?;
                self.builder.constant(value, ty).ok()
            }
            _ => Some(node),
        }
    }

    /// True if equality in the collation is equality of bytes for a string operand: it is cut, or has
    /// no trailing spaces.
    fn is_collated(&self, expr: &Arc<dyn PhysicalExpr>, node: NodeId) -> bool {
        if let Type::Collated(_) = self.builder.ty(node) {
            return true;
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            let text = literal.value().try_as_str().flatten();
            return text.is_none_or(|text| !text.ends_with(' '));
        }
        if let Some(column) = expr.downcast_ref::<Column>() {
            let position = self
                .binding
                .positions
                .get(column.index())
                .copied()
                .flatten();
            let ty = position.map(|at| self.binding.layout.columns[usize::from(at)].ty);
            return !matches!(ty, Some(ColumnType::Varchar { .. }));
        }
        let is_pad = expr
            .downcast_ref::<ScalarFunctionExpr>()
            .is_some_and(|function| function.name() == collation::PAD);
        is_pad || !self.builder.ty(node).is_string()
    }

    /// A string that has exactly the bytes of a constant.
    fn equal_bytes(&mut self, operand: NodeId, constant: &Arc<dyn PhysicalExpr>) -> Option<NodeId> {
        let literal = constant.downcast_ref::<Literal>()?;
        let text = literal.value().try_as_str().flatten()?;
        let mut pattern = String::new();
        for c in text.chars() {
            if matches!(c, '%' | '_' | ESCAPE) {
                pattern.push(ESCAPE);
            }
            pattern.push(c);
        }
        self.builder.like(operand, &pattern, ESCAPE).ok()
    }

    /// An operand of a comparison: programs compare strings as the collation does, so that cutting
    /// trailing spaces first is not needed.
    fn compared(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Option<NodeId> {
        match expr.downcast_ref::<ScalarFunctionExpr>() {
            Some(pad) if pad.name() == collation::PAD => self.node(&pad.args()[0]),
            _ => self.node(expr),
        }
    }

    fn like(&mut self, like: &LikeExpr) -> Option<NodeId> {
        if like.case_insensitive() {
            return None;
        }
        let matches = self.matches(like.expr(), like.pattern(), None)?;
        if like.negated() {
            self.builder.not(matches).ok()
        } else {
            Some(matches)
        }
    }

    fn matches(
        &mut self,
        operand: &Arc<dyn PhysicalExpr>,
        pattern: &Arc<dyn PhysicalExpr>,
        collation: Option<Collation>,
    ) -> Option<NodeId> {
        let pattern = text(pattern)?;
        let mut operand = self.node(operand)?;
        if let Some(collation) = collation {
            operand = self.builder.collate(operand, Type::text(collation)).ok()?;
        }
        self.builder.like(operand, &pattern, ESCAPE).ok()
    }

    fn in_list(&mut self, in_list: &InListExpr) -> Option<NodeId> {
        let operand = self.compared(in_list.expr())?;
        if !self.is_collated(in_list.expr(), operand) {
            return None;
        }
        let items = in_list
            .list()
            .iter()
            .map(|item| {
                let item = item.downcast_ref::<Literal>()?;
                let (value, ty) = constant(item.value())?;
                match (self.builder.ty(operand), ty) {
                    (own @ Type::Collated(collation), Type::String) => {
                        Some((text_of(item, collation)?, own))
                    }
                    _ => Some((value, ty)),
                }
            })
            .collect::<Option<Vec<_>>>()?;
        let found = self.builder.in_list(operand, &items).ok()?;
        if in_list.negated() {
            self.builder.not(found).ok()
        } else {
            Some(found)
        }
    }

    fn case(&mut self, case: &CaseExpr) -> Option<NodeId> {
        let mut branches = Vec::new();
        for (when, then) in case.when_then_expr() {
            let condition = match case.expr() {
                Some(operand) => {
                    let (operand, when) = (self.compared(operand)?, self.compared(when)?);
                    self.builder
                        .compare(Comparison::Equal, operand, when)
                        .ok()?
                }
                None => self.node(when)?,
            };
            branches.push((condition, self.node(then)?));
        }
        let otherwise = match case.else_expr() {
            Some(expr) => Some(self.node(expr)?),
            None => None,
        };
        self.builder.case(&branches, otherwise).ok()
    }

    /// DataFusion's casts come from its own coercion: only those that lose nothing are taken over.
    fn cast(&mut self, cast: &CastExpr) -> Option<NodeId> {
        let operand = self.node(cast.expr())?;
        let from = self.builder.ty(operand);
        let to = program_type(cast.cast_type())?;
        match (from, to) {
            _ if from == to => Some(operand),
            (Type::Int, Type::Decimal { precision, scale })
                if precision - scale >= self.digits(cast.expr()) =>
            {
                self.builder.cast(operand, to).ok()
            }
            (
                Type::Decimal {
                    precision: p,
                    scale: s,
                },
                Type::Decimal { precision, scale },
            ) if scale >= s && precision - scale >= p - s => self.builder.cast(operand, to).ok(),
            (Type::Date, Type::DateTime) => self.builder.cast(operand, to).ok(),
            _ => None,
        }
    }

    fn chain(&mut self, function: &ScalarFunctionExpr) -> Option<NodeId> {
        let (ops, operands) = function.args().split_first()?;
        let ops = chain::operators(ops.downcast_ref::<Literal>()?.value())?;
        if ops.iter().any(|op| op.divides()) && diagnostics::division_is_error() {
            return None;
        }
        let (first, operands) = operands.split_first()?;
        let mut node = self.node(first)?;
        for (op, operand) in ops.into_iter().zip(operands) {
            let operand = self.node(operand)?;
            node = self.builder.arithmetic(op, node, operand).ok()?;
        }
        same_scale(self.builder.ty(node), function.return_type()).then_some(node)
    }

    /// Digits that an integer may have.
    fn digits(&self, expr: &Arc<dyn PhysicalExpr>) -> u8 {
        let column = expr.downcast_ref::<Column>();
        let position = column.and_then(|column| *self.binding.positions.get(column.index())?);
        match position.map(|at| self.binding.layout.columns[usize::from(at)].ty) {
            Some(ColumnType::Int { bytes: 1, .. }) => 3,
            Some(ColumnType::Int { bytes: 2, .. }) => 5,
            Some(ColumnType::Int { bytes: 3 | 4, .. }) => 10,
            _ => 19,
        }
    }

    fn function(&mut self, function: &ScalarFunctionExpr) -> Option<NodeId> {
        let args = function.args();
        if let Some(op) = arithmetic::operator_of(function.name()) {
            if op.divides() && diagnostics::division_is_error() {
                return None;
            }
            let (left, right) = (self.node(&args[0])?, self.node(&args[1])?);
            let node = self.builder.arithmetic(op, left, right).ok()?;
            return same_scale(self.builder.ty(node), function.return_type()).then_some(node);
        }
        let collated = Collated::form_of(function.fun()).or(Collated::alike_of(function.fun()));
        if let Some(collation) = collated {
            let operand = self.node(&args[0])?;
            return self.builder.collate(operand, Type::text(collation)).ok();
        }
        match function.name() {
            chain::CHAIN => self.chain(function),
            collation::COLLATE => self.node(&args[0]),
            like::LIKE => {
                let collation = like::Like::collation_of(function.fun())?;
                self.matches(&args[0], &args[1], Some(collation))
            }
            // The number of a text is the one that is stored.
            enumeration::NUMBER => {
                let text = args[0].downcast_ref::<ScalarFunctionExpr>();
                let text = text.filter(|text| text.name() == enumeration::TEXT)?;
                self.node(&text.args()[0])
            }
            dates::EXTRACT => {
                let field = text(&args[0]).and_then(|name| dates::field_named(&name))?;
                let operand = self.node(&args[1])?;
                self.builder.extract(field, operand).ok()
            }
            "mysql_substring" => {
                let operand = self.node(&args[0])?;
                if self.builder.ty(operand) != Type::String {
                    return None;
                }
                let start = integer(&args[1])?;
                let length = match args.get(2) {
                    Some(length) => Some(integer(length)?),
                    None => None,
                };
                self.builder.substring(operand, start, length).ok()
            }
            _ => None,
        }
    }
}

/// What an operand of `<=>` was before it became a key.
fn null_safe(expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
    let function = expr.downcast_ref::<ScalarFunctionExpr>()?;
    (function.name() == NULL_SAFE).then(|| function.args()[0].clone())
}

/// The collation of an operand of LIKE whose characters stand for others.
pub(super) fn alike_of(expr: &Arc<dyn PhysicalExpr>) -> Option<Collation> {
    Collated::alike_of(expr.downcast_ref::<ScalarFunctionExpr>()?.fun())
}

/// The text that a constant is the form of: the one that was noted, or the form if it is its own.
fn text_of(literal: &Literal, collation: Collation) -> Option<Datum> {
    let (form, _) = constant(literal.value())?;
    let field = literal.return_field(&Schema::empty()).ok()?;
    match (metadata::text_of_form(&field), form) {
        (Some(text), Datum::String(_)) => Some(Datum::String(text.into())),
        (None, Datum::String(form)) if *collation.form(&form) != *form => None,
        (_, form) => Some(form),
    }
}

/// True if a decimal program value has the scale that the plan expects; other types always fit.
fn same_scale(ty: Type, planned: &DataType) -> bool {
    match (ty, planned) {
        (Type::Decimal { scale, .. }, DataType::Decimal128(_, s)) => i8::try_from(scale) == Ok(*s),
        (Type::Decimal { .. }, _) | (_, DataType::Decimal128(..)) => false,
        // A difference without NO_UNSIGNED_SUBTRACTION.
        (Type::UInt, DataType::Int64) => false,
        _ => true,
    }
}

fn text(expr: &Arc<dyn PhysicalExpr>) -> Option<String> {
    Some(
        expr.downcast_ref::<Literal>()?
            .value()
            .try_as_str()
            .flatten()?
            .to_owned(),
    )
}

fn integer(expr: &Arc<dyn PhysicalExpr>) -> Option<i64> {
    match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::Int64(v) => *v,
        ScalarValue::Int32(v) => v.map(i64::from),
        _ => None,
    }
}

/// The program type of an Arrow type.
#[must_use]
pub fn program_type(ty: &DataType) -> Option<Type> {
    Some(match ty {
        DataType::Boolean => Type::Bool,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Type::Int,
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => Type::UInt,
        DataType::Decimal128(precision, scale) => Type::Decimal {
            precision: *precision,
            scale: u8::try_from(*scale).ok()?,
        },
        DataType::Float64 => Type::Double,
        DataType::Date32 => Type::Date,
        DataType::Timestamp(datafusion::arrow::datatypes::TimeUnit::Microsecond, None) => {
            Type::DateTime
        }
        DataType::Duration(datafusion::arrow::datatypes::TimeUnit::Microsecond) => Type::Time,
        DataType::Utf8 | DataType::Utf8View => Type::String,
        _ => return None,
    })
}

/// A literal as a constant of a program.
#[must_use]
pub fn constant(value: &ScalarValue) -> Option<(Datum, Type)> {
    let ty = program_type(&value.data_type())?;
    if value.is_null() {
        return Some((Datum::Null, ty));
    }
    let datum = match value {
        ScalarValue::Boolean(Some(v)) => Datum::Bool(*v),
        ScalarValue::Int8(Some(v)) => Datum::Int(i64::from(*v)),
        ScalarValue::Int16(Some(v)) => Datum::Int(i64::from(*v)),
        ScalarValue::Int32(Some(v)) => Datum::Int(i64::from(*v)),
        ScalarValue::Int64(Some(v)) => Datum::Int(*v),
        ScalarValue::UInt8(Some(v)) => Datum::UInt(u64::from(*v)),
        ScalarValue::UInt16(Some(v)) => Datum::UInt(u64::from(*v)),
        ScalarValue::UInt32(Some(v)) => Datum::UInt(u64::from(*v)),
        ScalarValue::UInt64(Some(v)) => Datum::UInt(*v),
        ScalarValue::Decimal128(Some(v), _, _) => Datum::Decimal(*v),
        ScalarValue::Float64(Some(v)) => Datum::Double(*v),
        ScalarValue::Date32(Some(v)) => Datum::Date(*v),
        ScalarValue::TimestampMicrosecond(Some(v), None) => Datum::DateTime(*v),
        ScalarValue::DurationMicrosecond(Some(v)) => Datum::Time(*v),
        other => Datum::String(other.try_as_str().flatten()?.as_bytes().to_vec()),
    };
    Some((datum, ty))
}
