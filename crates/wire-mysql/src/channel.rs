//! Payloads to and from the client: framing on a socket, with deadlines and bounded buffers.
//!
//! Invariants
//! - Every wait has a deadline.
//! - Dropping a future that waits loses nothing: what arrived stays in the buffer, what was not
//!   sent stays to be sent. Frames are thus never torn by a cancelled statement.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::timeout;

use crate::compress;
use crate::errors::{
    NET_ERROR_ON_WRITE, NET_PACKET_TOO_LARGE, NET_PACKETS_OUT_OF_ORDER, NET_READ_ERROR,
    NET_READ_INTERRUPTED, NET_UNCOMPRESS_ERROR, NET_WRITE_INTERRUPTED, OUT_OF_RESOURCES, SqlError,
};
use crate::frame::{self, FilePart, FrameDecoder, FrameError, MAX_FILE_PART};
use crate::memory::Held;
use crate::tls::{HandshakeError, Tls, TlsInfo};
use crate::transport::Transport;

/// Room made for a read of a command: more than most need.
const COMMAND_ROOM: usize = 16 * 1024;

/// Room made for a read of a file.
const FILE_ROOM: usize = MAX_FILE_PART;

/// More room is made when less than this is left.
const LITTLE_ROOM: usize = 4 * 1024;

/// Most room made at once for a long payload whose header has arrived.
const MAX_ROOM: usize = 1024 * 1024;

/// A send buffer that grew beyond this (a very long row) is given back after use.
const MAX_KEPT_BUFFER: usize = 1024 * 1024;

/// Why no payload came.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReceiveError {
    /// The client closed the connection.
    #[error("the client closed the connection")]
    Closed,
    /// The client did not begin to send in time.
    #[error("the client was silent for {0:?}")]
    Idle(Duration),
    /// The client stopped in the middle.
    #[error("the client stopped sending in the middle of a packet for {0:?}")]
    Stalled(Duration),
    /// There is no memory left for a long payload.
    #[error("no memory left for a long packet")]
    NoMemory,
    /// The client's frames break the rules.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The connection broke.
    #[error("reading from the client: {0}")]
    Io(#[from] io::Error),
}

impl ReceiveError {
    /// The error for the session or the client.
    pub(crate) fn to_sql(&self) -> SqlError {
        match self {
            Self::Closed | Self::Io(_) => NET_READ_ERROR.with(&[]),
            Self::Idle(_) | Self::Stalled(_) => NET_READ_INTERRUPTED.with(&[]),
            Self::NoMemory => OUT_OF_RESOURCES.with(&[]),
            Self::Frame(FrameError::TooLarge { .. }) => NET_PACKET_TOO_LARGE.with(&[]),
            Self::Frame(FrameError::OutOfOrder { .. }) => NET_PACKETS_OUT_OF_ORDER.with(&[]),
            Self::Frame(FrameError::Compressed) => NET_UNCOMPRESS_ERROR.with(&[]),
        }
    }
}

/// The half that reads.
#[derive(Debug)]
pub(crate) struct Receiver {
    transport: Arc<Transport>,
    buf: BytesMut,
    /// What is still in envelopes, if the client compresses.
    envelopes: Option<BytesMut>,
    frames: FrameDecoder,
    /// Longest silence inside a packet.
    stall: Duration,
    /// Memory of the buffer and of the payload that was given out last.
    held: Held,
}

impl Receiver {
    /// A half that gives up when the client stops for `stall` inside a packet.
    pub(crate) fn new(transport: Arc<Transport>, stall: Duration, held: Held) -> Self {
        Self {
            transport,
            buf: BytesMut::new(),
            envelopes: None,
            frames: FrameDecoder::default(),
            stall,
            held,
        }
    }

    /// From here on the client's packets come in envelopes.
    pub(crate) fn expect_envelopes(&mut self) {
        self.envelopes = Some(std::mem::take(&mut self.buf));
        self.frames.expect_envelopes();
    }

    /// Turns the connection to TLS; what came behind the client's request belongs to it.
    pub(crate) async fn start_tls(&mut self, tls: &Tls) -> Result<(), HandshakeError> {
        let received = std::mem::take(&mut self.buf);
        self.transport.start_tls(tls, received).await
    }

