//! Expressions whose meaning is decided, a row at a time: types, conversions and collations are in the tree, so that
//! evaluating it decides nothing. The frontend binds SQL text to them.
//!
//! [`Scalar::evaluate`] is what an expression means; faster evaluators of a part of it (programs in storage, columns
//! in plans) agree with it.

mod cast;
mod compare;
mod computed;
mod evaluate;
mod listed;
mod number;
mod print;
mod replace;
mod round;
mod same;
mod values;
mod variable;

use std::sync::Arc;

use perigee_sql_type::{Number, SqlType};
use perigee_value::{LikePattern, Members};

use crate::functions::{Function, Kind, Memo, Value};
use crate::{Arithmetic, Comparison, DateField};

pub use cast::{Target, cast, is_castable, leading_integer};
pub use compare::{Domain, NO_DATE, moment_of, order, time_of};
pub use evaluate::{Context, Failure, Nowhere, Outcome, value_type};
pub use listed::Listed;
pub use number::{arithmetic_type, unrounded_type};
pub use round::{Rounding, rounded_type};
pub use values::{of_datum, to_datum, to_text};
pub use variable::Variable;

/// Nodes of an expression that is cheap.
const CHEAP: usize = 16;

/// An expression.
#[derive(Clone, Debug)]
pub struct Scalar {
    /// What it computes.
    pub node: Node,
    /// The type of its values.
    pub ty: SqlType,
}

/// What an expression computes. Operands have the types that the binder gave them: no node converts anything that it
/// does not say.
#[derive(Clone, Debug)]
pub enum Node {
    /// A value that is known before there are rows.
    Constant(Value<'static>),
    /// A value of the row, by its place.
    Column(usize),
    /// A value of the row around a subquery, by its place among those that the subquery is given.
    Parameter(usize),
    /// CAST.
    Cast(Box<Scalar>, Target),
    /// A value as one of those that a comparison of a domain takes.
    Comparable(Box<Scalar>, Domain),
    /// A value as a column of the expression's type holds it once it is assigned; NULL if the column cannot hold it, for
    /// the assignment itself is an error then.
    Stored(Box<Scalar>),
    /// Each byte of a string as the character with its number.
    Latin(Box<Scalar>),
    /// The number of a value of an ENUM or a SET.
    MemberNumber(Box<Scalar>, Arc<Members>),
    /// Operators of arithmetic, one after the other.
    Arithmetic(Box<Scalar>, Vec<Step>),
    /// `-x`, a number with a sign.
    Negate(Box<Scalar>),
    /// ABS, SIGN, FLOOR, CEIL, ROUND, TRUNCATE, to so many places.
    Round(Rounding, Box<Scalar>, i64),
    /// Two values of a domain.
    Compare(Comparison, Domain, Box<[Scalar; 2]>),
    /// True if any of them is equal to the first operand.
    In(Domain, Box<Scalar>, Vec<Scalar>),
    /// The same of many constants.
    Listed(Domain, Box<Scalar>, Arc<Listed>),
    /// LIKE.
    Like(Box<[Scalar; 2]>, LikeKind),
    /// All are true.
    And(Vec<Scalar>),
    /// One is true.
    Or(Vec<Scalar>),
    /// One of two is true.
    Xor(Box<[Scalar; 2]>),
    /// NOT.
    Not(Box<Scalar>),
    /// IS NULL.
    IsNull(Box<Scalar>),
    /// IS TRUE, IS FALSE: never NULL.
    Is(Box<Scalar>, bool),
    /// The value behind the first condition that is true, otherwise the last one.
    Case(Vec<(Scalar, Scalar)>, Option<Box<Scalar>>),
    /// The first that is not NULL.
    Coalesce(Vec<Scalar>),
    /// A field of a date or a time.
    Extract(DateField, Box<Scalar>),
    /// A date and an interval.
    DateAdd(Box<[Scalar; 2]>, Interval),
    /// A function of the library.
    Call(Box<Call>),
    /// A value with a number, and an expression in which [`Node::Local`]s of this number are the value: it is computed
    /// once, wherever it stands.
    Let(usize, Box<[Scalar; 2]>),
    /// The value of the innermost [`Node::Let`] around it with its number.
    Local(usize),
    /// The value of a user variable that the statement assigns to, at the time of evaluation.
    Variable(Arc<Variable>, Target),
    /// `@variable := value`: the value, which the variable has from then on.
    Assign(Arc<Variable>, Box<Scalar>),
}

/// An operator of a chain.
#[derive(Clone, Debug)]
pub struct Step {
    /// Which one.
    pub op: Arithmetic,
    /// Its right operand.
    pub operand: Scalar,
    /// The type of the result as it is shown.
    pub shown: Number,
    /// The type in which it is computed; it may have more digits.
    pub to: Number,
}

/// How LIKE compares.
#[derive(Clone, Debug)]
pub struct LikeKind {
    /// Characters that are alike.
    pub collation: perigee_value::Collation,
    /// The escape character.
    pub escape: char,
    /// The pattern, if it is a constant.
    pub pattern: Option<LikePattern>,
}

/// What the units of an interval are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// So many days each.
    Days(i64),
    /// So many months each.
    Months(i64),
    /// So many microseconds each.
    Micros(i64),
}

