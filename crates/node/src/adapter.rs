//! Between the wire protocol and SQL, which know nothing of each other: errors, columns, results
//! and files of one in terms of the other.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use perigee_accounts::AccountName;
use perigee_engine::Engine;
use perigee_engine::scan::CancelToken as EngineCancel;
use perigee_query as query;
use perigee_query::{
    Connections, FrontendConfig, OkResult, Parameters, Process, ResultColumn, SessionInfo,
    StatusSource,
};
use perigee_value::{Collation, ColumnType, MembersKind};
use perigee_wire_mysql as wire;
use perigee_wire_mysql::{
    CancelToken, Column, ColumnFlags, Columns, ConnectionInfo, ConnectionRegistry, OkInfo,
    SessionStatus, SqlType, StatementId,
};

use crate::NodeError;
use crate::parameters::parameter;

/// Makes a SQL session for each connection.
pub(crate) struct WireFrontend {
    frontend: Arc<query::Frontend>,
}

impl WireFrontend {
    pub(crate) fn new(
        engine: Arc<Engine>,
        config: FrontendConfig,
        status: Arc<dyn StatusSource>,
    ) -> Result<Self, NodeError> {
        let frontend =
            query::Frontend::new(engine, config, status).map_err(NodeError::component)?;
        Ok(Self {
            frontend: Arc::new(frontend),
        })
    }

    /// What the sessions share.
    pub(crate) fn shared(&self) -> &Arc<query::Frontend> {
        &self.frontend
    }
}

#[async_trait]
impl wire::Frontend for WireFrontend {
    async fn open_session(
        &self,
        info: ConnectionInfo,
    ) -> Result<Box<dyn wire::Session>, wire::SqlError> {
        let session_info = SessionInfo {
            connection_id: u64::from(info.id),
            user: info.user.clone(),
            host: info.peer.ip().to_string(),
            account: AccountName::new(info.account.user.clone(), &info.account.host),
            encryption: info.tls.clone().map(|tls| query::Encryption {
                version: tls.version,
                cipher: tls.cipher,
            }),
            found_rows: info.found_rows,
            connections: Arc::new(Registry(info.registry.clone())),
        };
        let session = query::Session::new(self.frontend.clone(), session_info);
        let mut session = WireSession {
            session,
            info,
            multi: false,
            described: HashMap::new(),
            parameters: Parameters::default(),
        };
        if let Some(schema) = session.info.database.clone() {
            wire::Session::use_database(&mut session, &schema).await?;
        }
        Ok(Box::new(session))
    }

    fn server_version(&self) -> &str {
        query::SERVER_VERSION
    }

    fn memory(&self) -> Option<Arc<dyn wire::Memory>> {
        Some(Arc::new(Shared(self.frontend.memory().clone())))
    }
}

/// The memory that all connections share.
struct Shared(Arc<query::ProcessMemory>);

impl wire::Memory for Shared {
    fn try_take(&self, bytes: usize) -> bool {
        self.0.try_take(bytes)
    }

    fn give_back(&self, bytes: usize) {
        self.0.give_back(bytes);
    }
}

/// The connections of the server, for KILL and SHOW PROCESSLIST.
struct Registry(ConnectionRegistry);

impl Connections for Registry {
    fn kill(&self, id: u64, query_only: bool) -> bool {
        let Ok(id) = u32::try_from(id) else {
            return false;
        };
        let killed = if query_only {
            self.0.kill_query(id)
        } else {
            self.0.kill_connection(id)
        };
        killed.is_ok()
    }

    fn list(&self) -> Vec<Process> {
        let process = |info: wire::ProcessInfo| Process {
            id: u64::from(info.id),
            user: info.user.unwrap_or_default(),
            host: info.peer.to_string(),
            schema: info.database,
            command: info.command.to_owned(),
            seconds: info.elapsed.as_secs(),
            statement: info.statement.map(query::masked),
        };
        self.0.list().into_iter().map(process).collect()
    }
}

/// One connection.
struct WireSession {
    session: query::Session,
    info: ConnectionInfo,
    multi: bool,
    /// The columns of the results of prepared statements.
    described: HashMap<StatementId, Described>,
    /// Those of the execution at hand; kept for their memory.
    parameters: Parameters,
}

/// Columns in terms of both sides.
struct Described {
    columns: Arc<[ResultColumn]>,
    wire: Columns,
}

impl Described {
    fn new(columns: &Arc<[ResultColumn]>) -> Self {
        Self {
            columns: columns.clone(),
            wire: Columns::new(columns.iter().map(column).collect()),
        }
    }
}

/// Runs a statement, and tells what it waits for when its client wants it to stop. A
/// cancelled statement is awaited all the same, so that it is undone.
async fn stopped_by<T>(
    cancel: &CancelToken,
    stop: &EngineCancel,
    run: impl Future<Output = query::Result<T>>,
) -> Result<T, wire::SqlError> {
    tokio::pin!(run);
    let result = tokio::select! {
        // Most statements end at once, and nobody has to wait for anything.
        biased;
        result = &mut run => result,
        _ = cancel.cancelled() => {
            stop.cancel();
            run.await
        }
    };
    result.map_err(to_wire)
}

