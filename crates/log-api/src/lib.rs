//! What a Log Store offers: the [`LogStore`] trait, its messages and errors (taurus-2020 section
//! 3.3), and the two halves that carry it over gRPC: [`LogStoreClient`] and [`serve`]. The crate
//! knows nothing of what the log says: payloads are opaque bytes.
//!
//! A *PLog* is a size-limited, append-only object. The log of a database is an ordered collection
//! of PLogs; at most one of them, the youngest, is open.
//!
//! With the feature `conformance` it also holds the tests that every implementation of the trait
//! must pass, and a reference model in memory.

mod client;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod server;
mod status;
mod store;

pub use client::{ClientConfig, LogStoreClient};
pub use error::LogError;
pub use server::{LogStoreServer, connections, serve, transport};
pub use store::{Append, LogEntry, LogStore, MAX_APPEND, PLOG_SIZE, PlogInfo, PlogKey};

#[allow(
    missing_docs,
    reason = "generated from proto/log.proto, which is documented"
)]
#[allow(clippy::all, reason = "generated")]
#[allow(unused_qualifications, reason = "generated")]
mod proto {
    tonic::include_proto!("perigee.log.v1");
}

/// Longest gRPC message either side accepts: the longest payload and room for the fields around it.
const MAX_MESSAGE: usize = MAX_APPEND + (64 << 10);
