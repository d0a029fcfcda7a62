//! The listening server: accepts connections, runs each in a task of its own, and stops in an orderly
//! way. How many there may be is decided when they log in.
//!
//! Stopping has three steps. Nothing new is accepted, and idle clients are told error 1053; then
//! statements may finish; then those that still run are cancelled and given time to undo what they
//! did. Whatever is left is dropped.
//!
//! A panic in a session ends its connection and is logged with the panic's message; no other
//! connection notices.

use std::any::Any;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout_at};

use crate::admission::{End, ServerShared};
use crate::cancel::{CancelReason, CancelToken};
use crate::config::ServerConfig;
use crate::connection::serve;
use crate::registry::{ConnectionRegistry, Registration, count};
use crate::session::{Authenticator, Frontend};
use crate::transport::Transport;

/// Connections the kernel keeps until they are accepted.
const BACKLOG: u32 = 1024;

/// Pause after a failed accept, which is nearly always a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long dropped connections may take to be gone.
const ABORT: Duration = Duration::from_secs(1);

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Another process listens on the port.
    #[error("{address} is in use by another process; stop it or choose another port")]
    PortInUse {
        /// The address that was to be listened on.
        address: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address that was to be listened on.
        address: SocketAddr,
        /// What the operating system says.
        source: io::Error,
    },
}

/// How long a server that stops waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownPatience {
    /// For statements to finish by themselves.
    pub finish: Duration,
    /// For cancelled statements to undo what they did.
    pub undo: Duration,
}

impl Default for ShutdownPatience {
    fn default() -> Self {
        Self {
            finish: Duration::from_secs(5),
            undo: Duration::from_secs(10),
        }
    }
}

/// How a server stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownReport {
    /// True if statements were cancelled because they did not finish in time.
    pub cancelled: bool,
    /// Connections that were dropped because they did not end in time.
    pub dropped: usize,
}

/// A running server. Dropping it stops it without patience.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    registry: ConnectionRegistry,
    stop: oneshot::Sender<ShutdownPatience>,
    task: JoinHandle<ShutdownReport>,
}

impl Server {
    /// Listens on the configured address and serves until [`Server::shutdown`]. Must be called in a
    /// Tokio runtime.
    pub fn start(
        config: ServerConfig,
        frontend: Arc<dyn Frontend>,
        authenticator: Arc<dyn Authenticator>,
    ) -> Result<Self, ServerError> {
        Self::start_in(config, frontend, authenticator, ConnectionRegistry::new())
    }

    /// As [`Server::start`], with a registry that the caller already holds.
    pub fn start_in(
        config: ServerConfig,
        frontend: Arc<dyn Frontend>,
        authenticator: Arc<dyn Authenticator>,
        registry: ConnectionRegistry,
    ) -> Result<Self, ServerError> {
        let address = config.listen;
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => ServerError::PortInUse { address },
            _ => ServerError::Listen { address, source },
        };
        let listener = listen(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(ServerShared {
            config,
            frontend,
            authenticator,
            registry: registry.clone(),
            stop: CancelToken::new(),
        });
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(run(listener, shared, stopped));
        tracing::info!(%address, "serving the MySQL protocol");
        Ok(Self {
            address,
            registry,
            stop,
            task,
        })
    }

    /// Where the server listens: the real port if port 0 was configured.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who is connected.
    #[must_use]
    pub fn registry(&self) -> &ConnectionRegistry {
        &self.registry
    }

    /// Stops the server; returns when its last connection has ended.
    ///
    /// # Panics
    /// If the accepting task panicked.
    pub async fn shutdown(self, patience: ShutdownPatience) -> ShutdownReport {
        // If the task has ended there is nobody to tell, and the next line says why.
        let _ = self.stop.send(patience);
        self.task
            .await
            .expect("the accepting task does not panic and is not aborted")
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // A server that is restarted need not wait for its old connections to be forgotten.
    socket.set_reuseaddr(true)?;
    // Accepted sockets inherit this: a client whose machine died is noticed in the end.
    socket.set_keepalive(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn run(
    listener: TcpListener,
    shared: Arc<ServerShared>,
    mut stopped: oneshot::Receiver<ShutdownPatience>,
) -> ShutdownReport {
    let mut connections = JoinSet::new();
    let patience = loop {
        tokio::select! {
            biased;
            patience = &mut stopped => break patience,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((tcp, peer)) => admit(&shared, tcp, peer, &mut connections),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    };
    drop(listener);
    // A dropped `Server` asks for no patience.
    let none = ShutdownPatience {
        finish: Duration::ZERO,
        undo: Duration::ZERO,
    };
    stop(&shared, connections, patience.unwrap_or(none)).await
}

fn admit(
    shared: &Arc<ServerShared>,
    tcp: TcpStream,
    peer: SocketAddr,
    connections: &mut JoinSet<()>,
) {
    count(&shared.registry.live_counters().connections, 1);
    let most = shared.config.max_unfinished_logins;
    let registration = shared.registry.register(peer, most);
    connections.spawn(guarded(Arc::clone(shared), registration, tcp, peer));
}

/// Serves one connection; keeps a panic from going further.
async fn guarded(
    shared: Arc<ServerShared>,
    registration: Registration,
    tcp: TcpStream,
    peer: SocketAddr,
) {
    let id = registration.handle().id();
    tracing::debug!(id, %peer, "connection accepted");
    let transport = Transport::new(tcp, shared.registry.clone());
    let serving = AssertUnwindSafe(serve(shared, registration, transport, peer)).catch_unwind();
    match serving.await {
        Ok(End::Quit) => tracing::debug!(id, %peer, "connection ended"),
        Ok(end) => tracing::info!(id, %peer, reason = %end, "connection ended"),
        Err(panic) => {
            tracing::error!(id, %peer, panic = message(&*panic), "panic in a session; it is closed");
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied())
        .unwrap_or("(no message)")
}

async fn stop(
    shared: &ServerShared,
    mut connections: JoinSet<()>,
    patience: ShutdownPatience,
) -> ShutdownReport {
    tracing::info!(connections = shared.registry.len(), "shutting down");
    shared.stop.cancel(CancelReason::Shutdown);
    let begun = Instant::now();
    if drained(&mut connections, begun + patience.finish).await {
        return ShutdownReport {
            cancelled: false,
            dropped: 0,
        };
    }
    tracing::warn!(waited = ?patience.finish, "cancelling the statements that still run");
    shared.registry.cancel_all(CancelReason::Shutdown);
    drained(&mut connections, begun + patience.finish + patience.undo).await;
    let dropped = connections.len();
    if dropped > 0 {
        tracing::error!(dropped, "dropping connections that do not end");
        // A task that never yields cannot be dropped, and is left behind.
        connections.abort_all();
        drained(&mut connections, Instant::now() + ABORT).await;
    }
    ShutdownReport {
        cancelled: true,
        dropped,
    }
}

/// True if all connections ended before the deadline.
async fn drained(connections: &mut JoinSet<()>, deadline: Instant) -> bool {
    loop {
        match timeout_at(deadline, connections.join_next()).await {
            Ok(None) => return true,
            Ok(Some(_)) => {}
            Err(_) => return connections.is_empty(),
        }
    }
}
