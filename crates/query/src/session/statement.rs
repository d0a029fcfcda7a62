//! Which code runs which statement.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use futures::future::BoxFuture;
use perigee_accounts::Privileges;
use perigee_engine::scan::CancelToken;
use perigee_sql_bind::Modes;
use sqlparser::tokenizer::Token;

use super::counts::Kind;
use super::time_limit::TimeLimit;
use super::{
    Session, accounts, analyze, ddl, explain, into, load, prepared, program, restart, set, show,
    table_locks, transaction,
};
use crate::diagnostics::{Diagnostics, Division, Noted};
use crate::error::{Result, SqlError};
use crate::parse::{Existing, Piece, Show, Statement, bare_list};
use crate::result::{LocalFile, OkResult, ResultColumn, ResultSink};

/// Runs one statement, and counts the rows that it changes.
pub(super) async fn run(
    session: &mut Session,
    piece: Piece<'_>,
    out: &mut dyn ResultSink,
    file: &mut dyn LocalFile,
    cancel: &CancelToken,
) -> Result<()> {
    session.row_count.begin();
    let outcome = run_one(session, piece, out, file, cancel).await;
    session.row_count.end(outcome.is_ok());
    outcome
}

async fn run_one(
    session: &mut Session,
    piece: Piece<'_>,
    out: &mut dyn ResultSink,
    file: &mut dyn LocalFile,
    cancel: &CancelToken,
) -> Result<()> {
    let statement = piece.parse();
    // These look at the warnings of the statement before.
    let keeps_warnings = match &statement {
        Ok(Statement::Show(Show::Warnings { .. }) | Statement::Diagnostics(_)) => true,
        Ok(Statement::Query(query)) => bare_list(query).is_some() && names_a_count(piece),
        _ => false,
    };
    if !keeps_warnings {
        session.warnings.clear();
    }
    if cancel.is_cancelled() {
        return Err(SqlError::interrupted());
    }
    let statement = statement?;
    run_when_open(session, statement, piece, out, file, cancel).await
}

/// Runs a statement, again if it found a table that another session kept to itself.
async fn run_when_open(
    session: &mut Session,
    mut statement: Statement,
    piece: Piece<'_>,
    out: &mut dyn ResultSink,
    file: &mut dyn LocalFile,
    cancel: &CancelToken,
) -> Result<()> {
    loop {
        session.forget_closed();
        let outcome = run_noted(session, statement, piece, out, file, cancel).await;
        if outcome.is_ok() || !session.wait_until_open(cancel).await? {
            return outcome;
        }
        session.warnings.clear();
        statement = piece.parse()?;
    }
}

/// Runs a statement with what evaluation says of it.
async fn run_noted(
    session: &mut Session,
    statement: Statement,
    piece: Piece<'_>,
    out: &mut dyn ResultSink,
    file: &mut dyn LocalFile,
    cancel: &CancelToken,
) -> Result<()> {
    let before = session.set_hinted(&statement);
    session.diagnostics = Diagnostics::new(division(session, &statement));
    // What an EXPLAIN left that was dropped.
    session.probe = None;
    let diagnostics = session.diagnostics.clone();
    let run = run_parsed(session, statement, piece, out, file, cancel);
    let outcome = Noted::new(run, diagnostics.clone()).await;
    session.unset_hinted(before);
    // A statement within this one, EXECUTE's, has reported its own.
    if Arc::ptr_eq(&session.diagnostics, &diagnostics) {
        session.report_divisions();
    }
    outcome
}

/// True if a statement names `@@warning_count` or `@@error_count`.
fn names_a_count(piece: Piece<'_>) -> bool {
    let names = piece.tokens.iter().filter_map(|token| match &token.token {
        Token::Word(word) => Some(word.value.to_ascii_lowercase()),
        _ => None,
    });
    let mut names = names.map(|name| name.trim_start_matches("@@").to_owned());
    names.any(|name| name == "warning_count" || name == "error_count")
}

/// What a division by zero is in a statement.
fn division(session: &Session, statement: &Statement) -> Division {
    let modes = session.modes();
    let changes = match statement {
        Statement::Insert(insert) => !insert.ignore,
        Statement::Update(update) => !update.ignore,
        Statement::Delete(delete) => !delete.ignore,
        Statement::Load(load) => load.existing != Existing::Ignored,
        Statement::Ddl(_) => true,
        // It is run.
        Statement::Explain(explain, explained) if explain.analyze => {
            return division(session, explained);
        }
        _ => false,
    };
    match modes.has(Modes::ERROR_FOR_DIVISION_BY_ZERO) {
        true if changes && modes.is_strict() => Division::Error,
        true => Division::Warning,
        false => Division::Null,
    }
}

/// Runs a statement that was parsed.
fn run_parsed<'a>(
    session: &'a mut Session,
    statement: Statement,
    piece: Piece<'a>,
    out: &'a mut dyn ResultSink,
    file: &'a mut dyn LocalFile,
    cancel: &'a CancelToken,
) -> BoxFuture<'a, Result<()>> {
    Box::pin(run_kind(session, statement, piece, out, file, cancel))
}

