//! The buffer pool: pages in memory, read through the SAL, never written (SPEC's S1).
//!
//! Invariants:
//! - P9: a page leaves the pool only if its newest change is at or below the slice persistent LSN,
//!   so that the next read finds it on the Page Store;
//! - a page is in the pool at most once, and at most one read of it is on its way. While a page is
//!   out, nobody can change it; so what a read brings is its newest version;
//! - latches (`parking_lot`) are never held across an await: guards are not `Send`, the compiler
//!   refuses it. `docs/locks.md` has the order.
//!
//! A page's bytes are shared: a reader takes a [`Page`] under the shared latch and keeps it without
//! any latch; a writer that finds the bytes shared copies them first. This is how scans keep a
//! consistent version of cached leaves without copying each (SPEC's N5).
//!
//! What a near-data scan gets from storage is the scan's alone, but its memory is the pool's: the pool
//! keeps fewer pages meanwhile (`lent`).

mod flight;
mod frame;
mod lent;
mod pool;
mod shard;

pub use flight::PageLoad;
pub use frame::{Frame, Page, PageBytes};
pub use pool::{Access, BufferPool, PoolCounters};

pub(crate) use frame::WriteLatch;
pub(crate) use pool::TreeLatch;
