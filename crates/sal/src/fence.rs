//! Learning that another frontend has taken over the database (invariant S7).
//!
//! A frontend that opens the database begins an epoch at the Log Store before it does anything else, so
//! nothing that the older one writes is acknowledged from then on. The older one learns it
//! - from the Log Store, where a call waits for the next epoch: it is answered when that begins, and
//!   this is how a frontend learns it that serves everything from its memory;
//! - from any store that refuses a call: reads carry the epoch too, and the new frontend has told it to
//!   every slice before it serves anybody.
//!
//! What it learned stops the layer: [`Sal::check`](crate::Sal::check) fails, for ever. A frontend that
//! cannot reach the Log Store meanwhile does not learn it there, and goes on with what it has in memory
//! until it asks a Page Store for a page.
//!
//! A process that stood still (SIGSTOP, a machine without time for it) may have been taken over meanwhile, and the answer that
//! says so may be read later than a client's statement. So [`Pulse`] notes that the process runs, and the first
//! statements after a gap ask the Log Store themselves ([`Sal::confirm`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use perigee_log_api::LogError;
use tokio::time::{Instant, sleep, sleep_until};

use crate::SalError;
use crate::retry::once;
use crate::sal::{Sal, Shared};

/// How long a call waits for the next epoch. Short, because a Log Store that ends waits for its calls.
const WAIT: Duration = Duration::from_secs(1);

/// Pause after a call that failed or was answered early.
const PAUSE: Duration = Duration::from_millis(200);

/// How often the pulse beats.
const BEAT: Duration = Duration::from_millis(50);

/// The process may have stood still if the pulse did not beat for so long.
const GAP: Duration = Duration::from_millis(150);

/// How long the opening of a database takes at the least from the beginning of its epoch on, where another process may be
/// taken over: longer than [`GAP`], so that whoever stood still during all of it knows that.
pub const TAKE_OVER: Duration = Duration::from_millis(200);

/// How long a statement waits for the Log Store to confirm the epoch. Without an answer reads are served: the store is away.
const CONFIRMATION: Duration = Duration::from_secs(1);

/// When the process was last seen running.
#[derive(Debug)]
pub(crate) struct Pulse {
    begun: Instant,
    /// Milliseconds after that.
    last: AtomicU64,
}

impl Default for Pulse {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            last: AtomicU64::new(0),
        }
    }
}

impl Pulse {
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn beat(&self) {
        self.last.store(self.now(), Ordering::Release);
    }

    fn is_regular(&self) -> bool {
        let gap = self.now().saturating_sub(self.last.load(Ordering::Acquire));
        u128::from(gap) < GAP.as_millis()
    }
}

/// Waits for the end of this writer's epoch.
pub(crate) async fn run(shared: Arc<Shared>) {
    tokio::select! {
        () = beat(&shared) => {}
        () = wait(&shared) => {}
    }
}

/// Beats as long as the Log Store confirms the epoch after each gap, or cannot be asked.
async fn beat(shared: &Shared) {
    while shared.confirm().await.is_ok() {
        shared.pulse.beat();
        sleep(BEAT).await;
    }
}

async fn wait(shared: &Shared) {
    let (db, epoch) = (shared.config.db, shared.epoch);
    loop {
        let due = Instant::now() + WAIT / 2;
        let ask = shared.log.await_epoch(db, epoch, WAIT);
        match once("epoch", WAIT + shared.config.call_timeout, ask).await {
            Ok(current) if current > epoch => return shared.epoch_is_over(current),
            Ok(_) => sleep_until(due).await,
            Err(error) => {
                tracing::debug!("epoch of {db}: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

impl Sal {
    /// Fails if another frontend has taken over the database. Asks the Log Store only if the process may have stood still.
    ///
    /// # Errors
    /// What stopped the layer.
    pub async fn confirm(&self) -> Result<(), SalError> {
        self.shared.confirm().await
    }
}

impl Shared {
    async fn confirm(&self) -> Result<(), SalError> {
        if !self.pulse.is_regular() {
            let ask = self
                .log
                .await_epoch(self.config.db, self.epoch, Duration::ZERO);
            match once("epoch", CONFIRMATION, ask).await {
                Ok(current) if current > self.epoch => self.epoch_is_over(current),
                Ok(_) => {}
                Err(error) => tracing::debug!("epoch of {}: {error}", self.config.db),
            }
        }
        self.check()
    }

    fn epoch_is_over(&self, current: u64) {
        let text = format!(
            "epoch {} of {} is over, {current} has begun",
            self.epoch, self.config.db
        );
        self.fail(LogError::Fenced(text).into());
    }

    /// An error of a store, as callers see it. One that says that this writer was locked out stops
    /// the layer.
    pub fn seen(&self, error: impl Into<SalError>) -> SalError {
        let error = error.into();
        if error.is_fenced() {
            self.fail(error.clone());
        }
        error
    }
}
