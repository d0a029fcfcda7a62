//! [`Errand`]: on whose behalf a task waits for storage, and how long it may.
//!
//! A statement's errand goes with its task (it is task-local), so that every wait for storage below,
//! wherever in the engine it is, ends soon after the statement is stopped. A wait that ends so is a
//! wait that failed: whatever the caller does after a failure of storage is right then, too.
//!
//! What is undone is not to be stopped half-way, so undoing goes on as long as storage answers. A
//! task without an errand, the engine's own, waits as long as storage lets it.

use std::time::Duration;

use perigee_sal::Purpose;

use crate::EngineError;
use crate::engine::Engine;
use crate::scan::CancelToken;

/// How long undoing what a stopped statement did waits for one answer of storage.
const UNDO_PATIENCE: Duration = Duration::from_secs(1);

/// A statement as its waits know it.
#[derive(Clone, Debug, Default)]
pub struct Errand {
    cancel: CancelToken,
    purpose: Purpose,
    /// How long each wait goes on after the statement was stopped.
    patience: Duration,
}

tokio::task_local! {
    static ERRAND: Errand;
}

impl Errand {
    /// The errand of a statement that `cancel` stops.
    #[must_use]
    pub fn new(cancel: &CancelToken) -> Self {
        Self {
            cancel: cancel.clone(),
            ..Self::default()
        }
    }

    /// Runs the statement, or a part of it. What is large should be boxed: it is moved several times.
    pub async fn run<F: Future>(self, statement: F) -> F::Output {
        ERRAND.scope(self, statement).await
    }

    fn current() -> Self {
        ERRAND.try_with(Clone::clone).unwrap_or_default()
    }
}

/// Runs what frees space, so that it may use what stores keep in reserve. What is large should be
/// boxed, as with [`Errand::run`].
pub async fn freeing_space<F: Future>(work: F) -> F::Output {
    let errand = Errand {
        purpose: Purpose::Free,
        ..Errand::current()
    };
    errand.run(work).await
}

/// Runs what undoes the errand's own work: it may use what stores keep in reserve, and goes on when
/// the statement is stopped.
pub(crate) async fn undoing<F: Future>(work: F) -> F::Output {
    let errand = Errand {
        purpose: Purpose::Free,
        patience: UNDO_PATIENCE,
        ..Errand::current()
    };
    errand.run(work).await
}

/// Runs what should rather end by itself: each of its waits goes on so long after the statement was
/// stopped.
pub(crate) async fn with_patience<F: Future>(patience: Duration, work: F) -> F::Output {
    let errand = Errand {
        patience,
        ..Errand::current()
    };
    errand.run(work).await
}

/// What the task writes for.
pub(crate) fn purpose() -> Purpose {
    ERRAND.try_with(|errand| errand.purpose).unwrap_or_default()
}

/// Waits for storage until the statement is stopped.
pub(crate) async fn wait<T, E: Into<EngineError>>(
    storage: impl Future<Output = Result<T, E>>,
) -> Result<T, EngineError> {
    let stopped = async {
        let errand = Errand::current();
        errand.cancel.cancelled().await;
        if !errand.patience.is_zero() {
            tokio::time::sleep(errand.patience).await;
        }
    };
    tokio::select! {
        // Most waits end at once, or before anybody is stopped.
        biased;
        done = storage => done.map_err(Into::into),
        () = stopped => Err(EngineError::Cancelled),
    }
}

/// The error of who does not wait any longer for log to become durable.
pub(crate) fn outcome_open(engine: &Engine, what: &'static str) -> EngineError {
    let outages = engine.sal.outages();
    let why = match outages.first() {
        Some(outage) => outage.error.to_string(),
        None => "the log store does not answer".to_owned(),
    };
    EngineError::OutcomeOpen { what, why }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn never() -> impl Future<Output = Result<(), EngineError>> {
        pending()
    }

    #[tokio::test]
    async fn a_wait_ends_with_its_statement() {
        let cancel = CancelToken::new();
        let statement = Errand::new(&cancel).run(wait(never()));
        let stop = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            cancel.cancel();
        };
        let (waited, ()) = tokio::join!(statement, stop);
        assert!(matches!(waited, Err(EngineError::Cancelled)));
        let again = Errand::new(&cancel).run(wait(never())).await;
        assert!(matches!(again, Err(EngineError::Cancelled)));
    }

    #[tokio::test]
    async fn undoing_goes_on_while_storage_answers() {
        let cancel = CancelToken::new();
        cancel.cancel();
        let answers = async {
            tokio::time::sleep(UNDO_PATIENCE / 2).await;
            Ok::<_, EngineError>(())
        };
        let undo = undoing(async {
            wait(answers).await?;
            wait(never()).await
        });
        let begun = tokio::time::Instant::now();
        let undone = Errand::new(&cancel).run(undo).await;
        assert!(matches!(undone, Err(EngineError::Cancelled)));
        assert!(begun.elapsed() >= UNDO_PATIENCE * 3 / 2);
    }

    #[tokio::test]
    async fn purposes_go_with_the_task() {
        assert_eq!(purpose(), Purpose::Grow);
        let within = freeing_space(async { (purpose(), undoing(async { purpose() }).await) });
        assert_eq!(within.await, (Purpose::Free, Purpose::Free));
        assert_eq!(purpose(), Purpose::Grow);
    }
}
