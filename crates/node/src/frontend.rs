//! The frontend role: against stores in other processes, or with the stores in its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures::future::LocalBoxFuture;
use perigee_engine::{Engine, EngineConfig};
use perigee_log_api::{LogStore, LogStoreClient};
use perigee_log_store::LogStoreService;
use perigee_page_api::{PageStore, PageStoreClient, TransportBytes};
use perigee_page_store::{PageStoreService, PerigeePlugin};
use perigee_query::{FrontendConfig, StatusSource};
use perigee_sal::{Sal, SalConfig};
use perigee_types::PAGE_SIZE;
use perigee_value::Zone;
use perigee_wire_mysql::{
    ConnectionRegistry, Server, ServerConfig, ServerError, ShutdownPatience, TLS_VERSIONS,
};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::accounts::{CatalogAccounts, check_reachable, give_root_password};
use crate::adapter::WireFrontend;
use crate::error::LISTEN;
use crate::memory::{self, Watch};
use crate::ready::announce;
use crate::status::{self, FrontendPart, LogStorePart, PageStorePart, Part, Shown};
use crate::stores::page_store_config;
use crate::tls::{self, Certificate};
use crate::{EmbeddedSettings, FrontendSettings, NodeError};

/// How long the engine may take to give the stores what they do not have yet.
const ENGINE_END: Duration = Duration::from_secs(10);

/// How long the connections of a frontend that has failed may take to end.
const FAILED_PATIENCE: ShutdownPatience = ShutdownPatience {
    finish: Duration::from_millis(100),
    undo: Duration::from_secs(1),
};

/// Runs a frontend against a Log Store and Page Stores until the process is told to stop.
///
/// # Errors
/// If the address is taken, or the stores cannot be reached or do not fit.
pub fn run_frontend<'a>(
    settings: FrontendSettings,
    log_store: &'a str,
    page_stores: &'a [String],
) -> LocalBoxFuture<'a, Result<(), NodeError>> {
    Box::pin(async move {
        let log = LogStoreClient::new(&uri(log_store), Default::default())
            .map_err(NodeError::component)?;
        let mut stores: Vec<Arc<dyn PageStore>> = Vec::new();
        let mut bytes = Vec::new();
        for address in page_stores {
            let client = PageStoreClient::new(&uri(address), Default::default())
                .map_err(NodeError::component)?;
            bytes.push(client.transport_bytes().clone());
            stores.push(Arc::new(client));
        }
        let stores = Stores {
            log: Arc::new(log),
            pages: stores,
            transport: bytes,
            parts: Vec::new(),
            dir: None,
            pools: 0,
        };
        let listed = page_stores.join(", ");
        let facts = vec![("Log Store", log_store.to_owned()), ("Page Stores", listed)];
        serve(settings, stores, ("Frontend", "frontend"), facts).await
    })
}

/// Runs everything in this process, over a local directory, until it is told to stop.
///
/// # Errors
/// If the address or the directory cannot be used.
pub fn run_embedded(settings: EmbeddedSettings) -> LocalBoxFuture<'static, Result<(), NodeError>> {
    Box::pin(async move {
        let config = page_store_config(settings.pool_bytes, None, None, settings.decline_every);
        let pools = config.pool_bytes;
        let data = settings.data.clone();
        let plugin = if settings.frontend.interpret {
            PerigeePlugin::interpreting()
        } else {
            PerigeePlugin::default()
        };
        let open = move || {
            let config_of_log = perigee_log_store::Config {
                append_in_place: true,
                ..Default::default()
            };
            let log = LogStoreService::open(data.join("log"), config_of_log)
                .map_err(NodeError::component)?;
            let pages =
                PageStoreService::open_with_plugin(data.join("pages"), config, Arc::new(plugin))
                    .map_err(NodeError::component)?;
            Ok::<_, NodeError>((log, pages))
        };
        let (log, pages) = spawn_blocking(open).await.map_err(NodeError::component)??;
        let pages = Arc::new(pages);
        let part = PageStorePart {
            store: pages.clone(),
            transport: None,
        };
        let stores = Stores {
            log: Arc::new(log.clone()),
            pages: vec![pages],
            transport: Vec::new(),
            parts: vec![Box::new(part), Box::new(LogStorePart(log))],
            dir: Some(settings.data.clone()),
            pools,
        };
        let facts = vec![("directory", settings.data.display().to_string())];
        let title = "frontend, Page Store and Log Store";
        serve(settings.frontend, stores, (title, "serve"), facts).await
    })
}

/// The machine's name.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map_or_else(|_| "localhost".to_owned(), |name| name.trim().to_owned())
}

