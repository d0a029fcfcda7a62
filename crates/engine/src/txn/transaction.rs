//! [`Transaction`]: its views, savepoints and end.
//!
//! A transaction gets its id when it first locks or writes, and a slot with an undo segment when it
//! first writes. Freeing the slot in the system page is the commit. A rollback, at once or after a
//! crash, goes through the undo back to front; it can be interrupted and repeated at any point
//! (invariant A2).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use perigee_page::RecordHeader;
use perigee_types::{TableId, TrxId};

use super::current::{Current, current_version};
use super::ending::Ending;
use super::foreign::Relations;
use super::locks::{LockMode, Owner, RangeLocker};
use super::rollback::roll_back_from;
use super::segment::{Position, UndoLog};
use super::system::{self, Counter};
use super::undo::{UndoChange, UndoRecord};
use super::{LockWait, ReadView, RowLock};
use crate::EngineError;
use crate::catalog::Table;
use crate::ddl::LockedTablesId;
use crate::engine::Engine;
use crate::errand::undoing;
use crate::mtr::Mtr;
use crate::scan::CancelToken;

/// Transaction and row ids that are reserved at once in the system page.
const ID_STEP: u64 = 1 << 16;

/// What a transaction sees of others (`docs/isolation.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what had committed when it began.
    ReadCommitted,
    /// Snapshot isolation: all reads see what had committed at the first one, and a row that
    /// somebody else changed since cannot be written.
    #[default]
    RepeatableRead,
    /// As if transactions ran one after the other: reads lock what they saw.
    Serializable,
}

/// Settings of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct TransactionOptions {
    /// Its isolation level.
    pub isolation: Isolation,
    /// Whether REPEATABLE READ is snapshot isolation: rows that changed since the snapshot cannot be locked or
    /// changed. Without it, statements that lock or change rows see what has committed when they begin, as in
    /// MySQL, and two transactions may overwrite each other's changes.
    pub snapshot_isolation: bool,
    /// How long it waits for a lock of a row or range.
    pub lock_timeout: Duration,
    /// How long it waits for a table whose definition is being changed.
    pub definition_timeout: Duration,
    /// The connection it belongs to, 0 for none.
    pub connection: u64,
    /// Whether foreign keys are checked and followed.
    pub foreign_key_checks: bool,
    /// The tables that its session has locked: it does not wait for them.
    pub locked_tables: Option<LockedTablesId>,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        Self {
            isolation: Isolation::default(),
            snapshot_isolation: true,
            lock_timeout: Duration::from_secs(50),
            definition_timeout: Duration::from_secs(365 * 24 * 3600),
            connection: 0,
            foreign_key_checks: true,
            locked_tables: None,
        }
    }
}

/// How far a transaction had come: what it did since can be undone alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(Option<Position>);

/// A statement that others run within: what it sees, and what stops it.
#[derive(Debug)]
pub struct Suspended {
    cancel: CancelToken,
    view: Option<Arc<ReadView>>,
    change_view: Option<Arc<ReadView>>,
}

/// A transaction. Dropping it unfinished rolls it back in the background.
pub struct Transaction {
    pub(super) engine: Arc<Engine>,
    pub(super) options: TransactionOptions,
    /// Stops the statement at hand.
    pub(super) cancel: CancelToken,
    /// What is seen: of the transaction under REPEATABLE READ, else of the statement.
    view: Option<Arc<ReadView>>,
    /// What the statement sees that locks or changes rows, where that is another view.
    change_view: Option<Arc<ReadView>>,
    /// What it has once it locks or writes.
    running: Option<Running>,
}

pub(super) struct Running {
    pub owner: Arc<Owner>,
    pub undo: Option<UndoLog>,
    /// It has written to a table that is not temporary, so that its commit has to survive a crash.
    pub lasting: bool,
    /// By how many rows tables grew, and how many rows changed.
    rows: HashMap<TableId, (Arc<Table>, i64, u64)>,
    /// The foreign keys of tables that it wrote to, where they are known.
    pub relations: HashMap<TableId, Option<Arc<Relations>>>,
    /// How many rows of a table are locked in a mode because of foreign keys.
    pub related_locks: HashMap<(TableId, LockMode), usize>,
}

