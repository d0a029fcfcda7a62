//! The traits this crate serves: a [`Frontend`] makes a [`Session`] for each connection, and the
//! session runs statements, handing results to a [`ResultSink`] and reading files of the client
//! from an [`InfileSource`]. Everything a session learns of its client is in [`ConnectionInfo`].
//!
//! Order of calls on a sink, checked by assertion (W2): for each result either `ok`, or `columns`,
//! `rows` any number of times, `finish`; at least one result if the statement succeeds. A session
//! may fail at any point; what it sent stays sent and the error follows it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;

use crate::cancel::CancelToken;
use crate::column::Column;
use crate::columns::Columns;
use crate::errors::{SqlError, UNKNOWN_COM_ERROR};
use crate::memory::Memory;
use crate::parameter::Parameter;
use crate::registry::{ConnectionHandle, ConnectionRegistry};
use crate::tls::TlsInfo;

/// Makes the sessions.
#[async_trait]
pub trait Frontend: Send + Sync + 'static {
    /// A session for a client that has logged in. An error (an unknown database, say) is sent to
    /// the client and ends the connection.
    async fn open_session(&self, info: ConnectionInfo) -> Result<Box<dyn Session>, SqlError>;

    /// The version a client sees, for example `8.0.43-perigee-0.1.0`. Drivers decide by its leading
    /// numbers what they may ask for.
    fn server_version(&self) -> &str;

    /// Memory for long commands, which all connections share; unlimited if there is none.
    fn memory(&self) -> Option<Arc<dyn Memory>> {
        None
    }
}

/// Who connected, and how it wants to be served.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// The connection's id: `CONNECTION_ID()`, and what KILL names.
    pub id: u32,
    /// The user that logged in.
    pub user: String,
    /// The account that it logged in to.
    pub account: AccountName,
    /// The client's address.
    pub peer: SocketAddr,
    /// How the connection is encrypted, if it is.
    pub tls: Option<TlsInfo>,
    /// The database the client asked for.
    pub database: Option<String>,
    /// What the client says of itself (`_client_name`, `program_name` and so on), in its order.
    pub attributes: Vec<(String, String)>,
    /// Id of the collation the client announced. Text is sent as utf8mb4 whatever it is.
    pub collation: u16,
    /// True if "affected rows" of an UPDATE is to count rows found instead of rows changed.
    pub found_rows: bool,
    /// True if the client sends files for LOAD DATA LOCAL.
    pub local_files: bool,
    /// True if a person types: `interactive_timeout` holds instead of `wait_timeout`.
    pub interactive: bool,
    /// This connection's entry in the registry: the session tells it the current database.
    pub connection: ConnectionHandle,
    /// All connections: KILL and SHOW PROCESSLIST.
    pub registry: ConnectionRegistry,
}

/// What OK and EOF packets say of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionStatus {
    /// Autocommit is on.
    pub autocommit: bool,
    /// A transaction is open.
    pub in_transaction: bool,
    /// A backslash in a string literal is an ordinary character (sql_mode NO_BACKSLASH_ESCAPES).
    pub no_backslash_escapes: bool,
}

impl Default for SessionStatus {
    /// The status of a new session: autocommit, no transaction.
    fn default() -> Self {
        Self {
            autocommit: true,
            in_transaction: false,
            no_backslash_escapes: false,
        }
    }
}

/// The state of one client. Calls come one at a time. Dropping a session ends it: whatever it has
/// not committed is undone. A session may be dropped while a call runs, if it does not heed its
/// [`CancelToken`] in time.
#[async_trait]
pub trait Session: Send {
    /// Runs the text of one COM_QUERY; results go to `out` one after another. If several statements
    /// are not allowed (see [`Session::allow_multi_statements`]) the text must be refused with
    /// error 1064 when a second statement follows. When `cancel` is cancelled the session stops,
    /// undoes the statement and answers error 1317.
    async fn query(
        &mut self,
        sql: &str,
        out: &mut dyn ResultSink,
        infile: &mut dyn InfileSource,
        cancel: &CancelToken,
    ) -> Result<(), SqlError>;

