//! A statement's turn: parsing, planning and changing rows compute without a pause, for as long as a
//! statement is long, and recurse as deep as it is nested. So a statement that is not a fast one is polled
//! apart:
//!
//! - the runtime hands the other tasks of the thread to another thread first (`block_in_place`), so that
//!   sockets, KILL and storage go on whatever statements compute; the operating system shares the
//!   processors out among those who compute;
//! - only so many statements compute at a time. Long ones have places of their own, so that they do not
//!   keep short ones waiting. Who waits for a place can be stopped;
//! - the stack is grown to [`STACK`] if the thread's is smaller;
//! - the thread knows the statement's token ([`crate::interrupt`]).
//!
//! A place is held for one poll, not for a statement: who waits for a row, a lock or a client has none. The
//! statements that begin and end transactions are polled where they are.
//!
//! Statements but the shortest are planned [`apart`] once more, in a task of their own: they leave their plans behind
//! when they are stopped, since one pass of a planner over thousands of operators takes longer than a KILL may.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use datafusion::common::runtime::SpawnedTask;
use futures::future::BoxFuture;
use perigee_engine::Errand;
use perigee_engine::scan::CancelToken;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::error::{Result, SqlError};
use crate::interrupt::{self, Watch};

/// Stack that a statement may use. What is not bounded by a loop over an explicit stack is nested at most as
/// deep as [`crate::parse`] allows: some hundred levels of some KiB, in a dozen passes' frames.
const STACK: usize = 32 << 20;

/// Texts longer than this are long: planning takes milliseconds for each KiB at worst.
const LONG: usize = 16 << 10;

/// Short statements that compute at a time, for each processor. More than one, so that some that take seconds
/// leave places to the others.
const SHORT_PLACES: usize = 16;

/// Places for statements that compute.
pub(super) struct Places {
    short: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

impl Places {
    pub(super) fn new(processors: usize) -> Self {
        let processors = processors.max(1);
        Self {
            short: Arc::new(Semaphore::new(SHORT_PLACES * processors)),
            long: Arc::new(Semaphore::new(processors)),
        }
    }

    /// Where a statement with this text gets its place.
    fn of(&self, text: &str) -> Lane {
        let places = match text.len() > LONG {
            true => &self.long,
            false => &self.short,
        };
        Lane {
            places: places.clone(),
            leaves: text.len() > BRIEF_TEXT,
        }
    }
}

/// Where a statement gets its places.
#[derive(Clone)]
struct Lane {
    places: Arc<Semaphore>,
    /// It does not wait for its parts when it is stopped.
    leaves: bool,
}

thread_local! {
    /// The lane of the statement that the thread computes for.
    static CURRENT: RefCell<Option<Lane>> = const { RefCell::new(None) };
}

/// While it lives, the thread computes for a statement of a lane.
struct InLane {
    before: Option<Lane>,
}

impl InLane {
    /// `None` for a statement inside another one, whose lane is the other one's.
    fn enter(lane: Option<&Lane>) -> Option<Self> {
        let lane = lane?.clone();
        let before = CURRENT.replace(Some(lane));
        Some(Self { before })
    }
}

impl Drop for InLane {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
    }
}

/// Computes a part of the statement that the thread computes for. Unless it is very short, the statement leaves
/// the part as soon as it is stopped; the part then ends by itself where it looks whether it is to, and has a
/// place until then. What it holds has to be charged by itself.
///
/// # Errors
/// The part's; 1317.
pub(super) async fn apart<T: Send + 'static>(
    cancel: &CancelToken,
    part: BoxFuture<'static, Result<T>>,
) -> Result<T> {
    let lane = CURRENT.with_borrow(Clone::clone);
    let Some(lane) = lane.filter(|lane| lane.leaves) else {
        return part.await;
    };
    let turns = Turns {
        statement: Box::pin(Errand::new(cancel).run(part)),
        brief: false,
        lane: Some(lane),
        cancel: cancel.clone(),
        waiting: None,
        begun: false,
    };
    // Who goes ends it, too.
    let task = SpawnedTask::spawn(turns);
    tokio::select! {
        // The runtime ends if it was not done.
        outcome = task.join_unwind() => outcome.unwrap_or_else(|_| Err(SqlError::interrupted())),
        () = cancel.cancelled() => Err(SqlError::interrupted()),
    }
}

/// Statements that begin and end transactions, and KILL: they compute next to nothing, and others wait for what
/// they let go.
const BRIEF: [&str; 7] = [
    "BEGIN",
    "START",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT",
    "RELEASE",
    "KILL",
];

/// Longest text of such a statement, in bytes, and of what is planned in no time.
const BRIEF_TEXT: usize = 256;

