//! CPU time of the frontend's half of a scan: that of the threads, whenever they work for it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use perigee_page_api::thread_cpu_nanos;

use super::counters::{ScanCounters, add};

/// A future or stream that counts the CPU time of its polls. Each takes a batch or a message of
/// storage, so that reading the clock twice costs nothing beside it.
pub(super) struct Timed<T> {
    inner: T,
    counters: Arc<ScanCounters>,
}

impl<T: Unpin> Timed<T> {
    pub(super) fn new(inner: T, counters: Arc<ScanCounters>) -> Self {
        Self { inner, counters }
    }

    fn timed<P>(&mut self, poll: impl FnOnce(Pin<&mut T>) -> P) -> P {
        let begin = thread_cpu_nanos();
        let polled = poll(Pin::new(&mut self.inner));
        let nanos = thread_cpu_nanos().saturating_sub(begin);
        add(&self.counters.frontend_cpu_nanos, nanos);
        polled
    }
}

impl<F: Future + Unpin> Future for Timed<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.timed(|inner| inner.poll(cx))
    }
}

impl<S: Stream + Unpin> Stream for Timed<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.timed(|inner| inner.poll_next(cx))
    }
}