    /// Prepares the text of COM_STMT_PREPARE, which is one statement. Errors: those of its syntax
    /// and of the names in it, 1295 for a statement that cannot be prepared, 1461 if there are too
    /// many: the session bounds how many it keeps.
    async fn prepare(&mut self, sql: &str, cancel: &CancelToken) -> Result<Prepared, SqlError>;

    /// Runs a prepared statement with a value for each of its parameters; its results go to `out`
    /// as those of [`Session::query`] do.
    async fn execute(
        &mut self,
        statement: StatementId,
        parameters: &[Parameter<'_>],
        out: &mut dyn ResultSink,
        cancel: &CancelToken,
    ) -> Result<(), SqlError>;

    /// Forgets a prepared statement.
    fn close(&mut self, statement: StatementId);

    /// Makes `name` the current database, and tells the list of connections so.
    async fn use_database(&mut self, name: &str) -> Result<(), SqlError>;

    /// Rolls back and forgets all that was set and prepared since the session was opened, except
    /// its database.
    async fn reset(&mut self) -> Result<(), SqlError>;

    /// What responses report.
    fn status(&self) -> SessionStatus;

    /// Says whether the text of one COM_QUERY may hold several statements; called once when the
    /// connection opens and when the client changes it. Not to be ignored: it is what keeps an
    /// injected `; DROP TABLE` from running.
    fn allow_multi_statements(&mut self, allowed: bool);

    /// The columns of a table of the current database whose names match the LIKE pattern `wildcard`
    /// (empty: all). Only old clients ask, for completion of names.
    async fn field_list(&mut self, table: &str, wildcard: &str) -> Result<Vec<Column>, SqlError> {
        let _ = (table, wildcard);
        Err(UNKNOWN_COM_ERROR.with(&[]))
    }

    /// Whether the session may end the connection with this id: error 1095 if not.
    fn check_kill(&mut self, id: u32) -> Result<(), SqlError> {
        let _ = id;
        Ok(())
    }

    /// How long the client may stay silent, if the session's variables say so; otherwise the
    /// server's configuration does.
    fn idle_timeout(&self) -> Option<Duration> {
        None
    }
}

/// The number by which session and client know a prepared statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatementId(pub u32);

/// A statement that was prepared.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Its number, which no other prepared statement of the session has.
    pub statement: StatementId,
    /// How many parameters it has.
    pub parameters: u16,
    /// The columns of its result; empty if it has none, or if they are known only when it runs.
    pub columns: Columns,
    /// Warnings that SHOW WARNINGS would list.
    pub warnings: u16,
}

/// A statement without rows is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OkInfo {
    /// Rows inserted, changed or deleted.
    pub affected_rows: u64,
    /// First number that AUTO_INCREMENT gave out; 0 for none.
    pub last_insert_id: u64,
    /// Warnings that SHOW WARNINGS would list.
    pub warnings: u16,
    /// A line for people, for example `Records: 3  Duplicates: 0  Warnings: 0`; may be empty.
    pub info: String,
}

/// Where the results of a query go. Each call returns when the result is encoded and the send
/// buffer has room again, so that a slow client slows the query down instead of filling memory.
/// An error means that the client cannot be reached or the statement was cancelled; the session
/// gives up and returns it.
#[async_trait]
pub trait ResultSink: Send {
    /// Begins a result set.
    async fn columns(&mut self, columns: &[Column]) -> Result<(), SqlError>;

    /// Begins a result set whose columns are those of other results, too: they are not encoded
    /// again.
    async fn shared_columns(&mut self, columns: &Columns) -> Result<(), SqlError> {
        self.columns(columns).await
    }

