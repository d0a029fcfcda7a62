//! Prepared statements: parsed once, executed with values in the places of their parameters.
//!
//! A statement that the fast path runs is compiled once, and again when its table has changed. The
//! general way of an execution: tokens of literals stand in for the `?`s of the statement, which
//! then goes the way of all statements. No text is put together and read again, so a value can be
//! nothing but a value.
//!
//! Invariants
//! - Q8: a statement that parses with `?`s parses to the same tree with literals in their places.
//! - A statement keeps the schema that was current when it was prepared, as in MySQL.
//! - All sessions together keep at most `max_prepared_stmt_count` statements.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use perigee_engine::Errand;
use perigee_engine::scan::CancelToken;
use perigee_sql_bind::Modes;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::digests::Counted;
use super::fast::{self, FastStatement, Known};
use super::measure::Counting;
use super::parameter::Parameters;
use super::turn::Turns;
use super::{Frontend, Session, analyze, select, statement};
use crate::error::{Result, SqlError};
use crate::memory::Charge;
use crate::parse::{
    Cursor, Footprint, Grammar, LockStatement, LongLists, MoreRows, Piece, PreparedText, Script,
    Statement, TransactionStatement, syntax_error, with_literals,
};
use crate::result::{NoFile, OkResult, ResultColumn, ResultSink};

/// What a client is told of a statement that was prepared.
#[derive(Clone, Debug)]
pub struct PreparedInfo {
    /// Its number, for executing and closing it.
    pub id: u32,
    /// How many parameters it has.
    pub parameters: u16,
    /// The columns of its result; empty if it has none or if they cannot be known before the
    /// parameters have values. Executions whose result has the same share them.
    pub columns: Arc<[ResultColumn]>,
}

/// The prepared statements of a session.
#[derive(Default)]
pub(super) struct PreparedStatements {
    by_id: HashMap<u32, Arc<PreparedStatement>>,
    /// Those of SQL's PREPARE.
    by_name: HashMap<String, Arc<PreparedStatement>>,
    last_id: u32,
}

impl PreparedStatements {
    /// Keeps a statement under an id that no other has.
    fn insert(&mut self, statement: PreparedStatement) -> u32 {
        loop {
            self.last_id = self.last_id.wrapping_add(1);
            if self.last_id != 0 && !self.by_id.contains_key(&self.last_id) {
                break;
            }
        }
        self.by_id.insert(self.last_id, Arc::new(statement));
        self.last_id
    }
}

/// Counters of prepared statements that SHOW STATUS lists.
#[derive(Debug, Default)]
pub(super) struct PreparedCounters {
    prepare: AtomicU64,
    execute: AtomicU64,
    close: AtomicU64,
    /// Statements that are prepared now.
    count: AtomicU64,
}

