//! Checks recorded histories of transactions: what a database answered, judged without looking into
//! the database.
//!
//! The method is Elle's (Kingsbury and Alvaro, *Elle: Inferring Isolation Anomalies from Experimental
//! Observations*, 2020). Transactions append unique elements to lists and read lists. A list shows the
//! order in which its versions were installed, so reads give Adya's direct serialization graph
//! (*Weak Consistency*, 1999): write dependencies *ww*, read dependencies *wr*, anti-dependencies *rw*,
//! beside the order of sessions and of real time. Phenomena are cycles in that graph, or show in single
//! reads.
//!
//! - [`History`]: what was recorded; [`check()`]: the phenomena in it; [`Level`]: which of them a level
//!   of isolation forbids.
//! - [`bank`]: the total of accounts between which money moves.
//!
//! Every phenomenon reported is one (no inference is a guess). What no list shows is not found:
//! phantoms show only if an element is a row of its own.

pub mod bank;
mod check;
mod cycles;
mod explain;
mod graph;
mod history;
mod items;
mod level;
mod orders;
mod scc;

pub use check::{Anomaly, Report, check};
pub use history::{Element, History, Key, Op, Outcome, Session, Time, Transaction, TxnIndex};
pub use level::{Level, Phenomenon};
