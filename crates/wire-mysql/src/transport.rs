//! The socket of one connection, shared by the half that reads, the half that writes and the watch
//! that notices a client gone while its statement runs. TLS has its place here: the halves would
//! go through the TLS stream, the watch stays on the socket.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::registry::{ConnectionRegistry, count};

/// A socket that can be read, written and watched at the same time.
#[derive(Debug)]
pub(crate) struct Transport {
    tcp: TcpStream,
    registry: ConnectionRegistry,
    /// Number of the envelope that follows, from either side, if the client compresses.
    envelope: AtomicU8,
}

impl Transport {
    /// Takes over an accepted socket.
    pub(crate) fn new(tcp: TcpStream, registry: ConnectionRegistry) -> Self {
        // Answers are small and awaited. If it cannot be set, they are only slower.
        if let Err(error) = tcp.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY is not set");
        }
        Self {
            tcp,
            registry,
            envelope: AtomicU8::new(0),
        }
    }

    /// Number of the envelope that follows.
    pub(crate) fn envelope(&self) -> u8 {
        self.envelope.load(Ordering::Relaxed)
    }

    /// Sets the number of the envelope that follows.
    pub(crate) fn set_envelope(&self, number: u8) {
        self.envelope.store(number, Ordering::Relaxed);
    }

    /// Reads what is there, up to the room `buf` has; waits for the first byte. 0 is the end.
    pub(crate) async fn read(&self, buf: &mut BytesMut) -> io::Result<usize> {
        loop {
            self.tcp.readable().await?;
            match self.tcp.try_read_buf(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(n) => {
                    count(&self.registry.live_counters().bytes_received, n);
                    return Ok(n);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes some of `bytes`; waits until at least one byte goes.
    pub(crate) async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.tcp.writable().await?;
            match self.tcp.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(n) => {
                    count(&self.registry.live_counters().bytes_sent, n);
                    return Ok(n);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns when the client has closed its end or the connection broke. Bytes the client sent
    /// ahead stay where they are.
    pub(crate) async fn peer_gone(&self) {
        /// While unread bytes lie in the socket it is always readable; its end is then looked for
        /// at this interval.
        const UNREAD_INTERVAL: Duration = Duration::from_millis(100);
        let mut byte = [0];
        loop {
            match self.tcp.peek(&mut byte).await {
                Ok(0) | Err(_) => return,
                Ok(_) => match self.tcp.ready(Interest::READABLE).await {
                    Ok(ready) if !ready.is_read_closed() => {
                        tokio::time::sleep(UNREAD_INTERVAL).await;
                    }
                    _ => return,
                },
            }
        }
    }
}
