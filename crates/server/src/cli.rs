//! The command line: what can be asked of the binary, and handing it on.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use perigee_node::{
    EmbeddedSettings, FrontendSettings, LogStoreSettings, PageStoreSettings, Serving, StatusListen,
    TlsSettings,
};
use perigee_types::DbId;

use crate::inspect::{self, Inspect};
use crate::size::Size;
use crate::transfer::{self, Export, Import};

/// A MySQL-protocol database whose storage is disaggregated from its compute and which reduces data
/// inside the storage (near-data processing).
///
/// Try `perigee demo` first. To use it: `perigee serve`, then `mariadb -h 127.0.0.1 -P 3306 -u root`.
/// The environment variable PERIGEE_LOG sets what is logged (error, warn, info, debug, trace).
#[derive(Debug, Parser)]
#[command(name = "perigee", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Everything in one process over a local directory: the simplest way to run Perigee
    Serve(Serve),
    /// A SQL node: MySQL clients connect to it; it keeps nothing on disk
    Frontend(Frontend),
    /// A store for the log: what is committed is on its disk
    LogStore(LogStore),
    /// A store for pages, made from the log; reduces them for NDP scans
    PageStore(PageStore),
    /// Make TPC-H data, start a cluster on this machine, run the 22 queries with NDP off and on
    Demo(Demo),
    /// Copy a MySQL or MariaDB server, or CSV and Parquet files, into a running Perigee
    Import(Box<Import>),
    /// Write tables, or the result of a query, of a running Perigee to Parquet or CSV files
    Export(Export),
    /// Look at a page, the log or a slice on disk: verified and made readable
    #[command(subcommand)]
    Inspect(Inspect),
}

#[derive(Debug, Args)]
struct Listen {
    /// Address to listen on; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Write the address to this file once connections are accepted
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// Address to show the process's status on, over HTTP: a page and Prometheus metrics; port 0 takes
    /// any free port, "off" shows nothing. On loopback, 1000 above the port of --listen, if not given
    #[arg(long, value_name = "ADDRESS")]
    status_listen: Option<StatusAddress>,
}

/// What --status-listen says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatusAddress {
    Off,
    At(SocketAddr),
}

impl FromStr for StatusAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let address = text.parse().map(Self::At);
        address.map_err(|_| format!("{text:?} is no address like 127.0.0.1:4306, and not \"off\""))
    }
}

/// Where a process that listens on `listen` shows its status if it was not told: processes that share a
/// machine have other ports to serve on, and so other ports to show this on.
fn default_status(listen: SocketAddr) -> SocketAddr {
    let port = match listen.port() {
        0 => 0,
        port => port.checked_add(1000).unwrap_or(0),
    };
    SocketAddr::from(([127, 0, 0, 1], port))
}

impl Listen {
    fn serving(&self, default_port: u16) -> Serving {
        let default = SocketAddr::from(([127, 0, 0, 1], default_port));
        let listen = self.listen.unwrap_or(default);
        Serving {
            listen,
            ready_file: self.ready_file.clone(),
            status: match self.status_listen {
                None => StatusListen::Try(default_status(listen)),
                Some(StatusAddress::Off) => StatusListen::Off,
                Some(StatusAddress::At(address)) => StatusListen::At(address),
            },
        }
    }
}

