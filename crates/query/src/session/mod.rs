//! Sessions: what a connection has between statements, and the way of a statement from text to
//! results.
//!
//! A [`Frontend`] is shared by all sessions of a process; a [`Session`] belongs to one connection.

mod accounts;
mod analyze;
mod assigned;
mod auto_increment;
mod bind_error;
mod bound;
mod checks;
mod counts;
mod ddl;
pub(crate) mod definition;
mod digests;
mod dml;
mod environment;
mod execute;
mod explain;
mod fast;
mod generated;
mod grants;
mod hinted;
mod insert;
mod into;
mod join_places;
mod load;
mod locking;
mod measure;
mod memory;
mod money;
mod outfile;
mod parameter;
mod prepared;
mod program;
mod read_columns;
mod restart;
mod rights;
mod roles;
mod row_count;
mod row_expr;
mod rowless;
mod rowset;
mod running_plans;
mod scalars;
mod select;
mod server_file;
mod set;
mod show;
mod slow_log;
mod statement;
mod stored_view;
mod table_locks;
mod table_status;
mod temporary;
mod time_limit;
mod transaction;
mod turn;
mod user_variables;
mod variables;
mod views;
mod warnings;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use async_trait::async_trait;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use perigee_accounts::{AccountName, Accounts};
use perigee_engine::catalog::{RoutineDef, Table};
use perigee_engine::scan::{CancelToken, ScanCounters};
use perigee_engine::{Engine, Errand};
use perigee_sql_bind::Modes;

use crate::access::NdpCounters;
use crate::diagnostics::Diagnostics;
use crate::error::{Result, SqlError};
use crate::memory::{Charge, ProcessMemory};
use crate::parse::{Footprint, Script};
use crate::result::{LocalFile, ResultSink};
use execute::{Running, Workers};
use measure::Counting;
pub use parameter::{Parameter, Parameters};
pub use prepared::PreparedInfo;

use memory::StatementMemory;
use prepared::{PreparedCounters, PreparedStatements};
use program::Firing;
use row_count::RowCount;
use select::Prepared;
use table_locks::Locked;
use temporary::Temporaries;
use transaction::{Characteristics, Open};
use turn::{Places, Turns};
use user_variables::UserVariables;
use variables::{RECALCULATE, Variables};
use warnings::Warnings;

/// Settings of a [`Frontend`].
#[derive(Clone, Debug)]
pub struct FrontendConfig {
    /// Partitions of a query, that is threads it can use.
    pub threads: usize,
    /// Bytes of memory a query may use before it spills; the default of `query_memory_limit`.
    pub query_memory: usize,
    /// Bytes of memory that all connections may use together for commands and statements.
    pub total_memory: usize,
    /// Where queries spill to; the system's directory if `None`.
    pub temp_dir: Option<PathBuf>,
    /// Values of variables that only the process knows, such as `port`.
    pub facts: Vec<(&'static str, String)>,
    /// Run simple statements by key without planning them; off in tests of the fast path.
    pub fast_path: bool,
    /// Digests of statements that are counted one by one (`performance_schema_digests_size`).
    pub digests: usize,
}

impl Default for FrontendConfig {
    fn default() -> Self {
        Self {
            threads: 2,
            query_memory: 1 << 30,
            total_memory: 2 << 30,
            temp_dir: None,
            facts: Vec::new(),
            fast_path: true,
            digests: 10_000,
        }
    }
}

/// Counters that SHOW STATUS lists besides the session layer's own.
#[async_trait]
pub trait StatusSource: Send + Sync {
    /// Names and values.
    async fn status(&self) -> Vec<(String, u64)>;
}

/// No counters.
#[derive(Debug, Default)]
pub struct NoStatus;

#[async_trait]
impl StatusSource for NoStatus {
    async fn status(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}

/// A connection as SHOW PROCESSLIST lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub id: u64,
    /// User.
    pub user: String,
    /// Host and port of the client.
    pub host: String,
    /// Current schema.
    pub schema: Option<String>,
    /// `Query` or `Sleep`.
    pub command: String,
    /// Seconds in that state.
    pub seconds: u64,
    /// Text of the statement that runs.
    pub statement: Option<String>,
}

/// The process's connections, for KILL and SHOW PROCESSLIST.
pub trait Connections: Send + Sync {
    /// Stops a connection's statement and, unless `query_only`, the connection. False if there is
    /// no such connection.
    fn kill(&self, id: u64, query_only: bool) -> bool;
    /// All connections.
    fn list(&self) -> Vec<Process>;
}

/// No connections.
#[derive(Debug, Default)]
pub struct NoConnections;

impl Connections for NoConnections {
    fn kill(&self, _: u64, _: bool) -> bool {
        false
    }

