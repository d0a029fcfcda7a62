//! The vocabulary every other crate speaks: identifiers, log sequence numbers, page geometry,
//! little-endian encoding and checksums.
//!
//! Be mindful of what is added here: a thing belongs in this crate only if formats, storage and
//! frontend all name it. There is no I/O, no policy and no SQL in this crate.

mod codec;
mod ids;

pub use codec::{DecodeError, Reader, Writer, checksum};
pub use ids::{DbId, IndexId, Lsn, PageId, PlogId, RollPtr, SliceId, TableId, TrxId};

/// Size of a page in bytes. Every page of a database has this size, in memory, on disk and on the
/// wire (taurus-2020 section 3.4 uses the page size of InnoDB).
pub const PAGE_SIZE: usize = 16 * 1024;
