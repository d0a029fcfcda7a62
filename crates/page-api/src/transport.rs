//! What both ends of a connection share: HTTP/2 settings for whole-page streams, and sockets that
//! count the bytes that cross them.
//!
//! The counters are the truth behind "bytes shipped": they count what the kernel is given and
//! gives, HTTP/2 and gRPC framing included, before nothing and after everything.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;
use tonic::transport::server::Connected;

use crate::cpu::give_way;
use crate::lanes::Lane;

/// HTTP/2 window of one call and, doubled, of one connection: at 1 GiB/s over a round trip of
/// 8 ms, 8 MiB are on their way.
pub(crate) const STREAM_WINDOW: u32 = 8 << 20;

/// HTTP/2 frame length: large frames cost less per byte, and answers are whole pages by the dozen.
pub(crate) const FRAME_LEN: u32 = 1 << 20;

/// Most bytes that a thread that gives way gives a socket at once. The kernel does not stop in the midst of
/// a call for a thread that comes first, and copies a frame for some hundred microseconds.
const AT_A_TIME: usize = 32 << 10;

/// Bytes that crossed the sockets of a client or a server since it was made.
#[derive(Debug, Default)]
pub struct TransportBytes {
    /// Bytes written to sockets.
    pub sent: AtomicU64,
    /// Bytes read from sockets.
    pub received: AtomicU64,
}

impl TransportBytes {
    /// `(sent, received)` now.
    #[must_use]
    pub fn snapshot(&self) -> (u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (load(&self.sent), load(&self.received))
    }
}

/// A byte stream that adds what crosses it to a [`TransportBytes`].
#[derive(Debug)]
pub struct Counted<T> {
    io: T,
    bytes: Arc<TransportBytes>,
    /// Who writes to it gives way to other threads.
    gives_way: bool,
}

impl<T> Counted<T> {
    /// Counts the traffic of `io` in `bytes`.
    pub fn new(io: T, bytes: Arc<TransportBytes>) -> Self {
        Self {
            io,
            bytes,
            gives_way: false,
        }
    }

    pub(crate) fn io(&self) -> &T {
        &self.io
    }

    /// Bytes that the socket is given at once.
    fn most_written(&self) -> usize {
        match self.gives_way {
            true => AT_A_TIME,
            false => usize::MAX,
        }
    }

    fn sent(&self, n: usize) -> usize {
        self.bytes.sent.fetch_add(n as u64, Ordering::Relaxed);
        if self.gives_way {
            give_way();
        }
        n
    }
}

impl Counted<TcpStream> {
    /// Lets the runtime that this is called on wake up who waits for the socket, as it serves it.
    pub(crate) fn adopt(self, lane: Lane) -> io::Result<Self> {
        self.io.set_nodelay(true)?;
        let io = TcpStream::from_std(self.io.into_std()?)?;
        let gives_way = lane == Lane::Ndp;
        Ok(Self {
            io,
            gives_way,
            ..self
        })
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Counted<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        let n = buf.filled().len() - before;
        self.bytes.received.fetch_add(n as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Counted<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let buf = &buf[..buf.len().min(self.most_written())];
        let n = ready!(Pin::new(&mut self.io).poll_write(cx, buf))?;
        Poll::Ready(Ok(self.sent(n)))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match first_within(self.most_written(), bufs) {
            0 => self.poll_write(cx, bufs.first().map_or(&[], |buf| buf)),
            fitting => {
                let bufs = &bufs[..fitting];
                let n = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, bufs))?;
                Poll::Ready(Ok(self.sent(n)))
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

/// How many of the first buffers are so many bytes together at most.
fn first_within(most: usize, bufs: &[IoSlice<'_>]) -> usize {
    let mut bytes = 0;
    let fitting = bufs.iter().take_while(|buf| {
        bytes += buf.len();
        bytes <= most
    });
    fitting.count()
}

impl<T: Connected> Connected for Counted<T> {
    type ConnectInfo = T::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.io.connect_info()
    }
}

/// Makes the connections of a client for one lane, counted.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    lane: Lane,
    bytes: Arc<TransportBytes>,
}

impl Connector {
    pub(crate) fn new(lane: Lane, bytes: Arc<TransportBytes>) -> Self {
        Self { lane, bytes }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Counted<TcpStream>>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (lane, bytes) = (self.lane, self.bytes.clone());
        async move {
            let no_host =
                || io::Error::new(io::ErrorKind::InvalidInput, format!("no host in {uri}"));
            let host = uri.host().ok_or_else(no_host)?;
            // An IPv6 address stands in brackets in a URI and without them everywhere else.
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let socket = TcpStream::connect((host, uri.port_u16().unwrap_or(80))).await?;
            socket.set_nodelay(true)?;
            let mut socket = Counted::new(socket, bytes);
            lane.announce(&mut socket).await?;
            Ok(TokioIo::new(socket))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn who_gives_way_writes_much_piece_by_piece() {
        let (near, mut far) = duplex(16 * AT_A_TIME);
        let bytes = Arc::new(TransportBytes::default());
        let mut counted = Counted {
            gives_way: true,
            ..Counted::new(near, bytes.clone())
        };
        let data: Vec<u8> = (0..5 * AT_A_TIME).map(|i| i as u8).collect();
        let (first, rest) = data.split_at(100);
        assert_eq!(counted.write(rest).await.expect("it is memory"), AT_A_TIME);
        let mut bufs = [IoSlice::new(first), IoSlice::new(rest)];
        assert_eq!(
            counted.write_vectored(&bufs).await.expect("it is memory"),
            100
        );
        bufs.swap(0, 1);
        assert_eq!(
            counted.write_vectored(&bufs).await.expect("it is memory"),
            AT_A_TIME
        );
        counted.write_all(&data).await.expect("it is memory");
        assert_eq!(
            bytes.snapshot().0,
            (2 * AT_A_TIME + 100 + data.len()) as u64
        );
        drop(counted);
        let mut arrived = Vec::new();
        far.read_to_end(&mut arrived).await.expect("it is memory");
        let sent = [&rest[..AT_A_TIME], first, &rest[..AT_A_TIME], &data];
        assert!(arrived == sent.concat());
    }
}
