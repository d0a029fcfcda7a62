//! Runs programs.

use futures::future::BoxFuture;
use perigee_engine::scan::CancelToken;
use perigee_sql_bind::Modes;
use perigee_value::Datum;

use super::frame::{Frame, Row1};
use super::grown::Grown;
use super::rows::{Row, Rows};
use super::within::Within;
use super::{call, raise};
use crate::diagnostics::{Diagnostics, Division, Noted};
use crate::error::{Result, SqlError};
use crate::parse::{
    Block, Code, Declared, Given, Handler, Label, Piece, Program, Slot, Statement, Step, Until,
};
use crate::result::{NoFile, OkResult, ResultSink};
use crate::session::user_variables::UserValue;
use crate::session::{Session, restart, statement};

/// How a statement ends.
pub(super) enum Flow {
    /// The next one comes.
    Next,
    /// A block or loop ends.
    Leave(Label),
    /// A loop begins its next round.
    Iterate(Label),
}

/// A running program.
pub(super) struct Run<'r> {
    pub session: &'r mut Session,
    pub out: &'r mut dyn ResultSink,
    pub cancel: &'r CancelToken,
    pub frame: Frame,
    /// The blocks that are running, with their handlers.
    blocks: Vec<(Label, &'r [Handler])>,
    /// What the handlers that are running are for, the innermost last, and whether it is an error.
    pub handling: Vec<(SqlError, bool)>,
    /// The outcome of the last statement that has one.
    pub ok: OkResult,
    /// The queries of the cursors that are declared.
    queries: Vec<Option<&'r Code>>,
    /// Steps since others were let on.
    steps: u32,
}

impl<'r> Run<'r> {
    /// Nothing has run yet.
    pub fn new(
        session: &'r mut Session,
        out: &'r mut dyn ResultSink,
        cancel: &'r CancelToken,
        frame: Frame,
    ) -> Self {
        Self {
            session,
            out,
            cancel,
            frame,
            blocks: Vec::new(),
            handling: Vec::new(),
            ok: OkResult::default(),
            queries: Vec::new(),
            steps: 0,
        }
    }

    /// Runs the program.
    ///
    /// # Errors
    /// Those that it does not handle.
    pub async fn program(&mut self, program: &'r Program) -> Result<()> {
        self.step(&program.body).await.map(drop)
    }

    async fn list(&mut self, steps: &'r [Step]) -> Result<Flow> {
        for step in steps {
            match self.step(step).await? {
                Flow::Next => {}
                flow => return Ok(flow),
            }
        }
        Ok(Flow::Next)
    }

    /// Runs a statement, and the handler for what it raises.
    fn step<'s>(&'s mut self, step: &'r Step) -> Grown<'s, Result<Flow>>
    where
        'r: 's,
    {
        Grown(Box::pin(async move {
            self.turn().await?;
            match step {
                Step::Block(block) => return self.block(block).await,
                Step::Loop {
                    label,
                    until,
                    steps,
                } => return self.looped(*label, until, steps).await,
                Step::If {
                    branches,
                    otherwise,
                } => return self.branch(branches, otherwise.as_deref()).await,
                Step::Leave(label) => return Ok(Flow::Leave(*label)),
                Step::Iterate(label) => return Ok(Flow::Iterate(*label)),
                _ => {}
            }
            let looks = matches!(step, Step::Diagnostics(_));
            // Other statements clear what they find, or keep it to show it.
            if !looks && !matches!(step, Step::Statement(_)) {
                self.session.warnings.clear();
            }
            match self.simple(step).await {
                Ok(()) if looks => Ok(Flow::Next),
                outcome => self.handled(outcome).await,
            }
        }))
    }

