//! Joins in storage: a small side of a hash join becomes a table that the scan of the other side is joined with where its
//! pages are, and aggregated above the join ([`perigee_engine::ndp::JoinTable`]; ColumnBurst, sections 2 and 3).
//!
//! - [`rule`] finds such joins below partial aggregations, before accesses are decided on.
//! - [`matching`] says what of the join and the aggregation storage can do, in terms of joined records.
//! - A [`JoinTableExec`] reads the small side, makes a table of it ([`table_side`]), and runs the scan with it. Where no
//!   table comes about, because the rows are too many or two have the same key, it runs the ordinary plan; the rows that
//!   were read are [replayed](replay) there.

mod columns;
mod exec;
mod matching;
mod replay;
mod rule;
mod table_side;

pub use exec::JoinTableExec;
pub(super) use rule::JoinTableRule;
