//! What can go wrong in the engine, in the terms a SQL layer must tell apart.

use perigee_ndp::NdpError;
use perigee_page_api::PageError;
use perigee_sal::SalError;
use perigee_value::RowError;

use crate::refusal::Refusal;

/// Why the engine did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EngineError {
    /// No such schema.
    #[error("unknown schema '{0}'")]
    NoSuchSchema(String),
    /// The schema exists already.
    #[error("schema '{0}' exists")]
    SchemaExists(String),
    /// No such table.
    #[error("table '{0}' does not exist")]
    NoSuchTable(String),
    /// The table exists already.
    #[error("table '{0}' exists")]
    TableExists(String),
    /// AUTO_INCREMENT has handed out all numbers.
    #[error("no number is left")]
    NumbersExhausted,
    /// A definition the engine cannot keep; the text says what and why.
    #[error("bad definition: {0}")]
    BadDefinition(String),
    /// A row with this key exists.
    #[error("duplicate entry '{value}' for key '{index}'")]
    DuplicateKey {
        /// Name of the index, `PRIMARY` for the primary key.
        index: String,
        /// The key's columns as text, joined by `-`.
        value: String,
    },
    /// A constraint forbids it.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// A row does not fit a page.
    #[error("row of {bytes} bytes is too long, the limit is {limit}")]
    RowTooLong {
        /// Length of its record.
        bytes: usize,
        /// Greatest length.
        limit: usize,
    },
    /// A key does not fit.
    #[error("key of {bytes} bytes is too long, the limit is {limit}")]
    KeyTooLong {
        /// Its length.
        bytes: usize,
        /// Greatest length.
        limit: usize,
    },
    /// A row cannot be stored: a value does not fit its column.
    #[error("row {number}: {error}")]
    Row {
        /// Its number in the statement, from 0.
        number: u64,
        /// What is wrong.
        error: RowError,
    },
    /// An expression fails on a row of the result (overflow, range).
    #[error("{0}")]
    Evaluation(String),
    /// More transactions write at once than there are transaction slots.
    #[error("too many concurrent writing transactions, the limit is {0}")]
    TooManyTransactions(usize),
    /// Waiting for a lock would have closed a circle of waiting transactions.
    #[error("deadlock found when trying to get lock")]
    Deadlock,
    /// A lock was not to be had in time.
    #[error("lock wait timeout exceeded")]
    LockTimeout,
    /// A row is locked, and was not to be waited for.
    #[error("a row is locked by another transaction")]
    LockedNoWait,
    /// Somebody changed a row that the transaction's snapshot shows otherwise.
    #[error("record has changed since last read in table '{table}'")]
    RecordChanged {
        /// Name of the table.
        table: String,
    },
    /// A table's definition is another one than when the statement or its view began.
    #[error("definition of table '{0}' has changed")]
    TableChanged(String),
    /// The statement was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The log of a commit or of a change of definition is not durable in time. It takes place as
    /// soon as the log is, and does not take place only if this process ends before.
    #[error(
        "{what} is not durable yet and takes effect as soon as it is; only if this server ends \
         before is it undone: {why}"
    )]
    OutcomeOpen {
        /// The transaction, or the change.
        what: &'static str,
        /// What is waited for.
        why: String,
    },
    /// Storage cannot make log durable or serve pages.
    #[error("{0}")]
    Storage(#[from] SalError),
    /// A temporary file of a load cannot be written or read.
    #[error("temporary file: {text}")]
    TemporaryFile {
        /// What the system says.
        text: String,
        /// The disk is full.
        full: bool,
    },
    /// Stored bytes contradict their format; names the object.
    #[error("corruption: {0}")]
    Corrupt(String),
    /// The storage belongs to another version or is not a database.
    #[error("{0}")]
    Incompatible(String),
    /// The engine is shutting down.
    #[error("the engine is shutting down")]
    ShuttingDown,
}

impl EngineError {
    /// True if a page was asked for that has no content, because it was freed or never made.
    #[must_use]
    pub fn is_freed_page(&self) -> bool {
        matches!(self, Self::Storage(SalError::Page(PageError::NotFound(_))))
    }

    /// True if the same may succeed later: storage is away or has no room.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Storage(error) if error.is_transient())
    }
}

impl From<NdpError> for EngineError {
    fn from(error: NdpError) -> Self {
        match error {
            NdpError::Evaluation(e) => Self::Evaluation(e.to_string()),
            other => Self::Corrupt(other.to_string()),
        }
    }
}