impl WireSession {
    /// Tells the list of connections which database is the current one.
    fn show_database(&mut self) {
        let database = self.session.schema();
        if database != self.info.database.as_deref() {
            self.info.database = database.map(str::to_owned);
            self.info
                .connection
                .set_database(self.info.database.clone());
        }
    }
}

#[async_trait]
impl wire::Session for WireSession {
    async fn query(
        &mut self,
        sql: &str,
        out: &mut dyn wire::ResultSink,
        infile: &mut dyn wire::InfileSource,
        cancel: &CancelToken,
    ) -> Result<(), wire::SqlError> {
        let stop = EngineCancel::of(cancel.flag());
        let mut sink = Sink {
            out,
            described: None,
        };
        let mut file = Infile {
            source: infile,
            at_end: false,
        };
        let run = self
            .session
            .execute(sql, self.multi, &mut sink, &mut file, &stop);
        let result = stopped_by(cancel, &stop, run).await;
        self.show_database();
        result
    }

    async fn prepare(
        &mut self,
        sql: &str,
        cancel: &CancelToken,
    ) -> Result<wire::Prepared, wire::SqlError> {
        let stop = EngineCancel::of(cancel.flag());
        let prepared = stopped_by(cancel, &stop, self.session.prepare(sql, &stop)).await?;
        let statement = StatementId(prepared.id);
        let described = Described::new(&prepared.columns);
        let columns = described.wire.clone();
        self.described.insert(statement, described);
        Ok(wire::Prepared {
            statement,
            parameters: prepared.parameters,
            columns,
            warnings: self.session.warning_count(),
        })
    }

    async fn execute(
        &mut self,
        statement: StatementId,
        parameters: &[wire::Parameter<'_>],
        out: &mut dyn wire::ResultSink,
        cancel: &CancelToken,
    ) -> Result<(), wire::SqlError> {
        self.parameters.clear();
        for value in parameters {
            self.parameters.push(parameter(value).map_err(to_wire)?);
        }
        let stop = EngineCancel::of(cancel.flag());
        let mut sink = Sink {
            out,
            described: self.described.get_mut(&statement),
        };
        let run = self
            .session
            .execute_prepared(statement.0, &self.parameters, &mut sink, &stop);
        let result = stopped_by(cancel, &stop, run).await;
        self.parameters.clear();
        self.show_database();
        result
    }

    fn close(&mut self, statement: StatementId) {
        self.described.remove(&statement);
        self.session.close_prepared(statement.0);
    }

    async fn use_database(&mut self, name: &str) -> Result<(), wire::SqlError> {
        self.session.use_schema(name).map_err(to_wire)?;
        self.show_database();
        Ok(())
    }

    async fn reset(&mut self) -> Result<(), wire::SqlError> {
        self.described.clear();
        self.session.reset().await.map_err(to_wire)
    }

    fn status(&self) -> SessionStatus {
        SessionStatus {
            autocommit: self.session.autocommit(),
            in_transaction: self.session.in_transaction(),
            no_backslash_escapes: !self.session.has_backslash_escapes(),
        }
    }

    fn allow_multi_statements(&mut self, allowed: bool) {
        self.multi = allowed;
    }

    async fn field_list(
        &mut self,
        table: &str,
        wildcard: &str,
    ) -> Result<Vec<Column>, wire::SqlError> {
        let columns = self.session.field_list(table, wildcard).map_err(to_wire)?;
        Ok(columns.iter().map(column).collect())
    }

    fn check_kill(&mut self, id: u32) -> Result<(), wire::SqlError> {
        self.session.check_kill(u64::from(id)).map_err(to_wire)
    }

    fn idle_timeout(&self) -> Option<Duration> {
        Some(Duration::from_secs(
            self.session.wait_timeout(self.info.interactive),
        ))
    }
}

pub(crate) fn to_wire(error: query::SqlError) -> wire::SqlError {
    wire::SqlError::new(error.errno, error.sqlstate.bytes(), error.message)
}

/// An error of the connection on its way through a statement that gives up.
fn from_wire(error: wire::SqlError) -> query::SqlError {
    let (_, sqlstate, _) = query::REGISTRY
        .iter()
        .find(|(errno, ..)| *errno == error.errno)
        .copied()
        .unwrap_or((error.errno, "08S01", ""));
    query::SqlError {
        errno: error.errno,
        sqlstate: query::SqlState::new(sqlstate).unwrap_or(query::SqlState::UNKNOWN),
        message: error.message,
    }
}

/// Results on their way to the client.
struct Sink<'a> {
    out: &'a mut dyn wire::ResultSink,
    /// The columns of the prepared statement that runs.
    described: Option<&'a mut Described>,
}

