//! The MySQL protocol, server side: packets, login, commands, result sets; everything a `mysql`
//! command line or a driver says on its socket, and nothing about SQL.
//!
//! A [`Server`] listens and runs one task for each connection. It serves a [`Frontend`], which makes
//! a [`Session`] for each client; the session runs the text of a query, or a statement it has
//! prepared, and hands its results, Arrow record batches described by [`Column`]s, to a
//! [`ResultSink`]. The bytes are described in
//! `docs/protocol/mysql.md`.
//!
//! Naming: a *packet* or *payload* is one message, which travels in one or more *frames*; a
//! *command* is a client's packet that begins an exchange; a *result* is a result set or an OK; a
//! *response* is all results of one command.
//!
//! Invariants
//! - W1: an error is made with exactly the details its message has places for.
//! - W2: results are handed over in order; see [`ResultSink`].
//! - W3: a client's file is read only after it was asked for, one at a time.
//! - No input of a client can panic, allocate without bound or stop another connection; every
//!   buffer is bounded, long ones of all connections together, and every wait for the client has a deadline.
//! - A cancelled statement is awaited, so that its session can undo it.
//!
//! Not here: SQL, storage, DataFusion. Results are not compressed.

mod admission;
mod auth;
mod binary;
mod cancel;
mod cells;
mod channel;
mod codec;
mod column;
mod columns;
mod command;
mod compress;
mod config;
mod connection;
mod digits;
pub mod errors;
mod flags;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod handshake;
mod login;
mod memory;
mod outlet;
mod parameter;
mod raw_strings;
mod registry;
mod response;
mod server;
mod session;
mod statements;
mod temporal;
mod text;
mod tls;
mod transport;
mod unfinished;

pub use auth::AuthMethod;
pub use cancel::{CancelReason, CancelToken};
pub use column::{
    BINARY_COLLATION, Column, NOT_FIXED_DECIMALS, SqlType, TypeCode, UTF8MB4_0900_AI_CI,
    UTF8MB4_BIN, UTF8MB4_GENERAL_CI, is_utf8mb4,
};
pub use columns::Columns;
pub use config::ServerConfig;
pub use errors::SqlError;
pub use flags::{Capabilities, ColumnFlags, StatusFlags};
pub use memory::Memory;
pub use parameter::{Day, Parameter, TimeOfDay};
pub use registry::{ConnectionHandle, ConnectionRegistry, Counters, NoSuchConnection, ProcessInfo};
pub use server::{Server, ServerError, ShutdownPatience, ShutdownReport};
pub use session::{
    Account, AccountName, Authenticator, ConnectionInfo, Frontend, InfileSource, OkInfo, Prepared,
    ResultSink, Session, SessionStatus, StatementId, StaticAccounts,
};
pub use tls::{TLS_VERSIONS, Tls, TlsError, TlsInfo};
