//! The storage abstraction layer: the library inside a frontend through which everything reaches
//! storage (taurus-2020 section 3.5).
//!
//! ```text
//! append ─> log buffer ─> flusher ─> PLogs            (durable LSN: commits are acknowledged)
//!                            └─> distributor ─> slices ─> Page Stores   (CV-LSN)
//! read_pages, ndp_read ─> one request a slice, all at once ─> Page Stores
//! ```
//!
//! Invariants:
//! - L1: LSNs are given out without gaps, and a restart goes on where the log ends;
//! - L5: the durable LSN never passes a group that the Log Store has not acknowledged, and nothing
//!   above it is sent to a Page Store;
//! - P9: the CV-LSN never passes the durable LSN, and advances by whole database log buffers;
//! - S7: once another frontend has opened the database, this one writes and reads nothing;
//! - a write that a store does not take is repeated until it does, and reads go on meanwhile;
//! - a failure that no repetition can mend (another writer has taken over, the stores contradict
//!   each other) stops the layer for good: nothing is acknowledged after it.
//!
//! It does not know what pages mean beyond the superblock's geometry, and it caches nothing.

mod capabilities;
mod config;
mod cv;
mod distribute;
mod error;
mod fence;
mod filters;
mod flush;
mod geometry;
mod link;
mod log_buffer;
mod maintain;
mod outage;
mod plogs;
mod read;
mod recover;
mod retire;
mod retry;
mod room;
mod sal;
mod slice;
mod superblock;
mod throttle;
mod waiters;

pub use config::SalConfig;
pub use error::SalError;
pub use fence::TAKE_OVER;
pub use filters::SentFilter;
pub use geometry::Geometry;
pub use link::LinkCost;
pub use outage::Outage;
pub use read::{NdpPart, NdpParts, NdpWork};
pub use sal::{LATEST, Progress, Sal, SliceProgress};
pub use superblock::{SUPERBLOCK, SUPERBLOCK_RESERVED};
pub use throttle::Purpose;
