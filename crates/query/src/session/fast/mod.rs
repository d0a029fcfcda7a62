//! The fast path: statements that read a row or a short range by key, from their text or their
//! syntax tree to their result without a planner.
//!
//! Invariants:
//! - a statement that runs here has the result that it has the ordinary way, metadata included;
//! - whatever is not plain (a value of another kind than its column, a range that is long, a value
//!   outside its type) goes the ordinary way, which also finds the error if it is one: nothing was
//!   delivered or changed before.

mod aggregate;
mod key;
mod names;
mod operand;
mod rows;
mod select;
mod shape;
mod shapes;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use perigee_engine::catalog::Table;
use perigee_engine::scan::{CancelToken, Records};
use perigee_value::Datum;

use super::Session;
use crate::error::{Result, SqlError};
use crate::parse::{Piece, Statement};
use crate::result::{ResultColumn, ResultSink};
use select::FastSelect;
pub(crate) use shapes::Known;
use shapes::Shapes;

/// A statement that the fast path runs, again and again with other parameters, as long as its table
/// is what it was.
#[derive(Debug)]
pub(crate) struct FastStatement {
    table: Arc<Table>,
    /// The table was named without its schema, and is that of the session's.
    by_schema: bool,
    /// Number of parameters.
    parameters: usize,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Select(FastSelect),
}

/// A statement that was recognised.
struct Recognised<S> {
    statement: S,
    table: Arc<Table>,
    parameters: usize,
    by_schema: bool,
}

/// How far the fast path came with a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The result was delivered.
    Done,
    /// Nothing was done: the statement is to be run the ordinary way.
    Ordinary,
}

/// What a session keeps for its fast statements.
#[derive(Debug, Default)]
pub(super) struct Fast {
    shapes: Shapes,
    /// Rows of the statement at hand; kept for their memory.
    records: Records,
}

/// Makes a fast statement of one whose question marks are parameters; `None` if it is none.
pub(crate) async fn compile(
    session: &Session,
    statement: &Statement,
    piece: Piece<'_>,
) -> Option<FastStatement> {
    if !session.frontend.config.fast_path {
        return None;
    }
    let Statement::Query(query) = statement else {
        return None;
    };
    let recognised = select::recognise(session, query, piece).await?;
    Some(FastStatement {
        table: recognised.table,
        by_schema: recognised.by_schema,
        parameters: recognised.parameters,
        body: Body::Select(recognised.statement),
    })
}

impl FastStatement {
    /// The columns of its result.
    pub(crate) fn columns(&self) -> Arc<[ResultColumn]> {
        match &self.body {
            Body::Select(select) => select.columns.clone(),
        }
    }

    /// True if the statement still means what it meant when it was compiled.
    pub(crate) fn is_current(&self, session: &Session) -> bool {
        let def = &self.table.def;
        if self.by_schema && session.schema.as_deref() != Some(&def.schema) {
            return false;
        }
        let table = session.frontend.engine.table(&def.schema, &def.name);
        table.is_ok_and(|table| Arc::ptr_eq(&table, &self.table))
    }
}

/// Runs a current statement with parameters.
///
/// # Errors
/// The error of the statement, which is undone.
pub(crate) async fn run(
    session: &mut Session,
    statement: &FastStatement,
    parameters: &[Datum],
    out: &mut dyn ResultSink,
    cancel: &CancelToken,
) -> Result<Answer> {
    if statement.parameters != parameters.len() {
        return Ok(Answer::Ordinary);
    }
    session.warnings.clear();
    if cancel.is_cancelled() {
        return Err(SqlError::interrupted());
    }
    let answer = match &statement.body {
        Body::Select(select) => {
            let table = &statement.table;
            select.run(session, table, parameters, out, cancel).await
        }
    };
    if !matches!(answer, Ok(Answer::Ordinary)) {
        let count = &session.frontend.fast_statements;
        count.fetch_add(1, Ordering::Relaxed);
    }
    answer
}

/// Runs the text of a statement if it is a fast one.
///
/// # Errors
/// As [`run`].
pub(super) async fn text(
    session: &mut Session,
    text: &str,
    out: &mut dyn ResultSink,
    cancel: &CancelToken,
) -> Result<Answer> {
    if !session.frontend.config.fast_path {
        return Ok(Answer::Ordinary);
    }
    let mut literals = std::mem::take(&mut session.fast.shapes.literals);
    let statement = shapes::statement(session, text, &mut literals).await;
    let answer = match statement {
        Some(statement) => run(session, &statement, &literals, out, cancel).await,
        None => Ok(Answer::Ordinary),
    };
    session.fast.shapes.literals = literals;
    if !matches!(answer, Ok(Answer::Ordinary)) {
        session.frontend.questions.fetch_add(1, Ordering::Relaxed);
    }
    answer
}
