//! Where the user variables of a statement may be assigned to, and read: where rows come one after the other.

use super::super::{Definition, Operator, Relation};
use crate::Result;
use crate::error::unsupported;

/// Stack that is left when it grows.
const RED_ZONE: usize = 128 << 10;

/// Bytes by which it grows.
const STACK: usize = 1 << 20;

/// An error if a variable that a statement assigns to stands where no order of rows is defined.
///
/// # Errors
/// 1235.
pub(super) fn check(relation: &Relation) -> Result<()> {
    stacker::maybe_grow(RED_ZONE, STACK, || {
        match &relation.operator {
            Operator::Project { .. } | Operator::Filter { .. } | Operator::Sort { .. } => {}
            Operator::Apply(apply) if has_variables(&apply.subquery) => {
                return unsupported("a user variable that the statement assigns to in a subquery");
            }
            Operator::Set { inputs, .. } => {
                let several = inputs.iter().filter(|input| has_variables(input)).nth(1);
                if several.is_some() {
                    return unsupported("user variables in several parts of a UNION");
                }
            }
            Operator::With { definitions, .. } => {
                let is_step = |one: &Definition| one.step.as_ref().is_some_and(has_variables);
                if definitions.iter().any(is_step) {
                    return unsupported("user variables in a recursive query");
                }
            }
            _ if relation.scalars().iter().any(|one| one.has_variables()) => {
                return unsupported("a user variable that the statement assigns to in this place");
            }
            _ => {}
        }
        relation.inputs().into_iter().try_for_each(check)
    })
}

fn has_variables(relation: &Relation) -> bool {
    stacker::maybe_grow(RED_ZONE, STACK, || {
        let mut own = relation.scalars().into_iter();
        own.any(|one| one.has_variables()) || relation.inputs().into_iter().any(has_variables)
    })
}
