//! The storage roles as processes.

use std::sync::Arc;
use std::time::SystemTime;

use futures::future::LocalBoxFuture;
use perigee_log_store::LogStoreService;
use perigee_page_api::TransportBytes;
use perigee_page_store::{NdpRuntime, PageStoreService};
use tokio::task::spawn_blocking;

use crate::ready::{announce, listen, serve_until_told};
use crate::status::{self, LogStorePart, PageStorePart, Shown};
use crate::{LogStoreSettings, NodeError, PageStoreSettings};

/// Runs a Log Store until the process is told to stop.
///
/// # Errors
/// If the address or the directory cannot be used.
pub fn run_log_store(settings: LogStoreSettings) -> LocalBoxFuture<'static, Result<(), NodeError>> {
    Box::pin(async move {
        let started = SystemTime::now();
        let (listener, address) = listen(&settings.serving).await?;
        let status = status::listen(&settings.serving.status).await?;
        let dir = settings.data.clone();
        let store = spawn_blocking(move || LogStoreService::open(dir, Default::default()))
            .await
            .map_err(NodeError::component)?
            .map_err(NodeError::component)?;
        let shown = Arc::new(Shown {
            title: "Log Store",
            role: "log-store",
            facts: vec![
                ("serves on", address.to_string()),
                ("directory", settings.data.display().to_string()),
            ],
            parts: vec![Box::new(LogStorePart(store.clone()))],
            started,
        });
        let _showing = status::show(status, &shown);
        let signals = announce(&settings.serving, "log store", address)?;
        let incoming = perigee_log_api::connections(listener);
        let router =
            perigee_log_api::transport().add_service(perigee_log_api::serve(Arc::new(store)));
        let serve = async |stop| router.serve_with_incoming_shutdown(incoming, stop).await;
        tokio::select! {
            served = serve_until_told(signals, serve) => served,
            failed = shown.failed() => Err(failed),
        }
    })
}

/// Runs a Page Store until the process is told to stop.
///
/// # Errors
/// If the address or the directory cannot be used.
pub fn run_page_store(
    settings: PageStoreSettings,
) -> LocalBoxFuture<'static, Result<(), NodeError>> {
    Box::pin(async move {
        let started = SystemTime::now();
        let (listener, address) = listen(&settings.serving).await?;
        let status = status::listen(&settings.serving.status).await?;
        let dir = settings.data.clone();
        let config = page_store_config(
            settings.pool_bytes,
            settings.ndp_threads,
            settings.ndp_group_bytes,
            settings.decline_every,
        );
        let store = spawn_blocking(move || PageStoreService::open(dir, config))
            .await
            .map_err(NodeError::component)?
            .map_err(NodeError::component)?;
        let store = Arc::new(store);
        let bytes: Arc<TransportBytes> = Arc::default();
        let part = PageStorePart {
            store: store.clone(),
            transport: Some(bytes.clone()),
        };
        let shown = Arc::new(Shown {
            title: "Page Store",
            role: "page-store",
            facts: vec![
                ("serves on", address.to_string()),
                ("directory", settings.data.display().to_string()),
            ],
            parts: vec![Box::new(part)],
            started,
        });
        let _showing = status::show(status, &shown);
        let signals = announce(&settings.serving, "page store", address)?;
        let ndp = NdpRuntime::start().map_err(NodeError::component)?;
        let serve = async |stop| {
            perigee_page_api::serve_apart(store, listener, bytes, ndp.handle(), stop).await
        };
        tokio::select! {
            served = serve_until_told(signals, serve) => served,
            failed = shown.failed() => Err(failed),
        }
    })
}

/// The Page Store's own settings for what a role is told.
pub(crate) fn page_store_config(
    pool_bytes: usize,
    ndp_threads: Option<usize>,
    ndp_group_bytes: Option<usize>,
    decline_every: Option<u32>,
) -> perigee_page_store::Config {
    let default = perigee_page_store::Config::default();
    let ndp_group_bytes = ndp_group_bytes.unwrap_or(default.ndp_group_bytes);
    perigee_page_store::Config {
        pool_bytes,
        ndp_threads: ndp_threads.unwrap_or(default.ndp_threads),
        ndp_group_bytes,
        // Of so many requests at the same time.
        ndp_group_bytes_tenant: 4 * ndp_group_bytes,
        decline_every,
        ..default
    }
}