    fn list(&self) -> Vec<Process> {
        Vec::new()
    }
}

/// Version that clients are told; drivers decide by its leading numbers what they may ask for.
pub const SERVER_VERSION: &str = concat!("8.0.43-perigee-", env!("CARGO_PKG_VERSION"));

/// What the sessions of a process share.
pub struct Frontend {
    engine: Arc<Engine>,
    config: FrontendConfig,
    runtime: Arc<RuntimeEnv>,
    workers: Workers,
    places: Places,
    globals: RwLock<Variables>,
    status: Arc<dyn StatusSource>,
    started: Instant,
    questions: AtomicU64,
    prepared: PreparedCounters,
    /// Statements that the fast path ran.
    fast_statements: AtomicU64,
    /// What accesses of all sessions pushed.
    ndp_counters: Arc<NdpCounters>,
    statements: counts::Counts,
    memory: Arc<ProcessMemory>,
    accounts: rights::Known,
    programs: program::Programs,
    running_plans: Arc<running_plans::RunningPlans>,
    digests: digests::Digests,
    slow_log: slow_log::SlowLog,
}

/// What a frontend did since it started, and what it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrontendFigures {
    /// Statements by what they are, those that failed among them.
    pub statements: Vec<(&'static str, u64)>,
    /// Those of them that ran without planning.
    pub fast_statements: u64,
    /// Statements that are prepared now.
    pub prepared_statements: u64,
    /// Bytes that connections hold for commands, statements and what is kept for them.
    pub query_memory: usize,
}

impl Frontend {
    /// A frontend over an engine.
    ///
    /// # Errors
    /// If the directory for spilling cannot be used, threads cannot be started, or the accounts are damaged.
    pub fn new(
        engine: Arc<Engine>,
        config: FrontendConfig,
        status: Arc<dyn StatusSource>,
    ) -> Result<Self> {
        let mut disk = DiskManagerBuilder::default();
        if let Some(dir) = &config.temp_dir {
            disk = disk.with_mode(DiskManagerMode::Directories(vec![dir.clone()]));
        }
        let runtime = RuntimeEnvBuilder::new()
            .with_disk_manager_builder(disk)
            .build_arc()?;
        let workers = Workers::start(config.threads).map_err(SqlError::unknown)?;
        let mut globals = Variables::new(SERVER_VERSION);
        globals.set("query_memory_limit", Some(config.query_memory.to_string()));
        globals.set("query_memory_total", Some(config.total_memory.to_string()));
        globals.set(
            "performance_schema_digests_size",
            Some(config.digests.to_string()),
        );
        for (name, value) in &config.facts {
            globals.set(name, Some(value.clone()));
        }
        Ok(Self {
            accounts: rights::Known::new(&engine)?,
            programs: program::Programs::default(),
            running_plans: Arc::default(),
            digests: digests::Digests::new(config.digests),
            slow_log: slow_log::SlowLog::default(),
            engine,
            memory: ProcessMemory::new(config.total_memory),
            runtime,
            workers,
            places: Places::new(config.threads),
            config,
            globals: RwLock::new(globals),
            status,
            started: Instant::now(),
            questions: AtomicU64::new(0),
            prepared: PreparedCounters::default(),
            fast_statements: AtomicU64::new(0),
            statements: counts::Counts::default(),
            ndp_counters: Arc::default(),
        })
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The accounts now.
    ///
    /// # Errors
    /// If what the catalog has of them is damaged.
    pub fn accounts(&self) -> Result<Arc<Accounts>> {
        self.accounts_now().map(|(_, accounts)| accounts)
    }

    /// The accounts now, with their version.
    fn accounts_now(&self) -> Result<(u64, Arc<Accounts>)> {
        self.accounts.now(&self.engine)
    }

    /// The memory that all connections share.
    #[must_use]
    pub fn memory(&self) -> &Arc<ProcessMemory> {
        &self.memory
    }

    /// What it did and what it holds.
    #[must_use]
    pub fn figures(&self) -> FrontendFigures {
        FrontendFigures {
            statements: self.statements.all().collect(),
            fast_statements: self.fast_statements.load(Ordering::Relaxed),
            prepared_statements: self.prepared.prepared_now(),
            query_memory: self.memory.used(),
        }
    }

    /// Sets a global variable to a checked value.
    fn set_global(&self, name: &str, value: Option<String>) {
        let mut globals = self.globals.write();
        self.slow_log
            .set(name, value.as_deref().unwrap_or_default());
        globals.set(name, value);
        if name == RECALCULATE {
            self.engine.keep_statistics_fresh(globals.is_on(name));
        }
    }

    /// How many table accesses were pushed, and how many were not, by reason.
    #[must_use]
    pub fn ndp_counters(&self) -> &NdpCounters {
        &self.ndp_counters
    }

    /// Begins to run a plan.
    fn start(&self, prepared: &Prepared) -> Running {
        let context = prepared.state.task_ctx();
        let scans = prepared.scans.clone();
        let memory = self.memory.clone();
        let shown = prepared.shown(prepared.changed.clone());
        let begun = self.running_plans.begin(prepared.connection, shown);
        self.workers
            .run(prepared.plan.clone(), context, scans, memory, begun)
    }

    /// The runtime of one statement: memory of its own, temporary files shared.
    fn runtime(&self, memory: usize) -> Arc<RuntimeEnv> {
        let mut runtime = self.runtime.as_ref().clone();
        runtime.memory_pool = Arc::new(StatementMemory::new(memory, &self.memory));
        Arc::new(runtime)
    }
}

/// How a connection is encrypted: the status variables `Ssl_version` and `Ssl_cipher`.
#[derive(Clone, Debug, Default)]
pub struct Encryption {
    /// Version of TLS.
    pub version: &'static str,
    /// Cipher suite.
    pub cipher: String,
}

/// Who a session belongs to.
#[derive(Clone)]
pub struct SessionInfo {
    /// CONNECTION_ID().
    pub connection_id: u64,
    /// User name.
    pub user: String,
    /// Host of the client.
    pub host: String,
    /// The account that was logged in to: CURRENT_USER().
    pub account: AccountName,
    /// How the connection is encrypted, if it is.
    pub encryption: Option<Encryption>,
    /// The client wants to know how many rows an UPDATE found, not how many it changed.
    pub found_rows: bool,
    /// The process's connections.
    pub connections: Arc<dyn Connections>,
}

impl Default for SessionInfo {
    fn default() -> Self {
        Self {
            connection_id: 0,
            user: "root".to_owned(),
            host: "localhost".to_owned(),
            account: AccountName::new("root", "localhost"),
            encryption: None,
            found_rows: false,
            connections: Arc::new(NoConnections),
        }
    }
}

/// One connection's session.
pub struct Session {
    frontend: Arc<Frontend>,
    info: SessionInfo,
    variables: Variables,
    user_variables: UserVariables,
    schema: Option<String>,
    warnings: Warnings,
    /// What evaluation says of the statement that runs.
    diagnostics: Arc<Diagnostics>,
    /// The transaction that statements belong to; without one each is its own.
    open: Option<Open>,
    /// Its temporary tables, which go after the transaction.
    temporaries: Temporaries,
    /// What LOCK TABLES locked; it goes after the transaction.
    locked: Option<Locked>,
    /// The table that the statement found closed by another session.
    closed: Mutex<Option<Arc<Table>>>,
    next_transaction: Characteristics,
    prepared: PreparedStatements,
    /// The procedures that are running, the innermost last.
    running: Vec<Arc<RoutineDef>>,
    /// ROW_COUNT().
    row_count: RowCount,
    /// The statements whose triggers are running, the innermost last.
    fired: Vec<Firing>,
    /// LAST_INSERT_ID().
    last_insert_id: u64,
    fast: fast::Fast,
    /// What the text and the plans of its statement are charged.
    charge: Weak<Charge>,
    rights: rights::Rights,
    /// What the scans of its statements did.
    scans: Arc<ScanCounters>,
    /// What its accesses pushed.
    ndp_counters: Arc<NdpCounters>,
    /// Plans are measured, for an EXPLAIN ANALYZE.
    probe: Option<Arc<explain::Probe>>,
    /// What the running statement sends.
    sent: Arc<measure::Sent>,
}

impl Session {
    /// A new session.
    #[must_use]
    pub fn new(frontend: Arc<Frontend>, info: SessionInfo) -> Self {
        let variables = frontend.globals.read().clone();
        let user_variables = UserVariables::new(&frontend.memory);
        let temporaries = Temporaries::new(&frontend.engine, &frontend.memory);
        Self {
            frontend,
            info,
            variables,
            user_variables,
            schema: None,
            warnings: Warnings::default(),
            diagnostics: Arc::default(),
            open: None,
            temporaries,
            locked: None,
            closed: Mutex::default(),
            next_transaction: Characteristics::default(),
            prepared: PreparedStatements::default(),
            running: Vec::new(),
            row_count: RowCount::default(),
            fired: Vec::new(),
            last_insert_id: 0,
            fast: fast::Fast::default(),
            charge: Weak::new(),
            rights: rights::Rights::default(),
            scans: Arc::default(),
            ndp_counters: Arc::default(),
            probe: None,
            sent: Arc::default(),
        }
    }

