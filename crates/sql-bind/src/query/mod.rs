//! Queries whose meaning is decided: a syntax tree and a catalog give a [`Query`], a tree of relational operators over
//! rows of typed columns.
//!
//! What the tree says is all that there is to know: names are places, types and conversions are in the expressions, and a
//! subquery of any clause is an [`Operator::Apply`] below the operator whose expression needs its value. The tree prints
//! itself, and [`Query::check`] says whether it holds together.

mod bind;
mod catalog;
mod change;
mod error;
mod tree;

pub use bind::{
    Assigned, Noted, Place, Rows, bind, bind_change, bind_view, other_hints, quoted, set_variables,
    time_limit,
};
pub use catalog::{
    Catalog, Check, KeyExpression, TableColumn, TableDefinition, ViewDefinition, ViewName,
};
pub use change::{Change, Source};
pub use error::{Clause, QueryError};
pub use tree::Relation;
pub use tree::{
    Aggregate, AggregateFunction, Applied, Apply, Bound, Column, Definition, Distance, Frame,
    FrameUnits, Hint, HintKind, IndexHint, IndexUse, Join, JoinKind, LockWait, Operator, Origin,
    Others, Quantifier, Query, RowLock, SetOperation, SortKey, Strength, Table, Warning, Window,
    WindowFunction,
};
