//! Telling a running statement to stop.
//!
//! A [`CancelToken`] is made for each statement and given to the session that runs it; whoever
//! wants the statement to end (KILL, a vanished client, shutdown) cancels it with a reason. The
//! first reason stays. Cancelling is a request: the session stops where it can do so without
//! leaving something half done, and answers error 1317.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use tokio::sync::Notify;

/// Why a statement is told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CancelReason {
    /// `KILL QUERY`: the connection lives on.
    KillQuery = 1,
    /// `KILL` of the connection.
    KillConnection = 2,
    /// The client closed its socket.
    ClientGone = 3,
    /// The server shuts down.
    Shutdown = 4,
    /// The client has not logged in, and there are too many like it.
    CrowdedOut = 5,
}

impl CancelReason {
    fn from_state(state: u8) -> Option<Self> {
        match state {
            1 => Some(Self::KillQuery),
            2 => Some(Self::KillConnection),
            3 => Some(Self::ClientGone),
            4 => Some(Self::Shutdown),
            5 => Some(Self::CrowdedOut),
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    /// 0, or a reason.
    state: AtomicU8,
    /// Set with the reason, for those who know no reasons.
    flag: Arc<AtomicBool>,
    changed: Notify,
}

/// A statement's request to stop. Clones are the same token; it may be looked at from any thread.
#[derive(Clone, Debug, Default)]
pub struct CancelToken {
    shared: Arc<Shared>,
}

impl CancelToken {
    /// A token nobody has cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for an end. Only the first reason counts.
    pub fn cancel(&self, reason: CancelReason) {
        let first = self.shared.state.compare_exchange(
            0,
            reason as u8,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if first.is_ok() {
            self.shared.flag.store(true, Ordering::Release);
            self.shared.changed.notify_waiters();
        }
    }

    /// A flag that is set when the statement should end: a thread that computes sees it at once, while
    /// the task that waits for [`CancelToken::cancelled`] may be busy computing.
    #[must_use]
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shared.flag)
    }

    /// Why the statement should end; `None` while it should go on. Cheap: one atomic load.
    #[must_use]
    pub fn reason(&self) -> Option<CancelReason> {
        CancelReason::from_state(self.shared.state.load(Ordering::Acquire))
    }

    /// True if the statement should end.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.reason().is_some()
    }

    /// Waits for the request to end; returns at once if it was made.
    pub async fn cancelled(&self) -> CancelReason {
        loop {
            // Registered before the state is read, so that a cancel in between is not missed.
            let changed = self.shared.changed.notified();
            if let Some(reason) = self.reason() {
                return reason;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_first_reason_stays() {
        let token = CancelToken::new();
        let flag = token.flag();
        assert_eq!(token.reason(), None);
        assert!(!flag.load(Ordering::Relaxed));
        token.cancel(CancelReason::KillQuery);
        assert!(flag.load(Ordering::Relaxed));
        token.clone().cancel(CancelReason::Shutdown);
        assert_eq!(token.reason(), Some(CancelReason::KillQuery));
    }

    #[tokio::test]
    async fn every_waiter_wakes() {
        let token = CancelToken::new();
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let token = token.clone();
                tokio::spawn(async move { token.cancelled().await })
            })
            .collect();
        tokio::task::yield_now().await;
        token.cancel(CancelReason::ClientGone);
        for waiter in waiters {
            assert_eq!(waiter.await.unwrap(), CancelReason::ClientGone);
        }
        assert_eq!(token.cancelled().await, CancelReason::ClientGone);
    }
}