impl Engine {
    /// A transaction that has done nothing yet.
    #[must_use]
    pub fn begin(self: &Arc<Self>, options: TransactionOptions) -> Transaction {
        Transaction {
            engine: self.clone(),
            options,
            cancel: CancelToken::new(),
            view: None,
            change_view: None,
            running: None,
        }
    }

    /// Makes sure that ids up to `id` are reserved in the system page.
    pub(crate) fn reserve(&self, counter: Counter, id: u64) {
        if self.system.read(|page| system::counter(page, counter)) > id {
            return;
        }
        let mut mtr = Mtr::new(&self.pool);
        let page = mtr.latch(&self.system);
        let limit = system::counter(mtr.page(page), counter);
        if limit > id {
            return;
        }
        mtr.apply(page, system::set_counter(counter, id + ID_STEP));
        let _ = mtr.commit();
    }
}

impl Transaction {
    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Its id, if it has locked or written something.
    #[must_use]
    pub fn id(&self) -> Option<TrxId> {
        self.running.as_ref().map(|running| running.owner.trx)
    }

    /// Its isolation level.
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.options.isolation
    }

    /// Begins a statement, which `cancel` stops. What it does can be undone by
    /// [`Transaction::rollback_to`].
    pub fn begin_statement(&mut self, cancel: &CancelToken) -> Savepoint {
        self.cancel = cancel.clone();
        if self.options.isolation != Isolation::RepeatableRead {
            self.view = None;
        }
        self.change_view = None;
        self.savepoint()
    }

    /// Lets other statements run within the one that runs, such as those of a trigger.
    pub fn suspend_statement(&mut self) -> Suspended {
        let lasts = self.options.isolation == Isolation::RepeatableRead;
        Suspended {
            cancel: self.cancel.clone(),
            view: self.view.clone().filter(|_| !lasts),
            change_view: self.change_view.take(),
        }
    }

    /// Goes on with a statement that others ran within: it sees what it saw, and what they changed.
    pub fn resume_statement(&mut self, suspended: Suspended) {
        self.cancel = suspended.cancel;
        if self.options.isolation != Isolation::RepeatableRead {
            self.view = suspended.view;
        }
        self.change_view = suspended.change_view;
    }

    /// How far it has come.
    #[must_use]
    pub fn savepoint(&self) -> Savepoint {
        let undo = self.running.as_ref().and_then(|r| r.undo.as_ref());
        Savepoint(undo.map(UndoLog::end))
    }

    /// What the statement at hand sees: the transaction's snapshot under REPEATABLE READ, which is
    /// made now if there is none; else what had committed when the statement first asked. Its own
    /// changes are always among it.
    pub fn view(&mut self) -> Arc<ReadView> {
        let kept = self.view.take();
        let view = self.renewed(kept);
        self.view.insert(view).clone()
    }

    /// What a statement sees that locks or changes rows: [`Transaction::view`], but under REPEATABLE READ without
    /// snapshot isolation what had committed when the statement first asked.
    pub fn change_view(&mut self) -> Arc<ReadView> {
        if self.is_bound_to_snapshot() {
            return self.view();
        }
        let kept = self.change_view.take();
        let view = self.renewed(kept);
        self.change_view.insert(view).clone()
    }

    /// A view that was kept, with the transaction's own changes among what it sees; without one, a view of now.
    fn renewed(&self, kept: Option<Arc<ReadView>>) -> Arc<ReadView> {
        let own = self.id();
        match kept {
            Some(view) if view.own() == own => view,
            Some(view) => Arc::new(view.of(own.expect("an id is kept"))),
            None => Arc::new(self.current_view()),
        }
    }

    /// True if what it locks or changes must be what its snapshot sees, should it have one.
    #[must_use]
    pub fn is_bound_to_snapshot(&self) -> bool {
        self.options.snapshot_isolation || self.options.isolation != Isolation::RepeatableRead
    }

    /// A view of now.
    fn current_view(&self) -> ReadView {
        let connection = self.options.connection;
        self.engine.registry.view(self.id(), connection)
    }

    /// True if later reads see what the first one saw: under REPEATABLE READ, once something was
    /// read.
    #[must_use]
    pub fn has_snapshot(&self) -> bool {
        self.options.isolation == Isolation::RepeatableRead && self.view.is_some()
    }

    /// Forgets the snapshot. Right only for a statement that made it, has changed nothing, and is
    /// run again: nobody has seen anything of the snapshot.
    pub fn forget_snapshot(&mut self) {
        self.view = None;
        self.change_view = None;
    }

    /// Has a statement that is run again see what has committed now, where it is not bound to the snapshot.
    pub fn forget_change_view(&mut self) {
        self.change_view = None;
    }

    /// Locks rows and ranges for this transaction from within plans.
    pub fn locker(&mut self, mode: LockMode, wait: LockWait) -> RangeLocker {
        RangeLocker {
            owner: self.running().owner.clone(),
            mode,
            wait,
            cancel: self.cancel.clone(),
        }
    }

    /// Locks a row by its clustered key, and gives its current version.
    ///
    /// # Errors
    /// [`EngineError::RecordChanged`] if the transaction has a snapshot that does not see the
    /// current version; [`EngineError::Deadlock`], [`EngineError::LockTimeout`],
    /// [`EngineError::LockedNoWait`], [`EngineError::Cancelled`], or what storage says.
    pub async fn lock_row(
        &mut self,
        table: &Arc<Table>,
        key: &[u8],
        mode: LockMode,
        wait: LockWait,
    ) -> Result<RowLock, EngineError> {
        let cancel = self.cancel.clone();
        let owner = self.running().owner.clone();
        owner.use_table(table, &cancel).await?;
        let named = (0, key.to_vec());
        if !owner.lock_key(table, &named, mode, wait, &cancel).await? {
            return Ok(RowLock::Skipped);
        }
        loop {
            match current_version(&self.engine, table, key, self.id()).await? {
                Current::Settled(None) => return Ok(RowLock::Locked(None)),
                Current::Settled(Some(row)) => {
                    let header = RecordHeader::read(&row);
                    self.check_snapshot(table, header.trx)?;
                    return Ok(RowLock::Locked((!header.flags.is_deleted()).then_some(row)));
                }
                Current::Written(writer) => match wait {
                    LockWait::Wait => owner.wait_for(writer, &cancel).await?,
                    LockWait::NoWait => return Err(EngineError::LockedNoWait),
                    LockWait::Skip => return Ok(RowLock::Skipped),
                },
            }
        }
    }

    /// First updater wins: a version that the snapshot does not see cannot be written over.
    pub(super) fn check_snapshot(&self, table: &Table, trx: TrxId) -> Result<(), EngineError> {
        let is_checked = self.has_snapshot() && self.is_bound_to_snapshot();
        let snapshot = self.view.as_ref().filter(|_| is_checked);
        if Some(trx) == self.id() || snapshot.is_none_or(|view| view.sees(trx)) {
            return Ok(());
        }
        Err(EngineError::RecordChanged {
            table: table.def.name.clone(),
        })
    }

    /// The transaction with an id.
    pub(super) fn running(&mut self) -> &mut Running {
        let (engine, options) = (&self.engine, self.options);
        self.running.get_or_insert_with(|| {
            let trx = engine.registry.begin();
            engine.reserve(Counter::Trx, trx.0);
            let owner = Owner::new(engine.clone(), trx, options);
            Running {
                owner: Arc::new(owner),
                undo: None,
                lasting: false,
                rows: HashMap::new(),
                relations: HashMap::new(),
                related_locks: HashMap::new(),
            }
        })
    }

    /// Makes this a transaction that can write to a table; returns its id.
    pub(crate) async fn write_to(&mut self, table: &Arc<Table>) -> Result<TrxId, EngineError> {
        let cancel = self.cancel.clone();
        let owner = self.running().owner.clone();
        owner.use_table(table, &cancel).await?;
        self.engine.reserve_numbers(table).await?;
        self.running().lasting |= !table.def.is_temporary();
        if self.running().undo.is_none() {
            let undo = start_undo(&self.engine, owner.trx).await?;
            self.running().undo = Some(undo);
        }
        Ok(owner.trx)
    }

    /// As [`Transaction::write_to`], alone: nobody else uses the table until the transaction ends.
    pub(crate) async fn write_alone_to(
        &mut self,
        table: &Arc<Table>,
    ) -> Result<TrxId, EngineError> {
        let cancel = self.cancel.clone();
        let owner = self.running().owner.clone();
        owner.own_table(table, &cancel).await?;
        self.write_to(table).await
    }

    /// Lets others use a table again.
    pub(crate) fn share(&mut self, table: &Table) {
        self.running().owner.share_table(table);
    }

    /// Writes undo; gives a roll pointer for each change.
    pub(super) async fn append_undo(
        &mut self,
        table: &Table,
        changes: impl IntoIterator<Item = UndoChange>,
    ) -> Result<Vec<perigee_types::RollPtr>, EngineError> {
        let engine = self.engine.clone();
        let running = self.running();
        let (trx, table) = (running.owner.trx, table.id);
        let record = |change| UndoRecord { trx, table, change };
        let records: Vec<_> = changes.into_iter().map(record).collect();
        let undo = running.undo.as_mut().expect("write_to came first");
        undo.append(&engine, &records).await
    }

    /// Notes that a load into an empty table begins: undoing it empties the table's trees.
    pub(crate) async fn log_load(&mut self, table: &Table) -> Result<(), EngineError> {
        self.append_undo(table, [UndoChange::Load]).await.map(drop)
    }

    /// Counts a row that changed: 1 if it was added, -1 if it was removed, 0 if it has other
    /// values.
    pub(super) fn count_row(&mut self, table: &Arc<Table>, grown: i64) {
        let counts = &mut self.running().rows;
        let count = counts
            .entry(table.id)
            .or_insert_with(|| (table.clone(), 0, 0));
        count.1 += grown;
        count.2 += 1;
    }

    /// Undoes what was done since a savepoint. Locks are kept.
    ///
    /// # Errors
    /// If storage fails; then the transaction cannot go on.
    pub async fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<(), EngineError> {
        let engine = self.engine.clone();
        let Some(running) = &mut self.running else {
            return Ok(());
        };
        let Some(undo) = &running.undo else {
            return Ok(());
        };
        // What was counted since is a matter of statistics.
        let from = savepoint.0.unwrap_or(undo.start());
        undoing(Box::pin(roll_back_from(&engine, running.owner.trx, from))).await
    }

    /// Commits; when this returns, the changes survive any crash, but for those of temporary tables.
    ///
    /// # Errors
    /// [`EngineError::OutcomeOpen`] if the log is not durable in time or the statement is stopped:
    /// then the commit goes on, and what was written stays locked meanwhile. If storage stops, only
    /// the next start knows whether the commit took place.
    pub async fn commit(mut self) -> Result<(), EngineError> {
        self.view = None;
        self.change_view = None;
        match self.running.take() {
            Some(running) => Ending::commit(&self.engine, running).committed().await,
            None => Ok(()),
        }
    }

    /// Undoes all changes. Where storage does not let that be done now it goes on in the background,
    /// until it is done; what was written stays locked meanwhile.
    ///
    /// # Errors
    /// If storage has stopped for good; then the next start undoes them.
    pub async fn rollback(mut self) -> Result<(), EngineError> {
        self.view = None;
        self.change_view = None;
        match self.running.take() {
            Some(running) => Ending::roll_back(&self.engine, running).rolled_back().await,
            None => Ok(()),
        }
    }
}

