//! A frontend whose sessions understand a few fixed statements, each made to show one thing.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow_array::{
    ArrayRef, BinaryArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow_schema::{Field, Schema};
use async_trait::async_trait;
use perigee_wire_mysql::errors::{
    BAD_DB_ERROR, MAX_PREPARED_STMT_COUNT_REACHED, NO_SUCH_THREAD, PARSE_ERROR, QUERY_INTERRUPTED,
    TRUNCATED_WRONG_VALUE_FOR_FIELD,
};
use perigee_wire_mysql::{
    Account, CancelToken, Column, ColumnFlags, Columns, ConnectionInfo, Frontend, InfileSource,
    OkInfo, Parameter, Prepared, ResultSink, Server, ServerConfig, Session, SessionStatus,
    SqlError, SqlType, StatementId, StaticAccounts,
};

pub const VERSION: &str = "8.0.43-scripted";

/// What the sessions of a frontend tell the test.
#[derive(Default)]
pub struct Seen {
    /// Batches of `ENDLESS` accepted by the sink.
    pub batches: AtomicUsize,
    /// Statements that were told to stop and did.
    pub cancelled: AtomicUsize,
    /// Sessions dropped.
    pub dropped: AtomicUsize,
    /// Bytes of files received.
    pub file_bytes: AtomicUsize,
    /// Prepared statements closed.
    pub closed: AtomicUsize,
}

/// Most statements that a session prepares.
pub const MAX_PREPARED: usize = 3;

impl Seen {
    /// Waits until `counter` reaches `n`.
    pub async fn wait(counter: &AtomicUsize, n: usize) {
        let reached = async {
            while counter.load(Ordering::SeqCst) < n {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), reached)
            .await
            .expect("it happens soon");
    }
}

/// Makes scripted sessions.
#[derive(Default)]
pub struct Script {
    pub seen: Arc<Seen>,
}

#[async_trait]
impl Frontend for Script {
    async fn open_session(&self, info: ConnectionInfo) -> Result<Box<dyn Session>, SqlError> {
        if let Some(database) = info.database.as_deref().filter(|name| *name != "test") {
            return Err(BAD_DB_ERROR.with(&[&database]));
        }
        Ok(Box::new(ScriptedSession {
            info,
            seen: Arc::clone(&self.seen),
            status: SessionStatus::default(),
            multi_statements: false,
            variable: 0,
            prepared: HashMap::new(),
            last_prepared: 0,
        }))
    }

    fn server_version(&self) -> &str {
        VERSION
    }
}

struct ScriptedSession {
    info: ConnectionInfo,
    seen: Arc<Seen>,
    status: SessionStatus,
    multi_statements: bool,
    variable: i64,
    prepared: HashMap<StatementId, (String, Columns)>,
    last_prepared: u32,
}

