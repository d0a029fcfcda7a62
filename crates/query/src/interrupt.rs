//! Stopping what computes: whoever walks over a statement, its plan or its values looks here now and
//! then.
//!
//! The token of the statement that a thread computes for is known to the thread, since much of the walking is
//! DataFusion's, which only calls us back: for each operator, each function's type, between two of its
//! rules.

use std::any::Any;
use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::common::Result as DfResult;
use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use futures::future::BoxFuture;
use perigee_engine::scan::CancelToken;

use crate::diagnostics::{self, Diagnostics, Noting};
use crate::error::{Result, SqlError};

thread_local! {
    static CURRENT: RefCell<Option<CancelToken>> = const { RefCell::new(None) };
}

/// While it lives, the thread computes for a statement.
pub(crate) struct Watch {
    before: Option<CancelToken>,
}

impl Watch {
    /// Begins to compute for a statement.
    pub(crate) fn new(cancel: &CancelToken) -> Self {
        let before = CURRENT.replace(Some(cancel.clone()));
        Self { before }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
    }
}

/// The token of the statement that the thread computes for.
pub(crate) fn token() -> Option<CancelToken> {
    CURRENT.with_borrow(Clone::clone)
}

/// A future that computes for a statement.
pub(crate) struct Watched<'a, T> {
    future: BoxFuture<'a, T>,
    token: CancelToken,
    diagnostics: Option<Arc<Diagnostics>>,
}

impl<'a, T> Watched<'a, T> {
    /// What a future does from now on is done for the statement.
    pub(crate) fn new(future: BoxFuture<'a, T>, token: CancelToken) -> Self {
        let diagnostics = diagnostics::current();
        Self {
            future,
            token,
            diagnostics,
        }
    }
}

impl<T> Future for Watched<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let _watch = Watch::new(&self.token);
        let _noting = Noting::new(self.diagnostics.clone());
        self.future.as_mut().poll(cx)
    }
}

/// Makes the tasks that DataFusion starts for a statement know its token.
pub(crate) fn watch_tasks() {
    // There is only one way to set it, so whoever was first did the same.
    let _ = set_join_set_tracer(&Tasks);
}

struct Tasks;

type Outcome = Box<dyn Any + Send>;

impl JoinSetTracer for Tasks {
    fn trace_future(&self, task: BoxFuture<'static, Outcome>) -> BoxFuture<'static, Outcome> {
        match token() {
            Some(token) => Box::pin(Watched::new(task, token)),
            None => task,
        }
    }

    fn trace_block(
        &self,
        work: Box<dyn FnOnce() -> Outcome + Send>,
    ) -> Box<dyn FnOnce() -> Outcome + Send> {
        match token() {
            Some(token) => {
                let diagnostics = diagnostics::current();
                Box::new(move || {
                    let _watch = Watch::new(&token);
                    let _noting = Noting::new(diagnostics);
                    work()
                })
            }
            None => work,
        }
    }
}

/// True if the thread computes for a statement.
pub(crate) fn is_watched() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// 1317 if the statement that the thread computes for is to stop.
pub(crate) fn check() -> Result<()> {
    let stop = CURRENT.with_borrow(|token| token.as_ref().is_some_and(CancelToken::is_cancelled));
    match stop {
        true => Err(SqlError::interrupted()),
        false => Ok(()),
    }
}

/// [`check`], for what DataFusion calls.
pub(crate) fn check_df() -> DfResult<()> {
    check().map_err(SqlError::into_df)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_knows_the_statement_that_it_computes_for() {
        let (one, other) = (CancelToken::new(), CancelToken::new());
        assert!(!is_watched());
        one.cancel();
        assert_eq!(check(), Ok(()));
        let outer = Watch::new(&one);
        assert_eq!(check(), Err(SqlError::interrupted()));
        let inner = Watch::new(&other);
        assert_eq!(check(), Ok(()));
        drop(inner);
        assert_eq!(check(), Err(SqlError::interrupted()));
        drop(outer);
        assert!(!is_watched());
    }
}
