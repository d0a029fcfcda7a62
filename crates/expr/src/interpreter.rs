//! The interpreter: evaluates a program row by row, over records or over plain values.
//!
//! Values borrow their strings from the record, so that evaluation allocates nothing (except one
//! slot per node that several nodes share). Each node is evaluated at most once per row.

use perigee_value::{LikePattern, RecordView, RowLayout, ValueRef, string};

use crate::operations::{self, Outcome};
use crate::{EvalError, Evaluator, Node, NodeId, Program, Type, Vector, validate};

/// A program ready to be interpreted.
#[derive(Clone, Debug)]
pub struct Interpreter {
    program: Program,
    types: Vec<Type>,
    /// For nodes with more than one user: where their value is remembered.
    slots: Vec<Option<u16>>,
    slot_count: usize,
    /// Compiled patterns of Like nodes.
    patterns: Vec<Option<LikePattern>>,
    /// What records look like; `None` over plain values.
    layout: Option<RowLayout>,
}

/// Where the columns of a row come from.
trait Row<'a> {
    fn column(&self, index: u16) -> ValueRef<'a>;
}

impl<'a> Row<'a> for RecordView<'a> {
    #[inline]
    fn column(&self, index: u16) -> ValueRef<'a> {
        self.value(usize::from(index))
    }
}

impl<'a> Row<'a> for &[ValueRef<'a>] {
    #[inline]
    fn column(&self, index: u16) -> ValueRef<'a> {
        self[usize::from(index)]
    }
}

impl Interpreter {
    /// Prepares a program for records of `layout`.
    ///
    /// # Panics
    /// If the program is not valid for the layout ([`Program::check`]).
    #[must_use]
    pub fn new(program: &Program, layout: &RowLayout) -> Self {
        Self::prepare(
            program,
            &validate::layout_columns(layout),
            Some(layout.clone()),
        )
    }

    /// Prepares a program for rows of plain values: column `i` has type `columns[i]`.
    ///
    /// # Panics
    /// If the program is not valid for these columns ([`crate::validate_values`]).
    #[must_use]
    pub fn over_values(program: &Program, columns: &[Type]) -> Self {
        let columns: Vec<_> = columns.iter().copied().map(Some).collect();
        Self::prepare(program, &columns, None)
    }

