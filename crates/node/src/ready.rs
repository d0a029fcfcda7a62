//! Listening, telling that the role serves, and waiting for the signal to stop.

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::error::LISTEN;
use crate::{NodeError, Serving};

/// Listens where the settings say; gives the listener and the address with its real port.
pub async fn listen(serving: &Serving) -> Result<(TcpListener, SocketAddr), NodeError> {
    let address = serving.listen;
    let fail = |cause| NodeError::listen(address, cause, LISTEN);
    let listener = TcpListener::bind(address).await.map_err(fail)?;
    let address = listener.local_addr().map_err(fail)?;
    Ok((listener, address))
}

/// Says on the log and in the ready file that the role serves. The signals to stop are caught from before
/// that on: who has read it may stop the process in order.
pub fn announce(
    serving: &Serving,
    role: &str,
    address: SocketAddr,
) -> Result<StopSignals, NodeError> {
    let signals = StopSignals::catch();
    tracing::info!("{role} serves on {address}");
    let Some(path) = &serving.ready_file else {
        return Ok(signals);
    };
    let fail = |cause| NodeError::File {
        path: path.clone(),
        cause,
    };
    // Readers must never see half an address.
    let partial = path.with_extension("partial");
    std::fs::write(&partial, address.to_string()).map_err(fail)?;
    std::fs::rename(&partial, path).map_err(fail)?;
    Ok(signals)
}

/// How long calls to a store that stops may take to end.
const CALLS_END: Duration = Duration::from_secs(10);

/// Ends when the process is told to stop.
pub type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves until the process is told to stop and the calls under way have ended. Those that do not
/// end in time, because their client does not take the answer, are dropped: that is safe at any
/// point.
pub async fn serve_until_told<E: std::fmt::Display>(
    signals: StopSignals,
    serve: impl AsyncFnOnce(Stop) -> Result<(), E>,
) -> Result<(), NodeError> {
    let (told, telling) = oneshot::channel();
    let stop = async move {
        signals.told().await;
        let _ = told.send(()); // nobody listens if serving has failed
    };
    let overdue = async move {
        match telling.await {
            Ok(()) => tokio::time::sleep(CALLS_END).await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = serve(Box::pin(stop)) => ended.map_err(NodeError::component),
        () = overdue => {
            tracing::warn!("dropping calls that do not end");
            Ok(())
        }
    }
}

/// The signals that tell the process to stop: SIGTERM and SIGINT. Once caught, they no longer kill it.
pub struct StopSignals {
    /// `None` if they cannot be caught.
    caught: Option<(Signal, Signal)>,
}

impl StopSignals {
    fn catch() -> Self {
        let caught = signal(SignalKind::terminate())
            .and_then(|terminate| Ok((terminate, signal(SignalKind::interrupt())?)))
            .inspect_err(|e| {
                tracing::error!("signals cannot be caught ({e}); only kill -9 stops this process");
            });
        Self {
            caught: caught.ok(),
        }
    }

    /// Returns when the process is told to stop.
    pub async fn told(self) {
        let Some((mut terminate, mut interrupt)) = self.caught else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("told to stop");
    }
}
