//! Constants and parameters in the places of values.

use std::ops::ControlFlow;

use perigee_value::{Datum, ValueRef};
use sqlparser::ast::{Expr, UnaryOperator, Value, ValueWithSpan, Visit, Visitor};
use sqlparser::tokenizer::Location;

use super::shape;

/// A value that a statement is given, now or when it is run.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    Constant(Datum),
    Parameter {
        number: usize,
        /// There is a minus before it.
        negated: bool,
    },
}

impl Operand {
    /// The value; `None` for one that needs more than to be taken as it is.
    pub(super) fn value<'p>(&'p self, parameters: &'p [Datum]) -> Option<ValueRef<'p>> {
        match self {
            Self::Constant(value) => Some(value.as_ref()),
            Self::Parameter { number, negated } => {
                let value = parameters.get(*number)?.as_ref();
                if *negated { minus(value) } else { Some(value) }
            }
        }
    }

    /// The value as a number of rows.
    pub(super) fn count(&self, parameters: &[Datum]) -> Option<usize> {
        match self.value(parameters)? {
            ValueRef::Int(v) => usize::try_from(v).ok(),
            ValueRef::UInt(v) => usize::try_from(v).ok(),
            _ => None,
        }
    }
}

fn minus(value: ValueRef<'_>) -> Option<ValueRef<'_>> {
    match value {
        ValueRef::Int(v) => v.checked_neg().map(ValueRef::Int),
        _ => None,
    }
}

/// The parameters of a statement: where its question marks are, in the order of the text.
#[derive(Debug, Default)]
pub(super) struct Parameters(Vec<Location>);

impl Parameters {
    /// The parameters of a syntax tree.
    pub(super) fn of(tree: &impl Visit) -> Self {
        Self::default().and_of(tree)
    }

    /// These and those of another tree of the statement.
    pub(super) fn and_of(mut self, tree: &impl Visit) -> Self {
        let _ = tree.visit(&mut self);
        self.0.sort_unstable();
        self
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The operand that an expression is, if it is one.
    pub(super) fn operand(&self, expr: &Expr) -> Option<Operand> {
        match expr {
            Expr::Nested(inner) => self.operand(inner),
            Expr::Value(ValueWithSpan { value, span }) => Some(match value {
                Value::Placeholder(_) => Operand::Parameter {
                    number: self.0.binary_search(&span.start).ok()?,
                    negated: false,
                },
                Value::Number(text, false) => Operand::Constant(shape::integer(text)?),
                Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => {
                    Operand::Constant(Datum::String(text.clone().into_bytes()))
                }
                Value::Null => Operand::Constant(Datum::Null),
                _ => return None,
            }),
            Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr,
            } => match self.operand(expr)? {
                Operand::Constant(value) => {
                    minus(value.as_ref()).map(|value| Operand::Constant(value.to_datum()))
                }
                Operand::Parameter {
                    number,
                    negated: false,
                } => Some(Operand::Parameter {
                    number,
                    negated: true,
                }),
                Operand::Parameter { .. } => None,
            },
            _ => None,
        }
    }
}

impl Visitor for Parameters {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Value(value) = expr
            && matches!(value.value, Value::Placeholder(_))
        {
            self.0.push(value.span.start);
        }
        ControlFlow::Continue(())
    }
}
