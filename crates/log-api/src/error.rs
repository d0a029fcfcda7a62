//! The few kinds of error a caller of a Log Store must tell apart.

use perigee_types::DecodeError;

/// Why a Log Store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The store could not be reached in time or is shutting down; trying again may help.
    #[error("log store unavailable: {0}")]
    Unavailable(String),
    /// The request contradicts the state of the store (wrong offset, sealed PLog). The
    /// caller must look again before it goes on.
    #[error("log store refused: {0}")]
    Refused(String),
    /// The writer's epoch is over: another one has taken its place, for good.
    #[error("another writer has taken over: {0}")]
    Fenced(String),
    /// No such PLog.
    #[error("log store has no {0}")]
    NotFound(String),
    /// Bytes on disk or on the wire fail their checksum or have the wrong form; names the object.
    #[error("log store found corruption: {0}")]
    Corrupt(String),
    /// The disk is full. The write was not carried out; it may succeed once there is room.
    #[error("log store disk is full: {0}")]
    Full(String),
    /// The disk failed. The write was not acknowledged.
    #[error("log store disk error: {0}")]
    Disk(String),
}

impl LogError {
    /// True if the same write may succeed later: the store is away, or its disk is full or failed. A
    /// store that a failed disk has stopped reads what is really there when it is started again.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Full(_) | Self::Disk(_))
    }
}

impl From<DecodeError> for LogError {
    fn from(e: DecodeError) -> Self {
        Self::Corrupt(e.to_string())
    }
}