    /// Rolls back the open transaction, drops the temporary tables and forgets everything but the current schema.
    ///
    /// # Errors
    /// If the rollback fails.
    pub async fn reset(&mut self) -> Result<()> {
        let rolled_back = self.roll_back_open().await;
        let schema = self.schema.take();
        *self = Self::new(self.frontend.clone(), self.info.clone());
        self.schema = schema;
        rolled_back
    }

    /// The current schema.
    #[must_use]
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// Makes a schema the current one.
    ///
    /// # Errors
    /// 1044, 1049.
    pub fn use_schema(&mut self, name: &str) -> Result<()> {
        self.renew_rights()?;
        let lower = name.to_lowercase();
        self.check_schema_visible(&lower)?;
        if !self.has_schema(&lower) {
            return Err(SqlError::unknown_schema(name));
        }
        self.schema = Some(lower);
        Ok(())
    }

    /// True for the name, in lower case, of a schema of a user or of one that the server makes of what it knows.
    pub(crate) fn has_schema(&self, name: &str) -> bool {
        perigee_catalog_views::is_schema(name)
            || self
                .frontend
                .engine
                .schemas()
                .iter()
                .any(|schema| schema == name)
    }

    /// True if a transaction is open: after BEGIN, or after a statement that uses tables if
    /// autocommit is off.
    #[must_use]
    pub fn in_transaction(&self) -> bool {
        self.open.is_some()
    }

