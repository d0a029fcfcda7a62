//! What a server can be told when it starts.

use std::net::SocketAddr;
use std::time::Duration;

use crate::auth::AuthMethod;
use crate::tls::Tls;

/// Settings of a server. The defaults are MySQL's, except where a comment says otherwise.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Address to listen on. Loopback by default.
    pub listen: SocketAddr,
    /// Most connections at a time (`max_connections`); one more gets error 1040.
    pub max_connections: usize,
    /// Most connections at a time that have not logged in; one more has an older one ended, of the
    /// address that has most. They do not count for `max_connections`.
    pub max_unfinished_logins: usize,
    /// Longest command in bytes (`max_allowed_packet`); a longer one gets error 1153.
    pub max_allowed_packet: usize,
    /// Longest time to log in (`connect_timeout`).
    pub connect_timeout: Duration,
    /// Longest silence of a program (`wait_timeout`).
    pub wait_timeout: Duration,
    /// Longest silence of a person (`interactive_timeout`).
    pub interactive_timeout: Duration,
    /// Longest silence inside a packet or a file (`net_read_timeout`).
    pub net_read_timeout: Duration,
    /// Longest time a client may take nothing of a result (`net_write_timeout`).
    pub net_write_timeout: Duration,
    /// Bytes of a result kept before they are sent (`net_buffer_length`). A row may exceed it. More
    /// than MySQL's 16 KiB, because results come in batches.
    pub net_buffer_length: usize,
    /// The method of authentication that the greeting names.
    pub default_auth: AuthMethod,
    /// Certificate and key, if clients may turn their connections to TLS.
    pub tls: Option<Tls>,
    /// Refuse clients who do not (`require_secure_transport`): error 3159.
    pub require_tls: bool,
}

impl Default for ServerConfig {
    fn default() -> Self {
        const HOUR: u64 = 60 * 60;
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 3306)),
            max_connections: 151,
            // Each has a socket and some KiB. A client that is not slower than the others has done
            // with its login long before as many have come after it.
            max_unfinished_logins: 512,
            max_allowed_packet: 64 << 20,
            connect_timeout: Duration::from_secs(10),
            wait_timeout: Duration::from_secs(8 * HOUR),
            interactive_timeout: Duration::from_secs(8 * HOUR),
            net_read_timeout: Duration::from_secs(30),
            net_write_timeout: Duration::from_secs(60),
            net_buffer_length: 64 << 10,
            default_auth: AuthMethod::CachingSha2Password,
            tls: None,
            require_tls: false,
        }
    }
}
