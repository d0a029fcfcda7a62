//! Fail-stop: what a store does after a sync failed or a thread of its own died.
//!
//! After a failed `fsync` nobody knows what is on disk, and a second one may lie; so the store
//! refuses everything from then on and is started anew, which reads what really is there.

use std::io;
use std::path::Path;
use std::sync::OnceLock;

use perigee_page_api::PageError;
use perigee_reserve::Failure;

/// Whether the store has stopped, and why.
#[derive(Debug, Default)]
pub(crate) struct FailStop {
    reason: OnceLock<String>,
}

impl FailStop {
    /// An error if the store has stopped.
    pub(crate) fn check(&self) -> Result<(), PageError> {
        match self.reason.get() {
            None => Ok(()),
            Some(reason) => Err(PageError::Disk(format!("the store has stopped: {reason}"))),
        }
    }

    /// Stops the store; the first reason stays.
    pub(crate) fn stop(&self, reason: String) {
        tracing::error!("page store stops: {reason}");
        // A second reason adds nothing.
        drop(self.reason.set(reason));
    }

    /// Stops the store because a sync failed, and returns the error to answer with.
    pub(crate) fn sync_failed(&self, path: &Path, error: &io::Error) -> PageError {
        let reason = format!("sync of {} failed: {error}", path.display());
        self.stop(reason.clone());
        PageError::Disk(reason)
    }
}

/// The error for a failed operation on a file.
pub(crate) fn disk(what: &str, path: &Path, error: &io::Error) -> PageError {
    let text = format!("{what} {}: {error}", path.display());
    match Failure::from(error) {
        Failure::Full => PageError::Full(text),
        Failure::Files => PageError::Unavailable(text),
        Failure::Disk => PageError::Disk(text),
    }
}
