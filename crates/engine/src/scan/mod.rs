//! Scans and lookups (taurus-ndp section IV.C).

mod adapt;
mod ahead;
mod counters;
mod cpu;
mod filter;
mod held;
mod join;
mod key_batch;
mod long;
mod lookup;
mod records;
mod request;
mod resolve;
mod row_keys;
#[expect(clippy::module_inception, reason = "the scan itself")]
mod scan;
mod short;
mod source;

pub use crate::btree::{KeySpan, KeySpans};
pub use counters::ScanCounters;
pub(crate) use counters::add;
pub use filter::{FilterRun, ScanFilter};
pub use join::ScanJoin;
pub use lookup::{Lookup, Lookups};
pub use records::Records;
pub use request::{CancelToken, KeyBatches, LookupRequest, ScanRequest};
pub use scan::ScanHandle;
pub(crate) use scan::as_slice;
pub use short::ShortRead;