    /// The variable `autocommit`.
    #[must_use]
    pub fn autocommit(&self) -> bool {
        self.variables.is_on("autocommit")
    }

    /// True if a backslash in a string begins an escape sequence.
    #[must_use]
    pub fn has_backslash_escapes(&self) -> bool {
        !self.modes().has(Modes::NO_BACKSLASH_ESCAPES)
    }

    /// Seconds the client may stay silent.
    #[must_use]
    pub fn wait_timeout(&self, interactive: bool) -> u64 {
        self.variables.integer(if interactive {
            "interactive_timeout"
        } else {
            "wait_timeout"
        })
    }

    /// Runs a text of one or, if `multi`, several statements. Results go to `out` one after the
    /// other; the first error ends the text.
    ///
    /// # Errors
    /// The error of the statement that failed, which is undone.
    pub fn execute<'a>(
        &'a mut self,
        text: &'a str,
        multi: bool,
        out: &'a mut dyn ResultSink,
        file: &'a mut dyn LocalFile,
        cancel: &'a CancelToken,
    ) -> BoxFuture<'a, Result<()>> {
        let execute = Box::pin(async move {
            self.check_fence().await?;
            self.renew_rights()?;
            let answer = fast::text(self, text, out, cancel).await;
            if answer.inspect_err(|e| self.note_error(e))? == fast::Answer::Done {
                return Ok(());
            }
            let frontend = self.frontend.clone();
            let script = Box::pin(self.execute_script(text, multi, out, file, cancel));
            Turns::new(&frontend.places, text, cancel, script).await
        });
        Box::pin(Errand::new(cancel).run(execute))
    }