/// A call of a function of the library.
pub struct Call {
    /// The function.
    pub function: &'static Function,
    /// Its arguments before they are converted.
    pub arguments: Vec<Scalar>,
    /// Collation in which strings compare.
    pub collation: perigee_value::Collation,
    /// Each byte of texts is a character.
    pub over_bytes: bool,
    /// What the call keeps from row to row.
    pub memo: Memo,
}

impl Clone for Call {
    /// The same call, which keeps nothing yet.
    fn clone(&self) -> Self {
        Self {
            function: self.function,
            arguments: self.arguments.clone(),
            collation: self.collation,
            over_bytes: self.over_bytes,
            memo: Memo::default(),
        }
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(self.function.name())
            .field("arguments", &self.arguments)
            .finish_non_exhaustive()
    }
}

impl Call {
    /// The kind of the parameter of an argument.
    #[must_use]
    pub fn kind(&self, argument: usize) -> Kind {
        self.function.parameter(argument)
    }
}

impl Scalar {
    /// An expression of a type.
    #[must_use]
    pub fn new(node: Node, ty: SqlType) -> Self {
        Self { node, ty }
    }

    /// NULL.
    #[must_use]
    pub fn null() -> Self {
        Self::new(Node::Constant(Value::Null), SqlType::NULL)
    }

    /// The value, if it is known before there are rows.
    #[must_use]
    pub fn constant(&self) -> Option<&Value<'static>> {
        match &self.node {
            Node::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// True if the expression costs next to nothing, and gives the same value each time: it may be repeated.
    #[must_use]
    pub fn is_cheap(&self) -> bool {
        let mut nodes = 0;
        let mut is_cheap = true;
        self.visit(&mut |part| {
            nodes += 1;
            is_cheap &= nodes <= CHEAP && part.is_deterministic();
            is_cheap &= !matches!(part.node, Node::Let(..));
            is_cheap
        });
        is_cheap
    }

    /// The operands.
    #[must_use]
    pub fn operands(&self) -> Vec<&Self> {
        match &self.node {
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
                let rest = steps.iter().map(|step| &step.operand);
                std::iter::once(&**first).chain(rest).collect()
            }
            Node::Compare(_, _, two)
            | Node::Like(two, _)
            | Node::Xor(two)
            | Node::DateAdd(two, _)
            | Node::Let(_, two) => two.iter().collect(),
            Node::In(_, one, list) => std::iter::once(&**one).chain(list).collect(),
            Node::And(all) | Node::Or(all) | Node::Coalesce(all) => all.iter().collect(),
            Node::Case(branches, otherwise) => {
                let branches = branches.iter().flat_map(|(when, then)| [when, then]);
                branches.chain(otherwise.as_deref()).collect()
            }
            Node::Call(call) => call.arguments.iter().collect(),
        }
    }

    /// True if equal operands give equal values.
    #[must_use]
    pub fn is_deterministic(&self) -> bool {
        match &self.node {
            Node::Call(call) => call.function.deterministic,
            Node::Variable(..) | Node::Assign(..) => false,
            _ => true,
        }
    }
}
