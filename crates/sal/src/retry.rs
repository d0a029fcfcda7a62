//! Calls of stores: each with a deadline, repeated while the store cannot be reached.

use std::future::Future;
use std::time::Duration;

use perigee_log_api::LogError;
use perigee_page_api::PageError;
use tokio::time::{Instant, sleep, timeout};

/// Pauses between attempts grow from here...
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// ...to here: soon enough after a store comes back, seldom enough while it is away.
const LAST_PAUSE: Duration = Duration::from_millis(500);

/// An error that can tell whether the same call may succeed later.
pub(crate) trait StoreError: std::fmt::Display {
    fn is_unavailable(&self) -> bool;
    fn timed_out(what: String) -> Self;
}

impl StoreError for LogError {
    fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    fn timed_out(what: String) -> Self {
        Self::Unavailable(what)
    }
}

impl StoreError for PageError {
    fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    fn timed_out(what: String) -> Self {
        Self::Unavailable(what)
    }
}

/// How long a call may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// One attempt.
    pub call: Duration,
    /// All attempts; `None` means for ever.
    pub total: Option<Duration>,
}

/// One attempt with a deadline.
pub(crate) async fn once<T, E: StoreError>(
    what: &str,
    limit: Duration,
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match timeout(limit, call).await {
        Ok(answer) => answer,
        Err(_) => Err(E::timed_out(format!("{what}: no answer within {limit:?}"))),
    }
}

/// Repeats `call` while the store is unavailable.
pub(crate) async fn retry<T, E: StoreError, F>(
    what: &str,
    patience: Patience,
    mut call: impl FnMut() -> F,
) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let give_up = patience.total.map(|total| Instant::now() + total);
    let mut pause = FIRST_PAUSE;
    loop {
        match once(what, patience.call, call()).await {
            Err(e) if e.is_unavailable() => {
                if give_up.is_some_and(|at| Instant::now() + pause > at) {
                    return Err(e);
                }
                if pause == LAST_PAUSE {
                    tracing::warn!("{what}: {e}; trying again");
                }
                sleep(pause).await;
                pause = (pause * 2).min(LAST_PAUSE);
            }
            answer => return answer,
        }
    }
}
