//! What a Log Store offers: the [`LogStore`] trait, its messages and errors (taurus-2020 section
//! 3.3). The crate knows nothing of what the log says: payloads are opaque bytes.
//!
//! A *PLog* is a size-limited, append-only object. The log of a database is an ordered collection
//! of PLogs; at most one of them, the youngest, is open.

mod error;
mod store;

pub use error::LogError;
pub use store::{Append, LogEntry, LogStore, PlogInfo, PlogKey, PLOG_SIZE};
