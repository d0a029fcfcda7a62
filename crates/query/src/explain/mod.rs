//! What EXPLAIN shows of a plan: a description in MySQL's words ([`Plan`]), made once from the operators, from which the
//! traditional table, the tree and JSON are printed. Names of operators are not shown; what nobody calls anything (an
//! exchange between threads, a projection) is left out.

mod actual;
mod build;
mod expression;
mod json;
mod node;
mod table;
mod tree;

pub use actual::{Actual, Measuring, measured};
pub use build::plan;
pub use node::{Changed, Plan};
pub use table::COLUMNS;
