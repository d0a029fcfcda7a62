//! `max_execution_time`: a SELECT that runs longer ends with error 3024, also while it is planned.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use perigee_engine::scan::CancelToken;
use perigee_sql_bind::query;
use sqlparser::ast::{Query, SetExpr};
use tokio::task::JoinHandle;

use super::Session;
use crate::error::{Result, SqlError};
use crate::interrupt::Watched;

/// A time that runs out.
pub(super) struct TimeLimit {
    stop: CancelToken,
    is_over: Arc<AtomicBool>,
    timer: JoinHandle<()>,
}

impl TimeLimit {
    /// The limit of a SELECT, if there is one: its hint's, or else the variable's.
    pub(super) fn of(session: &Session, query: &Query, cancel: &CancelToken) -> Option<Self> {
        let millis = match hinted(query) {
            Some(millis) => millis,
            None => session.variables.integer("max_execution_time"),
        };
        (millis > 0).then(|| Self::start(Duration::from_millis(millis), cancel))
    }

    fn start(time: Duration, cancel: &CancelToken) -> Self {
        let stop = cancel.part();
        let is_over = Arc::new(AtomicBool::new(false));
        let (token, over) = (stop.clone(), is_over.clone());
        let timer = tokio::spawn(async move {
            tokio::time::sleep(time).await;
            over.store(true, Ordering::Relaxed);
            token.cancel();
        });
        Self {
            stop,
            is_over,
            timer,
        }
    }

    /// What stops the statement: this or its own token.
    pub(super) fn token(&self) -> CancelToken {
        self.stop.clone()
    }

    /// Runs the statement, and says why it ended.
    pub(super) async fn run(self, statement: BoxFuture<'_, Result<()>>) -> Result<()> {
        let watched = Watched::new(statement, self.token());
        watched.await.map_err(|error| {
            let interrupted = error.errno == SqlError::interrupted().errno;
            match interrupted && self.is_over.load(Ordering::Relaxed) {
                true => SqlError::execution_time(),
                false => error,
            }
        })
    }
}

impl Drop for TimeLimit {
    fn drop(&mut self) {
        self.timer.abort();
    }
}

/// Milliseconds that the hint of the first SELECT says.
fn hinted(query: &Query) -> Option<u64> {
    let mut body = &query.body;
    let select = loop {
        match body.as_ref() {
            SetExpr::Select(select) => break select,
            SetExpr::Query(inner) => body = &inner.body,
            SetExpr::SetOperation { left, .. } => body = left,
            _ => return None,
        }
    };
    query::time_limit(select)
}
