//! Connections that take turns with what is to be read, and the end of all work when one part of it fails.

use mysql_async::Conn;
use tokio::sync::{Mutex, mpsc, watch};

use crate::TransferError;

/// Tells all parts of a command that it ends. Nothing is dropped in the middle of a LOAD DATA: each part ends in order.
#[derive(Clone, Debug)]
pub(crate) struct Stop(watch::Sender<bool>);

impl Stop {
    pub(crate) fn new() -> Self {
        Self(watch::channel(false).0)
    }

    pub(crate) fn set(&self) {
        self.0.send_replace(true);
    }

    /// # Errors
    /// [`TransferError::Stopped`] once the command ends.
    pub(crate) fn check(&self) -> Result<(), TransferError> {
        match *self.0.borrow() {
            true => Err(TransferError::Stopped),
            false => Ok(()),
        }
    }

    async fn wait(&self) {
        // The sender is this object's, so the channel stays open.
        let _ = self.0.subscribe().wait_for(|ends| *ends).await;
    }
}

/// Connections of which each is used by one reader at a time.
pub(crate) struct Readers {
    idle: Mutex<mpsc::Receiver<Conn>>,
    back: mpsc::Sender<Conn>,
    count: usize,
    stop: Stop,
}

impl Readers {
    pub(crate) fn new(conns: Vec<Conn>, stop: Stop) -> Self {
        let count = conns.len();
        let (back, idle) = mpsc::channel(count.max(1));
        for conn in conns {
            // There is room for all of them.
            let _ = back.try_send(conn);
        }
        Self {
            idle: Mutex::new(idle),
            back,
            count,
            stop,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The next connection that is free.
    ///
    /// # Errors
    /// [`TransferError::Stopped`] once the command ends. Connections that failed do not come back.
    pub(crate) async fn take(&self) -> Result<Conn, TransferError> {
        let next = async { self.idle.lock().await.recv().await };
        tokio::select! {
            () = self.stop.wait() => Err(TransferError::Stopped),
            conn = next => conn.ok_or(TransferError::Stopped),
        }
    }

    /// Gives back a connection whose results were read to their end.
    pub(crate) fn give(&self, conn: Conn) {
        let _ = self.back.try_send(conn);
    }

    /// Ends the connections that are free.
    pub(crate) async fn close(&self) {
        let mut idle = self.idle.lock().await;
        while let Ok(conn) = idle.try_recv() {
            // A server that does not hear of the end finds the socket closed.
            let _ = conn.disconnect().await;
        }
    }
}
