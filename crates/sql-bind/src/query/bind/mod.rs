//! From syntax trees to [`super::Query`].

mod aggregate;
mod block;
mod change;
mod dependence;
mod from;
mod group;
mod hints;
mod join;
mod json_table;
mod keys;
mod locks;
mod names;
mod noted;
mod order;
mod query;
mod scope;
mod select;
mod stage;
mod statement;
mod subquery;
mod variables;
mod view;
mod window;
mod with;

pub use change::{Assigned, Rows, bind_change};
pub use hints::{other_hints, set_variables, time_limit};
pub use noted::{Noted, Place, quoted};
pub use statement::{bind, bind_view};
