//! Scans and lookups (taurus-ndp section IV.C).

mod counters;
mod request;

pub use counters::ScanCounters;
pub use request::{CancelToken, LookupRequest, ScanRequest};
