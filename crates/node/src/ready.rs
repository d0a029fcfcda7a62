//! Listening, telling that the role serves, and waiting for the signal to stop.

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::{NodeError, Serving};

/// Listens where the settings say; gives the listener and the address with its real port.
pub async fn listen(serving: &Serving) -> Result<(TcpListener, SocketAddr), NodeError> {
    let address = serving.listen;
    let fail = |cause| NodeError::Listen { address, cause };
    let listener = TcpListener::bind(address).await.map_err(fail)?;
    let address = listener.local_addr().map_err(fail)?;
    Ok((listener, address))
}

/// Says on the log and in the ready file that the role serves.
pub fn announce(serving: &Serving, role: &str, address: SocketAddr) -> Result<(), NodeError> {
    tracing::info!("{role} serves on {address}");
    let Some(path) = &serving.ready_file else {
        return Ok(());
    };
    let fail = |cause| NodeError::File {
        path: path.clone(),
        cause,
    };
    // Readers must never see half an address.
    let partial = path.with_extension("partial");
    std::fs::write(&partial, address.to_string()).map_err(fail)?;
    std::fs::rename(&partial, path).map_err(fail)
}

/// Returns when the process is told to stop: SIGTERM or SIGINT.
pub async fn told_to_stop() {
    let (mut terminate, mut interrupt) = match (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) {
        (Ok(terminate), Ok(interrupt)) => (terminate, interrupt),
        (Err(e), _) | (_, Err(e)) => {
            tracing::error!("signals cannot be caught ({e}); only kill -9 stops this process");
            return std::future::pending().await;
        }
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("told to stop");
}
