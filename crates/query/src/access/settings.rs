//! What a statement brings along to its table accesses, and the variables that steer them.

use std::sync::Arc;
use std::time::Duration;

use perigee_engine::catalog::Table;
use perigee_engine::ndp::GroupMethod;
use perigee_engine::scan::{CancelToken, KeyBatches, KeySpans};
use perigee_engine::txn::{RangeLocker, ReadView};
use perigee_engine::{Engine, EngineError};

use super::{NdpStatus, Reason};
use crate::memory::ProcessMemory;

/// `ndp_mode` (SPEC's N17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdpMode {
    /// Never.
    Off,
    /// Where it pays.
    On,
    /// Where it pays, on read replicas only: off on the master.
    ReplicaOn,
}

/// Where plans use a way of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Used {
    /// Nowhere.
    Off,
    /// Where it is expected to cost less.
    On,
    /// Wherever it can be.
    Always,
}

/// Bytes that a Page Store has for the groups of a request, unless it was given another limit.
pub const GROUP_MEMORY: u64 = 16 << 20;

/// What `ndp_join_table_memory` is at first: 400,000 rows of TPC-H's part with its type, which are 2 MiB on the wire.
const JOIN_TABLE_MEMORY: usize = 16 << 20;

/// Limits that decide what of an access is pushed (taurus-ndp section IV.B), if one of them is set. Otherwise it is
/// what costs less.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Thresholds {
    /// `ndp_min_pages`: an access is pushed only if it is expected to read at least so many pages
    /// that are not in the buffer pool. The paper uses 10,000 for 100 GB.
    pub min_pages: Option<u64>,
    /// `ndp_max_filter_factor`: a predicate is pushed only if at most this share of the rows is
    /// expected to pass.
    pub max_filter_factor: Option<f64>,
    /// `ndp_min_width_reduction`: columns are projected in storage only if rows become narrower
    /// by at least this share.
    pub min_width_reduction: Option<f64>,
    /// `ndp_min_rows_per_group`: an access aggregates its rows only if storage is expected to make a
    /// group of at least so many, or if the index delivers the groups one after the other.
    pub min_rows_per_group: Option<f64>,
}

impl Thresholds {
    /// True if one of them is set.
    #[must_use]
    pub fn any(&self) -> bool {
        *self != Self::default()
    }

    /// [`Self::min_pages`], which is 100 if only others are set.
    #[must_use]
    pub fn min_pages(&self) -> u64 {
        self.min_pages.unwrap_or(100)
    }

    /// [`Self::max_filter_factor`], as well 0.9.
    #[must_use]
    pub fn max_filter_factor(&self) -> f64 {
        self.max_filter_factor.unwrap_or(0.9)
    }

    /// [`Self::min_width_reduction`], as well 0.1.
    #[must_use]
    pub fn min_width_reduction(&self) -> f64 {
        self.min_width_reduction.unwrap_or(0.1)
    }

    /// [`Self::min_rows_per_group`], as well 8.
    #[must_use]
    pub fn min_rows_per_group(&self) -> f64 {
        self.min_rows_per_group.unwrap_or(8.0)
    }
}

/// Variables that decide whether an access is pushed (taurus-ndp section IV.B).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NdpSettings {
    /// `ndp_mode`.
    pub mode: NdpMode,
    /// What decides in the place of costs.
    pub thresholds: Thresholds,
    /// `ndp_group_method`: how storage groups; `None` for the cheaper way.
    pub group_method: Option<GroupMethod>,
    /// `ndp_group_memory`: bytes for the groups of one request to a Page Store, which has a limit of its own.
    pub group_memory: u64,
    /// What a hint says: to push, or not to.
    pub hint: Option<bool>,
    /// `ndp_join_filters`: the keys of a join's build side leave out rows of scans on its probe side.
    pub join_filters: bool,
    /// What a hint says: that they do, or that they do not.
    pub join_filter_hint: Option<bool>,
    /// `ndp_join_tables`: a small side of a join becomes a table that storage joins the scan of the other side with.
    pub join_tables: bool,
    /// What a hint says: that it does, or that it does not.
    pub join_table_hint: Option<bool>,
    /// `ndp_join_table_memory`: most bytes of the rows of such a table.
    pub join_table_memory: usize,
    /// `ndp_top_filters`: the threshold of a sort with a limit leaves out rows of the scans below it.
    pub top_filters: bool,
    /// `ndp_index_conditions`: conditions on the columns of a secondary index are evaluated over its entries, before rows
    /// are fetched.
    pub index_conditions: Used,
    /// `optimizer_late_columns`: the columns of the first rows of an order are read when these rows are known.
    pub late_columns: Used,
    /// `ndp_key_batches`: storage picks rows that are looked up by their keys out of their pages.
    pub key_batches: KeyBatches,
    /// `optimizer_join_order`: inner joins are joined in the cheapest order, not in that of FROM.
    pub join_order: bool,
    /// `optimizer_sample_pages`: most leaf pages of a sample; none is taken if it is 0.
    pub sample_pages: usize,
    /// `optimizer_sample_time`: a sample that is not complete by then is used as it is.
    pub sample_time: Duration,
    /// `ndp_max_pages_look_ahead`; `None` for the engine's.
    pub look_ahead: Option<usize>,
    /// What USE, FORCE and IGNORE INDEX leave of the table's indexes.
    pub indexes: IndexChoice,
    /// Which tables hints want to be joined before this one.
    pub place: JoinPlace,
}

