//! The relations and the expressions that a relation is made of.

use perigee_expr::scalar::Scalar;

use super::{Applied, Operator, Relation};

impl Relation {
    /// The relations that it is made of, in the order in which they are printed.
    #[must_use]
    pub fn inputs(&self) -> Vec<&Self> {
        match &self.operator {
            Operator::One
            | Operator::Table(_)
            | Operator::JsonTable { .. }
            | Operator::Values(_)
            | Operator::Shared(_) => Vec::new(),
            Operator::Filter { input, .. }
            | Operator::Project { input, .. }
            | Operator::Aggregate { input, .. }
            | Operator::Window { input, .. }
            | Operator::Sort { input, .. }
            | Operator::Limit { input, .. }
            | Operator::Distinct { input } => vec![input],
            Operator::Join(join) => vec![&join.left, &join.right],
            Operator::Set { inputs, .. } => inputs.iter().collect(),
            Operator::Apply(apply) => vec![&apply.input, &apply.subquery],
            Operator::With { definitions, body } => {
                let definitions = definitions.iter();
                let parts = definitions.flat_map(|one| std::iter::once(&one.base).chain(&one.step));
                parts.chain(std::iter::once(&**body)).collect()
            }
        }
    }

    /// The same, to be changed.
    pub fn inputs_mut(&mut self) -> Vec<&mut Self> {
        match &mut self.operator {
            Operator::One
            | Operator::Table(_)
            | Operator::JsonTable { .. }
            | Operator::Values(_)
            | Operator::Shared(_) => Vec::new(),
            Operator::Filter { input, .. }
            | Operator::Project { input, .. }
            | Operator::Aggregate { input, .. }
            | Operator::Window { input, .. }
            | Operator::Sort { input, .. }
            | Operator::Limit { input, .. }
            | Operator::Distinct { input } => vec![input],
            Operator::Join(join) => vec![&mut join.left, &mut join.right],
            Operator::Set { inputs, .. } => inputs.iter_mut().collect(),
            Operator::Apply(apply) => vec![&mut apply.input, &mut apply.subquery],
            Operator::With { definitions, body } => {
                let definitions = definitions.iter_mut();
                let parts =
                    definitions.flat_map(|one| std::iter::once(&mut one.base).chain(&mut one.step));
                parts.chain(std::iter::once(&mut **body)).collect()
            }
        }
    }
}

impl Relation {
    /// The expressions over the rows of its inputs, those of its inputs not among them.
    #[must_use]
    pub fn scalars(&self) -> Vec<&Scalar> {
        match &self.operator {
            Operator::One
            | Operator::Table(_)
            | Operator::Shared(_)
            | Operator::Limit { .. }
            | Operator::Distinct { .. }
            | Operator::Set { .. }
            | Operator::With { .. } => Vec::new(),
            Operator::Values(rows) => rows.iter().flatten().collect(),
            Operator::JsonTable { document, .. } => vec![document],
            Operator::Filter { predicate, .. } => vec![predicate],
            Operator::Project { expressions, .. } => expressions.iter().collect(),
            Operator::Join(join) => join.on.iter().collect(),
            Operator::Aggregate {
                keys, aggregates, ..
            } => {
                let arguments = aggregates.iter().flat_map(|one| {
                    let order = one.order.iter().map(|key| &key.scalar);
                    one.arguments.iter().chain(order)
                });
                keys.iter().chain(arguments).collect()
            }
            Operator::Window { functions, .. } => {
                let all = functions.iter().flat_map(|one| {
                    let order = one.order.iter().map(|key| &key.scalar);
                    one.arguments.iter().chain(&one.partition).chain(order)
                });
                all.collect()
            }
            Operator::Sort { keys, .. } => keys.iter().map(|key| &key.scalar).collect(),
            Operator::Apply(apply) => {
                let operands = match &apply.applied {
                    Applied::Quantified { operands, .. } => &operands[..],
                    Applied::Row | Applied::Exists | Applied::Lateral { .. } => &[],
                };
                let operands = operands.iter().map(|(operand, _)| operand);
                apply.arguments.iter().chain(operands).collect()
            }
        }
    }
}
