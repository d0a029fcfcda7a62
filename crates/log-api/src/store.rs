//! The [`LogStore`] trait and its messages.

use async_trait::async_trait;
use bytes::Bytes;
use perigee_types::{DbId, Lsn, PlogId};

use crate::LogError;

/// Size limit of a PLog in bytes (taurus-2020 section 3.3).
pub const PLOG_SIZE: u64 = 64 << 20;

/// Names a PLog among all databases of a Log Store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlogKey {
    /// The database whose log it holds.
    pub db: DbId,
    /// The PLog within that database; later PLogs have greater ids.
    pub plog: PlogId,
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
    /// LSN of the first log group in `payload`.
    pub first_lsn: Lsn,
    /// LSN of the last log group in `payload`.
    pub last_lsn: Lsn,
    /// The log groups, opaque to the store.
    pub payload: Bytes,
}

/// One stored append, as it is read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Offset of the entry in its PLog.
    pub offset: u64,
    /// Offset of the entry after it.
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
    /// Length in bytes; the offset of the next append.
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
/// Every method is safe to cancel: an append that was dropped may or may not have happened, and
/// [`LogStore::list`] tells.
#[async_trait]
pub trait LogStore: Send + Sync + 'static {
    /// Makes an empty open PLog; succeeds if it exists and is empty and open.
    async fn create_plog(&self, plog: PlogKey, epoch: u64) -> Result<(), LogError>;

    /// Appends and syncs; returns the new end of the PLog. When this returns, the bytes are on
    /// disk (invariant L3).
    async fn append(&self, append: Append) -> Result<u64, LogError>;

    /// Entries from `offset` on, at least one if there is one, and no more than about `max_bytes`
    /// of payload. An empty answer means `offset` is the end.
    async fn read(
        &self,
        plog: PlogKey,
        offset: u64,
        max_bytes: u64,
    ) -> Result<Vec<LogEntry>, LogError>;

    /// Seals the PLog for ever and returns its length; repeating it returns the same length.
    async fn seal(&self, plog: PlogKey, epoch: u64) -> Result<u64, LogError>;

    /// All PLogs of a database in id order.
    async fn list(&self, db: DbId) -> Result<Vec<PlogInfo>, LogError>;

    /// Deletes a sealed PLog whose groups every Page Store has made persistent.
    async fn delete(&self, plog: PlogKey, epoch: u64) -> Result<(), LogError>;
}
