//! Join filters: the keys of a hash join's build side leave out rows of the scans on its probe side, in storage
//! ([`perigee_engine::ndp::Filter`]).
//!
//! A hash join reads its build side to the end before it asks for a row of its probe side. So
//! [`KeyCollectExec`] stands on the build side and collects the keys that go by, and scans that are reached
//! from the probe side ([`trace`]) get a filter of them with their first batch, or, if they run already, with
//! the next one. No scan waits for a filter, and none needs it: the join decides, the filter spares work.

mod collect;
mod rule;
mod trace;

use std::sync::Arc;

use perigee_engine::scan::ScanFilter;

pub(super) use collect::KeyCollectExec;
pub(super) use rule::JoinFilterRule;

/// A filter of a scan.
#[derive(Clone, Debug)]
pub(super) struct JoinFilter {
    /// Where the filter comes.
    pub filter: Arc<ScanFilter>,
    /// Names of the columns that it is on.
    pub columns: Vec<String>,
}
