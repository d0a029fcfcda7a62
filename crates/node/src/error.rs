//! Why a role does not start, in words for the person who started it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a role ended.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Another process listens at the address.
    #[error(
        "{address} is in use by another process; stop it or choose another address with {option}"
    )]
    PortInUse {
        /// The address.
        address: SocketAddr,
        /// The option that says where to listen.
        option: &'static str,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {cause}; choose another address with {option}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The option that says where to listen.
        option: &'static str,
        /// What the system says.
        cause: io::Error,
    },
    /// There is no such time zone.
    #[error(
        "{name} is no time zone; give --default-time-zone SYSTEM, an offset such as +05:30, or a name such as Europe/Berlin"
    )]
    TimeZone {
        /// What was given.
        name: String,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {cause}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// The directory of the files of statements cannot be used.
    #[error("{path} cannot be used: {cause}; choose another directory with --secure-file-priv")]
    SecureFiles {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// A file has no certificate or key that can be used.
    #[error("{path} cannot be used for TLS: {cause}; {hint}")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
        /// What to do.
        hint: &'static str,
    },
    /// Everybody on the network could log in as root.
    #[error(
        "root has no password, so the server does not listen on {address}: start it with {LISTEN} 127.0.0.1:{}, set a password \
         with ALTER USER 'root'@'localhost' IDENTIFIED BY '…', make accounts for other machines with CREATE USER, and start \
         it again; or give it a password with --root-password-file", .address.port()
    )]
    OpenRoot {
        /// The address.
        address: SocketAddr,
    },
    /// A file with a password has none.
    #[error(
        "{path} has no password for root: {cause}; choose another file with --root-password-file"
    )]
    PasswordFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// The process can never do its work again, unless it is started anew.
    #[error("the process ends, because it can do no more work until it is started again: {0}")]
    Failed(String),
    /// A component does not start or failed; its own words.
    #[error("{0}")]
    Component(String),
}

/// The option for where a role serves.
pub(crate) const LISTEN: &str = "--listen";

impl NodeError {
    /// The error for an address that cannot be listened on, and the option that chooses another.
    pub(crate) fn listen(address: SocketAddr, cause: io::Error, option: &'static str) -> Self {
        match cause.kind() {
            io::ErrorKind::AddrInUse => Self::PortInUse { address, option },
            _ => Self::Listen {
                address,
                option,
                cause,
            },
        }
    }

    /// An error in the words of a component.
    pub fn component(error: impl std::fmt::Display) -> Self {
        Self::Component(error.to_string())
    }
}
