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

use std::sync::Arc;
use std::time::Duration;

use perigee_log_api::LogError;
use tokio::time::{Instant, sleep, sleep_until};

use crate::SalError;
use crate::retry::once;
use crate::sal::Shared;

/// How long a call waits for the next epoch. Short, because a Log Store that ends waits for its calls.
const WAIT: Duration = Duration::from_secs(1);

/// Pause after a call that failed or was answered early.
const PAUSE: Duration = Duration::from_millis(200);

/// Waits for the end of this writer's epoch.
pub(crate) async fn run(shared: Arc<Shared>) {
    let (db, epoch) = (shared.config.db, shared.epoch);
    loop {
        let due = Instant::now() + WAIT / 2;
        let ask = shared.log.await_epoch(db, epoch, WAIT);
        match once("epoch", WAIT + shared.config.call_timeout, ask).await {
            Ok(current) if current > epoch => {
                let text = format!("epoch {epoch} of {db} is over, {current} has begun");
                return shared.fail(LogError::Fenced(text).into());
            }
            Ok(_) => sleep_until(due).await,
            Err(error) => {
                tracing::debug!("epoch of {db}: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

impl Shared {
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