#[derive(Debug, Args)]
struct FrontendOptions {
    #[command(flatten)]
    listen: Listen,
    /// Memory for pages in the frontend
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    buffer_pool: Size,
    /// Size of the slices of a new database; each lies on one Page Store
    #[arg(long, value_name = "SIZE", default_value = "10GiB")]
    slice_size: Size,
    /// Most leaf pages that one batch read asks for; bounds the memory of a scan
    #[arg(long, value_name = "PAGES", default_value_t = 1000)]
    look_ahead: usize,
    /// Memory of a query before it spills to disk (the variable query_memory_limit)
    #[arg(long, value_name = "SIZE", default_value = "2GiB")]
    query_memory: Size,
    /// Memory of all connections together for commands and statements; if not given, twice that of a query, at least
    /// 1 GiB, and at most half of the machine's
    #[arg(long, value_name = "SIZE")]
    total_query_memory: Option<Size>,
    /// Directory for what queries and loads spill
    #[arg(long, value_name = "DIR")]
    temp_dir: Option<PathBuf>,
    /// Directory of the files that LOAD DATA INFILE reads and SELECT … INTO OUTFILE writes; if not given, they may not (the
    /// variable secure_file_priv)
    #[arg(long, value_name = "DIR")]
    secure_file_priv: Option<PathBuf>,
    /// Threads for queries; one a core if not given
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Most client connections at once
    #[arg(long, value_name = "N", default_value_t = 151)]
    max_connections: usize,
    /// Time zone of sessions that set none (the variable time_zone): SYSTEM, which is UTC, an offset such as +05:30, or a
    /// name such as Europe/Berlin
    #[arg(long, value_name = "ZONE", default_value = "SYSTEM")]
    default_time_zone: String,
    /// Certificate for TLS, in PEM form, with those that lead to the one that signed it. Without it a certificate is
    /// made that signs itself; `serve` keeps it in its directory
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_key",
        conflicts_with = "no_tls"
    )]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM form
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Refuse clients that do not encrypt their connection with TLS (require_secure_transport)
    #[arg(long, conflicts_with = "no_tls")]
    require_tls: bool,
    /// Have no TLS
    #[arg(long)]
    no_tls: bool,
    /// File with a password that root is given at a start at which it has none, for connections from everywhere
    #[arg(long, value_name = "FILE")]
    root_password_file: Option<PathBuf>,
    /// Number of the database in the stores, which serve many
    #[arg(long, value_name = "N", default_value_t = 1)]
    database: u32,
    /// Measure what work costs on this system, and have storage do what costs less there. Otherwise thresholds decide
    /// (ndp_min_pages and its like), and plans are the same on every system
    #[arg(long)]
    measure_costs: bool,
    /// Interpret expressions instead of compiling them
    #[arg(long, hide = true)]
    interpret: bool,
    /// Make Page Stores return every record whole, as if none were surely visible
    #[arg(long, hide = true)]
    all_ambiguous: bool,
    /// Split a leaf between each NDP request and its answer
    #[arg(long, hide = true)]
    split_behind_scans: bool,
}

impl FrontendOptions {
    fn tls(&self) -> TlsSettings {
        match (&self.tls_cert, &self.tls_key) {
            _ if self.no_tls => TlsSettings::Off,
            (Some(certificate), Some(key)) => TlsSettings::Files {
                certificate: certificate.clone(),
                key: key.clone(),
            },
            _ => TlsSettings::Own,
        }
    }

    fn settings(&self) -> FrontendSettings {
        FrontendSettings {
            serving: self.listen.serving(3306),
            db: DbId(self.database),
            buffer_pool: self.buffer_pool.0 as usize,
            slice_bytes: self.slice_size.0,
            look_ahead: self.look_ahead,
            query_memory: self.query_memory.0 as usize,
            total_memory: self.total_query_memory.map(|size| size.0 as usize),
            temp_dir: self.temp_dir.clone(),
            secure_file_priv: self.secure_file_priv.clone(),
            threads: self.threads,
            max_connections: self.max_connections,
            time_zone: self.default_time_zone.clone(),
            tls: self.tls(),
            require_tls: self.require_tls,
            root_password_file: self.root_password_file.clone(),
            measure_costs: self.measure_costs,
            interpret: self.interpret,
            all_ambiguous: self.all_ambiguous,
            split_behind_scans: self.split_behind_scans,
        }
    }
}

#[derive(Debug, Args)]
struct Serve {
    #[command(flatten)]
    frontend: FrontendOptions,
    /// Directory for log and pages
    #[arg(long, value_name = "DIR", default_value = "perigee-data")]
    data: PathBuf,
    /// Memory for page versions in the Page Store
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pool: Size,
    /// Decline every n-th page of NDP reads
    #[arg(long, value_name = "N", hide = true)]
    decline_every: Option<u32>,
}

#[derive(Debug, Args)]
struct Frontend {
    #[command(flatten)]
    options: FrontendOptions,
    /// Address of the Log Store
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7201")]
    log_store: String,
    /// Address of a Page Store; give it once for each, always in the same order
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7301")]
    page_store: Vec<String>,
}

#[derive(Debug, Args)]
struct LogStore {
    #[command(flatten)]
    listen: Listen,
    /// Directory for the log
    #[arg(long, value_name = "DIR", default_value = "perigee-log")]
    data: PathBuf,
}

#[derive(Debug, Args)]
struct PageStore {
    #[command(flatten)]
    listen: Listen,
    /// Directory for slices
    #[arg(long, value_name = "DIR", default_value = "perigee-pages")]
    data: PathBuf,
    /// Memory for page versions
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pool: Size,
    /// Threads for near-data processing; one a core if not given
    #[arg(long, value_name = "N")]
    ndp_threads: Option<usize>,
    /// Memory for the groups of one request's aggregation; a database has four times as much for all its requests
    #[arg(long, value_name = "SIZE", default_value = "16MiB")]
    ndp_group_memory: Size,
    /// Decline every n-th page of NDP reads
    #[arg(long, value_name = "N", hide = true)]
    decline_every: Option<u32>,
}

