//! Programs made ready to run: compiled, interpreted, or read straight from the record.

use perigee_expr::{
    Arithmetic, Comparison, Evaluator, Interpreter, Node, NodeId, Program, Type, Vector,
};
use perigee_jit::JitEvaluator;
use perigee_value::{Datum, RowLayout};

use crate::gather::Gather;

/// How programs are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Compiled to machine code; what cannot be compiled is interpreted.
    Jit,
    /// Interpreted.
    Interpreter,
}

/// A program bound to a layout.
pub(crate) struct Expression {
    program: Program,
    ty: Type,
    nullable: bool,
    evaluator: Box<dyn Evaluator>,
    compiled: bool,
}

impl Expression {
    pub(crate) fn new(program: &Program, layout: &RowLayout, backend: Backend) -> Self {
        let jit = match backend {
            Backend::Jit => JitEvaluator::compile(program, layout).ok(),
            Backend::Interpreter => None,
        };
        let compiled = jit.is_some();
        let evaluator: Box<dyn Evaluator> = match jit {
            Some(jit) => Box::new(jit),
            None => Box::new(Interpreter::new(program, layout)),
        };
        Self {
            program: program.clone(),
            ty: evaluator.result_type(),
            nullable: may_be_null(program, layout),
            evaluator,
            compiled,
        }
    }

    pub(crate) fn is_compiled(&self) -> bool {
        self.compiled
    }

    pub(crate) fn evaluator(&self) -> &dyn Evaluator {
        &*self.evaluator
    }
}

/// An expression whose values are wanted: a column is read, anything else is evaluated.
pub(crate) struct Operand {
    expression: Expression,
    column: Option<Gather>,
}

impl Operand {
    pub(crate) fn new(program: &Program, layout: &RowLayout, backend: Backend) -> Self {
        let column = program.as_column().map(|index| Gather::new(layout, index));
        // A column that is read directly needs no machine code.
        let backend = if column.is_some() {
            Backend::Interpreter
        } else {
            backend
        };
        Self {
            expression: Expression::new(program, layout, backend),
            column,
        }
    }

    pub(crate) fn program(&self) -> &Program {
        &self.expression.program
    }

    pub(crate) fn result_type(&self) -> Type {
        self.expression.ty
    }

    /// False if it is known that no value of it is NULL.
    pub(crate) fn is_nullable(&self) -> bool {
        self.expression.nullable
    }

    pub(crate) fn is_compiled(&self) -> bool {
        self.column.is_some() || self.expression.compiled
    }

    /// An empty vector of the form of its values.
    pub(crate) fn vector(&self) -> Vector {
        Vector::new(self.expression.ty)
    }

    /// The column, if it is a string that can be read straight from the records.
    pub(crate) fn item(&self) -> Option<&Gather> {
        self.column.as_ref().filter(|column| column.is_item())
    }

    /// Appends the values of records to `out`, and the positions of those that fail to `failed`.
    pub(crate) fn evaluate(
        &self,
        base: &[u8],
        records: &[u16],
        out: &mut Vector,
        failed: &mut Vec<u32>,
    ) {
        match &self.column {
            Some(column) => column.append(base, records, out),
            None => self
                .expression
                .evaluator
                .evaluate(base, records, out, failed),
        }
    }
}

/// False if every value of the program is known not to be NULL.
fn may_be_null(program: &Program, layout: &RowLayout) -> bool {
    let mut nullable: Vec<bool> = Vec::with_capacity(program.nodes.len());
    for node in &program.nodes {
        let of = |id: &NodeId| nullable[usize::from(id.0)];
        let null = match node {
            Node::Column { index, .. } => layout.columns[usize::from(*index)].null_bit.is_some(),
            Node::Constant { value, .. } => *value == Datum::Null,
            Node::Compare {
                op: Comparison::NullSafeEqual,
                ..
            }
            | Node::IsNull(_) => false,
            Node::Arithmetic {
                op: Arithmetic::Divide | Arithmetic::IntDivide | Arithmetic::Modulo,
                ..
            } => true,
            Node::Compare { left, right, .. } | Node::Arithmetic { left, right, .. } => {
                of(left) || of(right)
            }
            Node::And(operands) | Node::Or(operands) => operands.iter().any(of),
            Node::Not(operand)
            | Node::Negate(operand)
            | Node::Cast { operand, .. }
            | Node::Like { operand, .. }
            | Node::Extract { operand, .. }
            | Node::Substring { operand, .. } => of(operand),
            Node::In {
                operand, has_null, ..
            } => *has_null || of(operand),
            Node::Case {
                branches,
                otherwise,
                ..
            } => otherwise.as_ref().is_none_or(of) || branches.iter().any(|(_, value)| of(value)),
        };
        nullable.push(null);
    }
    nullable.last().copied().unwrap_or(true)
}
