//! From syntax trees to expressions whose meaning is decided: names, types, conversions and collations, each decided
//! once. The crate knows no plans and no execution; what it gives evaluates by itself
//! ([`perigee_expr::scalar::Scalar`]), and queries as trees of relational operators ([`query::Query`]).

pub mod binary;
pub mod query;

mod arithmetic;
mod between;
mod branches;
mod cast;
mod comparison;
mod environment;
mod error;
mod expression;
mod function;
mod interval;
mod json_value;
mod literal;
mod long_list;
mod modes;
mod repeated;
mod rows;
mod zoned;

pub use environment::{ColumnOf, Environment};
pub use error::{BindError, Digits, Result};
pub use expression::Binder;
pub use long_list::{ListItem, ListItems};
pub use modes::{Modes, WrongModes};
