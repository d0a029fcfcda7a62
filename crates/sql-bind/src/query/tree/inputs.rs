//! The relations that a relation is made of.

use super::{Operator, Relation};

impl Relation {
    /// The relations that it is made of, in the order in which they are printed.
    #[must_use]
    pub fn inputs(&self) -> Vec<&Self> {
        match &self.operator {
            Operator::One | Operator::Table(_) | Operator::Values(_) | Operator::Shared(_) => {
                Vec::new()
            }
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
            Operator::One | Operator::Table(_) | Operator::Values(_) | Operator::Shared(_) => {
                Vec::new()
            }
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
