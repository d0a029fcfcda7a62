//! The 16 KiB slotted page: header, records, slot directory; reading it, changing it one operation
//! at a time, verifying and dumping it. `docs/format/page.md` shows it byte by byte.
//!
//! A page describes its own structure: the header says how long records are and where their key
//! lies ([`RecordShape`]), so that a Page Store can verify order, apply redo and find records
//! without a schema. What the bytes of a record mean is the `value` crate's business.
//!
//! Faces: [`PageRef`] reads, [`PageMut`] applies single changes. Neither allocates, logs or does
//! I/O. A page in memory has a stale checksum until [`PageMut::seal`] is called before it leaves.

mod dump;
mod error;
mod header;
mod mutate;
mod overflow;
mod record;
mod verify;

pub use error::PageFormatError;
pub use header::{HEADER_LEN, PageKind, PageRef};
pub use mutate::PageMut;
pub use overflow::{OVERFLOW_CAPACITY, OverflowPage, overflow_body};
pub use record::{
    CLUSTERED_HEADER_LEN, PLAIN_HEADER_LEN, RecordFlags, RecordHeader, RecordShape, inner_record,
};
