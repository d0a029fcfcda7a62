//! The encrypted side of a socket. Encryption itself does no I/O: bytes of the socket are fed to it and taken from
//! it here, without waiting; whoever calls waits for the socket.
//!
//! Invariants
//! - At most one record that is not sent is kept for the socket, and at most [`RAW`] bytes from it: memory is bounded.
//! - What was taken to be encrypted is sent by later calls if a call is given up: nothing is sent twice or lost.

use std::io::{self, BufRead as _, Read, Write as _};

use bytes::{Buf as _, BytesMut};
use rustls::ServerConnection;
use tokio::net::TcpStream;

use super::{Tls, TlsInfo};

/// Most bytes read from the socket at once.
const RAW: usize = 16 * 1024;

/// Most bytes encrypted at once: the contents of a record.
const RECORD: usize = 16 * 1024;

/// Why a connection did not turn to TLS.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    /// Client and server do not agree, or what came is not TLS.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A TLS connection over a socket.
#[derive(Debug)]
pub(crate) struct TlsStream {
    connection: ServerConnection,
    /// Came from the socket and is not decrypted.
    raw: BytesMut,
}

/// The socket as something to write to that never waits.
struct Unwaiting<'a>(&'a TcpStream);

impl io::Write for Unwaiting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsStream {
    /// Turns a socket to TLS. `received` came behind the client's request to do so.
    pub(crate) async fn accept(
        tls: &Tls,
        tcp: &TcpStream,
        received: BytesMut,
    ) -> Result<(Self, TlsInfo), HandshakeError> {
        let mut stream = Self {
            connection: tls.connection()?,
            raw: received,
        };
        loop {
            let step = stream.shake_hands();
            // Also if it failed: the client is told why.
            let sent = stream.send(tcp)?;
            step?;
            if !sent {
                tcp.writable().await?;
            } else if stream.connection.is_handshaking() {
                tcp.readable().await?;
                if stream.receive(tcp)? == Some(0) {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                }
            } else {
                let info = TlsInfo::of(&stream.connection);
                return Ok((stream, info));
            }
        }
    }

    fn shake_hands(&mut self) -> Result<(), HandshakeError> {
        while self.connection.is_handshaking() && !self.raw.is_empty() {
            self.feed()?;
        }
        Ok(())
    }

    /// Gives some of what came from the socket to be decrypted.
    fn feed(&mut self) -> Result<(), HandshakeError> {
        let mut rest = &self.raw[..];
        let taken = self.connection.read_tls(&mut rest as &mut dyn Read)?;
        self.raw.advance(taken);
        self.connection.process_new_packets()?;
        Ok(())
    }

    /// Reads from the socket; `None` if nothing is there, 0 at its end.
    pub(crate) fn receive(&mut self, tcp: &TcpStream) -> io::Result<Option<usize>> {
        self.raw.reserve(RAW);
        match tcp.try_read_buf(&mut self.raw) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            read => read.map(Some),
        }
    }

    /// Appends what was decrypted to `buf`, up to the room it has; `None` if the socket has to be read for more, 0
    /// if the client has said that nothing follows.
    pub(crate) fn decrypt(&mut self, buf: &mut BytesMut) -> io::Result<Option<usize>> {
        loop {
            match self.connection.reader().fill_buf() {
                Ok(plain) => {
                    let n = plain.len().min(buf.capacity() - buf.len());
                    buf.extend_from_slice(&plain[..n]);
                    self.connection.reader().consume(n);
                    return Ok(Some(n));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if self.raw.is_empty() {
                return Ok(None);
            }
            self.feed().map_err(|error| match error {
                HandshakeError::Tls(error) => io::Error::new(io::ErrorKind::InvalidData, error),
                HandshakeError::Io(error) => error,
            })?;
        }
    }

    /// Encrypts some of `bytes`, to be sent; 0 while something else waits to be.
    pub(crate) fn encrypt(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.connection.wants_write() {
            return Ok(0);
        }
        self.connection
            .writer()
            .write(&bytes[..bytes.len().min(RECORD)])
    }

    /// Sends what is encrypted, as far as the socket takes it; true if all of it went.
    pub(crate) fn send(&mut self, tcp: &TcpStream) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Unwaiting(tcp)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                sent => sent?,
            };
        }
        Ok(true)
    }

    /// Says that nothing follows.
    pub(crate) fn close(&mut self) {
        self.connection.send_close_notify();
    }
}
