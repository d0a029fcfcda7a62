//! What record bytes mean: SQL types, values, row layouts, the row codec and the key encoding.
//!
//! The crate knows no page and no SQL text beyond literals of its types.

mod datum;
mod layout;
mod types;

pub use datum::Datum;
pub use layout::{ColumnLayout, Place, RowLayout};
pub use types::{Collation, ColumnType};
