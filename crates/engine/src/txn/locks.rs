//! Explicit locks: rows that were read to be locked, values of unique keys, ranges of keys.
//!
//! A row that was written is locked by that: whoever meets a clustered record whose transaction is
//! running waits for it. What else is locked is noted here, in memory, for each table; a restart ends
//! all transactions and with them all locks. A lock is held until its transaction ends.
//!
//! Nobody queues for a lock: who finds it taken waits for the end of one of its holders and tries
//! again. So a transaction waits for one other at a time, which is what deadlock detection follows.
//!
//! Row locks and range locks exclude writers thus (L-rule): a writer looks for explicit locks under
//! the latch under which it then writes; a locker notes its lock first and looks for running
//! writers afterwards, under the same latch. One of them sees the other.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use perigee_types::TrxId;
use tokio::time::Instant;

use super::current::{Current, current_version};
use super::definition::{DefinitionHold, TableUse};
use super::registry::{Party, Seeker};
use super::{ReadView, TransactionOptions, clustered_key};
use crate::EngineError;
use crate::btree::{KeySpan, KeySpans};
use crate::buffer::Access;
use crate::catalog::Table;
use crate::engine::Engine;
use crate::scan::CancelToken;

/// Most ranges that a statement locks one by one; what lies between more of them is locked, too.
const MOST_SPANS: usize = 256;

/// What a lock lets others do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockMode {
    /// Others may lock it in shared mode, too; nobody else writes.
    Shared,
    /// Nobody else locks or writes.
    Exclusive,
}

/// What to do about a row that somebody else has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWait {
    /// Wait.
    Wait,
    /// Fail with [`EngineError::LockedNoWait`].
    NoWait,
    /// Leave it out.
    Skip,
}

/// What became of an attempt to lock a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowLock {
    /// It is locked; its current clustered record, `None` if there is no such row. A row that is not
    /// there cannot be inserted by others.
    Locked(Option<Vec<u8>>),
    /// It is locked by somebody else, and was to be left out.
    Skipped,
}

/// A key of an index: row locks name the clustered key, locks of unique values the value.
type LockKey = (usize, Vec<u8>);

#[derive(Clone, Copy, Debug)]
struct Grant {
    owner: TrxId,
    mode: LockMode,
}

#[derive(Debug)]
struct RangeGrant {
    index: usize,
    span: KeySpan,
    grant: Grant,
}

/// The explicit locks of a table.
#[derive(Debug, Default)]
pub(crate) struct TableLocks {
    state: Mutex<LockState>,
    /// Locks there are, so that writers need not look where there are none.
    count: AtomicUsize,
    /// Held shared while a row and its entries are written, exclusively for a moment by who locked
    /// a range of a secondary index: entries are written after the latch of the row is gone.
    pub gate: Arc<tokio::sync::RwLock<()>>,
}

#[derive(Debug, Default)]
struct LockState {
    keys: HashMap<LockKey, Vec<Grant>>,
    ranges: Vec<RangeGrant>,
}

impl Grant {
    /// True if somebody else's lock stands in the way of `mode`.
    fn blocks(self, owner: TrxId, mode: LockMode) -> bool {
        self.owner != owner && (self.mode == LockMode::Exclusive || mode == LockMode::Exclusive)
    }
}

impl TableLocks {
    /// Locks a key; fails with a holder that stands in the way. True if the lock is new.
    fn lock_key(&self, owner: TrxId, key: &LockKey, mode: LockMode) -> Result<bool, TrxId> {
        let mut state = self.state.lock();
        if let Some(holder) = state.blocker(owner, key, mode) {
            return Err(holder);
        }
        let grants = state.keys.entry(key.clone()).or_default();
        match grants.iter_mut().find(|grant| grant.owner == owner) {
            Some(grant) if mode == LockMode::Exclusive => {
                grant.mode = mode;
                Ok(false)
            }
            Some(_) => Ok(false),
            None => {
                grants.push(Grant { owner, mode });
                self.count.fetch_add(1, Ordering::SeqCst);
                Ok(true)
            }
        }
    }