    fn prepare(program: &Program, columns: &[Option<Type>], layout: Option<RowLayout>) -> Self {
        if let Err(error) = validate::check(&program.nodes, columns) {
            panic!("E2: the program to interpret is not valid: {error}");
        }
        let mut users = vec![0u32; program.nodes.len()];
        for node in &program.nodes {
            node.for_each_operand(|operand| users[usize::from(operand.0)] += 1);
        }
        let mut slot_count = 0;
        let mut slots = Vec::with_capacity(program.nodes.len());
        for (node, users) in program.nodes.iter().zip(users) {
            let cheap = matches!(node, Node::Column { .. } | Node::Constant { .. });
            let shared = users > 1 && !cheap;
            slots.push(shared.then_some(slot_count));
            slot_count += u16::from(shared);
        }
        let types = program.types();
        let patterns = program.nodes.iter().map(|node| match node {
            Node::Like {
                operand,
                pattern,
                escape,
            } => {
                let collation = types[usize::from(operand.0)].collation()?;
                Some(LikePattern::collated(pattern, *escape, collation))
            }
            _ => None,
        });
        Self {
            slots,
            slot_count: usize::from(slot_count),
            patterns: patterns.collect(),
            types,
            program: program.clone(),
            layout,
        }
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Evaluates over one record, which the layout's shape must accept.
    ///
    /// # Panics
    /// If the interpreter was not made for records.
    pub fn record<'a>(&'a self, record: &'a [u8]) -> Outcome<'a> {
        let layout = self
            .layout
            .as_ref()
            .expect("made by Interpreter::new for records");
        self.run(&RecordView::new(layout, record), &mut self.memory())
    }

    /// Evaluates over one row of values. They must be of the types that the program was validated
    /// with, or NULL.
    ///
    /// # Panics
    /// If a value has another type, or there are too few.
    pub fn row<'a>(&'a self, row: &[ValueRef<'a>]) -> Outcome<'a> {
        self.run(&row, &mut self.memory())
    }

    /// Room for the values of shared nodes.
    fn memory<'a>(&self) -> Vec<Option<ValueRef<'a>>> {
        vec![None; self.slot_count]
    }

    fn run<'a>(&'a self, row: &impl Row<'a>, memory: &mut [Option<ValueRef<'a>>]) -> Outcome<'a> {
        memory.fill(None);
        self.node(self.program.root(), row, memory)
    }

    fn node<'a>(
        &'a self,
        id: NodeId,
        row: &impl Row<'a>,
        memory: &mut [Option<ValueRef<'a>>],
    ) -> Outcome<'a> {
        let Some(slot) = self.slots[usize::from(id.0)] else {
            return self.compute(id, row, memory);
        };
        if let Some(value) = memory[usize::from(slot)] {
            return Ok(value);
        }
        let value = self.compute(id, row, memory)?;
        memory[usize::from(slot)] = Some(value);
        Ok(value)
    }

    fn compute<'a>(
        &'a self,
        id: NodeId,
        row: &impl Row<'a>,
        memory: &mut [Option<ValueRef<'a>>],
    ) -> Outcome<'a> {
        match self.program.node(id) {
            Node::Column { index, .. } => Ok(row.column(*index)),
            Node::Constant { value, .. } => Ok(value.as_ref()),
            Node::Compare { op, left, right } => {
                let ty = self.ty(*left);
                let left = self.node(*left, row, memory)?;
                let right = self.node(*right, row, memory)?;
                Ok(operations::compare(*op, ty, left, right))
            }
            Node::And(operands) => self.junction(operands, false, row, memory),
            Node::Or(operands) => self.junction(operands, true, row, memory),
            Node::Arithmetic {
                op,
                left,
                right,
                ty,
            } => {
                let types = (self.ty(*left), self.ty(*right));
                let left = self.node(*left, row, memory)?;
                let right = self.node(*right, row, memory)?;
                if left.is_null() || right.is_null() {
                    return Ok(ValueRef::Null);
                }
                operations::arithmetic(*op, left, right, types, *ty)
            }
            Node::Case {
                branches,
                otherwise,
                ..
            } => {
                for (condition, value) in branches {
                    if self.node(*condition, row, memory)? == ValueRef::Bool(true) {
                        return self.node(*value, row, memory);
                    }
                }
                match otherwise {
                    Some(value) => self.node(*value, row, memory),
                    None => Ok(ValueRef::Null),
                }
            }
            Node::IsNull(operand) => {
                Ok(ValueRef::Bool(self.node(*operand, row, memory)?.is_null()))
            }
            Node::Not(operand)
            | Node::Negate(operand)
            | Node::Cast { operand, .. }
            | Node::In { operand, .. }
            | Node::Like { operand, .. }
            | Node::Extract { operand, .. }
            | Node::Substring { operand, .. } => {
                let value = self.node(*operand, row, memory)?;
                if value.is_null() {
                    return Ok(ValueRef::Null);
                }
                self.unary(id, value, self.ty(*operand))
            }
        }
    }

    /// AND (`decisive` false) and OR (`decisive` true): stops at the first decisive operand.
    fn junction<'a>(
        &'a self,
        operands: &[NodeId],
        decisive: bool,
        row: &impl Row<'a>,
        memory: &mut [Option<ValueRef<'a>>],
    ) -> Outcome<'a> {
        let mut result = ValueRef::Bool(!decisive);
        for operand in operands {
            match self.node(*operand, row, memory)? {
                ValueRef::Bool(value) if value == decisive => return Ok(ValueRef::Bool(decisive)),
                ValueRef::Null => result = ValueRef::Null,
                _ => {}
            }
        }
        Ok(result)
    }

    /// A node with one operand, whose value is not NULL.
    fn unary<'a>(&'a self, id: NodeId, value: ValueRef<'a>, ty: Type) -> Outcome<'a> {
        Ok(match (self.program.node(id), value) {
            (Node::Not(_), ValueRef::Bool(value)) => ValueRef::Bool(!value),
            (Node::Negate(_), _) => return operations::negate(value, ty),
            (Node::Cast { ty: to, .. }, _) => return operations::cast(value, ty, *to),
            (Node::In { list, has_null, .. }, _) => {
                let found =
                    list.binary_search_by(|item| operations::order_of(ty, item.as_ref(), value));
                match (found.is_ok(), has_null) {
                    (false, true) => ValueRef::Null,
                    (found, _) => ValueRef::Bool(found),
                }
            }
            (Node::Like { .. }, ValueRef::String(text)) => {
                let pattern = self.patterns[usize::from(id.0)].as_ref();
                ValueRef::Bool(
                    pattern
                        .expect("each Like node has its pattern")
                        .matches(text),
                )
            }
            (Node::Extract { field, .. }, _) => ValueRef::Int(operations::extract(*field, value)),
            (Node::Substring { start, length, .. }, ValueRef::String(text)) => {
                ValueRef::String(string::substring(text, *start, *length))
            }
            (node, _) => panic!("E2: {node:?} of {value:?}"),
        })
    }

    fn ty(&self, id: NodeId) -> Type {
        self.types[usize::from(id.0)]
    }
}

impl Evaluator for Interpreter {
    fn filter(&self, base: &[u8], records: &[u16], pass: &mut Vec<u16>, failed: &mut Vec<u16>) {
        let layout = self
            .layout
            .as_ref()
            .expect("made by Interpreter::new for records");
        let mut memory = self.memory();
        for offset in records {
            let view = RecordView::new(layout, &base[usize::from(*offset)..]);
            match self.run(&view, &mut memory) {
                Ok(ValueRef::Bool(true)) => pass.push(*offset),
                Ok(_) => {}
                Err(EvalError::OutOfRange(_)) => failed.push(*offset),
            }
        }
    }

    fn evaluate(&self, base: &[u8], records: &[u16], out: &mut Vector, failed: &mut Vec<u32>) {
        let layout = self
            .layout
            .as_ref()
            .expect("made by Interpreter::new for records");
        let mut memory = self.memory();
        for (position, offset) in records.iter().enumerate() {
            let view = RecordView::new(layout, &base[usize::from(*offset)..]);
            let value = self.run(&view, &mut memory).unwrap_or_else(|_| {
                failed.push(position as u32);
                ValueRef::Null
            });
            out.push(value);
        }
    }

    fn result_type(&self) -> Type {
        self.ty(self.program.root())
    }
}

#[cfg(test)]
mod tests;