impl Running {
    /// Lets go of everything; the durable end has come before.
    pub(super) fn end(self, engine: &Engine, committed: bool) {
        self.owner.release();
        engine.registry.counters.ended(committed);
        let history = self.undo.as_ref().map(|undo| {
            let (slot, end, work) = undo.history();
            // What was rolled back is gone already; only its undo may still be looked at.
            (slot, end, work && committed)
        });
        engine.registry.end_with(self.owner.trx, history);
        if let Some(undo) = &self.undo {
            engine.segments.give_back(undo.slot());
        }
        if committed {
            for (table, grown, changed) in self.rows.values() {
                if table.count_changes(*grown, *changed) {
                    engine.keeper.wake();
                }
            }
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            // Unfinished: it goes on in the background.
            drop(Ending::roll_back(&self.engine, running));
        }
    }
}

/// A slot and an undo log for a transaction.
async fn start_undo(engine: &Arc<Engine>, trx: TrxId) -> Result<UndoLog, EngineError> {
    let slot = SlotHold {
        engine,
        slot: engine.segments.take()?,
    };
    let undo = UndoLog::begin(engine, slot.slot, trx).await?;
    std::mem::forget(slot);
    Ok(undo)
}

/// A slot that is given back unless a transaction has it, also by who is dropped while he waits.
struct SlotHold<'a> {
    engine: &'a Engine,
    slot: usize,
}

impl Drop for SlotHold<'_> {
    fn drop(&mut self) {
        self.engine.segments.give_back(self.slot);
    }
}
