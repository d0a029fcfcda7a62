//! Run-time filters: what becomes known while a plan runs leaves out rows of scans in storage
//! ([`perigee_engine::ndp::Filter`]).
//!
//! - The keys of a hash join's build side leave out rows of scans on its probe side ([`join_rule`]). A hash join reads its
//!   build side to the end before it asks for a row of its probe side.
//! - The worst of the rows that a sort with a limit keeps leaves out those that come behind it ([`sort_rule`]).
//!
//! A [`WatchExec`] stands where the rows come by that a filter is made of, and scans that are reached from there
//! ([`trace`]) get it with their first batch, or, if they run already, with the next one. No scan waits for a filter,
//! and none needs it: the join or the sort decides, the filter spares work.

mod join_keys;
mod join_rule;
mod sort_rule;
mod target;
mod top_keys;
mod trace;
mod watch;

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result as DfResult;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};
use perigee_engine::scan::ScanFilter;

pub(super) use join_rule::JoinFilterRule;
pub(super) use sort_rule::TopFilterRule;
pub(super) use trace::{below, of_inner, same_place};
use watch::WatchExec;

/// A filter of a scan.
#[derive(Clone, Debug)]
pub(super) struct RunTimeFilter {
    /// What it is made of.
    pub origin: FilterOrigin,
    /// Where the filter comes.
    pub filter: Arc<ScanFilter>,
    /// Names of the columns that it is on.
    pub columns: Vec<String>,
}

/// What a filter is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilterOrigin {
    /// The keys of a join's build side.
    Join,
    /// The rows that a sort with a limit keeps.
    Sort,
}

impl fmt::Display for RunTimeFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = match self.origin {
            FilterOrigin::Join => "join filter",
            FilterOrigin::Sort => "top-k filter",
        };
        write!(f, "{origin} on ({})", self.columns.join(", "))
    }
}

/// The node over other inputs.
pub(super) fn with_children(
    node: &Arc<dyn ExecutionPlan>,
    children: Vec<Arc<dyn ExecutionPlan>>,
) -> DfResult<Arc<dyn ExecutionPlan>> {
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    node.clone().replace_children(children, options)
}
