//! What can be wrong with the bytes of a page, or with a change asked of it.

use perigee_types::PageId;

/// Why bytes are not a good page, or a change does not fit the page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageFormatError {
    /// The buffer is not one page long.
    #[error("a page has {expected} bytes, not {found}", expected = perigee_types::PAGE_SIZE)]
    Length {
        /// Its length.
        found: usize,
    },
    /// The checksum does not match the contents.
    #[error("{page}: checksum is {found:#010x}, contents give {expected:#010x}")]
    Checksum {
        /// Id the page claims.
        page: PageId,
        /// Stored checksum.
        found: u32,
        /// Checksum of the contents.
        expected: u32,
    },
    /// The page is of a format version this program does not know.
    #[error("{page}: unknown page format version {version}")]
    Version {
        /// Id the page claims.
        page: PageId,
        /// Its version.
        version: u8,
    },
    /// The structure of the page is broken.
    #[error("{page}: {what}")]
    Structure {
        /// Id the page claims.
        page: PageId,
        /// What is broken.
        what: &'static str,
    },
    /// The record at a slot is broken.
    #[error("{page} slot {slot}: {what}")]
    Record {
        /// Id the page claims.
        page: PageId,
        /// Its slot.
        slot: u16,
        /// What is broken.
        what: &'static str,
    },
    /// A change names a slot the page does not have.
    #[error("{page}: no slot {slot}, the page has {slots}")]
    Slot {
        /// Id of the page.
        page: PageId,
        /// The slot asked for.
        slot: u16,
        /// Number of slots.
        slots: u16,
    },
    /// A change needs more space than the page has.
    #[error("{page}: {needed} bytes do not fit, {free} are free")]
    Full {
        /// Id of the page.
        page: PageId,
        /// Bytes needed, slots included.
        needed: usize,
        /// Bytes free after compaction.
        free: usize,
    },
}