    /// Locks a range; fails with a holder that stands in the way. True if the lock is new.
    fn lock_range(
        &self,
        owner: TrxId,
        index: usize,
        span: &KeySpan,
        mode: LockMode,
    ) -> Result<bool, TrxId> {
        let mut state = self.state.lock();
        let grant = Grant { owner, mode };
        let covers = |range: &RangeGrant| {
            let strong = range.grant.mode == mode || range.grant.mode == LockMode::Exclusive;
            let own = range.grant.owner == owner && range.index == index;
            own && strong && range.span.covers(span)
        };
        if state.ranges.iter().any(covers) {
            return Ok(false);
        }
        let ranges = state.ranges.iter().filter(|r| r.index == index);
        let mut ranges = ranges.filter(|r| r.span.overlaps(span));
        if let Some(range) = ranges.find(|r| r.grant.blocks(owner, mode)) {
            return Err(range.grant.owner);
        }
        let keys = state.keys.iter();
        let mut grants = keys
            .filter(|((i, key), _)| *i == index && span.contains(key))
            .flat_map(|(_, grants)| grants);
        if let Some(held) = grants.find(|grant| grant.blocks(owner, mode)) {
            return Err(held.owner);
        }
        let span = span.clone();
        state.ranges.push(RangeGrant { index, span, grant });
        self.count.fetch_add(1, Ordering::SeqCst);
        Ok(true)
    }

    /// Whose locks keep `owner` from writing a row: one on its key, or on a range of an index that
    /// one of its `entries` (index, key) lies in.
    pub fn writer_blocker<'k>(
        &self,
        owner: TrxId,
        key: &[u8],
        entries: impl Iterator<Item = (usize, &'k [u8])>,
    ) -> Option<TrxId> {
        if !self.any() {
            return None;
        }
        let state = self.state.lock();
        let row = (0, key.to_vec());
        if let Some(holder) = state.blocker(owner, &row, LockMode::Exclusive) {
            return Some(holder);
        }
        for (index, key) in entries {
            let mut ranges = state.ranges.iter().filter(|r| r.index == index);
            let blocks = |r: &&RangeGrant| {
                r.span.contains(key) && r.grant.blocks(owner, LockMode::Exclusive)
            };
            if let Some(range) = ranges.find(blocks) {
                return Some(range.grant.owner);
            }
        }
        None
    }

    /// True if anything is locked.
    pub fn any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// True if ranges of indexes are locked: writers then need to know their entries.
    pub fn has_ranges(&self) -> bool {
        self.any() && !self.state.lock().ranges.is_empty()
    }

    fn release(&self, owner: TrxId, keys: &[LockKey]) {
        let mut state = self.state.lock();
        let mut released = 0;
        for key in keys {
            if let Some(grants) = state.keys.get_mut(key) {
                let before = grants.len();
                grants.retain(|grant| grant.owner != owner);
                released += before - grants.len();
                if grants.is_empty() {
                    state.keys.remove(key);
                }
            }
        }
        let before = state.ranges.len();
        state.ranges.retain(|range| range.grant.owner != owner);
        released += before - state.ranges.len();
        self.count.fetch_sub(released, Ordering::SeqCst);
    }
}

impl LockState {
    fn blocker(&self, owner: TrxId, key: &LockKey, mode: LockMode) -> Option<TrxId> {
        let grants = self.keys.get(key).into_iter().flatten();
        let key_grant = grants.copied().find(|grant| grant.blocks(owner, mode));
        let in_range = |range: &&RangeGrant| {
            range.index == key.0 && range.span.contains(&key.1) && range.grant.blocks(owner, mode)
        };
        let range_grant = || self.ranges.iter().find(in_range).map(|range| range.grant);
        key_grant.or_else(range_grant).map(|grant| grant.owner)
    }
}

/// The locking half of a transaction, shared with the plans of its statements.
pub(super) struct Owner {
    pub engine: Arc<Engine>,
    pub trx: TrxId,
    pub options: TransactionOptions,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// Tables in use: their definitions do not change until the transaction ends.
    tables: HashMap<perigee_types::TableId, UsedTable>,
}

struct UsedTable {
    table: Arc<Table>,
    keys: Vec<LockKey>,
    definition: DefinitionHold,
}

impl Owner {
    pub fn new(engine: Arc<Engine>, trx: TrxId, options: TransactionOptions) -> Self {
        Self {
            engine,
            trx,
            options,
            held: Mutex::default(),
        }
    }

    fn seeker(&self) -> Seeker {
        Seeker {
            party: Party::Transaction(self.trx),
            ally: self.options.locked_tables.map(Party::from),
        }
    }

    /// Keeps the definition of a table until the transaction ends.
    pub async fn use_table(
        &self,
        table: &Arc<Table>,
        cancel: &CancelToken,
    ) -> Result<(), EngineError> {
        if self.held.lock().tables.contains_key(&table.id) {
            return Ok(());
        }
        self.hold_table(table, TableUse::Shared, cancel).await
    }