impl Drop for ScriptedSession {
    fn drop(&mut self) {
        self.seen.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

pub fn batch(arrays: Vec<ArrayRef>) -> RecordBatch {
    let fields: Vec<_> = arrays
        .iter()
        .enumerate()
        .map(|(i, array)| Field::new(i.to_string(), array.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

async fn one_text(out: &mut dyn ResultSink, name: &str, value: &str) -> Result<(), SqlError> {
    let chars = value.chars().count() as u32;
    out.columns(&[Column::expression(name, SqlType::VarChar { chars })])
        .await?;
    out.rows(&batch(vec![Arc::new(StringArray::from(vec![value]))]))
        .await?;
    out.finish(0).await
}

async fn one_int(out: &mut dyn ResultSink, name: &str, value: i64) -> Result<(), SqlError> {
    out.columns(&[Column::expression(
        name,
        SqlType::BigInt { unsigned: false },
    )])
    .await?;
    out.rows(&batch(vec![Arc::new(Int64Array::from(vec![value]))]))
        .await?;
    out.finish(0).await
}

/// A table of several types, with NULLs in its second row.
pub fn typed_columns() -> Vec<Column> {
    let key = ColumnFlags::NOT_NULL.with(ColumnFlags::PRI_KEY);
    vec![
        Column::of_table("test", "t", "i", SqlType::Int { unsigned: false }).with_flags(key),
        Column::of_table("test", "t", "u", SqlType::BigInt { unsigned: true }),
        Column::of_table(
            "test",
            "t",
            "d",
            SqlType::Decimal {
                precision: 15,
                scale: 2,
                unsigned: false,
            },
        ),
        Column::of_table("test", "t", "f", SqlType::Double),
        Column::of_table("test", "t", "day", SqlType::Date),
        Column::of_table("test", "t", "at", SqlType::DateTime { fsp: 3 }),
        Column::of_table("test", "t", "s", SqlType::VarChar { chars: 20 }),
        Column::of_table("test", "t", "b", SqlType::VarBinary { bytes: 20 }),
    ]
}

pub fn typed_rows() -> RecordBatch {
    let cents = Decimal128Array::from(vec![Some(123_456), None]);
    batch(vec![
        Arc::new(Int32Array::from(vec![1, -2])),
        Arc::new(UInt64Array::from(vec![Some(u64::MAX), None])),
        Arc::new(cents.with_precision_and_scale(15, 2).unwrap()),
        Arc::new(Float64Array::from(vec![Some(1e20), None])),
        Arc::new(Date32Array::from(vec![Some(8_766), None])),
        Arc::new(TimestampMicrosecondArray::from(vec![
            Some(757_382_400_123_456),
            None,
        ])),
        Arc::new(StringViewArray::from(vec![
            Some("na\u{ef}ve caf\u{e9}, more than 12"),
            None,
        ])),
        Arc::new(BinaryArray::from_opt_vec(vec![Some(b"a\0b"), None])),
    ])
}

impl ScriptedSession {
    async fn statement(
        &mut self,
        sql: &str,
        out: &mut dyn ResultSink,
        infile: &mut dyn InfileSource,
        cancel: &CancelToken,
    ) -> Result<(), SqlError> {
        let words: Vec<_> = sql.split_whitespace().collect();
        match words.as_slice() {
            ["SELECT", "1"] => one_int(out, "1", 1).await,
            ["SELECT", "ID"] => one_int(out, "ID", i64::from(self.info.id)).await,
            ["SELECT", "USER"] => one_text(out, "USER", &self.info.user).await,
            ["SELECT", "VARIABLE"] => one_int(out, "VARIABLE", self.variable).await,
            ["SET", "VARIABLE", value] => {
                self.variable = value.parse().unwrap();
                out.ok(OkInfo::default()).await
            }
            ["SELECT", "ATTRIBUTE", name] => {
                let found = self.info.attributes.iter().find(|(key, _)| key == name);
                one_text(out, "v", found.map_or("", |(_, value)| value)).await
            }
            ["SELECT", "TYPES"] => {
                out.columns(&typed_columns()).await?;
                out.rows(&typed_rows()).await?;
                out.finish(3).await
            }
            ["SELECT", "NOTHING"] => {
                out.columns(&typed_columns()).await?;
                out.finish(0).await
            }
            ["SELECT", "NAN"] => {
                out.columns(&[Column::expression("x", SqlType::Double)])
                    .await?;
                out.rows(&batch(vec![Arc::new(Float64Array::from(vec![
                    1.5,
                    f64::NAN,
                ]))]))
                .await?;
                out.finish(0).await
            }
            ["SELECT", "LONG", n] => {
                let text = "x".repeat(n.parse().unwrap());
                out.columns(&[Column::expression("x", SqlType::Text { bytes: 1 << 30 })])
                    .await?;
                out.rows(&batch(vec![Arc::new(StringArray::from(vec![
                    text.as_str(),
                    "y",
                ]))]))
                .await?;
                out.finish(0).await
            }
            ["SELECT", "LENGTH", text] => one_int(out, "n", text.len() as i64).await,
            ["INSERT"] => {
                let info = "Records: 3  Duplicates: 0  Warnings: 1".to_owned();
                out.ok(OkInfo {
                    affected_rows: 3,
                    last_insert_id: 70_000,
                    warnings: 1,
                    info,
                })
                .await
            }
            ["BEGIN"] => self.transaction(true, out).await,
            ["COMMIT"] => self.transaction(false, out).await,
            ["FAIL"] => Err(PARSE_ERROR.with(&[&"unexpected end", &"FAIL", &1])),
            ["FAIL", "LATE"] => {
                out.columns(&typed_columns()).await?;
                out.rows(&typed_rows()).await?;
                Err(PARSE_ERROR.saying("failed in the middle"))
            }
            ["ENDLESS"] => self.endless(out).await,
            ["SLEEP"] => {
                self.info.connection.set_state("sleeping");
                cancel.cancelled().await;
                self.seen.cancelled.fetch_add(1, Ordering::SeqCst);
                Err(QUERY_INTERRUPTED.with(&[]))
            }
            ["NAP"] => {
                tokio::time::sleep(Duration::from_millis(300)).await;
                one_int(out, "NAP", 0).await
            }
            ["STUCK"] => pending().await,
            ["PANIC"] => panic!("scripted panic"),
            ["UNFINISHED"] => out.columns(&typed_columns()).await,
            ["KILL", "QUERY", id] => self.kill(out, id, true).await,
            ["KILL", id] => self.kill(out, id, false).await,
            ["LOAD", name] => load(&self.seen, name, out, infile).await,
            ["LOAD", "BADLY", name] => {
                infile.open(name).await?;
                let _first = infile.read().await?;
                Err(TRUNCATED_WRONG_VALUE_FOR_FIELD.with(&[&"integer", &"x", &"a", &1]))
            }
            ["LOAD", "SLOWLY", name] => {
                infile.open(name).await?;
                while let Some(part) = infile.read().await? {
                    self.seen.file_bytes.fetch_add(part.len(), Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                out.ok(OkInfo::default()).await
            }
            ["SELECT", "@@version_comment", ..] | ["select", "@@version_comment", ..] => {
                one_text(out, "@@version_comment", "scripted").await
            }
            ["SELECT", "DATABASE()"] => one_text(out, "DATABASE()", "test").await,
            _ => Err(PARSE_ERROR.with(&[&"unknown statement", &sql, &1])),
        }
    }

    async fn transaction(&mut self, open: bool, out: &mut dyn ResultSink) -> Result<(), SqlError> {
        self.status.in_transaction = open;
        out.set_status(self.status);
        out.ok(OkInfo::default()).await
    }

    async fn endless(&self, out: &mut dyn ResultSink) -> Result<(), SqlError> {
        out.columns(&[Column::expression("x", SqlType::VarChar { chars: 1000 })])
            .await?;
        let text = "x".repeat(1000);
        let rows = batch(vec![Arc::new(StringArray::from(vec![text.as_str(); 100]))]);
        loop {
            if let Err(error) = out.rows(&rows).await {
                self.seen.cancelled.fetch_add(1, Ordering::SeqCst);
                return Err(error);
            }
            self.seen.batches.fetch_add(1, Ordering::SeqCst);
        }
    }

    async fn kill(&self, out: &mut dyn ResultSink, id: &str, query: bool) -> Result<(), SqlError> {
        let number = id.parse().unwrap();
        let registry = &self.info.registry;
        let killed = if query {
            registry.kill_query(number)
        } else {
            registry.kill_connection(number)
        };
        killed.map_err(|_| NO_SUCH_THREAD.with(&[&id]))?;
        out.ok(OkInfo::default()).await
    }
}

/// Counts lines and bytes of a file.
async fn load(
    seen: &Seen,
    name: &str,
    out: &mut dyn ResultSink,
    infile: &mut dyn InfileSource,
) -> Result<(), SqlError> {
    infile.open(name).await?;
    let (mut lines, mut bytes) = (0, 0);
    while let Some(part) = infile.read().await? {
        assert!(!part.is_empty() && part.len() <= 64 * 1024);
        lines += part.iter().filter(|byte| **byte == b'\n').count() as u64;
        bytes += part.len();
    }
    seen.file_bytes.fetch_add(bytes, Ordering::SeqCst);
    let info = format!("Records: {lines}  Deleted: 0  Skipped: 0  Warnings: 0");
    out.ok(OkInfo {
        affected_rows: lines,
        info,
        ..OkInfo::default()
    })
    .await
}

/// Prepared statements load no files.
struct NoFile;

#[async_trait]
impl InfileSource for NoFile {
    async fn open(&mut self, _: &str) -> Result<(), SqlError> {
        panic!("a prepared statement asks for a file")
    }

    async fn read(&mut self) -> Result<Option<bytes::Bytes>, SqlError> {
        panic!("a prepared statement asks for a file")
    }
}

#[async_trait]
impl Session for ScriptedSession {
    async fn query(
        &mut self,
        sql: &str,
        out: &mut dyn ResultSink,
        infile: &mut dyn InfileSource,
        cancel: &CancelToken,
    ) -> Result<(), SqlError> {
        let statements: Vec<_> = sql.split(';').filter(|s| !s.trim().is_empty()).collect();
        if statements.len() > 1 && !self.multi_statements {
            return Err(PARSE_ERROR.with(&[&"a second statement", &statements[1], &1]));
        }
        for statement in statements {
            self.statement(statement, out, infile, cancel).await?;
        }
        Ok(())
    }

    /// Counts the question marks. The columns of `TYPES` are known beforehand, others are not.
    async fn prepare(&mut self, sql: &str, cancel: &CancelToken) -> Result<Prepared, SqlError> {
        if sql == "PREPARE SLOWLY" {
            cancel.cancelled().await;
            return Err(QUERY_INTERRUPTED.with(&[]));
        }
        if sql == "FAIL" {
            return Err(PARSE_ERROR.with(&[&"unexpected end", &"FAIL", &1]));
        }
        if self.prepared.len() == MAX_PREPARED {
            return Err(MAX_PREPARED_STMT_COUNT_REACHED.with(&[&MAX_PREPARED]));
        }
        self.last_prepared += 1;
        let statement = StatementId(self.last_prepared);
        let columns = Columns::new(match sql.contains("TYPES") {
            true => typed_columns(),
            false => Vec::new(),
        });
        let prepared = (sql.to_owned(), columns.clone());
        self.prepared.insert(statement, prepared);
        Ok(Prepared {
            statement,
            parameters: sql.matches('?').count() as u16,
            columns,
            warnings: 2,
        })
    }

    /// Shows the parameters if there are any, else runs the text.
    async fn execute(
        &mut self,
        statement: StatementId,
        parameters: &[Parameter<'_>],
        out: &mut dyn ResultSink,
        cancel: &CancelToken,
    ) -> Result<(), SqlError> {
        let (sql, columns) = self.prepared[&statement].clone();
        if let (true, [Parameter::Text(text)]) = (sql == "LENGTH ?", parameters) {
            return one_int(out, "n", text.len() as i64).await;
        }
        if !parameters.is_empty() {
            return one_text(out, "parameters", &format!("{parameters:?}")).await;
        }
        if sql == "SELECT TYPES" {
            out.shared_columns(&columns).await?;
            out.rows(&typed_rows()).await?;
            return out.finish(3).await;
        }
        self.statement(&sql, out, &mut NoFile, cancel).await
    }

    fn close(&mut self, statement: StatementId) {
        self.prepared.remove(&statement).unwrap();
        self.seen.closed.fetch_add(1, Ordering::SeqCst);
    }

    async fn use_database(&mut self, name: &str) -> Result<(), SqlError> {
        if name == "test" {
            self.info.connection.set_database(Some(name.to_owned()));
            Ok(())
        } else {
            Err(BAD_DB_ERROR.with(&[&name]))
        }
    }

    async fn reset(&mut self) -> Result<(), SqlError> {
        self.variable = 0;
        self.status = SessionStatus::default();
        self.prepared.clear();
        Ok(())
    }

    fn status(&self) -> SessionStatus {
        self.status
    }

    fn allow_multi_statements(&mut self, allowed: bool) {
        self.multi_statements = allowed;
    }

    async fn field_list(&mut self, table: &str, _: &str) -> Result<Vec<Column>, SqlError> {
        assert_eq!(table, "t");
        Ok(typed_columns())
    }
}

/// A server on a free port with the accounts `root` (no password) and `ann` (password `secret`).
pub fn start(adjust: impl FnOnce(&mut ServerConfig)) -> (Server, Arc<Seen>) {
    let mut config = ServerConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        ..Default::default()
    };
    adjust(&mut config);
    let script = Script::default();
    let seen = Arc::clone(&script.seen);
    let accounts = StaticAccounts::new([
        ("root".to_owned(), Account::without_password()),
        ("ann".to_owned(), Account::with_password("secret")),
    ]);
    (
        Server::start(config, Arc::new(script), Arc::new(accounts)).unwrap(),
        seen,
    )
}
