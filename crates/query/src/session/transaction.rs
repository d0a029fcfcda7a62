//! The session's transaction: what BEGIN opens, what each statement does in it, and how it ends.
//!
//! In autocommit mode every statement that changes or locks rows is a transaction of its own. A
//! statement in a transaction that fails is undone alone, except where MySQL undoes the whole
//! transaction ([`SqlError::ends_transaction`]).

use std::sync::Arc;
use std::time::Duration;

use perigee_engine::catalog::Table;
use perigee_engine::scan::CancelToken;
use perigee_engine::txn::{
    Isolation, LockMode, LockWait, RangeLocker, ReadView, Savepoint, Suspended, Transaction,
    TransactionOptions,
};

use super::Session;
use super::select::Reading;
use super::table_locks::Locked;
use crate::error::{Result, SqlError};
use crate::parse::{Completion, TransactionStatement};

/// How often a statement begins anew because rows changed while it ran. It keeps its locks, so each
/// time fewer rows can change.
const RESTARTS: usize = 100;

/// A transaction that lasts longer than a statement.
pub(super) struct Open {
    pub transaction: Transaction,
    read_only: bool,
    /// Named savepoints, the oldest first.
    savepoints: Vec<(String, Savepoint)>,
}

/// What SET TRANSACTION said of the next transaction.
#[derive(Debug, Default)]
pub(super) struct Characteristics {
    /// The isolation level, as the variable has it.
    pub isolation: Option<String>,
    pub read_only: Option<bool>,
}

/// What a statement keeps while others run in its transaction.
pub(super) struct Lent {
    statement: Suspended,
    savepoints: Vec<(String, Savepoint)>,
}

/// A statement in its transaction. Dropping it unfinished rolls the transaction back.
pub(super) struct Work {
    open: Open,
    /// The transaction ends with the statement.
    own: bool,
    savepoint: Savepoint,
    /// It neither locks nor changes rows.
    only_reads: bool,
    /// The transaction had a snapshot before the statement, so another one would not be the same.
    had_snapshot: bool,
    restarts: usize,
}

impl Work {
    /// The transaction.
    pub(super) fn transaction(&mut self) -> &mut Transaction {
        &mut self.open.transaction
    }

    /// Its isolation level.
    pub(super) fn isolation(&self) -> Isolation {
        self.open.transaction.isolation()
    }

    /// 1792 if the transaction may not write to a table.
    pub(super) fn check_writable(&self, table: &Table) -> Result<()> {
        match self.open.read_only && !table.def.is_temporary() {
            true => Err(SqlError::read_only_transaction()),
            false => Ok(()),
        }
    }

    /// What a query of the statement reads: the transaction's snapshot, or at SERIALIZABLE what it locks. A
    /// statement that locks or changes rows may see more.
    pub(super) async fn reading(&mut self, cancel: &CancelToken) -> Reading {
        let transaction = &mut self.open.transaction;
        let view = match self.only_reads {
            true => transaction.view(),
            false => transaction.change_view(),
        };
        let mut reading = Reading::snapshot(view, cancel);
        if self.isolation() == Isolation::Serializable {
            reading.locker = Some(self.locker(LockMode::Shared));
        }
        reading
    }

    /// Forgets a snapshot that the statement has made and not used.
    pub(super) fn forget_new_snapshot(&mut self) {
        if !self.had_snapshot {
            self.open.transaction.forget_snapshot();
        }
    }

    /// Locks ranges for this statement.
    pub(super) fn locker(&mut self, mode: LockMode) -> RangeLocker {
        self.open.transaction.locker(mode, LockWait::Wait)
    }

    /// True if the statement can begin anew after this error: rows changed since its own snapshot.
    pub(super) fn may_restart(&self, error: &SqlError) -> bool {
        let is_bound = self.open.transaction.is_bound_to_snapshot() && self.had_snapshot;
        error.errno == SqlError::record_changed("").errno && !is_bound && self.restarts < RESTARTS
    }

    /// Undoes the statement so that it can begin anew; it keeps its locks.
    pub(super) async fn restart(&mut self) -> Result<()> {
        self.restarts += 1;
        let transaction = &mut self.open.transaction;
        let undone = transaction.rollback_to(&self.savepoint).await;
        undone.map_err(|e| SqlError::transaction_undone("the statement cannot be run again", e))?;
        match self.had_snapshot {
            true => transaction.forget_change_view(),
            false => transaction.forget_snapshot(),
        }
        Ok(())
    }
}

impl Session {
    /// A transaction as the session's variables and SET TRANSACTION want it.
    fn open_transaction(&mut self, read_only: Option<bool>) -> Open {
        let Characteristics {
            isolation,
            read_only: next_read_only,
        } = std::mem::take(&mut self.next_transaction);
        let level = match &isolation {
            Some(level) => Some(level.as_str()),
            None => self.variables.get("transaction_isolation").ok().flatten(),
        };
        let isolation = match level {
            Some("READ-UNCOMMITTED" | "READ-COMMITTED") => Isolation::ReadCommitted,
            Some("SERIALIZABLE") => Isolation::Serializable,
            _ => Isolation::RepeatableRead,
        };
        let read_only = read_only
            .or(next_read_only)
            .unwrap_or_else(|| self.variables.is_on("transaction_read_only"));
        self.open_with(isolation, read_only)
    }

