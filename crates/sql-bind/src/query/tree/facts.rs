//! What a query says beside its rows: locks and hints.

use std::sync::Arc;

/// FOR UPDATE or FOR SHARE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowLock {
    /// The references to tables whose rows are locked.
    pub tables: Vec<usize>,
    /// For what.
    pub strength: Strength,
    /// What happens where another transaction holds a lock.
    pub wait: LockWait,
}

/// What rows are locked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// FOR SHARE, LOCK IN SHARE MODE.
    Share,
    /// FOR UPDATE.
    Update,
}

/// What happens where another transaction holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWait {
    /// It is waited for.
    Wait,
    /// NOWAIT: an error.
    Nowait,
    /// SKIP LOCKED: the row is left out.
    SkipLocked,
}

/// USE, FORCE or IGNORE INDEX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexHint {
    /// What is said of them.
    pub kind: IndexUse,
    /// The indexes, by their places in [`super::super::TableDefinition::indexes`]; none in `USE INDEX ()`.
    pub indexes: Vec<usize>,
}

/// What a hint says of indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexUse {
    /// One of these or none.
    Use,
    /// One of these.
    Force,
    /// None of these.
    Ignore,
}

/// What an optimizer hint for a table is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintKind {
    /// NDP_PUSHDOWN, NO_NDP_PUSHDOWN.
    Pushdown,
    /// NDP_JOIN_FILTER, NO_NDP_JOIN_FILTER.
    JoinFilter,
    /// NDP_JOIN_TABLE, NO_NDP_JOIN_TABLE.
    JoinTable,
}

/// An optimizer hint that belongs to a SELECT or to the statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// MAX_EXECUTION_TIME, in milliseconds.
    MaxExecutionTime(u64),
    /// JOIN_FIXED_ORDER of a SELECT.
    JoinFixedOrder {
        /// The SELECT's number.
        select: usize,
    },
    /// JOIN_ORDER, JOIN_PREFIX or JOIN_SUFFIX of a SELECT: tables by their references.
    JoinOrder {
        /// The SELECT's number.
        select: usize,
        /// Which tables come before them or behind them.
        others: Others,
        /// References to tables.
        tables: Vec<usize>,
    },
}

/// Where the tables stand that a hint for the order of joins does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// Anywhere: JOIN_ORDER.
    Anywhere,
    /// Behind those that it names: JOIN_PREFIX.
    Behind,
    /// Before them: JOIN_SUFFIX.
    Before,
}

/// What clients are warned of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// MySQL's number.
    pub number: u16,
    /// What it is about.
    pub text: Arc<str>,
}
