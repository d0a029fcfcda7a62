//! `perigee export`: tables, or the result of a query, to Parquet and CSV files.
//!
//! Each file is written under another name, synced and renamed, so that it is there as a whole or not at all. The files of one
//! export show one moment. A file knows the statement that made its table (Parquet in its metadata, CSV in a file `.sql`
//! beside it), so that an import can make the table.

mod columns;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Value};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::catalog::{self, Column};
use crate::connect::{connect_perigee, execute, rows};
pub use crate::files::Format;
use crate::import::{CsvOptions, snapshot};
use crate::names::{ident, literal, qualified, to_file};
use crate::progress::{Progress, tell};
use crate::readers::{Readers, Stop};
use crate::{Endpoint, TransferError};
use columns::Plan;
use write::{Message, Output, write};

/// What an export is told.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// A directory, which gets a directory for each schema, or the file of a query.
    pub to: PathBuf,
    /// The tables, if not all.
    pub tables: Vec<String>,
    /// A query instead of tables.
    pub query: Option<String>,
    /// How files are written.
    pub format: Format,
    /// How CSV files are written.
    pub csv: CsvOptions,
    /// Replaces files.
    pub overwrite: bool,
    /// Tables at a time.
    pub jobs: usize,
    /// Says what would be done, and does nothing.
    pub dry_run: bool,
}

/// Rows and bytes that go to the thread that writes at once, whichever is reached first.
const ROWS: usize = 1024;
const BYTES: usize = 1 << 20;

/// Such messages that wait for it.
const AHEAD: usize = 4;

/// A file to come.
#[derive(Clone, Debug)]
struct Job {
    /// What it is of, for messages.
    shown: String,
    path: PathBuf,
    sql: String,
    schema: Option<String>,
    /// The statement that made the table.
    create: Option<String>,
    rows: u64,
}

/// Exports from a Perigee server.
///
/// # Errors
/// What stops it; the files that are there by then are whole.
pub fn export<'a>(
    source: &'a Endpoint,
    options: &'a ExportOptions,
) -> BoxFuture<'a, Result<(), TransferError>> {
    Box::pin(async move {
        connect_perigee(source)
            .await?
            .disconnect()
            .await
            .map_err(TransferError::server("disconnect"))?;
        let mut snapshot = snapshot::open(source, options.jobs).await?;
        let jobs = jobs(&mut snapshot.readers[0], source, options).await?;
        snapshot.release().await?;
        if let Some(doubt) = &snapshot.doubt {
            tell(&format!(
                "warning: the files may not be of one moment: {doubt}"
            ));
        }
        if options.dry_run {
            for job in &jobs {
                tell(&format!(
                    "-- {}: about {} rows\n{};",
                    job.path.display(),
                    job.rows,
                    job.sql
                ));
            }
            return Ok(());
        }
        let found = run(snapshot.readers, jobs, options).await?;
        for (path, rows) in found {
            tell(&format!("{}: {rows} rows", path.display()));
        }
        Ok(())
    })
}

/// Writes all files, several at a time.
async fn run(
    conns: Vec<Conn>,
    jobs: Vec<Job>,
    options: &ExportOptions,
) -> Result<Vec<(PathBuf, u64)>, TransferError> {
    let stop = Stop::new();
    let progress = Progress::new("exporting", jobs.iter().map(|job| job.rows).sum());
    let readers = Arc::new(Readers::new(conns, stop.clone()));
    let mut tasks = JoinSet::new();
    for job in jobs {
        let (readers, progress, stop, options) = (
            readers.clone(),
            progress.clone(),
            stop.clone(),
            options.clone(),
        );
        tasks.spawn(async move {
            let mut conn = readers.take().await?;
            progress.say(job.shown.clone());
            let rows = table(&mut conn, &job, &options, (&progress, &stop)).await;
            match rows {
                Ok(rows) => {
                    readers.give(conn);
                    Ok((job.path, rows))
                }
                Err(error) => {
                    stop.set();
                    Err(error.within(&job.shown))
                }
            }
        });
    }
    let mut found = Vec::new();
    let mut first = None;
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(Ok(file)) => found.push(file),
            Ok(Err(error)) => first = crate::import::worse(first, error),
            Err(panic) => {
                first = crate::import::worse(first, TransferError::Data(panic.to_string()))
            }
        }
    }
    progress.finish();
    readers.close().await;
    found.sort();
    first.map_or(Ok(found), Err)
}