    /// Looks whether the program is stopped, and now and then lets others on.
    async fn turn(&mut self) -> Result<()> {
        if self.cancel.is_cancelled() {
            return Err(SqlError::interrupted());
        }
        self.steps += 1;
        if self.steps.is_multiple_of(64) {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Runs a statement that has none in it.
    fn simple<'s>(&'s mut self, step: &'r Step) -> BoxFuture<'s, Result<()>>
    where
        'r: 's,
    {
        Box::pin(async move {
            match step {
                Step::Statement(code) => self.statement(code).await,
                Step::Assign(assigned) => {
                    for (target, code) in assigned {
                        let value = self.value(code).await?;
                        self.give(target, value)?;
                        // Of a variable of the program it is no statement.
                        if matches!(target, Given::User(_)) {
                            self.session.row_count.set(0);
                        }
                    }
                    Ok(())
                }
                Step::Into(code, targets) => self.into(code, targets).await,
                Step::Open(cursor) => self.open(*cursor).await,
                Step::Fetch(cursor, slots) => {
                    let row = self.frame.fetch(*cursor, slots.len())?;
                    for (slot, value) in slots.iter().zip(row) {
                        self.frame.assign(*slot, value, self.session)?;
                    }
                    Ok(())
                }
                Step::Close(cursor) => self.frame.close(*cursor),
                Step::Call(called) => {
                    call::nested(self, called).await?;
                    // A result set changes none.
                    let last = self.session.row_count.last();
                    self.session.row_count.set(u64::try_from(last).unwrap_or(0));
                    Ok(())
                }
                Step::Signal(signal) => {
                    raise::signal(self, signal).await?;
                    self.session.row_count.set(0);
                    Ok(())
                }
                Step::Diagnostics(information) => raise::diagnostics(self, information).await,
                Step::Block(_)
                | Step::Loop { .. }
                | Step::If { .. }
                | Step::Leave(_)
                | Step::Iterate(_) => Err(SqlError::unknown("a statement that has others in it")),
            }
        })
    }

    /// Runs the handler for what a statement raised, if there is one.
    async fn handled(&mut self, outcome: Result<()>) -> Result<Flow> {
        let (error, is_error) = match outcome {
            Err(error) => {
                self.session.row_count.end(false);
                (error, true)
            }
            Ok(()) => match self.session.last_warning() {
                Some(warning) => (warning, false),
                None => return Ok(Flow::Next),
            },
        };
        // Who is stopped does nothing more.
        let stopped = self.cancel.is_cancelled()
            || error.errno == SqlError::interrupted().errno
            || self.session.has_lost_transaction();
        let found = match stopped {
            true => None,
            false => self.handler(&error, is_error),
        };
        let Some((at, handler)) = found else {
            return match is_error {
                true => Err(error),
                false => Ok(Flow::Next),
            };
        };
        if is_error {
            self.session.note_error(&error);
        }
        // Its own block's handlers are not for what it raises.
        let inner = self.blocks.split_off(at);
        let label = inner[0].0;
        self.handling.push((error, is_error));
        let ran = self.step(&handler.body).await;
        self.handling.pop();
        self.blocks.extend(inner);
        match ran? {
            Flow::Next if handler.exits => Ok(Flow::Leave(label)),
            flow => Ok(flow),
        }
    }

    /// The handler for what was raised, in the innermost block that has one, there the most exact one.
    fn handler(&self, error: &SqlError, is_error: bool) -> Option<(usize, &'r Handler)> {
        for (at, (_, handlers)) in self.blocks.iter().enumerate().rev() {
            let exact = |handler: &Handler| {
                let conditions = handler.conditions.iter();
                let fits = conditions.map(|c| c.fits(error.errno, error.sqlstate, is_error));
                fits.max().flatten()
            };
            let fitting = handlers.iter().filter(|handler| exact(handler).is_some());
            if let Some(best) = fitting.max_by_key(|handler| exact(handler)) {
                return Some((at, best));
            }
        }
        None
    }

    async fn block(&mut self, block: &'r Block) -> Result<Flow> {
        let depth = self.blocks.len();
        let ran = match self.declare(&block.variables).await {
            Ok(()) => {
                self.blocks.push((block.label, &block.handlers));
                self.declare_cursors(block);
                self.list(&block.steps).await
            }
            // What a default raises is handled around the block, which does not run then.
            Err(error) => self.handled(Err(error)).await,
        };
        self.blocks.truncate(depth);
        self.frame
            .end(block.cursors.iter().map(|(cursor, _)| *cursor));
        match ran? {
            Flow::Leave(label) if label == block.label => Ok(Flow::Next),
            flow => Ok(flow),
        }
    }

    async fn declare(&mut self, variables: &'r [Declared]) -> Result<()> {
        for declared in variables {
            let default = match &declared.default {
                Some(code) => Some(self.value(code).await?),
                None => None,
            };
            for (slot, column) in &declared.variables {
                self.frame.declare(*slot, column, self.session.zone())?;
                if let Some(value) = &default {
                    self.frame.assign(*slot, value.clone(), self.session)?;
                }
            }
        }
        Ok(())
    }

    fn declare_cursors(&mut self, block: &'r Block) {
        for (cursor, query) in &block.cursors {
            let known = self.queries.len().max(cursor + 1);
            self.queries.resize(known, None);
            self.queries[*cursor] = Some(query);
        }
    }

    async fn branch(
        &mut self,
        branches: &'r [(Code, Vec<Step>)],
        otherwise: Option<&'r [Step]>,
    ) -> Result<Flow> {
        for (condition, steps) in branches {
            match self.holds(condition).await {
                Ok(true) => return self.list(steps).await,
                Ok(false) => {}
                Err(error) => return self.handled(Err(error)).await,
            }
        }
        match otherwise {
            Some(steps) => self.list(steps).await,
            None => self.handled(Err(SqlError::case_not_found())).await,
        }
    }

    async fn looped(&mut self, own: Label, until: &'r Until, steps: &'r [Step]) -> Result<Flow> {
        loop {
            self.turn().await?;
            if let Until::Not(condition) = until {
                match self.holds(condition).await {
                    Ok(true) => {}
                    Ok(false) => return Ok(Flow::Next),
                    Err(error) => return self.handled(Err(error)).await,
                }
            }
            match self.list(steps).await? {
                Flow::Next => {}
                Flow::Iterate(label) if label == own => continue,
                Flow::Leave(label) if label == own => return Ok(Flow::Next),
                flow => return Ok(flow),
            }
            if let Until::Holds(condition) = until {
                match self.holds(condition).await {
                    Ok(true) => return Ok(Flow::Next),
                    Ok(false) => {}
                    Err(error) => return self.handled(Err(error)).await,
                }
            }
        }
    }

    /// Runs a statement of its own.
    async fn statement(&mut self, code: &Code) -> Result<()> {
        let tokens = self.tokens(code)?;
        let mut within = Within {
            out: self.out,
            ok: None,
        };
        let (piece, cancel) = (code.piece(&tokens), self.cancel);
        statement::run(self.session, piece, &mut within, &mut NoFile, cancel).await?;
        if let Some(ok) = within.ok {
            self.ok = ok;
        }
        Ok(())
    }

    fn tokens(&self, code: &Code) -> Result<Vec<sqlparser::tokenizer::TokenWithSpan>> {
        let zone = self.session.zone();
        code.tokens(|slot: Slot| self.frame.literal(slot, zone))
    }

    /// Runs a query for its rows, of which there may be so many.
    async fn rows(&mut self, code: &Code, most: usize) -> Result<Rows> {
        let mut rows = Rows::new(most, &self.session.frontend.memory)?;
        let tokens = self.tokens(code)?;
        let piece = code.piece(&tokens);
        run_query(self.session, piece, &mut rows, self.cancel).await?;
        Ok(rows)
    }

    /// The value of an expression.
    pub async fn value(&mut self, code: &Code) -> Result<Row1> {
        let row = self.rows(code, 1).await?.into_first();
        let value = row.and_then(|row| row.into_iter().next());
        value.ok_or_else(|| SqlError::unknown("an expression has a value"))
    }

    async fn holds(&mut self, condition: &Code) -> Result<bool> {
        let (value, _) = self.value(condition).await?;
        Ok(match value {
            Datum::Bool(holds) => holds,
            Datum::Int(number) => number != 0,
            Datum::UInt(number) => number != 0,
            _ => false,
        })
    }

    async fn open(&mut self, cursor: usize) -> Result<()> {
        self.frame.check_closed(cursor)?;
        let declared = self.queries.get(cursor).copied().flatten();
        let query = declared.ok_or_else(|| SqlError::unknown("a cursor is declared"))?;
        let rows = self.rows(query, usize::MAX).await?;
        self.frame.open(cursor, rows)
    }

    async fn into(&mut self, code: &Code, targets: &[Given]) -> Result<()> {
        let rows = self.rows(code, 1).await?;
        if rows.width() != targets.len() {
            return Err(SqlError::union_columns());
        }
        match rows.into_first() {
            Some(row) => {
                self.give_all(targets, row)?;
                self.session.row_count.set(1);
                Ok(())
            }
            None => {
                self.session.row_count.set(0);
                self.session.warn("Warning", &SqlError::no_data());
                Ok(())
            }
        }
    }

    fn give_all(&mut self, targets: &[Given], row: Row) -> Result<()> {
        for (target, value) in targets.iter().zip(row) {
            self.give(target, value)?;
        }
        Ok(())
    }

    /// Gives a variable a value.
    pub fn give(&mut self, target: &Given, value: Row1) -> Result<()> {
        match target {
            Given::Local(slot) => self.frame.assign(*slot, value, self.session),
            Given::User(name) => {
                let collation = self.session.variables.collation();
                let value = UserValue::of_datum(&value, collation);
                self.session.user_variables.set(name.clone(), value)
            }
        }
    }
}

/// Runs a query of a program.
async fn run_query(
    session: &mut Session,
    piece: Piece<'_>,
    rows: &mut Rows,
    cancel: &CancelToken,
) -> Result<()> {
    match piece.parse()? {
        Statement::Query(query) => {
            let warns = session.modes().has(Modes::ERROR_FOR_DIVISION_BY_ZERO);
            let diagnostics = Diagnostics::new(match warns {
                true => Division::Warning,
                false => Division::Null,
            });
            session.diagnostics = diagnostics.clone();
            let run = Box::pin(restart::query(session, query, piece, rows, cancel));
            let outcome = Noted::new(run, diagnostics).await;
            session.report_divisions();
            outcome
        }
        _ => Err(SqlError::unknown("a query of a program")),
    }
}