impl PreparedCounters {
    /// Statements that are prepared now.
    pub(super) fn prepared_now(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Names and values.
    pub(super) fn all(&self) -> [(&'static str, u64); 4] {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("Com_stmt_close", get(&self.close)),
            ("Com_stmt_execute", get(&self.execute)),
            ("Com_stmt_prepare", get(&self.prepare)),
            ("Prepared_stmt_count", get(&self.count)),
        ]
    }
}

/// A place among the prepared statements of all sessions, given back when it is dropped.
struct Place(Arc<Frontend>);

impl Place {
    fn take(frontend: &Arc<Frontend>) -> Result<Self> {
        let limit = frontend.globals.read().integer("max_prepared_stmt_count");
        let count = &frontend.prepared.count;
        let one_more = |count: u64| (count < limit).then_some(count + 1);
        match count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(Self(frontend.clone())),
            Err(_) => Err(SqlError::too_many_prepared(limit)),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.prepared.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A prepared statement.
pub(super) struct PreparedStatement {
    template: Template,
    /// The columns of its result, as far as they are known.
    columns: Arc<[ResultColumn]>,
    /// What the fast path made of it.
    compiled: Mutex<Known>,
    /// How it is counted, as far as that is known.
    counted: Mutex<Option<Counted>>,
    /// The schema that was current.
    schema: Option<String>,
    footprint: Footprint,
    _place: Place,
    /// For as long as it is kept.
    _charge: Charge,
}

impl PreparedStatement {
    /// The fast statement that it is at present, if it is one.
    async fn fast(&self, session: &Session) -> Option<Arc<FastStatement>> {
        if let Some(recalled) = self.compiled.lock().recall(session) {
            return recalled;
        }
        let found = self.template.compile(session).await;
        *self.compiled.lock() = found.clone().into();
        found
    }
}

/// A statement with places for values.
struct Template {
    text: String,
    /// The statement's tokens; their places refer to `text`.
    tokens: Vec<TokenWithSpan>,
    /// Which of them are parameters.
    parameters: Vec<usize>,
    /// The statement with its parameters as placeholders.
    statement: Statement,
    /// The grammar of the modes in which it was prepared.
    grammar: &'static Grammar,
}

impl Template {
    /// Parses a text of one statement.
    fn new(text: &str, modes: Modes) -> Result<Self> {
        let script = Script::in_modes(text, modes)?;
        let mut pieces = script.pieces();
        let piece = pieces.next().ok_or_else(SqlError::empty_query)?;
        if let Some(second) = pieces.next() {
            return Err(Cursor::new(second).error());
        }
        let mut parameters = Vec::new();
        for (i, token) in piece.tokens.iter().enumerate() {
            match &token.token {
                Token::Placeholder(mark) if mark == "?" => parameters.push(i),
                Token::Placeholder(_) => return Err(syntax_error(text, token.span.start)),
                _ => {}
            }
        }
        if parameters.len() > usize::from(u16::MAX) {
            return Err(SqlError::too_many_placeholders());
        }
        let statement = piece.parse()?;
        if !can_be_prepared(&statement) {
            return Err(SqlError::not_preparable());
        }
        Ok(Self {
            grammar: piece.grammar,
            tokens: piece.tokens.to_vec(),
            parameters,
            statement,
            text: text.to_owned(),
        })
    }

    /// The fast statement that it is at present, if it is one.
    async fn compile(&self, session: &Session) -> Option<Arc<FastStatement>> {
        let piece = self.piece(&self.tokens);
        let compiled = fast::compile(session, &self.statement, piece).await;
        compiled.map(Arc::new)
    }

    /// The tokens of the statement with each parameter replaced by those of a literal.
    fn with_literals(
        &self,
        literal: impl FnMut(usize) -> Result<Vec<Token>>,
    ) -> Result<Vec<TokenWithSpan>> {
        with_literals(&self.tokens, &self.parameters, literal)
    }

    /// The statement with these tokens.
    fn piece<'a>(&'a self, tokens: &'a [TokenWithSpan]) -> Piece<'a> {
        Piece {
            text: &self.text,
            tokens,
            more_rows: MoreRows::default(),
            lists: LongLists::default(),
            grammar: self.grammar,
        }
    }

    /// [`Self::result_columns`], after other sessions have ended that keep tables to themselves.
    async fn columns_when_open(
        &self,
        session: &mut Session,
        cancel: &CancelToken,
    ) -> Result<Vec<ResultColumn>> {
        loop {
            session.forget_closed();
            let columns = self.result_columns(session, cancel).await;
            if columns.is_ok() || !session.wait_until_open(cancel).await? {
                return columns;
            }
        }
    }

    /// The columns of the result, as far as they are known without values for the parameters. An
    /// error is one that every execution would end with.
    async fn result_columns(
        &self,
        session: &mut Session,
        cancel: &CancelToken,
    ) -> Result<Vec<ResultColumn>> {
        match &self.statement {
            Statement::Query(_) => self.query_columns(session, cancel).await,
            // These only look, and have no parameters.
            Statement::Show(_) | Statement::Describe(..) => {
                let mut sink = OnlyColumns::default();
                let piece = self.piece(&self.tokens);
                let mut file = NoFile;
                let run = statement::run(session, piece, &mut sink, &mut file, cancel);
                Box::pin(run).await?;
                Ok(sink.0)
            }
            Statement::Analyze(_) => Ok(analyze::columns()),
            _ => Ok(Vec::new()),
        }
    }

    /// Plans the query with every parameter NULL, or else, since NULL may not stand everywhere, 1.
    async fn query_columns(
        &self,
        session: &Session,
        cancel: &CancelToken,
    ) -> Result<Vec<ResultColumn>> {
        let mut outcome = Ok(Vec::new());
        for dummy in [
            Token::make_keyword("NULL"),
            Token::Number("1".into(), false),
        ] {
            let tokens = self.with_literals(|_| Ok(vec![dummy.clone()]))?;
            let piece = self.piece(&tokens);
            outcome = match piece.parse() {
                Ok(Statement::Query(query)) => {
                    let view = session.current_view();
                    let reading = select::Reading::snapshot(view, cancel);
                    select::prepare(session, &query, piece, reading)
                        .await
                        .map(|prepared| prepared.columns())
                }
                Ok(_) => Ok(Vec::new()),
                Err(error) => Err(error),
            };
            match &outcome {
                Err(error) if !is_of_names(error) && !self.parameters.is_empty() => {}
                _ => return outcome,
            }
        }
        // Values may do what dummies did not.
        outcome.or_else(|_| Ok(Vec::new()))
    }
}

/// True for errors of names, which no value of a parameter mends.
fn is_of_names(error: &SqlError) -> bool {
    // No schema, unknown or ambiguous schema, table, column; interrupted.
    matches!(
        error.errno,
        1046 | 1049 | 1051 | 1052 | 1054 | 1066 | 1109 | 1146 | 1317
    )
}

/// True for statements that MySQL prepares.
fn can_be_prepared(statement: &Statement) -> bool {
    !matches!(
        statement,
        Statement::Load(_)
            | Statement::Lock(LockStatement::Tables(_) | LockStatement::Unlock)
            | Statement::Use(_)
            | Statement::Transaction(TransactionStatement::Begin { .. })
            | Statement::Prepare { .. }
            | Statement::Execute { .. }
            | Statement::Deallocate(_)
    )
}

/// Keeps the columns of the first result and drops its rows.
#[derive(Default)]
struct OnlyColumns(Vec<ResultColumn>);

#[async_trait]
impl ResultSink for OnlyColumns {
    async fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        self.0 = columns.to_vec();
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

/// Hands results on, and says which have the columns that were announced.
struct Announced<'a> {
    columns: &'a Arc<[ResultColumn]>,
    out: &'a mut dyn ResultSink,
}

#[async_trait]
impl ResultSink for Announced<'_> {
    async fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        if columns == &**self.columns {
            self.out.shared_columns(self.columns).await
        } else {
            self.out.columns(columns).await
        }
    }

