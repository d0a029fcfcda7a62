//! What can go wrong while data moves.

use std::io;

/// Why a command stopped. The text names what was worked on and says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The command asks for something that cannot be done. Nothing was changed.
    #[error("{0}")]
    Usage(String),
    /// A server refuses a statement, or its connection breaks.
    #[error("{what}: {}", said(.cause))]
    Server {
        /// What was tried.
        what: String,
        /// What came back.
        cause: mysql_async::Error,
    },
    /// A file cannot be read or written.
    #[error("{what}: {cause}")]
    File {
        /// What was tried.
        what: String,
        /// Why it failed.
        cause: io::Error,
    },
    /// The contents of a file or a table do not fit.
    #[error("{0}")]
    Data(String),
    /// Everything was copied, and the target differs from the source.
    #[error("{0}")]
    Differs(String),
    /// Another part of the command failed first.
    #[error("stopped")]
    Stopped,
}

impl TransferError {
    /// Adds what was tried to what a server answered.
    pub(crate) fn server(what: impl Into<String>) -> impl FnOnce(mysql_async::Error) -> Self {
        let what = what.into();
        move |cause| Self::Server { what, cause }
    }

    /// Adds what was tried to an I/O error.
    pub(crate) fn file(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |cause| Self::File { what, cause }
    }

    /// The error with more about where it happened in front of it.
    pub(crate) fn within(self, place: &str) -> Self {
        match self {
            Self::Server { what, cause } => Self::Server {
                what: format!("{place}: {what}"),
                cause,
            },
            Self::Data(text) => Self::Data(format!("{place}: {text}")),
            other => other,
        }
    }
}

/// What a server or its connection says, without the driver's words around it.
pub(crate) fn said(error: &mysql_async::Error) -> String {
    match error {
        mysql_async::Error::Server(error) => {
            format!("error {} ({}): {}", error.code, error.state, error.message)
        }
        mysql_async::Error::Io(mysql_async::IoError::Io(error)) => {
            format!("the connection failed: {error}")
        }
        other => other.to_string(),
    }
}

/// The number of the error with which a server answered.
pub(crate) fn code(error: &mysql_async::Error) -> Option<u16> {
    match error {
        mysql_async::Error::Server(error) => Some(error.code),
        _ => None,
    }
}
