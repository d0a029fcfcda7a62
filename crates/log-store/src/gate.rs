//! A bound on the calls that run at once and on those that wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use perigee_log_api::LogError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Lets a number of calls run and a number wait, in order of arrival.
#[derive(Debug)]
pub(crate) struct Gate {
    running: Arc<Semaphore>,
    waiting: AtomicUsize,
    max_waiting: usize,
}

/// Counts a waiting call until it is dropped, so that a cancelled one is not counted for ever.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Gate {
    pub(crate) fn new(max_running: usize, max_waiting: usize) -> Self {
        Self {
            running: Arc::new(Semaphore::new(max_running.max(1))),
            waiting: AtomicUsize::new(0),
            max_waiting,
        }
    }

    /// Waits for a turn, which ends when the permit is dropped. [`LogError::Unavailable`] if too
    /// many are waiting already.
    pub(crate) async fn enter(&self) -> Result<OwnedSemaphorePermit, LogError> {
        if let Ok(permit) = self.running.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        if waiting >= self.max_waiting {
            return Err(LogError::Unavailable(format!(
                "{waiting} calls are waiting already"
            )));
        }
        let permit = self.running.clone().acquire_owned().await;
        Ok(permit.expect("the semaphore is never closed"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[tokio::test]
    async fn calls_beyond_the_bounds_are_turned_away() {
        let gate = Gate::new(1, 1);
        let first = gate.enter().await.unwrap();
        let mut second = Box::pin(gate.enter());
        assert!(
            futures_poll(&mut second).await.is_none(),
            "the second waits"
        );
        assert!(matches!(gate.enter().await, Err(LogError::Unavailable(_))));
        drop(second);
        let mut third = Box::pin(gate.enter());
        assert!(
            futures_poll(&mut third).await.is_none(),
            "a cancelled call makes room"
        );
        drop(first);
        assert!(third.await.is_ok(), "its turn comes");
    }

    /// Polls once.
    async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        std::future::poll_fn(|cx| {
            std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(cx) {
                std::task::Poll::Ready(output) => Some(output),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }
}
