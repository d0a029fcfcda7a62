//! A connection that runs transactions: statements as text or prepared, and what an error means for the
//! transaction.

use std::net::SocketAddr;
use std::path::PathBuf;

use perigee_history::{Level, Op, Outcome};

use super::{SCHEMA, Shared};
use perigee_workload::{Client, Rows, WorkloadError};

/// Seconds that a statement waits for a lock.
const LOCK_WAIT: u32 = 5;

/// Errors that end a transaction and that a level explains: duplicate key (of two that append a row at
/// one place), lock wait timeout, deadlock, a record changed since the snapshot, a lock not waited for.
const EXPECTED: [u16; 5] = [1062, 1205, 1213, 1020, 3572];

/// Where the server is.
#[derive(Clone, Debug)]
pub enum Target {
    /// At an address.
    Address(SocketAddr),
    /// At a Unix socket.
    Socket(PathBuf),
}

impl Target {
    /// A new connection.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn client(&self, schema: Option<&str>) -> Result<Client, WorkloadError> {
        match self {
            Self::Address(address) => Client::connect(*address, schema).await,
            Self::Socket(socket) => Client::connect_socket(socket, schema).await,
        }
    }
}

/// A level in SQL's words.
pub(super) fn name(level: Level) -> &'static str {
    match level {
        Level::ReadCommitted => "READ COMMITTED",
        Level::SnapshotIsolation => "REPEATABLE READ",
        Level::Serializable => "SERIALIZABLE",
    }
}

/// What a transaction did so far.
#[derive(Default)]
pub(super) struct Attempt {
    pub ops: Vec<Op>,
    /// The error that ended it.
    pub error: Option<u16>,
    /// Answers that are wrong whatever others do.
    pub wrong: Vec<String>,
}

/// What a step of a transaction gives, or why there is no further step.
pub(super) type Step<T> = Result<T, Stop>;

/// Why a transaction does not go on.
pub(super) enum Stop {
    /// The server refused a statement in a way that its level explains.
    Refused(u16),
    /// The transaction is not wanted any more.
    RollBack,
    /// Anything else.
    Failed(WorkloadError),
}

impl From<WorkloadError> for Stop {
    fn from(error: WorkloadError) -> Self {
        match error.code() {
            Some(code) if EXPECTED.contains(&code) => Self::Refused(code),
            _ => Self::Failed(error),
        }
    }
}

/// A connection in a level of isolation.
pub(super) struct Connection {
    client: Client,
    prepared: bool,
}

impl Connection {
    pub async fn open(shared: &Shared, prepared: bool) -> Result<Self, WorkloadError> {
        let mut client = shared.target.client(Some(SCHEMA)).await?;
        let level = name(shared.workload.level);
        let isolates = u8::from(shared.workload.snapshot_isolation);
        for sql in [
            format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"),
            format!("SET SESSION innodb_snapshot_isolation = {isolates}"),
            format!("SET SESSION innodb_lock_wait_timeout = {LOCK_WAIT}"),
        ] {
            client.execute(&sql).await?;
        }
        Ok(Self { client, prepared })
    }

    pub async fn close(self) -> Result<(), WorkloadError> {
        self.client.close().await
    }

    /// Runs a statement with numbers for its question marks; returns rows.
    pub async fn query(&mut self, sql: &str, numbers: &[i64]) -> Result<Rows, WorkloadError> {
        match self.prepared {
            true => self.client.prepared(sql, numbers).await.map(|done| done.0),
            false => self.client.query(&filled(sql, numbers)).await,
        }
        .map_err(|e| about(sql, e))
    }

    /// Runs a statement with numbers for its question marks; returns the number of affected rows.
    pub async fn execute(&mut self, sql: &str, numbers: &[i64]) -> Result<u64, WorkloadError> {
        match self.prepared && !numbers.is_empty() {
            true => self.client.prepared(sql, numbers).await.map(|done| done.1),
            false => self.client.execute(&filled(sql, numbers)).await,
        }
        .map_err(|e| about(sql, e))
    }

    /// Ends a transaction whose steps gave this: commits it, or rolls it back.
    pub async fn end(
        &mut self,
        steps: Step<()>,
        attempt: &mut Attempt,
    ) -> Result<Outcome, WorkloadError> {
        match steps {
            Ok(()) => match self.execute("COMMIT", &[]).await {
                Ok(_) => Ok(Outcome::Committed),
                Err(error) => {
                    attempt.error = Some(error.code().ok_or(error)?);
                    self.execute("ROLLBACK", &[]).await?;
                    Ok(Outcome::Unknown)
                }
            },
            Err(Stop::Failed(error)) => Err(error),
            Err(stop) => {
                if let Stop::Refused(code) = stop {
                    attempt.error = Some(code);
                }
                self.execute("ROLLBACK", &[]).await?;
                Ok(Outcome::Aborted)
            }
        }
    }
}

/// An error that no level explains, with its statement.
fn about(sql: &str, error: WorkloadError) -> WorkloadError {
    match error.code() {
        Some(code) if EXPECTED.contains(&code) => error,
        _ => WorkloadError::Unexpected(format!("{sql}: {error}")),
    }
}

/// A statement with numbers in the places of its question marks.
fn filled(sql: &str, numbers: &[i64]) -> String {
    let mut parts = sql.split('?');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for (part, number) in parts.zip(numbers) {
        out.push_str(&number.to_string());
        out.push_str(part);
    }
    out
}