    async fn shared_columns(&mut self, columns: &Arc<[ResultColumn]>) -> Result<()> {
        self.out.shared_columns(columns).await
    }

    async fn rows(&mut self, batch: &RecordBatch) -> Result<()> {
        self.out.rows(batch).await
    }

    async fn finish(&mut self, warnings: u16) -> Result<()> {
        self.out.finish(warnings).await
    }

    async fn ok(&mut self, ok: OkResult) -> Result<()> {
        self.out.ok(ok).await
    }
}

impl Session {
    /// Prepares a text of one statement.
    ///
    /// # Errors
    /// 1064 and 1065 for what is no statement, 1295 for statements that are not prepared, 1390 and
    /// 1461 for too many parameters and statements, and errors of the names in a query.
    pub fn prepare<'a>(
        &'a mut self,
        text: &'a str,
        cancel: &'a CancelToken,
    ) -> BoxFuture<'a, Result<PreparedInfo>> {
        let prepare = Box::pin(async move {
            self.warnings.clear();
            self.renew_rights()?;
            let frontend = self.frontend.clone();
            let preparing = Box::pin(self.parse_and_describe(text, cancel));
            let prepared = Turns::new(&frontend.places, text, cancel, preparing).await;
            let statement = prepared.inspect_err(|error| self.note_error(error))?;
            Ok(PreparedInfo {
                parameters: statement.template.parameters.len() as u16,
                columns: statement.columns.clone(),
                id: self.prepared.insert(statement),
            })
        });
        Box::pin(Errand::new(cancel).run(prepare))
    }

    async fn parse_and_describe(
        &mut self,
        text: &str,
        cancel: &CancelToken,
    ) -> Result<PreparedStatement> {
        count(&self.frontend.prepared.prepare);
        let place = Place::take(&self.frontend)?;
        let footprint = Footprint::of(text);
        let mut charge = self.frontend.memory.charge(0)?;
        self.admit(footprint.parsed(), &mut charge)?;
        let charge = self.charged(charge);
        let template = Template::new(text, self.modes())?;
        let compiled = template.compile(self).await;
        let columns = match &compiled {
            Some(compiled) => compiled.columns(),
            None => template.columns_when_open(self, cancel).await?.into(),
        };
        drop(charge);
        let charge = self.frontend.memory.charge(footprint.kept())?;
        Ok(PreparedStatement {
            template,
            columns,
            compiled: Mutex::new(compiled.into()),
            counted: Mutex::default(),
            schema: self.schema.clone(),
            footprint,
            _place: place,
            _charge: charge,
        })
    }

    /// Executes a prepared statement with a value for each of its parameters.
    ///
    /// # Errors
    /// 1243 for an unknown id, 1210 for a wrong number of values, and the statement's own.
    pub fn execute_prepared<'a>(
        &'a mut self,
        id: u32,
        parameters: &'a Parameters,
        out: &'a mut dyn ResultSink,
        cancel: &'a CancelToken,
    ) -> BoxFuture<'a, Result<()>> {
        let execute = Box::pin(async move {
            self.check_fence().await?;
            self.renew_rights()?;
            let outcome = match self.prepared.by_id.get(&id).cloned() {
                Some(statement) => {
                    self.frontend.questions.fetch_add(1, Ordering::Relaxed);
                    let begun = self.begin_measuring();
                    let outcome = self.run_prepared(&statement, parameters, out, cancel).await;
                    let text = statement.template.text.as_str();
                    let mut counted = statement.counted.lock();
                    self.end_measuring(begun, &outcome, (text, &mut *counted));
                    outcome
                }
                None => Err(SqlError::unknown_statement(id, "mysqld_stmt_execute")),
            };
            outcome.inspect_err(|error| self.note_error(error))
        });
        Box::pin(Errand::new(cancel).run(execute))
    }

    /// Forgets a prepared statement; nothing happens if there is none of that id.
    pub fn close_prepared(&mut self, id: u32) {
        if self.prepared.by_id.remove(&id).is_some() {
            count(&self.frontend.prepared.close);
        }
    }

    async fn run_prepared(
        &mut self,
        statement: &PreparedStatement,
        parameters: &Parameters,
        out: &mut dyn ResultSink,
        cancel: &CancelToken,
    ) -> Result<()> {
        count(&self.frontend.prepared.execute);
        if parameters.values().len() != statement.template.parameters.len() {
            return Err(SqlError::wrong_arguments_to("EXECUTE"));
        }
        let left = self.enter_schema(statement.schema.as_deref());
        let outcome = self
            .run_either_way(statement, parameters, out, cancel)
            .await;
        if let Some(schema) = left {
            self.return_to_schema(schema);
        }
        outcome
    }

    async fn run_either_way(
        &mut self,
        statement: &PreparedStatement,
        parameters: &Parameters,
        out: &mut dyn ResultSink,
        cancel: &CancelToken,
    ) -> Result<()> {
        if parameters.are_utf8()
            && let Some(fast) = statement.fast(self).await
            && fast::run(self, &fast, parameters.values(), out, cancel).await? == fast::Answer::Done
        {
            return Ok(());
        }
        let frontend = self.frontend.clone();
        let text = &statement.template.text;
        let run = self.run_with_literals(statement, parameters, out, cancel);
        Turns::new(&frontend.places, text, cancel, run).await
    }

    /// The general way of an execution.
    fn run_with_literals<'a>(
        &'a mut self,
        statement: &'a PreparedStatement,
        parameters: &'a Parameters,
        out: &'a mut dyn ResultSink,
        cancel: &'a CancelToken,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let template = &statement.template;
            let mut charge = self.frontend.memory.charge(0)?;
            let footprint = statement.footprint.with(parameters.bytes());
            self.admit(footprint.parsed(), &mut charge)?;
            let _charge = self.charged(charge);
            let tokens = template.with_literals(|number| parameters.literal(number))?;
            let piece = template.piece(&tokens);
            let mut out = Announced {
                columns: &statement.columns,
                out,
            };
            let mut out = Counting::new(&mut out, &self.sent);
            statement::run(self, piece, &mut out, &mut NoFile, cancel).await
        })
    }

    /// Makes a statement's schema the current one; gives the one before if it was another.
    fn enter_schema(&mut self, schema: Option<&str>) -> Option<Option<String>> {
        if self.schema.as_deref() == schema {
            return None;
        }
        Some(std::mem::replace(
            &mut self.schema,
            schema.map(str::to_owned),
        ))
    }

    /// Makes a schema the current one again, unless it was dropped meanwhile.
    fn return_to_schema(&mut self, schema: Option<String>) {
        self.schema = schema.filter(|schema| self.has_schema(schema));
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// PREPARE.
pub(super) async fn prepare(
    session: &mut Session,
    name: String,
    text: PreparedText,
    cancel: &CancelToken,
) -> Result<()> {
    // Also if the new statement turns out to be wrong.
    session.prepared.by_name.remove(&name);
    let text = match text {
        PreparedText::Text(text) => text,
        // MySQL takes an unset variable for the text NULL.
        PreparedText::Variable(name) => {
            let value = session.user_variables.get(&name);
            value.shown().unwrap_or_else(|| "NULL".to_owned())
        }
    };
    let statement = session.parse_and_describe(&text, cancel).await?;
    session.prepared.by_name.insert(name, Arc::new(statement));
    Ok(())
}

/// EXECUTE.
pub(super) async fn execute(
    session: &mut Session,
    name: &str,
    using: &[String],
    out: &mut dyn ResultSink,
    cancel: &CancelToken,
) -> Result<()> {
    let statement = session.prepared.by_name.get(name).cloned();
    let statement = statement.ok_or_else(|| SqlError::unknown_statement(name, "EXECUTE"))?;
    let mut parameters = Parameters::default();
    for name in using {
        parameters.push(session.user_variables.get(name).parameter()?);
    }
    session
        .run_prepared(&statement, &parameters, out, cancel)
        .await
}

/// DEALLOCATE PREPARE.
pub(super) fn deallocate(session: &mut Session, name: &str) -> Result<()> {
    match session.prepared.by_name.remove(name) {
        Some(_) => {
            count(&session.frontend.prepared.close);
            Ok(())
        }
        None => Err(SqlError::unknown_statement(name, "DEALLOCATE PREPARE")),
    }
}

#[cfg(test)]
mod tests;