/// An address as gRPC wants it.
fn uri(address: &str) -> String {
    if address.contains("://") {
        address.to_owned()
    } else {
        format!("http://{address}")
    }
}

/// The stores of a frontend, wherever they are.
struct Stores {
    log: Arc<dyn LogStore>,
    pages: Vec<Arc<dyn PageStore>>,
    /// What crosses the sockets to each Page Store.
    transport: Vec<Arc<TransportBytes>>,
    /// Those that are in this process, to be shown with it.
    parts: Vec<Box<dyn Part>>,
    /// Where this process keeps data.
    dir: Option<PathBuf>,
    /// Bytes that the pools of stores in this process may take.
    pools: usize,
}

/// Variables that say what the process was told.
fn variables(
    settings: &FrontendSettings,
    zone: String,
    certificate: Option<&Certificate>,
) -> Vec<(&'static str, String)> {
    let switch = |on: bool| if on { "ON" } else { "OFF" }.to_owned();
    let mut variables = vec![
        ("hostname", host_name()),
        ("max_connections", settings.max_connections.to_string()),
        ("port", settings.serving.listen.port().to_string()),
        ("require_secure_transport", switch(settings.require_tls)),
        ("time_zone", zone),
    ];
    if let Some(directory) = &settings.secure_file_priv {
        variables.push(("secure_file_priv", directory.display().to_string()));
    }
    if let Some(certificate) = certificate {
        variables.push(("have_openssl", "YES".to_owned()));
        variables.push(("have_ssl", "YES".to_owned()));
        variables.push(("tls_version", TLS_VERSIONS.to_owned()));
        if let Some((certificate, key)) = &certificate.files {
            variables.push(("ssl_cert", certificate.display().to_string()));
            variables.push(("ssl_key", key.display().to_string()));
        }
    }
    variables
}

/// An error if the files of statements have no directory where they should.
fn check_directory(directory: Option<&Path>) -> Result<(), NodeError> {
    let Some(path) = directory else {
        return Ok(());
    };
    let unusable = |cause| NodeError::SecureFiles {
        path: path.to_owned(),
        cause,
    };
    let metadata = std::fs::metadata(path).map_err(unusable)?;
    match metadata.is_dir() {
        true => Ok(()),
        false => Err(unusable(std::io::ErrorKind::NotADirectory.into())),
    }
}

