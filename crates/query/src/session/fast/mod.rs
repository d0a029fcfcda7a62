//! The fast path: statements that read or write a row, or read a short range, by key, from their text or their
//! syntax tree to their result without a planner.
//!
//! Invariants:
//! - a statement that runs here has the result that it has the ordinary way, metadata included;
//! - whatever is not plain (a value of another kind than its column, a range that is long, a value
//!   outside its type) goes the ordinary way, which also finds the error if it is one: nothing was
//!   delivered or changed before.

mod aggregate;
mod change;
mod concat;
mod function;
mod insert;
mod key;
mod names;
mod operand;
mod rows;
mod select;
mod shape;
mod shapes;
mod values;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use perigee_accounts::Privileges;
use perigee_engine::catalog::Table;
use perigee_engine::scan::{CancelToken, Records};
use perigee_value::Datum;

use super::Session;
use super::counts::Kind;
use super::digests::Counted;
use crate::error::{Result, SqlError};
use crate::parse::{Piece, Statement};
use crate::result::{ResultColumn, ResultSink};
use change::{FastDelete, FastUpdate};
use insert::FastInsert;
use select::FastSelect;
pub(crate) use shapes::Known;
use shapes::Shapes;

/// A statement that the fast path runs, again and again with other parameters, as long as its table
/// is what it was.
#[derive(Debug)]
pub(crate) struct FastStatement {
    /// A session that keeps the statement does not keep the pages of a table that was dropped.
    table: Weak<Table>,
    /// The table was named without its schema, and is that of the session's.
    by_schema: bool,
    /// Number of parameters.
    parameters: usize,
    body: Body,
    /// How it is counted, as far as that is known.
    counted: Mutex<Option<Counted>>,
}

#[derive(Debug)]
enum Body {
    Select(FastSelect),
    Insert(FastInsert),
    Update(FastUpdate),
    Delete(FastDelete),
}

impl Body {
    /// What its table must be allowed to be used for: rows that change are found by their key.
    fn needed(&self) -> Privileges {
        match self {
            Self::Select(select) if select.locks_for_change() => {
                Privileges::SELECT.with(Privileges::UPDATE)
            }
            Self::Select(_) => Privileges::SELECT,
            Self::Insert(_) => Privileges::INSERT,
            Self::Update(_) => Privileges::UPDATE.with(Privileges::SELECT),
            Self::Delete(_) => Privileges::DELETE.with(Privileges::SELECT),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Select(_) => Kind::Select,
            Self::Insert(_) => Kind::Insert,
            Self::Update(_) => Kind::Update,
            Self::Delete(_) => Kind::Delete,
        }
    }
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
    let fast = match statement {
        Statement::Query(query) => select::recognise(session, query, piece)
            .await?
            .into_fast(Body::Select),
        Statement::Insert(insert) => insert::recognise(session, insert)?.into_fast(Body::Insert),
        Statement::Update(update) => change::update(session, update)?.into_fast(Body::Update),
        Statement::Delete(delete) => change::delete(session, delete)?.into_fast(Body::Delete),
        _ => return None,
    };
    // The ordinary way says what is not allowed.
    let table = fast.table.upgrade()?;
    session.may(fast.body.needed(), &table).then_some(fast)
}

impl<S> Recognised<S> {
    fn into_fast(self, body: impl FnOnce(S) -> Body) -> FastStatement {
        FastStatement {
            table: Arc::downgrade(&self.table),
            by_schema: self.by_schema,
            parameters: self.parameters,
            body: body(self.statement),
            counted: Mutex::default(),
        }
    }
}

impl FastStatement {
    /// The columns of its result; none if it has no result set.
    pub(crate) fn columns(&self) -> Arc<[ResultColumn]> {
        match &self.body {
            Body::Select(select) => select.columns.clone(),
            Body::Insert(_) | Body::Update(_) | Body::Delete(_) => Arc::new([]),
        }
    }

    /// True if the statement still means what it meant when it was compiled.
    pub(crate) fn is_current(&self, session: &Session) -> bool {
        let Some(own) = self.table.upgrade() else {
            return false;
        };
        let def = &own.def;
        if self.by_schema && session.schema.as_deref() != Some(def.shown_schema()) {
            return false;
        }
        session.still_means(&own)
    }

    async fn deliver(
        &self,
        session: &mut Session,
        parameters: &[Datum],
        out: &mut dyn ResultSink,
        cancel: &CancelToken,
    ) -> Result<Answer> {
        let Some(table) = &self.table.upgrade() else {
            return Ok(Answer::Ordinary);
        };
        if !session.may(self.body.needed(), table) || is_zoned(session, table) {
            return Ok(Answer::Ordinary);
        }
        let done = match &self.body {
            Body::Select(select) => {
                return select.run(session, table, parameters, out, cancel).await;
            }
            Body::Insert(insert) => insert.run(session, table, parameters, cancel).await?,
            Body::Update(update) => update.run(session, table, parameters, cancel).await?,
            Body::Delete(delete) => delete.run(session, table, parameters, cancel).await?,
        };
        let Some(ok) = done else {
            return Ok(Answer::Ordinary);
        };
        session.row_count.changed(ok.affected_rows);
        session.sent.add_affected(ok.affected_rows);
        out.ok(ok).await?;
        Ok(Answer::Done)
    }
}

/// True if values of a table may be others in the time zone of the session than in UTC.
fn is_zoned(session: &Session, table: &Table) -> bool {
    let def = &table.def;
    let mut columns = def.columns.iter();
    !session.zone().is_utc()
        && (!def.checks.is_empty() || columns.any(|column| column.ty.is_timestamp()))
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
    // What SET TRANSACTION said is for one transaction, which the ordinary way begins.
    let next = &session.next_transaction;
    let plain = next.isolation.is_none() && next.read_only.is_none();
    if !plain || statement.parameters != parameters.len() {
        return Ok(Answer::Ordinary);
    }
    session.warnings.clear();
    if cancel.is_cancelled() {
        return Err(SqlError::interrupted());
    }
    session.row_count.begin();
    let answer = statement.deliver(session, parameters, out, cancel).await;
    // The definition changed since the look at it; nothing was delivered.
    let answer = match answer {
        Err(error) if error.errno == SqlError::table_changed().errno => Ok(Answer::Ordinary),
        answer => answer,
    };
    if !matches!(answer, Ok(Answer::Ordinary)) {
        session.row_count.end(answer.is_ok());
        let frontend = &session.frontend;
        frontend.fast_statements.fetch_add(1, Ordering::Relaxed);
        frontend.statements.count(statement.body.kind());
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
        Some(statement) => {
            let begun = session.begin_measuring();
            let answer = run(session, &statement, &literals, out, cancel).await;
            if !matches!(answer, Ok(Answer::Ordinary)) {
                let mut counted = statement.counted.lock();
                session.end_measuring(begun, &answer, (text, &mut *counted));
            }
            answer
        }
        None => Ok(Answer::Ordinary),
    };
    session.fast.shapes.literals = literals;
    if !matches!(answer, Ok(Answer::Ordinary)) {
        session.frontend.questions.fetch_add(1, Ordering::Relaxed);
    }
    answer
}
