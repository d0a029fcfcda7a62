//! What can go wrong between a frontend and its storage.

use std::sync::Arc;

use perigee_log_api::LogError;
use perigee_page_api::PageError;

/// Why the storage layer did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SalError {
    /// A Log Store failed.
    #[error("{0}")]
    Log(#[from] LogError),
    /// A Page Store failed.
    #[error("{0}")]
    Page(#[from] PageError),
    /// Log Store and Page Stores contradict each other, or the log is damaged; names the object.
    #[error("{0}")]
    Inconsistent(String),
    /// The storage was made with other settings, by another version, or is not a database.
    #[error("{0}")]
    Incompatible(String),
    /// An earlier failure stopped the layer; the frontend has to start again.
    #[error("storage is stopped: {0}")]
    Stopped(Arc<SalError>),
    /// The layer was shut down.
    #[error("storage is shut down")]
    ShutDown,
}

impl SalError {
    /// True if another writer has taken this one's place: it can do nothing any more, for ever.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        match self {
            Self::Log(LogError::Fenced(_)) | Self::Page(PageError::Fenced(_)) => true,
            Self::Stopped(why) => why.is_fenced(),
            _ => false,
        }
    }

    /// True if the same call may succeed later: a store is away, or its disk is full or failed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Log(error) => error.is_outage(),
            Self::Page(error) => error.is_outage(),
            _ => false,
        }
    }

    /// True if a store has no room.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Stopped(why) => why.is_disk_full(),
            Self::Log(LogError::Full(_)) | Self::Page(PageError::Full(_)) => true,
            _ => false,
        }
    }
}