    /// Sends rows; one array for each column, of a type that suits it. Errors: 1235 for an Arrow
    /// type that cannot be shown as the column's type, 1690 and 1525 for a value that the column's
    /// type does not have.
    async fn rows(&mut self, batch: &RecordBatch) -> Result<(), SqlError>;

    /// Ends the result set.
    async fn finish(&mut self, warnings: u16) -> Result<(), SqlError>;

    /// Sends a result without rows.
    async fn ok(&mut self, ok: OkInfo) -> Result<(), SqlError>;

    /// Says what the status is from here on. Needed only between the results of one query: before
    /// the first and after the last, [`Session::status`] is asked.
    fn set_status(&mut self, status: SessionStatus);
}

/// A file that the client sends for LOAD DATA LOCAL.
#[async_trait]
pub trait InfileSource: Send {
    /// Asks the client for the file. Errors: 3948 if the client does not send files.
    ///
    /// # Panics
    /// If a file was asked for and not yet read to its end (W3).
    async fn open(&mut self, file_name: &str) -> Result<(), SqlError>;

    /// The next bytes of the file, at most 64 KiB; `None` at its end. An error means that the
    /// client went away or is silent. What a session leaves unread is read and dropped for it.
    ///
    /// # Panics
    /// If no file was asked for (W3).
    async fn read(&mut self) -> Result<Option<Bytes>, SqlError>;
}

/// Decides who may log in.
#[async_trait]
pub trait Authenticator: Send + Sync + 'static {
    /// The account of `user` coming from `peer`; `None` if there is none.
    async fn account(&self, user: &str, peer: SocketAddr) -> Result<Option<Account>, SqlError>;

    /// True if a password, which an encrypted connection brought, is that of an account [`Account::with_slow_hash`].
    async fn check_password(
        &self,
        _account: &AccountName,
        _password: &[u8],
    ) -> Result<bool, SqlError> {
        Ok(false)
    }
}

/// An account that a client may log in to, and how it proves that it may. Passwords themselves are not kept.
#[derive(Clone, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: AccountName,
    /// Nobody may log in to it: error 3118.
    pub locked: bool,
    /// Only clients may that know that its password has to be changed first: error 1862.
    pub expired: bool,
    /// `None` for an account without a password.
    pub(crate) verifiers: Option<Verifiers>,
}

/// A user and the host that it may come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountName {
    /// User.
    pub user: String,
    /// Host, perhaps a pattern.
    pub host: String,
}

/// What is kept of a password: enough to check a scramble, not enough to make one. At least one of both.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Verifiers {
    /// SHA1(SHA1(password)), for `mysql_native_password`.
    pub(crate) native: Option<[u8; 20]>,
    /// SHA256(SHA256(password)), for `caching_sha2_password`.
    pub(crate) sha2: Option<[u8; 32]>,
    /// For `caching_sha2_password`, too: only the password itself can be checked.
    pub(crate) slow: bool,
}

/// Accounts that are written down when the server starts. [`StaticAccounts::default`] knows only
/// `root` without a password, which is right for a server that listens on loopback.
#[derive(Clone)]
pub struct StaticAccounts {
    accounts: Arc<Vec<(String, Account)>>,
}

impl StaticAccounts {
    /// These accounts and no others.
    #[must_use]
    pub fn new(accounts: impl IntoIterator<Item = (String, Account)>) -> Self {
        Self {
            accounts: Arc::new(accounts.into_iter().collect()),
        }
    }
}

impl Default for StaticAccounts {
    fn default() -> Self {
        Self::new([("root".to_owned(), Account::without_password())])
    }
}

#[async_trait]
impl Authenticator for StaticAccounts {
    async fn account(&self, user: &str, _peer: SocketAddr) -> Result<Option<Account>, SqlError> {
        let found = self.accounts.iter().find(|(name, _)| name == user);
        Ok(found.map(|(name, account)| account.clone().named(name, "%")))
    }
}