    /// How the connection is encrypted, if it is.
    pub(crate) fn tls(&self) -> Option<&TlsInfo> {
        self.transport.tls()
    }

    /// The sequence id of the frame that follows. With compression it is that of the envelope that follows,
    /// however many frames are in one.
    pub(crate) fn next_seq(&self) -> u8 {
        match self.envelopes {
            Some(_) => self.transport.envelope(),
            None => self.frames.next_seq(),
        }
    }

    /// Sets the sequence id of the frame that follows.
    pub(crate) fn expect_seq(&mut self, seq: u8) {
        self.frames.expect_seq(seq);
    }

    /// The next payload, of at most `limit` bytes; its first byte must come within `idle`. The one before is no
    /// longer in use.
    pub(crate) async fn payload(
        &mut self,
        limit: usize,
        idle: Duration,
    ) -> Result<Bytes, ReceiveError> {
        // What is left of a long buffer keeps all of it.
        if self.buf.is_empty() && self.held.is_much() {
            self.buf = BytesMut::new();
        }
        self.hold()?;
        loop {
            if let Some(payload) = self.frames.payload(&mut self.buf, limit)? {
                return Ok(payload);
            }
            let is_waiting = |raw: &BytesMut| !raw.is_empty();
            let begun = !self.buf.is_empty()
                || self.envelopes.as_ref().is_some_and(is_waiting)
                || self.frames.is_inside_payload();
            let room = self.frames.missing(&self.buf).clamp(COMMAND_ROOM, MAX_ROOM);
            let deadline = if begun { self.stall } else { idle };
            self.fill(room, deadline)
                .await
                .map_err(|error| match error {
                    ReceiveError::Stalled(silence) if !begun => ReceiveError::Idle(silence),
                    other => other,
                })?;
        }
    }

    /// The next part of a file.
    pub(crate) async fn file_part(&mut self) -> Result<FilePart, ReceiveError> {
        loop {
            if let Some(part) = self.frames.file_part(&mut self.buf)? {
                return Ok(part);
            }
            self.fill(FILE_ROOM, self.stall).await?;
        }
    }

    /// Reads and drops what the client still sends, so that it gets to read an answer that was
    /// sent before its packet was complete. Ends with the connection or at `deadline`.
    pub(crate) async fn discard(&mut self, deadline: Duration) {
        let transport = Arc::clone(&self.transport);
        let drain = async {
            let mut sink = BytesMut::with_capacity(FILE_ROOM);
            while matches!(transport.read(&mut sink).await, Ok(n) if n > 0) {
                sink.clear();
            }
        };
        if timeout(deadline, drain).await.is_err() {
            tracing::debug!("the client keeps sending after an error that ends the connection");
        }
    }

    /// Counts what the buffers hold.
    fn hold(&mut self) -> Result<(), ReceiveError> {
        let envelopes = self.envelopes.as_ref().map_or(0, BytesMut::capacity);
        let bytes = self.buf.capacity() + envelopes + self.frames.held();
        match self.held.resize(bytes) {
            true => Ok(()),
            false => Err(ReceiveError::NoMemory),
        }
    }

    async fn fill(&mut self, room: usize, deadline: Duration) -> Result<(), ReceiveError> {
        let into = self.envelopes.as_mut().unwrap_or(&mut self.buf);
        let left = into.capacity() - into.len();
        if left < LITTLE_ROOM || room > FILE_ROOM {
            into.reserve(room);
            self.hold()?;
        }
        let into = self.envelopes.as_mut().unwrap_or(&mut self.buf);
        match timeout(deadline, self.transport.read(into)).await {
            Ok(Ok(0)) => return Err(ReceiveError::Closed),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(ReceiveError::Io(error)),
            Err(_) => return Err(ReceiveError::Stalled(deadline)),
        }
        if let Some(raw) = &mut self.envelopes {
            while let Some(number) = compress::open(raw, &mut self.buf)? {
                self.transport.set_envelope(number.wrapping_add(1));
            }
            self.hold()?;
        }
        Ok(())
    }
}

/// Why bytes did not go out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// The client does not read.
    #[error("the client took nothing for {0:?}")]
    Stalled(Duration),
    /// The connection broke.
    #[error("writing to the client: {0}")]
    Io(#[from] io::Error),
}

