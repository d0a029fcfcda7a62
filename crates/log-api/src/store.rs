//! The [`LogStore`] trait and its messages.
//!
//! Offsets in a PLog count payload bytes: the first append is at 0, and an append ends where it
//! began plus the length of its payload, whatever a store adds around it on disk. So replicas of a
//! PLog agree on offsets, and a caller knows beforehand where its appends will end.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use perigee_types::{DbId, Lsn, PlogId};

use crate::LogError;

/// Size limit of a PLog in payload bytes (taurus-2020 section 3.3). An append that would end beyond
/// it is refused: the caller seals the PLog and goes on in the next one.
pub const PLOG_SIZE: u64 = 64 << 20;

/// Longest payload of one append, in bytes. It bounds the memory of a call on both sides; a database
/// log buffer of the usual 4 MiB may exceed its aim by one log group and stays well below.
pub const MAX_APPEND: usize = 16 << 20;

/// Names a PLog among all databases of a Log Store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlogKey {
    /// The database whose log it holds.
    pub db: DbId,
    /// The PLog within that database; later PLogs have greater ids.
    pub plog: PlogId,
}

impl fmt::Display for PlogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.db, self.plog)
    }
}

/// One append: a database log buffer, that is, whole log groups `first_lsn..=last_lsn`.
#[derive(Clone, Debug)]
pub struct Append {
    /// The open PLog to append to.
    pub plog: PlogKey,
    /// Writer epoch; an epoch below the greatest one seen for the database is refused.
    pub epoch: u64,
    /// Where the caller believes the PLog ends. Any other value is refused, except an exact repeat
    /// of the last append, which is acknowledged again (invariant L2).
    pub offset: u64,
    /// LSN of the first log group in `payload`; it follows the last LSN of the PLog without a gap
    /// (invariant L1), while the first append of a PLog may begin anywhere above 0.
    pub first_lsn: Lsn,
    /// LSN of the last log group in `payload`; not below `first_lsn`.
    pub last_lsn: Lsn,
    /// The log groups, opaque to the store; 1 to [`MAX_APPEND`] bytes.
    pub payload: Bytes,
}

/// One stored append, as it is read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Offset of the entry in its PLog.
    pub offset: u64,
    /// Offset of the entry after it: `offset` plus the length of `payload`.
    pub next_offset: u64,
    /// LSN of the first log group in `payload`.
    pub first_lsn: Lsn,
    /// LSN of the last log group in `payload`.
    pub last_lsn: Lsn,
    /// The log groups.
    pub payload: Bytes,
}

/// What a store knows of a PLog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlogInfo {
    /// Its name.
    pub plog: PlogKey,
    /// Epoch of the writer that made it.
    pub epoch: u64,
    /// Length in payload bytes; the offset of the next append.
    pub length: u64,
    /// True if no append will ever be accepted again.
    pub sealed: bool,
    /// LSN of the first group in it; `Lsn(0)` if it is empty.
    pub first_lsn: Lsn,
    /// LSN of the last group in it; `Lsn(0)` if it is empty.
    pub last_lsn: Lsn,
}

/// A Log Store. Implemented by the store itself (embedded mode) and by its gRPC client.
///
/// Every method is safe to cancel: an append that was dropped may or may not have happened, and may
/// even happen a moment later; [`LogStore::seal`] settles it, for nothing is appended after it.
///
/// Epochs: a method that takes one refuses an epoch below the greatest one seen for the database with
/// [`LogError::Fenced`] and remembers a greater one durably before it does anything else, so that a
/// writer that lost its place stays locked out across restarts (invariants L2 and S7).
///
/// Errors of every method: [`LogError::NotFound`] if the PLog does not exist; [`LogError::Refused`]
/// if the call contradicts the store's state; [`LogError::Corrupt`] if the PLog is damaged, naming
/// where; [`LogError::Disk`] and [`LogError::Unavailable`] if nothing can be said of the outcome
/// but that it was not acknowledged.
#[async_trait]
pub trait LogStore: Send + Sync + 'static {
    /// Begins an epoch for a new writer of the database: above every epoch that was seen and above
    /// the id of every PLog, durable when this returns. From then on all earlier writers are locked
    /// out, and no other caller gets the same epoch; one whose answer is lost is used by nobody.
    async fn begin_epoch(&self, db: DbId) -> Result<u64, LogError>;

    /// The current epoch of the database: as soon as it is above `epoch`, otherwise after `wait`. So
    /// a writer learns that it is locked out although it writes nothing.
    async fn await_epoch(&self, db: DbId, epoch: u64, wait: Duration) -> Result<u64, LogError>;

    /// Makes an empty open PLog; succeeds if it exists and is empty and open.
    async fn create_plog(&self, plog: PlogKey, epoch: u64) -> Result<(), LogError>;

    /// Appends and syncs; returns the new end of the PLog. When this returns, the bytes are on
    /// disk (invariant L3).
    async fn append(&self, append: Append) -> Result<u64, LogError>;

    /// Entries from `offset` on, at least one if there is one, and no more than about `max_bytes`
    /// of payload. An empty answer means `offset` is the end. An `offset` beyond the end, or not
    /// at the start of an entry, is refused.
    async fn read(
        &self,
        plog: PlogKey,
        offset: u64,
        max_bytes: u64,
    ) -> Result<Vec<LogEntry>, LogError>;

    /// Seals the PLog for ever and returns its length; repeating it returns the same length.
    async fn seal(&self, plog: PlogKey, epoch: u64) -> Result<u64, LogError>;

    /// All PLogs of a database in id order; none if the store does not know the database. If one of
    /// them is damaged the answer is [`LogError::Corrupt`]: a list that leaves it out would look
    /// like a complete log.
    async fn list(&self, db: DbId) -> Result<Vec<PlogInfo>, LogError>;

    /// Deletes a sealed PLog whose groups every Page Store has made persistent; an open one is
    /// refused.
    async fn delete(&self, plog: PlogKey, epoch: u64) -> Result<(), LogError>;

    /// False while the disk has less room than the store keeps in reserve: then only what frees
    /// space should be written.
    async fn has_room(&self) -> Result<bool, LogError> {
        Ok(true)
    }
}
