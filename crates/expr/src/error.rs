//! What can be wrong with a program, and what can go wrong while it runs.

use perigee_value::Datum;

use crate::{NodeId, Type};

/// A list of nodes is not a valid program.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ExprError {
    /// There is no node, or there are more than the limit.
    #[error("{0} nodes")]
    NodeCount(usize),
    /// A list, a string or the depth exceeds its limit.
    #[error("node {}: too many {what}", node.0)]
    Limit {
        /// Where.
        node: NodeId,
        /// Of what.
        what: &'static str,
    },
    /// A node refers to itself or to a later one.
    #[error("node {}: operand {} does not come before it", node.0, operand.0)]
    Order {
        /// Where.
        node: NodeId,
        /// The operand.
        operand: NodeId,
    },
    /// Operands or the result have types that the operation is not defined for.
    #[error("node {}: {what}", node.0)]
    Type {
        /// Where.
        node: NodeId,
        /// What was expected.
        what: &'static str,
    },
    /// A column does not exist, or has another type or an unsupported collation.
    #[error("node {}: column {column} is not a {ty} here", node.0)]
    Column {
        /// Where.
        node: NodeId,
        /// Its index.
        column: u16,
        /// The stated type.
        ty: Type,
    },
    /// A constant is not a value of its type.
    #[error("{value:?} is not a constant of type {ty}")]
    Constant {
        /// The value.
        value: Datum,
        /// The stated type.
        ty: Type,
    },
    /// The builder knows no operation for operands of these types.
    #[error("{what} is not defined for {left} and {right}")]
    Operands {
        /// The operation.
        what: &'static str,
        /// Type of the first operand.
        left: Type,
        /// Type of the second.
        right: Type,
    },
}

/// Evaluation of a program on a row failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The result of an operation is outside of its type (MySQL 1690).
    #[error("{0} value is out of range")]
    OutOfRange(Type),
}