/// What is exported.
async fn jobs(
    conn: &mut Conn,
    source: &Endpoint,
    options: &ExportOptions,
) -> Result<Vec<Job>, TransferError> {
    if let Some(query) = &options.query {
        return Ok(vec![Job {
            shown: "query".to_owned(),
            path: options.to.clone(),
            sql: query.trim().trim_end_matches(';').to_owned(),
            schema: source.schemas().first().cloned(),
            create: None,
            rows: 0,
        }]);
    }
    if source.schemas().is_empty() {
        let text = "the URL names no schema; use mysql://user@host/schema or …/one,two";
        return Err(TransferError::Usage(text.to_owned()));
    }
    let mut found = Vec::new();
    let mut missing: Vec<&String> = options.tables.iter().collect();
    for schema in source.schemas() {
        let sql = format!(
            "SELECT TABLE_NAME, TABLE_TYPE, TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA = {} \
             ORDER BY TABLE_NAME",
            literal(schema)
        );
        for row in rows(conn, &sql).await? {
            let text = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
            let (name, is_table) = (text(0), text(1) == "BASE TABLE");
            let is_named = options
                .tables
                .iter()
                .any(|table| table.eq_ignore_ascii_case(&name));
            missing.retain(|table| !table.eq_ignore_ascii_case(&name));
            if is_named || (options.tables.is_empty() && is_table) {
                let rows = text(2).parse().unwrap_or(0);
                found.push(job(conn, (schema, &name, is_table), rows, options).await?);
            }
        }
    }
    match missing.first() {
        Some(name) => Err(TransferError::Usage(format!("there is no table {name}"))),
        None => Ok(found),
    }
}

/// The file of a table or a view.
async fn job(
    conn: &mut Conn,
    (schema, name, is_table): (&str, &str, bool),
    rows: u64,
    options: &ExportOptions,
) -> Result<Job, TransferError> {
    let columns: Vec<Column> = catalog::columns_of(conn, schema, name).await?;
    let names: Vec<_> = columns.iter().map(|column| ident(&column.name)).collect();
    let place = qualified(schema, name);
    let primary = match is_table {
        true => catalog::primary_key(conn, schema, name).await?,
        false => Vec::new(),
    };
    let create = match is_table {
        true => crate::connect::rows(conn, &format!("SHOW CREATE TABLE {place}")).await?,
        false => Vec::new(),
    };
    let create = create
        .into_iter()
        .next()
        .and_then(|row| row.into_iter().nth(1))
        .flatten();
    let file = format!("{}.{}", to_file(name), options.format.extension());
    Ok(Job {
        shown: format!("{schema}.{name}"),
        path: options.to.join(to_file(schema)).join(file),
        sql: format!(
            "SELECT {} FROM {place}{}",
            names.join(", "),
            catalog::order(&primary)
        ),
        schema: None,
        create,
        rows,
    })
}

/// Writes a file; returns the number of rows.
async fn table(
    conn: &mut Conn,
    job: &Job,
    options: &ExportOptions,
    (progress, stop): (&Progress, &Stop),
) -> Result<u64, TransferError> {
    if let Some(schema) = &job.schema {
        execute(conn, &format!("USE {}", ident(schema))).await?;
    }
    let failed = || TransferError::server("read");
    // Rows of a prepared statement are typed: a FLOAT comes as it is, not as six digits.
    let mut result = conn
        .exec_iter(job.sql.as_str(), ())
        .await
        .map_err(failed())?;
    let plans = result
        .columns_ref()
        .iter()
        .map(Plan::of)
        .collect::<Result<Vec<_>, _>>();
    let plans = plans.map_err(TransferError::Data)?;
    if plans.is_empty() {
        return Err(TransferError::Usage("the statement is no query".to_owned()));
    }
    let (send, messages) = mpsc::channel(AHEAD);
    let output = Output {
        path: job.path.clone(),
        plans,
        create: job.create.clone(),
        format: options.format,
        csv: options.csv.clone(),
        overwrite: options.overwrite,
    };
    let writer = tokio::task::spawn_blocking(move || write(output, messages));
    let (mut rows, mut bytes) = (Vec::with_capacity(ROWS), 0);
    let mut count = 0;
    let sent = async {
        loop {
            let row = result.next().await.map_err(failed())?;
            let is_last = row.is_none();
            if let Some(row) = row.map(mysql_async::Row::unwrap) {
                bytes += row.iter().map(size).sum::<usize>();
                rows.push(row);
            }
            if rows.len() == ROWS || bytes >= BYTES || (is_last && !rows.is_empty()) {
                count += rows.len() as u64;
                progress.add(rows.len() as u64);
                stop.check()?;
                let full = std::mem::replace(&mut rows, Vec::with_capacity(ROWS));
                bytes = 0;
                let sent = send.send(Message::Rows(full)).await;
                sent.map_err(|_| TransferError::Stopped)?;
            }
            if is_last {
                return send
                    .send(Message::End)
                    .await
                    .map_err(|_| TransferError::Stopped);
            }
        }
    }
    .await;
    drop(send);
    let written = writer
        .await
        .unwrap_or_else(|panic| Err(TransferError::Data(panic.to_string())));
    match (sent, written) {
        (Ok(()), Ok(())) => Ok(count),
        // Without its end the writer only says that it is missing; if it failed first, it says why.
        (Err(TransferError::Stopped), Err(error)) | (Ok(()), Err(error)) => Err(error),
        (Err(error), _) => Err(error),
    }
}

/// About how many bytes a value takes.
fn size(value: &Value) -> usize {
    match value {
        Value::Bytes(bytes) => size_of::<Value>() + bytes.len(),
        _ => size_of::<Value>(),
    }
}

/// The file beside a CSV file that has the statement that made its table.
pub(crate) fn definition_file(path: &Path) -> PathBuf {
    path.with_extension("sql")
}