    /// Waits until nobody else uses a table, and keeps others out until the transaction ends, or
    /// until it [shares](Self::share_table) the table.
    pub async fn own_table(
        &self,
        table: &Arc<Table>,
        cancel: &CancelToken,
    ) -> Result<(), EngineError> {
        self.hold_table(table, TableUse::Exclusive, cancel).await
    }

    /// Lets others use a table that was owned.
    pub fn share_table(&self, table: &Table) {
        if let Some(used) = self.held.lock().tables.get_mut(&table.id) {
            used.definition.share(&self.engine.registry);
        }
    }

    async fn hold_table(
        &self,
        table: &Arc<Table>,
        mode: TableUse,
        cancel: &CancelToken,
    ) -> Result<(), EngineError> {
        let registry = &self.engine.registry;
        let deadline = Instant::now() + self.options.definition_timeout;
        let (lock, wish) = (&table.definition, (self.seeker(), mode));
        let definition = DefinitionHold::take(registry, lock, wish, deadline, cancel).await?;
        if !self.engine.catalog.is_current(table) {
            drop(definition);
            registry.wake(self.trx.into());
            return Err(EngineError::TableChanged(table.def.name.clone()));
        }
        let used = UsedTable {
            table: table.clone(),
            keys: Vec::new(),
            definition,
        };
        // Another part of the plan may have been here meanwhile.
        self.held.lock().tables.entry(table.id).or_insert(used);
        Ok(())
    }

    /// Waits for the end of another transaction.
    pub async fn wait_for(&self, holder: TrxId, cancel: &CancelToken) -> Result<(), EngineError> {
        let deadline = Instant::now() + self.options.lock_timeout;
        let registry = &self.engine.registry;
        registry
            .wait_for(self.seeker(), holder, deadline, cancel)
            .await
    }

    /// Locks a key, waiting as told. False if it was to be left out.
    pub async fn lock_key(
        &self,
        table: &Arc<Table>,
        key: &LockKey,
        mode: LockMode,
        wait: LockWait,
        cancel: &CancelToken,
    ) -> Result<bool, EngineError> {
        loop {
            match table.locks.lock_key(self.trx, key, mode) {
                Ok(new) => {
                    if new {
                        self.hold(table, key);
                    }
                    return Ok(true);
                }
                Err(_) if wait == LockWait::Skip => return Ok(false),
                Err(_) if wait == LockWait::NoWait => return Err(EngineError::LockedNoWait),
                Err(holder) => self.wait_for(holder, cancel).await?,
            }
        }
    }

    fn hold(&self, table: &Arc<Table>, key: &LockKey) {
        let mut held = self.held.lock();
        let used = held.tables.get_mut(&table.id);
        let used = used.expect("a table is in use before something in it is locked");
        used.keys.push(key.clone());
    }

    /// Locks a range and waits for those who have written in it.
    async fn lock_range(
        &self,
        table: &Arc<Table>,
        index: usize,
        span: &KeySpan,
        how: &RangeLocker,
    ) -> Result<(), EngineError> {
        loop {
            match table.locks.lock_range(self.trx, index, span, how.mode) {
                Ok(true) => break,
                Ok(false) => return Ok(()),
                Err(holder) => self.meet(holder, how).await?,
            }
        }
        if index > 0 {
            drop(table.locks.gate.write().await);
        }
        let tree = self.engine.tree(&table.indexes[index]);
        let mut cursor = tree.range(span.clone(), false, Access::Point);
        while let Some(run) = cursor.next().await? {
            // Nobody who wrote here is running. An entry's row may be written without the entry.
            if index == 0 && !self.engine.registry.may_be_active(run.page.get().max_trx()) {
                continue;
            }
            for slot in run.slots.clone() {
                let record = run.page.get().record(slot);
                self.wait_for_writer(table, index, record, how).await?;
            }
        }
        Ok(())
    }

    /// Waits until nobody else's change of the row of this record or entry is uncommitted.
    async fn wait_for_writer(
        &self,
        table: &Arc<Table>,
        index: usize,
        record: &[u8],
        how: &RangeLocker,
    ) -> Result<(), EngineError> {
        let key = match index {
            0 => table.clustered().layout.shape.key(record).to_vec(),
            _ => clustered_key(table, &table.indexes[index], record)?,
        };
        loop {
            match current_version(&self.engine, table, &key, Some(self.trx)).await? {
                Current::Settled(_) => return Ok(()),
                Current::Written(writer) => self.meet(writer, how).await?,
            }
        }
    }

