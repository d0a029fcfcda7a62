//! A value that stands in several places of an expression: it is copied where that is cheap, otherwise it gets a number.

use std::convert::Infallible;

use perigee_expr::scalar::{Node, Scalar};

use crate::Binder;

/// The value.
#[must_use = "its places mean nothing without it"]
pub(crate) struct Repeated {
    /// What stands in each place.
    place: Scalar,
    /// The number and the value, where that is another.
    value: Option<(usize, Scalar)>,
}

impl Binder<'_> {
    /// A value that will stand in several places.
    pub(crate) fn repeated(&self, value: Scalar) -> Repeated {
        if value.is_cheap() {
            return Repeated {
                place: value,
                value: None,
            };
        }
        let number = self.locals.get();
        self.locals.set(number + 1);
        Repeated {
            place: Scalar::new(Node::Local(number), value.ty.clone()),
            value: Some((number, value)),
        }
    }
}

impl Repeated {
    /// The value in one more place.
    pub(crate) fn place(&self) -> Scalar {
        self.place.clone()
    }

    /// The expression with all places in it.
    pub(crate) fn within(self, whole: Scalar) -> Scalar {
        let Some((number, value)) = self.value else {
            return whole;
        };
        let mut places = 0;
        whole.visit(&mut |part| {
            places += usize::from(matches!(part.node, Node::Local(own) if own == number));
            true
        });
        if places > 1 {
            let ty = whole.ty.clone();
            return Scalar::new(Node::Let(number, Box::new([value, whole])), ty);
        }
        let mut value = Some(value);
        let single = whole.replaced::<Infallible>(&mut |part| {
            Ok(match part.node {
                Node::Local(own) if own == number => value.take(),
                _ => None,
            })
        });
        match single {
            Ok(single) => single,
        }
    }
}