    fn open_with(&self, isolation: Isolation, read_only: bool) -> Open {
        let timeout = |name| Duration::from_secs(self.variables.integer(name));
        let options = TransactionOptions {
            isolation,
            snapshot_isolation: self.variables.is_on("innodb_snapshot_isolation"),
            lock_timeout: timeout("innodb_lock_wait_timeout"),
            definition_timeout: timeout("lock_wait_timeout"),
            connection: self.info.connection_id,
            foreign_key_checks: self.checks_foreign_keys(),
            locked_tables: self.locked.as_ref().map(Locked::id),
        };
        Open {
            transaction: self.frontend.engine.begin(options),
            read_only,
            savepoints: Vec::new(),
        }
    }

    /// True if the next statement is a transaction by itself.
    pub(super) fn commits_each_statement(&self) -> bool {
        self.open.is_none() && self.autocommit()
    }

    /// The transaction of a load, which belongs to no other.
    pub(super) fn load_transaction(&self) -> Transaction {
        self.open_with(Isolation::default(), false).transaction
    }

    /// Begins a statement, in the open transaction or in one of its own.
    pub(super) fn begin_work(&mut self, cancel: &CancelToken) -> Work {
        let (mut open, own) = match self.open.take() {
            Some(open) => (open, false),
            None => (self.open_transaction(None), self.autocommit()),
        };
        let checks = self.checks_foreign_keys();
        open.transaction.check_foreign_keys(checks);
        let savepoint = open.transaction.begin_statement(cancel);
        Work {
            only_reads: false,
            had_snapshot: open.transaction.has_snapshot(),
            open,
            own,
            savepoint,
            restarts: 0,
        }
    }

    /// Begins a statement that only reads; outside of transactions it needs none.
    pub(super) fn begin_reading(&mut self, tables: bool, cancel: &CancelToken) -> Option<Work> {
        let in_transaction = self.open.is_some() || (tables && !self.autocommit());
        in_transaction.then(|| Work {
            only_reads: true,
            ..self.begin_work(cancel)
        })
    }

    /// Makes the transaction of a statement the open one, for statements that run within it: their savepoints are their
    /// own.
    pub(super) fn lend(&mut self, work: &mut Work) -> Lent {
        let stands_in = self.open_with(work.isolation(), work.open.read_only);
        let mut open = std::mem::replace(&mut work.open, stands_in);
        let lent = Lent {
            statement: open.transaction.suspend_statement(),
            savepoints: std::mem::take(&mut open.savepoints),
        };
        self.open = Some(open);
        lent
    }

    /// Gives a statement its transaction back. If that was rolled back, an empty one stands in for it, and the error
    /// that says so ends the statement.
    pub(super) fn take_back(&mut self, work: &mut Work, lent: Lent) {
        if let Some(mut open) = self.open.take() {
            open.transaction.resume_statement(lent.statement);
            open.savepoints = lent.savepoints;
            work.open = open;
        }
    }

    /// True if statements run within one that has no transaction any more.
    pub(super) fn has_lost_transaction(&self) -> bool {
        !self.fired.is_empty() && self.open.is_none()
    }

    /// True if later reads of the open transaction see what earlier ones saw.
    pub(super) fn has_snapshot(&self) -> bool {
        let open = self.open.as_ref();
        open.is_some_and(|open| open.transaction.has_snapshot())
    }

    /// Prepares for running a statement again that failed and delivered nothing. A snapshot that it
    /// made itself is forgotten.
    pub(super) fn begin_anew(&mut self, had_snapshot: bool) {
        self.warnings.clear();
        if let Some(open) = &mut self.open
            && !had_snapshot
        {
            open.transaction.forget_snapshot();
        }
    }

    /// A view of what has committed, for what is read outside of transactions.
    pub(super) fn current_view(&self) -> Arc<ReadView> {
        self.frontend.engine.view_for(self.info.connection_id)
    }

    /// What a statement reads that began with [`Session::begin_reading`].
    pub(super) async fn reading(&self, work: &mut Option<Work>, cancel: &CancelToken) -> Reading {
        match work {
            Some(work) => work.reading(cancel).await,
            None => Reading::snapshot(self.current_view(), cancel),
        }
    }