/// A table among those of its SELECT, and those that hints (JOIN_ORDER, JOIN_PREFIX, JOIN_SUFFIX) want to be joined before
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinPlace {
    /// The SELECT's number; 0 if nothing is said.
    pub select: usize,
    /// A bit for this table.
    pub own: u64,
    /// The bits of those before it.
    pub after: u64,
}

/// The indexes by which a table may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexChoice {
    /// A bit for each of the first 64, by their numbers.
    pub allowed: u64,
    /// FORCE INDEX: all of the table is read only where none of them selects a part.
    pub forced: bool,
}

impl Default for IndexChoice {
    fn default() -> Self {
        Self {
            allowed: u64::MAX,
            forced: false,
        }
    }
}

impl IndexChoice {
    /// True if rows may be looked up in an index.
    #[must_use]
    pub fn allows(self, index: usize) -> bool {
        index >= 64 || self.allowed >> index & 1 == 1
    }
}

impl Default for NdpSettings {
    fn default() -> Self {
        Self {
            mode: NdpMode::On,
            thresholds: Thresholds::default(),
            group_method: None,
            group_memory: GROUP_MEMORY,
            hint: None,
            join_filters: true,
            join_filter_hint: None,
            join_tables: true,
            join_table_hint: None,
            join_table_memory: JOIN_TABLE_MEMORY,
            top_filters: true,
            index_conditions: Used::On,
            late_columns: Used::On,
            key_batches: KeyBatches::WhereItPays,
            join_order: true,
            sample_pages: 64,
            sample_time: Duration::from_millis(100),
            look_ahead: None,
            indexes: IndexChoice::default(),
            place: JoinPlace::default(),
        }
    }
}

impl NdpSettings {
    /// The settings for a table with a hint: NDP_PUSHDOWN overrides `ndp_mode` and all thresholds,
    /// NO_NDP_PUSHDOWN everything.
    #[must_use]
    pub fn hinted(self, push: bool) -> Self {
        let hint = Some(push);
        match push {
            true => Self {
                mode: NdpMode::On,
                thresholds: Thresholds {
                    min_pages: Some(0),
                    max_filter_factor: Some(f64::INFINITY),
                    min_width_reduction: Some(f64::NEG_INFINITY),
                    min_rows_per_group: Some(0.0),
                },
                hint,
                ..self
            },
            false => Self { hint, ..self },
        }
    }

    /// True if what costs less decides where an access is worked on, not thresholds.
    #[must_use]
    pub fn decide_by_cost(&self, engine: &Engine) -> bool {
        engine.config().measure_costs && !self.thresholds.any()
    }

    /// Whether storage picks rows that are looked up out of their pages: never where nothing may be pushed.
    #[must_use]
    pub fn key_batches(&self) -> KeyBatches {
        match self.forbidden() {
            Some(_) => KeyBatches::Never,
            None => self.key_batches,
        }
    }

    /// Why nothing may be pushed, if nothing may.
    #[must_use]
    pub fn forbidden(&self) -> Option<Reason> {
        match (self.hint, self.mode) {
            (Some(false), _) => Some(Reason::Hint),
            (_, NdpMode::On) => None,
            (_, NdpMode::Off) => Some(Reason::ModeOff),
            (_, NdpMode::ReplicaOn) => Some(Reason::NoReplica),
        }
    }
}

/// What the accesses of one statement share.
#[derive(Clone)]
pub struct AccessContext {
    /// The engine.
    pub engine: Arc<Engine>,
    /// Which versions the statement sees, unless the access locks what it reads.
    pub view: Arc<ReadView>,
    /// Locks each range before it is read, which is then read with the view that this gives.
    pub locker: Option<RangeLocker>,
    /// Stops the statement.
    pub cancel: CancelToken,
    /// Variables as they were when the statement began, with what hints change.
    pub settings: NdpSettings,
    /// Workers of a parallel scan: `parallel_default_dop`.
    pub workers: usize,
    /// Name of the table in the statement.
    pub alias: Option<String>,
    /// Counts what is pushed.
    pub status: NdpStatus,
    /// What long values are charged to.
    pub memory: Arc<ProcessMemory>,
}

impl AccessContext {
    /// The view to read parts of an index with; they are locked first if the access locks.
    pub(super) async fn view_of(
        &self,
        table: &Arc<Table>,
        index: usize,
        spans: &KeySpans,
    ) -> Result<Arc<ReadView>, EngineError> {
        match &self.locker {
            Some(locker) => locker.lock(table, index, spans).await,
            None => Ok(self.view.clone()),
        }
    }
}

impl std::fmt::Debug for AccessContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessContext")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
