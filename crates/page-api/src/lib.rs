//! What a Page Store offers: the [`PageStore`] trait, its messages and errors (taurus-2020 section
//! 3.4; taurus-ndp sections IV.C and IV.D), and the two halves that carry it over gRPC:
//! [`PageStoreClient`] and [`serve`].
//!
//! The API carries log groups down and pages or NDP results up, all as opaque bytes: it knows
//! neither the page format nor the NDP descriptor, so that other database engines could use it.
//!
//! With the feature `conformance` it also holds the tests that every implementation of the trait
//! must pass, and a reference model in memory.

mod client;
#[cfg(feature = "conformance")]
pub mod conformance;
mod cpu;
mod error;
mod filter;
mod lanes;
mod server;
mod status;
mod store;
mod transport;

pub use client::{ClientConfig, PageStoreClient};
pub use cpu::{give_way, thread_cpu_nanos};
pub use error::PageError;
pub use filter::{Capabilities, FilterHash, MAX_FILTERS, NdpFilter, NdpFilterUse};
pub use lanes::incoming;
pub use server::{Adapter, PageStoreServer, serve, serve_apart, transport};
pub use store::{
    ANY_EPOCH, Fragment, MAX_FRAGMENT, MAX_PAGES, NdpDecline, NdpItem, NdpRead, NdpReply,
    NdpStream, NdpUsage, PageStore, ReadPages, SliceKey, SliceStatus, StoreStatus,
};
pub use transport::{Counted, TransportBytes};

#[allow(
    missing_docs,
    reason = "generated from proto/page.proto, which is documented"
)]
#[allow(clippy::all, reason = "generated")]
#[allow(unused_qualifications, reason = "generated")]
mod proto {
    tonic::include_proto!("perigee.page.v1");
}

/// Longest gRPC message either side accepts: the longest fragment and room for the fields around
/// it. NDP replies are far shorter: a worker flushes its batch every few thousand rows.
const MAX_MESSAGE: usize = MAX_FRAGMENT + (64 << 10);
