//! Locking reads: SELECT … FOR UPDATE and FOR SHARE.
//!
//! The rows of the result are locked, above its sort and, with SKIP LOCKED, below its LIMIT: the query
//! delivers their keys in hidden columns. From REPEATABLE READ on the ranges that are read are locked
//! first, so that no row can join them. Where the result does not tell its rows (aggregates, DISTINCT,
//! GROUP BY, UNION) only ranges can be locked, at any level.

use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use perigee_engine::scan::CancelToken;
use perigee_engine::txn::{Isolation, LockMode, LockWait, RowLock};
use perigee_sql_bind::query::{self, Strength};
use sqlparser::ast::{LockClause, LockType, NonBlock};
use std::sync::Arc;

use super::Session;
use super::dml::{Budget, HIDDEN, Target, keep};
use super::select::{self, Reading, Special};
use super::transaction::Work;
use crate::error::{Result, SqlError};
use crate::result::{ResultSink, column_of};

/// The mode of locks of a strength.
pub(super) fn mode_of(strength: Strength) -> LockMode {
    match strength {
        Strength::Update => LockMode::Exclusive,
        Strength::Share => LockMode::Shared,
    }
}

/// What becomes of locks that others hold.
fn wait_of(wait: query::LockWait) -> LockWait {
    match wait {
        query::LockWait::Wait => LockWait::Wait,
        query::LockWait::Nowait => LockWait::NoWait,
        query::LockWait::SkipLocked => LockWait::Skip,
    }
}

/// The mode that a locking clause asks for.
pub(super) fn lock_mode(clause: &LockClause) -> LockMode {
    match clause.lock_type {
        LockType::Update => LockMode::Exclusive,
        LockType::Share => LockMode::Shared,
    }
}

/// What it says of locks that others hold.
pub(super) fn lock_wait(clause: &LockClause) -> LockWait {
    match clause.nonblock {
        None => LockWait::Wait,
        Some(NonBlock::Nowait) => LockWait::NoWait,
        Some(NonBlock::SkipLocked) => LockWait::Skip,
    }
}

/// A table whose rows are locked.
struct Locked {
    target: Target,
    mode: LockMode,
    wait: LockWait,
}

/// A locking read, ready to be planned.
struct LockingRead {
    query: Arc<query::Query>,
    /// The mode of the first clause.
    mode: LockMode,
    locked: Vec<Locked>,
    /// Rows can be locked one by one.
    by_row: bool,
    /// LIMIT and OFFSET, if they count what remains after SKIP LOCKED.
    limit: Option<(usize, Option<usize>)>,
}

/// The rows of the result, locked.
struct Rows {
    schema: Arc<Schema>,
    names: Vec<String>,
    batches: Vec<RecordBatch>,
}

/// Runs a locking read.
pub(super) async fn run(
    session: &mut Session,
    query: query::Query,
    out: &mut dyn ResultSink,
    cancel: &CancelToken,
) -> Result<()> {
    let read = LockingRead::new(session, query)?;
    let mut work = session.begin_work(cancel);
    let outcome = loop {
        match read.attempt(session, &mut work, cancel).await {
            Err(error) if work.may_restart(&error) => {
                if let Err(error) = work.restart().await {
                    break Err(error);
                }
            }
            outcome => break outcome,
        }
    };
    let outcome = keep(session, &read.query, outcome);
    let outcome = match outcome {
        Ok(rows) => deliver(session, rows, out).await,
        Err(error) => Err(error),
    };
    session.end_work(work, outcome).await
}

async fn deliver(session: &Session, rows: Rows, out: &mut dyn ResultSink) -> Result<()> {
    let shown: Vec<usize> = (0..rows.schema.fields().len())
        .filter(|at| !rows.names[*at].starts_with(HIDDEN))
        .filter(|at| !rows.schema.field(*at).name().starts_with(HIDDEN))
        .collect();
    let columns: Vec<_> = shown
        .iter()
        .map(|at| column_of(rows.schema.field(*at), &rows.names[*at]))
        .collect();
    out.columns(&columns).await?;
    for batch in rows.batches {
        let batch = select::shown(&batch, &rows.schema, session.zone())?;
        let batch = batch.project(&shown).map_err(SqlError::unknown)?;
        out.rows(&batch).await?;
    }
    out.finish(session.warning_count()).await
}

impl LockingRead {
    fn new(session: &Session, mut query: query::Query) -> Result<Self> {
        let by_row = query.tells_rows();
        let mode = query.locks.first().map(|lock| mode_of(lock.strength));
        let mut locked = Vec::new();
        for lock in &query.locks {
            for table in &lock.tables {
                let named = &query.tables[*table];
                if lock.strength == Strength::Update {
                    let (schema, name) = match named.views.first() {
                        Some(view) => (&view.schema, &view.name),
                        None => (&named.schema, &named.name),
                    };
                    session.check_lockable(schema, name)?;
                }
                locked.push(Locked {
                    target: Target::new(session, named)?,
                    mode: mode_of(lock.strength),
                    wait: wait_of(lock.wait),
                });
            }
        }
        let mut limit = None;
        if by_row {
            let skips = locked.iter().any(|l| l.wait == LockWait::Skip);
            if skips && let Some((skip, most)) = query.without_limit() {
                let most = most.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
                limit = Some((usize::try_from(skip).unwrap_or(usize::MAX), most));
            }
            for Locked { target, .. } in &mut locked {
                let places = query.deliver(&target.key_columns(), HIDDEN);
                let unknown = || SqlError::unknown("Q14: a query that does not tell its rows");
                target.places = places.ok_or_else(unknown)?;
            }
        }
        Ok(Self {
            query: Arc::new(query),
            mode: mode.unwrap_or(LockMode::Shared),
            locked,
            by_row,
            limit,
        })
    }

