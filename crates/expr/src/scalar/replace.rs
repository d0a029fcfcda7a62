//! Expressions changed in part: columns moved to other places, parts replaced by what was computed before.

use super::{Node, Scalar};

/// Stack that is left when it grows.
const RED_ZONE: usize = 128 << 10;

/// Bytes by which it grows.
const STACK: usize = 1 << 20;

impl Scalar {
    /// The expression with parts replaced, from the outside in: where `replace` gives an expression, it stands in the
    /// place of the part, and is not looked into.
    ///
    /// # Errors
    /// Those of `replace`.
    pub fn replaced<E>(
        mut self,
        replace: &mut dyn FnMut(&Self) -> Result<Option<Self>, E>,
    ) -> Result<Self, E> {
        change(&mut self, replace)?;
        Ok(self)
    }

    /// The expression with every part told to be NULL now and then.
    #[must_use]
    pub fn loosened(mut self) -> Self {
        loosen(&mut self);
        self
    }

    /// Shows the parts, from the outside in. Parts of which `see` says false are not looked into.
    pub fn visit(&self, see: &mut dyn FnMut(&Self) -> bool) {
        look(self, see);
    }

    /// The places of the columns that the expression names.
    #[must_use]
    pub fn places(&self) -> Vec<usize> {
        let mut places = Vec::new();
        self.visit(&mut |part| {
            if let Node::Column(place) = part.node {
                places.push(place);
            }
            true
        });
        places
    }

    fn operands_mut(&mut self) -> Vec<&mut Self> {
        match &mut self.node {
            Node::Constant(_)
            | Node::Column(_)
            | Node::Parameter(_)
            | Node::Local(_)
            | Node::Variable(..) => Vec::new(),
            Node::Cast(one, _)
            | Node::Comparable(one, _)
            | Node::Latin(one)
            | Node::Stored(one)
            | Node::MemberNumber(one, _)
            | Node::Negate(one)
            | Node::Round(_, one, _)
            | Node::Not(one)
            | Node::IsNull(one)
            | Node::Is(one, _)
            | Node::Listed(_, one, _)
            | Node::Extract(_, one)
            | Node::Assign(_, one) => vec![one],
            Node::Arithmetic(first, steps) => {
                let rest = steps.iter_mut().map(|step| &mut step.operand);
                std::iter::once(&mut **first).chain(rest).collect()
            }
            Node::Compare(_, _, two)
            | Node::Like(two, _)
            | Node::Xor(two)
            | Node::DateAdd(two, _)
            | Node::Let(_, two) => two.iter_mut().collect(),
            Node::In(_, one, list) => std::iter::once(&mut **one).chain(list).collect(),
            Node::And(all) | Node::Or(all) | Node::Coalesce(all) => all.iter_mut().collect(),
            Node::Case(branches, otherwise) => {
                let branches = branches.iter_mut().flat_map(|(when, then)| [when, then]);
                branches.chain(otherwise.as_deref_mut()).collect()
            }
            Node::Call(call) => call.arguments.iter_mut().collect(),
        }
    }
}

fn look(scalar: &Scalar, see: &mut dyn FnMut(&Scalar) -> bool) {
    stacker::maybe_grow(RED_ZONE, STACK, || {
        if see(scalar) {
            for operand in scalar.operands() {
                look(operand, see);
            }
        }
    });
}

fn loosen(scalar: &mut Scalar) {
    scalar.ty.nullable = true;
    stacker::maybe_grow(RED_ZONE, STACK, || {
        for operand in scalar.operands_mut() {
            loosen(operand);
        }
    });
}

fn change<E>(
    scalar: &mut Scalar,
    replace: &mut dyn FnMut(&Scalar) -> Result<Option<Scalar>, E>,
) -> Result<(), E> {
    stacker::maybe_grow(RED_ZONE, STACK, || {
        if let Some(new) = replace(scalar)? {
            *scalar = new;
            return Ok(());
        }
        for operand in scalar.operands_mut() {
            change(operand, replace)?;
        }
        Ok(())
    })
}