    /// Fails once another frontend has opened the database: what this one has in memory may be old,
    /// and must not be shown.
    pub(crate) async fn check_fence(&self) -> Result<()> {
        match self.frontend.engine().sal().confirm().await {
            Err(e) if e.is_fenced() => Err(perigee_engine::EngineError::from(e).into()),
            _ => Ok(()),
        }
    }

    /// Runs a text statement by statement.
    async fn execute_script(
        &mut self,
        text: &str,
        multi: bool,
        out: &mut dyn ResultSink,
        file: &mut dyn LocalFile,
        cancel: &CancelToken,
    ) -> Result<()> {
        let (script, charge) = self.script(text).inspect_err(|e| self.note_error(e))?;
        let _charge = self.charged(charge);
        let pieces: Vec<_> = script.pieces().collect();
        if pieces.is_empty() {
            return Err(SqlError::empty_query());
        }
        if let (false, [_, second, ..]) = (multi, &pieces[..]) {
            let error = crate::parse::Cursor::new(*second).error();
            self.note_error(&error);
            return Err(error);
        }
        let is_one = pieces.len() == 1;
        for piece in pieces {
            self.frontend.questions.fetch_add(1, Ordering::Relaxed);
            let begun = self.begin_measuring();
            let mut counting = Counting::new(out, &self.sent);
            let outcome = statement::run(self, piece, &mut counting, file, cancel).await;
            if begun.is_some() {
                let written = if is_one { text } else { piece.written() };
                self.end_measuring(begun, &outcome, (written, &mut None));
            }
            outcome.inspect_err(|error| self.note_error(error))?;
        }
        Ok(())
    }

    /// The statements of a text, with the charge for all that becomes of it.
    fn script<'t>(&self, text: &'t str) -> Result<(Script<'t>, Charge)> {
        let mut charge = self.frontend.memory.charge(0)?;
        let admit = |footprint: Footprint| self.admit(footprint.parsed(), &mut charge);
        let script = Script::streamed(text, self.modes(), admit)?;
        Ok((script, charge))
    }

    /// Charges the memory for parsing and planning.
    ///
    /// # Errors
    /// 3170 beyond what the statement may use, 1038 beyond what is left.
    fn admit(&self, bytes: usize, charge: &mut Charge) -> Result<()> {
        let limit = self.variables.integer("query_memory_limit");
        if bytes as u64 > limit {
            return Err(SqlError::parser_capacity(limit));
        }
        charge.resize(bytes)
    }

    /// Makes a charge the one for the statement that begins: it lasts as long as a plan that the statement leaves
    /// behind.
    fn charged(&mut self, charge: Charge) -> Arc<Charge> {
        let charge = Arc::new(charge);
        self.charge = Arc::downgrade(&charge);
        charge
    }
}