/// True for one statement of [`BRIEF`] and nothing after it.
fn is_brief(text: &str) -> bool {
    let statement = text.trim().trim_end_matches(';');
    let word = statement.split_ascii_whitespace().next();
    let word = word.unwrap_or_default();
    text.len() <= BRIEF_TEXT
        && !statement.contains(';')
        && BRIEF.iter().any(|brief| word.eq_ignore_ascii_case(brief))
}

/// A statement that computes in its turns.
pub(super) struct Turns<'a, T> {
    statement: BoxFuture<'a, Result<T>>,
    /// It is polled where it is, without a place.
    brief: bool,
    lane: Option<Lane>,
    cancel: CancelToken,
    waiting: Option<BoxFuture<'static, std::result::Result<OwnedSemaphorePermit, AcquireError>>>,
    begun: bool,
}

impl<'a, T> Turns<'a, T> {
    /// Runs a statement with this text.
    pub(super) fn new(
        places: &Places,
        text: &str,
        cancel: &CancelToken,
        statement: BoxFuture<'a, Result<T>>,
    ) -> Self {
        let brief = is_brief(text);
        Self {
            statement,
            brief,
            // A statement inside another one has the other one's place.
            lane: (!brief && !interrupt::is_watched()).then(|| places.of(text)),
            cancel: cancel.clone(),
            waiting: None,
            begun: false,
        }
    }

    /// A place in the lane. Who was stopped needs none: what it did is to be undone.
    fn place(&mut self, cx: &mut Context<'_>) -> Poll<Option<OwnedSemaphorePermit>> {
        let Some(lane) = &self.lane else {
            return Poll::Ready(None);
        };
        if self.cancel.is_cancelled() {
            self.waiting = None;
            return Poll::Ready(None);
        }
        if self.waiting.is_none() {
            if let Ok(place) = lane.places.clone().try_acquire_owned() {
                return Poll::Ready(Some(place));
            }
            self.waiting = Some(Box::pin(lane.places.clone().acquire_owned()));
        }
        let Some(waiting) = &mut self.waiting else {
            return Poll::Ready(None);
        };
        let place = ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        // Nobody closes a lane.
        Poll::Ready(place.ok())
    }
}

impl<T> Future for Turns<'_, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let this = &mut *self;
        let _place = ready!(this.place(cx));
        if this.cancel.is_cancelled() && !this.begun {
            return Poll::Ready(Err(SqlError::interrupted()));
        }
        this.begun = true;
        let _watch = Watch::new(&this.cancel);
        let _lane = InLane::enter(this.lane.as_ref());
        let statement = this.statement.as_mut();
        if this.brief {
            return statement.poll(cx);
        }
        let poll = || stacker::maybe_grow(STACK, STACK, || statement.poll(cx));
        let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
        match flavor {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(poll),
            _ => poll(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use std::sync::mpsc;

    use super::*;

    #[test]
    fn only_single_statements_about_transactions_are_brief() {
        for text in ["COMMIT", " begin ;", "ROLLBACK TO SAVEPOINT a", "kill 7"] {
            assert!(is_brief(text), "{text}");
        }
        let long = format!("COMMIT /*{}*/", "x".repeat(300));
        for text in ["SELECT 1", "COMMIT; SELECT 1", "", "COMMITTED", &long] {
            assert!(!is_brief(text), "{text}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_statement_that_is_stopped_leaves_a_part_that_does_not_look() {
        let places = Places::new(1);
        let text = "x".repeat(BRIEF_TEXT + 1);
        let cancel = CancelToken::new();
        let (begun, has_begun) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let part = async move {
            begun.send(()).unwrap();
            ends.recv().unwrap();
            Ok(())
        };
        let token = cancel.clone();
        let stopper = tokio::task::spawn_blocking(move || {
            has_begun.recv().unwrap();
            token.cancel();
        });
        let statement = Box::pin(apart(&cancel, Box::pin(part)));
        let outcome = Turns::new(&places, &text, &cancel, statement).await;
        assert_eq!(outcome, Err(SqlError::interrupted()));
        stopper.await.unwrap();
        // The part goes on, in its place.
        assert_eq!(places.short.available_permits(), SHORT_PLACES - 1);
        end.send(()).unwrap();
        let all = places.short.acquire_many(SHORT_PLACES as u32);
        assert!(all.await.is_ok());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn parts_give_what_they_compute() {
        let places = Places::new(1);
        for text in ["x".to_owned(), "x".repeat(LONG + 1)] {
            let cancel = CancelToken::new();
            let part = Box::pin(async { Ok(interrupt::is_watched()) });
            let statement = Box::pin(apart(&cancel, part));
            let outcome = Turns::new(&places, &text, &cancel, statement).await;
            assert_eq!(outcome, Ok(true));
            let failing = Box::pin(async { Err::<(), _>(SqlError::empty_query()) });
            let statement = Box::pin(apart(&cancel, failing));
            let outcome = Turns::new(&places, &text, &cancel, statement).await;
            assert_eq!(outcome, Err(SqlError::empty_query()));
        }
    }
}
