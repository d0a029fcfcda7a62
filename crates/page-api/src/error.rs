//! The few kinds of error a caller of a Page Store must tell apart.

/// Why a Page Store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The store could not be reached in time or is shutting down; trying again may help.
    #[error("page store unavailable: {0}")]
    Unavailable(String),
    /// This replica has not received all log up to the asked LSN; another one may have.
    #[error("page store is behind: {0}")]
    Behind(String),
    /// The asked version is older than the recycle LSN and gone.
    #[error("page version recycled: {0}")]
    Recycled(String),
    /// The writer's epoch is over: another one has taken its place, for good.
    #[error("another writer has taken over: {0}")]
    Fenced(String),
    /// No such slice or page.
    #[error("page store has no {0}")]
    NotFound(String),
    /// The request contradicts the state of the store (a hole in the log, wrong tenant or slice).
    #[error("page store refused: {0}")]
    Refused(String),
    /// Bytes on disk or on the wire fail their checksum or have the wrong form; names the object.
    #[error("page store found corruption: {0}")]
    Corrupt(String),
    /// The disk is full. The write was not carried out; it may succeed once there is room.
    #[error("page store disk is full: {0}")]
    Full(String),
    /// The disk failed. The write was not acknowledged.
    #[error("page store disk error: {0}")]
    Disk(String),
}

impl PageError {
    /// True if the same write may succeed later: the store is away, or its disk is full or failed. A
    /// store that a failed disk has stopped reads what is really there when it is started again.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Full(_) | Self::Disk(_))
    }
}
