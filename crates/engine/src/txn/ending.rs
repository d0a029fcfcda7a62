//! [`Ending`]: a transaction on its way to its end, which it reaches whatever happens.
//!
//! What a transaction has written is locked until it has ended, so an end may be late and must not
//! fail. One that storage does not let come about now, or that nobody waits for any more, goes on in
//! the background: it is tried until it succeeds or storage has stopped for good.

use std::sync::Arc;
use std::time::Duration;

use perigee_types::Lsn;

use super::rollback::roll_back_from;
use super::segment::free_slot;
use super::transaction::Running;
use crate::crash::vital;
use crate::engine::Engine;
use crate::errand::{undoing, wait, with_patience};
use crate::{EngineError, errand};

/// Pauses between attempts grow from here...
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// ...to here: soon enough for those who wait for the locks when storage is back.
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// How long a commit whose statement is stopped still waits: mostly it has succeeded by then.
const KILL_PATIENCE: Duration = Duration::from_millis(50);

/// Pauses between attempts.
pub(crate) struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl Pauses {
    /// Waits until it is time for the next attempt.
    pub async fn pause(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (2 * self.0).min(LAST_PAUSE);
    }
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug)]
enum How {
    /// Its slot is freed by the log up to here.
    Commit(Lsn),
    RollBack,
}

/// A transaction that is to end. Dropped before it has, it goes on in the background.
pub(super) struct Ending {
    engine: Arc<Engine>,
    /// `None` once it has ended.
    running: Option<Running>,
    how: How,
    /// It goes on in the background already.
    late: bool,
}

impl Ending {
    /// Commits: the log says so from now on, durably or not.
    pub fn commit(engine: &Arc<Engine>, running: Running) -> Self {
        let freed = running.undo.as_ref();
        let lsn = freed.map_or(Lsn(0), |undo| free_slot(engine, undo.slot(), undo.end()));
        // Of temporary tables nothing outlives the process, so that there is nothing to wait for.
        let lsn = if running.lasting { lsn } else { Lsn(0) };
        Self::new(engine, running, How::Commit(lsn))
    }

    /// Rolls back.
    pub fn roll_back(engine: &Arc<Engine>, running: Running) -> Self {
        Self::new(engine, running, How::RollBack)
    }

    fn new(engine: &Arc<Engine>, running: Running, how: How) -> Self {
        Self {
            engine: engine.clone(),
            running: Some(running),
            how,
            late: false,
        }
    }

    /// Waits for a commit until it is durable.
    ///
    /// # Errors
    /// [`EngineError::OutcomeOpen`] if that takes too long or the statement is stopped; otherwise
    /// that storage has stopped.
    pub async fn committed(mut self) -> Result<(), EngineError> {
        let engine = self.engine.clone();
        let limit = engine.config.commit_timeout;
        let reach = with_patience(KILL_PATIENCE, wait(self.reach()));
        match tokio::time::timeout(limit, reach).await {
            Ok(Err(EngineError::Cancelled)) | Err(_) => {}
            Ok(outcome) => return outcome,
        }
        // It may have come in the very moment.
        if self.running.is_none() {
            return Ok(());
        }
        Err(errand::outcome_open(&engine, "the transaction"))
    }

    /// Rolls back as far as storage lets it now; the rest goes on by itself.
    ///
    /// # Errors
    /// That storage has stopped.
    pub async fn rolled_back(mut self) -> Result<(), EngineError> {
        if let Err(e) = self.reach().await {
            self.engine.sal.check()?;
            tracing::warn!("a rollback goes on in the background: {e}");
        }
        Ok(())
    }

    /// Goes to the end, if storage lets it.
    async fn reach(&mut self) -> Result<(), EngineError> {
        let Some(running) = &self.running else {
            return Ok(());
        };
        let committed = match self.how {
            How::Commit(Lsn(0)) => true,
            How::Commit(lsn) => {
                self.engine.sal.wait_durable(lsn).await?;
                true
            }
            How::RollBack => {
                if let Some(undo) = &running.undo {
                    let undo_all = roll_back_from(&self.engine, running.owner.trx, undo.start());
                    undoing(Box::pin(undo_all)).await?;
                    let _ = free_slot(&self.engine, undo.slot(), undo.end());
                }
                false
            }
        };
        if let Some(running) = self.running.take() {
            running.end(&self.engine, committed);
        }
        Ok(())
    }

    /// Tries until it has ended, or storage has stopped for good.
    async fn go_on(mut self) {
        let engine = self.engine.clone();
        let _counted = engine.registry.counters.late();
        let mut pauses = Pauses::default();
        while let Err(e) = self.reach().await {
            if engine.sal.check().is_err() {
                // The next start knows, or does it.
                self.running = None;
                return;
            }
            tracing::warn!("a transaction cannot end, and is tried again: {e}");
            pauses.pause().await;
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else {
            return;
        };
        // The process ends, or storage has: the next start knows.
        if self.late || self.engine.sal.check().is_err() {
            return;
        }
        let mut late = Self::new(&self.engine, running, self.how);
        late.late = true;
        let runtime = self.engine.runtime.clone();
        runtime.spawn(vital("end of a transaction", late.go_on()));
    }
}
