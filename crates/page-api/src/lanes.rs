//! Two lanes: a client sends its NDP reads over a connection of their own, so that a store can let
//! threads serve them that give way to those of all other calls.
//!
//! A connection for NDP begins with [`NDP_LANE`], before what HTTP/2 begins with. So a store knows
//! what a connection is for before it reads the first call, and any other client can talk to it,
//! too. The lane decides who serves a call, not which calls are served.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, Stream, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::transport::{Counted, TransportBytes};

/// How a connection for NDP begins. HTTP/2 begins with a P.
const NDP_LANE: [u8; 4] = *b"NDP\n";

/// How long a client may take to begin.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pause after a failure to accept: too many files are open, for example.
const PAUSE: Duration = Duration::from_millis(10);

/// Connections that wait for being served, of each lane.
const WAITING: usize = 64;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Ordinary,
    Ndp,
}

impl Lane {
    /// Tells the server; the first thing that a client does with a connection.
    pub(crate) async fn announce(self, socket: &mut Counted<TcpStream>) -> io::Result<()> {
        match self {
            Self::Ordinary => Ok(()),
            Self::Ndp => socket.write_all(&NDP_LANE).await,
        }
    }

    /// What the client said.
    async fn of(socket: &mut Counted<TcpStream>) -> io::Result<Self> {
        let mut first = [0];
        socket.io().peek(&mut first).await?;
        if first[0] != NDP_LANE[0] {
            return Ok(Self::Ordinary);
        }
        let mut begin = [0; NDP_LANE.len()];
        socket.read_exact(&mut begin).await?;
        if begin == NDP_LANE {
            Ok(Self::Ndp)
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }
}

/// Connections of one lane.
pub(crate) type Connections = BoxStream<'static, io::Result<Counted<TcpStream>>>;

/// The connections that `listener` accepts, of either lane, counted in `bytes`; to be given to
/// `Router::serve_with_incoming`. Must be called inside a tokio runtime.
pub fn incoming(
    listener: TcpListener,
    bytes: Arc<TransportBytes>,
) -> impl Stream<Item = io::Result<Counted<TcpStream>>> + Send + 'static {
    let (ordinary, ndp) = lanes(listener, bytes);
    stream::select(ordinary, ndp)
}

/// The connections that `listener` accepts, ordinary ones and those for NDP, until neither is wanted.
pub(crate) fn lanes(
    listener: TcpListener,
    bytes: Arc<TransportBytes>,
) -> (Connections, Connections) {
    let (to_ordinary, ordinary) = mpsc::channel(WAITING);
    let (to_ndp, ndp) = mpsc::channel(WAITING);
    tokio::spawn(accept(listener, bytes, to_ordinary, to_ndp));
    let connections = |lane, from| {
        stream::unfold(
            from,
            move |mut from: mpsc::Receiver<Counted<TcpStream>>| async move {
                let socket = from.recv().await?.adopt(lane);
                Some((socket, from))
            },
        )
        .boxed()
    };
    let ordinary = connections(Lane::Ordinary, ordinary);
    (ordinary, connections(Lane::Ndp, ndp))
}

async fn accept(
    listener: TcpListener,
    bytes: Arc<TransportBytes>,
    ordinary: mpsc::Sender<Counted<TcpStream>>,
    ndp: mpsc::Sender<Counted<TcpStream>>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = async { tokio::join!(ordinary.closed(), ndp.closed()); } => return,
        };
        let socket = match accepted {
            Ok((socket, _)) => socket,
            Err(_) => {
                sleep(PAUSE).await;
                continue;
            }
        };
        let mut socket = Counted::new(socket, bytes.clone());
        let (ordinary, ndp) = (ordinary.clone(), ndp.clone());
        // A client that is slow to begin keeps nobody waiting.
        tokio::spawn(async move {
            let to = match timeout(PATIENCE, Lane::of(&mut socket)).await {
                Ok(Ok(Lane::Ordinary)) => ordinary,
                Ok(Ok(Lane::Ndp)) => ndp,
                // It did not say what it wants.
                Ok(Err(_)) | Err(_) => return,
            };
            // An error: the server stops.
            drop(to.send(socket).await);
        });
    }
}
