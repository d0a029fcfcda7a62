//! CONCAT of columns and operands: what appends to a text.

use perigee_value::{Collation, ColumnType, RecordView, ValueRef};
use sqlparser::ast::{Expr, FunctionArgExpr};

use super::function;
use super::names::Names;
use super::operand::{Operand, Parameters};

/// What is strung together.
#[derive(Debug)]
pub(super) struct Concat(Vec<Part>);

#[derive(Debug)]
enum Part {
    Column(usize),
    Operand(Operand),
}

impl Concat {
    /// The call that an expression is, if its arguments are columns and operands.
    pub(super) fn new(expr: &Expr, names: &Names<'_>, parameters: &Parameters) -> Option<Self> {
        let Expr::Function(function) = expr else {
            return None;
        };
        let (name, arguments) = function::call(function)?;
        let parts = arguments.into_iter().map(|argument| match argument {
            FunctionArgExpr::Expr(expr) => part(expr, names, parameters),
            _ => None,
        });
        let parts = parts.collect::<Option<Vec<_>>>()?;
        (name == "concat" && !parts.is_empty()).then_some(Self(parts))
    }

    /// The columns that are read.
    pub(super) fn columns(&self) -> impl Iterator<Item = usize> {
        self.0.iter().filter_map(|part| match part {
            Part::Column(column) => Some(*column),
            Part::Operand(_) => None,
        })
    }

    /// The text, or NULL if a part is NULL, for a row; `None` if it is not this simple.
    pub(super) fn text(
        &self,
        record: &RecordView<'_>,
        parameters: &[perigee_value::Datum],
    ) -> Option<Option<Vec<u8>>> {
        let mut text = Vec::new();
        for part in &self.0 {
            let value = match part {
                Part::Column(column) => record.value(*column),
                Part::Operand(operand) => operand.value(parameters)?,
            };
            match value {
                ValueRef::Null => return Some(None),
                ValueRef::String(part) => text.extend_from_slice(part),
                ValueRef::Int(v) => text.extend_from_slice(v.to_string().as_bytes()),
                ValueRef::UInt(v) => text.extend_from_slice(v.to_string().as_bytes()),
                _ => return None,
            }
        }
        Some(Some(text))
    }
}

fn part(expr: &Expr, names: &Names<'_>, parameters: &Parameters) -> Option<Part> {
    let Some(column) = names.column(expr) else {
        return parameters.operand(expr).map(Part::Operand);
    };
    let column = usize::from(column);
    let ty = names.table.def.columns[column].ty;
    let is_text = ty.collation().is_some_and(Collation::is_text);
    (is_text || matches!(ty, ColumnType::Int { .. })).then_some(Part::Column(column))
}