    /// What the query reads, and which ranges it locks.
    async fn reading(&self, session: &Session, work: &mut Work, cancel: &CancelToken) -> Reading {
        let ranges = !self.by_row || work.isolation() != Isolation::ReadCommitted;
        let mut special = std::collections::HashMap::new();
        for Locked { target, mode, wait } in &self.locked {
            // What another transaction locked is not waited for to be skipped.
            let locker = match (ranges, self.by_row, *wait) {
                (false, ..) | (_, true, LockWait::Skip) => None,
                (_, _, LockWait::Skip) => Some(work.transaction().locker(*mode, LockWait::Wait)),
                (_, _, wait) => Some(work.transaction().locker(*mode, wait)),
            };
            let special_access = Special {
                locker,
                row_id: self.by_row,
                ..Special::default()
            };
            special.insert(target.access, special_access);
        }
        let all_locked = (0..self.query.tables.len())
            .all(|access| special.get(&access).is_some_and(|s| s.locker.is_some()));
        let mut reading = match all_locked {
            // The locks give the views.
            true => Reading::snapshot(session.current_view(), cancel),
            false => work.reading(cancel).await,
        };
        if !self.by_row {
            reading.locker = Some(work.locker(self.mode));
        }
        reading.special = special;
        reading
    }

    /// Runs the query and locks its rows.
    async fn attempt(
        &self,
        session: &Session,
        work: &mut Work,
        cancel: &CancelToken,
    ) -> Result<Rows> {
        let mut locked = self.locked.iter();
        locked.try_for_each(|locked| match locked.mode {
            LockMode::Exclusive => work.check_writable(&locked.target.table),
            LockMode::Shared => Ok(()),
        })?;
        let reading = self.reading(session, work, cancel).await;
        // Ranges that are locked do not change.
        let is_range = |l: &Locked| {
            let special = reading.special.get(&l.target.access);
            special.is_some_and(|s| s.locker.is_some())
        };
        let checked: Vec<bool> = self.locked.iter().map(|l| !is_range(l)).collect();
        let prepared = select::plan(session, &self.query, reading).await?;
        let mut rows = Rows {
            schema: prepared.schema.clone(),
            names: prepared.names.clone(),
            batches: Vec::new(),
        };
        let mut budget = Budget::new(session)?;
        let mut counter = RecordBatchMemoryCounter::new();
        let (mut skip, mut left) = self.limit.map_or((0, None), |limit| limit);
        let mut stream = session.frontend.start(&prepared);
        while left != Some(0)
            && let Some(batch) = select::guarded(&mut stream, cancel).await?
        {
            let mut kept = vec![true; batch.num_rows()];
            if self.by_row {
                let keys: Vec<_> = self
                    .locked
                    .iter()
                    .map(|l| l.target.keys(&batch, &rows.schema))
                    .collect::<Result<_>>()?;
                for (row, kept) in kept.iter_mut().enumerate() {
                    if cancel.is_cancelled() {
                        return Err(SqlError::interrupted());
                    }
                    *kept = left != Some(0);
                    for (locked, (keys, check)) in self.locked.iter().zip(keys.iter().zip(&checked))
                    {
                        if let (true, Some(key)) = (*kept, &keys[row]) {
                            *kept = locked.lock(work, key, *check).await?;
                        }
                    }
                    if *kept && skip > 0 {
                        skip -= 1;
                        *kept = false;
                    } else if *kept && let Some(left) = &mut left {
                        *left -= 1;
                    }
                }
            }
            let batch = match kept.contains(&false) {
                true => filter_record_batch(&batch, &BooleanArray::from(kept))
                    .map_err(SqlError::unknown)?,
                false => batch,
            };
            if batch.num_rows() > 0 {
                budget.take(counter.count_batch(&batch))?;
                rows.batches.push(batch);
            }
        }
        Ok(rows)
    }
}

impl Locked {
    /// Locks a row; false if it is skipped.
    ///
    /// # Errors
    /// 1020 if it is not the version that the statement has seen, which is to be checked.
    async fn lock(&self, work: &mut Work, key: &[u8], check: bool) -> Result<bool> {
        let table = &self.target.table;
        let transaction = work.transaction();
        let lock = transaction.lock_row(table, key, self.mode, self.wait);
        let changed = match lock.await? {
            RowLock::Skipped => return Ok(false),
            RowLock::Locked(Some(record)) => {
                check && !transaction.change_view().sees_record(&record)
            }
            RowLock::Locked(None) => true,
        };
        if changed {
            return Err(SqlError::record_changed(&table.def.name));
        }
        Ok(true)
    }
}
