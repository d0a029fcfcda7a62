//! Why a role does not start, in words for the person who started it.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a role ended.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {cause}; choose another with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        cause: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {cause}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: std::io::Error,
    },
    /// A component does not start or failed; its own words.
    #[error("{0}")]
    Component(String),
}

impl NodeError {
    /// An error in the words of a component.
    pub fn component(error: impl std::fmt::Display) -> Self {
        Self::Component(error.to_string())
    }
}
