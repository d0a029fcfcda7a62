//! From bound queries to DataFusion's logical plans.
//!
//! The binder has decided names, types, conversions and collations. Here each expression gets the form in which the
//! optimizer, storage and statistics recognise what it means: DataFusion's own where that is the same, otherwise one of
//! our functions, at last [`crate::functions::scalar`]. What has no plan here is error 1235.

mod aggregate;
mod applied;
mod comparison;
mod constant;
mod expression;
mod function;
mod in_turn;
mod json_table;
mod output;
mod relation;
mod rollup;
mod set;
mod subquery;
mod window;
mod with;

use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;

pub use relation::{Planned, Subqueries, planned};

/// The row that expressions are over.
pub(super) struct Row<'r> {
    /// Its columns, by place.
    pub columns: &'r [Expr],
    /// The values of the row around a subquery.
    pub parameters: &'r [Expr],
    /// The types of both.
    pub schema: &'r DFSchema,
}
