//! Expressions that are one: with equal values for every row.

use std::sync::Arc;

use super::{Call, Node, Scalar};

/// Stack that is left when it grows.
const RED_ZONE: usize = 128 << 10;

/// Bytes by which it grows.
const STACK: usize = 1 << 20;

impl Scalar {
    /// True if the other expression has the same operators and operands, and so the same value for each row, up to digits
    /// that are not shown. A function with another value each time is not the same as itself.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        is_same(self, other, &mut Vec::new())
    }
}

/// `locals` are the numbers of values around both expressions that have the same meaning.
fn is_same(this: &Scalar, other: &Scalar, locals: &mut Vec<[usize; 2]>) -> bool {
    if this.ty != other.ty {
        return false;
    }
    match (&this.node, &other.node) {
        (Node::Local(this), Node::Local(other)) => {
            let is_either = |pair: &&[usize; 2]| pair[0] == *this || pair[1] == *other;
            let innermost = locals.iter().rev().find(is_either);
            innermost == Some(&[*this, *other])
        }
        (Node::Let(number, two), Node::Let(twin, others)) => {
            stacker::maybe_grow(RED_ZONE, STACK, || {
                if !is_same(&two[0], &others[0], locals) {
                    return false;
                }
                locals.push([*number, *twin]);
                let is_one = is_same(&two[1], &others[1], locals);
                locals.pop();
                is_one
            })
        }
        (one, another) => {
            have_one_operator(one, another)
                && stacker::maybe_grow(RED_ZONE, STACK, || {
                    let (these, others) = (this.operands(), other.operands());
                    let mut both = these.iter().zip(&others);
                    these.len() == others.len()
                        && both.all(|(one, other)| is_same(one, other, locals))
                })
        }
    }
}

/// True if two nodes do the same with equal operands.
fn have_one_operator(one: &Node, other: &Node) -> bool {
    match (one, other) {
        (Node::Constant(a), Node::Constant(b)) => a == b,
        (Node::Column(a), Node::Column(b)) | (Node::Parameter(a), Node::Parameter(b)) => a == b,
        (Node::Cast(_, a), Node::Cast(_, b)) => a == b,
        (Node::Comparable(_, a), Node::Comparable(_, b)) => a == b,
        (Node::MemberNumber(_, a), Node::MemberNumber(_, b)) => Arc::ptr_eq(a, b) || a == b,
        (Node::Arithmetic(_, a), Node::Arithmetic(_, b)) => {
            let mut steps = a.iter().zip(b);
            a.len() == b.len() && steps.all(|(a, b)| (a.op, a.shown) == (b.op, b.shown))
        }
        (Node::Round(a, _, p), Node::Round(b, _, q)) => a == b && p == q,
        (Node::Compare(a, c, _), Node::Compare(b, d, _)) => a == b && c == d,
        (Node::In(a, ..), Node::In(b, ..)) => a == b,
        (Node::Listed(a, _, one), Node::Listed(b, _, other)) => a == b && Arc::ptr_eq(one, other),
        (Node::Like(_, a), Node::Like(_, b)) => a.collation == b.collation && a.escape == b.escape,
        (Node::Is(_, a), Node::Is(_, b)) => a == b,
        (Node::Case(a, _), Node::Case(b, _)) => a.len() == b.len(),
        (Node::Extract(a, _), Node::Extract(b, _)) => a == b,
        (Node::DateAdd(_, a), Node::DateAdd(_, b)) => a == b,
        (Node::Call(a), Node::Call(b)) => is_one_function(a, b),
        (Node::Latin(_), Node::Latin(_))
        | (Node::Stored(_), Node::Stored(_))
        | (Node::Negate(_), Node::Negate(_))
        | (Node::And(_), Node::And(_))
        | (Node::Or(_), Node::Or(_))
        | (Node::Xor(_), Node::Xor(_))
        | (Node::Not(_), Node::Not(_))
        | (Node::IsNull(_), Node::IsNull(_))
        | (Node::Coalesce(_), Node::Coalesce(_)) => true,
        _ => false,
    }
}

fn is_one_function(a: &Call, b: &Call) -> bool {
    a.function.name() == b.function.name()
        && a.function.deterministic
        && a.collation == b.collation
        && a.over_bytes == b.over_bytes
}

#[cfg(test)]
mod tests {
    use perigee_sql_type::SqlType;

    use super::*;

    fn column(place: usize) -> Scalar {
        Scalar::new(Node::Column(place), SqlType::int())
    }

    fn not(scalar: Scalar) -> Scalar {
        Scalar::new(Node::Not(Box::new(scalar)), SqlType::truth())
    }

    #[test]
    fn sameness_is_that_of_operators_and_operands() {
        assert!(not(column(1)).is_same(&not(column(1))));
        assert!(!not(column(1)).is_same(&not(column(2))));
        assert!(!not(column(1)).is_same(&column(1)));
    }

    #[test]
    fn values_with_numbers_are_the_same_whatever_the_numbers() {
        let local = |number| Scalar::new(Node::Local(number), SqlType::truth());
        let given = |number, value, body| {
            Scalar::new(Node::Let(number, Box::new([value, body])), SqlType::truth())
        };
        let one = given(1, not(column(1)), not(local(1)));
        assert!(one.is_same(&given(2, not(column(1)), not(local(2)))));
        assert!(!one.is_same(&given(2, not(column(2)), not(local(2)))));
        let nested = |outer, inner, used| {
            let body = given(inner, not(column(2)), not(local(used)));
            given(outer, not(column(1)), body)
        };
        assert!(nested(1, 2, 1).is_same(&nested(2, 1, 2)));
        assert!(!nested(1, 2, 1).is_same(&nested(1, 2, 2)));
        assert!(nested(1, 1, 1).is_same(&nested(1, 2, 2)));
        assert!(!nested(1, 1, 1).is_same(&nested(1, 2, 1)));
    }
}