/// Serves clients until the process is told to stop. The process has a name for people and one for the
/// command line.
async fn serve(
    settings: FrontendSettings,
    stores: Stores,
    (title, role): (&'static str, &'static str),
    mut facts: Vec<(&'static str, String)>,
) -> Result<(), NodeError> {
    let started = SystemTime::now();
    let unknown = || NodeError::TimeZone {
        name: settings.time_zone.clone(),
    };
    let zone = Zone::normal_name(&settings.time_zone).ok_or_else(unknown)?;
    check_directory(settings.secure_file_priv.as_deref())?;
    let status_listener = status::listen(&settings.serving.status).await?;
    let Stores {
        log,
        pages,
        transport,
        parts: stores,
        dir,
        pools,
    } = stores;
    let certificate = tls::certificate(&settings.tls, dir.as_deref(), &host_name())?;
    let config = SalConfig {
        slice_pages: (settings.slice_bytes / PAGE_SIZE as u64).max(1),
        // Stores of this process serve no other.
        least_opening: match stores.is_empty() {
            true => perigee_sal::TAKE_OVER,
            false => Duration::ZERO,
        },
        ..SalConfig::new(settings.db)
    };
    let sal = Sal::open(config, log, pages)
        .await
        .map_err(NodeError::component)?;
    let engine_config = EngineConfig {
        buffer_pool: settings.buffer_pool,
        look_ahead: settings.look_ahead,
        temp_dir: settings.temp_dir.clone(),
        measure_costs: settings.measure_costs,
        interpret: settings.interpret,
        all_ambiguous: settings.all_ambiguous,
        past_pool: settings.split_behind_scans,
        split_behind_scans: settings.split_behind_scans,
        ..EngineConfig::default()
    };
    let engine = Engine::open(sal, engine_config)
        .await
        .map_err(NodeError::component)?;
    let registry = ConnectionRegistry::new();
    let status = Arc::new(Status {
        engine: engine.clone(),
        transport: transport.clone(),
        registry: registry.clone(),
    });
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let frontend_config = FrontendConfig {
        threads: settings.threads.unwrap_or(cores),
        query_memory: settings.query_memory,
        total_memory: memory::total(&settings),
        temp_dir: settings.temp_dir.clone(),
        facts: variables(&settings, zone, certificate.as_ref()),
        ..FrontendConfig::default()
    };
    let frontend = WireFrontend::new(engine.clone(), frontend_config, status)?;
    if let Some(file) = &settings.root_password_file {
        give_root_password(&engine, file).await?;
    }
    if let Err(refused) = check_reachable(frontend.shared(), settings.serving.listen) {
        engine.shutdown().await.map_err(NodeError::component)?;
        return Err(refused);
    }
    let pools = pools + settings.buffer_pool;
    let _watch = Watch::begin(frontend.shared().memory().clone(), pools);
    let accounts = CatalogAccounts::new(frontend.shared().clone());
    let part = FrontendPart {
        engine: engine.clone(),
        frontend: frontend.shared().clone(),
        registry: registry.clone(),
        transport,
    };
    let server_config = ServerConfig {
        listen: settings.serving.listen,
        max_connections: settings.max_connections,
        tls: certificate.map(|certificate| certificate.tls),
        require_tls: settings.require_tls,
        ..ServerConfig::default()
    };
    let server = Server::start_in(
        server_config,
        Arc::new(frontend),
        Arc::new(accounts),
        registry,
    )
    .map_err(listen_error)?;
    facts.insert(0, ("serves on", server.address().to_string()));
    facts.push(("database", settings.db.0.to_string()));
    let mut parts: Vec<Box<dyn Part>> = vec![Box::new(part)];
    parts.extend(stores);
    let shown = Arc::new(Shown {
        title,
        role,
        facts,
        parts,
        started,
    });
    let _showing = status::show(status_listener, &shown);
    let signals = announce(&settings.serving, "frontend", server.address())?;
    tokio::select! {
        () = signals.told() => {}
        failed = shown.failed() => {
            // Whoever is connected is told that the server ends.
            server.shutdown(FAILED_PATIENCE).await;
            return Err(failed);
        }
    }
    let report = server.shutdown(ShutdownPatience::default()).await;
    if report.dropped > 0 {
        tracing::warn!("{} connections did not end in time", report.dropped);
    }
    match timeout(ENGINE_END, engine.shutdown()).await {
        Ok(ended) => ended.map_err(NodeError::component),
        Err(_) => {
            // What was committed is in the Log Store: the next start sends the stores what they miss.
            tracing::warn!("the stores do not answer; ending without them");
            Ok(())
        }
    }
}

fn listen_error(error: ServerError) -> NodeError {
    match error {
        ServerError::PortInUse { address } => NodeError::PortInUse {
            address,
            option: LISTEN,
        },
        ServerError::Listen { address, source } => NodeError::listen(address, source, LISTEN),
    }
}

/// What `SHOW STATUS` shows besides the session's own.
struct Status {
    engine: Arc<Engine>,
    transport: Vec<Arc<TransportBytes>>,
    registry: ConnectionRegistry,
}

#[async_trait]
impl StatusSource for Status {
    async fn status(&self) -> Vec<(String, u64)> {
        let mut out = Vec::new();
        let mut put = |name: &str, value: u64| out.push((name.to_owned(), value));
        let clients = self.registry.counters();
        put("Aborted_clients", clients.aborted_clients);
        put("Aborted_connects", clients.aborted_connects);
        put("Bytes_received", clients.bytes_received);
        put("Bytes_sent", clients.bytes_sent);
        put("Connections", clients.connections);
        let (sent, received) = self
            .transport
            .iter()
            .fold((0, 0), |(sent, received), bytes| {
                let (s, r) = bytes.snapshot();
                (sent + s, received + r)
            });
        put("perigee_page_store_bytes_sent", sent);
        put("perigee_page_store_bytes_received", received);
        put("perigee_log_bytes_written", self.engine.sal().log_bytes());
        let pool = self.engine.pool().counters();
        put("perigee_buffer_pool_hits", pool.hits);
        put("perigee_buffer_pool_misses", pool.misses);
        put("perigee_buffer_pool_pages", pool.resident as u64);
        put("perigee_pages_shipped", pool.misses);
        match self.engine.sal().page_store_status().await {
            Ok(stores) => {
                let live = stores.iter().map(|s| s.live_bytes).sum();
                let disk = stores.iter().map(|s| s.disk_bytes).sum();
                let slices = stores.iter().flat_map(|s| &s.slices);
                let backlog = slices.map(|(_, status)| status.backlog_bytes).sum();
                put("perigee_page_store_live_bytes", live);
                put("perigee_page_store_disk_bytes", disk);
                put("perigee_page_store_backlog_bytes", backlog);
            }
            Err(e) => tracing::warn!("the Page Stores' status is unknown: {e}"),
        }
        out
    }
}
