//! The flusher: writes database log buffers to the Log Store, one at a time, so that durable means
//! "and everything before it" (invariant L5). While one is written the next one fills: group
//! commit.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use perigee_crash::{Point, reach};
use perigee_types::Lsn;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::timeout;

use crate::log_buffer::Buffer;
use crate::plogs::PlogWriter;
use crate::sal::Shared;

/// Writes buffers until the layer ends, or the Log Store refuses one for good. A Log Store that is
/// away, or whose disk is full, is waited for.
pub(crate) async fn run(
    shared: Arc<Shared>,
    mut plogs: PlogWriter,
    distributor: mpsc::Sender<Buffer>,
) {
    loop {
        let buffer = next(&shared).await;
        if let Err(error) = plogs.append(&shared, &buffer).await {
            shared.fail(error.into());
            return;
        }
        reach(Point::BufferDurable);
        if shared.wrote_much() {
            shared.maintenance_wake.notify_one();
        }
        shared.progress.send_modify(|p| {
            assert_eq!(
                p.durable.next(),
                buffer.first,
                "L5: the durable LSN has no gap"
            );
            p.durable = buffer.last;
        });
        let durable = buffer.last;
        let sent = distributor.try_send(buffer);
        // Commits are told after the distributor, if that has room: who is woken last runs first, on
        // this thread.
        shared.durable_waiters.reached(durable);
        let sent = match sent {
            Err(TrySendError::Full(buffer)) => distributor.send(buffer).await.is_ok(),
            sent => sent.is_ok(),
        };
        if !sent {
            return;
        }
    }
}

async fn next(shared: &Shared) -> Buffer {
    loop {
        let (taken, idle) = {
            let mut buffer = shared.buffer.lock();
            let wanted = buffer.holds(Lsn(shared.wanted.load(Ordering::Relaxed)));
            (buffer.take(wanted), buffer.is_empty())
        };
        if let Some(buffer) = taken {
            return buffer;
        }
        let wake = shared.flusher_wake.notified();
        if idle {
            wake.await;
        } else if timeout(shared.config.log_flush_interval, wake)
            .await
            .is_err()
            && let Some(buffer) = shared.buffer.lock().take(true)
        {
            return buffer;
        }
    }
}