#[async_trait]
impl query::ResultSink for Sink<'_> {
    async fn columns(&mut self, columns: &[ResultColumn]) -> query::Result<()> {
        let columns: Vec<_> = columns.iter().map(column).collect();
        self.out.columns(&columns).await.map_err(from_wire)
    }

    async fn shared_columns(&mut self, columns: &Arc<[ResultColumn]>) -> query::Result<()> {
        let Some(described) = self.described.as_deref_mut() else {
            return self.columns(columns).await;
        };
        if !Arc::ptr_eq(&described.columns, columns) {
            *described = Described::new(columns);
        }
        let sent = self.out.shared_columns(&described.wire).await;
        sent.map_err(from_wire)
    }

    async fn rows(&mut self, batch: &RecordBatch) -> query::Result<()> {
        self.out.rows(batch).await.map_err(from_wire)
    }

    async fn finish(&mut self, warnings: u16) -> query::Result<()> {
        self.out.finish(warnings).await.map_err(from_wire)
    }

    async fn ok(&mut self, ok: OkResult) -> query::Result<()> {
        let OkResult {
            affected_rows,
            last_insert_id,
            warnings,
            info,
        } = ok;
        let ok = OkInfo {
            affected_rows,
            last_insert_id,
            warnings,
            info,
        };
        self.out.ok(ok).await.map_err(from_wire)
    }
}

/// A file of the client on its way to LOAD DATA.
struct Infile<'a> {
    source: &'a mut dyn wire::InfileSource,
    /// Its end was read; the connection must not be asked again.
    at_end: bool,
}

#[async_trait]
impl query::LocalFile for Infile<'_> {
    async fn open(&mut self, name: &str) -> query::Result<()> {
        self.at_end = false;
        self.source.open(name).await.map_err(from_wire)
    }

    async fn read(&mut self) -> query::Result<Option<Bytes>> {
        if self.at_end {
            return Ok(None);
        }
        let bytes = self.source.read().await.map_err(from_wire)?;
        self.at_end = bytes.is_none();
        Ok(bytes)
    }
}

fn column(column: &ResultColumn) -> Column {
    let flags = ColumnFlags::NONE
        .with_if(column.not_null, ColumnFlags::NOT_NULL)
        .with_if(column.primary_key, ColumnFlags::PRI_KEY)
        .with_if(column.unique_key, ColumnFlags::UNIQUE_KEY)
        .with_if(column.multiple_key, ColumnFlags::MULTIPLE_KEY);
    Column {
        schema: column.schema.clone(),
        table: column.table.clone(),
        org_table: column.table.clone(),
        name: column.name.clone(),
        org_name: column.org_name.clone(),
        sql_type: match (&column.members, column.ty) {
            (Some(members), _) => {
                let chars = u32::from(members.max_chars());
                match members.kind() {
                    MembersKind::Enum => SqlType::Enum { chars },
                    MembersKind::Set => SqlType::Set { chars },
                }
            }
            (None, Some(ty)) => sql_type(ty),
            (None, None) => SqlType::Null,
        },
        flags,
        display_length: None,
        fixed_decimals: None,
    }
}

fn sql_type(ty: ColumnType) -> SqlType {
    match ty {
        ColumnType::Int { bytes: 1, unsigned } => SqlType::TinyInt { unsigned },
        ColumnType::Int { bytes: 2, unsigned } => SqlType::SmallInt { unsigned },
        ColumnType::Int { bytes: 3, unsigned } => SqlType::MediumInt { unsigned },
        ColumnType::Int { bytes: 4, unsigned } => SqlType::Int { unsigned },
        ColumnType::Int { unsigned, .. } => SqlType::BigInt { unsigned },
        ColumnType::Decimal { precision, scale } => SqlType::Decimal {
            precision,
            scale,
            unsigned: false,
        },
        ColumnType::Float => SqlType::Float,
        ColumnType::Double => SqlType::Double,
        ColumnType::Date => SqlType::Date,
        ColumnType::DateTime { fsp } => SqlType::DateTime { fsp },
        ColumnType::Timestamp { fsp } => SqlType::Timestamp { fsp },
        ColumnType::Time { fsp } => SqlType::Time { fsp },
        ColumnType::Year => SqlType::Year,
        ColumnType::Bit { bits } => SqlType::Bit { width: bits },
        ColumnType::Char { chars, .. } => SqlType::Char {
            chars: u32::from(chars),
        },
        ColumnType::Varchar {
            chars,
            collation: Collation::BINARY,
        } => SqlType::VarBinary {
            bytes: u32::from(chars),
        },
        ColumnType::Varchar { chars, .. } => SqlType::VarChar {
            chars: u32::from(chars),
        },
        ColumnType::Long {
            prefix,
            collation: Collation::BINARY,
        } => SqlType::Blob {
            bytes: ColumnType::long_limit(prefix),
        },
        ColumnType::Long { prefix, .. } => SqlType::Text {
            bytes: ColumnType::long_limit(prefix),
        },
        ColumnType::Json => SqlType::Json,
    }
}
