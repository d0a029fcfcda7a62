//! Typed expressions with MySQL's meaning: the intermediate representation that frontends lower
//! predicates and aggregate arguments to, its validator, its wire form and its interpreter.
//!
//! The representation is safe by construction, because Page Stores are shared by tenants: a
//! program is a list of typed nodes in which a node refers to earlier nodes only, so it cannot
//! loop, and it can reach nothing but the columns of the record it is given. [`limits`] bound its
//! size and the work per record.
//!
//! There is one definition of what each operation does, in [`operations`]; `docs/expressions.md`
//! states it in a table together with the differences from MySQL.

pub mod digest;
pub mod functions;
pub mod json_table;
pub mod limits;
pub mod operations;
pub mod scalar;

#[cfg(feature = "arbitrary")]
pub mod arbitrary;

mod builder;
mod codec;
mod error;
mod evaluator;
mod exact_sum;
mod interpreter;
mod program;
mod render;
mod validate;

pub use builder::Builder;
pub use codec::PROGRAM_VERSION;
pub use error::{EvalError, ExprError};
pub use evaluator::{Evaluator, Lanes, Vector};
pub use exact_sum::ExactSum;
pub use interpreter::Interpreter;
pub use program::{
    AggregateFunction, Arithmetic, Comparison, DateField, Node, NodeId, Program, Type,
};
pub use validate::{validate, validate_values};