#[derive(Debug, Args)]
struct Demo {
    /// TPC-H scale factor: 0.1 is about 100 MB of data
    #[arg(long, default_value_t = 0.1)]
    scale: f64,
    /// Directory for data, stores and the report
    #[arg(long, value_name = "DIR", default_value = "perigee-demo")]
    dir: PathBuf,
}

/// How long threads may take to end when all is done.
const THREADS_END: Duration = Duration::from_secs(2);

/// Stack of a thread: as much as a statement's planning is given, which otherwise gets a stack of its own
/// each time. Memory is taken when it is used.
const THREAD_STACK: usize = 40 << 20;

/// Does what the command line asks; an error is for a person to read.
pub fn run(cli: Cli) -> Result<(), String> {
    if let Command::PageStore(_) = cli.command {
        perigee_node::answer_at_once();
    }
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    // One more, since one may wait for the disk.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores + 1)
        .thread_stack_size(THREAD_STACK)
        .enable_all()
        .build()
        .map_err(|e| format!("cannot start threads: {e}"))?;
    let result = runtime.block_on(dispatch(cli.command));
    // What still runs on a thread of its own (a read from a slow disk, say) is not waited for.
    runtime.shutdown_timeout(THREADS_END);
    result
}

async fn dispatch(command: Command) -> Result<(), String> {
    match command {
        Command::Serve(serve) => {
            let settings = EmbeddedSettings {
                frontend: serve.frontend.settings(),
                data: serve.data,
                pool_bytes: serve.pool.0 as usize,
                decline_every: serve.decline_every,
            };
            perigee_node::run_embedded(settings)
                .await
                .map_err(|e| e.to_string())
        }
        Command::Frontend(frontend) => {
            let (log_store, page_stores) = (frontend.log_store, frontend.page_store);
            let settings = frontend.options.settings();
            perigee_node::run_frontend(settings, &log_store, &page_stores)
                .await
                .map_err(|e| e.to_string())
        }
        Command::LogStore(store) => {
            let settings = LogStoreSettings {
                serving: store.listen.serving(7201),
                data: store.data,
            };
            perigee_node::run_log_store(settings)
                .await
                .map_err(|e| e.to_string())
        }
        Command::PageStore(store) => {
            let settings = PageStoreSettings {
                serving: store.listen.serving(7301),
                data: store.data,
                pool_bytes: store.pool.0 as usize,
                ndp_threads: store.ndp_threads,
                ndp_group_bytes: Some(store.ndp_group_memory.0 as usize),
                decline_every: store.decline_every,
            };
            perigee_node::run_page_store(settings)
                .await
                .map_err(|e| e.to_string())
        }
        Command::Demo(demo) => run_demo(demo).await,
        Command::Import(import) => transfer::import(*import).await,
        Command::Export(export) => transfer::export(export).await,
        Command::Inspect(what) => inspect::run(what).await,
    }
}

fn this_binary() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|e| format!("cannot find this binary: {e}"))
}

async fn run_demo(demo: Demo) -> Result<(), String> {
    let binary = this_binary()?;
    let options = perigee_workload::demo::DemoOptions {
        binary,
        scale: demo.scale,
        dir: demo.dir,
    };
    let report = perigee_workload::demo::demo(&options)
        .await
        .map_err(|e| e.to_string())?;
    println!("the report is {}", report.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_status_is_shown() {
        let at = |text: &str| text.parse::<SocketAddr>();
        assert_eq!("off".parse(), Ok(StatusAddress::Off));
        let address = at("127.0.0.1:9999").map(StatusAddress::At);
        assert_eq!("127.0.0.1:9999".parse::<StatusAddress>().ok(), address.ok());
        for wrong in ["", "on", "9999", "localhost", "127.0.0.1:70000"] {
            assert!(wrong.parse::<StatusAddress>().is_err(), "{wrong}");
        }
        for (listen, shown) in [
            ("127.0.0.1:3306", "127.0.0.1:4306"),
            ("0.0.0.0:7301", "127.0.0.1:8301"),
            ("[::1]:7302", "127.0.0.1:8302"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("127.0.0.1:65000", "127.0.0.1:0"),
        ] {
            let got = at(listen).map(default_status);
            assert_eq!(got, at(shown), "{listen}");
        }
    }
}
