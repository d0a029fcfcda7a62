//! What a role is told when it starts. Plain values: no component, no connection.

use std::net::SocketAddr;
use std::path::PathBuf;

use perigee_types::DbId;

/// Where a role serves.
#[derive(Clone, Debug)]
pub struct Serving {
    /// Address to listen on; port 0 takes any free one.
    pub listen: SocketAddr,
    /// File to write the address to once the role serves.
    pub ready_file: Option<PathBuf>,
    /// Where it shows what it does.
    pub status: StatusListen,
}

/// Where a process shows what it does, over HTTP. Port 0 takes any free one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusListen {
    /// Nowhere.
    Off,
    /// At an address that somebody asked for: it is an error if it cannot be had.
    At(SocketAddr),
    /// At an address that nobody asked for: if it cannot be had, nowhere.
    Try(SocketAddr),
}

/// Settings of a Log Store process.
#[derive(Clone, Debug)]
pub struct LogStoreSettings {
    /// Where it serves.
    pub serving: Serving,
    /// Its directory.
    pub data: PathBuf,
}

/// Settings of a Page Store process.
#[derive(Clone, Debug)]
pub struct PageStoreSettings {
    /// Where it serves.
    pub serving: Serving,
    /// Its directory.
    pub data: PathBuf,
    /// Memory for page versions, in bytes.
    pub pool_bytes: usize,
    /// Threads for near-data processing; `None` for one a core.
    pub ndp_threads: Option<usize>,
    /// Memory for the groups of one NDP read, in bytes; `None` for the default.
    pub ndp_group_bytes: Option<usize>,
    /// Declines every n-th page of NDP reads, for tests.
    pub decline_every: Option<u32>,
}

/// Where a frontend has its TLS certificate from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsSettings {
    /// There is none: clients cannot encrypt.
    Off,
    /// One that it makes itself, and keeps if it has a directory.
    Own,
    /// Files in PEM form.
    Files {
        /// The certificate, and those that lead to the one that signed it.
        certificate: PathBuf,
        /// Its private key.
        key: PathBuf,
    },
}

/// Settings that a frontend has whether its stores are processes or in its own.
#[derive(Clone, Debug)]
pub struct FrontendSettings {
    /// Where it serves MySQL clients.
    pub serving: Serving,
    /// The database whose frontend it is.
    pub db: DbId,
    /// Buffer pool, in bytes.
    pub buffer_pool: usize,
    /// Size of a slice in bytes, for a database that is made anew.
    pub slice_bytes: u64,
    /// Leaf pages a batch read asks for at most.
    pub look_ahead: usize,
    /// Memory of one query before it spills, in bytes.
    pub query_memory: usize,
    /// Memory of all connections together for commands and statements, in bytes; `None` for twice that of one
    /// query, at least 1 GiB, and at most half of the machine's.
    pub total_memory: Option<usize>,
    /// Where queries spill and loads sort.
    pub temp_dir: Option<PathBuf>,
    /// Directory of the files that statements read and write; `None` if they may not.
    pub secure_file_priv: Option<PathBuf>,
    /// Threads for queries; `None` for one a core.
    pub threads: Option<usize>,
    /// Most connections at once.
    pub max_connections: usize,
    /// Time zone of sessions that set none: what `time_zone` may be.
    pub time_zone: String,
    /// The certificate it shows to clients.
    pub tls: TlsSettings,
    /// Refuse clients that do not encrypt.
    pub require_tls: bool,
    /// File with a password for root, for a start at which it has none.
    pub root_password_file: Option<PathBuf>,
    /// Plan by what work costs on this system, as it is measured, and push what costs less.
    pub measure_costs: bool,
    /// Run expressions in the interpreter instead of compiling them.
    pub interpret: bool,
    /// Make every record ambiguous to the Page Stores (watermark 0), for tests.
    pub all_ambiguous: bool,
    /// Have the Page Stores reduce all leaves of NDP scans, cached or not, and split one between
    /// each request and its answer, for tests.
    pub split_behind_scans: bool,
}

/// Settings of one process that is everything.
#[derive(Clone, Debug)]
pub struct EmbeddedSettings {
    /// The frontend's part.
    pub frontend: FrontendSettings,
    /// Directory of the stores.
    pub data: PathBuf,
    /// Memory for page versions in the Page Store, in bytes.
    pub pool_bytes: usize,
    /// Declines every n-th page of NDP reads, for tests.
    pub decline_every: Option<u32>,
}
