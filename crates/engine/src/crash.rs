//! A broken invariant is a crash: what is in memory is not to be trusted any more, while everything
//! that was acknowledged is in the log.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;

/// Ends the process at once.
pub(crate) fn crash(why: &str) -> ! {
    tracing::error!("the process ends: {why}");
    std::process::abort()
}

/// A task in the background, on whose work others rely: a panic in it is a crash.
pub(crate) async fn vital(name: &'static str, task: impl Future<Output = ()>) {
    if AssertUnwindSafe(task).catch_unwind().await.is_err() {
        crash(&format!("the {name} task panicked"));
    }
}