    /// Ends a statement: what it did stays, or is undone.
    pub(super) async fn end_work<T>(&mut self, work: Work, outcome: Result<T>) -> Result<T> {
        let Work {
            mut open,
            own,
            savepoint,
            ..
        } = work;
        match &outcome {
            Ok(_) if own => open.transaction.commit().await?,
            Err(error) if own || error.ends_transaction() => open.transaction.rollback().await?,
            Ok(_) => self.open = Some(open),
            Err(error) => {
                if let Err(undo) = open.transaction.rollback_to(&savepoint).await {
                    // The statement cannot be undone alone now, so all of it will be, as soon as
                    // storage lets it.
                    drop(open);
                    return Err(SqlError::transaction_undone(&error.message, undo));
                }
                self.open = Some(open);
            }
        }
        outcome
    }

    /// Ends a statement that began with [`Session::begin_reading`].
    pub(super) async fn end_reading<T>(
        &mut self,
        work: Option<Work>,
        outcome: Result<T>,
    ) -> Result<T> {
        match work {
            Some(work) => self.end_work(work, outcome).await,
            None => outcome,
        }
    }

    /// 1792 if the open transaction, or one that would begin now, may not write.
    pub(super) fn check_writable(&self) -> Result<()> {
        let next = self.next_transaction.read_only;
        let read_only = match &self.open {
            Some(open) => open.read_only,
            None => next.unwrap_or_else(|| self.variables.is_on("transaction_read_only")),
        };
        match read_only {
            true => Err(SqlError::read_only_transaction()),
            false => Ok(()),
        }
    }

    /// Commits the open transaction, if there is one.
    pub(super) async fn commit_open(&mut self) -> Result<()> {
        match self.open.take() {
            Some(open) => Ok(open.transaction.commit().await?),
            None => Ok(()),
        }
    }

    /// Rolls the open transaction back, if there is one.
    pub(super) async fn roll_back_open(&mut self) -> Result<()> {
        match self.open.take() {
            Some(open) => Ok(open.transaction.rollback().await?),
            None => Ok(()),
        }
    }

    /// Opens the transaction that AND CHAIN asks for: like the one before, if there was one.
    fn chain(&mut self, before: Option<(Isolation, bool)>) {
        let next = match before {
            Some((isolation, read_only)) => self.open_with(isolation, read_only),
            None => self.open_transaction(None),
        };
        self.open = Some(next);
    }

    /// After COMMIT and ROLLBACK.
    fn complete(&mut self, before: Option<(Isolation, bool)>, completion: Completion) {
        if completion.chain {
            self.chain(before);
        }
        if completion.release {
            // The connection reads this when the answer is sent.
            let id = self.info.connection_id;
            self.info.connections.kill(id, false);
        }
    }
}

/// Runs BEGIN, COMMIT, ROLLBACK and the statements about savepoints.
pub(super) async fn run(session: &mut Session, statement: TransactionStatement) -> Result<()> {
    use TransactionStatement as Statement;
    let before = session
        .open
        .as_ref()
        .map(|open| (open.transaction.isolation(), open.read_only));
    match statement {
        Statement::Begin {
            read_only,
            snapshot,
        } => {
            session.commit_open().await?;
            session.unlock_named_tables();
            let mut open = session.open_transaction(read_only);
            if snapshot && open.transaction.isolation() == Isolation::RepeatableRead {
                let _: Arc<_> = open.transaction.view();
            } else if snapshot {
                session.warn("Warning", &SqlError::snapshot_ignored());
            }
            session.open = Some(open);
        }
        Statement::Commit(completion) => {
            session.commit_open().await?;
            session.complete(before, completion);
        }
        Statement::Rollback(completion) => {
            session.roll_back_open().await?;
            session.complete(before, completion);
        }
        Statement::Savepoint(name) => {
            if session.open.is_none() && !session.autocommit() {
                session.open = Some(session.open_transaction(None));
            }
            if let Some(open) = &mut session.open {
                open.savepoints.retain(|(known, _)| !is_same(known, &name));
                let savepoint = open.transaction.savepoint();
                open.savepoints.push((name, savepoint));
            }
        }
        Statement::RollbackTo(name) => {
            let (open, at) = savepoint(session, &name)?;
            open.savepoints.truncate(at + 1);
            let (_, savepoint) = &open.savepoints[at];
            if let Err(undo) = open.transaction.rollback_to(savepoint).await {
                session.open = None;
                let why = "the savepoint cannot be returned to";
                return Err(SqlError::transaction_undone(why, undo));
            }
        }
        Statement::Release(name) => {
            let (open, at) = savepoint(session, &name)?;
            open.savepoints.truncate(at);
        }
    }
    Ok(())
}

/// Names of savepoints are compared without case.
fn is_same(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

/// The open transaction and the number of its savepoint with a name.
fn savepoint<'s>(session: &'s mut Session, name: &str) -> Result<(&'s mut Open, usize)> {
    let unknown = || SqlError::unknown_savepoint(name);
    let open = session.open.as_mut().ok_or_else(unknown)?;
    let at = open
        .savepoints
        .iter()
        .position(|(known, _)| is_same(known, name));
    Ok((open, at.ok_or_else(unknown)?))
}
