//! [`Grown`]: a future that has stack enough however deep the futures around it are.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::BoxFuture;

/// Stack that a statement may take, in bytes.
const RED_ZONE: usize = 512 << 10;
/// Stack that is added.
const STACK: usize = 2 << 20;

/// A statement within others.
pub(super) struct Grown<'a, T>(pub BoxFuture<'a, T>);

impl<T> Future for Grown<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        stacker::maybe_grow(RED_ZONE, STACK, || self.0.as_mut().poll(cx))
    }
}