impl SendError {
    /// The error for the session.
    pub(crate) fn to_sql(&self) -> SqlError {
        match self {
            Self::Stalled(_) => NET_WRITE_INTERRUPTED.with(&[]),
            Self::Io(_) => NET_ERROR_ON_WRITE.with(&[]),
        }
    }
}

/// The half that writes.
#[derive(Debug)]
pub(crate) struct Sender {
    transport: Arc<Transport>,
    buf: BytesMut,
    /// What is in envelopes, if the client asked for them.
    envelopes: Option<BytesMut>,
    /// How much of the buffer, or of the envelopes, has gone.
    sent: usize,
    seq: u8,
    /// The buffer is full, and to be flushed, when it holds this many bytes.
    full: usize,
    /// Longest time the client may take nothing.
    stall: Duration,
}

impl Sender {
    /// A half that keeps about `full` bytes and gives up when the client takes nothing for `stall`.
    pub(crate) fn new(transport: Arc<Transport>, full: usize, stall: Duration) -> Self {
        Self {
            transport,
            buf: BytesMut::new(),
            envelopes: None,
            sent: 0,
            seq: 0,
            full,
            stall,
        }
    }

    /// From here on packets go in envelopes; everything before was flushed.
    pub(crate) fn use_envelopes(&mut self) {
        self.envelopes = Some(BytesMut::new());
    }

    /// The sequence id of the packet that follows.
    pub(crate) fn seq(&self) -> u8 {
        self.seq
    }

    /// Sets the sequence id of the packet that follows.
    pub(crate) fn set_seq(&mut self, seq: u8) {
        self.seq = seq;
    }

    /// Shortens how long the client may take nothing.
    pub(crate) fn hurry(&mut self, stall: Duration) {
        self.stall = self.stall.min(stall);
    }

    /// Appends a packet whose payload `write` makes.
    pub(crate) fn packet(&mut self, write: impl FnOnce(&mut BytesMut)) {
        let start = frame::begin(&mut self.buf);
        write(&mut self.buf);
        frame::end(&mut self.buf, start, &mut self.seq);
    }

    /// Appends a packet, or nothing if `write` fails.
    pub(crate) fn try_packet<E>(
        &mut self,
        write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = frame::begin(&mut self.buf);
        match write(&mut self.buf) {
            Ok(()) => {
                frame::end(&mut self.buf, start, &mut self.seq);
                Ok(())
            }
            Err(error) => {
                self.buf.truncate(start);
                Err(error)
            }
        }
    }

    /// Appends packets that were made before and are numbered from the one that follows; `next_seq`
    /// is the number behind the last of them.
    pub(crate) fn packets(&mut self, packets: &[u8], next_seq: u8) {
        self.buf.extend_from_slice(packets);
        self.seq = next_seq;
    }

    /// True if it is time to flush.
    pub(crate) fn is_full(&self) -> bool {
        match self.envelopes {
            Some(_) => self.buf.len() >= self.full,
            None => self.buf.len() - self.sent >= self.full,
        }
    }

    /// Sends everything.
    pub(crate) async fn flush(&mut self) -> Result<(), SendError> {
        if let Some(envelopes) = &mut self.envelopes {
            let mut number = self.transport.envelope();
            compress::wrap(&self.buf, envelopes, &mut number);
            self.transport.set_envelope(number);
            empty(&mut self.buf);
        }
        let buf = self.envelopes.as_mut().unwrap_or(&mut self.buf);
        while self.sent < buf.len() {
            match timeout(self.stall, self.transport.write(&buf[self.sent..])).await {
                Ok(Ok(n)) => self.sent += n,
                Ok(Err(error)) => return Err(SendError::Io(error)),
                Err(_) => return Err(SendError::Stalled(self.stall)),
            }
        }
        self.sent = 0;
        empty(buf);
        match timeout(self.stall, self.transport.flush()).await {
            Ok(flushed) => flushed.map_err(SendError::Io),
            Err(_) => Err(SendError::Stalled(self.stall)),
        }
    }
}

/// Empties a buffer, and gives much memory back.
fn empty(buf: &mut BytesMut) {
    if buf.capacity() > MAX_KEPT_BUFFER {
        *buf = BytesMut::new();
    } else {
        buf.clear();
    }
}