/// Runs a statement by what it is.
async fn run_kind(
    session: &mut Session,
    statement: Statement,
    piece: Piece<'_>,
    out: &mut dyn ResultSink,
    file: &mut dyn LocalFile,
    cancel: &CancelToken,
) -> Result<()> {
    if let Some(kind) = Kind::of(&statement) {
        session.frontend.statements.count(kind);
    }
    session.check_within_rows(&statement)?;
    if matches!(statement, Statement::Ddl(_)) || statement.commits_implicitly() {
        session.check_writable()?;
    }
    if statement.commits_implicitly() {
        session.commit_open().await?;
    }
    session.renew_rights()?;
    session.check_statement(&statement)?;
    match statement {
        Statement::Query(query) => match TimeLimit::of(session, &query, cancel) {
            Some(limit) => {
                let stop = limit.token();
                let run = restart::query(session, query, piece, out, &stop);
                limit.run(Box::pin(run)).await
            }
            None => restart::query(session, query, piece, out, cancel).await,
        },
        Statement::Explain(explain, explained) => {
            explain::run(session, explain, *explained, piece, out, cancel).await
        }
        Statement::ExplainConnection(explain, id) => {
            explain::of_connection(session, explain, id, out).await
        }
        Statement::Describe(table, column) => {
            show::describe(session, &table, column.as_deref(), out).await
        }
        Statement::Do(query) => {
            restart::query(session, query, piece, &mut Unshown, cancel).await?;
            done(session, out).await
        }
        Statement::Into(query, into) => {
            let ok = into::run(session, query, into, piece, cancel).await?;
            finish(session, ok, out).await
        }
        Statement::Flush => done(session, out).await,
        Statement::FlushLogs => {
            session.check_server(Privileges::RELOAD)?;
            session.frontend.slow_log.reopen();
            done(session, out).await
        }
        Statement::Lock(statement) => {
            table_locks::run(session, statement, cancel).await?;
            done(session, out).await
        }
        Statement::Show(show) => show::run(session, show, out).await,
        Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => {
            let ok = restart::change(session, statement, piece, cancel).await?;
            finish(session, ok, out).await
        }
        Statement::Load(load) => {
            let ok = load::run(session, &load, file, piece, cancel).await?;
            finish(session, ok, out).await
        }
        Statement::Analyze(statement) => analyze::run(session, &statement, out, cancel).await,
        Statement::Account(statement) => {
            accounts::run(session, *statement).await?;
            done(session, out).await
        }
        Statement::Ddl(statement) => {
            let _in_use = session.use_definitions(&statement, cancel).await?;
            let renames = session.renames(&statement)?;
            let ok = ddl::run(session, statement, piece, cancel).await?;
            session.rename_locked(&renames);
            finish(session, ok, out).await
        }
        Statement::Use(name) => {
            session.use_schema(&name)?;
            done(session, out).await
        }
        Statement::Set(assignments) => {
            set::run(session, assignments, piece, cancel).await?;
            done(session, out).await
        }
        Statement::Kill { id, query } => {
            session.check_kill(id)?;
            if !session.info.connections.kill(id, query) {
                return Err(SqlError::unknown_thread(id));
            }
            done(session, out).await
        }
        Statement::Transaction(statement) => {
            transaction::run(session, statement).await?;
            done(session, out).await
        }
        Statement::Prepare { name, text } => {
            prepared::prepare(session, name, text, cancel).await?;
            let info = "Statement prepared".to_owned();
            let ok = OkResult {
                info,
                ..OkResult::default()
            };
            finish(session, ok, out).await
        }
        Statement::Execute { name, using } => {
            // A prepared statement is no EXECUTE: this ends.
            Box::pin(prepared::execute(session, &name, &using, out, cancel)).await
        }
        Statement::Program(statement) => {
            program::define(session, statement, cancel).await?;
            done(session, out).await
        }
        Statement::Call(call) => {
            let ok = program::call(session, &call, out, cancel).await?;
            finish(session, ok, out).await
        }
        Statement::Signal(signal) => {
            program::signal(session, &signal, out, cancel).await?;
            done(session, out).await
        }
        Statement::Diagnostics(information) => {
            program::diagnostics(session, &information, out, cancel).await?;
            done(session, out).await?;
            session.row_count.stay();
            Ok(())
        }
        Statement::Deallocate(name) => {
            prepared::deallocate(session, &name)?;
            done(session, out).await
        }
    }
}

/// A result that nobody sees.
struct Unshown;

#[async_trait]
impl ResultSink for Unshown {
    async fn columns(&mut self, _: &[ResultColumn]) -> Result<()> {
        Ok(())
    }

    async fn rows(&mut self, _: &RecordBatch) -> Result<()> {
        Ok(())
    }

    async fn finish(&mut self, _: u16) -> Result<()> {
        Ok(())
    }

    async fn ok(&mut self, _: OkResult) -> Result<()> {
        Ok(())
    }
}

async fn done(session: &mut Session, out: &mut dyn ResultSink) -> Result<()> {
    finish(session, OkResult::default(), out).await
}

async fn finish(session: &mut Session, ok: OkResult, out: &mut dyn ResultSink) -> Result<()> {
    session.row_count.changed(ok.affected_rows);
    out.ok(OkResult {
        warnings: session.warning_count(),
        ..ok
    })
    .await
}
