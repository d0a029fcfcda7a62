//! What a scan or a lookup is asked to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use perigee_expr::Program;
use perigee_ndp::{Aggregate, Grouping};
use tokio::sync::Notify;

use super::{ScanFilter, ScanJoin};
use crate::btree::KeySpans;
use crate::catalog::Table;
use crate::txn::ReadView;

/// Set once to stop a statement; checked between batches and pages, and by waits for storage.
#[derive(Clone, Debug, Default)]
pub struct CancelToken {
    own: Arc<Cancelled>,
    /// Set to stop more than this.
    outer: Option<Arc<Cancelled>>,
}

#[derive(Debug, Default)]
struct Cancelled {
    is_set: Arc<AtomicBool>,
    set: Notify,
}

impl CancelToken {
    /// A token that is not set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A token that somebody else sets by this flag, too; waits are told by [`CancelToken::cancel`] only.
    #[must_use]
    pub fn of(flag: Arc<AtomicBool>) -> Self {
        let own = Cancelled {
            is_set: flag,
            set: Notify::new(),
        };
        Self {
            own: Arc::new(own),
            outer: None,
        }
    }

    /// A token for a part of the work: setting it stops that part only, and it is set with this one.
    ///
    /// # Panics
    /// If this is a token for a part itself.
    #[must_use]
    pub fn part(&self) -> Self {
        assert!(self.outer.is_none(), "parts have no parts");
        Self {
            own: Arc::default(),
            outer: Some(self.own.clone()),
        }
    }

    /// Asks the statement to stop.
    pub fn cancel(&self) {
        self.own.is_set.store(true, Ordering::SeqCst);
        self.own.set.notify_waiters();
    }

    /// True if [`CancelToken::cancel`] was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        let set = |token: &Arc<Cancelled>| token.is_set.load(Ordering::SeqCst);
        set(&self.own) || self.outer.as_ref().is_some_and(set)
    }

    /// Waits until [`CancelToken::cancel`] is called; returns at once if it was.
    pub async fn cancelled(&self) {
        // A call after these lines is not missed: the waits know of it.
        let own = self.own.set.notified();
        let outer = self.outer.as_ref().unwrap_or(&self.own).set.notified();
        if !self.is_cancelled() {
            tokio::select! {
                () = own => {}
                () = outer => {}
            }
        }
    }
}

/// A scan of an index. Predicate, projection and aggregate are always completed by the scan;
/// `ndp` only says where they run first.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    /// The table.
    pub table: Arc<Table>,
    /// Index number in [`Table::indexes`], 0 is the clustered one.
    pub index: usize,
    /// Keys to visit.
    pub spans: KeySpans,
    /// Visit them from the greatest to the least.
    pub reverse: bool,
    /// Deliver rows in key order; otherwise batches come in any order.
    pub ordered: bool,
    /// Columns of the index layout to deliver, in this order; ignored with an aggregate. With a join they are columns
    /// of joined records, as are the aggregate's.
    pub projection: Vec<u16>,
    /// Only rows for which this is true; its columns are those of the index layout.
    pub predicate: Option<Program>,
    /// What rows that pass are joined with.
    pub join: Option<ScanJoin>,
    /// Filters that come while the scan runs; each leaves out rows that the caller leaves out as well.
    pub filters: Vec<Arc<ScanFilter>>,
    /// Partial aggregation; the output is partial states.
    pub aggregate: Option<Aggregate>,
    /// How its groups are found.
    pub grouping: Grouping,
    /// Let the Page Stores reduce the pages; otherwise whole pages are read and the same work is
    /// done here.
    pub ndp: bool,
    /// The rest of the scan may be worked on elsewhere than `ndp` says, where its first pages show that this costs less.
    pub adapts: bool,
    /// Which versions are visible.
    pub view: Arc<ReadView>,
    /// Workers that scan at the same time, at least one (SPEC's N15). The rows come in as many
    /// partitions, in one if they are ordered.
    pub workers: usize,
    /// Enough rows for the caller; the scan may stop after so many.
    pub limit: Option<u64>,
    /// Leaf pages per batch read; the engine's default if `None`.
    pub look_ahead: Option<usize>,
    /// Stops the scan.
    pub cancel: CancelToken,
}

/// Whether storage picks rows that are looked up by their keys out of their pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyBatches {
    /// Pages come whole, into the buffer pool.
    #[default]
    Never,
    /// Where the index is larger than the buffer pool, so that a page that is brought in has gone before it is needed again;
    /// and of a smaller one until that has cost as much as bringing all of it in.
    WhereItPays,
    /// Of all pages that are not in the buffer pool.
    Always,
}

/// Reads of rows by keys of an index, or by parts of it.
#[derive(Clone, Debug)]
pub struct LookupRequest {
    /// The table.
    pub table: Arc<Table>,
    /// Index number in [`Table::indexes`].
    pub index: usize,
    /// Fetch rows from the clustered index; otherwise the index itself has all that is needed.
    pub fetch: bool,
    /// How many of the index's key columns the keys have that are looked up.
    pub key_columns: usize,
    /// Whether storage picks rows of the clustered index out of their pages.
    pub key_batches: KeyBatches,
    /// Columns to deliver, in this order: of the clustered index's layout if rows are fetched,
    /// otherwise of the index's.
    pub projection: Vec<u16>,
    /// Only rows for which this is true; its columns are those of the same layout.
    pub predicate: Option<Program>,
    /// Which versions are visible.
    pub view: Arc<ReadView>,
    /// Stops the lookup.
    pub cancel: CancelToken,
}
