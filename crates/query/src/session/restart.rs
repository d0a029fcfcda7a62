//! Statements that begin anew because a definition changed after they had looked at it: MySQL's wait
//! for such changes, so their clients do not expect the error. It is left to a transaction whose
//! snapshot is older than the change.

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use perigee_engine::freeing_space;
use perigee_engine::scan::CancelToken;
use sqlparser::ast::Query;

use super::{Session, dml, insert, select};
use crate::error::{Result, SqlError};
use crate::parse::{Piece, Statement};
use crate::result::{OkResult, ResultColumn, ResultSink};

/// How often a statement is run: each time it has waited for a change to end, so more of them means that
/// there is no end of changes.
pub(super) const ATTEMPTS: usize = 100;

/// Runs a SELECT.
pub(super) async fn query(
    session: &mut Session,
    mut query: Box<Query>,
    piece: Piece<'_>,
    out: &mut dyn ResultSink,
    cancel: &CancelToken,
) -> Result<()> {
    let had_snapshot = session.has_snapshot();
    for _ in 1..ATTEMPTS {
        let mut watched = Watched { out, begun: false };
        let outcome = select::run(session, query, piece, &mut watched, cancel).await;
        if had_snapshot || watched.begun || !is_changed(&outcome) {
            return outcome;
        }
        session.begin_anew(had_snapshot);
        match piece.parse()? {
            Statement::Query(again) | Statement::Into(again, _) | Statement::Do(again) => {
                query = again;
            }
            _ => return outcome,
        }
    }
    select::run(session, query, piece, out, cancel).await
}

/// Runs a statement that changes rows.
pub(super) async fn change(
    session: &mut Session,
    mut statement: Statement,
    piece: Piece<'_>,
    cancel: &CancelToken,
) -> Result<OkResult> {
    let had_snapshot = session.has_snapshot();
    for _ in 1..ATTEMPTS {
        let outcome = change_once(session, statement, piece, cancel).await;
        if !is_changed(&outcome) {
            return outcome;
        }
        session.begin_anew(had_snapshot);
        statement = piece.parse()?;
    }
    change_once(session, statement, piece, cancel).await
}

async fn change_once(
    session: &mut Session,
    statement: Statement,
    piece: Piece<'_>,
    cancel: &CancelToken,
) -> Result<OkResult> {
    match statement {
        Statement::Insert(insert) => insert::run(session, *insert, piece, cancel).await,
        Statement::Update(update) => dml::update(session, *update, piece, cancel).await,
        Statement::Delete(delete) => {
            freeing_space(Box::pin(dml::delete(session, *delete, piece, cancel))).await
        }
        _ => Err(SqlError::unknown("Q8: a statement that changes no rows")),
    }
}

/// True if a definition changed after the statement had looked at it.
pub(super) fn is_changed<T>(outcome: &Result<T>) -> bool {
    let changed = SqlError::table_changed().errno;
    outcome.as_ref().is_err_and(|error| error.errno == changed)
}

/// Hands results on, and knows whether a client has seen any of them.
struct Watched<'a> {
    out: &'a mut dyn ResultSink,
    begun: bool,
}

#[async_trait]
impl ResultSink for Watched<'_> {
    async fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        self.begun = true;
        self.out.columns(columns).await
    }

    async fn rows(&mut self, batch: &RecordBatch) -> Result<()> {
        self.out.rows(batch).await
    }

    async fn finish(&mut self, warnings: u16) -> Result<()> {
        self.out.finish(warnings).await
    }

    async fn ok(&mut self, ok: OkResult) -> Result<()> {
        self.begun = true;
        self.out.ok(ok).await
    }
}
