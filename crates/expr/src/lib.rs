//! Typed expressions with MySQL's meaning: the intermediate representation that frontends lower
//! predicates and aggregate arguments to, its validator, its wire form and its interpreter.
//!
//! The representation is safe by construction, because Page Stores are shared by tenants: a
//! program is a list of typed nodes in which a node refers to earlier nodes only, so it cannot
//! loop, and it can reach nothing but the columns of the record it is given (SPEC's N10).

mod evaluator;
mod program;

pub use evaluator::{Evaluator, Lanes, Vector};
pub use program::{
    AggregateFunction, Arithmetic, Comparison, DateField, Node, NodeId, Program, Type,
};
