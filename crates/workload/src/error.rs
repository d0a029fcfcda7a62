//! What can go wrong while a workload runs.

/// Why a workload stopped.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// A server answered with an error, or its connection broke.
    #[error("{0}")]
    Client(#[from] mysql_async::Error),
    /// A file or a process.
    #[error("{what}: {cause}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        cause: std::io::Error,
    },
    /// A process did not do what was expected of it; the text says where its log is.
    #[error("{0}")]
    Process(String),
    /// Two answers that must be equal differ, or a result has the wrong form.
    #[error("{0}")]
    Unexpected(String),
}

impl WorkloadError {
    /// The number of the error with which a server answered; none if it did not answer.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Client(mysql_async::Error::Server(error)) => Some(error.code),
            _ => None,
        }
    }

    /// Adds what was tried to an I/O error.
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |cause| Self::Io { what, cause }
    }
}
