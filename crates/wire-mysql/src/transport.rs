//! The socket of one connection, shared by the half that reads, the half that writes and the watch
//! that notices a client gone while its statement runs. Once the client has asked for TLS the halves
//! go through it; the watch stays on the socket.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::registry::{ConnectionRegistry, count};
use crate::tls::{HandshakeError, Tls, TlsInfo, TlsStream};

/// A socket that can be read, written and watched at the same time.
#[derive(Debug)]
pub(crate) struct Transport {
    tcp: TcpStream,
    tls: OnceLock<Encrypted>,
    registry: ConnectionRegistry,
    /// Number of the envelope that follows, from either side, if the client compresses.
    envelope: AtomicU8,
}

/// The TLS of a connection. Its lock is never held across an await.
#[derive(Debug)]
struct Encrypted {
    stream: Mutex<TlsStream>,
    info: TlsInfo,
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
            tls: OnceLock::new(),
            registry,
            envelope: AtomicU8::new(0),
        }
    }

    /// Turns the connection to TLS, which it must not have yet. `received` came behind the client's request.
    pub(crate) async fn start_tls(
        &self,
        tls: &Tls,
        received: BytesMut,
    ) -> Result<(), HandshakeError> {
        let (stream, info) = TlsStream::accept(tls, &self.tcp, received).await?;
        let stream = Mutex::new(stream);
        let first = self.tls.set(Encrypted { stream, info }).is_ok();
        assert!(first, "a connection turns to TLS once");
        Ok(())
    }

    /// How the connection is encrypted, if it is.
    pub(crate) fn tls(&self) -> Option<&TlsInfo> {
        self.tls.get().map(|tls| &tls.info)
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
        let n = match self.tls.get() {
            Some(tls) => self.read_tls(&tls.stream, buf).await?,
            None => self.read_plain(buf).await?,
        };
        count(&self.registry.live_counters().bytes_received, n);
        Ok(n)
    }

    async fn read_plain(&self, buf: &mut BytesMut) -> io::Result<usize> {
        loop {
            self.tcp.readable().await?;
            match self.tcp.try_read_buf(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }

    async fn read_tls(&self, stream: &Mutex<TlsStream>, buf: &mut BytesMut) -> io::Result<usize> {
        loop {
            if let Some(n) = stream.lock().decrypt(buf)? {
                return Ok(n);
            }
            self.tcp.readable().await?;
            if stream.lock().receive(&self.tcp)? == Some(0) {
                return Ok(0);
            }
        }
    }

    /// Writes some of `bytes`; waits until at least one byte goes.
    pub(crate) async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let n = match self.tls.get() {
            Some(tls) => self.write_tls(&tls.stream, bytes).await?,
            None => self.write_plain(bytes).await?,
        };
        count(&self.registry.live_counters().bytes_sent, n);
        Ok(n)
    }

    async fn write_plain(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.tcp.writable().await?;
            match self.tcp.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return written,
            }
        }
    }

    async fn write_tls(&self, stream: &Mutex<TlsStream>, bytes: &[u8]) -> io::Result<usize> {
        loop {
            {
                let mut stream = stream.lock();
                let taken = stream.encrypt(bytes)?;
                let sent = stream.send(&self.tcp)?;
                if taken > 0 {
                    return Ok(taken);
                }
                if sent {
                    continue;
                }
            }
            self.tcp.writable().await?;
        }
    }

    /// Waits until all that was written has gone to the socket.
    pub(crate) async fn flush(&self) -> io::Result<()> {
        let Some(tls) = self.tls.get() else {
            return Ok(());
        };
        while !tls.stream.lock().send(&self.tcp)? {
            self.tcp.writable().await?;
        }
        Ok(())
    }

    /// Says to the client that nothing follows, as far as it can be said at once.
    pub(crate) fn close(&self) {
        let Some(tls) = self.tls.get() else { return };
        let mut stream = tls.stream.lock();
        stream.close();
        if let Err(error) = stream.send(&self.tcp) {
            tracing::debug!(%error, "the end of a TLS connection is not announced");
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
