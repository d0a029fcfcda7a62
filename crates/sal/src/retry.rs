//! Calls of stores: each with a deadline. Reads are repeated for a while when the store cannot be
//! reached; writes until the store takes them.

use std::future::Future;
use std::time::Duration;

use perigee_log_api::LogError;
use perigee_page_api::PageError;
use tokio::time::{Instant, sleep, timeout};

use crate::SalError;
use crate::outage::OutageWatch;

/// Pauses between attempts grow from here...
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// ...to here: soon enough after a store comes back, seldom enough while it is away.
const LAST_PAUSE: Duration = Duration::from_millis(500);

/// An error that can tell whether the same call may succeed later.
pub(crate) trait StoreError: std::fmt::Display + Into<SalError> {
    fn is_unavailable(&self) -> bool;
    fn is_outage(&self) -> bool;
    fn timed_out(what: String) -> Self;
}

impl StoreError for LogError {
    fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    fn is_outage(&self) -> bool {
        Self::is_outage(self)
    }

    fn timed_out(what: String) -> Self {
        Self::Unavailable(what)
    }
}

impl StoreError for PageError {
    fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    fn is_outage(&self) -> bool {
        Self::is_outage(self)
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
    /// All attempts.
    pub total: Duration,
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

/// Repeats `call`, each attempt with a time limit, until the store takes it or refuses it for good.
/// `watch` knows of the outage meanwhile.
pub(crate) async fn persist<T, E: StoreError, F>(
    what: &str,
    limit: Duration,
    watch: &OutageWatch,
    mut call: impl FnMut() -> F,
) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut pause = FIRST_PAUSE;
    loop {
        match once(what, limit, call()).await {
            Err(e) if e.is_outage() => {
                watch.failed(what, e.into());
                sleep(pause).await;
                pause = (pause * 2).min(LAST_PAUSE);
            }
            answer => {
                watch.over();
                return answer;
            }
        }
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
    let give_up = Instant::now() + patience.total;
    let mut pause = FIRST_PAUSE;
    loop {
        match once(what, patience.call, call()).await {
            Err(e) if e.is_unavailable() => {
                if Instant::now() + pause > give_up {
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
