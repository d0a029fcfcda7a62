//! Overflow pages: the parts of a long value that does not fit into its row.
//!
//! The pages of a value are a *chain*, linked by the right sibling in their headers. A chain has a
//! number of its own, which no other ever has, and each page carries it: who follows a reference to
//! a chain that is not there any more finds that out. Body, from the end of the page header
//! (`docs/format/page.md`):
//!
//! ```text
//! 0   8  number of the chain
//! 8   4  number of bytes of the value on the pages before
//! 12  2  number of bytes of the value on this page, at least 1
//! 14  …  these bytes
//! ```

use perigee_types::PAGE_SIZE;

use crate::{HEADER_LEN, PageFormatError, PageKind, PageRef};

/// Length of the body's fixed part.
const HEAD_LEN: usize = 14;

/// Most bytes of a value that a page takes.
pub const OVERFLOW_CAPACITY: usize = PAGE_SIZE - HEADER_LEN - HEAD_LEN;

/// An overflow page to read.
#[derive(Clone, Copy)]
pub struct OverflowPage<'a> {
    body: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> OverflowPage<'a> {
    /// The overflow page over a page.
    ///
    /// # Errors
    /// If it is of another kind, or has an impossible number of bytes.
    pub fn new(page: PageRef<'a>) -> Result<Self, PageFormatError> {
        let broken = |what| {
            Err(PageFormatError::Structure {
                page: page.id(),
                what,
            })
        };
        if page.kind() != PageKind::Overflow {
            return broken("not an overflow page");
        }
        let body = &page.bytes()[HEADER_LEN..];
        let len = usize::from(u16::from_le_bytes([body[12], body[13]]));
        if !(1..=OVERFLOW_CAPACITY).contains(&len) {
            return broken("impossible number of bytes on an overflow page");
        }
        let bytes = &body[HEAD_LEN..HEAD_LEN + len];
        Ok(Self { body, bytes })
    }

    /// Number of the chain.
    #[must_use]
    pub fn chain(self) -> u64 {
        u64::from_le_bytes(self.body[..8].try_into().expect("eight bytes"))
    }

    /// Number of bytes of the value on the pages before.
    #[must_use]
    pub fn start(self) -> u32 {
        u32::from_le_bytes(self.body[8..12].try_into().expect("four bytes"))
    }

    /// The bytes of the value on this page.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }
}

/// The body of a page of a chain: what is to be written behind the page header.
///
/// # Panics
/// If there are no bytes, or more than [`OVERFLOW_CAPACITY`].
#[must_use]
pub fn overflow_body(chain: u64, start: u32, bytes: &[u8]) -> Vec<u8> {
    assert!(
        (1..=OVERFLOW_CAPACITY).contains(&bytes.len()),
        "V8: {} bytes on an overflow page",
        bytes.len()
    );
    let mut body = Vec::with_capacity(HEAD_LEN + bytes.len());
    body.extend_from_slice(&chain.to_le_bytes());
    body.extend_from_slice(&start.to_le_bytes());
    body.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
    body.extend_from_slice(bytes);
    body
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use perigee_types::{DbId, IndexId, PageId};

    use super::*;
    use crate::{PageMut, RecordShape};

    fn page(bytes: &[u8]) -> Box<[u8; PAGE_SIZE]> {
        let mut page = Box::new([0; PAGE_SIZE]);
        let owner = (DbId(1), IndexId(7));
        let links = (PageId(0), PageId(78));
        let mut changed = PageMut::new(&mut page);
        changed
            .format(
                PageId(77),
                (PageKind::Overflow, 0),
                owner,
                RecordShape::default(),
                links,
            )
            .unwrap();
        let body = overflow_body(1 << 40, 5, bytes);
        changed.write(HEADER_LEN as u16, &body).unwrap();
        page
    }

    #[test]
    fn what_is_written_is_read_verified_and_shown() {
        for len in [1, 100, OVERFLOW_CAPACITY] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let page = page(&bytes);
            let page = PageRef::new(&page[..]).unwrap();
            page.verify().unwrap();
            let part = OverflowPage::new(page).unwrap();
            assert_eq!((part.chain(), part.start()), (1 << 40, 5));
            assert_eq!(part.bytes(), bytes);
            assert_eq!(page.next(), Some(PageId(78)));
            let shown = format!("chain {} bytes 5 to {}", 1_u64 << 40, 5 + len);
            assert!(page.dump().contains(&shown), "{}", page.dump());
        }
    }

    #[test]
    fn impossible_lengths_are_found() {
        for len in [0, OVERFLOW_CAPACITY as u16 + 1, u16::MAX] {
            let mut page = page(b"abc");
            page[HEADER_LEN + 12..][..2].copy_from_slice(&len.to_le_bytes());
            let error = PageRef::new(&page[..]).unwrap().verify().unwrap_err();
            assert!(error.to_string().contains("number of bytes"), "{error}");
            assert!(error.to_string().contains("77"), "{error}");
        }
    }
}