    /// Waits for somebody who stands in the way, or fails at once.
    async fn meet(&self, holder: TrxId, how: &RangeLocker) -> Result<(), EngineError> {
        match how.wait {
            LockWait::Wait => self.wait_for(holder, &how.cancel).await,
            LockWait::NoWait | LockWait::Skip => Err(EngineError::LockedNoWait),
        }
    }

    /// Lets go of everything.
    pub fn release(&self) {
        let held = std::mem::take(&mut *self.held.lock());
        for used in held.tables.values() {
            used.table.locks.release(self.trx, &used.keys);
        }
    }
}

/// Locks ranges of keys for a transaction; for use inside the plans of its statements.
#[derive(Clone)]
pub struct RangeLocker {
    pub(super) owner: Arc<Owner>,
    pub(super) mode: LockMode,
    pub(super) wait: LockWait,
    pub(super) cancel: CancelToken,
}

impl std::fmt::Debug for RangeLocker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} locks of {}", self.mode, self.owner.trx)
    }
}

impl RangeLocker {
    /// Locks the keys of ranges, those that are there and those that are not. What the view that
    /// is returned shows of the ranges does not change until the transaction ends, but by itself.
    ///
    /// # Errors
    /// [`EngineError::Deadlock`], [`EngineError::LockTimeout`], [`EngineError::Cancelled`], or what
    /// storage says.
    pub async fn lock(
        &self,
        table: &Arc<Table>,
        index: usize,
        spans: &KeySpans,
    ) -> Result<Arc<ReadView>, EngineError> {
        let owner = &self.owner;
        owner.use_table(table, &self.cancel).await?;
        if spans.len() > MOST_SPANS {
            owner.lock_range(table, index, &spans.hull(), self).await?;
        } else {
            for span in spans.iter() {
                owner.lock_range(table, index, span, self).await?;
            }
        }
        let view = owner
            .engine
            .registry
            .view(Some(owner.trx), owner.options.connection);
        Ok(Arc::new(view))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TrxId = TrxId(1);
    const B: TrxId = TrxId(2);

    fn key(key: &[u8]) -> LockKey {
        (0, key.to_vec())
    }

    #[test]
    fn shared_locks_get_along_and_exclusive_ones_do_not() {
        let locks = TableLocks::default();
        assert_eq!(locks.lock_key(A, &key(b"k"), LockMode::Shared), Ok(true));
        assert_eq!(locks.lock_key(B, &key(b"k"), LockMode::Shared), Ok(true));
        assert_eq!(locks.lock_key(B, &key(b"k"), LockMode::Exclusive), Err(A));
        assert_eq!(locks.writer_blocker(A, b"k", std::iter::empty()), Some(B));
        locks.release(B, &[key(b"k")]);
        assert_eq!(
            locks.lock_key(A, &key(b"k"), LockMode::Exclusive),
            Ok(false)
        );
        assert_eq!(locks.lock_key(B, &key(b"k"), LockMode::Shared), Err(A));
        assert_eq!(locks.writer_blocker(A, b"k", std::iter::empty()), None);
        locks.release(A, &[key(b"k")]);
        assert_eq!(locks.count.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn ranges_keep_writers_and_lockers_out() {
        let locks = TableLocks::default();
        let span = KeySpan::prefix(b"b");
        assert_eq!(locks.lock_range(A, 0, &span, LockMode::Shared), Ok(true));
        assert_eq!(
            locks.lock_range(A, 0, &KeySpan::prefix(b"bc"), LockMode::Shared),
            Ok(false)
        );
        assert_eq!(locks.lock_range(B, 0, &span, LockMode::Shared), Ok(true));
        assert_eq!(
            locks.lock_range(B, 0, &KeySpan::all(), LockMode::Exclusive),
            Err(A)
        );
        assert_eq!(locks.lock_key(B, &key(b"bx"), LockMode::Exclusive), Err(A));
        assert_eq!(locks.lock_key(B, &key(b"c"), LockMode::Exclusive), Ok(true));
        assert_eq!(
            locks.lock_range(A, 0, &KeySpan::prefix(b"c"), LockMode::Shared),
            Err(B)
        );
        assert!(locks.has_ranges());
        let entry = [(1, b"bq".as_slice())];
        assert_eq!(locks.writer_blocker(B, b"z", entry.into_iter()), None);
        assert_eq!(locks.lock_range(A, 1, &span, LockMode::Shared), Ok(true));
        assert_eq!(locks.writer_blocker(B, b"z", entry.into_iter()), Some(A));
        locks.release(A, &[]);
        assert_eq!(locks.writer_blocker(B, b"z", entry.into_iter()), None);
        assert_eq!(locks.writer_blocker(A, b"bb", std::iter::empty()), Some(B));
    }
}
